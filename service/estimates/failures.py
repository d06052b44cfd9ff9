"""Rework by its causes as numbers: rates, restarts, checkpoints and their interval, spot, instability, people."""

import math

from msgspec import UNSET, Struct, UnsetType, structs

from service.errors import BrokenRule
from service.estimates.progress import check_progress
from service.estimates.record import Record
from service.estimates.rework_schemas import (
    DEFAULT_PRESET,
    DEFAULT_WAIT_HOURS,
    Checkpointing,
    FailuresRework,
    HardwareFailures,
    PresetName,
    SpotInterruptions,
)
from service.estimator import advice
from service.estimator.failures import FailureFacts
from service.estimator.plan import Failures
from service.estimator.reliability import (
    INSTABILITY_PERCENT,
    PEOPLE_PERCENT,
    PRESETS,
    RATE_SPREAD_SIGMA,
    SPOT_INTERRUPTIONS_PER_NODE_HOUR,
    Preset,
    burn_in_factor,
    checkpoint_seconds,
    clamped_interval_hours,
    hardware_failures_per_hour,
    job_mttf_hours,
    mtbf_failures_per_hour,
    optimal_interval_hours,
    spot_interruptions_per_hour,
)
from service.estimator.timing import interruptions_per_hour

_GB = 1e9
_MINUTES_PER_HOUR = 60
_SECONDS_PER_HOUR = 3600
_LEAST_STEP_HOURS = 1e-3
_NEVER_PER_HOUR = 1e-30  # a mean time that is a number, and no run's
_FAR = 4.0  # times off the optimal interval, from which on it is said
# Lognormal spreads of what nobody measured (estimates of three published systems differ by as much); assumed.
_RESTART_SIGMA = 0.6
_CHECKPOINT_SIGMA = 0.5
_SPOT_SIGMA = 1.0
_BEST_INTERVAL = "the interval that costs least (Daly 2006, Lambert W), in whole steps"


class Job(Struct, frozen=True, kw_only=True):
    """What failures depend on: how many nodes for how long, and what a checkpoint of the model weighs."""

    node_count: int
    work_hours: float
    step_hours: float | None
    checkpoint_bytes: float | None


class FoundFailures(Struct, frozen=True):
    """For the plan, and for the answer."""

    failures: Failures
    facts: FailureFacts


def failures_of(record: Record, rework: FailuresRework, job: Job, *, spot_is_compared: bool = False) -> FoundFailures:
    """The section in numbers; what it leaves out is the preset's, and says so. Where a spot price is compared, what
    would fail on spot is said too."""
    name: PresetName = record.pick("rework.preset", rework.preset, DEFAULT_PRESET, "what most clusters have")
    preset = PRESETS[name]
    hardware = HardwareFailures() if rework.hardware is UNSET else rework.hardware
    per_hour = _rate(record, hardware, preset, job)
    restart = _restart_hours(record, "rework.hardware.restart_minutes", hardware.restart_minutes, preset)
    checkpoint = _checkpoint_hours(record, rework.checkpoint, preset, job)
    spot_per_hour, spot_restart, wait_hours = 0.0, 0.0, DEFAULT_WAIT_HOURS
    if rework.spot is not UNSET:
        spot_per_hour = _spot_rate(record, rework.spot, job)
        spot_restart = restart
        if rework.spot.restart_minutes is not UNSET:
            spot_restart = rework.spot.restart_minutes / _MINUTES_PER_HOUR
        wait_hours = record.pick("rework.spot.wait_hours", rework.spot.wait_hours, DEFAULT_WAIT_HOURS, "assumed")
        if rework.spot.fallback_percent:
            record.say("rework.spot.fallback_percent", rework.spot.fallback_percent, "given", "request")
            record.note(advice.fallback_reading())
    if any(one.status == "default" and one.source == preset.source for one in record.assumptions):
        record.note(advice.preset_used(name, preset.source))
    spot = SpotInterruptions() if rework.spot is UNSET else rework.spot
    failures = Failures(
        node_count=job.node_count,
        per_hour=per_hour,
        restart_hours=restart,
        checkpoint_hours=checkpoint,
        interval_hours=job.work_hours,
        spot_per_hour=spot_per_hour,
        spot_restart_hours=spot_restart,
        spot_wait_hours=wait_hours,
        spot_away_hours=wait_hours,
        fallback_percent=spot.fallback_percent,
        survivors_billed=spot.survivors_billed,
        instability_percent=record.pick(
            "rework.instability_percent",
            rework.instability_percent,
            INSTABILITY_PERCENT,
            "PaLM rewound about 20 times by some 100 steps (arXiv 2204.02311)",
        ),
        people_percent=record.pick(
            "rework.people_percent",
            rework.people_percent,
            PEOPLE_PERCENT,
            "assumed: most runs never begin again, SmolLM3 did after a sixth (Smol Training Playbook)",
        ),
        on_spot=rework.spot is not UNSET,
    )
    steady_interval = _interval(rework.checkpoint, _optimal(checkpoint, per_hour, job), job)
    spot_per_hour = float(interruptions_per_hour(failures, job.work_hours))
    optimal = _optimal(checkpoint, per_hour + spot_per_hour, job)
    interval = _interval(rework.checkpoint, optimal, job)
    _tell_interval(record, rework.checkpoint, optimal, interval)
    if spot_per_hour * interval > 1:
        record.note(advice.spot_without_checkpoints())

    def at_its_interval(changed: Failures) -> Failures:
        rate = changed.per_hour + float(interruptions_per_hour(changed, job.work_hours))
        its = _interval(rework.checkpoint, _optimal(checkpoint, rate, job), job)
        return structs.replace(changed, interval_hours=its)

    failures = structs.replace(failures, interval_hours=interval)
    check_progress(record, rework, failures, job.work_hours, optimal, at_its_interval)
    facts = FailureFacts(
        preset=name,
        optimal_interval_hours=optimal,
        interval_without_spot_hours=steady_interval,
        on_usual_spot=at_its_interval(_on_usual_spot(failures)) if spot_is_compared and rework.spot is UNSET else None,
    )
    return FoundFailures(failures, facts)


def _on_usual_spot(failures: Failures) -> Failures:
    """The same run on spot capacity as it is assumed to be."""
    return structs.replace(
        failures,
        spot_per_hour=float(spot_interruptions_per_hour(failures.node_count, SPOT_INTERRUPTIONS_PER_NODE_HOUR)),
        spot_restart_hours=failures.restart_hours,
        spot_wait_hours=DEFAULT_WAIT_HOURS,
        spot_away_hours=DEFAULT_WAIT_HOURS,
        on_spot=True,
    )


def _rate(record: Record, hardware: HardwareFailures, preset: Preset, job: Job) -> float:
    """Failures of the job in an hour, by hardware and by software."""
    at = "rework.hardware.failures_per_node_day"
    given = hardware.failures_per_node_day is not UNSET or hardware.node_mtbf_hours is not UNSET
    if hardware.failures_per_node_day is not UNSET and hardware.node_mtbf_hours is not UNSET:
        told = "Give either failures_per_node_day or node_mtbf_hours"
        raise BrokenRule.at("/rework/hardware/node_mtbf_hours", told)
    if hardware.node_mtbf_hours is not UNSET:
        record.say("rework.hardware.node_mtbf_hours", hardware.node_mtbf_hours, "given", "request")
        per_hour = float(mtbf_failures_per_hour(job.node_count, hardware.node_mtbf_hours))
    else:
        per_day = record.pick(at, hardware.failures_per_node_day, preset.failures_per_node_day, preset.source)
        per_hour = float(hardware_failures_per_hour(job.node_count, per_day))
    software = 0.0 if given else preset.software_failures_per_node_day
    software = record.pick(
        "rework.hardware.software_failures_per_node_day",
        hardware.software_failures_per_node_day,
        software,
        "a given rate is taken to hold software too" if given else preset.source,
    )
    per_hour += float(hardware_failures_per_hour(job.node_count, software))
    per_hour = per_hour if per_hour > _NEVER_PER_HOUR else 0.0
    if not given:
        record.lognormal("failure_rate", RATE_SPREAD_SIGMA, "0.002 to 0.04 per node-day were measured")
    if hardware.new_cluster:
        factor = float(burn_in_factor(job.work_hours))
        record.say(
            "rework.hardware.burn_in_factor", factor, "derived", "3 times as often in the first 30 days; assumed"
        )
        per_hour *= factor
    if per_hour == 0:
        record.note(advice.nothing_fails())
    return per_hour


def _restart_hours(record: Record, field: str, minutes: float | UnsetType, preset: Preset) -> float:
    if minutes is UNSET:
        record.lognormal("restart", _RESTART_SIGMA, f"of the preset: {preset.source}")
    default = preset.restart_hours * _MINUTES_PER_HOUR
    return record.pick(field, minutes, default, preset.source) / _MINUTES_PER_HOUR


def _checkpoint_hours(record: Record, given: Checkpointing | UnsetType, preset: Preset, job: Job) -> float:
    """Seconds as given, else a size by a bandwidth, else the preset's."""
    asked = Checkpointing() if given is UNSET else given
    at = "rework.checkpoint.seconds"
    if asked.seconds is not UNSET:
        if asked.size_gb is not UNSET or asked.bandwidth_gb_s is not UNSET:
            raise BrokenRule.at("/rework/checkpoint/seconds", "Give either seconds or size_gb with bandwidth_gb_s")
        return record.pick(at, asked.seconds, 0.0, "") / _SECONDS_PER_HOUR
    if asked.bandwidth_gb_s is UNSET:
        if asked.size_gb is not UNSET:
            raise BrokenRule.at("/rework/checkpoint/bandwidth_gb_s", "A size takes as long as its bandwidth says")
        record.lognormal("checkpoint", _CHECKPOINT_SIGMA, f"of the preset: {preset.source}")
        return record.pick(at, UNSET, preset.checkpoint_seconds, preset.source) / _SECONDS_PER_HOUR
    size_gb = asked.size_gb
    if size_gb is UNSET:
        if job.checkpoint_bytes is None:
            told = "No model says how large a checkpoint is: give its size"
            raise BrokenRule.at("/rework/checkpoint/size_gb", told)
        size_gb = job.checkpoint_bytes / _GB
        record.say("rework.checkpoint.size_gb", size_gb, "derived", "14 bytes a trained parameter, 12 in FP32")
    seconds = float(checkpoint_seconds(size_gb, asked.bandwidth_gb_s))
    record.say(at, seconds, "derived", "size_gb / bandwidth_gb_s")
    return seconds / _SECONDS_PER_HOUR


def _spot_rate(record: Record, spot: SpotInterruptions, job: Job) -> float:
    """Interruptions of the job in an hour."""
    rate = spot.interruptions_per_node_hour
    if rate is UNSET:
        rate = SPOT_INTERRUPTIONS_PER_NODE_HOUR
        record.note(advice.spot_rate_assumed(rate))
        record.lognormal("spot_rate", _SPOT_SIGMA, "an assumption; traces of V100 differ by ten times")
    record.pick(
        "rework.spot.interruptions_per_node_hour",
        spot.interruptions_per_node_hour,
        SPOT_INTERRUPTIONS_PER_NODE_HOUR,
        "assumed, range 0.002 to 0.2",
    )
    per_hour = float(spot_interruptions_per_hour(job.node_count, rate))
    return per_hour if per_hour > _NEVER_PER_HOUR else 0.0


def _optimal(checkpoint_hours: float, per_hour: float, job: Job) -> float | None:
    """The interval that costs least, in whole steps; None if nothing fails."""
    if per_hour == 0:
        return None
    best = float(optimal_interval_hours(checkpoint_hours, float(job_mttf_hours(per_hour))))
    step = _LEAST_STEP_HOURS if job.step_hours is None else job.step_hours
    return float(clamped_interval_hours(best, min(step, job.work_hours), job.work_hours))


def _interval(given: Checkpointing | UnsetType, optimal: float | None, job: Job) -> float:
    """The interval that is used: no longer than the run."""
    if given is not UNSET and given.interval_minutes is not UNSET:
        return min(given.interval_minutes / _MINUTES_PER_HOUR, job.work_hours)
    return job.work_hours if optimal is None else optimal


def _tell_interval(
    record: Record, given: Checkpointing | UnsetType, optimal: float | None, interval_hours: float
) -> None:
    at = "rework.checkpoint.interval_minutes"
    if given is UNSET or given.interval_minutes is UNSET:
        record.say(at, interval_hours * _MINUTES_PER_HOUR, "derived", _BEST_INTERVAL)
        return
    record.say(at, given.interval_minutes, "given", "request")
    if optimal is not None and abs(math.log(interval_hours / optimal)) > math.log(_FAR):
        record.note(advice.sparse_checkpoints(interval_hours, optimal))
