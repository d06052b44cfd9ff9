"""Measured throughput whose layout is not published, by the fastest layout that fits; nothing was fitted to it."""

from collections.abc import Iterable

from service.backtest.runs import LayoutlessRow, ThroughputRow
from service.backtest.scores import BacktestScore, median_of_sources
from service.backtest.throughput import FLAT_MFU, found_layout, machine_of, measured_mfu, usual_cluster
from service.catalog.gpus import get_gpu, memory_for_programs_gb, peak_tflops
from service.catalog.models import get_model
from service.catalog.schemas import Precision
from service.estimator.constants import find_kernel_efficiency
from service.estimator.flops import FULL_ATTENTION, flops_per_token
from service.estimator.parallelism import Layout, Workload, workload_of
from service.estimator.search import RECOMPUTE_LEAST_FIRST, Choices, searched_tokens_per_second_per_gpu
from service.estimator.shapes import ModelShape
from service.estimator.utilisation import family_of, precision_factor, regimes_of, spread

_TERA = 1e12


def by_searched_layout(rows: Iterable[LayoutlessRow]) -> list[BacktestScore]:
    """Each row by search, the recompute told where its source says it; narrow precisions by their published factor.
    Rows for which nothing fits have no prediction and no score."""
    scores = []
    for row in rows:
        predicted = _searched(row)
        if predicted is not None:
            scores.append(_score(row, predicted, _sigma_ln(row)))
    return scores


def layoutless_by_flat_mfu(rows: Iterable[LayoutlessRow]) -> list[BacktestScore]:
    """The first baseline: 40 % of the peak of the precision that ran."""
    return [_score(row, FLAT_MFU * _tokens_at_peak(row, row.precision)) for row in rows]


def layoutless_by_family_median(rows: Iterable[LayoutlessRow], known: Iterable[ThroughputRow]) -> list[BacktestScore]:
    """The second: the median BF16 MFU that other sources measured on the family, else on any; narrow precisions by the
    same factor as ours."""
    mfus = [(other.source_id, family_of(other.cluster_id), measured_mfu(other)) for other in known]
    scores = []
    for row in rows:
        own = [(source, mfu) for source, kind, mfu in mfus if kind == family_of(row.accelerator_id)]
        every = [(source, mfu) for source, _, mfu in mfus]
        mfu = median_of_sources(own, row.source_id) or median_of_sources(every, row.source_id) or FLAT_MFU
        scores.append(_score(row, mfu * _tokens_at_peak(row, "bf16") * precision_factor(row.precision)))
    return scores


def shape_of_row(row: LayoutlessRow) -> ModelShape:
    """The catalogue's shape, else the row's own: a GPT with two feed-forward matrices."""
    if row.model_id is not None:
        return get_model(row.model_id).shape
    return ModelShape(
        layers=row.layers or 0,
        hidden=row.hidden or 0,
        heads=row.heads or 0,
        ffn_hidden=row.ffn_hidden or 0,
        ffn_matrices=2,
        vocabulary=row.vocabulary or 0,
        tied_embeddings=True,
    )


def _searched(row: LayoutlessRow) -> float | None:
    gpu = get_gpu(row.accelerator_id)
    choices = Choices(
        given=Layout(fused=row.fused is not False),
        recompute=RECOMPUTE_LEAST_FIRST if row.recompute is None else (row.recompute,),
    )
    workload = _workload(row)
    machine = machine_of(usual_cluster(gpu))
    found = found_layout(workload, machine, row.gpu_count, memory_for_programs_gb(gpu), choices)
    if found is None:
        return None
    return searched_tokens_per_second_per_gpu(workload, found, row.gpu_count) * precision_factor(row.precision)


def _workload(row: LayoutlessRow) -> Workload:
    return workload_of(shape_of_row(row), row.sequence_tokens, row.global_batch_sequences)


def _sigma_ln(row: LayoutlessRow) -> float:
    """The spread that the service would give; what the row's own source says of FP8 is left out of it."""
    cluster = usual_cluster(get_gpu(row.accelerator_id))
    several_nodes = row.gpu_count > cluster.gpus_per_node
    regimes = regimes_of(
        kernels=find_kernel_efficiency(row.accelerator_id, "bf16"),
        precision=row.precision,
        network_gbps=cluster.network_gbps_per_gpu if several_nodes else None,
        sequence_tokens=row.sequence_tokens,
    )
    return spread("layout_searched", regimes, low_precision_left_out=row.source_id)


def _tokens_at_peak(row: LayoutlessRow, precision: Precision) -> float:
    """Tokens per second and GPU at the dense peak, all attention counted."""
    gpu = get_gpu(row.accelerator_id)
    peak = (peak_tflops(gpu, precision) or gpu.bf16_tflops or 0.0) * _TERA
    return peak / float(flops_per_token(shape_of_row(row), row.sequence_tokens, FULL_ATTENTION))


def _score(row: LayoutlessRow, predicted: float, sigma_ln: float | None = None) -> BacktestScore:
    return BacktestScore(
        row_id=row.id,
        source_id=row.source_id,
        regimes=(row.source_id, family_of(row.accelerator_id), row.precision),
        predicted=predicted,
        measured=row.tokens_per_second_per_gpu,
        sigma_ln=sigma_ln,
        reason=row.reason,
    )
