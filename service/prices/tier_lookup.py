"""Tiers of a provider: what keeping a GB costs a month, what a GB out costs, and what there is instead."""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from service.errors import BrokenRule
from service.estimator.charges import Tier
from service.money import exact
from service.prices.lookup import RateIndex, holding_rates, some_of
from service.prices.schemas import EgressRate, GpuRate, Rate, Route, StorageClass, StorageRate


class Tiers(Struct, frozen=True):
    """The tiers of one provider and region, and the rates that they were read from."""

    tiers: tuple[Tier, ...]
    rates: tuple[StorageRate, ...] | tuple[EgressRate, ...]
    region: str | None


def storage_tiers(
    index: RateIndex,
    *,
    provider: str,
    as_of: datetime.date,
    region: str | None = None,
    storage_class: StorageClass = "object_storage",
) -> Tiers:
    """What keeping a GB costs a month, by absolute monthly boundaries; BrokenRule names what there is instead."""
    return _tiers(index, "storage", storage_class, provider, region, as_of)


def egress_tiers(
    index: RateIndex, *, provider: str, as_of: datetime.date, region: str | None = None, route: Route = "internet"
) -> Tiers:
    """What a GB out costs, by absolute monthly boundaries; BrokenRule names what there is instead."""
    return _tiers(index, "egress", route, provider, region, as_of)


def _tiers(
    index: RateIndex,
    kind: Literal["storage", "egress"],
    what: str,
    provider: str,
    region: str | None,
    as_of: datetime.date,
) -> Tiers:
    by_region: dict[str, list[Rate]] = {}
    for offer in index.tier_offers(kind, provider, what):
        holding = holding_rates(offer, as_of)
        if holding:
            cheapest = min(holding, key=lambda rate: (_gb_price(rate), rate.source))
            by_region.setdefault((cheapest.region or "").casefold(), []).append(cheapest)
    if not by_region:
        providers = some_of(index.tier_providers(kind, what))
        raise BrokenRule.at(
            "provider", f"No price of {what} {kind} at {provider} on {as_of}. There is: {providers}.", "query"
        )
    if region is None:
        # The region that the fewest words narrow down, then the cheapest, then the first by name.
        key = min(by_region, key=lambda name: (name != "", [_gb_price(rate) for rate in by_region[name]], name))
    else:
        key = region.casefold() if region.casefold() in by_region else ""
        if key not in by_region:
            there = some_of(rates[0].region or "any region" for rates in by_region.values())
            raise BrokenRule.at(
                "region", f"No price of {what} {kind} in {region} at {provider}. There is: {there}.", "query"
            )
    rates = sorted(by_region[key], key=lambda rate: rate.tier_from_gb)  # type: ignore[union-attr]
    return Tiers(_joined(rates, f"{what} {kind} of {provider}"), tuple(rates), rates[0].region)  # type: ignore[arg-type]


def _joined(rates: Sequence[Rate], told: str) -> tuple[Tier, ...]:
    """Tiers that begin at 0, follow each other and have no end; BrokenRule where volume would go without a price."""
    tiers = []
    reached: float | None = 0
    for rate in rates:
        assert not isinstance(rate, GpuRate)  # the caller's rates are tiers
        if reached is None or rate.tier_from_gb != reached:
            ends = "the last one" if reached is None else f"{reached:g} GB"
            raise BrokenRule(f"The tiers of {told} do not join: one begins at {rate.tier_from_gb:g} GB after {ends}.")
        reached = rate.tier_to_gb
        tiers.append(Tier(None if reached is None else exact(reached), _gb_price(rate)))
    if reached is not None:
        raise BrokenRule(f"The tiers of {told} end at {reached:g} GB: what lies above has no price.")
    return tuple(tiers)


def _gb_price(rate: Rate) -> Decimal:
    if isinstance(rate, StorageRate):
        return rate.price_per_gb_month
    assert isinstance(rate, EgressRate)  # the caller's rates are tiers
    return rate.price_per_gb
