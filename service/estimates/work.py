"""The work of a request to productive hours, and all that is known of how fast, how large and how sure they are."""

import math
from decimal import Decimal

from msgspec import UNSET, Struct, UnsetType, structs

from service.errors import BrokenRule
from service.estimates.chips import Chip, built_in_network, chip_of, interconnect_of
from service.estimates.facts import scaling_facts, work_facts
from service.estimates.memory import (
    Site,
    memory_by_parameters,
    memory_fully_sharded,
    memory_of_layout,
    memory_of_search,
    plan_of,
)
from service.estimates.pace import Pace, model_efficiency_percent, no_step_model, pace_of
from service.estimates.performance import performance_of_pace, performance_of_transformer
from service.estimates.record import Record
from service.estimates.schemas import (
    CommunicationScaling,
    EstimateRequest,
    InterconnectScaling,
    MeasuredScaling,
    ModelScaling,
    Scaling,
)
from service.estimates.stepwise import (
    Modelled,
    batch_that_waits_less,
    count_that_waits_less,
    layout_of,
    waiting_percent,
)
from service.estimates.subject import Subject, subject_of
from service.estimates.work_schemas import DEFAULT_OVERHEAD_PERCENT, ParallelLayout, ThroughputWork, TransformerWork
from service.estimator import advice, inputs
from service.estimator.answers import Memory, Performance
from service.estimator.flops import EPOCHS_LIKE_FRESH_DATA
from service.estimator.inputs import GpuHoursWork, MeasuredEfficiency, Network
from service.estimator.notes import slow_ethernet
from service.estimator.parallelism import data_parallel, divisors, nearest_of
from service.estimator.scaling import MOST_EXTRAPOLATION
from service.estimator.utilisation import LEAST_NETWORK_GBPS, P90_SIGMAS, quantile_factors
from service.money import exact
from service.units import PERCENT

_HUNDRED = Decimal(PERCENT)
_ONE = Decimal(1)
_NOTHING = Decimal(0)
_SECONDS_PER_HOUR = 3600
_TERA = 1e12
_ROUNDING = 1 + 1e-9
_STEP_TO_BILL = "evaluation, ramp-up and hangs: what published bills have beyond their steps"
_HELD = "the utilisation holds communication already"


class WorkFacts(Struct, frozen=True, kw_only=True):
    """Productive hours and what goes with them. `hours` are ideal hours, to be divided by `hours_divisor` and by the
    efficiency; `scaling_is_explicit` where somebody named that efficiency."""

    hours: Decimal
    hours_divisor: Decimal
    basis: inputs.Basis | None
    efficiency_percent: Decimal
    scaling_is_explicit: bool
    network: Network | None = None
    measured: MeasuredEfficiency | None = None
    overhead_percent: Decimal = _NOTHING
    billed: bool = False
    predicted: bool = False
    waiting_percent: float | None = None
    trained_tokens: float | None = None
    performance: Performance | None = None
    memory: Memory | None = None
    checkpoint_bytes: float | None = None
    step_hours: float | None = None
    chip: Chip | None = None


def facts_of_work(record: Record, request: EstimateRequest, gpu_count: int, gpus_per_node: int) -> WorkFacts:
    """The section `work` with `scaling`; BrokenRule where they contradict each other or what is needed is unknown."""
    work, scaling = request.work, request.scaling
    if isinstance(work, TransformerWork):
        return _transformer(record, request, work, gpu_count, gpus_per_node)
    if isinstance(scaling, ModelScaling):
        raise BrokenRule.at("/scaling", "The step model needs work of kind transformer with a model or a shape")
    _advise_interconnect(record, request, gpu_count, gpus_per_node)
    if isinstance(work, ThroughputWork):
        return _throughput(record, work, scaling, gpu_count)
    return _gpu_hours(record, work, scaling, gpu_count)


def _advise_interconnect(record: Record, request: EstimateRequest, gpu_count: int, gpus_per_node: int) -> None:
    """The network that was named, where hours or throughput were given and do not depend on it."""
    link = interconnect_of(record, request.cluster)
    if link is None:
        return
    scaling = request.scaling
    if not isinstance(scaling, InterconnectScaling) or scaling.preset != link.id:
        record.note(advice.interconnect_for_the_record(link.name))
    if gpu_count > max(gpus_per_node, built_in_network(request.cluster)):
        record.notes.extend(slow_ethernet(link.name, link.gbps_per_node))
        if link.gbps_per_gpu_unidirectional < LEAST_NETWORK_GBPS:
            record.note(advice.slow_network(link.gbps_per_gpu_unidirectional))


# ------------------------------------------------------------------------------------------- hours


def _gpu_hours(
    record: Record, work: GpuHoursWork | UnsetType, scaling: Scaling | UnsetType, gpu_count: int
) -> WorkFacts:
    """Hours as the classic calculator has them."""
    hours, basis = work_facts(record.assumptions, work)
    efficiency, network, measured = _efficiency(record, scaling, gpu_count)
    return WorkFacts(
        hours=hours,
        hours_divisor=Decimal(gpu_count) if basis == "total" else _ONE,
        basis=basis,
        efficiency_percent=efficiency,
        scaling_is_explicit=True,
        network=network,
        measured=measured,
    )


def _efficiency(
    record: Record, scaling: Scaling | UnsetType, gpu_count: int
) -> tuple[Decimal, Network | None, MeasuredEfficiency | None]:
    """The efficiency that a section of scaling names, with its spread."""
    if isinstance(scaling, CommunicationScaling):
        return _by_communication(record, scaling, gpu_count), None, None
    assert not isinstance(scaling, ModelScaling)  # the caller has another way with it
    efficiency, network, measured = scaling_facts(record.assumptions, scaling, gpu_count)
    if isinstance(scaling, InterconnectScaling) and network is not None:
        _band_spread(record, network, float(efficiency))
    if measured is not None and measured.low_percent > 0:
        ratio = measured.high_percent / measured.low_percent
        record.lognormal("scaling", _sigma(ratio), "the interval of the fit to your measurements")
    return efficiency, network, measured


def _by_communication(record: Record, scaling: CommunicationScaling, gpu_count: int) -> Decimal:
    """Exposed communication as long as it was, beside less work (Amdahl); or its share, where the batch grows."""
    share = scaling.share_percent / PERCENT
    base = gpu_count if scaling.gpu_count is UNSET else scaling.gpu_count
    factor = gpu_count / base if scaling.batch == "fixed" else 1.0
    if factor > MOST_EXTRAPOLATION:
        record.note(advice.communication_extrapolated(factor))
    percent = PERCENT * (1 - share) / (1 - share + share * factor)
    record.say("scaling.share_percent", scaling.share_percent, "given", "request")
    record.say("scaling.efficiency_percent", percent, "derived", "(1 - s) / (1 - s + s n / n0) (Amdahl 1967)")
    if percent < 1:
        raise BrokenRule.at("/scaling/share_percent", "At this GPU count communication leaves less than 1 %")
    return exact(percent)


def _band_spread(record: Record, network: Network, percent: float) -> None:
    low, high = network.band_low_percent, network.band_high_percent
    record.triangular("scaling", min(low / percent, 1.0), max(high / percent, 1.0), f"the band of {network.name}")


# ------------------------------------------------------------------------------------------- throughput


def _throughput(record: Record, work: ThroughputWork, scaling: Scaling | UnsetType, gpu_count: int) -> WorkFacts:
    """Tokens over tokens a second; the rate of one accelerator is that of the measurement."""
    tokens = work.tokens * work.epochs
    record.say("work.tokens", work.tokens, "given", "request")
    if work.epochs > EPOCHS_LIKE_FRESH_DATA:
        record.note(advice.many_epochs(work.epochs))
    record.say("work.tokens_per_second", work.tokens_per_second, "given", "request")
    record.say("work.per", work.per, "given", "request")
    base = record.pick("work.measured_gpu_count", work.measured_gpu_count, gpu_count, "those of this cluster")
    per_gpu = work.tokens_per_second if work.per == "gpu" else work.tokens_per_second / base
    efficiency, network, measured = _HUNDRED, None, None
    if scaling is not UNSET:
        efficiency, network, measured = _efficiency(record, scaling, gpu_count)
    elif base != gpu_count:
        record.note(advice.linear_throughput(base, gpu_count))
    if scaling is not UNSET and base == gpu_count:
        record.note(advice.throughput_with_scaling())
    elif isinstance(scaling, MeasuredScaling | CommunicationScaling):
        efficiency, per_gpu = _against(record, scaling, base, efficiency, per_gpu, "the throughput")
    rate = per_gpu * gpu_count
    pace = Pace(tokens_per_second=rate, method="throughput_given", regimes=(), sigma_ln=0.0, source="request")
    return WorkFacts(
        hours=exact(tokens / rate / _SECONDS_PER_HOUR),
        hours_divisor=_ONE,
        basis=None,
        efficiency_percent=efficiency,
        scaling_is_explicit=scaling is not UNSET,
        network=network,
        measured=measured,
        overhead_percent=_overhead(record, work.overhead_percent),
        trained_tokens=tokens,
        performance=performance_of_pace(pace, gpu_count, tokens, float(efficiency)),
    )


def _against(
    record: Record,
    scaling: MeasuredScaling | CommunicationScaling,
    base: int,
    efficiency: Decimal,
    rate: float,
    measured: str,
) -> tuple[Decimal, float]:
    """The efficiency against the count of the measurement instead of that of the law, for the rate already holds what
    is lost there; where fewer GPUs lose less, the rate is what is better and the efficiency stays 100 %."""
    at_base, _, _ = _efficiency(Record(), scaling, base)
    ratio = efficiency / at_base
    told = f"against {base} GPUs, where {measured} was measured"
    record.say("scaling.efficiency_percent", float(ratio * _HUNDRED), "derived", told)
    if ratio > 1:
        return _HUNDRED, rate * float(ratio)
    return exact(float(ratio * _HUNDRED)), rate


def _overhead(record: Record, given: float | UnsetType) -> Decimal:
    """The residual between a step and a bill, with its spread where nobody said it."""
    if given is UNSET:
        record.triangular("overhead", 0.25, 1.75, "2.5 to 17.5 % where nobody measured it; assumed")
    return exact(record.pick("work.overhead_percent", given, DEFAULT_OVERHEAD_PERCENT, _STEP_TO_BILL))


# ------------------------------------------------------------------------------------------- a transformer


def _transformer(
    record: Record, request: EstimateRequest, work: TransformerWork, gpu_count: int, gpus_per_node: int
) -> WorkFacts:
    subject = subject_of(record, work)
    site = Site(chip_of(record, request.cluster, work.precision), gpu_count, gpus_per_node)
    scaling = request.scaling
    measured = scaling if isinstance(scaling, MeasuredScaling) else None
    pace = pace_of(record, work, subject, site, measured)
    _advise(record, work, subject, pace, site)
    pace, efficiency, explicit, network = _scaled(record, work, subject, site, scaling, pace)
    billed = work.mfu_kind == "billed"
    overhead = _NOTHING
    if not billed:
        overhead = _overhead(record, work.overhead_percent)
    elif work.overhead_percent is not UNSET:
        record.note(advice.billed_mfu_with("overhead"))
        overhead = exact(work.overhead_percent)
    record.lognormal("throughput", pace.sigma_ln, pace.source)
    performance = performance_of_transformer(record, work, subject, site, pace, float(efficiency), billed)
    _advise_on_utilisation(record, work, performance)
    step = pace.modelled
    hours = exact(subject.trained_tokens / pace.tokens_per_second / _SECONDS_PER_HOUR)
    predicted = pace.method in ("layout_given", "layout_searched", "one_point")
    return WorkFacts(
        hours=hours,
        hours_divisor=_ONE,
        basis=None,
        efficiency_percent=efficiency,
        scaling_is_explicit=explicit,
        network=network,
        overhead_percent=overhead,
        billed=billed,
        predicted=pace.method not in ("mfu_given", "hfu_given"),
        waiting_percent=waiting_percent(step) if predicted and step is not None else None,
        trained_tokens=subject.trained_tokens,
        performance=performance,
        memory=_memory(record, work, subject, site, step),
        checkpoint_bytes=subject.checkpoint_bytes or None,
        step_hours=None if step is None else step.step.total_seconds / _SECONDS_PER_HOUR,
        chip=site.chip,
    )


def _scaled(
    record: Record,
    work: TransformerWork,
    subject: Subject,
    site: Site,
    scaling: Scaling | UnsetType,
    pace: Pace,
) -> tuple[Pace, Decimal, bool, Network | None]:
    """The pace, and the efficiency beside it: none, for a utilisation holds communication, unless one is asked for. A
    utilisation of a profiling run at another count is only less what is lost beyond that."""
    given = pace.method in ("mfu_given", "hfu_given")
    base = scaling.gpu_count if isinstance(scaling, CommunicationScaling) else UNSET
    if given and isinstance(scaling, CommunicationScaling) and base is not UNSET and base != site.gpu_count:
        record.note(advice.mfu_of_the_profile(base, site.gpu_count))
        here = _by_communication(record, scaling, site.gpu_count)
        efficiency, rate = _against(record, scaling, base, here, pace.tokens_per_second, "the utilisation")
        return structs.replace(pace, tokens_per_second=rate), efficiency, True, None
    return pace, *_of_a_pace(record, work, subject, site, scaling, pace, given)


def _of_a_pace(
    record: Record,
    work: TransformerWork,
    subject: Subject,
    site: Site,
    scaling: Scaling | UnsetType,
    pace: Pace,
    given: bool,
) -> tuple[Decimal, bool, Network | None]:
    """The efficiency beside a utilisation of this cluster."""
    if isinstance(scaling, ModelScaling) and scaling.base_gpu_count is not UNSET:
        if not given:
            told = "It is the count at which mfu_percent or hfu_percent was measured: give one of them"
            raise BrokenRule.at("/scaling/base_gpu_count", told)
        percent = model_efficiency_percent(record, work, subject, site, scaling.base_gpu_count)
        source = f"the step model, against {scaling.base_gpu_count} GPUs"
        record.say("scaling.efficiency_percent", percent, "derived", source)
        return exact(percent), True, None
    if isinstance(scaling, ModelScaling) and given:
        told = "A given utilisation leaves the model nothing to say; give base_gpu_count, where it was measured"
        raise BrokenRule.at("/scaling", told)
    if isinstance(scaling, ModelScaling) and pace.method == "family_prior":
        raise no_step_model()
    if scaling is UNSET or isinstance(scaling, ModelScaling | MeasuredScaling):
        record.say("scaling.efficiency_percent", 100.0, "derived", _HELD)
        return _HUNDRED, False, None
    record.note(advice.mfu_with_scaling())
    efficiency, network, _ = _efficiency(record, scaling, site.gpu_count)
    return efficiency, True, network


def _advise_on_utilisation(record: Record, work: TransformerWork, performance: Performance) -> None:
    """A utilisation that nobody has reached, typed or made of a measurement."""
    typed = 0.0 if work.mfu_percent is UNSET else work.mfu_percent
    reached = max(typed, performance.step_mfu_percent or 0.0, performance.billed_mfu_percent or 0.0)
    if reached > advice.HIGH_MFU_PERCENT:
        record.note(advice.high_mfu(reached))


def _advise(record: Record, work: TransformerWork, subject: Subject, pace: Pace, site: Site) -> None:
    """Notes on the utilisation and the layout."""
    low, high = (PERCENT * factor for factor in quantile_factors(pace.sigma_ln))
    record.note(advice.throughput_source(pace.method, low, high))
    if pace.regimes:
        record.note(advice.unvalidated(pace.regimes))
    if work.mfu_percent is not UNSET:
        record.pick("work.mfu_kind", work.mfu_kind, "step", "a benchmark figure is a step MFU")
    if pace.method in ("mfu_given", "hfu_given") and work.parameters is UNSET:
        record.pick("work.attention", work.attention, "full", "as PaLM, Megatron-LM and Llama 3 count it")
    recompute = pace.modelled.layout.recompute if pace.modelled is not None else work.recompute
    if recompute == "full":
        record.note(advice.full_recompute())
    tensor = work.layout.tensor if work.layout is not UNSET else 1
    if tensor > site.gpus_per_node:
        record.note(advice.tensor_over_network(tensor, site.gpus_per_node))
    chip = site.chip
    needed = chip.needs_network(site.gpu_count, site.gpus_per_node)
    if needed and chip.network_is_slow and chip.network_gbps is not None:
        record.note(advice.slow_network(chip.network_gbps))
    if pace.modelled is not None:
        _advise_on_waiting(record, work, subject, pace.modelled, site)


def _advise_on_waiting(record: Record, work: TransformerWork, subject: Subject, modelled: Modelled, site: Site) -> None:
    """Too many accelerators for the batch or the network, and what would help."""
    waiting = waiting_percent(modelled)
    if waiting <= advice.HIGH_WAITING_PERCENT:
        return
    batch = batch_that_waits_less(work, subject, site, modelled, advice.HIGH_WAITING_PERCENT)
    count = None
    if batch is None:
        count = count_that_waits_less(work, subject, site, modelled, advice.HIGH_WAITING_PERCENT)
    now = modelled.workload.global_batch_sequences
    record.note(advice.high_waiting(waiting, now, site.gpu_count, batch, count))


def _memory(record: Record, work: TransformerWork, subject: Subject, site: Site, modelled: Modelled | None) -> Memory:
    """By the layout given or found, else with everything shared out."""
    shape = subject.shape
    if shape is None:
        return memory_by_parameters(record, subject, site)
    recompute = None if work.recompute is UNSET else work.recompute
    if work.layout is not UNSET:
        layout = layout_of(work.layout, "none" if recompute is None else recompute)
        data = data_parallel(layout, site.gpu_count)
        _check_expert(work.layout, data, None if shape.moe is None else shape.moe.experts)
        plan = plan_of(subject, layout, data, work.layout.expert)
        return memory_of_layout(record, subject, shape, site, plan)
    if modelled is not None:
        plan = plan_of(subject, modelled.layout, data_parallel(modelled.layout, site.gpu_count))
        return memory_of_search(record, subject, shape, site, plan, recompute)
    return memory_fully_sharded(record, subject, shape, site, recompute)


def _check_expert(layout: ParallelLayout, data: int, experts: int | None) -> None:
    at, expert = "/work/layout/expert", layout.expert
    if expert == 1:
        return
    if experts is None:
        raise BrokenRule.at(at, "A dense model has no experts to share out; 1 would work")
    if experts % expert:
        works = nearest_of(divisors(experts), expert)
        raise BrokenRule.at(at, f"A degree of {expert} does not divide {experts} experts; {works} would")
    ranks = data * layout.context
    if ranks % expert:
        works = nearest_of(divisors(math.gcd(experts, ranks)), expert)
        told = f"A degree of {expert} does not divide the {ranks} ranks of data and context; {works} would"
        raise BrokenRule.at(at, told)


def _sigma(ratio_of_p90_to_p10: float) -> float:
    return math.log(ratio_of_p90_to_p10) / (2 * P90_SIGMAS)
