"""A budget up to a quantile: the contingency line, the verdict on it, and the chances of going over."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.asking import ask, refused
from tests.support.bills import a_run, amounts, answer_to, line_of, total

START = "2027-01-04T09:00:00Z"
LOGNORMAL = {"samples": 50_000, "spreads": {"price": {"kind": "lognormal", "sigma": 0.3}}}
SLOWER = {"samples": 50_000, "spreads": {"scaling": {"kind": "triangular", "low_percent": 50, "high_percent": 100}}}


def test_the_contingency_is_what_the_quantile_needs_beyond_the_expected_cost() -> None:
    # 1,600 of GPU time; P80 of a lognormal price of sigma 0.3 is e^(0.3 x 0.8416) = 1.2872 times as much: 459.5 more.
    answer = answer_to(budget={"confidence_percent": 80}, uncertainty=LOGNORMAL)
    contingency = line_of(answer, "contingency")
    assert contingency["description"] == "Contingency up to P80 of the cost"
    assert float(contingency["amount"]) == pytest.approx(459.5, rel=0.02)
    assert answer["cost"]["expected_total"] == answer["cost"]["list_total"] == "1600.00"
    assert answer["cost"]["total"] == answer["risk"]["cost"]["p80"]
    assert sum(amounts(answer).values()) == total(answer)
    assert answer["unit_costs"]["per_gpu_hour"] == "2.00"  # what is not expected is not in the unit costs


def test_without_an_amount_or_a_deadline_there_is_no_verdict() -> None:
    answer = answer_to(budget={"confidence_percent": 90}, uncertainty=LOGNORMAL)
    assert answer["verdict"] is None
    assert answer["risk"]["chance_over_budget_percent"] is None
    assert refused(a_run(budget={"warn_percent": 80})).pointer == "/budget"


def test_without_uncertainty_the_default_one_is_simulated() -> None:
    body = a_run(budget={"confidence_percent": 80})
    del body["price"]
    answer = ask(body)  # a price that nobody gave has a spread
    assert answer["risk"]["samples"] == 20_000
    assert answer["risk"]["seed"] == 0
    assert Decimal(line_of(answer, "contingency")["amount"]) > 0


def test_a_certain_run_needs_no_contingency() -> None:
    answer = answer_to(budget={"confidence_percent": 99})
    assert line_of(answer, "contingency")["amount"] == "0.00"
    assert answer["cost"]["total"] == answer["cost"]["expected_total"] == "1600.00"


@pytest.mark.parametrize(
    ("amount", "expected", "quantile"),
    [("3000", "ok", "ok"), ("2200", "ok", "warn"), ("1900", "ok", "exceeded"), ("1599.99", "exceeded", "exceeded")],
)
def test_the_verdict_judges_the_quantile(amount: str, expected: str, quantile: str) -> None:
    plain = answer_to(budget={"amount": amount}, uncertainty=LOGNORMAL)["verdict"]
    assert (plain["judged"], plain["status"]) == ("expected", expected)
    answer = answer_to(budget={"amount": amount, "confidence_percent": 80}, uncertainty=LOGNORMAL)
    assert (answer["verdict"]["judged"], answer["verdict"]["status"]) == ("quantile", quantile)
    assert Decimal(answer["verdict"]["cost"]["headroom"]) == Decimal(amount) - total(answer)


def test_the_deadline_is_judged_at_the_quantile_too() -> None:
    # Expected 100 h. An efficiency triangular from 50 to 100 %, most often 100 %: P90 is 100 h / (0.5 + 0.5 sqrt(0.1)).
    budget = {"deadline": "2027-01-10T09:00:00Z", "confidence_percent": 90}  # 144 h
    answer = answer_to(start_at=START, budget=budget, uncertainty=SLOWER)
    assert answer["risk"]["days"]["p90_days"] * 24 == pytest.approx(151.9, rel=0.01)
    assert answer["verdict"]["deadline"]["status"] == "exceeded"
    assert answer["verdict"]["deadline"]["headroom_hours"] == pytest.approx(
        144 - 24 * answer["risk"]["days"]["p90_days"], abs=1e-6
    )
    assert (
        answer_to(start_at=START, budget={"deadline": budget["deadline"]}, uncertainty=SLOWER)["verdict"]["status"]
        == "ok"
    )


def test_the_chance_of_missing_the_deadline_by_hand() -> None:
    # Over 144 h where the efficiency is under 100/144 = 0.6944: ((0.6944 - 0.5) / 0.5)^2 = 15.1 %.
    budget = {"deadline": "2027-01-10T09:00:00Z"}
    risk = answer_to(start_at=START, budget=budget, uncertainty=SLOWER)["risk"]
    assert risk["chance_after_deadline_percent"] == pytest.approx(15.1, abs=0.5)


def test_the_chance_of_exceeding_the_budget_by_hand() -> None:
    # 2,000 is 1.25 times the median: z = ln 1.25 / 0.3 = 0.7438, 22.85 %.
    risk = answer_to(budget={"amount": "2000"}, uncertainty=LOGNORMAL)["risk"]
    assert risk["chance_over_budget_percent"] == pytest.approx(22.85, abs=0.6)


def test_a_finish_at_the_deadline_itself_is_in_time() -> None:
    # 100 h after the start, to the microsecond.
    for deadline, chance in (("2027-01-08T13:00:00Z", 0), ("2027-01-08T12:59:59.999999Z", 100)):
        answer = answer_to(start_at=START, budget={"deadline": deadline}, uncertainty={"samples": 1000})
        assert answer["risk"]["chance_after_deadline_percent"] == chance
        assert (answer["verdict"]["deadline"]["status"] == "exceeded") is (chance == 100)


@pytest.mark.parametrize(
    ("budget", "pointer"),
    [
        ({"deadline": "2027-02-01T00:00:00Z", "confidence_percent": 80}, "/budget/deadline"),
        ({"deadline": "2027-01-01T00:00:00Z", "confidence_percent": 80}, "/budget/deadline"),
    ],
)
def test_deadlines_need_a_start_before_them(budget: dict[str, Any], pointer: str) -> None:
    start_at = START if budget["deadline"] < START else None
    assert refused(a_run(budget=budget, start_at=start_at)).pointer == pointer


def test_a_quantile_beyond_what_money_can_say_is_refused() -> None:
    spreads = {"price": {"kind": "lognormal", "sigma": 3}}
    body = a_run(
        amount="100000000", budget={"confidence_percent": 99}, uncertainty={"samples": 1000, "spreads": spreads}
    )
    assert refused(body).pointer == "/uncertainty/spreads/price"


def test_a_quantile_beyond_the_calendar_is_refused() -> None:
    spreads = {"scaling": {"kind": "triangular", "low_percent": 1, "high_percent": 100}}
    body = a_run(6.9e7, 1, "0.001", start_at=START, uncertainty={"samples": 1000, "spreads": spreads})
    assert refused(body).pointer == "/start_at"


def test_tax_and_credits_are_in_the_quantile() -> None:
    price = {"kind": "hourly", "amount": "2", "credits": "600", "tax_percent": 10}
    answer = answer_to(price=price, budget={"confidence_percent": 80}, uncertainty=LOGNORMAL)
    gross = (1600 * 1.2872 - 600) * 1.1
    assert float(total(answer)) == pytest.approx(gross, rel=0.01)
    assert answer["cost"]["expected_total"] == "1100.00"
    assert answer["cost"]["net_total"] == "1000.00"


def test_credits_beyond_the_bill_leave_no_contingency() -> None:
    price = {"kind": "hourly", "amount": "2", "credits": "1000000"}
    answer = answer_to(price=price, budget={"amount": "0", "confidence_percent": 99}, uncertainty=LOGNORMAL)
    assert set(answer["risk"]["cost"].values()) == {"0.00"}
    assert answer["verdict"]["status"] != "exceeded"
    assert answer["risk"]["chance_over_budget_percent"] == 0


@given(st.floats(50, 99), st.floats(50, 99), st.sampled_from([("USD", 2), ("JPY", 0), ("KWD", 3)]))
@settings(max_examples=40)
def test_more_confidence_never_costs_less(one: float, other: float, currency: tuple[str, int]) -> None:
    price = {"kind": "hourly", "amount": "1.237", "currency": currency[0]}
    spreads = {"samples": 2000, "spreads": {"price": {"kind": "lognormal", "sigma": 0.2}}}
    low, high = (
        answer_to(price=price, budget={"confidence_percent": percent}, uncertainty=spreads)
        for percent in sorted((one, other))
    )
    assert total(low) <= total(high)
    for answer in (low, high):
        assert total(answer) >= Decimal(answer["cost"]["expected_total"])
        assert -Decimal(answer["cost"]["total"]).as_tuple().exponent == currency[1]  # type: ignore[operator]
