"""Names to facts for the sections that the classic calculator has, with a word on where each came from."""

from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET, UnsetType

from service.catalog.gpus import get_rentable_gpu
from service.catalog.interconnects import get_interconnect
from service.errors import BrokenRule
from service.estimates.schemas import ClassicScaling, Cluster, InterconnectScaling, MeasuredScaling, ScalingPoint
from service.estimator import inputs
from service.estimator.results import Assumption
from service.money import Money, exact, written
from service.units import PERCENT

if TYPE_CHECKING:
    from service.estimator.scaling import MeasuredPoint

_T = TypeVar("_T", str, int, float)

CLASSIC = "classic calculator's default"
FIT_SOURCES = {
    "amdahl": "n / X = c0 + c1 n, least squares of relative errors (Amdahl 1967)",
    "log2": "n / X = c0 + c1 log2 n, least squares of relative errors",
}
_UNSAID_CLUSTER = Cluster()
_LEAST_EFFICIENCY_PERCENT = 1
_BASIS_DEFAULT = Assumption("work.basis", "per_gpu", "default", CLASSIC)
_PER_DEFAULT = Assumption("price.per", "gpu", "default", CLASSIC)
_PRICE_DEFAULTS = (
    Assumption("price.amount", str(inputs.DEFAULT_PRICE_PER_GPU_HOUR), "default", CLASSIC),
    _PER_DEFAULT,
    Assumption("price.currency", inputs.DEFAULT_CURRENCY, "default", CLASSIC),
)


def pick(noted: list[Assumption], field: str, given: _T | UnsetType, default: _T) -> _T:
    """What was given, else the default; either way it is noted."""
    if given is UNSET:
        noted.append(Assumption(field, default, "default", CLASSIC))
        return default
    noted.append(Assumption(field, given, "given", "request"))
    return given


def number_of(noted: list[Assumption], field: str, given: float | UnsetType, default: float) -> Decimal:
    """The same of a number, as the exact decimal that it is taken for."""
    if given is UNSET:
        return exact(pick(noted, field, UNSET, default))
    taken = exact(given)
    noted.append(Assumption(field, float(taken), "given", "request"))
    return taken


def cluster_facts(noted: list[Assumption], cluster: Cluster | UnsetType) -> tuple[int, int]:
    if cluster is UNSET:
        cluster = _UNSAID_CLUSTER
    if cluster.gpu is not None:
        try:
            gpu = get_rentable_gpu(cluster.gpu, cluster.allow_announced)
        except BrokenRule as error:
            raise error.placed("/cluster/gpu") from None
        noted.append(Assumption("cluster.gpu", gpu.id, "catalogue", gpu.source))
    return (
        pick(noted, "cluster.gpu_count", cluster.gpu_count, inputs.DEFAULT_GPU_COUNT),
        pick(noted, "cluster.gpus_per_node", cluster.gpus_per_node, inputs.DEFAULT_GPUS_PER_NODE),
    )


def work_facts(noted: list[Assumption], work: inputs.GpuHoursWork | UnsetType) -> tuple[Decimal, inputs.Basis]:
    hours = number_of(noted, "work.hours", UNSET if work is UNSET else work.hours, inputs.DEFAULT_IDEAL_HOURS)
    basis = UNSET if work is UNSET else work.basis
    if basis is UNSET:
        noted.append(_BASIS_DEFAULT)
        return hours, "per_gpu"
    noted.append(Assumption("work.basis", basis, "given", "request"))
    return hours, basis


def scaling_facts(
    noted: list[Assumption], scaling: ClassicScaling | UnsetType, gpu_count: int
) -> tuple[Decimal, inputs.Network | None, inputs.MeasuredEfficiency | None]:
    """The efficiency, and where it was read or fitted."""
    if isinstance(scaling, InterconnectScaling):
        return *efficiency_from_band(noted, scaling), None
    if isinstance(scaling, MeasuredScaling):
        percent, measured = efficiency_from_points(noted, scaling, gpu_count)
        return percent, None, measured
    given = UNSET if scaling is UNSET else scaling.efficiency_percent
    return number_of(noted, "scaling.efficiency_percent", given, inputs.DEFAULT_EFFICIENCY_PERCENT), None, None


def efficiency_from_points(
    noted: list[Assumption], scaling: MeasuredScaling, gpu_count: int
) -> tuple[Decimal, inputs.MeasuredEfficiency]:
    from service.estimator import scaling as laws  # with NumPy, which nothing else on this path needs

    fit = laws.fitted(
        [measured_point(index, point, scaling) for index, point in enumerate(scaling.points)], scaling.chosen_law
    )
    found = laws.predicted(fit, gpu_count)
    base = float(laws.tokens_per_second(fit, fit.smallest_gpu_count)) / fit.smallest_gpu_count
    percent, low, high = (
        PERCENT * rate / gpu_count / base
        for rate in (found.tokens_per_second, found.low_tokens_per_second, found.high_tokens_per_second)
    )
    if percent < _LEAST_EFFICIENCY_PERCENT:
        raise BrokenRule.at("/scaling/points", "At this GPU count the fitted efficiency is below 1 %")
    taken = exact(percent)
    noted.append(law_said(scaling))
    noted.append(Assumption("scaling.efficiency_percent", float(taken), "derived", FIT_SOURCES[scaling.chosen_law]))
    return taken, inputs.MeasuredEfficiency(
        fit.smallest_gpu_count,
        fit.largest_gpu_count,
        low,
        high,
        found.extrapolation,
        found.beyond_validity,
        fit.excluded_gpu_count,
    )


def law_said(scaling: MeasuredScaling) -> Assumption:
    """The law of a fit, and whether it was chosen."""
    if scaling.law is UNSET:
        return Assumption("scaling.law", scaling.chosen_law, "default", "one global batch at every point")
    return Assumption("scaling.law", scaling.law, "given", "request")


def measured_point(index: int, point: ScalingPoint, scaling: MeasuredScaling) -> "MeasuredPoint":
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
    if scaling.chosen_law == "log2":
        raise BrokenRule.at(f"{at}/step_seconds", "Where the batch grows with the count, give tokens_per_second")
    assert point.step_seconds is not UNSET  # one of the two is given
    return MeasuredPoint(point.gpu_count, 1 / point.step_seconds)


def efficiency_from_band(noted: list[Assumption], scaling: InterconnectScaling) -> tuple[Decimal, inputs.Network]:
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
    network = inputs.Network(
        link.id, link.name, link.kind, link.gbps_per_node, link.scaling_efficiency_basis, low, high
    )
    return exact(percent), network


class ReadPrice(inputs.HourlyPrice, frozen=True, gc=False, kw_only=True, tag="read", tag_field="kind"):
    """A price of a GPU-hour that was read from a price table, unrounded, with what there is to say of it."""

    said: tuple[Assumption, ...]


def price_facts(noted: list[Assumption], price: inputs.HourlyPrice | UnsetType) -> tuple[Money, inputs.PricedPer, str]:
    if type(price) is ReadPrice:
        noted.extend(price.said)
        assert price.currency is not UNSET  # a table has one
        return price.amount, "gpu", price.currency
    if price is UNSET:
        noted.extend(_PRICE_DEFAULTS)
        return inputs.DEFAULT_PRICE_PER_GPU_HOUR, "gpu", inputs.DEFAULT_CURRENCY
    currency = inputs.DEFAULT_CURRENCY if price.currency is UNSET else price.currency
    per: inputs.PricedPer = "gpu" if price.per is UNSET else price.per
    noted.append(Assumption("price.amount", str(written(price.amount, currency)), "given", "request"))
    noted.append(_PER_DEFAULT if price.per is UNSET else Assumption("price.per", per, "given", "request"))
    pick(noted, "price.currency", price.currency, currency)
    return price.amount, per, currency


def amount_of(
    noted: list[Assumption],
    field: str,
    section: inputs.FixedStorage | inputs.FixedEgress | UnsetType,
    default: Money,
    currency: str,
) -> Decimal:
    amount = written(default if section is UNSET else section.amount, currency)
    value = str(amount)
    pick(noted, field, UNSET if section is UNSET else value, value)
    return amount
