"""Actual against planned cost to date, split into price, volume and efficiency, to the cent.

The plan to date is its amortised phasing, without contingency, until the last record that is over. Flexed for the work
that was really done it says what would have been right:

* volume: (GPU-hours that the plan takes for the work done - GPU-hours planned to date) x planned rate
* efficiency: (GPU-hours billed - GPU-hours that the plan takes for the work done) x planned rate
* price: (rate paid - planned rate) x GPU-hours billed

A rate is all that was paid over the GPU-hours billed, on both sides, so that the three add up to the difference:
storage or egress that cost more than planned show as price. Once all of the work is done, later records count for their
amounts alone, which show as price too.
"""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from msgspec import Meta, Struct

from service.estimator.results import Estimate, Note
from service.scenarios.arithmetic.actuals import (
    ActualRecord,
    ToDate,
    WorkUnit,
    baseline_of,
    flexed_gpu_hours,
    notes_on,
    planned_cost,
    planned_work,
    to_date,
    until_finished,
)
from service.scenarios.arithmetic.phasing import planned_gpu_hours
from service.scenarios.arithmetic.shares import amount_of, rounded_to, shown, units_of
from service.scenarios.arithmetic.spreads import Moment, Schedule

_Effect = Decimal | None


class Progress(Struct, frozen=True):
    """One side: what was done and what it took."""

    amount: Decimal
    gpu_hours: Annotated[float | None, Meta(description="Billed; null if a record does not say.")]
    work_done: Annotated[float | None, Meta(description="In `unit`; null if a record does not say.")]
    rate_per_gpu_hour: Annotated[
        float | None, Meta(description="Everything paid over the GPU-hours billed; null where there are none.")
    ]


class Variance(Struct, frozen=True):
    """Actual less planned, and why. Null where records do not say enough; the difference then stands alone."""

    currency: str
    known_until: Annotated[Moment | None, Meta(description="End of the last record that is over; null without one.")]
    unit: Annotated[WorkUnit, Meta(description="What work is counted in.")]
    planned: Progress | None
    actual: Progress | None
    difference: Annotated[_Effect, Meta(description="Positive where more was paid than planned by then.")]
    price: Annotated[_Effect, Meta(description="The rate that was paid, against the planned one.")]
    volume: Annotated[_Effect, Meta(description="More or less work done by then than planned.")]
    efficiency: Annotated[_Effect, Meta(description="More or fewer GPU-hours for that work than planned.")]
    notes: tuple[Note, ...]


def variance(
    answer: Estimate, schedule: Schedule, records: Sequence[ActualRecord], as_of: datetime.datetime
) -> Variance:
    """The difference between what was paid and the plan by then, in three effects that add up to it."""
    plan, currency = baseline_of(answer), answer.cost.currency
    paid = to_date(records, as_of, plan.unit, currency)
    if paid.known_until is None:
        return Variance(currency, None, plan.unit, None, None, None, None, None, None, paid.notes)
    done = until_finished(paid, plan, currency)
    moment = paid.known_until
    planned_amount = planned_cost(answer, schedule, moment)
    planned_hours = planned_gpu_hours(answer, schedule, moment)
    planned = _progress(planned_amount, planned_hours, planned_work(answer, schedule, moment))
    actual = _progress(paid.amount, done.gpu_hours, done.work)
    difference = paid.amount - planned_amount
    flexed = None if done.work is None else flexed_gpu_hours(answer, schedule, moment, done.work)
    price, volume, efficiency = _effects(paid, done.gpu_hours, planned_amount, planned_hours, flexed, currency)
    notes = notes_on(paid, done)
    if not planned_hours:
        notes += (Note("nothing-planned-yet", "warning", "By then no GPU-hour was planned: there is no planned rate."),)
    return Variance(currency, moment, plan.unit, planned, actual, difference, price, volume, efficiency, notes)


def _effects(
    paid: ToDate,
    gpu_hours: Fraction | None,
    planned_amount: Decimal,
    planned_hours: Fraction,
    flexed_hours: Fraction | None,
    currency: str,
) -> tuple[_Effect, _Effect, _Effect]:
    """Price, volume and efficiency. Without the work done only the price is known; after a gap nothing is."""
    if gpu_hours is None or paid.has_gaps or not planned_hours:
        return None, None, None
    one_unit = Fraction(amount_of(1, currency))
    rate = Fraction(planned_amount) / one_unit / planned_hours
    price = Fraction(paid.amount) / one_unit - rate * gpu_hours
    difference = units_of(paid.amount - planned_amount, currency)
    if flexed_hours is None:
        parts = rounded_to(difference, [price, rate * (gpu_hours - planned_hours)])
        return amount_of(parts[0], currency), None, None
    volume = rate * (flexed_hours - planned_hours)
    efficiency = rate * (gpu_hours - flexed_hours)
    parts = rounded_to(difference, [price, volume, efficiency])
    return amount_of(parts[0], currency), amount_of(parts[1], currency), amount_of(parts[2], currency)


def _progress(amount: Decimal, gpu_hours: Fraction | None, work: Fraction | None) -> Progress:
    rate = Fraction(amount) / gpu_hours if gpu_hours else None
    return Progress(amount, _shown(gpu_hours), _shown(work), _shown(rate))


def _shown(value: Fraction | None) -> float | None:
    return None if value is None else shown(value)
