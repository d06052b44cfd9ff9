"""Another currency than the table's: only by a rate that is given with its day, and told of with the answer."""

from typing import Any

import httpx
import pytest

from service.money import Money
from tests.prices.rates import egress, gpu, row, storage
from tests.prices.stock import answered, by_table, refusal, stock
from tests.support.asking import said
from tests.support.bills import a_run
from tests.support.formulas import computed
from tests.support.tables import InMemory, ask, list_prices, refused, table_of


def at(rate: str, source: str = "JPY", target: str = "USD") -> dict[str, Any]:
    return {"from_currency": source, "to_currency": target, "rate": rate, "as_of": "2026-11-02"}


async def test_a_table_in_yen_prices_a_run_in_dollars_at_the_rate_that_is_given(stored_api: httpx.AsyncClient) -> None:
    await stock(stored_api, "tokyo", row("450"), currency="JPY")
    answer = await answered(stored_api, {**by_table(table="tokyo"), "exchange": at("0.0066")})
    assert answer["cost"]["currency"] == "USD"
    assert answer["cost"]["total"] == "2376.00"  # 800 x 450 x 0.0066
    assert answer["prices"]["exchange"] == at("0.0066")
    assert answer["prices"]["price"]["revision"]["currency"] == "JPY"
    assert answer["prices"]["price"]["rate"]["price_per_gpu_hour"] == "450"
    told = said(answer, "price.amount")
    assert told["value"] == "2.97"
    assert told["source"].endswith("(a test), at 0.0066 USD for a JPY of 2026-11-02")
    assert said(answer, "price.currency")["value"] == "USD"


async def test_without_a_rate_the_estimate_is_in_the_currency_of_the_table(stored_api: httpx.AsyncClient) -> None:
    await stock(stored_api, "berlin", row("2.105"), currency="EUR")
    answer = await answered(stored_api, by_table(table="berlin"))
    assert (answer["cost"]["currency"], answer["cost"]["total"]) == ("EUR", "1684.00")
    assert answer["prices"]["exchange"] is None


async def test_a_rate_that_nothing_needs_is_refused(stocked_api: httpx.AsyncClient) -> None:
    for body in (
        {"exchange": at("0.0066")},
        {**by_table(), "exchange": at("0.0066")},
        {**a_run(storage={"kind": "metered", "price_per_gb_month": "0.02"}), "exchange": at("1.1", "USD", "EUR")},
    ):
        pointer, told = await refusal(stocked_api, body)
        assert pointer == "/exchange"
        assert "No price here is read from a price table in" in told


def test_yen_have_no_cents() -> None:
    answer = ask({**by_table(512), "exchange": at("151.3", "USD", "JPY")}, list_prices())
    assert said(answer, "price.amount")["value"] == "603.687"  # 3.99 x 151.3
    assert answer["cost"]["total"] == "30908774"  # 51,200 x 603.687 = 30,908,774.4


def test_a_converted_price_is_rounded_once_in_the_line_and_not_before() -> None:
    # 310.55 x 0.006612 = 2.0533566; at 2.053357 a million GPU-hours would cost 40 cents more.
    answer = ask({**by_table(1000, 1000), "exchange": at("0.006612")}, table_of(gpu("310.55"), currency="JPY"))
    assert answer["cost"]["total"] == "2053356.60"
    assert said(answer, "price.amount")["value"] == "2.053357"


def test_each_piece_of_a_run_is_converted() -> None:
    rates = gpu("2.00", valid_to="2026-10-01"), gpu("3.00", valid_from="2026-10-01")
    price = {"kind": "table"}
    body = {**a_run(240, price=price), "start_at": "2026-09-26T00:00:00Z", "exchange": at("0.92", "USD", "EUR")}
    answer = ask(body, table_of(*rates), explain=True)
    assert answer["cost"]["total"] == "4416.00"  # 4,800 USD
    assert [piece["price_per_gpu_hour"] for piece in answer["prices"]["price"]["segments"]] == ["1.84", "2.76"]
    for found in answer["explanations"]:
        assert computed(found["substituted"]) == pytest.approx(found["result"], rel=1e-9, abs=1e-9), found


def metered(table: str = "list-prices") -> dict[str, Any]:
    """A run whose egress and storage are read."""
    tiers = {"kind": "metered", "from_table": {"table": table, "provider": "aws", "as_of": "2026-11-30"}}
    return a_run(73, egress={**tiers, "exported_gb": 10_000}, storage={**tiers, "dataset_gb": 10_000})


def test_tiers_are_converted_into_the_currency_of_an_hourly_price() -> None:
    price = {"kind": "hourly", "amount": "2", "currency": "EUR"}
    answer = ask({**metered(), "price": price, "exchange": at("0.92", "USD", "EUR")}, list_prices())
    assert answer["cost"]["currency"] == "EUR"
    assert answer["cost"]["egress"] == "819.72"  # 891.00 USD
    assert answer["cost"]["storage"] == "21.16"  # 23.00 USD
    assert said(answer, "storage.price_per_gb_month")["value"] == "0.02116"
    assert "at 0.92 EUR for a USD of 2026-11-02" in said(answer, "storage.price_per_gb_month")["source"]


@pytest.mark.parametrize(
    "price",
    [
        {"kind": "commitment", "amount": "2", "currency": "EUR", "gpu_count": 8, "term_hours": 1000},
        {"kind": "owned", "capex": "1000000", "currency": "EUR", "energy_amount_per_kwh": "0.2"},
    ],
)
def test_tiers_are_converted_beside_every_kind_of_price(price: dict[str, Any]) -> None:
    assert refused({**metered(), "price": price}, list_prices()).pointer == "/storage/from_table/table"
    answer = ask({**metered(), "price": price, "exchange": at("0.92", "USD", "EUR")}, list_prices())
    assert answer["cost"]["egress"] == "819.72"


def test_tables_of_two_currencies_meet_in_one() -> None:
    tables = InMemory().put("yen", [gpu("450")], "JPY")
    tables.put("dollars", [egress("0.09"), storage("0.02")])
    body = {**metered("dollars"), "price": {"kind": "table", "table": "yen"}, "exchange": at("0.0066")}
    assert ask(body, tables)["cost"]["egress"] == "900.00"
    without = {name: section for name, section in body.items() if name != "exchange"}
    fault = refused(without, tables)
    assert fault.pointer == "/storage/from_table/table"
    assert fault.message == "The table is in USD and the price in JPY: give exchange, with a rate and its day"


def test_a_rate_into_a_third_currency_helps_nobody() -> None:
    price = {"kind": "hourly", "amount": "2", "currency": "EUR"}
    fault = refused({**metered(), "price": price, "exchange": at("151.3", "USD", "JPY")}, list_prices())
    assert (fault.pointer, fault.message) == (
        "/exchange/to_currency",
        "The table is in USD and the price in EUR: convert into EUR",
    )


@pytest.mark.parametrize(
    ("exchange", "pointer"),
    [
        (at("1.1", "USD", "USD"), "/exchange/to_currency"),
        (at("0", "USD", "EUR"), "/exchange/rate"),
        (at("999999999999", "USD", "EUR"), "/exchange/rate"),
    ],
)
def test_a_rate_that_cannot_be_is_refused(exchange: dict[str, Any], pointer: str) -> None:
    assert refused({**by_table(), "exchange": exchange}, list_prices()).pointer == pointer


def test_what_is_paid_at_once_is_converted_too() -> None:
    rate = gpu("1.00", purchase="reserved", term_months=1, upfront=Money("5840"))
    body = {**by_table(purchase="reserved"), "exchange": at("0.5", "USD", "EUR")}
    answer = ask(body, table_of(rate), explain=True)
    assert answer["cost"]["total"] == "800.00"  # (1 + 5,840 / 5,840) x 0.5
    (found,) = (one for one in answer["explanations"] if one["field"] == "assumptions[price.amount].value")
    assert found["substituted"] == "(1 + 5840 / (8 * 1 * 730)) * 0.5"
    assert computed(found["substituted"]) == found["result"] == 1.0
