"""The hours of a plan: productive, overhead, rework by cause, set-up; and how far failures alone spread them."""

import datetime
from decimal import Decimal
from functools import cached_property, reduce

from msgspec import Struct, structs

from service.estimator.charges import fallback_gpu_hours
from service.estimator.cost import Number
from service.estimator.distribution import Completion, completion, two_point_variance
from service.estimator.elementary import least
from service.estimator.plan import Failures, Plan, Ratio
from service.estimator.reliability import job_mttf_hours, spot_wait_hours
from service.estimator.results import Component
from service.estimator.rework import CauseHours, Stops, hours_by_cause, joint_stops, share
from service.estimator.run import finish_after
from service.money import exact
from service.units import PERCENT

_BEYOND_EVERY_CALENDAR_HOURS = Decimal(10) ** 9


class Hours(Struct, frozen=True, kw_only=True, dict=True):
    """Hours by what they are for, each still to be divided. The rework is one part (a typed percent), or several."""

    ideal: Ratio
    productive: Ratio
    overhead: Ratio
    rework: tuple[tuple[Component, Ratio], ...]
    setup: Ratio
    stops: Number = 0
    interruptions: Number = 0
    fallback_gpu_hours: Number = 0

    @cached_property
    def working(self) -> Ratio:
        """Productive hours and their overhead."""
        return self.productive.plus(self.overhead)

    @cached_property
    def without_rework(self) -> Number:
        return self.working.value

    @cached_property
    def rework_hours(self) -> Number:
        return self._lost.value

    @cached_property
    def expected(self) -> Number:
        return self.working.plus(self._lost).plus(self.setup).value

    @cached_property
    def _lost(self) -> Ratio:
        return reduce(Ratio.plus, (part for _, part in self.rework))


def hours_of(plan: Plan, excess: Number = 1.0) -> Hours:
    """All hours of a plan. `excess` multiplies what failures cost: 1 on average, else a draw."""
    ideal, productive, overhead = work_hours(plan)
    setup = Ratio(plan.setup_hours)
    if plan.failures is None:
        rework: tuple[tuple[Component, Ratio], ...] = (("rework", buffer_hours(plan)),)
        return Hours(ideal=ideal, productive=productive, overhead=overhead, rework=rework, setup=setup)
    causes = causes_of(as_floats(productive.value + overhead.value), plan.failures)
    lost: list[tuple[Component, Number]] = [
        ("rework_checkpoints", causes.checkpoints),
        ("rework_hardware", causes.hardware * excess),
    ]
    if plan.failures.on_spot:
        lost += [("rework_spot", causes.spot * excess), ("rework_spot_wait", causes.spot_wait * excess)]
    lost += [("rework_instability", causes.instability), ("rework_people", causes.people)]
    like = plan.hours
    return Hours(
        ideal=ideal,
        productive=productive,
        overhead=overhead,
        rework=tuple((component, Ratio(_as(like, value))) for component, value in lost),
        setup=setup,
        stops=_as(like, causes.hardware_failures * excess),
        interruptions=_as(like, causes.spot_interruptions * excess),
        fallback_gpu_hours=_as(like, _fallback_gpu_hours(plan, plan.failures, causes, excess)),
    )


def work_hours(plan: Plan) -> tuple[Ratio, Ratio, Ratio]:
    """Ideal, productive and overhead hours, exact up to their division. `cost.stretched` is the same formula: the
    share of an ideal quantity at this efficiency."""
    divisor = plan.efficiency_percent * plan.hours_divisor
    return (
        Ratio(plan.hours, plan.hours_divisor),
        Ratio(plan.hours * PERCENT, divisor),
        Ratio(plan.hours * plan.overhead_percent, divisor),
    )


def buffer_hours(plan: Plan) -> Ratio:
    """A typed percent of the productive hours and their overhead."""
    divisor = plan.efficiency_percent * plan.hours_divisor * PERCENT
    return Ratio(plan.hours * (PERCENT + plan.overhead_percent) * plan.buffer_percent, divisor)


def interruptions_per_hour(failures: Failures, work_hours: Number) -> Number:
    """Interruptions of the nodes that are on spot capacity: those that fell back are not interrupted meanwhile.

    A node falls back every 1/(f h) hours on spot and is kept on demand for K: it is on spot 1/(1 + f h K) of the time
    (alternating renewal process; against runs played through within 2 %, and 13 % high where capacity stays away for
    longer than the run).
    """
    falls_back_per_hour = failures.spot_per_hour / failures.node_count * failures.fallback_percent / PERCENT
    return failures.spot_per_hour / (1 + falls_back_per_hour * _kept_hours(failures, work_hours))


def _kept_hours(failures: Failures, work_hours: Number) -> Number:
    """How long a node that fell back stays: until capacity is back after A hours, or the run is over after T. That is
    min(A, T) (1 - min(A, T) / 2T), for it falls back at any time."""
    away = least(failures.spot_away_hours, work_hours)
    return away * (1 - away / (2 * work_hours))


def _fallback_gpu_hours(plan: Plan, failures: Failures, causes: CauseHours, excess: Number) -> Number:
    """On-demand GPU-hours, at most all that the run has."""
    gpu_count = as_floats(plan.gpu_count)
    held = fallback_gpu_hours(
        causes.spot_interruptions * excess,
        failures.fallback_percent,
        _kept_hours(failures, causes.work),
        gpu_count / failures.node_count,
    )
    return least(held, gpu_count * causes.expected)


def stops_of(failures: Failures, work_hours: Number) -> tuple[Stops, Stops]:
    """Hardware and spot as causes of stops; waiting is a mean over those that wait and those that fall back."""
    wait = spot_wait_hours(failures.spot_wait_hours, failures.fallback_percent)
    return (
        Stops(failures.per_hour, failures.restart_hours),
        Stops(interruptions_per_hour(failures, work_hours), failures.spot_restart_hours, wait),
    )


def causes_of(work_hours: Number, failures: Failures) -> CauseHours:
    """Expected hours by cause, for so many hours of work and overhead."""
    hardware, spot = stops_of(failures, work_hours)
    return hours_by_cause(
        work_hours,
        failures.interval_hours,
        failures.checkpoint_hours,
        hardware,
        spot,
        failures.instability_percent,
        failures.people_percent,
    )


def completion_of(work_hours: Number, failures: Failures) -> Completion:
    """Mean and variance of the hours, set-up apart, with failures the only thing that is not certain."""
    hardware, spot = stops_of(failures, work_hours)
    both = joint_stops(hardware, spot)
    run = work_hours * (PERCENT + failures.instability_percent + failures.people_percent) / PERCENT
    waits = (PERCENT - failures.fallback_percent) / PERCENT
    spot_share = share(spot.per_hour, both.per_hour)
    return completion(
        run,
        failures.interval_hours,
        failures.checkpoint_hours,
        both.restart_hours,
        job_mttf_hours(both.per_hour),
        wait_hours=both.wait_hours,
        wait_variance_hours2=two_point_variance(failures.spot_wait_hours, spot_share * waits),
    )


def as_floats(value: Number) -> Number:
    """A decimal as a float; floats and arrays as they are."""
    return float(value) if isinstance(value, Decimal) else value


def finish_at(start_at: datetime.datetime, hours: Number) -> datetime.datetime:
    """When a run of so many hours is over; BrokenRule where no calendar has that day."""
    return finish_after(start_at, min(exact(hours), _BEYOND_EVERY_CALENDAR_HOURS))


def plan_in_floats(plan: Plan) -> Plan:
    """The same plan for draws: every decimal a float."""
    return structs.replace(
        plan,
        **{name: _deep_floats(getattr(plan, name)) for name in plan.__struct_fields__},
    )


def _deep_floats(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(_deep_floats(part) for part in value)
    if isinstance(value, Struct):
        return structs.replace(value, **{name: _deep_floats(getattr(value, name)) for name in value.__struct_fields__})
    return as_floats(value)


def _as(like: Number, value: Number) -> Number:
    """A float as the kind of number that the plan is made of."""
    return exact(float(value)) if isinstance(like, Decimal) else value
