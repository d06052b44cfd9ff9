"""What a rate must keep to that its schema cannot say; one message with the field that breaks it."""

from service.prices.schemas import EgressRate, GpuRate, Rate, StorageRate

_GPU_TEXTS = (
    "provider",
    "region",
    "source",
    "accelerator_name",
    "purchase_word",
    "commitment",
    "unknown_reason",
    "instance",
    "note",
)
_OTHER_TEXTS = ("provider", "region", "source", "note")


def broken_rule(rate: Rate) -> tuple[str, str] | None:
    """The field that cannot be so, and why; None where all is well."""
    broken = _of_gpu(rate) if isinstance(rate, GpuRate) else _of_tier(rate)
    if broken is not None:
        return broken
    if rate.valid_from is not None and rate.valid_to is not None and rate.valid_to <= rate.valid_from:
        return "valid_to", "A rate ends after it begins"
    for field in _GPU_TEXTS if isinstance(rate, GpuRate) else _OTHER_TEXTS:
        text = getattr(rate, field)
        if text is not None and ("\n" in text or not text.strip()):
            return field, "One line of text, not only spaces"
    return None


def _of_gpu(rate: GpuRate) -> tuple[str, str] | None:
    price = rate.price_per_gpu_hour
    if rate.accelerator_id is None and rate.accelerator_name is None:
        return "accelerator_id", "A rate names its accelerator, by accelerator_id or accelerator_name"
    if price is None and rate.unknown_reason is None:
        return "price_per_gpu_hour", "Without a price, unknown_reason says why"
    if price is not None and rate.unknown_reason is not None:
        return "unknown_reason", "Given only where there is no price"
    if price == 0 and not rate.free:
        return "price_per_gpu_hour", "A price of 0 is meant only with free: true; an unknown price is null"
    if rate.free and price != 0:
        return "free", "Free is a price of 0"
    return None


def _of_tier(rate: StorageRate | EgressRate) -> tuple[str, str] | None:
    if rate.tier_to_gb is not None and rate.tier_to_gb <= rate.tier_from_gb:
        return "tier_to_gb", "A tier ends above its beginning"
    return None
