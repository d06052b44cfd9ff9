"""The forecast of a run under way: by hand, and the plan itself wherever the run keeps to it."""

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.estimator.results import Estimate
from service.scenarios.arithmetic.actuals import ActualRecord, baseline_of, planned_cost, planned_work
from service.scenarios.arithmetic.forecast import Reforecast, reforecast, spread_left
from service.scenarios.arithmetic.phasing import planned_gpu_hours
from service.scenarios.arithmetic.spreads import Schedule
from tests.support.plans import TOKENS, at, by_tokens

_START, _DAY_10 = at("2027-01-01"), at("2027-01-11")


def a_record(
    amount: str, gpu_hours: float | None, tokens: float | None, end: datetime.datetime = _DAY_10
) -> ActualRecord:
    return ActualRecord(
        period_start=_START, period_end=end, amount=Decimal(amount), gpu_hours=gpu_hours, tokens_done=tokens
    )


def on_plan(answer: Estimate, schedule: Schedule, end: datetime.datetime) -> ActualRecord:
    """What a record says if all goes as planned."""
    return ActualRecord(
        period_start=schedule.start_at,
        period_end=end,
        amount=planned_cost(answer, schedule, end),
        gpu_hours=float(planned_gpu_hours(answer, schedule, end)),
        tokens_done=float(planned_work(answer, schedule, end)),
    )


def codes(found: Reforecast) -> set[str]:
    return {note.code for note in found.notes}


def test_a_slower_and_dearer_run_by_hand() -> None:
    # In 240 h a fifth of the work: the others take 960 h more, 200 h longer in all than planned. It took 1,800
    # GPU-hours at 2.20; the rest takes 7,200 at 2.20: 15,840, and with the 3,960 paid 19,800.
    found = reforecast(*by_tokens(), [a_record("3960", 1800.0, 0.2 * TOKENS)], _DAY_10)
    assert found.rate_basis == "observed"
    assert (found.done_percent, found.price_percent) == (20.0, 110.0)
    assert (found.remaining_hours, found.remaining_gpu_hours, found.delay_hours) == (960.0, 7200.0, 200.0)
    assert (str(found.remaining), str(found.total), str(found.over_plan)) == ("15840.00", "19800.00", "3800.00")
    assert found.finish_at == _DAY_10 + datetime.timedelta(hours=960)


def test_with_too_little_done_the_rest_goes_as_planned() -> None:
    # 4 % of the work in 48 h, at half the price: the other 960 h are as planned.
    found = reforecast(*by_tokens(), [a_record("300", 400.0, 0.04 * TOKENS, at("2027-01-03"))], _DAY_10)
    assert found.rate_basis == "plan"
    assert found.price_percent == 100.0
    assert found.total == Decimal("15660.00")
    assert "plan-rate" in codes(found)


def test_a_week_is_enough_whatever_was_done() -> None:
    found = reforecast(*by_tokens(), [a_record("2688", 1344.0, 0.01 * TOKENS, at("2027-01-08"))], _DAY_10)
    assert found.rate_basis == "observed"
    assert found.remaining_hours == 168 * 99


def test_storage_goes_on_by_the_hour_and_egress_is_still_to_come() -> None:
    # 1,000 of storage over 1,000 h, 500 at the end. By day 10 3,840 + 240 are paid, as planned, for 12 % of the work:
    # 1,760 h more at 17 an hour, and 500.
    fixed = {"storage": {"kind": "fixed", "amount": "1000"}, "egress": {"kind": "fixed", "amount": "500"}}
    found = reforecast(*by_tokens(**fixed), [a_record("4080", 1920.0, 0.12 * TOKENS)], _DAY_10)
    assert found.price_percent == 100.0
    assert found.remaining == Decimal(1760 * 17 + 500)


def test_discount_and_tax_apply_to_what_is_left() -> None:
    # At list 16,000; half off and 10 % tax is 8,800. A fifth is done, and paid for as planned.
    price = {"kind": "hourly", "amount": "2", "discount_percent": 50, "tax_percent": 10}
    found = reforecast(*by_tokens(price=price), [a_record("1760", 1600.0, 0.2 * TOKENS)], _DAY_10)
    assert (found.price_percent, found.remaining) == (100.0, Decimal("7040.00"))


def test_a_data_set_kept_beyond_the_run_is_still_to_be_paid() -> None:
    # 7,300 GB at 0.10 for 1,460 h are a dollar an hour; the run is over after 1,000 h and its work is done.
    kept = {"kind": "metered", "price_per_gb_month": "0.10", "dataset_gb": 7300, "dataset_hours": 1460}
    end = at("2027-01-01") + datetime.timedelta(hours=1000)
    found = reforecast(*by_tokens(storage=kept), [a_record("17000", 8000.0, TOKENS, end)], end)
    assert (found.remaining_hours, found.remaining) == (0.0, Decimal("460.00"))


def test_without_tokens_nothing_is_forecast() -> None:
    found = reforecast(*by_tokens(), [a_record("3960", 1800.0, None)], _DAY_10)
    assert (found.actual, found.total, found.finish_at) == (Decimal("3960.00"), None, None)
    assert codes(found) == {"work-unknown"}


def test_without_gpu_hours_the_finish_is_known_and_the_cost_is_not() -> None:
    found = reforecast(*by_tokens(), [a_record("3960", None, 0.2 * TOKENS)], _DAY_10)
    assert found.remaining_hours == 960.0
    assert (found.remaining, found.total, found.price_percent, found.cost_quantiles) == (None, None, None, None)
    assert "gpu-hours-unknown" in codes(found)


def test_what_does_not_even_pay_for_storage_says_nothing_of_the_price() -> None:
    storage = {"kind": "fixed", "amount": "100000"}
    found = reforecast(*by_tokens(storage=storage), [a_record("3960", 1800.0, 0.2 * TOKENS)], _DAY_10)
    assert (found.price_percent, found.total) == (None, None)
    assert "price-unknown" in codes(found)


def test_after_a_gap_nothing_is_forecast() -> None:
    late = ActualRecord(
        period_start=at("2027-01-12"), period_end=at("2027-01-13"), amount=Decimal(0), gpu_hours=0.0, tokens_done=0.0
    )
    found = reforecast(*by_tokens(), [a_record("3960", 1800.0, 0.2 * TOKENS), late], at("2027-01-13"))
    assert found.total is None
    assert codes(found) == {"gap-in-actuals"}


def test_before_the_start_the_forecast_is_the_plan() -> None:
    answer, schedule = by_tokens(idle={"setup_hours": 40, "spare_nodes": 1})
    found = reforecast(answer, schedule, [], at("2026-12-01"))
    assert (found.actual, found.total, found.delay_hours) == (Decimal("0.00"), answer.cost.total, 0.0)


def test_after_the_start_without_records_nothing_is_known() -> None:
    found = reforecast(*by_tokens(), [], _DAY_10)
    assert (found.actual, found.work_done, found.total, found.finish_at) == (None, None, None, None)
    assert codes(found) == {"no-actuals"}


def test_within_set_up_the_rest_of_it_is_still_to_come() -> None:
    # 10 of 40 h of set-up are over: 1,030 h are left.
    answer, schedule = by_tokens(idle={"setup_hours": 40, "spare_nodes": 0})
    found = reforecast(answer, schedule, [a_record("160", 80.0, 0.0, at("2027-01-01T10:00"))], _DAY_10)
    assert (found.remaining_hours, found.total) == (1030.0, Decimal("16640.00"))


def committed(**fields: Any) -> dict[str, Any]:
    """8 GPUs for 1,000 h at 2.00."""
    return {"kind": "commitment", "amount": "2", "gpu_count": 8, "term_hours": 1000} | fields


def test_a_slower_run_is_dearer_after_its_commitment() -> None:
    # 200 of the 960 h that are left lie beyond the 1,000 h of the term, where 8 GPUs cost a dollar more.
    record = a_record("3840", 1920.0, 0.2 * TOKENS)
    found = reforecast(*by_tokens(price=committed(overflow_amount="3")), [record], _DAY_10)
    assert (found.price_percent, found.remaining) == (100.0, Decimal(960 * 16 + 200 * 8))


def test_beyond_a_commitment_without_a_price_the_cost_is_not_known() -> None:
    record = a_record("3840", 1920.0, 0.2 * TOKENS)
    found = reforecast(*by_tokens(price=committed()), [record], _DAY_10)
    assert (found.price_percent, found.remaining, found.remaining_hours) == (100.0, None, 960.0)
    assert "overflow-price-unknown" in codes(found)


def test_a_slower_run_leaves_less_of_a_whole_term_unused() -> None:
    # The term costs 24,000, 1,500 h at 16, whether the run takes 1,000 h of it or 1,200.
    price = committed(term_hours=1500, attribution="term")
    found = reforecast(*by_tokens(price=price), [a_record("3840", 1920.0, 0.2 * TOKENS)], _DAY_10)
    assert found.planned_total == found.total == 24000
    assert found.delay_hours == 200.0


def test_what_never_ends_is_said() -> None:
    found = reforecast(*by_tokens(), [a_record("3840", 1920.0, 4000.0)], _DAY_10)
    assert found.finish_at is None
    assert "never-ends" in codes(found)


def test_inputs_that_are_off_shrink_with_the_run_and_chance_with_its_root() -> None:
    assert spread_left(Fraction(1, 4), Fraction(0)) == Decimal("0.25")
    assert spread_left(Fraction(1, 4), Fraction(1)) == Decimal("0.5")
    assert spread_left(Fraction(1), Fraction(1, 3)) == 1
    assert spread_left(Fraction(0), Fraction(1, 3)) == 0


def uncertain() -> tuple[Estimate, Schedule]:
    """The same with a throughput that may be off: every part of it is, so nothing is chance."""
    spreads = {"throughput": {"kind": "lognormal", "sigma": 0.2}}
    return by_tokens(uncertainty={"samples": 2000, "seed": 1, "spreads": spreads})


def test_half_way_half_of_the_spread_is_left() -> None:
    answer, schedule = uncertain()
    assert answer.risk is not msgspec.UNSET
    end = _START + datetime.timedelta(hours=500)
    found = reforecast(answer, schedule, [a_record("8000", 4000.0, 0.5 * TOKENS, end)], end)
    assert found.cost_quantiles is not None
    assert found.finish_quantiles is not None
    assert found.total == 16000
    for name in ("p10", "p50", "p80", "p90", "p95"):
        planned_distance = getattr(answer.risk.cost, name) - 16000
        assert abs(getattr(found.cost_quantiles, name) - 16000 - planned_distance / 2) <= Decimal("0.01")
        days = getattr(answer.risk.days, f"{name}_days") - 1000 / 24
        shown = getattr(found.finish_quantiles, name) - found.finish_at
        assert shown / datetime.timedelta(1) == pytest.approx(days / 2, abs=1e-4)


def test_when_all_is_done_nothing_is_uncertain() -> None:
    answer, schedule = uncertain()
    end = _START + datetime.timedelta(hours=1000)
    found = reforecast(answer, schedule, [a_record("16000", 8000.0, TOKENS, end)], end)
    assert found.cost_quantiles is not None
    assert found.cost_quantiles.p10 == found.cost_quantiles.p95 == 16000
    assert found.finish_at == end


def test_a_plan_without_a_distribution_has_no_quantiles() -> None:
    found = reforecast(*by_tokens(), [a_record("3960", 1800.0, 0.2 * TOKENS)], _DAY_10)
    assert (found.cost_quantiles, found.finish_quantiles) == (None, None)
    assert "no-quantiles" in codes(found)


def test_a_forecast_goes_on_the_wire() -> None:
    found = reforecast(*uncertain(), [a_record("3960", 1800.0, 0.2 * TOKENS)], _DAY_10)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Reforecast) == found
    assert msgspec.json.schema(Reforecast)


_plans = st.fixed_dictionaries(
    {},
    optional={
        "idle": st.fixed_dictionaries({"setup_hours": st.floats(0, 50), "spare_nodes": st.integers(0, 2)}),
        "rework": st.sampled_from([{"kind": "buffer", "rework_percent": 15}, {"kind": "failures"}]),
        "storage": st.sampled_from(
            [
                {"kind": "fixed", "amount": "777.77"},
                {"kind": "metered", "price_per_gb_month": "0.1", "dataset_gb": 9000, "dataset_hours": 3000},
            ]
        ),
        "egress": st.just({"kind": "fixed", "amount": "50"}),
        "price": st.sampled_from(
            [
                {"kind": "hourly", "amount": "2.17", "discount_percent": 12.5, "credits": "100", "tax_percent": 19},
                {"kind": "commitment", "amount": "1.5", "gpu_count": 8, "term_hours": 3000, "attribution": "term",
                 "overflow_amount": "3"},
                {"kind": "commitment", "amount": "1.5", "gpu_count": 8, "term_hours": 600, "overflow_amount": "3"},
                {"kind": "commitment", "amount": "1", "gpu_count": 12, "term_hours": 600, "upfront": "5000",
                 "overflow_amount": "3", "attribution": "term", "discount_percent": 5},
            ]
        ),
    },
)  # fmt: skip


@given(_plans, st.floats(0.1, 0.99))
def test_a_run_that_keeps_to_its_plan_is_forecast_as_planned(sections: dict[str, Any], share: float) -> None:
    answer, schedule = by_tokens(**sections)
    hours = answer.duration.expected_wall_clock_hours
    record = on_plan(answer, schedule, schedule.start_at + datetime.timedelta(hours=hours * share))
    found = reforecast(answer, schedule, [record], record.period_end)
    assert found.total is not None
    assert found.rate_basis == "observed"
    # A cent of what was paid is so much more of what is still to pay.
    assert abs(found.total - answer.cost.total) <= Decimal("0.05") / Decimal(share)
    assert found.delay_hours == pytest.approx(0, abs=1e-3)
    assert found.price_percent == pytest.approx(100, abs=0.01)


@given(_plans, st.floats(0, 1200), st.floats(0, TOKENS), st.floats(0, 10_000), st.integers(0, 10**7))
def test_paid_and_left_make_the_total(
    sections: dict[str, Any], hours: float, tokens: float, gpu_hours: float, cents: int
) -> None:
    assume(hours > 1e-3)
    answer, schedule = by_tokens(**sections)
    end = schedule.start_at + datetime.timedelta(hours=hours)
    found = reforecast(answer, schedule, [a_record(str(Decimal(cents) / 100), gpu_hours, tokens, end)], end)
    if found.remaining is not None:
        assert found.actual is not None
        assert found.total == found.actual + found.remaining
        assert found.remaining >= 0
        assert found.over_plan == found.total - baseline_of(answer).expected_total
    if found.finish_at is not None:
        assert found.finish_at >= end.replace(microsecond=0)
