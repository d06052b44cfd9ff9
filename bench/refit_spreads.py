"""How far predictions are off: the spreads that the service ships, from residuals of sources that were held out.

A spread is the sigma at which the interval from P10 to P90 holds 80 % of the rows, every source weighing the same: that
is what an answer says of it. The standard deviation is told beside it: six rows of one source (ZeRO-3 of 2021) decide
that, and not how far most runs are off.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import fmean, geometric_mean, median

from service.backtest.layoutless import by_searched_layout
from service.backtest.runs import LayoutlessRow, ThroughputRow
from service.backtest.scores import COVERED_SHARE, BacktestScore
from service.backtest.throughput import measured_mfu, shape_of, workload_of
from service.estimator.parameters import total_parameters
from service.estimator.utilisation import (
    LOW_PRECISION_BY_SOURCE,
    LOW_PRECISION_FACTOR,
    NARROW_PRECISIONS,
    P90_SIGMAS,
    Family,
    family_of,
    family_prior,
)
from service.units import PERCENT

Groups = Mapping[str, Sequence[float]]

# Of what the priors are told: runs over several nodes, of models as large as a 7B.
LEAST_GPUS, LEAST_PARAMETERS = 64, 6.5e9
# The one source that ran the same in both precisions; its gain is no ratio to this model.
PAIRED = "torchtitan"


def distances(scores: Iterable[BacktestScore]) -> dict[str, list[float]]:
    """|ln(measured / predicted)| by source."""
    groups: dict[str, list[float]] = {}
    for score in scores:
        groups.setdefault(score.source_id, []).append(abs(math.log(score.measured / score.predicted)))
    return groups


def weighted_quantile(groups: Groups, share: float) -> float:
    """The least value that so much lies at or below, every group weighing the same."""
    weighted = sorted((value, 1 / len(group) / len(groups)) for group in groups.values() for value in group)
    below = accumulate(weight for _, weight in weighted)
    return next(value for (value, _), sum_ in zip(weighted, below, strict=True) if sum_ >= share - 1e-12)


def calibrated_sigma_ln(groups: Groups) -> float:
    """The sigma at which P10 to P90 holds 80 % of these distances, every source weighing the same."""
    return weighted_quantile(groups, COVERED_SHARE) / P90_SIGMAS


def held_share(groups: Groups, sigma_ln: float) -> float:
    """What P10 to P90 holds with this sigma, every source weighing the same."""
    return fmean(fmean(value <= P90_SIGMAS * sigma_ln for value in group) for group in groups.values())


def held_share_left_out(groups: Groups) -> float:
    """The same of each source by the sigma of all others."""
    return fmean(
        held_share({source: group}, calibrated_sigma_ln({key: groups[key] for key in groups if key != source}))
        for source, group in groups.items()
    )


def spreads_told(parts: Mapping[str, tuple[Sequence[BacktestScore], float]]) -> list[str]:
    """Each part's spread beside the one that is shipped."""
    width = max(map(len, parts))
    lines = [f"{'sigma of ln, by source':{width}} rows src    sd  80 %  shipped  held, of sources  of rows  left out"]
    for name, (scores, shipped) in parts.items():
        groups = distances(scores)
        inside = sum(value <= P90_SIGMAS * shipped for group in groups.values() for value in group)
        left_out = f"{held_share_left_out(groups):.0%}" if len(groups) > 1 else "-"
        lines.append(
            f"{name:{width}} {len(scores):4} {len(groups):3} {deviation(scores):.3f} {calibrated_sigma_ln(groups):.3f} "
            f"{shipped:8.3g} {held_share(groups, shipped):16.0%} {inside:4}/{len(scores)} {left_out:>9}"
        )
    return lines


def deviation(scores: Iterable[BacktestScore]) -> float:
    """Standard deviation of ln(measured / predicted) about its mean, each source weighing the same."""
    groups: dict[str, list[float]] = {}
    for score in scores:
        groups.setdefault(score.source_id, []).append(math.log(score.measured / score.predicted))
    mean = fmean(fmean(group) for group in groups.values())
    return math.sqrt(fmean(fmean((value - mean) ** 2 for value in group) for group in groups.values()))


# ------------------------------------------------------------------------------------------- FP8


def low_precision_gains(rows: Iterable[LayoutlessRow]) -> dict[str, list[float]]:
    """By source: what FP8 reached over what the step model says of the fastest layout in BF16."""
    narrow = [row for row in rows if row.precision in NARROW_PRECISIONS]
    gains: dict[str, list[float]] = {}
    for score in by_searched_layout(narrow):
        bf16 = score.predicted / LOW_PRECISION_FACTOR
        gains.setdefault(score.source_id, []).append(score.measured / bf16)
    return gains


def gain_without(gains: Groups, source: str) -> float:
    """The geometric mean of the other sources' medians."""
    medians = {PAIRED: LOW_PRECISION_BY_SOURCE[PAIRED]} | {key: median(group) for key, group in gains.items()}
    return geometric_mean([gain for key, gain in medians.items() if key != source])


def low_precision_told(gains: Groups) -> list[str]:
    """Each source's gain, and how far the shipped one and the other sources' mean are off its rows, in percent."""
    lines = [f"{'FP8 over BF16':28} rows  median  least   most  shipped off by  others' mean  off by"]
    errors = []
    for source, group in sorted(gains.items()):
        others = gain_without(gains, source)
        off = [median(PERCENT * abs(gain / own - 1) for own in group) for gain in (LOW_PRECISION_FACTOR, others)]
        errors.append(off)
        lines.append(
            f"{source:28} {len(group):4} {median(group):7.2f} {min(group):6.2f} {max(group):6.2f} {off[0]:15.1f} "
            f"{others:13.2f} {off[1]:7.1f}"
        )
    paired = LOW_PRECISION_BY_SOURCE[PAIRED]
    others = gain_without(gains, PAIRED)
    off_percent = PERCENT * abs(others / paired - 1)
    lines.append(f"{PAIRED:28} {'-':>4} {paired:7.2f} {'-':>6} {'-':>6} {'-':>15} {others:13.2f} {off_percent:7.1f}")
    means = [fmean(column) for column in zip(*errors, strict=True)]
    mean = gain_without(gains, "")
    lines.append(f"{'  mean, but for the last':28}      {mean:7.2f} {'':13} {means[0]:15.1f} {'':13} {means[1]:7.1f}")
    return lines


# ------------------------------------------------------------------------------------------- priors


def usual_mfus(rows: Iterable[ThroughputRow], family: Family) -> dict[str, list[float]]:
    """The step MFU of a family's rows of several nodes and large models, by source."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        large = total_parameters(shape_of(workload_of(row))) >= LEAST_PARAMETERS
        if family_of(row.cluster_id) == family and row.gpu_count >= LEAST_GPUS and large:
            groups.setdefault(row.source_id, []).append(measured_mfu(row))
    return groups


def priors_told(rows: Sequence[ThroughputRow]) -> list[str]:
    """What is usual by these rows, and what the shipped prior holds of them."""
    lines = [f"{'step MFU, percent':16} rows src   P10   P50   P90  shipped  sigma  80 %  held, of sources  left out"]
    for family in ("a100", "h100"):
        groups, prior = usual_mfus(rows, family), family_prior(family)
        told = "".join(f"{PERCENT * weighted_quantile(groups, share):6.1f}" for share in (0.1, 0.5, 0.9))
        off = {key: [abs(math.log(value / prior.mfu)) for value in group] for key, group in groups.items()}
        count = sum(len(group) for group in groups.values())
        lines.append(
            f"{family:16} {count:4} {len(groups):3}{told} {PERCENT * prior.mfu:8.1f} {prior.sigma_ln:6.3f} "
            f"{calibrated_sigma_ln(off):.3f} {held_share(off, prior.sigma_ln):16.0%} {held_share_left_out(off):9.0%}"
        )
    return lines
