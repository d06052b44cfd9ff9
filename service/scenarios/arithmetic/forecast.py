"""What a run that is under way will come to, and when: what was paid, and the rest at the rate that was seen.

How fast the rest goes and what it costs is in `remaining`. The quantiles are the plan's distance from its expected
cost, times sqrt((1 - c) x^2 + c x), where x is what is left over what was planned in all and c the share of the
variance that is the chance of failures. Inputs that are off are off for the whole run, so their spread shrinks with
what is left; failures are independent of each other, so their variance does. Nothing is credited for having been
observed: the quantiles are rather wide than narrow. The total holds no contingency: that is what they are for. What
`budget.confidence_percent` asks for shrinks like them, from the plan's contingency and its finish at that quantile.

Once all of the work is done, the finish is the end of the record that says so, and stays. Later records count for their
amounts alone.
"""

import datetime
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from msgspec import UNSET, Meta, Struct, structs

from service.errors import BrokenRule
from service.estimator.answers import CostQuantiles, FinishQuantiles
from service.estimator.results import Estimate, Note
from service.estimator.run import to_the_second
from service.estimator.timing import finish_at
from service.estimator.uncertainty import CHANCE
from service.money import exact, exact_arithmetic, to_minor_unit
from service.scenarios.arithmetic.actuals import (
    ActualRecord,
    Baseline,
    ToDate,
    WorkUnit,
    baseline_of,
    hours_between,
    notes_on,
    to_date,
    until_finished,
)
from service.scenarios.arithmetic.remaining import Pace, RateBasis, Rest, pace_of, rest_of
from service.scenarios.arithmetic.shares import decimal_of, shown
from service.scenarios.arithmetic.spreads import Moment, Schedule, frame_of
from service.units import HOURS_PER_DAY, PERCENT


class Reforecast(Struct, frozen=True, kw_only=True):
    """A run under way: paid, still to pay, and when it ends. Null where records do not say enough."""

    known_until: Annotated[Moment | None, Meta(description="End of the last record that is over; null without one.")]
    currency: str
    unit: Annotated[WorkUnit, Meta(description="What work is counted in.")]
    work: Annotated[float, Meta(description="All of it, as planned.")]
    work_done: float | None
    done_percent: float | None
    rate_basis: Annotated[
        RateBasis | None, Meta(description="Whether the rest goes at the rate that was seen, or at the plan's.")
    ]
    work_per_hour: Annotated[float | None, Meta(description="The rate that was used.")]
    work_per_gpu_hour: Annotated[float | None, Meta(description="The rate that was used.")]
    price_percent: Annotated[
        float | None, Meta(description="The price of GPU time that was used for the rest, in percent of the plan's.")
    ]
    actual: Annotated[Decimal | None, Meta(description="Paid until `known_until`; 0 before the planned start.")]
    remaining: Annotated[Decimal | None, Meta(description="Still to be paid.")]
    total: Annotated[Decimal | None, Meta(description="Their sum, without contingency.")]
    planned_total: Annotated[Decimal, Meta(description="The plan's, without contingency.")]
    over_plan: Annotated[Decimal | None, Meta(description="`total` less `planned_total`.")]
    remaining_gpu_hours: float | None
    remaining_hours: float | None
    finish_at: Annotated[
        Moment | None, Meta(description="Once the work is done, the end of the first record with which it is.")
    ]
    delay_hours: Annotated[float | None, Meta(description="Behind the plan's finish; negative where ahead of it.")]
    cost_quantiles: Annotated[CostQuantiles | None, Meta(description="Null where the plan has none.")]
    finish_quantiles: Annotated[FinishQuantiles | None, Meta(description="Null where the plan has none.")]
    confident_total: Annotated[
        Decimal | None,
        Meta(description="With what is left of the contingency; null where the plan's budget has no confidence."),
    ]
    confident_finish_at: Annotated[
        Moment | None,
        Meta(description="At the plan's `budget.confidence_percent`; null without one, or without a deadline."),
    ]
    notes: tuple[Note, ...]


def reforecast(
    answer: Estimate, schedule: Schedule, records: Sequence[ActualRecord], as_of: datetime.datetime
) -> Reforecast:
    """The forecast as of a date, from the records that are over by then."""
    plan = baseline_of(answer)
    paid = to_date(records, as_of, plan.unit, answer.cost.currency)
    done = until_finished(paid, plan, answer.cost.currency)
    now = done.known_until
    if now is None and as_of <= schedule.start_at:
        now = schedule.start_at  # nothing is due yet, and nothing is done
    if now is None or done.work is None or done.has_gaps:
        return _unknown(answer, plan, paid, done)
    pace = pace_of(plan, done)
    rest = Rest(None, None)  # what was paid in a gap after the end is not known
    if not paid.has_gaps:
        rest = rest_of(answer, schedule, done, paid.known_until or now, pace)
    return _forecast(answer, schedule, plan, paid, done, now, pace, rest)


def _forecast(
    answer: Estimate,
    schedule: Schedule,
    plan: Baseline,
    paid: ToDate,
    done: ToDate,
    now: datetime.datetime,
    pace: Pace,
    rest: Rest,
) -> Reforecast:
    """`paid` is all that is known, `done` what was until the run was over, and `now` until when that is."""
    assert done.work is not None
    currency, left = answer.cost.currency, None if rest.cost is None else decimal_of(rest.cost)
    remaining = None if left is None else to_minor_unit(left, currency)
    total = None if remaining is None else paid.amount + remaining
    finish = _finish(now, pace.hours_left)
    planned_finish = frame_of(answer, schedule, "amortised").end
    return structs.replace(
        _unknown(answer, plan, paid, done),
        work_done=shown(done.work),
        done_percent=shown(done.work * PERCENT / plan.work),
        rate_basis=pace.basis,
        work_per_hour=shown(pace.per_hour),
        work_per_gpu_hour=None if pace.per_gpu_hour is None else shown(pace.per_gpu_hour),
        price_percent=None if rest.price is None else shown(rest.price * PERCENT),
        actual=paid.amount,
        remaining=remaining,
        total=total,
        over_plan=None if total is None else total - plan.expected_total,
        remaining_gpu_hours=None if pace.gpu_hours_left is None else shown(pace.gpu_hours_left),
        remaining_hours=shown(pace.hours_left),
        finish_at=None if finish is None else to_the_second(finish, now),
        delay_hours=None if finish is None else shown(hours_between(planned_finish, finish)),
        cost_quantiles=None if left is None else _cost_quantiles(answer, plan, paid.amount, left),
        finish_quantiles=_finish_quantiles(answer, now, pace.hours_left),
        confident_total=None if left is None else _confident_total(answer, plan, paid.amount, left),
        confident_finish_at=_confident_finish(answer, schedule, now, pace.hours_left),
        notes=(*notes_on(paid, done), *rest.notes, *_notes(answer, pace, finish)),
    )


def _unknown(answer: Estimate, plan: Baseline, paid: ToDate, done: ToDate) -> Reforecast:
    """What was paid, and that nobody can say more."""
    return Reforecast(
        known_until=paid.known_until,
        currency=answer.cost.currency,
        unit=plan.unit,
        work=shown(plan.work),
        work_done=None if done.work is None or done.known_until is None else shown(done.work),
        done_percent=None,
        rate_basis=None,
        work_per_hour=None,
        work_per_gpu_hour=None,
        price_percent=None,
        actual=None if paid.known_until is None else paid.amount,
        remaining=None,
        total=None,
        planned_total=plan.expected_total,
        over_plan=None,
        remaining_gpu_hours=None,
        remaining_hours=None,
        finish_at=None,
        delay_hours=None,
        cost_quantiles=None,
        finish_quantiles=None,
        confident_total=None,
        confident_finish_at=None,
        notes=notes_on(paid, done),
    )


def _notes(answer: Estimate, pace: Pace, finish: datetime.datetime | None) -> Iterator[Note]:
    if pace.paused and pace.basis == "observed":
        told = f"Periods of 0 GPU-hours ({shown(pace.paused):g} h) are left out of the rate; no more are expected."
        yield Note("pauses-left-out", "info", told)
    if pace.basis == "plan" and not pace.is_over:
        yield Note("plan-rate", "info", "Too little is done to go by: the rest is at the plan's rate and price.")
    if finish is None:
        yield Note("never-ends", "warning", "At this rate the run ends after the year 9999.")
    if answer.risk is UNSET:
        yield Note("no-quantiles", "info", "The plan has no distribution: ask for `uncertainty` to get quantiles.")


def spread_left(left: Fraction, chance: Fraction) -> Decimal:
    """How much of the plan's spread is left, where so much of the run is and so much of its variance is chance."""
    with exact_arithmetic():
        return decimal_of((1 - chance) * left * left + chance * left).sqrt()


def _chance(answer: Estimate) -> Fraction:
    """The share of the variance that is chance; none where the plan does not say."""
    if answer.risk is UNSET:
        return Fraction(0)
    percents = [exact(share.percent) for share in answer.risk.variance_shares if share.input == CHANCE]
    return min(Fraction(1), sum((Fraction(percent) / PERCENT for percent in percents), Fraction(0)))


def _cost_quantiles(answer: Estimate, plan: Baseline, paid: Decimal, left: Decimal) -> CostQuantiles | None:
    """Never less than what was paid."""
    if answer.risk is UNSET or not plan.expected_total:
        return None
    planned = answer.risk.cost
    with exact_arithmetic():
        scale = spread_left(Fraction(left) / Fraction(plan.expected_total), _chance(answer))
        return CostQuantiles(
            **{
                name: to_minor_unit(
                    paid + max(Decimal(0), left + (getattr(planned, name) - plan.expected_total) * scale),
                    answer.cost.currency,
                )
                for name in CostQuantiles.__struct_fields__
            }
        )


def _confident_total(answer: Estimate, plan: Baseline, paid: Decimal, left: Decimal) -> Decimal | None:
    """The plan's total has its contingency, and of that as much is left as of its spread."""
    if answer.cost.expected_total is UNSET:
        return None
    contingency, scale = answer.cost.total - plan.expected_total, Decimal(1)
    with exact_arithmetic():
        if plan.expected_total:
            scale = spread_left(Fraction(left) / Fraction(plan.expected_total), _chance(answer))
        return to_minor_unit(paid + left + contingency * scale, answer.cost.currency)


def _confident_finish(
    answer: Estimate, schedule: Schedule, now: datetime.datetime, hours_left: Fraction
) -> datetime.datetime | None:
    """From the finish that the plan's verdict judged, which is where the plan says it."""
    verdict = answer.verdict
    if verdict is None or verdict.judged != "quantile" or verdict.deadline is None:
        return None
    headroom = Fraction(exact(verdict.deadline.headroom_hours))
    planned_hours = hours_between(schedule.start_at, verdict.deadline.deadline) - headroom
    finish = _at_quantile(answer, now, hours_left, planned_hours)
    return None if finish is None else to_the_second(finish, now)


def _at_quantile(
    answer: Estimate, now: datetime.datetime, hours_left: Fraction, planned_hours: Fraction
) -> datetime.datetime | None:
    """The finish where the plan takes so many hours in all; never before what is known."""
    expected = Fraction(exact(answer.duration.expected_wall_clock_hours))
    scale = Fraction(spread_left(hours_left / expected, _chance(answer)))
    return _finish(now, max(Fraction(0), hours_left + (planned_hours - expected) * scale))


def _finish_quantiles(answer: Estimate, now: datetime.datetime, hours_left: Fraction) -> FinishQuantiles | None:
    """Null where one of them is on no calendar."""
    if answer.risk is UNSET:
        return None
    found: dict[str, datetime.datetime] = {}
    for name in FinishQuantiles.__struct_fields__:
        days = Fraction(exact(getattr(answer.risk.days, f"{name}_days")))
        finish = _at_quantile(answer, now, hours_left, days * HOURS_PER_DAY)
        if finish is None:
            return None
        found[name] = to_the_second(finish, now)
    return FinishQuantiles(**found)


def _finish(now: datetime.datetime, hours_left: Fraction) -> datetime.datetime | None:
    """When so many hours are over; None where no calendar has that day."""
    try:
        with exact_arithmetic():
            return finish_at(now, decimal_of(hours_left))
    except BrokenRule:
        return None
