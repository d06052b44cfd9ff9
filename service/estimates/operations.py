"""Names to facts, facts to an estimate."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from service.catalog.gpus import get_rentable_gpu
from service.catalog.interconnects import get_interconnect
from service.errors import BrokenRule, Fault
from service.estimates.schemas import (
    ClassicQuery,
    Cluster,
    EstimateRequest,
    InterconnectScaling,
    MeasuredScaling,
    Scaling,
    ScalingPoint,
)
from service.estimator import inputs, run
from service.estimator.results import Assumption, Estimate
from service.money import Money, exact, written
from service.units import PERCENT

if TYPE_CHECKING:
    from service.estimator.scaling import MeasuredPoint

_T = TypeVar("_T", str, int, float)

_CLASSIC = "classic calculator's default"
_UNSAID_CLUSTER = Cluster()
_LEAST_EFFICIENCY_PERCENT = 1
_FIT_SOURCES = {
    "amdahl": "n / X = c0 + c1 n, least squares of relative errors (Amdahl 1967)",
    "log2": "n / X = c0 + c1 log2 n, least squares of relative errors",
}
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
_BASIS_DEFAULT = Assumption("work.basis", "per_gpu", "default", _CLASSIC)
_PER_DEFAULT = Assumption("price.per", "gpu", "default", _CLASSIC)
_PRICE_DEFAULTS = (
    Assumption("price.amount", str(inputs.DEFAULT_PRICE_PER_GPU_HOUR), "default", _CLASSIC),
    _PER_DEFAULT,
    Assumption("price.currency", inputs.DEFAULT_CURRENCY, "default", _CLASSIC),
)


def estimate(request: EstimateRequest, at: str = "") -> Estimate:
    """The estimate of one request, which stands at the pointer `at` of the body that it came in; BrokenRule
    (or one of its kinds) names the field where it cannot be."""
    try:
        return run.estimate(_facts(request))
    except BrokenRule as error:
        raise _moved(error, lambda fault: Fault(fault.where, at + fault.pointer, fault.message)) from None


def classic_estimate(query: ClassicQuery) -> Estimate:
    """The estimate of the seven fields; BrokenRule names the query parameter where it cannot be."""
    try:
        return run.estimate(_facts(classic_request(query)))
    except BrokenRule as error:
        names = _CLASSIC_NAMES
        raise _moved(error, lambda fault: Fault("query", names[fault.pointer], fault.message)) from None


def in_utc(request: EstimateRequest, at: str = "") -> EstimateRequest:
    """The same request with its times in UTC, as they are kept and shown."""
    if request.start_at is None and request.budget is None:
        return request
    return msgspec.structs.replace(
        request, start_at=_utc(request.start_at, at + "/start_at"), budget=_budget(request.budget, at)
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
        work=absent if query.ideal_gpu_hours is UNSET else inputs.GpuHoursWork("gpu_hours", query.ideal_gpu_hours),
        scaling=absent
        if query.scaling_efficiency_percent is UNSET
        else inputs.FixedScaling(query.scaling_efficiency_percent),
        rework=absent
        if query.failed_run_rework_percent is UNSET
        else inputs.BufferRework("buffer", query.failed_run_rework_percent),
        price=absent if query.gpu_cost_per_hour is UNSET else inputs.HourlyPrice("hourly", query.gpu_cost_per_hour),
        storage=absent if query.storage_cost is UNSET else inputs.FixedStorage("fixed", query.storage_cost),
        egress=absent if query.egress_cost is UNSET else inputs.FixedEgress("fixed", query.egress_cost),
    )


def _facts(request: EstimateRequest) -> inputs.Run:
    """Every name looked up, every default filled in, and for each a word on where it came from."""
    noted: list[Assumption] = []
    request = in_utc(request)
    gpu_count, gpus_per_node = _cluster(noted, request.cluster)
    hours, basis = _work(noted, request.work)
    efficiency_percent, network, measured = _scaling(noted, request.scaling, gpu_count)
    rework_percent = _number(
        noted,
        "rework.rework_percent",
        UNSET if request.rework is UNSET else request.rework.rework_percent,
        inputs.DEFAULT_REWORK_PERCENT,
    )
    price, priced_per, currency = _price(noted, request.price)
    storage = _amount(noted, "storage.amount", request.storage, inputs.DEFAULT_STORAGE, currency)
    egress = _amount(noted, "egress.amount", request.egress, inputs.DEFAULT_EGRESS, currency)
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
        price,
        priced_per,
        currency,
        storage,
        egress,
        request.start_at,
        request.budget,
        tuple(noted),
    )


def _pick(noted: list[Assumption], field: str, given: _T | UnsetType, default: _T) -> _T:
    """What was given, else the default; either way it is noted."""
    if given is UNSET:
        noted.append(Assumption(field, default, "default", _CLASSIC))
        return default
    noted.append(Assumption(field, given, "given", "request"))
    return given


def _number(noted: list[Assumption], field: str, given: float | UnsetType, default: float) -> Decimal:
    """The same of a number, as the exact decimal that it is taken for."""
    if given is UNSET:
        return exact(_pick(noted, field, UNSET, default))
    taken = exact(given)
    noted.append(Assumption(field, float(taken), "given", "request"))
    return taken


def _cluster(noted: list[Assumption], cluster: Cluster | UnsetType) -> tuple[int, int]:
    if cluster is UNSET:
        cluster = _UNSAID_CLUSTER
    if cluster.gpu is not None:
        try:
            gpu = get_rentable_gpu(cluster.gpu, cluster.allow_announced)
        except BrokenRule as error:
            raise error.placed("/cluster/gpu") from None
        noted.append(Assumption("cluster.gpu", gpu.id, "catalogue", gpu.source))
    return (
        _pick(noted, "cluster.gpu_count", cluster.gpu_count, inputs.DEFAULT_GPU_COUNT),
        _pick(noted, "cluster.gpus_per_node", cluster.gpus_per_node, inputs.DEFAULT_GPUS_PER_NODE),
    )


def _work(noted: list[Assumption], work: inputs.GpuHoursWork | UnsetType) -> tuple[Decimal, inputs.Basis]:
    hours = _number(noted, "work.hours", UNSET if work is UNSET else work.hours, inputs.DEFAULT_IDEAL_HOURS)
    basis = UNSET if work is UNSET else work.basis
    if basis is UNSET:
        noted.append(_BASIS_DEFAULT)
        return hours, "per_gpu"
    noted.append(Assumption("work.basis", basis, "given", "request"))
    return hours, basis


def _scaling(
    noted: list[Assumption], scaling: Scaling | UnsetType, gpu_count: int
) -> tuple[Decimal, inputs.Network | None, inputs.MeasuredEfficiency | None]:
    if isinstance(scaling, InterconnectScaling):
        return *_from_band(noted, scaling), None
    if isinstance(scaling, MeasuredScaling):
        percent, measured = _from_points(noted, scaling, gpu_count)
        return percent, None, measured
    given = UNSET if scaling is UNSET else scaling.efficiency_percent
    return _number(noted, "scaling.efficiency_percent", given, inputs.DEFAULT_EFFICIENCY_PERCENT), None, None


def _from_points(
    noted: list[Assumption], scaling: MeasuredScaling, gpu_count: int
) -> tuple[Decimal, inputs.MeasuredEfficiency]:
    from service.estimator import scaling as laws  # with NumPy, which nothing else on this path needs

    fit = laws.fitted([_throughput(index, point, scaling) for index, point in enumerate(scaling.points)], scaling.law)
    found = laws.predicted(fit, gpu_count)
    base = float(laws.tokens_per_second(fit, fit.smallest_gpu_count)) / fit.smallest_gpu_count
    percent, low, high = (
        PERCENT * rate / gpu_count / base
        for rate in (found.tokens_per_second, found.low_tokens_per_second, found.high_tokens_per_second)
    )
    if percent < _LEAST_EFFICIENCY_PERCENT:
        raise BrokenRule.at("/scaling/points", "At this GPU count the fitted efficiency is below 1 %")
    taken = exact(percent)
    noted.append(Assumption("scaling.law", scaling.law, "given", "request"))
    noted.append(Assumption("scaling.efficiency_percent", float(taken), "derived", _FIT_SOURCES[scaling.law]))
    return taken, inputs.MeasuredEfficiency(
        fit.smallest_gpu_count,
        fit.largest_gpu_count,
        low,
        high,
        found.extrapolation,
        found.beyond_validity,
        fit.excluded_gpu_count,
    )


def _throughput(index: int, point: ScalingPoint, scaling: MeasuredScaling) -> "MeasuredPoint":
    """A point as throughput; at one global batch that is any constant over the time of a step."""
    from service.estimator.scaling import MeasuredPoint

    at = f"/scaling/points/{index}"
    if (point.tokens_per_second is UNSET) == (point.step_seconds is UNSET):
        raise BrokenRule.at(at, "Give either tokens_per_second or step_seconds")
    same_unit = scaling.points[0].step_seconds is UNSET
    if (point.step_seconds is UNSET) != same_unit:
        raise BrokenRule.at(at, "Give tokens_per_second for every point, or step_seconds for every point")
    if point.tokens_per_second is not UNSET:
        return MeasuredPoint(point.gpu_count, point.tokens_per_second)
    if scaling.law == "log2":
        raise BrokenRule.at(f"{at}/step_seconds", "Where the batch grows with the count, give tokens_per_second")
    assert point.step_seconds is not UNSET  # one of the two is given
    return MeasuredPoint(point.gpu_count, 1 / point.step_seconds)


def _from_band(noted: list[Assumption], scaling: InterconnectScaling) -> tuple[Decimal, inputs.Network]:
    try:
        link = get_interconnect(scaling.preset)
    except BrokenRule as error:
        raise error.placed("/scaling/preset") from None
    low, high = link.scaling_efficiency_low_percent, link.scaling_efficiency_high_percent
    percent = {"low": low, "typical": (low + high) / 2, "high": high}[scaling.level]
    noted.append(Assumption("scaling.preset", link.id, "given", "request"))
    noted.append(
        Assumption("scaling.efficiency_percent", percent, "catalogue", f"{scaling.level} of the band: {link.source}")
    )
    network = inputs.Network(link.id, link.name, link.kind, link.gbps_per_node, link.scaling_efficiency_basis)
    return exact(percent), network


def _price(noted: list[Assumption], price: inputs.HourlyPrice | UnsetType) -> tuple[Money, inputs.PricedPer, str]:
    if price is UNSET:
        noted.extend(_PRICE_DEFAULTS)
        return inputs.DEFAULT_PRICE_PER_GPU_HOUR, "gpu", inputs.DEFAULT_CURRENCY
    currency = inputs.DEFAULT_CURRENCY if price.currency is UNSET else price.currency
    per: inputs.PricedPer = "gpu" if price.per is UNSET else price.per
    noted.append(Assumption("price.amount", str(written(price.amount, currency)), "given", "request"))
    noted.append(_PER_DEFAULT if price.per is UNSET else Assumption("price.per", per, "given", "request"))
    _pick(noted, "price.currency", price.currency, currency)
    return price.amount, per, currency


def _amount(
    noted: list[Assumption],
    field: str,
    section: inputs.FixedStorage | inputs.FixedEgress | UnsetType,
    default: Money,
    currency: str,
) -> Decimal:
    amount = written(default if section is UNSET else section.amount, currency)
    value = str(amount)
    _pick(noted, field, UNSET if section is UNSET else value, value)
    return amount


def _budget(budget: inputs.Budget | None, at: str) -> inputs.Budget | None:
    if budget is None or budget.deadline is None:
        return budget
    return msgspec.structs.replace(budget, deadline=_utc(budget.deadline, at + "/budget/deadline"))


def _utc(instant: datetime.datetime | None, pointer: str) -> datetime.datetime | None:
    if instant is None:
        return None
    try:
        return instant.astimezone(datetime.UTC)
    except OverflowError:
        raise BrokenRule.at(pointer, "In UTC this instant is outside the years 1 to 9999") from None
