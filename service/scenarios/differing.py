"""Why two stored totals differ: both requests evaluated anew, each with the prices that it was stored with.

A request that leaves the revision or the day of a table open was answered by one: that one is put in, so that what
happens to the table later moves nothing. An exchange between the same two currencies on both sides is taken out of the
request, so that another rate is an effect of the currency and not of the input.
"""

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from service.errors import BrokenRule
from service.estimates.bill_schemas import Exchange, MeteredEgress, MeteredStorage, TablePrice, TableTiers
from service.estimates.held import Held
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.estimator import MODEL_VERSION
from service.estimator.answers import PricesUsed, RevisionUsed
from service.estimator.results import Estimate
from service.http.diagnosis import read_custom
from service.http.encoding import encoded
from service.http.text import name_key
from service.scenarios.arithmetic.attribution import (
    Attribution,
    Evaluation,
    Point,
    PriceVersion,
    PriceVersions,
    StatedRates,
    attributed,
)
from service.scenarios.arithmetic.rates import ExchangeRates, converted, find_rate


class Side(Struct, frozen=True):
    """What one side asked, what was answered when it was stored, and what its total is to be converted by."""

    request: EstimateRequest
    answer: Estimate
    rates: ExchangeRates | None = None

    @property
    def prices(self) -> PriceVersions | None:
        """The versions of the tables that answered."""
        return versions_of(self.answer.prices)


class Pinned(Struct, frozen=True):
    """The revisions that one evaluation reads, and no others."""

    held: dict[tuple[str, int | None], Held]

    def find(self, name: str, revision: int | None = None) -> Held | None:
        """As `Tables` has it."""
        return self.held.get((name_key(name), revision))


def versions_of(prices: PricesUsed | UnsetType) -> PriceVersions | None:
    """Which revision answered for which section; None where no table was read."""
    if prices is UNSET:
        return None
    return PriceVersions(
        price=None if prices.price is None else _version(prices.price.revision),
        storage=None if prices.storage is None else _version(prices.storage.revision),
        egress=None if prices.egress is None else _version(prices.egress.revision),
    )


def revision_ids(sides: Iterable[Side]) -> frozenset[int]:
    """Every revision that must be in memory for `difference`."""
    return frozenset(
        version.revision_id
        for side in sides
        for version in _each(side.prices)
        if version is not None and version.revision_id is not None
    )


def difference(before: Side, after: Side, held: Mapping[int, Held]) -> Attribution:
    """The effects, given the revisions by their ids; BrokenRule where a rate is missing."""
    before, after = _with_common_rates(before, after)
    target = before.answer.cost.currency if before.rates is None else before.rates.currency
    one, other = before.request.exchange, after.request.exchange
    apart = one is not UNSET and other is not UNSET and _currencies(one) == _currencies(other)
    known = tuple(side.prices for side in (before, after))

    def evaluate(point: Point) -> Decimal:
        request = msgspec.convert(point.request, EstimateRequest, dec_hook=read_custom)
        rates = point.rates
        assert rates is None or isinstance(rates, StatedRates)
        assert point.prices is None or isinstance(point.prices, PriceVersions)
        if apart and rates is not None and rates.exchange is not None:
            request = structs.replace(request, exchange=rates.exchange)
        request, tables = _pinned(_without_samples(request), (point.prices, *known), held)
        cost = estimate(request, tables=tables).cost
        return _converted(cost.total, cost.currency, target, None if rates is None else rates.conversion)

    return attributed(
        _evaluation(before, target, apart=apart), _evaluation(after, target, apart=apart), evaluate, MODEL_VERSION
    )


# ------------------------------------------------------------------------------------------- sides as points


def _evaluation(side: Side, target: str, *, apart: bool) -> Evaluation:
    body: dict[str, Any] = msgspec.json.decode(encoded(side.request))
    exchange: Exchange | None = None
    if apart and side.request.exchange is not UNSET:
        exchange = side.request.exchange
        del body["exchange"]
    rates = None
    if exchange is not None or side.rates is not None:
        rates = StatedRates(exchange=exchange, conversion=side.rates)
    point = Point(request=body, prices=side.prices, model_version=side.answer.model_version, rates=rates)
    cost = side.answer.cost
    if cost.currency == target or side.rates is None:
        return Evaluation(point=point, currency=cost.currency, total=cost.total)
    return Evaluation(point=point, currency=target, total=_converted(cost.total, cost.currency, target, side.rates))


def _with_common_rates(before: Side, after: Side) -> tuple[Side, Side]:
    """Rates that one side states hold for both."""
    if before.rates is None and after.rates is None:
        return before, after
    one, other = before.rates or after.rates, after.rates or before.rates
    assert one is not None
    assert other is not None
    if one.currency != other.currency:
        raise BrokenRule.at("/after/rates/currency", "Both sides are converted into one currency")
    for place, side, rates in (("before", before, one), ("after", after, other)):
        if find_rate(side.answer.cost.currency, rates.currency, rates) is None:
            told = f"There is no rate from {side.answer.cost.currency} to {rates.currency}"
            raise BrokenRule.at(f"/{place}/rates", told)
    return structs.replace(before, rates=one), structs.replace(after, rates=other)


def _converted(total: Decimal, currency: str, target: str, rates: ExchangeRates | None) -> Decimal:
    if currency == target:
        return total
    rate = find_rate(currency, target, rates)
    if rate is None:
        raise BrokenRule.at("/rates", f"There is no rate from {currency} to {target}")
    return converted(total, rate, target)


def _currencies(exchange: Exchange) -> tuple[str, str]:
    return exchange.from_currency, exchange.to_currency


def _without_samples(request: EstimateRequest) -> EstimateRequest:
    """A total needs samples only where a budget asks for a quantile."""
    if request.budget is not None and request.budget.confidence_percent is not UNSET:
        return request
    return structs.replace(request, uncertainty=UNSET)


# ------------------------------------------------------------------------------------------- prices put in


def _pinned(
    request: EstimateRequest, choices: Iterable[PriceVersions | None], held: Mapping[int, Held]
) -> tuple[EstimateRequest, Pinned]:
    """The request with a revision and a day in every section that reads a table: the first choice for that table."""
    choices = tuple(choices)
    found: dict[tuple[str, int | None], Held] = {}

    def version_for(table: str, of: str) -> tuple[int, datetime.date]:
        for choice in choices:
            version: PriceVersion | None = None if choice is None else getattr(choice, of)
            if version is not None and name_key(version.table) == name_key(table):
                assert version.revision_id is not None
                found[name_key(table), version.revision] = held[version.revision_id]
                return version.revision, version.as_of
        raise BrokenRule.at(f"/{of}", f"Neither side read the price table {table!r} here")

    price, storage, egress = request.price, request.storage, request.egress
    if isinstance(price, TablePrice):
        revision, as_of = version_for(price.table, "price")
        request = structs.replace(request, price=structs.replace(price, revision=revision, as_of=as_of))
    if isinstance(storage, MeteredStorage) and storage.from_table is not UNSET:
        tiers = _tiers(storage.from_table, *version_for(storage.from_table.table, "storage"))
        request = structs.replace(request, storage=structs.replace(storage, from_table=tiers))
    if isinstance(egress, MeteredEgress) and egress.from_table is not UNSET:
        tiers = _tiers(egress.from_table, *version_for(egress.from_table.table, "egress"))
        request = structs.replace(request, egress=structs.replace(egress, from_table=tiers))
    return request, Pinned(found)


def _tiers(asked: TableTiers, revision: int, as_of: datetime.date) -> TableTiers:
    return structs.replace(asked, revision=revision, as_of=as_of)


def _version(used: RevisionUsed) -> PriceVersion:
    return PriceVersion(table=used.table, revision=used.revision, as_of=used.as_of, revision_id=used.revision_id)


def _each(versions: PriceVersions | None) -> tuple[PriceVersion | None, ...]:
    return () if versions is None else (versions.price, versions.storage, versions.egress)
