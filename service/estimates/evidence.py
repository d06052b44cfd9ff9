"""A request to what its explanations need beyond the plan: everything looked up and predicted once more."""

from decimal import Decimal

from msgspec import UNSET, UnsetType, structs

from service.catalog.interconnects import get_interconnect
from service.estimates.bill_schemas import PASSES, Energy, MeteredEgress, OwnedPrice
from service.estimates.billing import energy_of, owned_cluster
from service.estimates.chips import Chip, chip_of, machine_of
from service.estimates.facts import measured_point
from service.estimates.memory import Site, plan_of, sharded_plan, smallest_of_all, smallest_of_layout
from service.estimates.pace import Pace, hardware_over_model, pace_of
from service.estimates.record import Record, or_usual
from service.estimates.rework_schemas import FailuresRework
from service.estimates.schemas import (
    CommunicationScaling,
    EstimateRequest,
    InterconnectScaling,
    MeasuredScaling,
    ModelScaling,
)
from service.estimates.stepwise import Modelled as ModelledPace
from service.estimates.stepwise import adapter_gain, layout_of, precision_gain
from service.estimates.subject import Subject, subject_of
from service.estimates.work import facts_of_work
from service.estimates.work_schemas import ThroughputWork, TransformerWork
from service.estimator.charges import Tier
from service.estimator.detailed import DetailedRun
from service.estimator.evidence import (
    Against,
    Band,
    Bought,
    Communication,
    Crossing,
    Evidence,
    Fitted,
    Modelled,
    Rates,
    Throughput,
    Trained,
)
from service.estimator.fewest import Fewest
from service.estimator.inputs import DEFAULT_IDEAL_HOURS, GpuHoursWork
from service.estimator.memory import MemoryPlan
from service.estimator.parallelism import data_parallel
from service.estimator.scaling import fitted, predicted
from service.estimator.shapes import ModelShape
from service.money import exact, exact_arithmetic
from service.units import PERCENT

_NOTHING = Decimal(0)
_GB = 1e9
_EFFICIENCY = "scaling.efficiency_percent"
_KWH = "price.kwh_per_gpu_hour"


def evidence_of(request: EstimateRequest, run: DetailedRun) -> Evidence:
    """All that applies to a request, which its run was made of."""
    with exact_arithmetic():
        count, per_node = int(run.plan.gpu_count), int(run.plan.gpus_per_node)
        found = _of_scaling(request, run, count)
        work = request.work
        if isinstance(work, TransformerWork):
            found = _of_transformer(found, request, work, run, Site(_chip(request, work), count, per_node))
        elif isinstance(work, ThroughputWork):
            found = _of_throughput(found, work, run, count)
        else:
            found = _of_hours(found, work)
        return structs.replace(
            found, **_of_failures(request, run), crossing=_crossing(request), bought=_bought(request, run)
        )


# ------------------------------------------------------------------------------------------- work


def _of_hours(found: Evidence, work: GpuHoursWork | UnsetType) -> Evidence:
    hours = DEFAULT_IDEAL_HOURS if work is UNSET else work.hours
    basis = "per_gpu" if work is UNSET or work.basis is UNSET else work.basis
    return structs.replace(found, hours=hours, hours_basis=basis)


def _of_throughput(found: Evidence, work: ThroughputWork, run: DetailedRun, count: int) -> Evidence:
    base = count if work.measured_gpu_count is UNSET else work.measured_gpu_count
    throughput = Throughput(tokens_per_second=work.tokens_per_second, per=work.per, gpu_count=base)
    against = _against(run)
    if against is not None:
        throughput = structs.replace(throughput, gain=against.gain)
    return structs.replace(found, tokens=work.tokens, epochs=work.epochs, throughput=throughput, against=against)


def _against(run: DetailedRun) -> Against | None:
    """The efficiency at the count of the run and at that of the measurement, where it was told twice."""
    told = [said.value for said in run.assumptions if said.field == _EFFICIENCY]
    if len(told) < 2:
        return None
    here, ratio = (float(value) for value in told[:2] if isinstance(value, int | float))
    return Against(here_percent=here, base_percent=PERCENT * here / ratio)


def _chip(request: EstimateRequest, work: TransformerWork) -> Chip:
    return chip_of(Record(), request.cluster, work.precision)


def _of_transformer(
    found: Evidence, request: EstimateRequest, work: TransformerWork, run: DetailedRun, site: Site
) -> Evidence:
    record = Record()
    subject = subject_of(record, work)
    said = {assumption.field: assumption.value for assumption in record.assumptions}
    measured = request.scaling if isinstance(request.scaling, MeasuredScaling) else None
    pace = pace_of(record, work, subject, site, measured)
    tokens = said["work.tokens"]
    assert isinstance(tokens, int | float)
    return structs.replace(
        found,
        tokens=float(tokens),
        epochs=subject.trained_tokens / tokens,
        trained=_trained(work, subject, pace, run, site),
        peak_flops_per_second=site.chip.peak_flops_per_second,
        mfu_percent=None if work.mfu_percent is UNSET else work.mfu_percent,
        hfu_percent=None if work.hfu_percent is UNSET else work.hfu_percent,
        usual=pace.usual,
        modelled=None if pace.modelled is None else _modelled(work, subject, site, pace, pace.modelled),
        rates=_rates(request, work, subject, site),
        throughput=_one_measurement(work, subject, site, measured),
        against=_against(run),
        fitted=_with_steps(found.fitted, work, subject, measured),
        step_hours=None if pace.modelled is None else pace.modelled.step.total_seconds / 3600,
    )


def _trained(work: TransformerWork, subject: Subject, pace: Pace, run: DetailedRun, site: Site) -> Trained:
    recompute = work.recompute if pace.modelled is None else pace.modelled.layout.recompute
    plan, smallest = None, None
    if run.memory is not None and subject.shape is not None:
        plan, smallest = _memory_plans(work, subject, subject.shape, pace, site)
    return Trained(
        shape=subject.shape,
        sequence_length=subject.sequence_length,
        training=subject.training,
        parameters=subject.parameters,
        active_parameters=subject.active_parameters,
        lora_parameters=subject.lora_parameters,
        active_lora_parameters=subject.active_lora_parameters,
        numbers=subject.numbers,
        flops_per_token_all_attention=subject.flops_per_token("full"),
        hardware_over_model=hardware_over_model(work, subject, pace.modelled),
        recompute=None if recompute is UNSET else recompute,
        memory_plan=plan,
        smallest=smallest,
    )


def _memory_plans(
    work: TransformerWork, subject: Subject, shape: ModelShape, pace: Pace, site: Site
) -> tuple[MemoryPlan, Fewest | None]:
    """The plan that the answer's memory was counted by, and that of the fewest accelerators."""
    recompute = None if work.recompute is UNSET else work.recompute
    if work.layout is not UNSET:
        layout = layout_of(work.layout, "none" if recompute is None else recompute)
        given = plan_of(subject, layout, data_parallel(layout, site.gpu_count), work.layout.expert)
        return given, smallest_of_layout(shape, given, site)
    smallest = smallest_of_all(subject, shape, site, recompute)
    if pace.modelled is not None:
        layout = pace.modelled.layout
        return plan_of(subject, layout, data_parallel(layout, site.gpu_count)), smallest
    return sharded_plan(subject, shape, site, recompute), smallest


def _modelled(work: TransformerWork, subject: Subject, site: Site, pace: Pace, step: ModelledPace) -> Modelled | None:
    machine = machine_of(site.chip, site.gpus_per_node)
    if machine is None:
        return None
    all_weights = structs.replace(subject, training="full")
    fewer = all_weights.flops_per_token("full") / subject.flops_per_token("full")
    return Modelled(
        workload=step.workload,
        machine=machine,
        layout=step.layout,
        step=step.step,
        precision_factor=precision_gain(site.chip, work.precision),
        adapter_factor=adapter_gain(subject) * fewer,
        searched=pace.method == "layout_searched",
    )


def _rates(request: EstimateRequest, work: TransformerWork, subject: Subject, site: Site) -> Rates | None:
    """What the step model says of two counts, where one of them was measured."""
    scaling = request.scaling
    if isinstance(scaling, ModelScaling) and scaling.base_gpu_count is not UNSET:
        return _at_both(work, subject, site, scaling.base_gpu_count, work.global_batch_sequences, None)
    if not isinstance(scaling, MeasuredScaling) or len(scaling.points) != 1:
        return None
    point = measured_point(0, scaling.points[0], scaling)
    if point.gpu_count == site.gpu_count:
        return None
    batch = work.global_batch_sequences
    if batch is not UNSET and scaling.chosen_law == "log2":
        batch = max(1, round(batch * point.gpu_count / site.gpu_count))
    measured = point.tokens_per_second * _tokens_per_step(work, subject, scaling)
    return _at_both(work, subject, site, point.gpu_count, batch, measured)


def _at_both(
    work: TransformerWork,
    subject: Subject,
    site: Site,
    base: int,
    base_batch: int | UnsetType,
    measured: float | None,
) -> Rates | None:
    unsaid = structs.replace(work, mfu_percent=UNSET, mfu_kind=UNSET, hfu_percent=UNSET)
    here = pace_of(Record(), unsaid, subject, site, None).modelled
    there_work = structs.replace(unsaid, global_batch_sequences=base_batch)
    there = pace_of(Record(), there_work, subject, structs.replace(site, gpu_count=base), None).modelled
    if here is None or there is None:
        return None
    return Rates(here=here.tokens_per_second, base=there.tokens_per_second, base_gpu_count=base, measured=measured)


def _one_measurement(
    work: TransformerWork, subject: Subject, site: Site, measured: MeasuredScaling | None
) -> Throughput | None:
    """One point at the count of the run says it all."""
    if measured is None or len(measured.points) != 1 or measured.points[0].gpu_count != site.gpu_count:
        return None
    rate = measured_point(0, measured.points[0], measured).tokens_per_second
    rate *= _tokens_per_step(work, subject, measured)
    return Throughput(tokens_per_second=rate, per="cluster", gpu_count=site.gpu_count)


def _tokens_per_step(work: TransformerWork, subject: Subject, measured: MeasuredScaling) -> float:
    """What a point is multiplied by: the tokens of a step, where times of a step were given."""
    if measured.points[0].step_seconds is UNSET or work.global_batch_sequences is UNSET:
        return 1.0
    return float(work.global_batch_sequences * subject.sequence_length)


def _with_steps(
    found: Fitted | None, work: TransformerWork, subject: Subject, measured: MeasuredScaling | None
) -> Fitted | None:
    if found is None or measured is None:
        return found
    return structs.replace(found, tokens_per_step=_tokens_per_step(work, subject, measured))


# ------------------------------------------------------------------------------------------- scaling, failures, money


def _of_scaling(request: EstimateRequest, run: DetailedRun, count: int) -> Evidence:
    scaling = request.scaling
    if isinstance(scaling, CommunicationScaling):
        base = count if scaling.gpu_count is UNSET else scaling.gpu_count
        return Evidence(
            communication=Communication(share_percent=scaling.share_percent, base_gpu_count=base, batch=scaling.batch)
        )
    if isinstance(scaling, InterconnectScaling):
        link = get_interconnect(scaling.preset)
        low, high = link.scaling_efficiency_low_percent, link.scaling_efficiency_high_percent
        return Evidence(band=Band(low_percent=low, high_percent=high, level=scaling.level))
    if isinstance(scaling, MeasuredScaling) and len(scaling.points) > 1:
        points = [measured_point(index, point, scaling) for index, point in enumerate(scaling.points)]
        fit = fitted(points, scaling.chosen_law)
        found = predicted(fit, count)
        half_width = float(found.high_tokens_per_second / found.tokens_per_second) - 1
        return Evidence(fitted=Fitted(fit=fit, tokens_per_step=1.0, half_width=half_width))
    return Evidence()


def _of_failures(request: EstimateRequest, run: DetailedRun) -> dict[str, float]:
    """How large a checkpoint is and how fast it is written, and the interval that was asked for."""
    rework = request.rework
    if not isinstance(rework, FailuresRework) or rework.checkpoint is UNSET:
        return {}
    asked, found = rework.checkpoint, {}
    if asked.bandwidth_gb_s is not UNSET:
        found["checkpoint_gb_per_second"] = asked.bandwidth_gb_s
        size = asked.size_gb
        if size is UNSET and run.memory is not None and run.memory.checkpoint_bytes is not None:
            size = run.memory.checkpoint_bytes / _GB
        if size is not UNSET:
            found["checkpoint_size_gb"] = size
    if asked.interval_minutes is not UNSET:
        found["checkpoint_interval_minutes"] = asked.interval_minutes
    return found


def _crossing(request: EstimateRequest) -> Crossing | None:
    section = request.egress
    if not isinstance(section, MeteredEgress):
        return None
    assert section.tiers is not UNSET  # tables have been read by now
    return Crossing(
        dataset_gb=exact(section.dataset_gb),
        passes=exact(or_usual(section.passes, PASSES)),
        exported_gb=exact(section.exported_gb),
        used_gb=exact(section.used_gb),
        tiers=tuple(
            Tier(None if tier.up_to_gb is None else exact(tier.up_to_gb), tier.price_per_gb) for tier in section.tiers
        ),
    )


def _bought(request: EstimateRequest, run: DetailedRun) -> Bought | None:
    price = request.price
    if not isinstance(price, OwnedPrice):
        return None
    count, per_node = int(run.plan.gpu_count), int(run.plan.gpus_per_node)
    asked = request if request.energy is not UNSET else structs.replace(request, energy=Energy())
    power = energy_of(Record(), asked, facts_of_work(Record(), request, count, per_node))
    kwh = next(said.value for said in run.assumptions if said.field == _KWH)
    assert isinstance(kwh, int | float)
    return Bought(
        cluster=owned_cluster(
            price,
            int(run.plan.gpu_count + run.plan.spare_gpus) if price.gpu_count is UNSET else price.gpu_count,
        ),
        energy_price_per_kwh=price.energy_amount_per_kwh,
        kwh_per_gpu_hour=exact(float(kwh)),
        power=power,
    )
