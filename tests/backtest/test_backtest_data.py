"""The back-test's own data: sources, positive figures, names, and that no run's hours enter its prediction."""

import csv
import math
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct, structs

from service.backtest.hours import best_without_stated, hours_by_family_median, predicted_hours, states_utilisation
from service.backtest.layoutless import shape_of_row
from service.backtest.runs import (
    Cluster,
    HeldOutRow,
    LayoutlessRow,
    PublishedRun,
    ReliabilityRow,
    ScalingRow,
    ThroughputRow,
    load_clusters,
    load_held_out,
    load_layoutless,
    load_published_runs,
    load_reliability,
    load_scaling,
    load_throughput,
)
from service.backtest.throughput import by_family_median, layout_of, modelled, with_layout_given, workload_of
from service.catalog.gpus import get_gpu
from service.catalog.models import get_model
from service.estimator.parallelism import check_layout

RUNS, THROUGHPUT, SCALING, CLUSTERS = load_published_runs(), load_throughput(), load_scaling(), load_clusters()
LAYOUTLESS, RELIABILITY, HELD_OUT = load_layoutless(), load_reliability(), load_held_out()
Named = PublishedRun | ThroughputRow | Cluster | LayoutlessRow | ReliabilityRow
NAMED: tuple[Named, ...] = (*RUNS, *THROUGHPUT, *CLUSTERS, *LAYOUTLESS, *RELIABILITY)
EVERY: tuple[Named | ScalingRow | HeldOutRow, ...] = (*NAMED, *SCALING, *HELD_OUT)
FROZEN = Path(__file__).with_name("frozen_rows.csv")


def figures(row: Struct) -> Iterable[float]:
    return (value for value in structs.asdict(row).values() if isinstance(value, (int, float)) and value is not False)


def frozen(file: str) -> list[str]:
    with FROZEN.open(encoding="utf-8", newline="") as lines:
        return [row["id"] for row in csv.DictReader(lines) if row["file"] == file]


@pytest.mark.parametrize(
    ("file", "ids"),
    [
        ("clusters.csv", [row.id for row in CLUSTERS]),
        ("published_runs.csv", [row.id for row in RUNS]),
        ("throughput.csv", [row.id for row in THROUGHPUT]),
        ("scaling.csv", [f"{row.series}-{row.accelerator_count}" for row in SCALING]),
        ("layoutless.csv", [row.id for row in LAYOUTLESS]),
        ("reliability.csv", [row.id for row in RELIABILITY]),
    ],
)
def test_no_row_appears_or_vanishes_silently(file: str, ids: list[str]) -> None:
    assert ids == frozen(file)


def test_every_data_file_is_frozen() -> None:
    with FROZEN.open(encoding="utf-8", newline="") as lines:
        named = {row["file"] for row in csv.DictReader(lines)}
    assert named | {"held_out.csv"} == {path.name for path in (files("service.backtest") / "data").iterdir()}


def test_held_out_predictions_are_of_the_frozen_rows_and_of_this_step_model() -> None:
    """After a change of the step model or of a constant: python -m bench.refit --held-out FILE."""
    text = (files("service.backtest") / "data" / "held_out.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == (
        "id,source_id,held_out_tokens_per_second_per_gpu,shipped_tokens_per_second_per_gpu,fitted_on,source"
    )
    assert [row.id for row in HELD_OUT] == frozen("throughput.csv")
    for told, row in zip(HELD_OUT, THROUGHPUT, strict=True):
        assert told.source_id == row.source_id
        assert told.shipped_tokens_per_second_per_gpu == pytest.approx(modelled(row), rel=1e-6)


def test_a_row_without_a_layout_has_one_shape() -> None:
    for row in LAYOUTLESS:
        own = (row.layers, row.hidden, row.heads, row.ffn_hidden, row.vocabulary)
        assert all(figure is None for figure in own) == (row.model_id is not None)
        assert shape_of_row(row).layers > 0
        assert get_gpu(row.accelerator_id).id == row.accelerator_id


def test_a_share_of_time_says_what_it_is_of() -> None:
    for row in RELIABILITY:
        said = {figure is None for figure in (row.effective_time_ratio, row.ratio_is_bound, row.basis, row.includes)}
        assert len(said) == 1
        assert (row.stops is None) == (row.mttf_hours is None and row.failures is None)


@pytest.mark.parametrize("row", EVERY, ids=lambda row: getattr(row, "id", None) or row.series)
def test_every_row_has_a_source_and_only_positive_figures(
    row: Named | ScalingRow | HeldOutRow,
) -> None:
    assert len(row.source.strip()) > 8
    assert all(math.isfinite(figure) and figure > 0 for figure in figures(row))


@pytest.mark.parametrize("rows", [RUNS, THROUGHPUT, CLUSTERS, LAYOUTLESS, RELIABILITY])
def test_ids_are_unique(rows: Iterable[Named]) -> None:
    assert max(Counter(row.id for row in rows).values()) == 1


def test_a_scaling_series_has_one_point_a_count_and_one_unit() -> None:
    assert max(Counter((row.series, row.accelerator_count) for row in SCALING).values()) == 1
    units = {(row.series, row.throughput_unit, row.scaling, row.source_id) for row in SCALING}
    assert len(units) == len({row.series for row in SCALING})


def test_a_throughput_series_has_one_point_a_count() -> None:
    points = Counter((row.series, row.gpu_count) for row in THROUGHPUT if row.series)
    assert max(points.values()) == 1
    assert all((row.series is None) == (row.scaling is None) for row in THROUGHPUT)


def test_every_name_is_known() -> None:
    clusters = {cluster.id for cluster in CLUSTERS}
    assert all(row.cluster_id in clusters for row in THROUGHPUT)
    for name in {cluster.accelerator_id for cluster in CLUSTERS} | {run.accelerator_id for run in RUNS} - {None}:
        assert name is not None
        assert get_gpu(name).id == name
    assert all(get_model(run.model_id).id == run.model_id for run in RUNS if run.model_id)


def test_a_run_has_a_peak_from_the_catalogue_or_its_own() -> None:
    assert all((run.accelerator_id is None) == (run.peak_tflops is not None) for run in RUNS)


def test_a_stated_utilisation_says_whether_attention_counts() -> None:
    assert all(states_utilisation(run) == (run.mfu_counts_attention is not None) for run in RUNS)


def test_every_layout_that_ran_is_one_that_can_be() -> None:
    for row in THROUGHPUT:
        check_layout(workload_of(row), layout_of(row), row.gpu_count)


def test_a_cell_that_is_no_figure_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"id": "x", "accelerator_id": "y", "gpus_per_node": "many"}, type=Cluster, strict=False)


@pytest.mark.parametrize("factor", [0.1, 10.0])
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.id)
def test_the_hours_of_a_run_do_not_enter_its_prediction(run: PublishedRun, factor: float) -> None:
    other = structs.replace(run, reported_gpu_hours=run.reported_gpu_hours * factor)
    known = tuple(other if row.id == run.id else row for row in RUNS)
    for method in ("stated", "prior"):
        told, retold = predicted_hours([run], method), predicted_hours([other], method)
        assert [score.predicted for score in told] == [score.predicted for score in retold]
    told, retold = hours_by_family_median([run], RUNS), hours_by_family_median([other], known)
    assert told[0].predicted == retold[0].predicted


def test_the_hours_of_the_runs_do_not_enter_the_searched_predictions() -> None:
    others = [structs.replace(run, reported_gpu_hours=run.reported_gpu_hours * 7) for run in RUNS]
    told, retold = best_without_stated(RUNS), best_without_stated(others)
    assert [score.predicted for score in told] == [score.predicted for score in retold]
    assert [score.measured * 7 for score in told] == pytest.approx([score.measured for score in retold])


def test_the_measured_throughput_of_a_source_does_not_enter_its_prediction() -> None:
    source = "narayanan-2021"
    faster = tuple(
        structs.replace(row, tokens_per_second_per_gpu=row.tokens_per_second_per_gpu * 3)
        if row.source_id == source
        else row
        for row in THROUGHPUT
    )
    for told, retold in (
        (with_layout_given(THROUGHPUT), with_layout_given(faster)),
        (by_family_median(THROUGHPUT, THROUGHPUT), by_family_median(faster, faster)),
    ):
        mine = [score.predicted for score in told if score.source_id == source]
        assert mine == [score.predicted for score in retold if score.source_id == source]
