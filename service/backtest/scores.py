"""Predictions beside what was measured: errors, medians, what leaving sources out does to them, and coverage."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median

import numpy as np
from msgspec import Struct

from service.estimator.distribution import stream
from service.estimator.utilisation import P90_SIGMAS
from service.units import PERCENT

COVERED_SHARE = 0.8
DRAWS = 1000
SEED = 20240817
INTERVAL_PERCENTILES = (5.0, 95.0)


class BacktestScore(Struct, frozen=True, kw_only=True):
    """One prediction. `sigma_ln` is its spread where one is defined: the standard deviation of ln(measured)."""

    row_id: str
    source_id: str
    regimes: tuple[str, ...]
    predicted: float
    measured: float
    sigma_ln: float | None
    reason: str | None

    @property
    def error_percent(self) -> float:
        return PERCENT * (self.predicted / self.measured - 1)


class ShareScore(BacktestScore, frozen=True, kw_only=True):
    """A share of time, 0 to 1: its error is in percentage points."""

    @property
    def error_percent(self) -> float:
        return PERCENT * (self.predicted - self.measured)


class BoundScore(BacktestScore, frozen=True, kw_only=True):
    """A share of which only a lower bound is published, `measured`: its error is how many percentage points are
    missing to the bound, 0 if none is."""

    @property
    def error_percent(self) -> float:
        return min(0.0, PERCENT * (self.predicted - self.measured))


class IntervalCoverage(Struct, frozen=True):
    """How many rows lay between P10 and P90, and how likely so odd a number is if 80 % should (exact, two-sided)."""

    inside: int
    rows: int
    chance: float


_PERCENTS = (
    "median",
    "p90",
    "worst",
    "interval_low",
    "interval_high",
    "left_out_low",
    "left_out_high",
    "source_median",
)


class ErrorSummary(Struct, frozen=True, kw_only=True, rename={name: f"{name}_percent" for name in _PERCENTS}):
    """Absolute errors in percent. The interval of the median resamples whole sources; the range leaves each of them
    out once; neither is known of a single source. `source_median` is the mean of the sources' medians, each source
    counted once."""

    rows: int
    sources: int
    median: float
    p90: float
    worst: float
    interval_low: float | None
    interval_high: float | None
    left_out_low: float | None
    left_out_high: float | None
    source_median: float
    bias_percent: float
    coverage: IntervalCoverage | None


def summarised(scores: Sequence[BacktestScore]) -> ErrorSummary:
    """What a table's line says of these rows; at least one."""
    errors = _errors_by_source(scores)
    every = [error for group in errors.values() for error in group]
    low, high = bootstrap_interval(errors, median) if len(errors) > 1 else (None, None)
    without = [
        median([error for other, group in errors.items() if other != source for error in group])
        for source in (errors if len(errors) > 1 else ())
    ]
    return ErrorSummary(
        rows=len(scores),
        sources=len(errors),
        median=median(every),
        p90=float(np.percentile(every, 90)),
        worst=max(every),
        interval_low=low,
        interval_high=high,
        left_out_low=min(without, default=None),
        left_out_high=max(without, default=None),
        source_median=fmean(median(group) for group in errors.values()),
        bias_percent=median(score.error_percent for score in scores),
        coverage=covered(scores),
    )


def covered(scores: Iterable[BacktestScore]) -> IntervalCoverage | None:
    """IntervalCoverage of P10 to P90 over the rows that have a spread; None if none has."""
    spread = [(abs(math.log(s.measured / s.predicted)), s.sigma_ln) for s in scores if s.sigma_ln is not None]
    if not spread:
        return None
    inside = sum(distance <= P90_SIGMAS * sigma for distance, sigma in spread)
    return IntervalCoverage(inside, len(spread), binomial_chance(inside, len(spread), COVERED_SHARE))


def binomial_chance(successes: int, trials: int, share: float) -> float:
    """The chance of a number no likelier than this one (exact two-sided binomial test, Clopper & Pearson 1934)."""
    chances = [math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(trials + 1)]
    return min(1.0, sum(chance for chance in chances if chance <= chances[successes] * (1 + 1e-9)))


def bootstrap_interval(
    groups: Mapping[str, Sequence[float]], statistic: Callable[[list[float]], float]
) -> tuple[float, float]:
    """P5 and P95 of a statistic over whole sources drawn with replacement (Efron 1979); seeded."""
    values = list(groups.values())
    draws = stream(SEED, "backtest").integers(len(values), size=(DRAWS, len(values)))
    results = [statistic([value for index in drawn for value in values[index]]) for drawn in draws]
    low, high = np.percentile(results, INTERVAL_PERCENTILES)
    return float(low), float(high)


def lead_interval(ours: Sequence[BacktestScore], theirs: Sequence[BacktestScore]) -> tuple[float, float]:
    """P5 and P95 of how much larger their median error is than ours, on the same rows of the same drawn sources."""
    other = {score.row_id: abs(score.error_percent) for score in theirs}
    pairs: dict[str, list[tuple[float, float]]] = {}
    for score in ours:
        pairs.setdefault(score.source_id, []).append((abs(score.error_percent), other[score.row_id]))
    values = list(pairs.values())
    draws = stream(SEED, "backtest").integers(len(values), size=(DRAWS, len(values)))
    leads = []
    for drawn in draws:
        rows = [pair for index in drawn for pair in values[index]]
        leads.append(median(their for _, their in rows) - median(our for our, _ in rows))
    low, high = np.percentile(leads, INTERVAL_PERCENTILES)
    return float(low), float(high)


def median_of_sources(values: Iterable[tuple[str, float]], left_out: str) -> float | None:
    """The median of the other sources' medians; None if there is no other."""
    groups: dict[str, list[float]] = {}
    for source, value in values:
        if source != left_out:
            groups.setdefault(source, []).append(value)
    return median(median(group) for group in groups.values()) if groups else None


def _errors_by_source(scores: Iterable[BacktestScore]) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = {}
    for score in scores:
        groups.setdefault(score.source_id, []).append(abs(score.error_percent))
    return groups
