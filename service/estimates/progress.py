"""Whether a run progresses at all: what of its time is productive, which field is to blame, and what would help."""

from collections.abc import Callable

from msgspec import UNSET, UnsetType, structs

from service.errors import BrokenRule
from service.estimates.record import Record
from service.estimates.rework_schemas import Checkpointing, FailuresRework, HardwareFailures, SpotInterruptions
from service.estimator import risk_advice
from service.estimator.plan import Failures
from service.estimator.rework import CauseHours
from service.estimator.timing import causes_of
from service.units import PERCENT

# Below, a run is refused: nobody would go on with it, and its figures hang on the last digit of the rates.
LEAST_PRODUCTIVE_PERCENT = 1.0
# Below, it is said.
LOW_PRODUCTIVE_PERCENT = 50.0
_TIMES: tuple[int, ...] = tuple(1 << power for power in range(1, 13))
_MINUTES_PER_HOUR = 60

_HARDWARE = ("failures_per_node_day", "node_mtbf_hours", "software_failures_per_node_day", "restart_minutes")
_CHECKPOINT = ("seconds", "bandwidth_gb_s", "size_gb", "interval_minutes")
_Section = HardwareFailures | SpotInterruptions | Checkpointing

# The same failures at the interval of the request, else at the one that costs least.
AtItsInterval = Callable[[Failures], Failures]


def check_progress(
    record: Record,
    rework: FailuresRework,
    failures: Failures,
    work_hours: float,
    best_interval_hours: float | None,
    at_its_interval: AtItsInterval,
) -> None:
    """A note where less than half of the time is productive; BrokenRule where next to nothing is."""
    causes = causes_of(work_hours, failures)
    productive = _productive_percent(causes)
    if productive >= LOW_PRODUCTIVE_PERCENT:
        return
    help_ = _what_would_help(failures, work_hours, best_interval_hours, at_its_interval)
    if productive >= LEAST_PRODUCTIVE_PERCENT:
        record.note(risk_advice.hardly_progresses(productive, help_))
        return
    told = f"Less than {LEAST_PRODUCTIVE_PERCENT:g} % of the time would be productive, and the run all but never ends."
    better = _better_interval(rework, failures, work_hours, best_interval_hours)
    if better is not None:
        raise BrokenRule.at("/rework/checkpoint/interval_minutes", f"{told} {better}")
    raise BrokenRule.at(_to_blame(rework, causes), f"{told} {help_}".rstrip())


def _productive_percent(causes: CauseHours) -> float:
    return float(PERCENT * causes.work / causes.expected)


def _what_would_help(
    failures: Failures, work_hours: float, best_interval_hours: float | None, at_its_interval: AtItsInterval
) -> str:
    """Each change that by itself leaves half of the time productive, if any does."""

    def would(changed: Failures) -> bool:
        return _productive_percent(causes_of(work_hours, changed)) >= LOW_PRODUCTIVE_PERCENT

    def times_less(*fields: str) -> int | None:
        """How many times less of these is enough: the least power of two."""
        for times in _TIMES:
            less = {field: getattr(failures, field) / times for field in fields}
            if would(at_its_interval(structs.replace(failures, **less))):
                return times
        return None

    found = []
    if best_interval_hours is not None and would(structs.replace(failures, interval_hours=best_interval_hours)):
        found.append(f"a checkpoint every {_minutes(best_interval_hours)}")
    times = times_less("per_hour", "spot_per_hour")
    if times is not None:
        found.append(f"{'interruptions' if failures.on_spot else 'failures'} {times} times rarer")
        if failures.node_count >= times:
            nodes = failures.node_count // times
            found.append(f"about {nodes:,} node{'s' if nodes != 1 else ''}")
    times = times_less("restart_hours", "spot_restart_hours")
    if times is not None:
        found.append(f"restarts of {_minutes(max(failures.restart_hours, failures.spot_restart_hours) / times)}")
    times = times_less("spot_wait_hours", "spot_away_hours")
    if times is not None:
        found.append(f"waits of {failures.spot_wait_hours / times:.2g} h")
    steady = structs.replace(failures, spot_per_hour=0.0, on_spot=False)
    if failures.on_spot and would(at_its_interval(steady)):
        found.append("capacity that is not spot")
    if not found:
        return ""
    return f"Half of it would be with {' or '.join(filter(None, (', '.join(found[:-1]), found[-1])))}."


def _better_interval(
    rework: FailuresRework, failures: Failures, work_hours: float, best_interval_hours: float | None
) -> str | None:
    """What another interval than the one given would do, where that would let the run progress."""
    if rework.checkpoint is UNSET or rework.checkpoint.interval_minutes is UNSET:
        return None
    best = work_hours if best_interval_hours is None else best_interval_hours
    productive = _productive_percent(causes_of(work_hours, structs.replace(failures, interval_hours=best)))
    if productive < LEAST_PRODUCTIVE_PERCENT:
        return None
    return f"With a checkpoint every {_minutes(best)} {productive:.3g} % would be."


def _minutes(hours: float) -> str:
    minutes = hours * _MINUTES_PER_HOUR
    return f"{minutes:,.0f} minutes" if minutes >= 10 else f"{minutes:.2g} minutes"  # two digits


def _to_blame(rework: FailuresRework, causes: CauseHours) -> str:
    """The field of the cause that costs most, as far as the request has it."""
    lost = {
        "checkpoints": causes.checkpoints,
        "hardware": causes.hardware,
        "spot": causes.spot,
        "spot_wait": causes.spot_wait,
    }
    cause = max(lost, key=lambda name: lost[name])
    if cause == "checkpoints":
        return _sent("/rework/checkpoint", rework.checkpoint, _CHECKPOINT) or "/rework"
    if cause == "spot":
        return _sent("/rework/spot", rework.spot, ("interruptions_per_node_hour", "restart_minutes")) or "/rework"
    if cause == "spot_wait":
        return _sent("/rework/spot", rework.spot, ("wait_hours",)) or "/rework"
    preset = "/rework" if rework.preset is UNSET else "/rework/preset"
    return _sent("/rework/hardware", rework.hardware, _HARDWARE) or preset


def _sent(at: str, section: _Section | UnsetType, names: tuple[str, ...]) -> str | None:
    """The first of these fields that the request has, else the section; None if it has not even that."""
    if section is UNSET:
        return None
    return next((f"{at}/{name}" for name in names if getattr(section, name) is not UNSET), at)
