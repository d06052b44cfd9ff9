"""Names to facts, facts to an estimate: the classic way for the classic fields, the detailed one for the others."""

import datetime
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from service.errors import BrokenRule, Fault
from service.estimates.bill_schemas import CommitmentPrice, MeteredEgress, MeteredStorage, TablePrice
from service.estimates.facts import amount_of, cluster_facts, number_of, price_facts, scaling_facts, work_facts
from service.estimates.schemas import (
    ClassicQuery,
    Cluster,
    CommunicationScaling,
    EstimateRequest,
    ModelScaling,
    Price,
)
from service.estimator import inputs, run
from service.estimator.results import Assumption, Estimate

if TYPE_CHECKING:
    from types import ModuleType

    from service.estimates.held import Tables
    from service.estimates.tables import Reading
    from service.estimator.detailed import DetailedRun
    from service.estimator.evidence import PaidRate

_NEW_SCALING = (CommunicationScaling, ModelScaling)
# Where the facts of the seven fields stand in a request, and what the classic form calls them.
_CLASSIC_NAMES = {
    "/cluster/gpu_count": "gpu_count",
    "/work/hours": "ideal_gpu_hours",
    "/price/amount": "gpu_cost_per_hour",
    "/scaling/efficiency_percent": "scaling_efficiency_percent",
    "/rework/rework_percent": "failed_run_rework_percent",
    "/storage/amount": "storage_cost",
    "/egress/amount": "egress_cost",
}


def estimate(request: EstimateRequest, at: str = "", explain: bool = False, tables: "Tables | None" = None) -> Estimate:
    """The estimate of one request, which stands at the pointer `at` of the body that it came in, with the price tables
    that are in memory; BrokenRule (or one of its kinds) names the field where it cannot be."""
    try:
        if reads_tables(request):
            return _with_tables(request, tables, explain)
        return _estimated(request, explain)
    except BrokenRule as error:
        raise _moved(error, lambda fault: Fault(fault.where, at + fault.pointer, fault.message)) from None


def _estimated(request: EstimateRequest, explain: bool) -> Estimate:
    """The classic way, or the detailed one."""
    facts = _classic_facts(request)
    if facts is not None and not explain:
        return run.estimate(facts)
    # With NumPy and the whole of the estimator, which the classic way does not need.
    from service.estimates.detailed import detailed_facts
    from service.estimator import detailed

    request = in_utc(request)
    made = detailed_facts(request)
    answer = detailed.estimate(made) if facts is None else run.estimate(facts)
    return _with_explanations(request, made, answer) if explain else answer


def _with_tables(request: EstimateRequest, tables: "Tables | None", explain: bool) -> Estimate:
    """The same with what stands in price tables; where a rate changes while the run goes on, each for its time."""
    tables_module = _tables_module()
    request = in_utc(request)
    reading: Reading = tables_module.read(request, tables, datetime.datetime.now(datetime.UTC).date())
    if reading.answered is None or not reading.answered.changes or request.start_at is None:
        return reading.told(_estimated(reading.request, explain))
    from service.estimates.detailed import detailed_facts
    from service.estimator import detailed

    made = detailed_facts(reading.request)
    split = detailed.split_by_rate(
        made, lambda plan, start, end: tables_module.at_changing_rates(reading, plan, start, end)
    )
    if split is None:
        return reading.told(_estimated(reading.request, explain))
    made, reading = split
    answer = detailed.estimate(made)
    return reading.told(_with_explanations(reading.request, made, answer, reading.paid) if explain else answer)


@cache
def _tables_module() -> "ModuleType":
    """With NumPy, which the classic way does not need; to import it again takes as long as to look up a rate."""
    from service.estimates import tables

    return tables


def reads_tables(request: EstimateRequest) -> bool:
    """Whether anything stands in a price table, or lacks its price because it should."""
    storage, egress = request.storage, request.egress
    return (
        isinstance(request.price, TablePrice)
        or (isinstance(storage, MeteredStorage) and _reads_storage(storage))
        or (isinstance(egress, MeteredEgress) and not _is_whole(egress.from_table, egress.tiers))
        or request.exchange is not UNSET
    )


def _reads_storage(storage: MeteredStorage) -> bool:
    if storage.from_table is UNSET and storage.is_filesystem_alone:
        return False
    return not _is_whole(storage.from_table, storage.price_per_gb_month)


def _is_whole(table: object, price: object) -> bool:
    return table is UNSET and price is not UNSET


def _with_explanations(
    request: EstimateRequest, made: "DetailedRun", answer: Estimate, paid: "tuple[PaidRate, ...]" = ()
) -> Estimate:
    """The same answer, and every formula that it used."""
    from service.estimates.evidence import evidence_of
    from service.estimator.explain import explained

    evidence = msgspec.structs.replace(evidence_of(request, made), paid=paid)
    return msgspec.structs.replace(answer, explanations=explained(made, evidence, answer))


def classic_estimate(query: ClassicQuery) -> Estimate:
    """The estimate of the seven fields; BrokenRule names the query parameter where it cannot be."""
    try:
        facts = _classic_facts(classic_request(query))
        assert facts is not None  # the seven fields are classic
        return run.estimate(facts)
    except BrokenRule as error:
        names = _CLASSIC_NAMES
        raise _moved(error, lambda fault: Fault("query", names[fault.pointer], fault.message)) from None


def takes_long(request: EstimateRequest) -> bool:
    """Whether this one draws samples, and should not hold up the others."""
    return request.uncertainty is not UNSET or (
        request.budget is not None and request.budget.confidence_percent is not UNSET
    )


def in_utc(request: EstimateRequest, at: str = "") -> EstimateRequest:
    """The same request with its times in UTC, as they are kept and shown."""
    price = _price(request.price, at)
    if request.start_at is None and request.budget is None and price is request.price:
        return request
    return msgspec.structs.replace(
        request, start_at=_utc(request.start_at, at + "/start_at"), budget=_budget(request.budget, at), price=price
    )


def _moved(error: BrokenRule, move: Callable[[Fault], Fault]) -> BrokenRule:
    """The error with its faults where the caller knows them."""
    error.faults = tuple(move(fault) for fault in error.faults)
    return error


def classic_request(query: ClassicQuery) -> EstimateRequest:
    """The seven query parameters as the request they stand for; what is not given stays not given."""
    absent = UNSET
    return EstimateRequest(
        cluster=absent if query.gpu_count is UNSET else Cluster(gpu_count=query.gpu_count),
        work=absent if query.ideal_gpu_hours is UNSET else inputs.GpuHoursWork(query.ideal_gpu_hours),
        scaling=absent
        if query.scaling_efficiency_percent is UNSET
        else inputs.FixedScaling(query.scaling_efficiency_percent),
        rework=absent
        if query.failed_run_rework_percent is UNSET
        else inputs.BufferRework(query.failed_run_rework_percent),
        price=absent if query.gpu_cost_per_hour is UNSET else inputs.HourlyPrice(query.gpu_cost_per_hour),
        storage=absent if query.storage_cost is UNSET else inputs.FixedStorage(query.storage_cost),
        egress=absent if query.egress_cost is UNSET else inputs.FixedEgress(query.egress_cost),
    )


def _classic_facts(request: EstimateRequest) -> inputs.Run | None:
    """Every name looked up, every default filled in, and for each a word on where it came from; None if a section
    goes beyond the classic ones."""
    cluster, work, scaling, rework = request.cluster, request.work, request.scaling, request.rework
    price, storage, egress, budget = request.price, request.storage, request.egress, request.budget
    if (
        (work is not UNSET and not isinstance(work, inputs.GpuHoursWork))
        or isinstance(scaling, _NEW_SCALING)
        or (rework is not UNSET and not isinstance(rework, inputs.BufferRework))
        or (price is not UNSET and not (isinstance(price, inputs.HourlyPrice) and _is_plain(price)))
        or (storage is not UNSET and not isinstance(storage, inputs.FixedStorage))
        or (egress is not UNSET and not isinstance(egress, inputs.FixedEgress))
        or request.idle is not UNSET
        or request.energy is not UNSET
        or request.uncertainty is not UNSET
        or (cluster is not UNSET and (cluster.custom_gpu is not UNSET or cluster.interconnect is not UNSET))
        or (budget is not None and budget.confidence_percent is not UNSET)
    ):
        return None
    noted: list[Assumption] = []
    request = in_utc(request)
    gpu_count, gpus_per_node = cluster_facts(noted, cluster)
    hours, basis = work_facts(noted, work)
    efficiency_percent, network, measured = scaling_facts(noted, scaling, gpu_count)
    rework_percent = number_of(
        noted,
        "rework.rework_percent",
        UNSET if rework is UNSET else rework.rework_percent,
        inputs.DEFAULT_REWORK_PERCENT,
    )
    amount, priced_per, currency = price_facts(noted, price)
    # In the order of its fields: naming sixteen of them takes six times as long.
    return inputs.Run(
        gpu_count,
        gpus_per_node,
        hours,
        basis,
        efficiency_percent,
        network,
        measured,
        rework_percent,
        amount,
        priced_per,
        currency,
        amount_of(noted, "storage.amount", storage, inputs.DEFAULT_STORAGE, currency),
        amount_of(noted, "egress.amount", egress, inputs.DEFAULT_EGRESS, currency),
        request.start_at,
        request.budget,
        tuple(noted),
    )


def _is_plain(price: inputs.HourlyPrice) -> bool:
    """Whether it is an amount and nothing more."""
    return (
        price.discount_percent is UNSET
        and price.credits is UNSET
        and price.tax_percent is UNSET
        and price.alternatives is UNSET
        and price.purchase is UNSET
    )


def _budget(budget: inputs.Budget | None, at: str) -> inputs.Budget | None:
    if budget is None or budget.deadline is None:
        return budget
    return msgspec.structs.replace(budget, deadline=_utc(budget.deadline, at + "/budget/deadline"))


def _price(price: Price | UnsetType, at: str) -> Price | UnsetType:
    if not isinstance(price, CommitmentPrice) or price.term_start is UNSET:
        return price
    term_start = _utc(price.term_start, at + "/price/term_start")
    return msgspec.structs.replace(price, term_start=UNSET if term_start is None else term_start)


def _utc(instant: datetime.datetime | None, pointer: str) -> datetime.datetime | None:
    if instant is None:
        return None
    try:
        return instant.astimezone(datetime.UTC)
    except OverflowError:
        raise BrokenRule.at(pointer, "In UTC this instant is outside the years 1 to 9999") from None
