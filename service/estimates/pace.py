"""How fast a transformer request trains: by the user's figure, by measurements, by the step model, or as is usual."""

import math
from typing import Literal

from msgspec import UNSET, Struct, structs

from service.errors import BrokenRule
from service.estimates.chips import machine_of
from service.estimates.facts import FIT_SOURCES, measured_point
from service.estimates.memory import Site, cannot_fit, fits_in, plan_of
from service.estimates.record import Record
from service.estimates.schemas import MeasuredScaling
from service.estimates.subject import Subject
from service.estimates.work_schemas import Attention, ParallelLayout, TransformerWork
from service.estimator import advice
from service.estimator.constants import SEARCHED_THROUGHPUT_FACTOR
from service.estimator.flops import recompute_multiplier
from service.estimator.parallelism import (
    ASSUMED_BATCH_TOKENS,
    Layout,
    Workload,
    check_layout,
    data_parallel,
    divisible_batch,
    workload_of,
)
from service.estimator.scaling import fitted, predicted
from service.estimator.search import RECOMPUTE_LEAST_FIRST, Choices, find_fastest_layout
from service.estimator.shapes import ModelShape
from service.estimator.step import Machine, StepSeconds, step_seconds, tokens_per_second_per_gpu
from service.estimator.utilisation import (
    LONGEST_SEQUENCE,
    LOW_PRECISION_FACTOR,
    P90_SIGMAS,
    QLORA_FACTOR,
    Method,
    Regime,
    family_prior,
    is_validated,
    mixture_factor,
    spread,
)
from service.units import PERCENT

_LOW: frozenset[str] = frozenset({"fp8", "fp4"})
_WIDE: frozenset[str] = frozenset({"tf32", "fp32"})
# Dense peaks over BF16's, where only that of a narrow precision was given: as on every part of the catalogue.
_PEAK_OVER_BF16 = {"fp8": 2.0, "fp4": 4.0}
_FULL_RECOMPUTE_6ND = 4 / 3


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
    _check(work, subject, measured)
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
    modelled = _modelled(record, work, subject, site, site.gpu_count)
    if modelled is None:
        return _by_prior(work, subject, site)
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
    here = _modelled(record, work, subject, site, site.gpu_count)
    try:
        base = _modelled(record, work, subject, site, base_gpu_count)
    except BrokenRule as error:
        raise error.placed("/scaling/base_gpu_count") from None
    if here is None or base is None:
        told = "The step model needs a dense shape, and an accelerator whose kernels, memory and links are known"
        raise BrokenRule.at("/scaling", told)
    rate, base_rate = here.tokens_per_second / site.gpu_count, base.tokens_per_second / base_gpu_count
    return min(PERCENT * rate / base_rate, float(PERCENT))


def hardware_over_model(work: TransformerWork, subject: Subject, modelled: Modelled | None) -> float | None:
    """Hardware FLOPs over model FLOPs; None where nobody says what is recomputed, or adapters are trained."""
    recompute = modelled.layout.recompute if modelled is not None else work.recompute
    if recompute is UNSET or subject.training != "full":
        return None
    if subject.shape is None:
        return {"none": 1.0, "full": _FULL_RECOMPUTE_6ND}.get(recompute)
    return float(recompute_multiplier(subject.shape, subject.sequence_length, 1, recompute))


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


def _check(work: TransformerWork, subject: Subject, measured: MeasuredScaling | None) -> None:
    if work.mfu_percent is not UNSET and work.hfu_percent is not UNSET:
        raise BrokenRule.at("/work/hfu_percent", "Give either mfu_percent or hfu_percent")
    has_figure = work.mfu_percent is not UNSET or work.hfu_percent is not UNSET
    if work.mfu_kind is not UNSET and work.mfu_percent is UNSET:
        raise BrokenRule.at("/work/mfu_kind", "It says of what mfu_percent is: give that too")
    if has_figure and measured is not None:
        raise BrokenRule.at("/scaling/points", "Give either a utilisation or measured points, not both")
    if work.layout is not UNSET and subject.shape is None:
        raise BrokenRule.at("/work/layout", "A layout splits a shape: give shape or model instead of parameters")


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
    found = predicted(fitted(points, measured.law), site.gpu_count)
    scale = _tokens_per_step(work, subject, measured)
    high, low = float(found.high_tokens_per_second), float(found.low_tokens_per_second)
    record.say("scaling.law", measured.law, "given", "request")
    if found.beyond_validity:
        record.note(advice.communication_extrapolated(float(found.extrapolation)))
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
    """The shape of the step model through the one point."""
    point = measured_point(0, measured.points[0], measured)
    rate = point.tokens_per_second * _tokens_per_step(work, subject, measured)
    grows = measured.law == "log2"
    here = _modelled(record, work, subject, site, site.gpu_count)
    try:
        there = _modelled(record, work, subject, site, point.gpu_count, grows=grows)
    except BrokenRule as error:
        raise error.placed("/scaling/points/0/gpu_count") from None
    if here is None or there is None:
        told = "One point is enough only where the step model has a dense shape and a known accelerator: give two"
        raise BrokenRule.at("/scaling/points", told)
    return Pace(
        tokens_per_second=rate * here.tokens_per_second / there.tokens_per_second,
        method="one_point",
        regimes=(),
        sigma_ln=spread("one_point", ()),
        source="the shape of the step model through one measurement",
        modelled=here,
    )


def _tokens_per_step(work: TransformerWork, subject: Subject, measured: MeasuredScaling) -> float:
    """What a point is to be multiplied by: 1, or the tokens of a step where times of a step were given."""
    if measured.points[0].step_seconds is UNSET:
        return 1.0
    if work.global_batch_sequences is UNSET:
        told = "Times of a step become throughput by the global batch: give it, or tokens_per_second"
        raise BrokenRule.at("/work/global_batch_sequences", told)
    return float(work.global_batch_sequences * subject.sequence_length)


# ------------------------------------------------------------------------------------------- what is predicted


def _by_prior(work: TransformerWork, subject: Subject, site: Site) -> Pace:
    """The family's usual MFU against its BF16 peak, all attention counted; experts, narrow precisions and quantized
    adapters by their published factors."""
    chip = site.chip
    usual = family_prior(chip.family, one_node=site.gpu_count <= site.gpus_per_node)
    peak = chip.peak_flops_per_second
    if work.precision in _LOW:
        bf16 = chip.bf16_flops_per_second or peak / _PEAK_OVER_BF16[work.precision]
        peak = LOW_PRECISION_FACTOR * bf16
    mfu = usual.mfu * (mixture_factor(chip.family) if subject.is_mixture else 1.0) * _adapter_factor(subject)
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
    chip = site.chip
    several_nodes = site.gpu_count > site.gpus_per_node
    found: tuple[tuple[Regime, bool], ...] = (
        ("accelerator_unvalidated", not is_validated(chip.kernels)),
        ("mixture_of_experts", subject.is_mixture),
        ("low_precision", work.precision in _LOW),
        ("wide_precision", work.precision in _WIDE),
        ("slow_network", several_nodes and chip.network_is_slow),
        ("long_sequence", stepwise and subject.sequence_length > LONGEST_SEQUENCE),
        ("context_parallel", stepwise and work.layout is not UNSET and work.layout.context > 1),
        ("adapters", subject.training == "lora"),
        ("quantized_adapters", subject.training == "qlora"),
    )
    return tuple(regime for regime, holds in found if holds)


def _adapter_factor(subject: Subject) -> float:
    return QLORA_FACTOR if subject.training == "qlora" else 1.0


def _modelled(
    record: Record, work: TransformerWork, subject: Subject, site: Site, gpu_count: int, grows: bool = False
) -> Modelled | None:
    """The step model at a count, with the layout given or the fastest that fits; None where it has no say: experts,
    a wide precision, or an accelerator that is not known well enough. Faults of a layout are raised."""
    shape, machine = subject.shape, machine_of(site.chip, site.gpus_per_node)
    if shape is None or shape.moe is not None or machine is None or work.precision in _WIDE:
        if work.layout is not UNSET and shape is not None:
            check_layout(_workload(record, work, subject, shape, gpu_count, grows), _given(work), gpu_count)
        return None
    workload = _workload(record, work, subject, shape, gpu_count, grows)
    if work.layout is not UNSET:
        layout = _given(work)
        check_layout(workload, layout, gpu_count)
        step, given = step_seconds(workload, machine, layout, gpu_count), True
    else:
        layout, step = _searched(work, subject, shape, site, machine, workload, gpu_count)
        given = False
    speed = (LOW_PRECISION_FACTOR if work.precision in _LOW else 1.0) * _adapter_factor(subject)
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

    def fits(layout: Layout) -> bool:
        return fits_in(subject, shape, site.chip, plan_of(subject, layout, data_parallel(layout, gpu_count)))

    modes = RECOMPUTE_LEAST_FIRST if work.recompute is UNSET else (work.recompute,)
    found = find_fastest_layout(workload, machine, gpu_count, fits, Choices(recompute=modes))
    if found is None:
        raise cannot_fit(subject, shape, structs.replace(site, gpu_count=gpu_count))
    return found.layout, found.step


def _given(work: TransformerWork) -> Layout:
    assert work.layout is not UNSET  # the caller asked
    return layout_of(work.layout, "none" if work.recompute is UNSET else work.recompute)


def _workload(
    record: Record, work: TransformerWork, subject: Subject, shape: ModelShape, gpu_count: int, grows: bool
) -> Workload:
    """The shape with the batch given, or about 4M tokens in equal parts; it may grow with the count."""
    length = subject.sequence_length
    if work.global_batch_sequences is not UNSET:
        return workload_of(shape, length, work.global_batch_sequences)
    sequences = ASSUMED_BATCH_TOKENS / length
    if work.layout is not UNSET:
        part = max(1, data_parallel(_given(work), gpu_count)) * work.layout.microbatch
        batch = part * max(1, round(sequences / part))
    else:
        batch = divisible_batch(sequences, gpu_count)
    if not grows:
        record.say("work.global_batch_sequences", batch, "default", "about 4M tokens, in equal parts; assumed")
        record.note(advice.default_batch(batch))
    return workload_of(shape, length, batch)
