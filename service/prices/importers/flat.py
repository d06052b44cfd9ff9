"""Any flat table by a mapping of its columns: one row to the rates that it gives."""

import re
from collections.abc import Sequence
from typing import cast, get_args

from service.errors import BrokenRule
from service.prices.importers.context import Context
from service.prices.importers.fields import known_fields
from service.prices.importers.gpu_offers import Asked, Offer, Offers
from service.prices.importers.names import Match
from service.prices.importers.numbers import read_day
from service.prices.importers.purchases import purchase_of
from service.prices.importers.rows import Reject, Remark, Skip, shown
from service.prices.importers.schemas import Mapping
from service.prices.importers.tiers import Tiers, Told
from service.prices.schemas import MAX_TERM_MONTHS, Confidence, Rate

_SPOT_PRICES = frozenset({"spot_price_per_gpu_hour", "spot_instance_price_per_hour"})
_PRICES = _SPOT_PRICES | {"price_per_gpu_hour", "instance_price_per_hour"}
_OTHERS = """
    kind provider region zone country currency source note confidence valid_from valid_to seen_on
    accelerator memory_gb mount gpu_count count_unit instance purchase purchase_word term_months upfront commitment
    storage_class price_per_gb_month route price_per_gb tier_from_gb tier_to_gb
"""
FIELDS = _PRICES | frozenset(_OTHERS.split())
_KINDS = ("accelerator", "storage", "egress")
_CONFIDENCES = get_args(Confidence)
_CHIPS, _CORES = "chips", "cores"
_COUNT_UNITS = ("", "gpus", _CHIPS, _CORES)
_SEPARATORS = re.compile(r"[\W_]+")


class FlatReader:
    """Rows of one table to rates, by its mapping."""

    def __init__(self, mapping: Mapping, context: Context, *, default_source: str = "imported file") -> None:
        for part, given in (("columns", mapping.columns), ("constants", mapping.constants), ("values", mapping.values)):
            known_fields(given, FIELDS, part)
        self._context = context
        options = context.options
        seen_on = options.seen_on or options.as_of
        self._constants = {
            "provider": options.provider or "",
            "source": options.source or default_source,
            "confidence": options.confidence,
            "valid_from": options.valid_from.isoformat() if options.valid_from else "",
            "valid_to": options.valid_to.isoformat() if options.valid_to else "",
            "seen_on": seen_on.isoformat() if seen_on else "",
            **mapping.constants,
        }
        self.fields = tuple(sorted(mapping.columns))
        self.columns = tuple(mapping.columns[field] for field in self.fields)
        self._meanings = {
            field: {**{_plain(text): meant for text, meant in means.items()}, **means}
            for field, means in mapping.values.items()
        }
        self._given = set(self.fields) | {field for field, text in self._constants.items() if text}
        self._has_spot = bool(self._given & _SPOT_PRICES)
        self._require_enough()
        self._offers = Offers(context)
        self._tiers = Tiers(context)

    def column_of(self, field: str | None) -> str | None:
        """The file's column for one of our fields."""
        return self.columns[self.fields.index(field)] if field in self.fields else None

    def read(self, cells: Sequence[str], remarks: list[Remark], told: dict[str, str] | None = None) -> list[Rate]:
        """The rates of a row; Skip or Reject where there are none. `told` is what is known of it besides."""
        values = self._values(cells)
        if told:
            values.update(told)
        currency = values.get("currency")
        ours = self._context.options.currency
        if currency and currency.upper() != ours:
            raise Reject("other_currency", "currency", f"{shown(currency)} is not {ours}, which the table is in")
        kind = values.get("kind") or "accelerator"
        if kind == "storage":
            return [self._tiers.storage(values, self._told(values))]
        if kind == "egress":
            return [self._tiers.egress(values, self._told(values))]
        if kind == "accelerator":
            return self._accelerator(values, remarks)
        raise Reject("unknown_word", "kind", f"{shown(kind)} is none of {', '.join(_KINDS)}")

    def _require_enough(self) -> None:
        kind = self._constants.get("kind", "accelerator" if "kind" not in self.fields else None)
        if "provider" not in self._given:
            raise BrokenRule.at(
                "provider", "The file does not say who rents out: map a column or give a provider", "query"
            )
        if kind == "accelerator" and ("accelerator" not in self._given or not self._given & _PRICES):
            raise BrokenRule.at(
                "mapping",
                f"Map the column of the accelerator, and that of a price: {', '.join(sorted(_PRICES))}",
                "query",
            )

    def _values(self, cells: Sequence[str]) -> dict[str, str]:
        values = dict(self._constants)
        for field, cell in zip(self.fields, cells, strict=True):
            means = self._meanings.get(field)
            text = cell
            if means is not None:
                text = means.get(cell, means.get(_plain(cell), cell))
                if field == "purchase" and text != cell:
                    values.setdefault("purchase_word", cell)
            if text:
                values[field] = text
        return values

    def _accelerator(self, values: dict[str, str], remarks: list[Remark]) -> list[Rate]:
        numbers = self._context.numbers
        name = values.get("accelerator", "")
        count = numbers.count(values.get("gpu_count", ""), "gpu_count")
        if not name and count:
            raise Reject("missing", "accelerator", "The row counts accelerators and does not name them")
        if not name or count == 0:
            raise Skip("cpu_only", None, "The row has no accelerator")
        memory_gb = numbers.count(values.get("memory_gb", ""), "memory_gb")
        match = self._context.accelerators.match(name, memory_gb, values.get("mount", ""))
        if match.memory_differs:
            remarks.append(("memory_differs", "memory_gb", match.memory_differs))
        told = self._told(values)
        offer = Offer(
            name=name,
            match=match,
            provider=values["provider"],
            region=values.get("region", ""),
            country=values.get("country", "").upper(),
            gpu_count=self._chips(values, name, count, match),
            instance=values.get("instance", ""),
            term_months=self._term(values),
            upfront=numbers.price(values.get("upfront", ""), "upfront"),
            commitment=values.get("commitment", ""),
            valid_from=told.valid_from,
            valid_to=told.valid_to,
            seen_on=told.seen_on,
            source=values["source"],
            confidence=told.confidence,
            note=values.get("note", ""),
        )
        rates = self._rates(values, offer, remarks)
        if match.matched is not None:
            self._context.unmatched = (name, match)
        if match.slice_chips is not None:
            self._context.note("slices")
        return rates

    def _rates(self, values: dict[str, str], offer: Offer, remarks: list[Remark]) -> list[Rate]:
        """The rate at the row's price, and beside it the spot rate if the row has that price too."""
        text = values.get("purchase", "")
        if text:
            purchase, word = purchase_of(text)
        elif "purchase" in self._given:
            raise Reject("missing", "purchase", "The row does not say how it is bought")
        else:
            purchase, word = "on_demand", None
            self._context.note("purchase_assumed")
        word = values.get("purchase_word") or word
        rates: list[Rate] = [self._offers.rate(offer, purchase, word, self._asked(values, ""), remarks)]
        if not self._has_spot or purchase == "spot":
            return rates
        spot = self._asked(values, "spot_")
        if spot.absent:
            self._context.note("spot_absent")
            return rates
        zone = values.get("zone")
        if zone:
            offer = offer._replace(note=f"{offer.note}; zone {zone}" if offer.note else f"zone {zone}")
        return [*rates, self._offers.rate(offer, "spot", word, spot, remarks)]

    def _asked(self, values: dict[str, str], which: str) -> Asked:
        per_gpu, per_instance = f"{which}price_per_gpu_hour", f"{which}instance_price_per_hour"
        price = self._context.numbers.price
        return Asked(price(values.get(per_gpu, ""), per_gpu), price(values.get(per_instance, ""), per_instance), which)

    def _chips(self, values: dict[str, str], name: str, count: float | None, match: Match) -> float | None:
        """How many the price is for: chips of so many slices, or what the row counts, in chips if it counts cores."""
        unit = values.get("count_unit", "")
        if unit not in _COUNT_UNITS:
            raise Reject("unknown_word", "count_unit", f"{shown(unit)} is none of {', '.join(_COUNT_UNITS[1:])}")
        chips, cores = match.slice_chips, match.cores_per_chip
        if unit == _CORES and count is not None:
            if cores is None:
                raise Reject(
                    "unknown_unit", "count_unit", f"How many cores a {shown(name)} has is not known; count chips"
                )
            return count / cores
        if chips is None or unit == _CHIPS:
            return chips if count is None else count
        if count is not None and count > 1 and count in {chips, chips * (cores or 1)}:
            raise Reject(
                "two_meanings",
                "gpu_count",
                f"{count:g} of {shown(name)} may be {chips} chips or {count * chips:g}; give the count in chips, "
                "with count_unit chips",
            )
        return (count or 1) * chips

    def _term(self, values: dict[str, str]) -> float | None:
        months = self._context.numbers.count(values.get("term_months", ""), "term_months")
        if months is not None and not 0 < months <= MAX_TERM_MONTHS:
            raise Reject("invalid", "term_months", f"{months:g} months are no term")
        return months

    def _told(self, values: dict[str, str]) -> Told:
        first = read_day(values["valid_from"], "valid_from")
        end = read_day(values["valid_to"], "valid_to")
        if first is not None and end is not None and end <= first:
            raise Reject("invalid", "valid_to", "A rate ends after it begins")
        confidence = values["confidence"].lower()
        if confidence not in _CONFIDENCES:
            raise Reject("unknown_word", "confidence", f"{shown(confidence)} is none of {', '.join(_CONFIDENCES)}")
        return Told(first, end, read_day(values["seen_on"], "seen_on"), cast("Confidence", confidence))


def _plain(text: str) -> str:
    """A text as a value map compares it: without case and separators."""
    return _SEPARATORS.sub("", text).casefold()
