"""How fast a transformer request trains: by the user's figure, by measurements, by the step model, or as is usual."""

import math

from msgspec import UNSET, Struct

from service.errors import BrokenRule
from service.estimates.chips import unknown_figures
from service.estimates.facts import FIT_SOURCES, law_said, measured_point
from service.estimates.memory import Site
from service.estimates.prior import tokens_per_second_of_one, usual_of
from service.estimates.record import Record
from service.estimates.schemas import MeasuredScaling
from service.estimates.stepwise import Modelled, given_layout, modelled_at, say_batch, workload_at
from service.estimates.subject import Subject
from service.estimates.work_schemas import Attention, TransformerWork
from service.estimator import advice
from service.estimator.constants import SEARCHED_THROUGHPUT_FACTOR, SIGMA_LN_LAYOUT_GIVEN
from service.estimator.evidence import Usual
from service.estimator.flops import CAUSAL_ATTENTION, FULL_ATTENTION, recompute_multiplier
from service.estimator.parallelism import check_layout
from service.estimator.scaling import MOST_EXTRAPOLATION, fitted, gpu_seconds_per_token, predicted
from service.estimator.utilisation import P90_SIGMAS, Method, Regime, regimes_of, spread
from service.units import PERCENT

_FULL_RECOMPUTE_6ND = 4 / 3
# One measurement was carried so far in the published series that the step model was checked with.
_MOST_FROM_ONE_POINT = 48.0
# What one measurement does not settle at another count.
_UNSETTLED_BY_ONE_POINT: frozenset[Regime] = frozenset(
    {"accelerator_unvalidated", "slow_network", "long_sequence", "context_parallel"}
)


class Pace(Struct, frozen=True, kw_only=True):
    """Tokens a second of all GPUs in productive steps, how that is known, and how far it may be off."""

    tokens_per_second: float
    method: Method
    regimes: tuple[Regime, ...]
    sigma_ln: float
    source: str
    modelled: Modelled | None = None
    usual: Usual | None = None


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
    modelled = modelled_at(work, subject, site, site.gpu_count)
    if modelled is None:
        return _by_prior(record, work, subject, site)
    say_batch(record, work, modelled)
    regimes = _regimes(work, subject, site, modelled)
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
    here = modelled_at(work, subject, site, site.gpu_count)
    try:
        base = modelled_at(work, subject, site, base_gpu_count)
    except BrokenRule as error:
        raise error.placed("/scaling/base_gpu_count") from None
    if here is None or base is None:
        raise no_step_model()
    say_batch(record, work, here)
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
        check_layout(workload_at(work, subject, subject.shape, site.gpu_count), given_layout(work), site.gpu_count)


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
    fit = fitted(points, measured.chosen_law)
    if gpu_seconds_per_token(fit, site.gpu_count) <= 0:
        told = "The law that these points fit leaves no time for a step at this count: measure at larger counts"
        raise BrokenRule.at("/scaling/points", told)
    found = predicted(fit, site.gpu_count)
    scale = _tokens_per_step(work, subject, measured)
    high, low = float(found.high_tokens_per_second), float(found.low_tokens_per_second)
    record.assumptions.append(law_said(measured))
    if found.beyond_validity:
        record.note(advice.scaling_extrapolated(float(found.extrapolation), MOST_EXTRAPOLATION))
    if fit.excluded_gpu_count is not None:
        record.note(advice.point_excluded(fit.excluded_gpu_count))
    return Pace(
        tokens_per_second=float(found.tokens_per_second) * scale,
        method="measured_points",
        regimes=(),
        sigma_ln=math.log(high / low) / (2 * P90_SIGMAS) if low > 0 else 1.0,
        source=FIT_SOURCES[measured.chosen_law],
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
    here = modelled_at(work, subject, site, site.gpu_count)
    try:
        there = modelled_at(work, subject, site, point.gpu_count, _batch_at(point.gpu_count, work, site, measured))
    except BrokenRule as error:
        raise error.placed("/scaling/points/0/gpu_count") from None
    if here is None or there is None:
        told = (
            "One point at another count is enough only where the step model has a dense shape and a known accelerator: "
            f"give two, or one at {site.gpu_count} GPUs"
        )
        raise BrokenRule.at("/scaling/points", told)
    say_batch(record, work, here)
    factor = site.gpu_count / point.gpu_count
    if factor > _MOST_FROM_ONE_POINT:
        record.note(advice.scaling_extrapolated(factor, _MOST_FROM_ONE_POINT))
    regimes = tuple(regime for regime in _regimes(work, subject, site, here) if regime in _UNSETTLED_BY_ONE_POINT)
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
    if measured.chosen_law == "amdahl":
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
    """What is usual for the family, times every factor of this run."""
    chip = site.chip
    unknown = unknown_figures(chip)
    if unknown:
        record.note(advice.unknown_figures(chip.name, unknown))
    usual = usual_of(work, subject, site)
    if usual.network_factor is None:
        record.note(advice.network_unmodelled(chip.network_gbps or 0.0, chip.usual_network_gbps))
    elif usual.network_factor < 1:
        told = advice.network_scaled(
            chip.network_gbps or 0.0, chip.usual_network_gbps, usual.network_factor, subject.is_mixture
        )
        record.note(told)
    regimes = _regimes(work, subject, site, None)
    if usual.network_factor is None:
        regimes += ("network_unmodelled",)
    return Pace(
        tokens_per_second=site.gpu_count * tokens_per_second_of_one(usual, subject),
        method="family_prior",
        regimes=regimes,
        sigma_ln=spread("family_prior", regimes, usual.sigma_ln),
        source=usual.source,
        usual=usual,
    )


def _regimes(work: TransformerWork, subject: Subject, site: Site, modelled: Modelled | None) -> tuple[Regime, ...]:
    """What of this run no published table covers; where the step model has its say, of the layout that it took."""
    chip = site.chip
    context = 1 if work.layout is UNSET else work.layout.context
    return regimes_of(
        kernels=chip.kernels,
        precision=work.precision,
        is_mixture=subject.is_mixture,
        training=subject.training,
        network_gbps=chip.network_gbps if chip.needs_network(site.gpu_count, site.gpus_per_node) else None,
        sequence_tokens=None if modelled is None else subject.sequence_length,
        context=context if modelled is None else modelled.layout.context,
        usual_parameters=subject.active_parameters if modelled is None else None,
    )
