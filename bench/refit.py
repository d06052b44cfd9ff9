"""`python -m bench.refit`: the step model's constants fitted again, and errors and spreads on sources held out.

Fitted are six numbers and nothing else: how much of the peak matrix products and fused attention reach on the A100
and the H100, and the memory traffic of fused and of eager elementwise kernels. Every source weighs the same; least is
the mean over sources of the mean |ln(measured / predicted)|. Nothing is changed by it: it prints, and writes the
held-out predictions where `--held-out` says.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median

import numpy as np
from msgspec import Struct, structs

from bench.refit_search import Point, least_point
from bench.refit_spreads import low_precision_gains, low_precision_told, priors_told, spreads_told
from service.backtest.runs import HeldOutRow, ThroughputRow, load_clusters, load_layoutless, load_throughput
from service.backtest.scores import BacktestScore
from service.backtest.throughput import (
    by_family_median,
    by_flat_mfu,
    from_one_point,
    layout_of,
    machine_of,
    modelled,
    scored,
    searched,
    without_a_reason,
    workload_of,
)
from service.estimator.constants import (
    SHIPPED,
    SIGMA_LN_LAYOUT_GIVEN,
    SIGMA_LN_LAYOUT_SEARCHED,
    SIGMA_LN_ONE_POINT,
    StepConstants,
    find_kernel_efficiency,
)
from service.estimator.parallelism import Layout, Workload
from service.estimator.step import Machine, step_seconds, tokens_per_second_per_gpu
from service.estimator.utilisation import family_of
from service.units import PERCENT

# Where every search starts: round values, the same for both generations and for fused and eager kernels, so that
# nothing of the shipped ones comes back by the start.
START = {
    "gemm_a100": 0.6,
    "gemm_h100": 0.6,
    "attention_a100": 0.25,
    "attention_h100": 0.25,
    "fused_bytes": 60.0,
    "eager_bytes": 60.0,
}
# What no row left depends on takes the value of its kin.
KIN = {
    "gemm_a100": "gemm_h100",
    "gemm_h100": "gemm_a100",
    "attention_a100": "attention_h100",
    "attention_h100": "attention_a100",
    "fused_bytes": "eager_bytes",
    "eager_bytes": "fused_bytes",
}
# No kernel beats the peak, fused attention no plain matrix product, and eager kernels move no less than fused ones. Two
# norms with their residuals read and write two values of 2 bytes each: nothing moves less than 16 bytes.
LEAST_EFFICIENCY = 0.05
LEAST_BYTES, MOST_BYTES = 16.0, 200.0
_SOURCE = "python -m bench.refit, constants fitted to the other sources"

Constants = Mapping[str, float]


class Case(Struct, frozen=True):
    """One row, ready for the step model; the names of the constants that its step depends on."""

    row: ThroughputRow
    workload: Workload
    layout: Layout
    machine: Machine
    gemm: str
    attention: str
    elementwise: str

    @property
    def names(self) -> frozenset[str]:
        used = {self.gemm, self.elementwise} | ({self.attention} if self.layout.flash_attention else set())
        return frozenset(used)


def main() -> None:
    """Fit to all rows, then without each source in turn; print both."""
    options = _options()
    cases = cases_of(load_throughput())
    fits = {"shipped": shipped(), "all sources": fit(cases, "all sources")} | fits_without_each_source(cases)
    held_out = {case.row.id: predicted(case, fits[without(case.row.source_id)]) for case in cases}
    spreads = spreads_told(held_out_parts(cases, held_out, fits))
    gains, priors = low_precision_told(low_precision_gains(load_layoutless())), priors_told(load_throughput())
    told = (constants_told(fits), errors_told(cases, held_out), spreads, gains, priors)
    print("\n\n".join("\n".join(lines) for lines in told))
    if options.held_out is not None:
        write_held_out(options.held_out, cases, held_out, datetime.now(UTC).date().isoformat())


def cases_of(rows: Iterable[ThroughputRow]) -> list[Case]:
    """The rows with what their prediction takes."""
    clusters = {cluster.id: cluster for cluster in load_clusters()}
    cases = []
    for row in rows:
        kind = family_of(row.cluster_id)
        elementwise = "fused_bytes" if row.fused else "eager_bytes"
        machine = machine_of(clusters[row.cluster_id])
        names = (f"gemm_{kind}", f"attention_{kind}", elementwise)
        cases.append(Case(row, workload_of(row), layout_of(row), machine, *names))
    return cases


def predicted(case: Case, constants: Constants) -> float:
    """Tokens per second and GPU by these constants, everything else as shipped."""
    machine, step_constants = with_constants(case, constants)
    seconds = step_seconds(case.workload, machine, case.layout, case.row.gpu_count, step_constants).total_seconds
    return tokens_per_second_per_gpu(case.workload, seconds, case.row.gpu_count)


def with_constants(case: Case, constants: Constants) -> tuple[Machine, StepConstants]:
    """The row's machine and the step model, with these constants."""
    machine = structs.replace(
        case.machine, gemm_efficiency=constants[case.gemm], attention_efficiency=constants[case.attention]
    )
    step_constants = structs.replace(
        SHIPPED,
        fused_elementwise_bytes=constants["fused_bytes"],
        eager_elementwise_bytes=constants["eager_bytes"],
    )
    return machine, step_constants


def loss(cases: Iterable[Case], constants: Constants) -> float:
    """Mean over sources of the mean |ln(measured / predicted)|."""
    groups: dict[str, list[float]] = {}
    for case in cases:
        residual = np.log(case.row.tokens_per_second_per_gpu / predicted(case, constants))
        groups.setdefault(case.row.source_id, []).append(abs(float(residual)))
    return fmean(fmean(group) for group in groups.values())


def fit(cases: Sequence[Case], told: str) -> dict[str, float]:
    """The constants of least loss; those that no row depends on are their kin's."""
    started = time.monotonic()
    used = frozenset().union(*(case.names for case in cases))
    names = [name for name in START if name in used]

    def completed(values: Point) -> dict[str, float]:
        known = dict(zip(names, (float(value) for value in values), strict=True))
        return bounded({name: known[name] if name in known else known[KIN[name]] for name in START})

    found = completed(
        least_point(lambda values: loss(cases, completed(values)), np.array([START[name] for name in names]))
    )
    print(f"{told}: loss {loss(cases, found):.4f}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return found


def bounded(constants: Constants) -> dict[str, float]:
    """The nearest constants that kernels can have: few rows say little about some of them, and a fit runs off."""
    told = dict(constants)
    for kind in ("a100", "h100"):
        told[f"gemm_{kind}"] = min(max(told[f"gemm_{kind}"], LEAST_EFFICIENCY), 1.0)
        told[f"attention_{kind}"] = min(max(told[f"attention_{kind}"], LEAST_EFFICIENCY), told[f"gemm_{kind}"])
    told["fused_bytes"] = min(max(told["fused_bytes"], LEAST_BYTES), MOST_BYTES)
    told["eager_bytes"] = min(max(told["eager_bytes"], told["fused_bytes"]), MOST_BYTES)
    return told


def without(source_id: str) -> str:
    """The name of the fit that never saw the source."""
    return f"without {source_id}"


def fits_without_each_source(cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    """Constants fitted to all sources but one, for each."""
    sources = sorted({case.row.source_id for case in cases})
    return {
        without(source): fit([case for case in cases if case.row.source_id != source], without(source))
        for source in sources
    }


def held_out_parts(
    cases: Sequence[Case], held_out: Mapping[str, float], fits: Mapping[str, Constants]
) -> dict[str, tuple[list[BacktestScore], float]]:
    """What the spreads are of: predictions by constants that never saw the source, each beside the shipped spread."""
    given = [scored(case.row, held_out[case.row.id]) for case in cases]
    one_point = from_one_point("strong", lambda row: held_out[row.id])
    parts = {
        "layout given": (given, SIGMA_LN_LAYOUT_GIVEN),
        "one point, strong scaling": (one_point, SIGMA_LN_ONE_POINT),
    }
    for name, recompute_given in (("layout searched", False), ("layout searched, recompute told", True)):
        parts[name] = (searched_held_out(cases, fits, recompute_given), SIGMA_LN_LAYOUT_SEARCHED)
    return {
        told: (kept, sigma_ln)
        for name, (scores, sigma_ln) in parts.items()
        for told, kept in ((name, scores), (f"  {name}, no known reason", without_a_reason(scores)))
    }


def searched_held_out(
    cases: Iterable[Case], fits: Mapping[str, Constants], recompute_given: bool
) -> list[BacktestScore]:
    """Each row by the fastest layout that fits, with constants that never saw its source; those for which one does."""
    scores = []
    for case in cases:
        rate = searched(case.row, *with_constants(case, fits[without(case.row.source_id)]), recompute_given)
        if rate is not None:
            scores.append(scored(case.row, rate))
    return scores


def shipped() -> dict[str, float]:
    """The constants that the service has."""
    a100, h100 = (find_kernel_efficiency(name, "bf16") for name in ("a100-sxm-80gb", "h100-sxm-80gb"))
    assert a100 is not None
    assert h100 is not None
    return {
        "gemm_a100": a100.gemm,
        "gemm_h100": h100.gemm,
        "attention_a100": a100.attention,
        "attention_h100": h100.attention,
        "fused_bytes": SHIPPED.fused_elementwise_bytes,
        "eager_bytes": SHIPPED.eager_elementwise_bytes,
    }


# ------------------------------------------------------------------------------------------- told


def constants_told(fits: Mapping[str, Constants]) -> list[str]:
    """The constants of every fit."""
    lines = [f"{'constants':28}" + "".join(f"{name:>16}" for name in START)]
    for name, constants in fits.items():
        lines.append(f"{name:28}" + "".join(f"{constants[key]:16.3g}" for key in START))
    return lines


def errors_told(cases: Sequence[Case], held_out: Mapping[str, float]) -> list[str]:
    """Absolute errors in percent, by source and over all, beside the shipped constants and both baselines."""
    rows = [case.row for case in cases]
    measured = {row.id: row.tokens_per_second_per_gpu for row in rows}
    named = {
        "held out": held_out,
        "shipped": {row.id: modelled(row) for row in rows},
        "family's median": _by_id(by_family_median(rows, rows)),
        "flat 40 %": _by_id(by_flat_mfu(rows)),
    }
    errors = {
        name: {key: PERCENT * abs(value / measured[key] - 1) for key, value in told.items()}
        for name, told in named.items()
    }
    lines = [f"{'median / p90, percent':28} rows" + "".join(f"{name:>18}" for name in named)]
    sources = _ids_by_source(rows)
    for source, keys in sorted(sources.items()):
        lines.append(_line(source, [[told[key] for key in keys] for told in errors.values()]))
    for name, kept in (("all rows", rows), ("no known reason to miss", [row for row in rows if row.reason is None])):
        groups = _ids_by_source(kept)
        lines += ["", _line(name, [[told[row.id] for row in kept] for told in errors.values()])]
        means = [fmean(median(told[key] for key in keys) for keys in groups.values()) for told in errors.values()]
        lines.append(f"{'  mean of medians':28} {len(groups):4}" + "".join(f"{value:18.1f}" for value in means))
        spreads = [spread(groups, {key: measured[key] / told[key] for key in told}) for told in named.values()]
        lines.append(f"{'  sd of ln, by source':28} {len(groups):4}" + "".join(f"{value:18.3f}" for value in spreads))
    return lines


def spread(sources: Mapping[str, Sequence[str]], ratios: Mapping[str, float]) -> float:
    """Standard deviation of ln(measured / predicted) about its mean, each source weighing the same."""
    residuals = [np.log([ratios[key] for key in keys]) for keys in sources.values()]
    mean = fmean(float(np.mean(group)) for group in residuals)
    return float(np.sqrt(fmean(float(np.mean((group - mean) ** 2)) for group in residuals)))


def write_held_out(
    path: Path, cases: Iterable[Case], held_out: Mapping[str, float], fitted_on: str, source: str = _SOURCE
) -> None:
    """The held-out predictions as the back-test's data file; what is shipped says beside them, so that a step model
    that has changed since is noticed."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HeldOutRow.__struct_fields__)
        for case in cases:
            row = case.row
            told = (f"{held_out[row.id]:.7g}", f"{modelled(row):.7g}")
            lines.writerow((row.id, row.source_id, *told, fitted_on, source))


def _ids_by_source(rows: Iterable[ThroughputRow]) -> dict[str, list[str]]:
    sources: dict[str, list[str]] = {}
    for row in rows:
        sources.setdefault(row.source_id, []).append(row.id)
    return sources


def _by_id(scores: Iterable[BacktestScore]) -> dict[str, float]:
    return {score.row_id: score.predicted for score in scores}


def _line(name: str, columns: Sequence[Sequence[float]]) -> str:
    cells = (f"{median(column):.1f} / {np.percentile(column, 90):.1f}" for column in columns)
    return f"{name:28} {len(columns[0]):4}" + "".join(f"{cell:>18}" for cell in cells)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.refit", description=__doc__)
    parser.add_argument("--held-out", type=Path, metavar="FILE", help="write the held-out predictions here (CSV)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
