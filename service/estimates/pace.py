"""How fast a transformer request trains: by the user's figure, by measurements, by the step model, or as is usual."""

import math
from typing import Literal

from msgspec import UNSET, Struct, structs

from service.errors import BrokenRule
from service.estimates.chips import Chip, machine_of, unknown_figures
from service.estimates.facts import FIT_SOURCES, measured_point
from service.estimates.memory import Site, cannot_fit, counts_that_may_fit, fits_in, plan_of
from service.estimates.record import Record
from service.estimates.schemas import MeasuredScaling
from service.estimates.subject import Subject
from service.estimates.work_schemas import Attention, ParallelLayout, TransformerWork
from service.estimator import advice
from service.estimator.constants import SEARCHED_THROUGHPUT_FACTOR, SIGMA_LN_LAYOUT_GIVEN
from service.estimator.flops import CAUSAL_ATTENTION, FULL_ATTENTION, recompute_multiplier
from service.estimator.parallelism import (
    ASSUMED_BATCH_TOKENS,
    Layout,
    Workload,
    check_layout,
    data_parallel,
    divisible_batch,
    divisors,
    workload_of,
)
from service.estimator.scaling import MOST_EXTRAPOLATION, fitted, gpu_seconds_per_token, predicted
from service.estimator.search import RECOMPUTE_LEAST_FIRST, Choices, Found, find_fastest_layout
from service.estimator.shapes import ModelShape
from service.estimator.step import Machine, StepSeconds, step_seconds, tokens_per_second_per_gpu
from service.estimator.utilisation import (
    NARROW_PRECISIONS,
    P90_SIGMAS,
    QLORA_FACTOR,
    WIDE_PRECISIONS,
    Method,
    Regime,
    family_prior,
    mixture_factor,
    precision_factor,
    regimes_of,
    spread,
)
from service.units import PERCENT

# Dense peaks over BF16's, where only that of a narrow precision was given: as on every part of the catalogue.
_PEAK_OVER_BF16 = {"fp8": 2.0, "fp4": 4.0}
_FULL_RECOMPUTE_6ND = 4 / 3
# A batch that nobody gave grows with the count beyond 4096 GPUs: published steps of many GPUs have about as many tokens
# for each (Llama 3 405B 16M on 16,384, arXiv 2407.21783; MegaScale 12.6M on 12,288, arXiv 2402.15627; the Megatron-LM
# README 4.7M on 4,608).
_ASSUMED_TOKENS_PER_GPU = 1024
_BATCH_ASSUMED = "4M tokens, or 1,024 for each GPU if that is more, in equal parts; assumed"
# One measurement was carried so far in the published series that the step model was checked with.
_MOST_FROM_ONE_POINT = 48.0
# No published run splits a layer over more, whatever its node.
_MOST_TENSOR = 16
# What one measurement does not settle at another count.
_UNSETTLED_BY_ONE_POINT: frozenset[Regime] = frozenset(
    {"accelerator_unvalidated", "slow_network", "long_sequence", "context_parallel"}
)


class Modelled(Struct, frozen=True):
    """What the step model says of one count: tokens a second of all GPUs, and how they are laid out."""

    tokens_per_second: float
    layout: Layout
    workload: Workload
    step: StepSeconds
    given: bool


class Pace(Struct, frozen=True, kw_only=True):
    """Tokens a second of all GPUs in productive steps, how that is known, and how far it may be off."""

    tokens_per_second: float
    method: Method
    regimes: tuple[Regime, ...]
    sigma_ln: float
    source: str
    modelled: Modelled | None = None


def pace_of(
    record: Record, work: TransformerWork, subject: Subject, site: Site, measured: MeasuredScaling | None
) -> Pace:
    """The best way that the request allows; BrokenRule where it says two things at once."""
    _check(work, subject, site, measured)
    if work.mfu_percent is not UNSET:
        record.say("work.mfu_percent", work.mfu_percent, "given", "request")
        return _by_mfu(work, subject, site, work.mfu_percent, "mfu_given")
    if work.hfu_percent is not UNSET:
        record.say("work.hfu_percent", work.hfu_percent, "given", "request")
        return _by_mfu(work, subject, site, work.hfu_percent / _hardware_over_model(work, subject), "hfu_given")
    if measured is not None and len(measured.points) > 1:
        return _by_points(record, work, subject, site, measured)
    if measured is not None:
        return _by_one_point(record, work, subject, site, measured)
    modelled = _modelled(work, subject, site, site.gpu_count)
    if modelled is None:
        return _by_prior(record, work, subject, site)
    _say_batch(record, work, modelled)
    regimes = _regimes(work, subject, site, stepwise=True)
    method: Method = "layout_given" if modelled.given else "layout_searched"
    factor = 1.0 if modelled.given else SEARCHED_THROUGHPUT_FACTOR
    return Pace(
        tokens_per_second=modelled.tokens_per_second * factor,
        method=method,
        regimes=regimes,
        sigma_ln=spread(method, regimes),
        source="analytic step model, checked against published throughput (GET /v1/backtest)",
        modelled=modelled,
    )


def model_efficiency_percent(
    record: Record, work: TransformerWork, subject: Subject, site: Site, base_gpu_count: int
) -> float:
    """What the step model leaves of the rate of one GPU at a smaller count, in percent, at most 100."""
    here = _modelled(work, subject, site, site.gpu_count)
    try:
        base = _modelled(work, subject, site, base_gpu_count)
    except BrokenRule as error:
        raise error.placed("/scaling/base_gpu_count") from None
    if here is None or base is None:
        raise no_step_model()
    _say_batch(record, work, here)
    rate, base_rate = here.tokens_per_second / site.gpu_count, base.tokens_per_second / base_gpu_count
    return min(PERCENT * rate / base_rate, float(PERCENT))


def no_step_model() -> BrokenRule:
    """That the step model was asked for, and has no say."""
    return BrokenRule.at(
        "/scaling",
        "The step model needs a dense shape in 16 bits or fewer, and an accelerator whose kernels, memory and links "
        "are known (H100 and A100 SXM are); leave scaling out for what is usual, or measure two points",
    )


def hardware_over_model(work: TransformerWork, subject: Subject, modelled: Modelled | None) -> float | None:
    """Hardware FLOPs over model FLOPs; None where nobody says what is recomputed, or adapters are trained."""
    recompute = modelled.layout.recompute if modelled is not None else work.recompute
    if recompute is UNSET or subject.training != "full":
        return None
    if subject.shape is None:
        return {"none": 1.0, "full": _FULL_RECOMPUTE_6ND}.get(recompute)
    counted = FULL_ATTENTION if attention_of(work) == "full" else CAUSAL_ATTENTION
    return float(recompute_multiplier(subject.shape, subject.sequence_length, counted, recompute))


def attention_of(work: TransformerWork) -> Attention:
    """How much of the attention matrix the FLOPs of this request count."""
    return "full" if work.attention is UNSET else work.attention


def layout_of(given: ParallelLayout, recompute: Literal["none", "selective", "full"]) -> Layout:
    """The layout of a request as the estimator takes it."""
    fields = structs.asdict(given)
    del fields["expert"]
    if given.sequence_parallel is UNSET:
        fields["sequence_parallel"] = given.tensor > 1
    return Layout(**fields, recompute=recompute)


# ------------------------------------------------------------------------------------------- what was given


def _check(work: TransformerWork, subject: Subject, site: Site, measured: MeasuredScaling | None) -> None:
    if work.mfu_percent is not UNSET and work.hfu_percent is not UNSET:
        raise BrokenRule.at("/work/hfu_percent", "Give either mfu_percent or hfu_percent")
    has_figure = work.mfu_percent is not UNSET or work.hfu_percent is not UNSET
    if work.mfu_kind is not UNSET and work.mfu_percent is UNSET:
        raise BrokenRule.at("/work/mfu_kind", "It says of what mfu_percent is: give that too")
    if has_figure and measured is not None:
        raise BrokenRule.at("/scaling/points", "Give either a utilisation or measured points, not both")
    if work.layout is not UNSET:
        if subject.shape is None:
            raise BrokenRule.at("/work/layout", "A layout splits a shape: give shape or model instead of parameters")
        check_layout(_workload(work, subject, subject.shape, site.gpu_count), _given(work), site.gpu_count)


def _by_mfu(work: TransformerWork, subject: Subject, site: Site, mfu_percent: float, method: Method) -> Pace:
    peak = site.gpu_count * site.chip.peak_flops_per_second
    rate = mfu_percent / PERCENT * peak / subject.flops_per_token(attention_of(work))
    return Pace(tokens_per_second=rate, method=method, regimes=(), sigma_ln=0.0, source="request")


def _hardware_over_model(work: TransformerWork, subject: Subject) -> float:
    ratio = hardware_over_model(work, subject, None)
    if ratio is None:
        told = "HFU holds what is recomputed: say what that is (selective needs a shape, and adapters have only MFU)"
        raise BrokenRule.at("/work/recompute", told)
    return ratio


def _by_points(record: Record, work: TransformerWork, subject: Subject, site: Site, measured: MeasuredScaling) -> Pace:
    """By the law fitted to the points; times of a step become throughput by the global batch."""
    points = [measured_point(index, point, measured) for index, point in enumerate(measured.points)]
    fit = fitted(points, measured.law)
    if gpu_seconds_per_token(fit, site.gpu_count) <= 0:
        told = "The law that these points fit leaves no time for a step at this count: measure at larger counts"
        raise BrokenRule.at("/scaling/points", told)
    found = predicted(fit, site.gpu_count)
    scale = _tokens_per_step(work, subject, measured)
    high, low = float(found.high_tokens_per_second), float(found.low_tokens_per_second)
    record.say("scaling.law", measured.law, "given", "request")
    if found.beyond_validity:
        record.note(advice.scaling_extrapolated(float(found.extrapolation), MOST_EXTRAPOLATION))
    if fit.excluded_gpu_count is not None:
        record.note(advice.point_excluded(fit.excluded_gpu_count))
    return Pace(
        tokens_per_second=float(found.tokens_per_second) * scale,
        method="measured_points",
        regimes=(),
        sigma_ln=math.log(high / low) / (2 * P90_SIGMAS) if low > 0 else 1.0,
        source=FIT_SOURCES[measured.law],
    )


def _by_one_point(
    record: Record, work: TransformerWork, subject: Subject, site: Site, measured: MeasuredScaling
) -> Pace:
    """The shape of the step model through the one point; at the same count the point itself."""
    point = measured_point(0, measured.points[0], measured)
    rate = point.tokens_per_second * _tokens_per_step(work, subject, measured)
    if point.gpu_count == site.gpu_count:
        source = "one measurement at this count"
        return Pace(
            tokens_per_second=rate, method="one_point", regimes=(), sigma_ln=spread("one_point", ()), source=source
        )
    here = _modelled(work, subject, site, site.gpu_count)
    try:
        there = _modelled(work, subject, site, point.gpu_count, _batch_at(point.gpu_count, work, site, measured))
    except BrokenRule as error:
        raise error.placed("/scaling/points/0/gpu_count") from None
    if here is None or there is None:
        told = (
            "One point at another count is enough only where the step model has a dense shape and a known accelerator: "
            f"give two, or one at {site.gpu_count} GPUs"
        )
        raise BrokenRule.at("/scaling/points", told)
    _say_batch(record, work, here)
    factor = site.gpu_count / point.gpu_count
    if factor > _MOST_FROM_ONE_POINT:
        record.note(advice.scaling_extrapolated(factor, _MOST_FROM_ONE_POINT))
    regimes = tuple(
        regime for regime in _regimes(work, subject, site, stepwise=True) if regime in _UNSETTLED_BY_ONE_POINT
    )
    # The published series kept one layout; a search may change it between the counts, and how much surer the point then
    # makes the model nobody has measured: as sure as a given layout, assumed.
    own_sigma = None if here.given else SIGMA_LN_LAYOUT_GIVEN
    return Pace(
        tokens_per_second=rate * here.tokens_per_second / there.tokens_per_second,
        method="one_point",
        regimes=regimes,
        sigma_ln=spread("one_point", regimes, own_sigma),
        source="the shape of the step model through one measurement",
        modelled=here,
    )


def _batch_at(gpu_count: int, work: TransformerWork, site: Site, measured: MeasuredScaling) -> int | None:
    """The batch given, smaller or larger by the count where it grows with it; None if none was given."""
    if work.global_batch_sequences is UNSET:
        return None
    if measured.law == "amdahl":
        return work.global_batch_sequences
    return max(1, round(work.global_batch_sequences * gpu_count / site.gpu_count))


def _tokens_per_step(work: TransformerWork, subject: Subject, measured: MeasuredScaling) -> float:
    """What a point is to be multiplied by: 1, or the tokens of a step where times of a step were given."""
    if measured.points[0].step_seconds is UNSET:
        return 1.0
    if work.global_batch_sequences is UNSET:
        told = "Times of a step become throughput by the global batch: give it, or tokens_per_second"
        raise BrokenRule.at("/work/global_batch_sequences", told)
    return float(work.global_batch_sequences * subject.sequence_length)


# ------------------------------------------------------------------------------------------- what is predicted


def _by_prior(record: Record, work: TransformerWork, subject: Subject, site: Site) -> Pace:
    """The family's usual MFU against its BF16 peak, all attention counted; experts, narrow precisions and quantized
    adapters by their published factors."""
    chip = site.chip
    usual = family_prior(chip.family, one_node=site.gpu_count <= site.gpus_per_node)
    peak = chip.peak_flops_per_second
    if work.precision in NARROW_PRECISIONS:
        peak = bf16_peak(chip, work.precision) * precision_gain(chip, work.precision)
    experts = mixture_factor(chip.family, chip.one_rack) if subject.is_mixture else 1.0
    mfu = usual.mfu * experts * adapter_gain(subject)
    unknown = unknown_figures(chip)
    if unknown:
        record.note(advice.unknown_figures(chip.name, unknown))
    regimes = _regimes(work, subject, site, stepwise=False)
    return Pace(
        tokens_per_second=mfu * site.gpu_count * peak / subject.flops_per_token("full"),
        method="family_prior",
        regimes=regimes,
        sigma_ln=spread("family_prior", regimes, usual.sigma_ln),
        source="published step MFU of the family (85 rows), or 30 to 50 % where there is none",
    )


def _regimes(work: TransformerWork, subject: Subject, site: Site, *, stepwise: bool) -> tuple[Regime, ...]:
    """What of this run no published table covers."""
    return regimes_of(
        kernels=site.chip.kernels,
        precision=work.precision,
        is_mixture=subject.is_mixture,
        training=subject.training,
        network_gbps=site.chip.network_gbps if site.gpu_count > site.gpus_per_node else None,
        sequence_tokens=subject.sequence_length if stepwise else None,
        context=1 if work.layout is UNSET else work.layout.context,
    )


def precision_gain(chip: Chip, precision: str) -> float:
    """What a narrow precision gains over BF16: as published, and never more than its peak does."""
    if precision not in NARROW_PRECISIONS:
        return 1.0
    return min(precision_factor(precision), chip.peak_flops_per_second / bf16_peak(chip, precision))


def bf16_peak(chip: Chip, precision: str) -> float:
    return chip.bf16_flops_per_second or chip.peak_flops_per_second / _PEAK_OVER_BF16[precision]


def adapter_gain(subject: Subject) -> float:
    return QLORA_FACTOR if subject.training == "qlora" else 1.0


def _modelled(
    work: TransformerWork, subject: Subject, site: Site, gpu_count: int, batch: int | None = None
) -> Modelled | None:
    """The step model at a count, with the layout given or the fastest that fits; None where it has no say: experts,
    latent attention, a wide precision, or an accelerator that is not known well enough. Faults of a layout are raised.
    """
    shape, machine = subject.shape, machine_of(site.chip, site.gpus_per_node)
    if shape is None or machine is None or work.precision in WIDE_PRECISIONS:
        return None
    if shape.moe is not None or shape.attention_parameters_per_layer is not None:
        return None
    workload = _workload(work, subject, shape, gpu_count, batch)
    if work.layout is not UNSET:
        layout = _given(work)
        check_layout(workload, layout, gpu_count)
        step, given = step_seconds(workload, machine, layout, gpu_count), True
    else:
        layout, step = _searched(work, subject, shape, site, machine, workload, gpu_count)
        given = False
    speed = precision_gain(site.chip, work.precision) * adapter_gain(subject)
    if subject.training != "full":
        whole = structs.replace(subject, training="full")
        speed *= whole.flops_per_token("full") / subject.flops_per_token("full")
    rate = tokens_per_second_per_gpu(workload, step.total_seconds, gpu_count) * gpu_count * speed
    return Modelled(rate, layout, workload, step, given)


def _searched(
    work: TransformerWork,
    subject: Subject,
    shape: ModelShape,
    site: Site,
    machine: Machine,
    workload: Workload,
    gpu_count: int,
) -> tuple[Layout, StepSeconds]:
    """The fastest layout that fits; BrokenRule where none divides, or none fits."""
    modes = RECOMPUTE_LEAST_FIRST if work.recompute is UNSET else (work.recompute,)
    tensors = tuple(degree for degree in divisors(site.gpus_per_node) if degree <= _MOST_TENSOR)

    def search(count: int, at_count: Workload) -> Found | None:
        def fits(layout: Layout) -> bool:
            return fits_in(subject, shape, site.chip, plan_of(subject, layout, data_parallel(layout, count)))

        return find_fastest_layout(at_count, machine, count, fits, Choices(recompute=modes, tensor=tensors))

    def would_do(count: int) -> bool:
        try:
            return search(count, _workload(work, subject, shape, count)) is not None
        except BrokenRule:
            return False

    found = search(gpu_count, workload)
    if found is None:
        here = structs.replace(site, gpu_count=gpu_count)
        counts = counts_that_may_fit(subject, shape, here, workload, modes[-1])
        raise cannot_fit(here, modes[-1], next(filter(would_do, counts), None))
    return found.layout, found.step


def _given(work: TransformerWork) -> Layout:
    assert work.layout is not UNSET  # the caller asked
    return layout_of(work.layout, "none" if work.recompute is UNSET else work.recompute)


def _say_batch(record: Record, work: TransformerWork, modelled: Modelled) -> None:
    """The batch that was assumed, if one was."""
    if work.global_batch_sequences is UNSET:
        batch = modelled.workload.global_batch_sequences
        record.say("work.global_batch_sequences", batch, "default", _BATCH_ASSUMED)
        record.note(advice.default_batch(batch, modelled.workload.sequence_length))


def _workload(
    work: TransformerWork, subject: Subject, shape: ModelShape, gpu_count: int, batch: int | None = None
) -> Workload:
    """The shape with this batch, else the one given, else a usual one in equal parts."""
    length = subject.sequence_length
    if batch is not None:
        return workload_of(shape, length, batch)
    if work.global_batch_sequences is not UNSET:
        return workload_of(shape, length, work.global_batch_sequences)
    sequences = max(ASSUMED_BATCH_TOKENS, _ASSUMED_TOKENS_PER_GPU * gpu_count) / length
    if work.layout is not UNSET:
        part = max(1, data_parallel(_given(work), gpu_count)) * work.layout.microbatch
        batch = part * max(1, round(sequences / part))
    else:
        batch = divisible_batch(sequences, gpu_count)
    return workload_of(shape, length, batch)
