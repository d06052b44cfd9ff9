"""What an estimate says of failures: how often, how good checkpoints are, hours by cause, and the spread of chance."""

import math
from typing import Literal, cast

from msgspec import Struct

from service.estimator.answers import CauseOfRework, Reliability, TimeQuantiles
from service.estimator.distribution import quantile_hours
from service.estimator.plan import Failures
from service.estimator.reliability import job_mttf_hours
from service.estimator.timing import Hours, completion_of, interruptions_per_hour
from service.money import fifteen_digits, number
from service.units import PERCENT

_Cause = Literal["checkpoints", "hardware", "spot", "spot_wait", "instability", "people"]
_MINUTES_PER_HOUR = 60
_SECONDS_PER_HOUR = 3600


class FailureFacts(Struct, frozen=True, kw_only=True):
    """What is said of failures and does not enter the hours; the optimal interval is None if nothing fails. Without
    spot interruptions the run would have an interval of its own. `on_usual_spot` is what would fail on spot capacity of
    which nobody said anything; None where that is not asked, or the run is on spot."""

    preset: str
    optimal_interval_hours: float | None
    interval_without_spot_hours: float
    on_usual_spot: Failures | None = None


def reliability_of(failures: Failures, facts: FailureFacts, hours: Hours) -> Reliability:
    """The section of an answer, from the plan's failures and the hours that followed."""
    work = hours.without_rework
    interrupted = interruptions_per_hour(failures, float(work))
    mttf_hours = float(job_mttf_hours(failures.per_hour + interrupted))
    optimal = facts.optimal_interval_hours
    return Reliability(
        preset=facts.preset,
        mean_time_to_failure_hours=_shown(mttf_hours) if math.isfinite(mttf_hours) else None,
        expected_failures=number(hours.stops),
        expected_spot_interruptions=number(hours.interruptions),
        checkpoint_seconds=_shown(failures.checkpoint_hours * _SECONDS_PER_HOUR),
        checkpoint_interval_minutes=_shown(failures.interval_hours * _MINUTES_PER_HOUR),
        optimal_interval_minutes=None if optimal is None else _shown(optimal * _MINUTES_PER_HOUR),
        restart_minutes=_shown(failures.restart_hours * _MINUTES_PER_HOUR),
        effective_training_time_percent=number(work * PERCENT / (work + hours.rework_hours)),
        equivalent_rework_percent=number(hours.rework_hours * PERCENT / work),
        causes=tuple(
            CauseOfRework(
                cast("_Cause", component.removeprefix("rework_")),
                number(part.value),
                number(part.value * PERCENT / work),
            )
            for component, part in hours.rework
        ),
        completion=_quantiles(failures, hours),
    )


def _quantiles(failures: Failures, hours: Hours) -> TimeQuantiles:
    times = completion_of(float(hours.without_rework), failures)
    setup = float(hours.setup.value)
    p50, p80, p90, p95 = (_shown(setup + quantile_hours(percent, times)) for percent in (50, 80, 90, 95))
    return TimeQuantiles(p50, p80, p90, p95)


def _shown(value: float) -> float:
    return fifteen_digits(value)
