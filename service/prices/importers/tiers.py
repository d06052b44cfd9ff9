"""The facts of a storage or egress tier to its rate; here a price of 0 is a real zero."""

import datetime
from collections.abc import Mapping
from typing import NamedTuple

from service.money import Money
from service.prices.importers.context import Context
from service.prices.importers.fields import TextField
from service.prices.importers.numbers import as_money
from service.prices.importers.rows import Reject
from service.prices.schemas import MAX_TIER_GB, Confidence, EgressRate, StorageRate


class Told(NamedTuple):
    """What every rate says of where it comes from."""

    valid_from: datetime.date | None
    valid_to: datetime.date | None
    seen_on: datetime.date | None
    confidence: Confidence


class Tiers:
    """Storage and egress tiers of one file to rates."""

    def __init__(self, context: Context) -> None:
        self._numbers = context.numbers
        self._class = TextField(StorageRate, "storage_class")
        self._route = TextField(EgressRate, "route")
        self._texts = {field: TextField(StorageRate, field) for field in ("provider", "region", "source", "note")}

    def storage(self, values: Mapping[str, str], told: Told) -> StorageRate:
        """What a GB-month costs; Reject."""
        first, last = self._bounds(values)
        return StorageRate(
            storage_class=self._class.required(values.get("storage_class", "")),
            provider=self._texts["provider"].required(values["provider"].lower()),
            region=self._texts["region"](values.get("region", "")),
            price_per_gb_month=self._price(values, "price_per_gb_month"),
            tier_from_gb=first,
            tier_to_gb=last,
            valid_from=told.valid_from,
            valid_to=told.valid_to,
            seen_on=told.seen_on,
            source=self._texts["source"].required(values["source"]),
            confidence=told.confidence,
            note=self._texts["note"](values.get("note", "")),
        )

    def egress(self, values: Mapping[str, str], told: Told) -> EgressRate:
        """What a GB costs on its way out; Reject."""
        first, last = self._bounds(values)
        return EgressRate(
            route=self._route.required(values.get("route", "")),
            provider=self._texts["provider"].required(values["provider"].lower()),
            region=self._texts["region"](values.get("region", "")),
            price_per_gb=self._price(values, "price_per_gb"),
            tier_from_gb=first,
            tier_to_gb=last,
            valid_from=told.valid_from,
            valid_to=told.valid_to,
            seen_on=told.seen_on,
            source=self._texts["source"].required(values["source"]),
            confidence=told.confidence,
            note=self._texts["note"](values.get("note", "")),
        )

    def _price(self, values: Mapping[str, str], field: str) -> Money:
        amount = self._numbers.price(values.get(field, ""), field)
        if amount is None:
            raise Reject("missing", field, f"{field} is missing")
        return as_money(amount, field)

    def _bounds(self, values: Mapping[str, str]) -> tuple[float, float | None]:
        first = self._numbers.count(values.get("tier_from_gb", ""), "tier_from_gb") or 0.0
        last = self._numbers.count(values.get("tier_to_gb", ""), "tier_to_gb")
        for field, bound in (("tier_from_gb", first), ("tier_to_gb", last)):
            if bound is not None and bound > MAX_TIER_GB:
                raise Reject("too_large", field, f"{bound:g} GB are no tier")
        if last is not None and last <= first:
            raise Reject("invalid", "tier_to_gb", "A tier ends above its beginning")
        return first, last
