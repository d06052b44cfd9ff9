"""Measured throughput whose layout is not published, by the fastest layout that fits; nothing was fitted to it."""

import math
from collections.abc import Iterable
from functools import cache

from service.backtest.runs import Cluster, LayoutlessRow, ThroughputRow
from service.backtest.scores import BacktestScore, median_of_sources
from service.backtest.throughput import FLAT_MFU, found_layout, machine_of, measured_mfu
from service.catalog.gpus import get_gpu, memory_for_programs_gb, peak_tflops
from service.catalog.models import get_model
from service.catalog.schemas import Precision
from service.estimator.constants import SIGMA_LN_LAYOUT_SEARCHED
from service.estimator.flops import FULL_ATTENTION, flops_per_token
from service.estimator.parallelism import Layout, Workload
from service.estimator.search import RECOMPUTE_LEAST_FIRST, Choices, searched_tokens_per_second_per_gpu
from service.estimator.shapes import ModelShape, head_dim_of, kv_heads_of
from service.estimator.utilisation import LOW_PRECISION_FACTOR, SIGMA_LN_LOW_PRECISION, family_of

_GPUS_PER_NODE = 8
_TERA = 1e12


def by_searched_layout(rows: Iterable[LayoutlessRow]) -> list[BacktestScore]:
    """Each row by search, the recompute told where its source says it; narrow precisions by their published factor.
    Rows for which nothing fits have no prediction and no score."""
    scores = []
    for row in rows:
        predicted = _searched(row)
        if predicted is not None:
            narrow = SIGMA_LN_LOW_PRECISION if _is_narrow(row) else 0.0
            scores.append(_score(row, predicted, math.hypot(SIGMA_LN_LAYOUT_SEARCHED, narrow)))
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
        scores.append(_score(row, mfu * _tokens_at_peak(row, "bf16") * _speed(row)))
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
    machine = machine_of(_usual_cluster(row.accelerator_id))
    found = found_layout(workload, machine, row.gpu_count, memory_for_programs_gb(gpu), choices)
    if found is None:
        return None
    return searched_tokens_per_second_per_gpu(workload, found, row.gpu_count) * _speed(row)


@cache
def _usual_cluster(accelerator_id: str) -> Cluster:
    """The accelerator with the network that it usually has."""
    gpu = get_gpu(accelerator_id)
    return Cluster(
        id="usual",
        accelerator_id=gpu.id,
        network_gbps_per_gpu=gpu.scale_out_gbps_per_gpu or 0.0,
        gpus_per_node=min(gpu.scale_up_domain_size or _GPUS_PER_NODE, _GPUS_PER_NODE),
        source=gpu.source,
    )


def _workload(row: LayoutlessRow) -> Workload:
    shape = shape_of_row(row)
    return Workload(
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=kv_heads_of(shape),
        head_dim=head_dim_of(shape),
        ffn_hidden=shape.ffn_hidden,
        ffn_matrices=shape.ffn_matrices,
        vocabulary=shape.vocabulary,
        sequence_length=row.sequence_tokens,
        global_batch_sequences=row.global_batch_sequences,
    )


def _tokens_at_peak(row: LayoutlessRow, precision: Precision) -> float:
    """Tokens per second and GPU at the dense peak, all attention counted."""
    gpu = get_gpu(row.accelerator_id)
    peak = (peak_tflops(gpu, precision) or gpu.bf16_tflops or 0.0) * _TERA
    return peak / float(flops_per_token(shape_of_row(row), row.sequence_tokens, FULL_ATTENTION))


def _speed(row: LayoutlessRow) -> float:
    """How much faster than in BF16."""
    return LOW_PRECISION_FACTOR if _is_narrow(row) else 1.0


def _is_narrow(row: LayoutlessRow) -> bool:
    return row.precision not in ("bf16", "fp16")


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
