"""What is replayed: the rows of each replay, their predictions, and the baselines on the same rows."""

from collections.abc import Iterable, Sequence
from functools import cache

from msgspec import Struct

from service.backtest.failures import (
    as_bounds,
    as_lost,
    classic_ratios,
    elsewhere,
    flat_mttf,
    flat_ratios,
    mttf_by_other_sources,
    predicted_mttf,
    predicted_ratios,
    states_own_figures,
    with_mttf,
    with_ratio,
)
from service.backtest.hours import (
    best_without_stated,
    hours_by_family_median,
    hours_by_flat_mfu,
    predicted_hours,
    states_utilisation,
)
from service.backtest.layoutless import by_searched_layout, layoutless_by_family_median, layoutless_by_flat_mfu
from service.backtest.runs import (
    ReliabilityRow,
    load_held_out,
    load_layoutless,
    load_published_runs,
    load_reliability,
    load_throughput,
)
from service.backtest.scores import BacktestScore
from service.backtest.throughput import (
    by_family_median,
    by_flat_mfu,
    with_layout_given,
    with_layout_searched,
    with_source_held_out,
)

PRIOR_ALONE = "family's prior alone"
Baselines = tuple[tuple[str, tuple[BacktestScore, ...]], ...]


class Replay(Struct, frozen=True, kw_only=True):
    """Rows predicted by one method, the same rows by the baselines, and beside them by other methods; `unpredicted`
    rows have no layout that fits."""

    name: str
    unpredicted: tuple[str, ...]
    scores: tuple[BacktestScore, ...]
    baselines: Baselines
    beside: Baselines = ()


@cache
def given() -> Replay:
    """Throughput by the step model, the layout given."""
    rows = load_throughput()
    return _throughput("throughput, layout given", with_layout_given(rows))


@cache
def held_out() -> Replay:
    """Throughput by the step model, the layout given, with constants that never saw the source (`bench.refit`)."""
    rows = load_throughput()
    return _throughput("throughput, layout given, source held out", with_source_held_out(rows, load_held_out()))


@cache
def searched() -> Replay:
    """Throughput by the fastest layout that fits."""
    return _throughput("throughput, layout searched", with_layout_searched(load_throughput()))


@cache
def searched_recompute_given() -> Replay:
    """The same, told whether it recomputes."""
    name = "throughput, searched, recompute told"
    return _throughput(name, with_layout_searched(load_throughput(), recompute_given=True))


@cache
def stated() -> Replay:
    """GPU-hours of runs that state an MFU or HFU."""
    runs = [run for run in load_published_runs() if states_utilisation(run)]
    return _hours("GPU-hours, MFU stated", predicted_hours(runs, "stated"))


@cache
def unstated_all() -> Replay:
    """GPU-hours of dense runs that state none."""
    runs = [run for run in load_published_runs() if run.architecture == "dense" and not states_utilisation(run)]
    return _hours("GPU-hours, none stated, dense, all", best_without_stated(runs))


@cache
def unstated_runs() -> Replay:
    """The same without MLPerf."""
    scores = [score for score in unstated_all().scores if score.regimes[0] != "benchmark"]
    return _hours("GPU-hours, none stated, dense runs", scores)


@cache
def moe() -> Replay:
    """GPU-hours of runs that are not dense and state none."""
    runs = [run for run in load_published_runs() if run.architecture != "dense" and not states_utilisation(run)]
    return _hours("GPU-hours, none stated, not dense", best_without_stated(runs))


@cache
def layoutless() -> Replay:
    """Throughput of rows whose layout is not published, by search."""
    rows = load_layoutless()
    scores = tuple(by_searched_layout(rows))
    ids = {score.row_id for score in scores}
    kept = [row for row in rows if row.id in ids]
    return Replay(
        name="no layout published, searched",
        unpredicted=tuple(row.id for row in rows if row.id not in ids),
        scores=scores,
        baselines=_baselines(layoutless_by_flat_mfu(kept), layoutless_by_family_median(kept, load_throughput())),
    )


@cache
def ratios() -> Replay:
    """Effective training time by the preset for the size."""
    return _ratios("effective training time by preset, points", with_ratio(load_reliability(), bound=False))


@cache
def own_ratios() -> Replay:
    """Effective training time by the run's own figures, as far as they are stated."""
    rows = [row for row in with_ratio(load_reliability(), bound=False) if states_own_figures(row)]
    return _ratios("effective training time, own failures told, points", rows, own_told=True)


@cache
def bounds() -> Replay:
    """Effective training time where only a bound is published."""
    rows = with_ratio(load_reliability(), bound=True)
    return Replay(
        name="effective training time, bounds, points short",
        unpredicted=(),
        scores=tuple(as_bounds(predicted_ratios(rows))),
        baselines=(
            (_FLAT_RATIO, tuple(as_bounds(flat_ratios(rows)))),
            (_CLASSIC_RATIO, tuple(as_bounds(classic_ratios(rows)))),
        ),
        beside=(("own failures told", tuple(as_bounds(predicted_ratios(rows, own_told=True)))),),
    )


@cache
def mttf() -> Replay:
    """Mean time to failure by the preset for the size."""
    rows = with_mttf(load_reliability())
    scores = tuple(predicted_mttf(rows))
    return Replay(
        name="mean time to failure by preset",
        unpredicted=(),
        scores=scores,
        baselines=(
            ("flat 6.5 in 1,000 node-days", tuple(flat_mttf(rows))),
            ("other sources' median rate", tuple(mttf_by_other_sources(rows, rows))),
        ),
        beside=(("sources of no preset", tuple(elsewhere(scores))),),
    )


def prior_alone(part: Replay) -> tuple[BacktestScore, ...]:
    """The same GPU-hours, had nothing been known but the size."""
    return dict(part.beside)[PRIOR_ALONE]


def lost(part: Replay) -> Replay:
    """The same replay in percent of the time lost."""
    return Replay(
        name=part.name.replace("points", "percent of lost time"),
        unpredicted=part.unpredicted,
        scores=tuple(as_lost(part.scores)),
        baselines=tuple((name, tuple(as_lost(scores))) for name, scores in part.baselines),
        beside=tuple((name, tuple(as_lost(scores))) for name, scores in part.beside),
    )


_FLAT_RATIO, _CLASSIC_RATIO = "flat 85 %", "15 % of rework"


def _ratios(name: str, rows: Sequence[ReliabilityRow], own_told: bool = False) -> Replay:
    scores = tuple(predicted_ratios(rows, own_told))
    by_size = (("by preset, same rows", tuple(predicted_ratios(rows))),) if own_told else ()
    return Replay(
        name=name,
        unpredicted=(),
        scores=scores,
        baselines=((_FLAT_RATIO, tuple(flat_ratios(rows))), (_CLASSIC_RATIO, tuple(classic_ratios(rows)))),
        beside=(*by_size, ("sources of no preset", tuple(elsewhere(scores)))),
    )


def _throughput(name: str, scores: Iterable[BacktestScore]) -> Replay:
    """With both baselines on exactly the rows that were predicted."""
    kept = tuple(scores)
    ids = {score.row_id for score in kept}
    rows = [row for row in load_throughput() if row.id in ids]
    flat, family = by_flat_mfu(rows), by_family_median(rows, load_throughput())
    left = tuple(row.id for row in load_throughput() if row.id not in ids)
    return Replay(name=name, unpredicted=left, scores=kept, baselines=_baselines(flat, family))


def _hours(name: str, scores: Iterable[BacktestScore]) -> Replay:
    kept = tuple(scores)
    ids = {score.row_id for score in kept}
    runs = [run for run in load_published_runs() if run.id in ids]
    flat, family = hours_by_flat_mfu(runs), hours_by_family_median(runs, load_published_runs())
    return Replay(
        name=name,
        unpredicted=(),
        scores=kept,
        baselines=_baselines(flat, family),
        beside=((PRIOR_ALONE, tuple(predicted_hours(runs, "prior"))),),
    )


def _baselines(flat: Iterable[BacktestScore], family: Iterable[BacktestScore]) -> Baselines:
    return ("flat 40 % MFU", tuple(flat)), ("family's median, own source left out", tuple(family))
