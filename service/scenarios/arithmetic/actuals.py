"""What was really paid, period by period, beside the plan: records checked and added up, the plan's own progress.

What a record does not say is not known, and a sum with it in it is not known either: never 0. A time between records
that none covers is such a gap too; where nothing ran, a record of 0 GPU-hours says so, and of the work as well.
"""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, structs

from service.errors import BrokenRule
from service.estimator.results import Amount, Estimate, Note
from service.money import exact, exact_arithmetic, nothing, to_minor_unit
from service.scenarios.arithmetic.phasing import lines_until, phased, planned_gpu_hours, setup_gpu_hours
from service.scenarios.arithmetic.spreads import Basis, Moment, Schedule, frame_of, share_over

WorkUnit = Literal["tokens", "productive_gpu_hours"]

GAP = Note(
    "gap-in-actuals",
    "warning",
    "Between two records lies a time that none covers: if nothing ran, a record of 0 says so.",
)
_MICROSECONDS_PER_HOUR = 3_600_000_000
_MICROSECOND = datetime.timedelta(microseconds=1)


class ActualRecord(Struct, frozen=True, kw_only=True):
    """What one period came to. Periods do not overlap; a refund is negative."""

    period_start: Moment
    period_end: Annotated[Moment, Meta(description="Exclusive.")]
    amount: Annotated[Decimal, Meta(description="Paid for this period, in the plan's currency.")]
    gpu_hours: Annotated[
        float | None, Meta(ge=0, le=1e15, description="Billed, idle ones included; null if not known.")
    ] = None
    tokens_done: Annotated[float | None, Meta(ge=0, le=1e20, description="Trained and kept; null if not known.")] = None
    productive_gpu_hours: Annotated[
        float | None,
        Meta(ge=0, le=1e15, description="Of productive steps, where the plan knows no tokens; null if not known."),
    ] = None


class ToDate(Struct, frozen=True, kw_only=True):
    """Records added up until the last of them that is over by a date; None where one of them does not say."""

    records: tuple[ActualRecord, ...]
    known_until: datetime.datetime | None
    amount: Decimal
    gpu_hours: Fraction | None
    work: Fraction | None
    has_gaps: bool
    notes: tuple[Note, ...]


class Baseline(Struct, frozen=True, kw_only=True):
    """The plan as what actual progress is measured by: `run_` is after set-up, the cost without contingency."""

    unit: WorkUnit
    work: Fraction
    setup_gpu_hours: Fraction
    setup_hours: Fraction
    run_gpu_hours: Fraction
    run_hours: Fraction
    expected_total: Decimal

    @property
    def work_per_hour(self) -> Fraction:
        """After set-up."""
        return self.work / self.run_hours

    @property
    def work_per_gpu_hour(self) -> Fraction:
        """After set-up."""
        return self.work / self.run_gpu_hours


class BurnPoint(Struct, frozen=True):
    """Plan and actual at one moment, all since the start."""

    at: Moment
    planned: Amount
    planned_remaining: Annotated[Decimal, Meta(description="Of the plan's total.")]
    actual: Annotated[Decimal | None, Meta(description="Null but where a record ends: in between nobody knows.")]
    actual_remaining: Annotated[Decimal | None, Meta(description="What is left of the plan's total; may be negative.")]
    over_plan: Annotated[Decimal | None, Meta(description="Actual less planned.")]


class BurnDown(Struct, frozen=True):
    """Actual beside planned cost: at the start, at the end of every planned month and of every record."""

    currency: str
    total: Annotated[Decimal, Meta(description="The plan's, contingency included.")]
    points: tuple[BurnPoint, ...]
    notes: tuple[Note, ...]


def checked_records(records: Sequence[ActualRecord], at: str = "/records") -> tuple[ActualRecord, ...]:
    """In the order of time; BrokenRule where a period ends before it begins, or two overlap."""
    order = sorted(range(len(records)), key=lambda index: records[index].period_start)
    for index in order:
        if records[index].period_end <= records[index].period_start:
            raise BrokenRule.at(f"{at}/{index}/period_end", "A period ends after it begins")
    for earlier, later in pairwise(order):
        if records[later].period_start < records[earlier].period_end:
            raise BrokenRule.at(f"{at}/{later}/period_start", "Periods do not overlap")
    return tuple(_in_utc(records[index]) for index in order)


def to_date(records: Sequence[ActualRecord], as_of: datetime.datetime, unit: WorkUnit, currency: str) -> ToDate:
    """The sums of all records that are over by a date."""
    known = [record for record in checked_records(records) if record.period_end <= as_of]
    has_gaps = any(earlier.period_end < later.period_start for earlier, later in pairwise(known))
    gpu_hours = _sum([record.gpu_hours for record in known])
    work = _sum([_work_in(record, unit) for record in known])
    notes = []
    if not known:
        notes.append(Note("no-actuals", "info", "No period that is over by this date has a record."))
    if has_gaps:
        notes.append(GAP)
    if gpu_hours is None:
        notes.append(Note("gpu-hours-unknown", "warning", "A record does not say how many GPU-hours were billed."))
    if work is None:
        what = "tokens were done" if unit == "tokens" else "GPU-hours were productive"
        notes.append(Note("work-unknown", "warning", f"A record does not say how many {what}."))
    with exact_arithmetic():
        amount = to_minor_unit(sum((record.amount for record in known), Decimal(0)), currency)
    return ToDate(
        records=tuple(known),
        known_until=known[-1].period_end if known else None,
        amount=amount,
        gpu_hours=gpu_hours,
        work=work,
        has_gaps=has_gaps,
        notes=tuple(notes),
    )


def finished_at(records: Sequence[ActualRecord], plan: Baseline) -> datetime.datetime | None:
    """The end of the first record with which all of the work is done; None where it is not, or nobody can say."""
    so_far = Fraction(0)
    for record in records:
        done = _work_in(record, plan.unit)
        if done is None:
            return None
        so_far += Fraction(exact(done))
        if so_far >= plan.work:
            return record.period_end
    return None


def until_finished(paid: ToDate, plan: Baseline, currency: str) -> ToDate:
    """What was until all of the work was done, after which records add to neither hours nor work; else all of it."""
    finished = finished_at(paid.records, plan)
    return paid if finished is None else to_date(paid.records, finished, plan.unit, currency)


def notes_on(paid: ToDate, done: ToDate) -> tuple[Note, ...]:
    """On the records until the run was over, and on a gap in what was paid after it."""
    if paid.has_gaps and not done.has_gaps:
        return (*done.notes, GAP)
    return done.notes


def is_pause(record: ActualRecord, unit: WorkUnit) -> bool:
    """Whether it says that nothing ran: 0 GPU-hours, and no work."""
    return record.gpu_hours == 0 and not _work_in(record, unit)


def baseline_of(answer: Estimate) -> Baseline:
    """What the plan says of work, hours and cost. Work is tokens where it knows them, else productive GPU-hours."""
    setup = Fraction(0) if answer.duration.setup_hours is UNSET else Fraction(exact(answer.duration.setup_hours))
    unit: WorkUnit = "productive_gpu_hours"
    if answer.performance is not UNSET:
        unit, work = "tokens", Fraction(exact(answer.performance.trained_tokens))
    else:
        productive = (exact(line.quantity) for line in answer.cost.lines if line.component == "compute")
        work = sum((Fraction(hours) for hours in productive), Fraction(0))
    cost, expected = answer.cost, Fraction(exact(answer.duration.expected_wall_clock_hours))
    gpu_hours, set_up = Fraction(exact(answer.expected_gpu_hours)), setup_gpu_hours(answer)
    return Baseline(
        unit=unit,
        work=work,
        setup_gpu_hours=set_up,
        setup_hours=setup,
        # Of a run so short beside its set-up that 15 digits do not hold both, what is known of it alone.
        run_gpu_hours=gpu_hours - set_up or Fraction(exact(answer.gpu_hours)),
        run_hours=expected - setup or Fraction(exact(answer.duration.wall_clock_hours)),
        expected_total=cost.total if cost.expected_total is UNSET else cost.expected_total,
    )


def planned_work(answer: Estimate, schedule: Schedule, moment: datetime.datetime) -> Fraction:
    """Work that the plan has done by a moment: none during set-up, then evenly."""
    frame = frame_of(answer, schedule, "amortised")
    return baseline_of(answer).work * share_over(frame.setup_end, frame.end, moment)


def flexed_gpu_hours(answer: Estimate, schedule: Schedule, moment: datetime.datetime, work: Fraction) -> Fraction:
    """GPU-hours that the plan takes for work that was really done: its set-up so far, and the work at its own rate."""
    plan = baseline_of(answer)
    set_up = min(planned_gpu_hours(answer, schedule, moment), plan.setup_gpu_hours)
    return set_up + work / plan.work_per_gpu_hour


def planned_cost(answer: Estimate, schedule: Schedule, moment: datetime.datetime) -> Decimal:
    """What the plan costs by a moment, amortised and without contingency."""
    (row,) = lines_until(answer, schedule, [moment])
    return sum(
        (cell for line, cell in zip(answer.cost.lines, row, strict=True) if line.component != "contingency"),
        nothing(answer.cost.currency),
    )


def burn_down(
    answer: Estimate,
    schedule: Schedule,
    records: Sequence[ActualRecord],
    as_of: datetime.datetime,
    basis: Basis = "amortised",
) -> BurnDown:
    """Cumulative cost beside the plan's phasing."""
    plan, currency = phased(answer, schedule, basis), answer.cost.currency
    known = [record for record in checked_records(records) if record.period_end <= as_of]
    actual: dict[datetime.datetime, Decimal] = {}
    nothing_yet = nothing(currency)
    with exact_arithmetic():
        so_far = Decimal(0)
        if known:
            actual[known[0].period_start] = nothing_yet
        for record in known:
            so_far += record.amount
            actual[record.period_end] = to_minor_unit(so_far, currency)
        moments = sorted({plan.start_at, *(month.ends_at for month in plan.months), *actual})
        rows = lines_until(answer, schedule, moments, basis)
        points = tuple(
            _point(moment, sum(row, nothing_yet), actual.get(moment), plan.total)
            for moment, row in zip(moments, rows, strict=True)
        )
    return BurnDown(currency, plan.total, points, to_date(records, as_of, baseline_of(answer).unit, currency).notes)


def hours_between(begin: datetime.datetime, end: datetime.datetime) -> Fraction:
    """Hours from one moment to another."""
    return Fraction((end - begin) // _MICROSECOND, _MICROSECONDS_PER_HOUR)


def _point(moment: datetime.datetime, planned: Decimal, actual: Decimal | None, total: Decimal) -> BurnPoint:
    if actual is None:
        return BurnPoint(moment, planned, total - planned, None, None, None)
    return BurnPoint(moment, planned, total - planned, actual, total - actual, actual - planned)


def _work_in(record: ActualRecord, unit: WorkUnit) -> float | None:
    """What it says; none where it says that nothing ran."""
    said = record.tokens_done if unit == "tokens" else record.productive_gpu_hours
    return 0.0 if said is None and record.gpu_hours == 0 else said


def _in_utc(record: ActualRecord) -> ActualRecord:
    begin, end = (moment.astimezone(datetime.UTC) for moment in (record.period_start, record.period_end))
    return structs.replace(record, period_start=begin, period_end=end)


def _sum(values: Sequence[float | None]) -> Fraction | None:
    known = [Fraction(exact(value)) for value in values if value is not None]
    return sum(known, Fraction(0)) if len(known) == len(values) else None
