"""List, net and gross: discount, credits and tax, each to the cent."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import refused
from tests.support.bills import a_run, amounts, answer_to, line_of, total


def priced(currency: str = "USD", **terms: Any) -> dict[str, Any]:
    """8 GPUs for 100 h at 2.00: 1,600 at list."""
    return answer_to(price={"kind": "hourly", "amount": "2", "currency": currency, **terms})


def test_discount_credits_and_tax_by_hand() -> None:
    # 1,600 less 12.5 % is 1,400; less 400 of credits 1,000; 19 % of that is 190.
    answer = priced(discount_percent=12.5, credits="400", tax_percent=19)
    found = amounts(answer)
    assert (found["discount"], found["credits"], found["tax"]) == (Decimal(-200), Decimal(-400), Decimal(190))
    assert answer["cost"]["list_total"] == "1600.00"
    assert answer["cost"]["net_total"] == "1000.00"
    assert answer["cost"]["total"] == "1190.00"
    assert "expected_total" not in answer["cost"]


def test_terms_of_nothing_are_not_mentioned() -> None:
    answer = priced(discount_percent=0, credits="0", tax_percent=0)
    assert {"list_total", "net_total"}.isdisjoint(answer["cost"])
    assert {"discount", "credits", "tax"}.isdisjoint(amounts(answer))


def test_only_the_credits_that_are_needed_are_spent() -> None:
    answer = priced(credits="5000", tax_percent=19)
    assert line_of(answer, "credits")["amount"] == "-1600.00"
    assert total(answer) == 0
    assert answer["cost"]["net_total"] == "0.00"
    assert answer["unit_costs"]["per_gpu_hour"] == "0.00"


def test_a_discount_of_everything_leaves_nothing_to_credit_or_tax() -> None:
    answer = priced(discount_percent=100, credits="5000", tax_percent=19)
    assert set(amounts(answer)) >= {"discount"}
    assert {"credits", "tax"}.isdisjoint(amounts(answer))
    assert answer["cost"]["total"] == "0.00"


def test_shares_are_of_the_list_total() -> None:
    # 400 of storage beside 1,600 of GPU time is a fifth, whatever is credited.
    answer = answer_to(
        price={"kind": "hourly", "amount": "2", "credits": "1900"}, storage={"kind": "fixed", "amount": "400"}
    )
    assert answer["cost"]["non_gpu_percent"] == 20


def test_tax_is_on_the_rounded_rest() -> None:
    # 0.07 less a third of it (0.02333, so 0.02) is 0.05; 10 % of that is 0.005, so 0.01.
    answer = answer_to(
        hours=0.035,
        gpu_count=1,
        price={"kind": "hourly", "amount": "2", "discount_percent": 33.3333333, "tax_percent": 10},
    )
    assert answer["cost"]["list_total"] == "0.07"
    assert amounts(answer)["discount"] == Decimal("-0.02")
    assert amounts(answer)["tax"] == Decimal("0.01")


@pytest.mark.parametrize(
    ("currency", "discount", "tax", "whole"),
    [("JPY", "-53", "294", "1841"), ("KWD", "-53.333", "293.867", "1840.534"), ("USD", "-53.33", "293.87", "1840.54")],
)
def test_terms_are_rounded_to_the_minor_unit(currency: str, discount: str, tax: str, whole: str) -> None:
    # A thirtieth of 1,600 is 53.3333; 19 % of the rest: of 1,547, of 1,546.667 and of 1,546.67.
    answer = priced(currency, discount_percent=3.33333333333, tax_percent=19)
    assert line_of(answer, "discount")["amount"] == discount
    assert line_of(answer, "tax")["amount"] == tax
    assert answer["cost"]["total"] == whole


percents = st.decimals(0, 100, places=2)
money = st.decimals(0, 10_000, places=3)


@given(money, percents, money, percents, st.sampled_from([("USD", 2), ("JPY", 0), ("KWD", 3)]))
def test_list_net_and_gross_tie(
    amount: Decimal, discount: Decimal, credit: Decimal, tax: Decimal, currency: tuple[str, int]
) -> None:
    code, digits = currency
    unit = Decimal(1).scaleb(-digits)
    answer = answer_to(
        hours=1.5,
        gpu_count=3,
        price={
            "kind": "hourly",
            "amount": str(amount),
            "currency": code,
            "discount_percent": float(discount),
            "credits": str(credit),
            "tax_percent": float(tax),
        },
        storage={"kind": "fixed", "amount": "7.25"},
    )
    found = amounts(answer)

    def rounded(value: Decimal) -> Decimal:
        return value.quantize(unit, ROUND_HALF_UP)

    listed = rounded(amount * Decimal("4.5")) + rounded(Decimal("7.25"))
    off = rounded(listed * discount / 100)
    spent = rounded(min(credit, listed - off))
    taxed = rounded((listed - off - spent) * tax / 100)
    assert -found.get("discount", 0) == off
    assert -found.get("credits", 0) == spent
    assert found.get("tax", 0) == taxed
    assert total(answer) == listed - off - spent + taxed
    assert sum(found.values()) == total(answer) >= 0
    if off or spent or taxed:
        assert Decimal(answer["cost"]["list_total"]) == listed
        assert Decimal(answer["cost"]["net_total"]) == listed - off - spent


def test_a_bill_that_only_tax_makes_too_large_is_refused_at_its_price() -> None:
    # 8 GPUs, 1 h and 1e11 each are 8e11 and fit in 12 digits; with as much in tax they do not.
    fits = a_run(1, 8, "100000000000")
    assert total(answer_to(1, 8, "100000000000")) == Decimal(800_000_000_000)
    assert refused({**fits, "price": {**fits["price"], "tax_percent": 100}}).pointer in {"/cluster", "/price"}


@pytest.mark.parametrize(
    ("sections", "pointer"),
    [
        ({"storage": {"kind": "metered", "price_per_gb_month": "999999999999", "dataset_gb": 1e12}}, "/storage"),
        ({"egress": {"kind": "metered", "dataset_gb": 1e12, "tiers": [{"price_per_gb": "99999"}]}}, "/egress"),
        ({"price": {"kind": "hourly", "amount": "999999999999", "tax_percent": 1}}, "/cluster"),
    ],
)
def test_what_is_too_large_is_refused_where_it_is_largest(sections: dict[str, Any], pointer: str) -> None:
    assert refused(a_run(**sections)).pointer == pointer


def test_every_line_serves_a_decision() -> None:
    answer = priced(discount_percent=12.5, credits="400", tax_percent=19)
    assert all(line["decision"] for line in answer["cost"]["lines"])


@given(
    st.sampled_from(["hourly", "commitment", "owned"]),
    st.decimals(0, 100, places=3),
    st.decimals("0.001", 10, places=3),
    st.booleans(),
)
def test_a_dearer_hour_never_makes_a_cheaper_run(kind: str, amount: Decimal, more: Decimal, failing: bool) -> None:
    def cost(hourly: Decimal) -> Decimal:
        price: dict[str, Any] = {"kind": kind, "amount": str(hourly), "tax_percent": 7, "credits": "50"}
        if kind == "commitment":
            price |= {"gpu_count": 5, "term_hours": 90, "overflow_amount": "4", "attribution": "term"}
        if kind == "owned":
            del price["amount"]
            price |= {"capex": str(hourly * 10_000), "energy_amount_per_kwh": str(hourly)}
        rework = {"kind": "failures"} if failing else {"kind": "buffer", "rework_percent": 5}
        return total(answer_to(price=price, rework=rework))

    assert cost(amount + more) >= cost(amount)
