"""A run that is over, and one that stood still: later invoices move no finish, and pauses no rate."""

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.results import Estimate
from service.scenarios.arithmetic.actuals import ActualRecord
from service.scenarios.arithmetic.forecast import Reforecast, reforecast
from service.scenarios.arithmetic.spreads import Schedule
from service.scenarios.arithmetic.variance import variance
from tests.support.plans import TOKENS, at, by_tokens

_START, _DAY_10 = at("2027-01-01"), at("2027-01-11")
_DAY = datetime.timedelta(days=1)


def a_record(begin: datetime.datetime, days: int, amount: str, **figures: Any) -> ActualRecord:
    return ActualRecord(period_start=begin, period_end=begin + days * _DAY, amount=Decimal(amount), **figures)


def done_early() -> ActualRecord:
    """All of the work in 40 days and 16,000, as planned in money and 40 h earlier."""
    return a_record(_START, 40, "16000", gpu_hours=8000.0, tokens_done=TOKENS)


def on_plan() -> ActualRecord:
    """All of the work in the 1,000 h that were planned for it, at 16 an hour."""
    end = _START + datetime.timedelta(hours=1000)
    return ActualRecord(
        period_start=_START, period_end=end, amount=Decimal(16000), gpu_hours=8000.0, tokens_done=TOKENS
    )


def codes(found: Reforecast) -> set[str]:
    return {note.code for note in found.notes}


def as_of_the_end(plan: tuple[Estimate, Schedule], *records: ActualRecord) -> Reforecast:
    return reforecast(*plan, records, max(record.period_end for record in records))


_later = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.integers(-(10**6), 10**6),
        st.none() | st.floats(0, 1000),
        st.none() | st.just(0.0) | st.floats(0, TOKENS),
    ),
    min_size=1,
    max_size=4,
)


@given(_later)
def test_whatever_is_recorded_after_the_end_the_finish_stays_and_the_amounts_count(
    rows: list[tuple[int, int, float | None, float | None]],
) -> None:
    records, begin = [done_early()], _START + 40 * _DAY
    for days, cents, gpu_hours, tokens in rows:
        records.append(a_record(begin, days, str(Decimal(cents) / 100), gpu_hours=gpu_hours, tokens_done=tokens))
        begin += days * _DAY
    found = as_of_the_end(by_tokens(), *records)
    assert (found.finish_at, found.delay_hours) == (_START + 40 * _DAY, -40.0)
    assert (found.remaining_hours, found.remaining) == (0.0, Decimal("0.00"))
    assert found.total == found.actual == sum(record.amount for record in records)
    assert found.known_until == begin
    assert found.work_per_hour == TOKENS / 960
    assert (found.work_done, found.done_percent) == (TOKENS, 100.0)
    assert codes(found) == {"no-quantiles"}


def test_what_the_run_itself_does_not_say_of_gpu_hours_leaves_no_price_and_still_a_total() -> None:
    found = as_of_the_end(by_tokens(), a_record(_START, 40, "17000", tokens_done=TOKENS))
    assert (found.total, found.price_percent, found.finish_at) == (Decimal("17000.00"), None, _START + 40 * _DAY)


def test_the_record_with_which_the_work_is_done_is_the_end_and_not_the_one_that_says_most() -> None:
    first = a_record(_START, 10, "4000", gpu_hours=2000.0, tokens_done=0.5 * TOKENS)
    second = a_record(_DAY_10, 10, "4000", gpu_hours=2000.0, tokens_done=0.6 * TOKENS)
    more = a_record(_DAY_10 + 10 * _DAY, 10, "4000", gpu_hours=2000.0, tokens_done=0.9 * TOKENS)
    found = as_of_the_end(by_tokens(), first, second, more)
    assert found.finish_at == _DAY_10 + 10 * _DAY
    assert found.work_done == pytest.approx(1.1 * TOKENS)
    assert found.done_percent == pytest.approx(110)


def test_after_a_gap_behind_the_end_the_finish_is_known_and_the_cost_is_not() -> None:
    found = as_of_the_end(by_tokens(), done_early(), a_record(_START + 50 * _DAY, 10, "5"))
    assert (found.finish_at, found.total, found.remaining) == (_START + 40 * _DAY, None, None)
    assert "gap-in-actuals" in codes(found)


@given(_later)
def test_whatever_is_recorded_after_the_end_is_a_matter_of_price_in_the_variance(
    rows: list[tuple[int, int, float | None, float | None]],
) -> None:
    records, begin = [on_plan()], on_plan().period_end
    for days, cents, gpu_hours, tokens in rows:
        records.append(a_record(begin, days, str(Decimal(cents) / 100), gpu_hours=gpu_hours, tokens_done=tokens))
        begin += days * _DAY
    found = variance(*by_tokens(), records, begin)
    paid_later = sum(record.amount for record in records[1:])
    assert found.price == found.difference == paid_later
    assert found.volume == found.efficiency == 0
    assert found.actual is not None
    assert (found.actual.gpu_hours, found.actual.work_done) == (8000.0, TOKENS)
    assert (found.known_until, found.notes) == (begin, ())


def test_after_a_gap_behind_the_end_no_effect_is_known() -> None:
    found = variance(*by_tokens(), [on_plan(), a_record(_START + 50 * _DAY, 10, "5")], _START + 60 * _DAY)
    assert (found.price, found.volume, found.efficiency) == (None, None, None)
    assert [note.code for note in found.notes] == ["gap-in-actuals"]


def test_a_gap_before_the_end_leaves_the_finish_unknown() -> None:
    early = a_record(_START, 10, "4000", gpu_hours=2000.0, tokens_done=0.5 * TOKENS)
    found = as_of_the_end(by_tokens(), early, a_record(_DAY_10 + _DAY, 10, "4000", tokens_done=0.5 * TOKENS))
    assert (found.finish_at, found.total) == (None, None)


def test_a_data_set_that_outlasts_the_run_is_paid_by_its_invoices() -> None:
    # A dollar an hour for 1,460 h: 960 of them are in what the run came to, 240 in the invoice, 260 are to come.
    kept = {"kind": "metered", "price_per_gb_month": "0.10", "dataset_gb": 7300, "dataset_hours": 1460}
    run = a_record(_START, 40, "16960", gpu_hours=8000.0, tokens_done=TOKENS)
    found = as_of_the_end(by_tokens(storage=kept), run, a_record(_START + 40 * _DAY, 10, "240"))
    assert (found.remaining, found.total, found.price_percent) == (Decimal("260.00"), Decimal("17460.00"), 100.0)


def worked(days: int = 10, begin: datetime.datetime = _START) -> ActualRecord:
    """A fifth of the work in ten days."""
    return a_record(begin, days, "3960", gpu_hours=1800.0, tokens_done=0.2 * TOKENS)


def test_a_pause_moves_the_finish_by_itself_and_not_the_rate() -> None:
    before = as_of_the_end(by_tokens(), worked())
    pause = a_record(_DAY_10, 30, "0", gpu_hours=0.0, tokens_done=0.0)
    found = as_of_the_end(by_tokens(), worked(), pause)
    assert found.finish_at is not None
    assert before.finish_at is not None
    assert (found.work_per_hour, found.remaining_hours, found.price_percent) == (
        before.work_per_hour,
        before.remaining_hours,
        before.price_percent,
    )
    assert found.finish_at - before.finish_at == 30 * _DAY
    (note,) = (note for note in found.notes if note.code == "pauses-left-out")
    assert "720 h" in note.message
    assert "pauses-left-out" not in codes(before)


def test_a_pause_is_no_week_of_the_work() -> None:
    # 4 % of the work in two days: too little to go by, however long nothing ran after it.
    little = a_record(_START, 2, "300", gpu_hours=400.0, tokens_done=0.04 * TOKENS)
    found = as_of_the_end(by_tokens(), little, a_record(_START + 2 * _DAY, 30, "0", gpu_hours=0.0, tokens_done=0.0))
    assert found.rate_basis == "plan"


def test_work_without_gpu_hours_is_no_pause() -> None:
    given_free = a_record(_DAY_10, 10, "0", gpu_hours=0.0, tokens_done=0.2 * TOKENS)
    found = as_of_the_end(by_tokens(), worked(), given_free)
    assert found.work_per_hour == pytest.approx(0.4 * TOKENS / 480)


def test_after_the_term_of_a_commitment_a_pause_makes_no_gpu_hour_dearer() -> None:
    # All 1,920 GPU-hours were within the 500 h of the term, at 2.00: a pause after it puts none of them beyond.
    price = {"kind": "commitment", "amount": "2", "gpu_count": 8, "term_hours": 500, "overflow_amount": "3"}
    run = a_record(_START, 10, "3840", gpu_hours=1920.0, tokens_done=0.2 * TOKENS)
    pause = a_record(_DAY_10, 30, "0", gpu_hours=0.0, tokens_done=0.0)
    assert as_of_the_end(by_tokens(price=price), run, pause).price_percent == 100.0


def half_done(amount: str) -> ActualRecord:
    """Half of the work in half of the 1,000 h."""
    end = _START + datetime.timedelta(hours=500)
    return ActualRecord(
        period_start=_START, period_end=end, amount=Decimal(amount), gpu_hours=4000.0, tokens_done=TOKENS / 2
    )


def test_storage_that_nobody_charged_during_a_pause_makes_no_gpu_hour_cheaper() -> None:
    # 1,000 of storage over 1,000 h: half of it and 8,000 of GPU time are paid, and as much is left, pause or not.
    plan = by_tokens(storage={"kind": "fixed", "amount": "1000"})
    pause = a_record(half_done("0").period_end, 20, "0", gpu_hours=0.0, tokens_done=0.0)
    before, found = as_of_the_end(plan, half_done("8500")), as_of_the_end(plan, half_done("8500"), pause)
    assert (before.price_percent, before.total) == (100.0, Decimal("17000.00"))
    assert (found.price_percent, found.total) == (before.price_percent, before.total)


_kept: list[dict[str, Any]] = [
    {"storage": {"kind": "fixed", "amount": "1000"}},
    {"storage": {"kind": "metered", "price_per_gb_month": "0.10", "dataset_gb": 7300, "dataset_hours": 1460}},
    {
        "price": {
            "kind": "commitment",
            "amount": "2",
            "gpu_count": 12,
            "term_hours": 1200,
            "attribution": "term",
            "overflow_amount": "3",
        }
    },
]


@given(st.sampled_from(_kept), st.integers(1, 40), st.integers(0, 10**6), st.integers(0, 3))
def test_what_was_paid_in_a_pause_is_in_the_total_and_not_in_the_price(
    sections: dict[str, Any], days: int, cents: int, more: int
) -> None:
    plan, run = by_tokens(**sections), half_done("12345.67")
    pauses = [
        a_record(run.period_end + days * index * _DAY, days, str(Decimal(cents) / 100), gpu_hours=0.0)
        for index in range(1 + more)
    ]
    before, found = as_of_the_end(plan, run), as_of_the_end(plan, run, *pauses)
    assert before.price_percent is not None
    assert found.price_percent == before.price_percent
    assert found.actual == run.amount + len(pauses) * Decimal(cents) / 100


def test_storage_before_a_first_record_is_not_taken_off_its_price() -> None:
    # The run began ten days late: 240 h of storage at a dollar were not paid, and are not in what was.
    late = a_record(_DAY_10, 10, "4080", gpu_hours=1920.0, tokens_done=0.24 * TOKENS)
    assert as_of_the_end(by_tokens(storage={"kind": "fixed", "amount": "1000"}), late).price_percent == 100.0


def test_a_record_of_no_gpu_hours_says_that_no_work_was_done() -> None:
    said = a_record(_DAY_10, 30, "0", gpu_hours=0.0, tokens_done=0.0)
    unsaid = a_record(_DAY_10, 30, "0", gpu_hours=0.0)
    found = as_of_the_end(by_tokens(), worked(), unsaid)
    assert found.finish_at is not None
    assert found == as_of_the_end(by_tokens(), worked(), said)
    assert "work-unknown" not in codes(found)
