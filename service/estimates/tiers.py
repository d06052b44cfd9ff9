"""Storage and egress whose tiers stand in a price table: read, converted, and told of."""

import datetime
from collections.abc import Callable
from decimal import Decimal

from msgspec import UNSET, Struct, UnsetType, structs

from service.errors import BrokenRule
from service.estimates.bill_schemas import EgressTier, MeteredEgress, MeteredStorage, TablePrice, TableTiers
from service.estimates.held import (
    ONE,
    Conversion,
    Held,
    Tables,
    checked_size,
    day_of,
    held_revision,
    revision_used,
    source_of,
)
from service.estimates.schemas import EstimateRequest
from service.estimator import inputs
from service.estimator.answers import TiersUsed
from service.estimator.charges import tier_charges
from service.estimator.formula import SIX_DIGITS, Page
from service.estimator.results import Assumption, Note
from service.money import Money, exact, exact_arithmetic, unit_price
from service.prices.lookup import age_days, stale_note
from service.prices.schemas import Rate, StorageClass
from service.prices.tier_lookup import Tiers, egress_tiers, storage_tiers

_OBJECTS, _FILESYSTEM = "storage.price_per_gb_month", "storage.filesystem_price_per_gb_month"
_BY_SIZE = "tiers by absolute monthly boundaries, over the size"


class FoundTiers(Struct, frozen=True):
    """What is said of tiers that were read: for the record, in words, and as formulas."""

    used: TiersUsed
    assumption: Assumption
    notes: tuple[Note, ...]
    page: Page


class Sections(Struct, frozen=True):
    """Storage and egress with every price in them, and where those were read; None where nothing was."""

    storage: MeteredStorage | None = None
    egress: MeteredEgress | None = None
    objects: FoundTiers | None = None
    filesystem: FoundTiers | None = None
    out: FoundTiers | None = None

    def found(self) -> list[FoundTiers]:
        """All that was read."""
        return [one for one in (self.objects, self.filesystem, self.out) if one is not None]


class _Source(Struct, frozen=True):
    """A table whose tiers are asked for, on a day, in a currency."""

    held: Held
    asked: TableTiers
    day: datetime.date
    currency: str
    factor: Decimal
    words: str
    at: str

    def read(self, ask: Callable[[str | None], Tiers]) -> Tiers:
        """Its tiers; BrokenRule is placed where they are asked for."""
        try:
            return ask(None if self.asked.region is UNSET else self.asked.region)
        except BrokenRule as error:
            field = error.faults[0].pointer if error.faults else "provider"
            raise error.placed(f"{self.at}/{field}") from None

    def found(self, field: str, value: str | int, tiers: Tiers, page: Page) -> FoundTiers:
        """What there is to say of them; they are as old as the oldest of them."""
        held, day = self.held, self.day
        rates: tuple[Rate, ...] = tiers.rates
        oldest = max(rates, key=lambda rate: age_days(rate, day, held.as_of) or 0)
        used = TiersUsed(
            revision_used(held, day),
            oldest.provider,
            tiers.region,
            "; ".join(dict.fromkeys(rate.source for rate in rates)),
            age_days(oldest, day, held.as_of),
        )
        told = source_of(used.revision, used.provider, used.region, used.source) + self.words
        stale = stale_note(oldest, day, held.as_of)
        notes = () if stale is None else (stale,)
        return FoundTiers(used, Assumption(field, value, "catalogue", told), notes, page)


def tiers_of(request: EstimateRequest, tables: Tables | None, today: datetime.date, conversion: Conversion) -> Sections:
    """The sections of a request that read a table, in the currency of its price, which stands in it by now."""
    made = Sections()
    storage, egress = request.storage, request.egress
    if isinstance(storage, MeteredStorage):
        if not storage.is_filesystem_alone or storage.price_per_gb_month is not UNSET:
            _either(storage.price_per_gb_month, storage.from_table, "/storage/price_per_gb_month")
        if storage.from_table is not UNSET:
            source = _source(request, storage.from_table, tables, today, conversion, "/storage/from_table")
            made = _storage(source, storage)
    if isinstance(egress, MeteredEgress):
        _either(egress.tiers, egress.from_table, "/egress/tiers")
        if egress.from_table is not UNSET:
            source = _source(request, egress.from_table, tables, today, conversion, "/egress/from_table")
            section, found = _egress(source, egress)
            made = structs.replace(made, egress=section, out=found)
    return made


def _either(given: object, table: object, at: str) -> None:
    if (given is UNSET) == (table is UNSET):
        raise BrokenRule.at(at, f"Give either {at.rpartition('/')[2]} or from_table")


def _source(
    request: EstimateRequest,
    asked: TableTiers,
    tables: Tables | None,
    today: datetime.date,
    conversion: Conversion,
    at: str,
) -> _Source:
    price = request.price
    assert not isinstance(price, TablePrice)  # it has been read by now
    currency = inputs.DEFAULT_CURRENCY if price is UNSET or price.currency is UNSET else price.currency
    held = held_revision(tables, asked.table, asked.revision, at)
    factor = conversion.into(currency, held, at)
    words = "" if factor is ONE else conversion.told()
    return _Source(held, asked, day_of(asked.as_of, request, today), currency, factor, words, at)


def _storage(source: _Source, section: MeteredStorage) -> Sections:
    """What a GB comes to at the data set's size; the filesystem likewise, unless it has a price of its own."""
    price, objects = _by_size(source, "object_storage", section.dataset_gb, _OBJECTS)
    changes: dict[str, Money | UnsetType] = {"price_per_gb_month": price}
    filesystem = None
    if section.filesystem_gb and section.filesystem_price_per_gb_month is UNSET:
        changes["filesystem_price_per_gb_month"], filesystem = _by_size(
            source, "shared_filesystem", section.filesystem_gb, _FILESYSTEM
        )
    made = structs.replace(section, from_table=UNSET, **changes)
    return Sections(storage=made, objects=objects, filesystem=filesystem)


def _by_size(source: _Source, kind: StorageClass, size_gb: float, field: str) -> tuple[Money, FoundTiers]:
    """The mean price of a GB at this size; at none that of the first tier."""
    tiers = source.read(
        lambda region: storage_tiers(
            source.held.index, provider=source.asked.provider, as_of=source.day, region=region, storage_class=kind
        )
    )
    page = Page()
    unit = f"{source.currency}/GB-month"
    with exact_arithmetic():
        size = exact(size_gb) if size_gb else ONE
        charges = tier_charges(size, tiers.tiers)
        price = sum((charge.amount for charge in charges), Decimal(0)) * source.factor / size
        checked_size(price, "/exchange/rate")
        if len(charges) > 1 or source.factor is not ONE:
            page.let("z", size, "GB", "size")
            page.let("x", source.factor, "", "rate of exchange")
            for place, charge in enumerate(charges, 1):
                page.let(f"q{place}", charge.quantity_gb, "GB", f"of it in tier {place}")
                page.let(f"p{place}", charge.price_per_gb, f"{source.held.currency}/GB-month", f"price of tier {place}")
            parts = " + ".join(f"q{place} * p{place}" for place in range(1, len(charges) + 1))
            formula = "p1" if len(charges) == 1 else f"({parts}) / z"
            formula += "" if source.factor is ONE else " * x"
            page.write(f"assumptions[{field}].value", "Price of a GB-month", formula, price, unit, _BY_SIZE, SIX_DIGITS)
        shown = str(unit_price(price, source.currency))
    return Money(price), source.found(field, shown, tiers, page)


def _egress(source: _Source, section: MeteredEgress) -> tuple[MeteredEgress, FoundTiers]:
    tiers = source.read(
        lambda region: egress_tiers(
            source.held.index, provider=source.asked.provider, as_of=source.day, region=region, route=section.route
        )
    )
    with exact_arithmetic():
        prices = [checked_size(tier.price_per_gb * source.factor, "/exchange/rate") for tier in tiers.tiers]
    given = tuple(
        EgressTier(up_to_gb=None if tier.up_to_gb is None else float(tier.up_to_gb), price_per_gb=Money(price))
        for tier, price in zip(tiers.tiers, prices, strict=True)
    )
    made = structs.replace(section, from_table=UNSET, tiers=given)
    return made, source.found("egress.tiers", len(given), tiers, Page())
