"""The back-test's own data: sources, positive figures, names, and that no run's hours enter its prediction."""

import math
from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from msgspec import Struct, structs

from service.backtest.hours import best_without_stated, hours_by_family_median, predicted_hours, states_utilisation
from service.backtest.runs import (
    Cluster,
    PublishedRun,
    ScalingRow,
    ThroughputRow,
    load_clusters,
    load_published_runs,
    load_scaling,
    load_throughput,
)
from service.backtest.throughput import by_family_median, layout_of, with_layout_given, workload_of
from service.catalog.gpus import get_gpu
from service.catalog.models import get_model
from service.estimator.parallelism import check_layout

RUNS, THROUGHPUT, SCALING, CLUSTERS = load_published_runs(), load_throughput(), load_scaling(), load_clusters()
NAMED: tuple[PublishedRun | ThroughputRow | Cluster, ...] = (*RUNS, *THROUGHPUT, *CLUSTERS)
EVERY: tuple[PublishedRun | ThroughputRow | Cluster | ScalingRow, ...] = (*NAMED, *SCALING)


def figures(row: Struct) -> Iterable[float]:
    return (value for value in structs.asdict(row).values() if isinstance(value, (int, float)) and value is not False)


def test_the_frozen_rows_are_all_there() -> None:
    assert (len(RUNS), len(THROUGHPUT), len(SCALING), len(CLUSTERS)) == (59, 317, 38, 5)


@pytest.mark.parametrize("row", EVERY, ids=lambda row: getattr(row, "id", None) or row.series)
def test_every_row_has_a_source_and_only_positive_figures(
    row: PublishedRun | ThroughputRow | Cluster | ScalingRow,
) -> None:
    assert len(row.source.strip()) > 8
    assert all(math.isfinite(figure) and figure > 0 for figure in figures(row))


@pytest.mark.parametrize("rows", [RUNS, THROUGHPUT, CLUSTERS], ids=["runs", "throughput", "clusters"])
def test_ids_are_unique(rows: Iterable[PublishedRun | ThroughputRow | Cluster]) -> None:
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
