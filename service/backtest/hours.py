"""GPU-hours of published runs predicted from what could be known before them, never from their own hours.

No constant here is fitted to these runs, though the rule from step to bill was set with their usual gap in view and
its presets were read from three of them. What a row does not say is assumed, the same for all: 4M tokens a batch, 512
accelerators, heads 128 wide, a GPT's proportions, 50,304 words.
"""

import math
from collections.abc import Iterable
from statistics import median
from typing import Literal

from msgspec import Struct

from service.backtest.runs import PublishedRun
from service.backtest.scores import BacktestScore
from service.backtest.throughput import FLAT_MFU, GPUS_PER_NODE, found_layout, machine_of, usual_cluster
from service.catalog.gpus import get_gpu, memory_for_programs_gb, peak_tflops, slice_size
from service.catalog.models import get_model
from service.estimator.constants import find_kernel_efficiency
from service.estimator.flops import billed_mfu, six_nd_flops
from service.estimator.parallelism import ASSUMED_BATCH_TOKENS, Workload, divisible_batch, workload_of
from service.estimator.reliability import (
    INSTABILITY_PERCENT,
    PEOPLE_PERCENT,
    PRESETS,
    hardware_failures_per_hour,
    job_mttf_hours,
    optimal_interval_hours,
)
from service.estimator.rework import Stops, hours_by_cause
from service.estimator.search import Choices, searched_tokens_per_second_per_gpu
from service.estimator.usual_shape import usual_shape
from service.estimator.utilisation import (
    NARROW_PRECISIONS,
    OVERHEAD_PERCENT,
    SIGMA_LN_STEP_TO_BILL,
    Regime,
    family_of,
    family_prior,
    mixture_factor,
    precision_factor,
    regimes_of,
    spread,
)
from service.units import PERCENT

Method = Literal["stated", "searched", "prior"]

# From so many accelerators on somebody has automated restarts (Llama 3); below, an operator on call. Assumed.
AUTOMATED_FROM_COUNT = 2048

# Full recompute in hardware FLOPs over model FLOPs (arXiv 2205.05198, section 5).
FULL_RECOMPUTE = 4 / 3

ASSUMED_COUNT = 512
ASSUMED_SEQUENCE_TOKENS = 2048
_SECONDS_PER_HOUR = 3600
_TERA = 1e12


class _Forecast(Struct, frozen=True):
    """Productive GPU-hours, and how far they may be off."""

    gpu_hours: float
    sigma_ln: float


def predicted_hours(runs: Iterable[PublishedRun], method: Method) -> list[BacktestScore]:
    """Each run by one method; a run that the method has nothing for is left out."""
    scores = []
    for run in runs:
        forecast = _forecast(run, method)
        if forecast is not None:
            billed = run.hours_basis in ("billed", "expected")
            factor = step_to_bill(run, forecast.gpu_hours) if billed else 1.0
            sigma = math.hypot(forecast.sigma_ln, SIGMA_LN_STEP_TO_BILL if billed else 0.0)
            scores.append(_score(run, factor * forecast.gpu_hours, sigma or None))
    return scores


def best_without_stated(runs: Iterable[PublishedRun]) -> list[BacktestScore]:
    """As the service does: the searched layout where there is one, else the family's prior."""
    return [score for run in runs for score in (predicted_hours([run], "searched") or predicted_hours([run], "prior"))]


def hours_by_flat_mfu(runs: Iterable[PublishedRun]) -> list[BacktestScore]:
    """The first baseline: 6ND at 40 % of the peak of the precision that ran."""
    return [_score(run, _step_hours(run, FLAT_MFU, peak_flops_per_second(run))) for run in runs]


def hours_by_family_median(runs: Iterable[PublishedRun], known: Iterable[PublishedRun]) -> list[BacktestScore]:
    """The second: the median billed utilisation of the family's runs, at that precision, by other sources."""
    others = tuple(known)
    scores = []
    for run in runs:
        elsewhere = [other for other in others if other.source_id != run.source_id]
        peers = [other for other in elsewhere if _kind(other) == _kind(run)] or elsewhere
        mfu = median(_billed(other) for other in peers)
        scores.append(_score(run, _step_hours(run, mfu, peak_flops_per_second(run))))
    return scores


def step_to_bill(run: PublishedRun, productive_gpu_hours: float) -> float:
    """Billed over productive hours: the overhead, and rework by cause for so many nodes. Idle hours are not known."""
    count = run.accelerator_count or ASSUMED_COUNT
    preset = PRESETS["hyperscale_automated" if count >= AUTOMATED_FROM_COUNT else "on_call"]
    nodes = math.ceil(count / GPUS_PER_NODE)
    per_day = preset.failures_per_node_day + preset.software_failures_per_node_day
    failures = Stops(float(hardware_failures_per_hour(nodes, per_day)), preset.restart_hours)
    checkpoint_hours = preset.checkpoint_seconds / _SECONDS_PER_HOUR
    interval = optimal_interval_hours(checkpoint_hours, job_mttf_hours(failures.per_hour))
    work = productive_gpu_hours / count * (1 + OVERHEAD_PERCENT / PERCENT)
    causes = hours_by_cause(
        work,
        interval,
        checkpoint_hours,
        failures,
        instability_percent=INSTABILITY_PERCENT,
        people_percent=PEOPLE_PERCENT,
    )
    return float(causes.expected) * count / productive_gpu_hours


def states_utilisation(run: PublishedRun) -> bool:
    """Whether the run says a step MFU or HFU."""
    return run.stated_mfu_share is not None or run.stated_hfu_share is not None


def peak_flops_per_second(run: PublishedRun) -> float:
    """The dense peak of one accelerator at the precision that ran."""
    if run.accelerator_id is None:
        return (run.peak_tflops or 0.0) * _TERA
    peak = peak_tflops(get_gpu(run.accelerator_id), run.precision)
    return (peak or _bf16_tflops(run)) * _TERA


# ------------------------------------------------------------------------------------------- productive hours


def _forecast(run: PublishedRun, method: Method) -> _Forecast | None:
    if method == "stated":
        return _by_stated_utilisation(run)
    return _by_searched_layout(run) if method == "searched" else _by_prior(run)


def _by_stated_utilisation(run: PublishedRun) -> _Forecast | None:
    """The stated step MFU, or the HFU without what full recompute adds; FLOPs counted as the authors did."""
    mfu = run.stated_mfu_share
    if mfu is None and run.stated_hfu_share is not None:
        mfu = run.stated_hfu_share / (FULL_RECOMPUTE if run.recompute == "full" else 1)
    if mfu is None:
        return None
    hours = _step_hours(run, mfu, peak_flops_per_second(run))
    return _Forecast(hours * (_attention_factor(run) if run.mfu_counts_attention else 1.0), 0.0)


def _by_prior(run: PublishedRun) -> _Forecast:
    """The family's usual MFU against its BF16 peak; experts and narrow precisions by their published factors."""
    family, count = family_of(run.accelerator_id or "other"), run.accelerator_count or ASSUMED_COUNT
    usual = family_prior(family, one_node=count <= _gpus_per_node(run))
    experts = mixture_factor(family, _in_one_rack(run)) if run.architecture == "moe" else 1.0
    mfu = usual.mfu * experts * precision_factor(run.precision)
    hours = _step_hours(run, mfu, _bf16_tflops(run) * _TERA)
    sigma_ln = spread("family_prior", _regimes(run, modelled=False), usual.sigma_ln, run.source_id)
    return _Forecast(hours * _attention_factor(run), sigma_ln)


def _by_searched_layout(run: PublishedRun) -> _Forecast | None:
    """The fastest layout that fits, for dense runs on accelerators whose kernels are known."""
    if run.architecture != "dense" or run.accelerator_id is None:
        return None
    gpu = get_gpu(run.accelerator_id)
    kernels = find_kernel_efficiency(gpu.id, "bf16")
    if kernels is None or gpu.scale_out_gbps_per_gpu is None:
        return None
    count = run.accelerator_count or ASSUMED_COUNT
    workload = _workload(run, count)
    machine = machine_of(usual_cluster(gpu))
    recompute = Choices() if run.recompute is None else Choices(recompute=(run.recompute,))
    found = found_layout(workload, machine, count, memory_for_programs_gb(gpu), recompute)
    if found is None:
        return None
    rate = searched_tokens_per_second_per_gpu(workload, found, count) * precision_factor(run.precision)
    sigma_ln = spread("layout_searched", _regimes(run, modelled=True), low_precision_left_out=run.source_id)
    return _Forecast(run.trained_tokens / rate / _SECONDS_PER_HOUR, sigma_ln)


def _regimes(run: PublishedRun, *, modelled: bool) -> tuple[Regime, ...]:
    """What of the run no published table covers."""
    gpu = None if run.accelerator_id is None else get_gpu(run.accelerator_id)
    joined = _gpus_per_node(run) if gpu is None else max(_gpus_per_node(run), slice_size(gpu))
    several_nodes = (run.accelerator_count or ASSUMED_COUNT) > joined
    return regimes_of(
        kernels=None if gpu is None else find_kernel_efficiency(gpu.id, "bf16"),
        precision=run.precision,
        is_mixture=run.architecture == "moe",
        network_gbps=gpu.scale_out_gbps_per_gpu if gpu is not None and several_nodes else None,
        sequence_tokens=(run.sequence_tokens or ASSUMED_SEQUENCE_TOKENS) if modelled else None,
        usual_parameters=None if modelled else run.active_parameters,
    )


def _gpus_per_node(run: PublishedRun) -> int:
    return GPUS_PER_NODE if run.accelerator_id is None else usual_cluster(get_gpu(run.accelerator_id)).gpus_per_node


def _in_one_rack(run: PublishedRun) -> bool:
    """Whether one link joins more than a node of it."""
    return run.accelerator_id is not None and (get_gpu(run.accelerator_id).scale_up_domain_size or 0) > GPUS_PER_NODE


def _workload(run: PublishedRun, count: int) -> Workload:
    """The run's shape from the catalogue, else a GPT of its size, with the batch that it says or the usual one."""
    length = run.sequence_tokens or ASSUMED_SEQUENCE_TOKENS
    batch = divisible_batch(run.global_batch_sequences or ASSUMED_BATCH_TOKENS / length, count)
    if run.model_id is None:
        shape = usual_shape(run.parameters, run.layers, run.hidden)
    else:
        shape = get_model(run.model_id).shape
    return workload_of(shape, length, batch)


def _step_hours(run: PublishedRun, mfu: float, peak: float) -> float:
    """GPU-hours of 6ND at this share of the peak (Kaplan et al. 2020)."""
    flops = float(six_nd_flops(run.active_parameters, run.trained_tokens))
    return flops / (mfu * peak) / _SECONDS_PER_HOUR


def _attention_factor(run: PublishedRun) -> float:
    """1 + s*L*h / (N/2): what attention, all of it counted, adds to 6ND (PaLM, App. B); 1 if the shape is unknown."""
    if run.layers is None or run.hidden is None or run.sequence_tokens is None:
        return 1.0
    return 1 + 2 * run.layers * run.hidden * run.sequence_tokens / run.active_parameters


def _bf16_tflops(run: PublishedRun) -> float:
    if run.accelerator_id is None:
        return run.peak_tflops or 0.0
    return get_gpu(run.accelerator_id).bf16_tflops or 0.0


def _billed(run: PublishedRun) -> float:
    """Reported utilisation: only ever of another source than the one predicted."""
    flops = six_nd_flops(run.active_parameters, run.trained_tokens)
    return float(billed_mfu(flops, run.reported_gpu_hours, peak_flops_per_second(run)))


def _kind(run: PublishedRun) -> tuple[str, bool]:
    return family_of(run.accelerator_id or "other"), run.precision in NARROW_PRECISIONS


def _score(run: PublishedRun, predicted: float, sigma_ln: float | None = None) -> BacktestScore:
    return BacktestScore(
        row_id=run.id,
        source_id=run.source_id,
        regimes=(run.hours_basis, family_of(run.accelerator_id or "other"), run.precision, run.architecture),
        predicted=predicted,
        measured=run.reported_gpu_hours,
        sigma_ln=sigma_ln,
        reason=run.reason,
    )
