"""Measured throughput replayed: with the layout given, with it searched, and along series from measured points."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from statistics import median

from msgspec import Struct, structs

from service.backtest.runs import (
    Cluster,
    HeldOutRow,
    Scaling,
    ScalingRow,
    ThroughputRow,
    load_clusters,
    load_scaling,
    load_throughput,
)
from service.backtest.scores import BacktestScore, median_of_sources
from service.catalog.gpus import get_gpu, memory_for_programs_gb
from service.catalog.schemas import Accelerator
from service.errors import BrokenRule
from service.estimator.constants import SHIPPED, KernelEfficiency, StepConstants, find_kernel_efficiency
from service.estimator.flops import FULL_ATTENTION, flops_per_token
from service.estimator.memory import MemoryPlan, fits, memory_per_gpu
from service.estimator.parallelism import Layout, Workload, data_parallel
from service.estimator.scaling import Law, MeasuredPoint, fitted, tokens_per_second
from service.estimator.search import (
    RECOMPUTE_LEAST_FIRST,
    Choices,
    Found,
    find_fastest_layout,
    searched_tokens_per_second_per_gpu,
)
from service.estimator.shapes import ModelShape
from service.estimator.step import Machine, step_seconds, tokens_per_second_per_gpu
from service.estimator.utilisation import Method, family_of, regimes_of, spread

FLAT_MFU = 0.40
FLAT_SCALING = 0.80
GPUS_PER_NODE = 8
_BITS = 8
_GIGA = 1e9
_TERA = 1e12


class _Point(Struct, frozen=True):
    """One point of a series: throughput per accelerator in any unit, and its row if the layout is known."""

    source_id: str
    accelerator_count: int
    throughput: float
    row: ThroughputRow | None
    reason: str | None


# ------------------------------------------------------------------------------------------- rows


def with_layout_given(rows: Iterable[ThroughputRow]) -> list[BacktestScore]:
    """Each row by the step model, its own layout given."""
    return [scored(row, modelled(row), sigma_ln_of(row, "layout_given")) for row in rows]


def with_source_held_out(rows: Iterable[ThroughputRow], held_out: Iterable[HeldOutRow]) -> list[BacktestScore]:
    """Each row by the step model with constants that were fitted without its source; its own layout given."""
    told = {row.id: row.held_out_tokens_per_second_per_gpu for row in held_out}
    return [scored(row, told[row.id], sigma_ln_of(row, "layout_given")) for row in rows]


def with_layout_searched(rows: Iterable[ThroughputRow], recompute_given: bool = False) -> list[BacktestScore]:
    """Each row by the fastest layout that fits. The software is known: kernels, overlap, gradients; perhaps whether
    it recomputes. Rows for which nothing fits have no prediction and no score."""
    scores = []
    for row in rows:
        predicted = searched(row, machine_of(cluster_of(row)), recompute_given=recompute_given)
        if predicted is not None:
            scores.append(scored(row, predicted, sigma_ln_of(row, "layout_searched")))
    return scores


def by_flat_mfu(rows: Iterable[ThroughputRow]) -> list[BacktestScore]:
    """The first baseline: 40 % of the peak, whatever runs."""
    return [scored(row, FLAT_MFU * _tokens_at_peak(row)) for row in rows]


def by_family_median(rows: Iterable[ThroughputRow], known: Iterable[ThroughputRow]) -> list[BacktestScore]:
    """The second: the median MFU of the accelerator's other sources, each source counted once; else of all others."""
    mfus = [(row.source_id, family_of(row.cluster_id), measured_mfu(row)) for row in known]
    scores = []
    for row in rows:
        own = ((source, mfu) for source, kind, mfu in mfus if kind == family_of(row.cluster_id))
        mfu = median_of_sources(own, row.source_id)
        if mfu is None:
            mfu = median_of_sources(((source, mfu) for source, _, mfu in mfus), row.source_id) or FLAT_MFU
        scores.append(scored(row, mfu * _tokens_at_peak(row)))
    return scores


def modelled(row: ThroughputRow) -> float:
    """Tokens per second and GPU of the row's own layout."""
    workload = workload_of(row)
    seconds = step_seconds(workload, machine_of(cluster_of(row)), layout_of(row), row.gpu_count).total_seconds
    return tokens_per_second_per_gpu(workload, seconds, row.gpu_count)


def workload_of(row: ThroughputRow) -> Workload:
    """What the row trained."""
    return Workload(
        layers=row.layers,
        hidden=row.hidden,
        heads=row.heads,
        kv_heads=row.kv_heads,
        head_dim=row.hidden // row.heads,
        ffn_hidden=row.ffn_hidden,
        ffn_matrices=row.ffn_matrices,
        vocabulary=row.vocabulary,
        sequence_length=row.sequence_tokens,
        global_batch_sequences=row.global_batch_sequences,
    )


def layout_of(row: ThroughputRow) -> Layout:
    """How the row was laid out."""
    return Layout(
        tensor=row.tensor,
        pipeline=row.pipeline,
        interleave=row.interleave,
        microbatch=row.microbatch_sequences,
        sharding=row.sharding,
        recompute=row.recompute,
        sequence_parallel=row.sequence_parallel,
        flash_attention=row.flash_attention,
        tensor_overlap=row.tensor_overlap,
        data_overlap=row.data_overlap,
        fused=row.fused,
        gradient_bytes=row.gradient_bytes,
    )


def machine_of(cluster: Cluster) -> Machine:
    """The node in numbers; what is measured here has fitted kernels."""
    gpu = get_gpu(cluster.accelerator_id)
    kernels = find_kernel_efficiency(cluster.accelerator_id, "bf16")
    assert kernels is not None
    return _machine(
        cluster, gpu.bf16_tflops or 0.0, gpu.memory_bandwidth_gb_s, gpu.scale_up_gb_s_bidirectional, kernels
    )


def _machine(
    cluster: Cluster, tflops: float, memory_gb_s: float, link_gb_s: float | None, kernels: KernelEfficiency
) -> Machine:
    return Machine(
        peak_flops_per_second=tflops * _TERA,
        memory_bytes_per_second=memory_gb_s * _GIGA,
        link_bytes_per_second=(link_gb_s or 0.0) / 2 * _GIGA,
        network_bytes_per_second=cluster.network_gbps_per_gpu / _BITS * _GIGA,
        gpus_per_node=cluster.gpus_per_node,
        gemm_efficiency=kernels.gemm,
        attention_efficiency=kernels.attention,
    )


def found_layout(
    workload: Workload,
    machine: Machine,
    gpu_count: int,
    memory_gb: float,
    choices: Choices,
    constants: StepConstants = SHIPPED,
) -> Found | None:
    """The fastest layout that fits; None if nothing divides or nothing fits. A GPT's embeddings are tied."""
    shape = shape_of(workload)

    def fits_in_memory(layout: Layout) -> bool:
        plan = MemoryPlan(
            layout=layout, data=data_parallel(layout, gpu_count), sequence_length=workload.sequence_length
        )
        return fits(memory_per_gpu(shape, plan, memory_gb * _GIGA), memory_gb * _GIGA)

    try:
        return find_fastest_layout(workload, machine, gpu_count, fits_in_memory, choices, constants)
    except BrokenRule:
        return None


def shape_of(workload: Workload) -> ModelShape:
    """The workload's model; with two matrices it is a GPT, whose embeddings are tied."""
    return ModelShape(
        layers=workload.layers,
        hidden=workload.hidden,
        heads=workload.heads,
        kv_heads=workload.kv_heads,
        head_dim=workload.head_dim,
        ffn_hidden=workload.ffn_hidden,
        ffn_matrices=3 if workload.ffn_matrices == 3 else 2,
        vocabulary=workload.vocabulary,
        tied_embeddings=workload.ffn_matrices == 2,
    )


def searched(
    row: ThroughputRow, machine: Machine, constants: StepConstants = SHIPPED, recompute_given: bool = False
) -> float | None:
    """Tokens per second and GPU of the fastest layout that fits, with the row's software; None if none fits."""
    workload = workload_of(row)
    software = structs.replace(layout_of(row), tensor=1, pipeline=1, interleave=1, microbatch=1, recompute="none")
    choices = Choices(given=software, recompute=(row.recompute,) if recompute_given else RECOMPUTE_LEAST_FIRST)
    memory_gb = memory_for_programs_gb(get_gpu(cluster_of(row).accelerator_id))
    found = found_layout(workload, machine, row.gpu_count, memory_gb, choices, constants)
    return None if found is None else searched_tokens_per_second_per_gpu(workload, found, row.gpu_count)


def sigma_ln_of(row: ThroughputRow, method: Method) -> float:
    """The spread that the service would give with the row's prediction."""
    cluster = cluster_of(row)
    several_nodes = row.gpu_count > cluster.gpus_per_node
    regimes = regimes_of(
        kernels=find_kernel_efficiency(cluster.accelerator_id, "bf16"),
        precision="bf16",
        network_gbps=cluster.network_gbps_per_gpu if several_nodes else None,
        sequence_tokens=row.sequence_tokens,
    )
    return spread(method, regimes)


@cache
def _clusters() -> dict[str, Cluster]:
    return {cluster.id: cluster for cluster in load_clusters()}


def cluster_of(row: ThroughputRow) -> Cluster:
    """The nodes that the row ran on."""
    return _clusters()[row.cluster_id]


def usual_cluster(gpu: Accelerator) -> Cluster:
    """The accelerator with the network that it usually has."""
    return Cluster(
        id="usual",
        accelerator_id=gpu.id,
        network_gbps_per_gpu=gpu.scale_out_gbps_per_gpu or 0.0,
        gpus_per_node=min(gpu.scale_up_domain_size or GPUS_PER_NODE, GPUS_PER_NODE),
        source=gpu.source,
    )


def _tokens_at_peak(row: ThroughputRow) -> float:
    """Tokens per second and GPU at the dense peak, all attention counted."""
    shape = shape_of(workload_of(row))
    peak = (get_gpu(cluster_of(row).accelerator_id).bf16_tflops or 0.0) * _TERA
    return peak / float(flops_per_token(shape, row.sequence_tokens, FULL_ATTENTION))


def measured_mfu(row: ThroughputRow) -> float:
    """The share of the dense peak that the row reached, all attention counted."""
    return row.tokens_per_second_per_gpu / _tokens_at_peak(row)


def scored(row: ThroughputRow, predicted: float, sigma_ln: float | None = None) -> BacktestScore:
    """The row beside a prediction of it."""
    return BacktestScore(
        row_id=row.id,
        source_id=row.source_id,
        regimes=(row.dataset, family_of(row.cluster_id), row.sharding, f"recompute {row.recompute}"),
        predicted=predicted,
        measured=row.tokens_per_second_per_gpu,
        sigma_ln=sigma_ln,
        reason=row.reason,
    )


# ------------------------------------------------------------------------------------------- series


def from_one_point(kind: Scaling, model: Callable[[ThroughputRow], float] = modelled) -> list[BacktestScore]:
    """Along each series with a layout, from its smallest count: the shape of a model through one measured point."""
    scores = []
    for name, first, later in _from_smallest(kind, with_layout=True):
        assert first.row is not None
        constant = first.throughput / model(first.row)
        for point in later:
            assert point.row is not None
            scores.append(_point_score(name, point, constant * model(point.row), spread("one_point", ())))
    return scores


def at_constant_rate(kind: Scaling, share: float = 1.0, with_layout: bool = False) -> list[BacktestScore]:
    """The same from the same point, at its rate per accelerator (linear scaling), or at a flat share of it."""
    return [
        _point_score(name, point, share * first.throughput)
        for name, first, later in _from_smallest(kind, with_layout)
        for point in later
    ]


def from_two_points(kind: Scaling, law: Law) -> list[BacktestScore]:
    """Along each series of three counts or more, from its two smallest: the law through both."""
    scores = []
    for name, points in _series(kind, with_layout=False):
        known = [MeasuredPoint(p.accelerator_count, p.accelerator_count * p.throughput) for p in points[:2]]
        fit = fitted(known, law)
        for point in points[2:]:
            predicted = float(tokens_per_second(fit, point.accelerator_count)) / point.accelerator_count
            scores.append(_point_score(name, point, predicted))
    return scores


def _from_smallest(kind: Scaling, with_layout: bool) -> Iterator[tuple[str, _Point, list[_Point]]]:
    for name, points in _series(kind, with_layout):
        yield name, points[0], points[1:]


def _series(kind: Scaling, with_layout: bool) -> Iterator[tuple[str, list[_Point]]]:
    """Every series of a kind, ascending in accelerators."""
    series: dict[str, list[_Point]] = {}
    for row in load_throughput():
        if row.series is not None and row.scaling == kind:
            series.setdefault(row.series, []).append(_point_of(row))
    if not with_layout:
        for extra in load_scaling():
            if extra.scaling == kind:
                series.setdefault(extra.series, []).append(_point_of(extra))
    for name, points in series.items():
        yield name, sorted(points, key=lambda point: point.accelerator_count)


def _point_of(row: ThroughputRow | ScalingRow) -> _Point:
    if isinstance(row, ScalingRow):
        return _Point(row.source_id, row.accelerator_count, row.throughput_per_accelerator, None, None)
    return _Point(row.source_id, row.gpu_count, row.tokens_per_second_per_gpu, row, row.reason)


def _point_score(name: str, point: _Point, predicted: float, sigma_ln: float | None = None) -> BacktestScore:
    return BacktestScore(
        row_id=f"{name}-{point.accelerator_count}",
        source_id=point.source_id,
        regimes=(name,),
        predicted=predicted,
        measured=point.throughput,
        sigma_ln=sigma_ln,
        reason=point.reason,
    )


def without_a_reason(scores: Iterable[BacktestScore]) -> list[BacktestScore]:
    """The rows for which no reason of a miss is known."""
    return [score for score in scores if score.reason is None]


def dataset_medians(scores: Iterable[BacktestScore]) -> dict[str, float]:
    """The median absolute error of each dataset, in percent."""
    groups: dict[str, list[float]] = {}
    for score in scores:
        groups.setdefault(score.regimes[0], []).append(abs(score.error_percent))
    return {name: median(errors) for name, errors in groups.items()}
