"""Rates for tests: what matters is said, the rest is usual."""

import datetime
from collections.abc import Sequence
from typing import Any

from service.money import Money
from service.prices.lookup import Question, RateIndex
from service.prices.offers import in_order
from service.prices.schemas import EgressRate, GpuRate, Rate, StorageRate

TODAY = datetime.date(2026, 11, 30)


def day(text: str | None) -> datetime.date | None:
    return None if text is None else datetime.date.fromisoformat(text)


def gpu(price: str | None = "2.00", **fields: Any) -> GpuRate:
    """An on-demand offer of eight H100."""
    dates: dict[str, Any] = {name: day(fields.pop(name, None)) for name in ("valid_from", "valid_to", "seen_on")}
    usual: dict[str, Any] = {
        "accelerator_id": "h100-sxm-80gb",
        "provider": "aws",
        "purchase": "on_demand",
        "gpu_count": 8,
        "source": "a test",
        "unknown_reason": "contact sales" if price is None else None,
    }
    return GpuRate(**{**usual, **fields}, price_per_gpu_hour=None if price is None else Money(price), **dates)


def egress(price: str, begin: float = 0, end: float | None = None, **fields: Any) -> EgressRate:
    """A tier of egress to the internet."""
    usual: dict[str, Any] = {"provider": "aws", "route": "internet", "source": "a test"}
    return EgressRate(**{**usual, **fields}, price_per_gb=Money(price), tier_from_gb=begin, tier_to_gb=end)


def storage(price: str, begin: float = 0, end: float | None = None, **fields: Any) -> StorageRate:
    """A tier of object storage."""
    usual: dict[str, Any] = {"provider": "aws", "storage_class": "object_storage", "source": "a test"}
    return StorageRate(**{**usual, **fields}, price_per_gb_month=Money(price), tier_from_gb=begin, tier_to_gb=end)


def indexed(*rates: Rate) -> RateIndex:
    return RateIndex(in_order(rates))


def asked(**fields: Any) -> Question:
    """Eight H100 on demand, today."""
    usual: dict[str, Any] = {"accelerator_id": "h100-sxm-80gb", "gpu_count": 8, "as_of": TODAY}
    return Question(**{**usual, **fields})


def row(price: str | None = "2.00", **fields: Any) -> dict[str, Any]:
    """The same offer as JSON."""
    usual: dict[str, Any] = {
        "kind": "accelerator",
        "accelerator_id": "h100-sxm-80gb",
        "provider": "aws",
        "purchase": "on_demand",
        "gpu_count": 8,
        "source": "a test",
        "price_per_gpu_hour": price,
    }
    return {**usual, **fields}


def many(count: int, first_price: int = 1000) -> Sequence[dict[str, Any]]:
    """So many offers, each of a region of its own."""
    return [row(f"{(first_price + n) / 1000:.3f}", region=f"region-{n:06d}") for n in range(count)]
