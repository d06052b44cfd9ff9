"""Effective training time and mean time to failure of published runs, from what could be known before: their size.

The preset goes by the number of accelerators alone; with `own_told`, a run's own rate of failures, restart, checkpoint
and interval stand in where its source states them. What a reported share counts as lost is taken as its `basis` says.
"""

from collections.abc import Iterable

from service.backtest.hours import AUTOMATED_FROM_COUNT
from service.backtest.runs import ReliabilityRow
from service.backtest.scores import BacktestScore, BoundScore, ShareScore, median_of_sources
from service.estimator.reliability import (
    INSTABILITY_PERCENT,
    PEOPLE_PERCENT,
    PRESETS,
    RATE_SPREAD_SIGMA,
    Preset,
    hardware_failures_per_hour,
    job_mttf_hours,
    optimal_interval_hours,
)
from service.estimator.rework import Stops, hours_by_cause
from service.estimator.utilisation import OVERHEAD_PERCENT
from service.units import HOURS_PER_DAY, PERCENT

# The baselines: what the two classic rules of thumb leave.
FLAT_RATIO = 0.85
CLASSIC_REWORK_PERCENT = 15.0
# RSC-1's nodes (Kokolis et al. 2024, arXiv 2410.21680), whatever runs on them.
FLAT_FAILURES_PER_NODE_DAY = 6.5e-3
# Whose figures the presets and the shares of rollbacks were read from (estimator/reliability.py).
PRESET_SOURCES = frozenset({"llama-3-2024", "meta-opt-2022", "bigscience-2022", "kokolis-2024", "google-palm-2022"})

_MINUTES_PER_HOUR = 60
_SECONDS_PER_HOUR = 3600
_WORK_HOURS = 1.0  # the shares of time do not depend on it


# ------------------------------------------------------------------------------------------- effective time


def with_ratio(rows: Iterable[ReliabilityRow], bound: bool) -> list[ReliabilityRow]:
    """The rows that report a share of effective time as a value, or those that report only a bound."""
    return [row for row in rows if row.effective_time_ratio is not None and bool(row.ratio_is_bound) == bound]


def states_own_figures(row: ReliabilityRow) -> bool:
    """Whether anything of a run's own can stand in for the preset's."""
    stated = (_mttf_hours(row), row.restart_minutes, row.checkpoint_seconds, row.checkpoint_interval_hours)
    return any(figure is not None for figure in stated)


def predicted_ratios(rows: Iterable[ReliabilityRow], own_told: bool = False) -> list[ShareScore]:
    """Each reported share of effective time, in points; the predicted one by preset or by the run's own figures."""
    return [_share(row, effective_ratio(row, own_told)) for row in rows]


def flat_ratios(rows: Iterable[ReliabilityRow]) -> list[ShareScore]:
    """The first baseline: 85 %, whatever runs."""
    return [_share(row, FLAT_RATIO) for row in rows]


def classic_ratios(rows: Iterable[ReliabilityRow]) -> list[ShareScore]:
    """The second: 15 % of rework."""
    return [_share(row, 1 / (1 + CLASSIC_REWORK_PERCENT / PERCENT)) for row in rows]


def as_lost(scores: Iterable[BacktestScore]) -> list[BacktestScore]:
    """The same predictions as shares lost, so that the error is in percent of the time lost."""
    return [
        BacktestScore(
            row_id=score.row_id,
            source_id=score.source_id,
            regimes=score.regimes,
            predicted=1 - score.predicted,
            measured=1 - score.measured,
            sigma_ln=None,
            reason=score.reason,
        )
        for score in scores
    ]


def as_bounds(scores: Iterable[BacktestScore]) -> list[BoundScore]:
    """The same predictions against figures that are lower bounds."""
    return [
        BoundScore(
            row_id=score.row_id,
            source_id=score.source_id,
            regimes=score.regimes,
            predicted=score.predicted,
            measured=score.measured,
            sigma_ln=None,
            reason=score.reason,
        )
        for score in scores
    ]


def elsewhere(scores: Iterable[BacktestScore]) -> list[BacktestScore]:
    """The rows of sources that no preset was read from."""
    return [score for score in scores if score.source_id not in PRESET_SOURCES]


def effective_ratio(row: ReliabilityRow, own_told: bool) -> float:
    """Work over all hours of the row's basis; the interval between checkpoints is the best one unless it is told."""
    preset = preset_of(row)
    own_mttf, own_restart = _mttf_hours(row), row.restart_minutes
    per_hour, restart_hours = _failures_per_hour(row, preset), preset.restart_hours
    checkpoint_hours, interval = preset.checkpoint_seconds / _SECONDS_PER_HOUR, None
    if own_told:
        per_hour = per_hour if own_mttf is None else 1 / own_mttf
        restart_hours = restart_hours if own_restart is None else own_restart / _MINUTES_PER_HOUR
        own_seconds, interval = row.checkpoint_seconds, row.checkpoint_interval_hours
        checkpoint_hours = checkpoint_hours if own_seconds is None else own_seconds / _SECONDS_PER_HOUR
    if interval is None:
        interval = float(optimal_interval_hours(checkpoint_hours, job_mttf_hours(per_hour)))
    billed = row.basis == "billed"
    causes = hours_by_cause(
        _WORK_HOURS * (1 + (OVERHEAD_PERCENT / PERCENT if billed else 0.0)),
        interval,
        checkpoint_hours,
        Stops(per_hour, restart_hours),
        instability_percent=INSTABILITY_PERCENT if billed else 0.0,
        people_percent=PEOPLE_PERCENT if billed else 0.0,
    )
    return _WORK_HOURS / float(causes.expected)


def preset_of(row: ReliabilityRow) -> Preset:
    """The preset by size alone, as in the rule from step to bill."""
    return PRESETS["hyperscale_automated" if row.accelerator_count >= AUTOMATED_FROM_COUNT else "on_call"]


# ------------------------------------------------------------------------------------------- time to failure


def with_mttf(rows: Iterable[ReliabilityRow]) -> list[ReliabilityRow]:
    """The rows that say how often something failed; the ends of a scheduler's allocations are no failures."""
    return [row for row in rows if _mttf_hours(row) is not None and row.stops != "allocations"]


def predicted_mttf(rows: Iterable[ReliabilityRow]) -> list[BacktestScore]:
    """Each by the preset's rate and its nodes; software failures left out where hardware's alone are counted."""
    return [_mttf(row, 1 / _failures_per_hour(row, preset_of(row)), RATE_SPREAD_SIGMA) for row in rows]


def flat_mttf(rows: Iterable[ReliabilityRow]) -> list[BacktestScore]:
    """The first baseline: one rate for every node."""
    rates = ((row, hardware_failures_per_hour(nodes(row), FLAT_FAILURES_PER_NODE_DAY)) for row in rows)
    return [_mttf(row, 1 / float(rate)) for row, rate in rates]


def mttf_by_other_sources(rows: Iterable[ReliabilityRow], known: Iterable[ReliabilityRow]) -> list[BacktestScore]:
    """The second: the median rate of the other sources' nodes, each source counted once."""
    rates = [(row.source_id, 1 / (_measured_mttf(row) * nodes(row))) for row in known]
    scores = []
    for row in rows:
        per_node_hour = median_of_sources(rates, row.source_id) or FLAT_FAILURES_PER_NODE_DAY / HOURS_PER_DAY
        scores.append(_mttf(row, 1 / (per_node_hour * nodes(row))))
    return scores


def nodes(row: ReliabilityRow) -> float:
    """How many nodes, or what part of one, the row counts."""
    return row.accelerator_count / row.accelerators_per_node


def _failures_per_hour(row: ReliabilityRow, preset: Preset) -> float:
    software = 0.0 if row.stops == "hardware" else preset.software_failures_per_node_day
    return float(hardware_failures_per_hour(nodes(row), preset.failures_per_node_day + software))


def _mttf_hours(row: ReliabilityRow) -> float | None:
    """As stated, else the days by the failures in them."""
    if row.mttf_hours is not None or row.duration_days is None or row.failures is None:
        return row.mttf_hours
    return row.duration_days * HOURS_PER_DAY / row.failures


def _measured_mttf(row: ReliabilityRow) -> float:
    hours = _mttf_hours(row)
    assert hours is not None
    return hours


def _mttf(row: ReliabilityRow, predicted_hours: float, sigma_ln: float | None = None) -> BacktestScore:
    return BacktestScore(
        row_id=row.id,
        source_id=row.source_id,
        regimes=(row.stops or "all",),
        predicted=predicted_hours,
        measured=_measured_mttf(row),
        sigma_ln=sigma_ln,
        reason=row.reason,
    )


def _share(row: ReliabilityRow, predicted: float) -> ShareScore:
    assert row.effective_time_ratio is not None
    return ShareScore(
        row_id=row.id,
        source_id=row.source_id,
        regimes=(row.basis or "failures",),
        predicted=predicted,
        measured=row.effective_time_ratio,
        sigma_ln=None,
        reason=row.reason,
    )
