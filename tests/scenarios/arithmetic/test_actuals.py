"""Records of what was paid, checked and added up, and set beside the plan month by month."""

import datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.scenarios.arithmetic.actuals import (
    ActualRecord,
    BurnDown,
    WorkUnit,
    burn_down,
    checked_records,
    to_date,
)
from service.scenarios.arithmetic.phasing import phased
from tests.support.plans import at, planned


def a_record(begin: str, end: str, amount: str = "0", **figures: float) -> ActualRecord:
    return ActualRecord(period_start=at(begin), period_end=at(end), amount=Decimal(amount), **figures)


def test_records_come_in_the_order_of_time() -> None:
    later, earlier = a_record("2027-02-01", "2027-03-01"), a_record("2027-01-01", "2027-02-01")
    assert checked_records([later, earlier]) == (earlier, later)


def test_a_period_that_ends_before_it_begins_is_refused_where_it_stands() -> None:
    with pytest.raises(BrokenRule) as caught:
        checked_records([a_record("2027-01-01", "2027-02-01"), a_record("2027-03-01", "2027-03-01")])
    assert caught.value.faults[0].pointer == "/records/1/period_end"


def test_periods_that_overlap_are_refused_where_they_stand() -> None:
    with pytest.raises(BrokenRule) as caught:
        checked_records([a_record("2027-01-15", "2027-02-15"), a_record("2027-01-01", "2027-02-01")])
    assert caught.value.faults[0].pointer == "/records/0/period_start"


def test_only_what_is_over_by_the_date_counts() -> None:
    records = [a_record("2027-01-01", "2027-02-01", "10"), a_record("2027-02-01", "2027-03-01", "20")]
    done = to_date(records, at("2027-02-28"), "tokens", "USD")
    assert (done.amount, done.known_until) == (Decimal("10.00"), at("2027-02-01"))


def test_one_record_that_does_not_say_makes_the_sum_unknown() -> None:
    records = [
        a_record("2027-01-01", "2027-02-01", gpu_hours=5.0, tokens_done=7.0),
        a_record("2027-02-01", "2027-03-01", gpu_hours=5.0),
    ]
    done = to_date(records, at("2027-03-01"), "tokens", "USD")
    assert done.gpu_hours == 10
    assert done.work is None
    assert [note.code for note in done.notes] == ["work-unknown"]


@pytest.mark.parametrize("unit", ["tokens", "productive_gpu_hours"])
def test_where_nothing_ran_no_work_was_done_whether_it_is_said_or_not(unit: WorkUnit) -> None:
    ran = a_record("2027-01-01", "2027-02-01", gpu_hours=5.0, tokens_done=4.0, productive_gpu_hours=4.0)
    done = to_date([ran, a_record("2027-02-01", "2027-03-01", gpu_hours=0.0)], at("2027-03-01"), unit, "USD")
    assert done.gpu_hours == 5
    assert done.work == 4
    assert done.notes == ()


def test_a_time_that_no_record_covers_is_a_gap() -> None:
    records = [a_record("2027-01-01", "2027-01-05"), a_record("2027-01-06", "2027-02-01")]
    assert to_date(records, at("2027-03-01"), "tokens", "USD").has_gaps


def test_fractions_of_a_cent_are_added_before_they_are_rounded() -> None:
    records = [a_record(f"2027-01-0{day}", f"2027-01-0{day + 1}", "0.004") for day in range(1, 6)]
    assert to_date(records, at("2027-03-01"), "tokens", "USD").amount == Decimal("0.02")


def test_the_burn_down_sets_actual_beside_planned() -> None:
    # 768 in January and 832 in February are planned; 800 are paid by the end of January.
    answer, schedule = planned("2027-01-30", hours=100)
    found = burn_down(answer, schedule, [a_record("2027-01-30", "2027-02-01", "800")], at("2027-02-02"))
    assert [(f"{point.at:%m-%d}", str(point.planned), str(point.actual)) for point in found.points] == [
        ("01-30", "0.00", "0.00"),
        ("02-01", "768.00", "800.00"),
        ("03-01", "1600.00", "None"),
    ]
    assert found.points[1].over_plan == 32
    assert found.points[1].actual_remaining == 800
    assert found.points[2].planned_remaining == 0


def test_a_burn_down_goes_on_the_wire() -> None:
    found = burn_down(*planned("2027-01-30"), [a_record("2027-01-30", "2027-02-01", "800")], at("2027-02-02"))
    assert msgspec.json.decode(msgspec.json.encode(found), type=BurnDown) == found
    assert msgspec.json.schema(BurnDown)


@given(st.lists(st.integers(-1000, 10_000), max_size=12), st.integers(1, 40))
def test_the_burn_down_meets_the_phasing_and_the_records(cents: list[int], days: int) -> None:
    answer, schedule = planned("2027-01-30", hours=1500)
    begins = [at("2027-01-30") + datetime.timedelta(days=days * index) for index in range(len(cents) + 1)]
    records = [
        ActualRecord(period_start=begin, period_end=end, amount=Decimal(amount) / 100)
        for begin, end, amount in zip(begins, begins[1:], cents, strict=False)
    ]
    points = {point.at: point for point in burn_down(answer, schedule, records, begins[-1]).points}
    for month in phased(answer, schedule, "amortised").months:
        assert points[month.ends_at].planned == month.cumulative
    for index, end in enumerate(begins[1:]):
        assert points[end].actual == Decimal(sum(cents[: index + 1])) / 100
    assert [point.at for point in points.values()] == sorted(points)
