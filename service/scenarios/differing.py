"""Why two stored totals differ: both requests evaluated anew, each with the prices that it was stored with.

A request that leaves the revision or the day of a table open was answered by one: that one is put in, so that what
happens to the table later moves nothing. An exchange between the same two currencies on both sides is taken out of the
request, so that another rate is an effect of the currency and not of the input. Where the currencies differ, every
amount is put into that of the request that it stands in, so that what a field moves is its worth and not its digits.
"""

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from service.errors import BrokenRule
from service.estimates.bill_schemas import Exchange, MeteredEgress, MeteredStorage, TablePrice, TableTiers
from service.estimates.held import Held, held_revision
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.estimator import MODEL_VERSION
from service.estimator.answers import PricesUsed, RevisionUsed
from service.estimator.inputs import DEFAULT_CURRENCY
from service.estimator.results import Estimate
from service.http.text import name_key
from service.money import Money, exact_arithmetic
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
from service.scenarios.denominated import as_written, currencies_in, denominated, in_one_currency, with_defaults


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


class Worth(Struct, frozen=True):
    """What a unit of a currency is in the target, by the rates that are stated, else by the exchange of a side."""

    target: str
    rates: ExchangeRates | None
    exchanges: tuple[Exchange, ...]

    def of(self, currency: str) -> Decimal:
        """In the target; BrokenRule where nobody says."""
        rate = find_rate(currency, self.target, self.rates)
        if rate is not None:
            return rate
        for one in self.exchanges:
            if _currencies(one) == (currency, self.target):
                return one.rate
        raise BrokenRule.at("/rates", f"There is no rate from {currency} to {self.target}")

    def between(self, origin: str, currency: str) -> Decimal:
        """What a unit of one is in the other."""
        if origin == currency:
            return Decimal(1)
        with exact_arithmetic():
            return self.of(origin) / self.of(currency)


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
    if before.answer.cost.currency != after.answer.cost.currency or (one != other and not apart):
        before, after = (structs.replace(side, request=with_defaults(side.request)) for side in (before, after))
    known = tuple(side.prices for side in (before, after))
    exchanges = tuple(exchange for exchange in (one, other) if exchange is not UNSET)

    def evaluate(point: Point) -> Decimal:
        rates = point.rates
        assert rates is None or isinstance(rates, StatedRates)
        assert point.prices is None or isinstance(point.prices, PriceVersions)
        worth = Worth(target, None if rates is None else rates.conversion, exchanges)
        exchange = rates.exchange if apart and rates is not None else None
        choices = (point.prices, *known)

        def put_in(request: EstimateRequest) -> tuple[EstimateRequest, Pinned]:
            request = request if exchange is None else structs.replace(request, exchange=exchange)
            return _pinned(_without_samples(request), choices, held)

        request, tables = put_in(as_written(point.request))
        currency = _currency_of(request, tables)
        if currencies_in(point.request) - {currency}:
            request, tables = put_in(in_one_currency(point.request, lambda one: worth.between(one, currency)))
        request = _exchanged_as_needed(request, tables, currency, worth)
        cost = estimate(request, tables=tables).cost
        return cost.total if cost.currency == target else converted(cost.total, worth.of(cost.currency), target)

    return attributed(
        _evaluation(before, target, apart=apart), _evaluation(after, target, apart=apart), evaluate, MODEL_VERSION
    )


# ------------------------------------------------------------------------------------------- sides as points


def _evaluation(side: Side, target: str, *, apart: bool) -> Evaluation:
    body: dict[str, Any] = denominated(side.request, side.answer.cost.currency)
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
    worth = Worth(target, side.rates, ())
    return Evaluation(point=point, currency=target, total=converted(cost.total, worth.of(cost.currency), target))


def _with_common_rates(before: Side, after: Side) -> tuple[Side, Side]:
    """Rates that one side states hold for both, each for which the other does not state its own."""
    if before.rates is None and after.rates is None:
        return before, after
    one, other = before.rates or after.rates, after.rates or before.rates
    assert one is not None
    assert other is not None
    if one.currency != other.currency:
        raise BrokenRule.at("/after/rates/currency", "Both sides are converted into one currency")
    one, other = (
        structs.replace(one, rates={**other.rates, **one.rates}),
        structs.replace(other, rates={**one.rates, **other.rates}),
    )
    for place, side, rates in (("before", before, one), ("after", after, other)):
        if find_rate(side.answer.cost.currency, rates.currency, rates) is None:
            told = f"There is no rate from {side.answer.cost.currency} to {rates.currency}"
            raise BrokenRule.at(f"/{place}/rates", told)
    return structs.replace(before, rates=one), structs.replace(after, rates=other)


def _currencies(exchange: Exchange) -> tuple[str, str]:
    return exchange.from_currency, exchange.to_currency


def _currency_of(request: EstimateRequest, tables: Pinned) -> str:
    """The currency of its price, in which all its amounts are."""
    price, exchange = request.price, request.exchange
    if not isinstance(price, TablePrice):
        return DEFAULT_CURRENCY if price is UNSET or price.currency is UNSET else price.currency
    found = held_revision(tables, price.table, price.revision, "/price").currency
    return exchange.to_currency if exchange is not UNSET and exchange.from_currency == found else found


def _exchanged_as_needed(request: EstimateRequest, tables: Pinned, currency: str, worth: Worth) -> EstimateRequest:
    """Of two mixed, one has the tables and the other the rate of exchange: without the rate where no table needs it,
    and at the rate that is stated where a table needs one."""
    foreign = {one.currency for one in tables.held.values()} - {currency}
    given = request.exchange
    if given is not UNSET and given.from_currency in foreign and given.to_currency == currency:
        return request
    if len(foreign) != 1:
        return structs.replace(request, exchange=UNSET)
    (found,) = foreign
    rate, day = Money(worth.between(found, currency)), datetime.date.min  # the day is only told of
    exchange = Exchange(from_currency=found, to_currency=currency, rate=rate, as_of=day)
    return structs.replace(request, exchange=exchange)


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
