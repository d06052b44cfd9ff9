"""Actual against planned cost: price, volume and efficiency by hand, and to the cent for any records."""

import datetime
from decimal import Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from service.scenarios.arithmetic.actuals import ActualRecord, planned_cost
from service.scenarios.arithmetic.variance import Variance, variance
from tests.support.plans import TOKENS, at, by_tokens, planned

_DAY_10 = at("2027-01-11")


def until_day_10(amount: str, gpu_hours: float | None = None, tokens: float | None = None) -> list[ActualRecord]:
    """One record of the first 240 hours, in which 1,920 GPU-hours, 24 % of the tokens and 3,840.00 were planned."""
    return [
        ActualRecord(
            period_start=at("2027-01-01"),
            period_end=_DAY_10,
            amount=Decimal(amount),
            gpu_hours=gpu_hours,
            tokens_done=tokens,
        )
    ]


def effects(found: Variance) -> tuple[str, str, str, str]:
    """Difference, price, volume and efficiency."""
    return str(found.difference), str(found.price), str(found.volume), str(found.efficiency)


def test_price_volume_and_efficiency_by_hand() -> None:
    # A fifth of the work should take 1,600 GPU-hours, 320 fewer than planned: -640. It took 1,800, 200 more: 400. Each
    # cost 2.20 and not 2.00: 360. Together 3,960 - 3,840 = 120.
    found = variance(*by_tokens(), until_day_10("3960", 1800.0, 0.2 * TOKENS), _DAY_10)
    assert effects(found) == ("120.00", "360.00", "-640.00", "400.00")
    assert found.planned is not None
    assert found.actual is not None
    assert (found.planned.gpu_hours, found.planned.work_done) == (1920.0, 0.24 * TOKENS)
    assert (found.planned.rate_per_gpu_hour, found.actual.rate_per_gpu_hour) == (2.0, 2.2)


def test_a_run_on_plan_has_no_variance() -> None:
    found = variance(*by_tokens(), until_day_10("3840", 1920.0, 0.24 * TOKENS), _DAY_10)
    assert effects(found) == ("0.00", "0.00", "0.00", "0.00")


def test_set_up_is_no_inefficiency() -> None:
    # 40 h of set-up, then 200 h of work, as planned.
    answer, schedule = by_tokens(idle={"setup_hours": 40, "spare_nodes": 0})
    found = variance(answer, schedule, until_day_10("3840", 1920.0, 0.2 * TOKENS), _DAY_10)
    assert effects(found) == ("0.00", "0.00", "0.00", "0.00")


def test_without_tokens_only_the_price_is_known() -> None:
    found = variance(*by_tokens(), until_day_10("3960", 1800.0), _DAY_10)
    assert effects(found) == ("120.00", "360.00", "None", "None")
    assert [note.code for note in found.notes] == ["work-unknown"]


def test_without_gpu_hours_no_effect_is_known() -> None:
    found = variance(*by_tokens(), until_day_10("3960", None, 0.2 * TOKENS), _DAY_10)
    assert effects(found) == ("120.00", "None", "None", "None")
    assert [note.code for note in found.notes] == ["gpu-hours-unknown"]


def test_without_records_there_is_no_difference() -> None:
    found = variance(*by_tokens(), [], _DAY_10)
    assert (found.difference, found.planned, found.actual) == (None, None, None)


def test_after_a_gap_no_effect_is_known() -> None:
    gone = ActualRecord(period_start=at("2027-01-12"), period_end=at("2027-01-13"), amount=Decimal(0), gpu_hours=0.0)
    found = variance(*by_tokens(), [*until_day_10("3960", 1800.0, 0.2 * TOKENS), gone], at("2027-01-13"))
    assert found.price is None
    assert "gap-in-actuals" in {note.code for note in found.notes}


def test_before_anything_is_planned_there_is_no_planned_rate() -> None:
    early = ActualRecord(period_start=at("2026-12-01"), period_end=at("2026-12-02"), amount=Decimal(5), gpu_hours=1.0)
    found = variance(*by_tokens(), [early], _DAY_10)
    assert effects(found)[:2] == ("5.00", "None")
    assert "nothing-planned-yet" in {note.code for note in found.notes}


def test_a_plan_without_tokens_counts_productive_gpu_hours() -> None:
    # 1,000 h on 8 GPUs; by day 10 1,920 GPU-hours of work were planned, and 1,600 were productive of 1,800.
    record = msgspec.structs.replace(until_day_10("3960", 1800.0)[0], productive_gpu_hours=1600.0)
    found = variance(*planned("2027-01-01", hours=1000), [record], _DAY_10)
    assert found.unit == "productive_gpu_hours"
    assert effects(found) == ("120.00", "360.00", "-640.00", "400.00")


def test_a_contingency_is_not_planned_to_be_spent() -> None:
    sections = {"budget": {"confidence_percent": 90}, "uncertainty": {"samples": 1000}}
    answer, schedule = by_tokens(**sections)
    assert planned_cost(answer, schedule, at("2028-01-01")) == answer.cost.expected_total


def test_a_variance_goes_on_the_wire() -> None:
    found = variance(*by_tokens(), until_day_10("3960", 1800.0, 0.2 * TOKENS), _DAY_10)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Variance) == found
    assert msgspec.json.schema(Variance)


@given(
    st.sampled_from(["USD", "JPY", "KWD"]),
    st.decimals(0, 10**7, places=4),
    st.floats(0, 1e6),
    st.floats(0, 2 * TOKENS),
    st.integers(1, 2000),
)
def test_the_effects_add_up_to_the_difference_to_the_cent(
    currency: str, amount: Decimal, gpu_hours: float, tokens: float, hours: int
) -> None:
    price = {"kind": "hourly", "amount": "2.17", "currency": currency, "tax_percent": 19}
    answer, schedule = by_tokens(price=price, idle={"setup_hours": 7, "spare_nodes": 1})
    end = at("2027-01-01") + datetime.timedelta(hours=hours)
    record = ActualRecord(
        period_start=at("2027-01-01"), period_end=end, amount=amount, gpu_hours=gpu_hours, tokens_done=tokens
    )
    found = variance(answer, schedule, [record], end)
    assert found.price is not None
    assert found.volume is not None
    assert found.efficiency is not None
    assert found.price + found.volume + found.efficiency == found.difference
