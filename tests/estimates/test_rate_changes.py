"""A run that crosses a change of its rate: cut at that day, each rate paid for its time, and told so."""

import datetime
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.money import Money
from service.prices.schemas import GpuRate
from tests.prices.rates import gpu, row
from tests.prices.stock import answered, stock
from tests.support.asking import codes, said
from tests.support.bills import CENT, a_run, amounts, line_of, total
from tests.support.formulas import computed
from tests.support.tables import InMemory, ask, list_prices, table_of

RISE = (gpu("2.00", valid_to="2026-10-01"), gpu("3.00", valid_from="2026-10-01"))


def starting(start_at: str, hours: float = 240, gpu_count: int = 8, **changes: Any) -> dict[str, Any]:
    """A run of nothing but GPU time at the price of a table, from a moment on."""
    price = {"kind": "table", **changes.pop("price", {})}
    return a_run(hours, gpu_count, **{"start_at": start_at, **changes, "price": price})


def pieces(answer: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    """From when to when, at which price, and whether the offer was over."""
    return [tuple(piece.values()) for piece in answer["prices"]["price"]["segments"]]


async def test_a_run_over_a_rise_pays_each_rate_for_its_time(stored_api: httpx.AsyncClient) -> None:
    await stock(stored_api, "ours", row("2.00", valid_to="2026-10-01"), row("3.00", valid_from="2026-10-01"))
    answer = await answered(stored_api, starting("2026-09-26T00:00:00Z", price={"table": "ours"}))
    assert answer["cost"]["total"] == "4800.00"  # 8 x (120 h x 2 + 120 h x 3)
    assert pieces(answer) == [
        ("2026-09-26T00:00:00Z", "2026-10-01T00:00:00Z", "2.00", False),
        ("2026-10-01T00:00:00Z", "2026-10-06T00:00:00Z", "3.00", False),
    ]
    assert said(answer, "price.amount")["value"] == "2.00"
    mean = said(answer, "price.per_gpu_hour")
    assert (mean["value"], mean["status"]) == ("2.50", "derived")
    assert line_of(answer, "compute")["unit_price"] == "2.50"
    assert "price_changes" in codes(answer)


def test_the_announced_rise_of_a_real_provider() -> None:
    answer = ask(starting("2026-09-20T00:00:00Z", 500, 64, price={"provider": "nebius"}), list_prices())
    assert answer["cost"]["total"] == "133017.60"  # 64 x (264 h x 3.85 + 236 h x 4.50)
    assert [piece[2] for piece in pieces(answer)] == ["3.85", "4.50"]


def test_days_begin_at_midnight_in_utc() -> None:
    # 01:00 in Berlin on 1 October is 23:00 on 30 September: one hour is cheaper.
    answer = ask(starting("2026-10-01T01:00:00+02:00", 10), table_of(*RISE))
    assert answer["cost"]["total"] == "232.00"  # 8 x (1 x 2 + 9 x 3)


def test_rework_and_set_up_take_part_of_the_time() -> None:
    body = starting(
        "2026-09-30T00:00:00Z", 80, rework={"kind": "buffer", "rework_percent": 20}, idle={"setup_hours": 24}
    )
    # 24 h of set-up, 80 h of work, 16 h of rework: a fifth of the time at 2, four fifths at 3.
    answer = ask(body, table_of(*RISE))
    assert said(answer, "price.per_gpu_hour")["value"] == "2.80"
    assert amounts(answer)["rework"] == Decimal("358.40")  # 8 x 16 x 2.80
    assert amounts(answer)["idle_setup"] == Decimal("537.60")
    assert answer["cost"]["total"] == "2688.00"


@pytest.mark.parametrize("start_at", ["2026-09-20T00:00:00Z", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"])
def test_a_run_within_one_rate_is_not_cut(start_at: str) -> None:
    answer = ask(starting(start_at, 240), table_of(*RISE))  # the first one ends as the rate changes, at midnight
    assert pieces(answer)[1:] == []
    assert "price_changes" not in codes(answer)
    assert "price.per_gpu_hour" not in {one["field"] for one in answer["assumptions"]}
    assert answer["cost"]["total"] == ("3840.00" if start_at < "2026-10" else "5760.00")


def test_a_run_without_a_start_is_not_cut() -> None:
    body = starting("2026-09-26T00:00:00Z", price={"as_of": "2026-09-26"})
    del body["start_at"]
    assert ask(body, table_of(*RISE))["cost"]["total"] == "3840.00"


def test_a_day_that_is_given_is_the_day_of_the_first_rate() -> None:
    crossing = starting("2026-09-26T00:00:00Z", price={"as_of": "2026-09-01"})
    assert ask(crossing, table_of(*RISE))["cost"]["total"] == "4800.00"
    # As of a day after the rise, that rate is taken from the start on.
    later = starting("2026-09-26T00:00:00Z", price={"as_of": "2026-10-02"})
    assert ask(later, table_of(*RISE))["cost"]["total"] == "5760.00"


def test_a_rate_that_is_another_one_by_the_start_is_taken_and_told_of() -> None:
    answer = ask(starting("2026-11-01T00:00:00Z", price={"as_of": "2026-09-01"}), table_of(*RISE))
    assert answer["cost"]["total"] == "3840.00"
    (note,) = (note for note in answer["notes"] if note["code"] == "price_changes_before_start")
    assert note["message"] == (
        "The rate is that of 2026-09-01; when the run starts, on 2026-11-01, "
        "the same offer asks for 3.00 USD a GPU-hour."
    )
    over = ask(starting("2026-11-01T00:00:00Z", price={"as_of": "2026-09-01"}), table_of(RISE[0]))
    assert "has no known rate any more" in str(over["notes"])
    same = ask(starting("2026-09-02T00:00:00Z", price={"as_of": "2026-09-01"}), table_of(*RISE))
    assert "price_changes_before_start" not in codes(same)


def test_a_run_stays_with_the_offer_that_it_began_on() -> None:
    tables = table_of(*RISE, gpu("2.10", provider="steady"))
    answer = ask(starting("2026-09-26T00:00:00Z"), tables)
    assert [piece[2] for piece in pieces(answer)] == ["2.00", "3.00"]


def test_where_the_offer_ends_its_last_rate_goes_on_and_it_is_said() -> None:
    answer = ask(starting("2026-09-26T00:00:00Z"), table_of(RISE[0]))
    assert answer["cost"]["total"] == "3840.00"
    assert [piece[3] for piece in pieces(answer)] == [False, True]
    assert "price_offer_ends" in codes(answer)
    assert "price_changes" not in codes(answer)


def test_a_price_that_becomes_unknown_is_no_free_one() -> None:
    unknown = gpu(None, valid_from="2026-10-01")
    answer = ask(starting("2026-09-26T00:00:00Z"), table_of(gpu("2.00", valid_from="2026-01-01"), unknown))
    assert answer["cost"]["total"] == "3840.00"
    assert "price_offer_ends" in codes(answer)


def test_a_price_that_is_read_again_and_the_same_is_no_change() -> None:
    tables = table_of(gpu("2.00", seen_on="2026-09-01"), gpu("2.00", seen_on="2026-10-01"))
    answer = ask(starting("2026-09-26T00:00:00Z"), tables)
    assert pieces(answer) == []
    assert "price_changes" not in codes(answer)


def test_what_is_paid_at_once_changes_too() -> None:
    def offer(upfront: str, **dates: str) -> GpuRate:
        return gpu("1.00", purchase="reserved", term_months=1, upfront=Money(upfront), **dates)

    tables = table_of(offer("5840", valid_from="2026-01-01"), offer("11680", valid_from="2026-10-01"))
    answer = ask(starting("2026-09-26T00:00:00Z", price={"purchase": "reserved"}), tables)
    assert [piece[2] for piece in pieces(answer)] == ["2.00", "3.00"]  # 5,840 / (8 x 730) is 1
    assert answer["cost"]["total"] == "4800.00"


def test_a_price_without_an_end_of_digits_is_shown_with_six() -> None:
    first = gpu("1.00", purchase="reserved", term_months=1, upfront=Money("1000"), valid_from="2026-01-01")
    second = gpu("2.00", purchase="reserved", term_months=1, upfront=Money("1000"), valid_from="2026-10-01")
    answer = ask(starting("2026-09-26T00:00:00Z", price={"purchase": "reserved"}), table_of(first, second))
    assert [piece[2] for piece in pieces(answer)] == ["1.171233", "2.171233"]
    assert answer["cost"]["total"] == "3208.77"  # 1,920 x 1.671232876...


def test_pieces_end_with_the_run_to_the_second() -> None:
    answer = ask(starting("2026-09-30T12:00:00Z", 100 / 3), table_of(*RISE))
    assert pieces(answer)[-1][1] == answer["duration"]["finish_at"] == "2026-10-01T21:20:00Z"


def test_what_falls_back_to_on_demand_costs_more_than_the_mean() -> None:
    spot = (
        gpu("1.00", purchase="spot", valid_from="2026-01-01"),
        gpu("2.00", purchase="spot", valid_from="2026-10-01"),
    )
    body = starting(
        "2026-09-30T00:00:00Z",
        100,
        price={"purchase": "spot"},
        rework={
            "kind": "failures",
            "spot": {"interruptions_per_node_hour": 0.01, "fallback_percent": 100, "on_demand_amount": "5.00"},
        },
    )
    answer = ask(body, table_of(*spot), explain=True)
    mean = Decimal(line_of(answer, "compute")["unit_price"])
    assert 1 < mean < 2
    assert Decimal(line_of(answer, "rework_spot_fallback")["unit_price"]) == 5 - mean
    every_formula_computes(answer)


def test_an_uncertain_price_spreads_about_the_mean() -> None:
    uncertain = {"samples": 4000, "seed": 1, "spreads": {"price": {"kind": "lognormal", "sigma": 0.1}}}
    answer = ask(starting("2026-09-26T00:00:00Z", uncertainty=uncertain), table_of(*RISE))
    assert float(answer["risk"]["cost"]["p50"]) == pytest.approx(4800, rel=0.01)
    sure = ask(starting("2026-09-26T00:00:00Z", uncertainty={"samples": 1000, "seed": 1}), table_of(*RISE))
    assert sure["risk"]["cost"]["p10"] == sure["risk"]["cost"]["p95"] == "4800.00"


def every_formula_computes(answer: dict[str, Any]) -> None:
    for found in answer["explanations"]:
        assert computed(found["substituted"]) == pytest.approx(found["result"], rel=1e-9, abs=1e-6), found


def test_the_mean_is_explained() -> None:
    answer = ask(starting("2026-09-26T00:00:00Z"), table_of(*RISE), explain=True)
    every_formula_computes(answer)
    by_field = {found["field"]: found for found in answer["explanations"]}
    mean = by_field["assumptions[price.per_gpu_hour].value"]
    assert mean["substituted"] == "(2 * 432000 + 3 * 432000) / (432000 + 432000)"
    assert by_field["cost.lines[compute].unit_price"]["formula"] == mean["formula"]


_CHANGES = st.lists(
    st.tuples(st.dates(datetime.date(2026, 1, 2), datetime.date(2026, 6, 30)), st.integers(1, 999)),
    max_size=5,
    unique_by=lambda change: change[0],
)


@given(_CHANGES, st.integers(1, 999), st.integers(0, 4000), st.integers(1, 3000), st.integers(1, 32))
def test_a_run_costs_the_sum_of_its_pieces_to_the_cent(
    changes: list[tuple[datetime.date, int]], first: int, offset: int, hours: int, gpu_count: int
) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=offset)
    prices = [(datetime.date(2026, 1, 1), first), *sorted(changes)]
    tables = table_of(*(gpu(f"{cents / 100:.2f}", gpu_count=None, valid_from=f"{day}") for day, cents in prices))
    answer = ask(starting(start.isoformat(), hours, gpu_count), tables)
    due = Decimal(0)
    for hour in range(hours):  # the slow way, and nothing but the price of each hour
        day = (start + datetime.timedelta(hours=hour)).date()
        due += Decimal(max(price for price in prices if price[0] <= day)[1]) / 100
    assert total(answer) == (due * gpu_count).quantize(CENT, ROUND_HALF_UP)
    told = pieces(answer)
    assert all(one[1] == other[0] and one[2] != other[2] for one, other in pairwise(told))


def test_at_one_price_it_makes_no_difference_how_often_it_was_read() -> None:
    once = InMemory().put("list-prices", [gpu("2.37", seen_on="2026-01-01")])
    often = InMemory().put("list-prices", [gpu("2.37", seen_on=f"2026-{month:02}-01") for month in range(1, 13)])
    body = starting("2026-02-03T04:05:06Z", 5000, 513)
    assert ask(body, once)["cost"] == ask(body, often)["cost"]
