"""A request beyond the classic fields to the facts of a run: work, failures, price, storage, and what is uncertain."""

import math
from decimal import Decimal

from msgspec import UNSET

from service.errors import BrokenRule
from service.estimates.billing import Pricing, egress_of, energy_of, idle_of, on_demand_rate, pricing_of, storage_of
from service.estimates.facts import cluster_facts, number_of, pick
from service.estimates.failures import FoundFailures, Job, failures_of
from service.estimates.record import Record
from service.estimates.rework_schemas import FailuresRework
from service.estimates.schemas import Cluster, EstimateRequest
from service.estimates.spreads import simulation_of
from service.estimates.work import WorkFacts, facts_of_work
from service.estimates.work_schemas import TransformerWork
from service.estimator import advice, inputs
from service.estimator.detailed import DetailedRun
from service.estimator.notes import notes_on
from service.estimator.plan import Plan
from service.estimator.results import Note
from service.money import exact, exact_arithmetic, number, unit_price
from service.units import PERCENT

_NOTHING = Decimal(0)


def detailed_facts(request: EstimateRequest) -> DetailedRun:
    """Every name looked up, every default filled in, everything predicted; BrokenRule names the field where something
    cannot be."""
    with exact_arithmetic():
        return _facts(request)


def _facts(request: EstimateRequest) -> DetailedRun:
    record = Record()
    gpu_count, gpus_per_node = _counts(record, request)
    work = facts_of_work(record, request, gpu_count, gpus_per_node)
    buffer_percent, found = _rework(record, request, work, gpu_count, gpus_per_node)
    pricing = pricing_of(record, request, work, gpu_count, gpus_per_node)
    fallback_rate = None
    if found is not None and found.failures.on_spot:
        fallback_rate = _on_spot(request, pricing, found)
    idle = idle_of(record, request, work)
    interval = None if found is None else found.failures.interval_hours
    stored = storage_of(record, request, work, interval, pricing.currency)
    egress = egress_of(record, request, pricing.currency)
    price = request.price
    plan = Plan(
        gpu_count=Decimal(gpu_count),
        gpus_per_node=Decimal(gpus_per_node),
        hours=work.hours,
        hours_divisor=work.hours_divisor,
        efficiency_percent=work.efficiency_percent,
        overhead_percent=work.overhead_percent,
        buffer_percent=buffer_percent,
        failures=None if found is None else found.failures,
        setup_hours=exact(idle.setup_hours),
        spare_gpus=Decimal(idle.spare_nodes * gpus_per_node),
        rate=pricing.rate,
        fallback_rate=fallback_rate,
        commitment=pricing.commitment,
        kept=stored.kept,
        kept_checkpoints=stored.checkpoints,
        fixed=(*stored.fixed, *egress),
        discount_percent=_NOTHING
        if price is UNSET or price.discount_percent is UNSET
        else exact(price.discount_percent),
        credits=_NOTHING if price is UNSET or price.credits is UNSET else price.credits,
        tax_percent=_NOTHING if price is UNSET or price.tax_percent is UNSET else exact(price.tax_percent),
    )
    simulation = simulation_of(record, request, work, plan)
    classic = inputs.Run(
        gpu_count,
        gpus_per_node,
        work.hours,
        work.basis or "per_gpu",
        work.efficiency_percent,
        work.network,
        work.measured,
        buffer_percent,
        pricing.amount,
        pricing.priced_per,
        pricing.currency,
        _NOTHING,
        _NOTHING,
        request.start_at,
        request.budget,
        tuple(record.assumptions),
    )
    known: tuple[Note, ...] = notes_on(
        classic,
        hours_given=work.basis is not None,
        rework_typed=found is None and not work.billed,
        efficiency_given=request.scaling is UNSET or isinstance(request.scaling, inputs.FixedScaling),
    )
    if pricing.priced_per == "node":
        per_gpu = str(unit_price(pricing.rate.value, pricing.currency))
        record.say("price.per_gpu_hour", per_gpu, "derived", "price.amount / cluster.gpus_per_node")
    if work.basis == "total":
        record.say("work.hours_per_gpu", number(work.hours / gpu_count), "derived", "work.hours / cluster.gpu_count")
    return DetailedRun(
        plan=plan,
        currency=pricing.currency,
        start_at=request.start_at,
        budget=request.budget,
        trained_tokens=work.trained_tokens,
        scaling_is_explicit=work.scaling_is_explicit,
        waiting_percent=work.waiting_percent,
        performance=work.performance,
        billed_utilisation_given=work.billed,
        memory=work.memory,
        failures=None if found is None else found.facts,
        simulation=simulation,
        energy=energy_of(record, request, work),
        owned=pricing.owned,
        alternatives=pricing.alternatives,
        assumptions=tuple(record.assumptions),
        notes=(*known, *(note for note in record.notes if note not in known)),
    )


def _counts(record: Record, request: EstimateRequest) -> tuple[int, int]:
    """Accelerators, and those of a node; a transformer looks up its accelerator itself."""
    cluster = Cluster() if request.cluster is UNSET else request.cluster
    if isinstance(request.work, TransformerWork):
        at = record.assumptions
        source = "classic calculator's default"
        return (
            record.pick("cluster.gpu_count", cluster.gpu_count, inputs.DEFAULT_GPU_COUNT, source),
            pick(at, "cluster.gpus_per_node", cluster.gpus_per_node, inputs.DEFAULT_GPUS_PER_NODE),
        )
    if cluster.gpu is not None and cluster.custom_gpu is not UNSET:
        raise BrokenRule.at("/cluster/custom_gpu", "Give either gpu or custom_gpu, not both")
    counts = cluster_facts(record.assumptions, cluster)
    if cluster.custom_gpu is not UNSET:
        record.say("cluster.custom_gpu.name", cluster.custom_gpu.name, "given", "request")
    return counts


def _on_spot(request: EstimateRequest, pricing: Pricing, found: FoundFailures) -> Decimal | None:
    """What a GPU-hour that falls back costs more, None if none does; BrokenRule where the capacity is no spot."""
    bought = request.price.purchase if isinstance(request.price, inputs.HourlyPrice) else UNSET
    if pricing.commitment is not None or pricing.owned is not None or bought in ("on_demand", "reserved"):
        told = "Capacity that is on demand, reserved, committed or owned is not interrupted as spot is"
        raise BrokenRule.at("/rework/spot", told)
    if not found.failures.fallback_percent:
        return None
    on_demand = on_demand_rate(request, pricing)
    if on_demand is None:
        told = "What falls back runs on demand: give the price of a GPU-hour there"
        raise BrokenRule.at("/rework/spot/on_demand_amount", told)
    extra: Decimal = on_demand - pricing.rate.value
    return extra


def _rework(
    record: Record, request: EstimateRequest, work: WorkFacts, gpu_count: int, gpus_per_node: int
) -> tuple[Decimal, FoundFailures | None]:
    """A typed percent, or failures by cause. A billed utilisation holds rework already: none unless it is asked for."""
    rework = request.rework
    if work.billed and rework is UNSET:
        record.say("rework.rework_percent", 0.0, "derived", "the billed utilisation holds it")
        return _NOTHING, None
    if work.billed:
        record.note(advice.billed_mfu_with("rework"))
    if not isinstance(rework, FailuresRework):
        given = UNSET if rework is UNSET else rework.rework_percent
        return number_of(record.assumptions, "rework.rework_percent", given, inputs.DEFAULT_REWORK_PERCENT), None
    productive = work.hours * PERCENT / (work.efficiency_percent * work.hours_divisor)
    job = Job(
        node_count=math.ceil(gpu_count / gpus_per_node),
        work_hours=float(productive * (PERCENT + work.overhead_percent) / PERCENT),
        step_hours=work.step_hours,
        checkpoint_bytes=work.checkpoint_bytes,
    )
    price = request.price
    asked = price.alternatives if isinstance(price, inputs.HourlyPrice) else UNSET
    return _NOTHING, failures_of(record, rework, job, spot_is_compared=asked is not UNSET and asked.spot is not UNSET)
