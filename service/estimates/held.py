"""What an estimate sees of price tables: a revision in memory, the day whose prices hold, the currency they end in."""

import datetime
from decimal import Decimal
from typing import Protocol

from msgspec import UNSET, UnsetType, structs

from service.errors import BrokenRule
from service.estimates.bill_schemas import Exchange
from service.estimates.schemas import EstimateRequest
from service.estimator.answers import ExchangeUsed, PricesUsed, RevisionUsed
from service.estimator.results import Estimate
from service.money import MAX_INTEGER_DIGITS
from service.prices.lookup import STALE, RateIndex

ONE = Decimal(1)
_TOO_MUCH = Decimal(10) ** MAX_INTEGER_DIGITS


class CurrenciesDiffer(BrokenRule):
    """A table is in another currency than the price, and no rate of exchange leads from one to the other."""


class Held(Protocol):
    """One revision's rates in memory."""

    @property
    def table(self) -> str: ...
    @property
    def currency(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def revision_id(self) -> int: ...
    @property
    def as_of(self) -> datetime.date | None: ...
    @property
    def index(self) -> RateIndex: ...


class Tables(Protocol):
    """The price tables as an estimate sees them: whatever is in memory, without asking anybody."""

    def find(self, name: str, revision: int | None = None) -> Held | None:
        """None where there is none; BrokenRule where it is there and cannot be read."""


class Conversion:
    """The rate of exchange of a request, and whether anything was converted by it."""

    __slots__ = ("_given", "_is_used")

    def __init__(self, given: Exchange | UnsetType) -> None:
        self._given = given
        self._is_used = False
        if given is UNSET:
            return
        if given.from_currency == given.to_currency:
            raise BrokenRule.at("/exchange/to_currency", "Between two currencies: this is the same one")
        if not given.rate:
            raise BrokenRule.at("/exchange/rate", "A rate of 0 would make everything free")

    def of(self, currency: str) -> tuple[Decimal, str]:
        """By what an amount in this currency is multiplied, and the currency that it then has."""
        given = self._given
        if given is UNSET or given.from_currency != currency:
            return ONE, currency
        self._is_used = True
        return given.rate, given.to_currency

    def into(self, currency: str, held: Held, at: str) -> Decimal:
        """By what the prices of a table are multiplied to be in this currency; BrokenRule where nobody says."""
        if held.currency == currency:
            return ONE
        factor, found = self.of(held.currency)
        if found == currency:
            return factor
        told = f"The table is in {held.currency} and the price in {currency}"
        if factor is ONE:
            raise CurrenciesDiffer.at(f"{at}/table", f"{told}: give exchange, with a rate and its day")
        raise CurrenciesDiffer.at("/exchange/to_currency", f"{told}: convert into {currency}")

    def told(self) -> str:
        """The rate in words, to stand behind a source."""
        given = self._given
        if given is UNSET:
            return ""
        return f", at {given.rate:f} {given.to_currency} for a {given.from_currency} of {given.as_of}"

    def used(self) -> ExchangeUsed | None:
        """For the record; BrokenRule where it was given for nothing."""
        given = self._given
        if given is UNSET:
            return None
        if not self._is_used:
            raise BrokenRule.at("/exchange", f"No price here is read from a price table in {given.from_currency}")
        return ExchangeUsed(given.from_currency, given.to_currency, Decimal(given.rate), given.as_of)


def held_revision(tables: Tables | None, name: str, revision: int | UnsetType, at: str) -> Held:
    """A revision, by default the newest; BrokenRule where there is none."""
    if tables is None:
        raise BrokenRule.at(f"{at}/table", "There are no price tables here: ask the service, or give the price itself")
    try:
        held = tables.find(name, None if revision is UNSET else revision)
        newest = None if held is not None or revision is UNSET else tables.find(name)
    except BrokenRule as error:
        raise error.placed(f"{at}/table") from None
    if held is not None:
        return held
    if newest is None:
        raise BrokenRule.at(f"{at}/table", f"No price table with rates is called {name!r} (GET /v1/price-tables)")
    told = f"Price table {newest.table!r} has no revision {revision}: its newest is {newest.revision}"
    raise BrokenRule.at(f"{at}/revision", told)


def day_of(given: datetime.date | UnsetType, request: EstimateRequest, today: datetime.date) -> datetime.date:
    """The day whose prices hold: as given, else that of the start (which is in UTC by now), else today."""
    if given is not UNSET:
        return given
    return today if request.start_at is None else request.start_at.date()


def revision_used(held: Held, day: datetime.date) -> RevisionUsed:
    """Which revision was read, for the record."""
    return RevisionUsed(held.table, held.revision, held.revision_id, held.currency, day)


def source_of(revision: RevisionUsed, provider: str, region: str | None, source: str) -> str:
    """Where a figure of a table was read, in words."""
    where = f", {region}" if region else ""
    return f"{_looked_up(revision)}: {provider}{where} ({source})"


def on_any_day(answer: Estimate) -> Estimate:
    """An answer without what is only the day on which it looked at the prices: that day, their age on it, and the texts
    that tell of these. Two answers that are equal then say the same of the run."""
    prices = answer.prices
    if prices is UNSET:
        return answer
    objects, filesystem, egress = (
        None if part is None else structs.replace(part, revision=_undated(part.revision), age_days=None)
        for part in (prices.storage, prices.filesystem, prices.egress)
    )
    price = prices.price
    if price is not None:
        price = structs.replace(price, revision=_undated(price.revision), age_days=None)
    read = [part.revision for part in (prices.price, prices.storage, prices.filesystem, prices.egress) if part]

    def undated(text: str) -> str:
        for one in read:
            text = text.replace(_looked_up(one), _looked_up(_undated(one)))
        return text

    explanations = answer.explanations
    return structs.replace(
        answer,
        prices=PricesUsed(price, objects, filesystem, egress, prices.exchange),
        assumptions=tuple(structs.replace(one, source=undated(one.source)) for one in answer.assumptions),
        notes=tuple(note for note in answer.notes if note.code != STALE),
        explanations=UNSET
        if explanations is UNSET
        else tuple(structs.replace(one, source=undated(one.source)) for one in explanations),
    )


def _looked_up(revision: RevisionUsed) -> str:
    return f"{revision.table}, revision {revision.revision}, on {revision.as_of}"


def _undated(revision: RevisionUsed) -> RevisionUsed:
    return structs.replace(revision, as_of=datetime.date.min)


def checked_size(amount: Decimal, at: str) -> Decimal:
    """A price that a request could have given; BrokenRule where it has too many digits."""
    if amount >= _TOO_MUCH:
        raise BrokenRule.at(at, f"This comes to a price of more than {MAX_INTEGER_DIGITS} integer digits")
    return amount
