"""Which rates are one offer, from when on each of them counts, and the one order in which a table keeps them."""

import datetime
from collections.abc import Iterable, Sequence
from decimal import Decimal
from hashlib import blake2b, sha256
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

from service.http.diagnosis import read_custom
from service.http.text import name_key
from service.money import Money
from service.prices.schemas import EgressRate, GpuRate, Rate, StorageRate

R = TypeVar("R", bound=Rate)

_SEPARATOR = "\t"  # no field holds one
_KEY_PART = 100  # characters of each part of an offer's key
_LATEST = datetime.date.max.toordinal()
_SHARED = ("source", "note", "provider", "region", "seen_on", "valid_from", "valid_to")
_SHARED_OF_GPU = (
    "accelerator_id",
    "accelerator_name",
    "country",
    "purchase_word",
    "commitment",
    "unknown_reason",
    "instance",
    "gpu_count",
    "term_months",
    "price_per_gpu_hour",
    "instance_price_per_hour",
    "upfront",
)


def _encode_money(value: object) -> str:
    if isinstance(value, Decimal):
        return shortest(value)
    raise NotImplementedError(type(value))  # how msgspec is told that a type is not ours


_decoder = msgspec.json.Decoder(Rate, strict=True, dec_hook=read_custom)
_encoder = msgspec.json.Encoder(enc_hook=_encode_money)


def shortest(amount: Decimal) -> str:
    """An amount without trailing zeros: 6.880 and 6.88 are one price."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def encoded_rate(rate: Rate) -> bytes:
    """The rate as it is stored and answered: equal rates are equal bytes."""
    return _encoder.encode(rate)


def decode_rate(body: bytes) -> Rate:
    """A stored rate."""
    return _decoder.decode(body)


def accelerator_of(rate: GpuRate) -> str:
    """What a rate's accelerator is found by: its catalogue id, else the name it came with."""
    return rate.accelerator_id or name_key(rate.accelerator_name or "")


def start_of(rate: Rate) -> datetime.date:
    """From when on it counts among the rates of its offer: its own date, else the day on which it was read."""
    return rate.valid_from or rate.seen_on or datetime.date.min


def offer_of(rate: Rate) -> tuple[Any, ...]:
    """What makes rates the same offer; of these the newest replaces the older. A region lies in one country; where none
    is stated, the country tells offers apart."""
    who = (rate.provider.casefold(), (rate.region or "").casefold())
    if isinstance(rate, StorageRate):
        return ("storage", *who, rate.storage_class, float(rate.tier_from_gb))
    if isinstance(rate, EgressRate):
        return ("egress", *who, rate.route, float(rate.tier_from_gb))
    return (
        "accelerator",
        accelerator_of(rate),
        *who,
        rate.purchase,
        None if rate.gpu_count is None else float(rate.gpu_count),
        (rate.instance or "").casefold(),
        (rate.purchase_word or "").casefold(),
        None if rate.term_months is None else float(rate.term_months),
        (rate.commitment or "").casefold(),
        bool(rate.upfront),
        (rate.country or "") if rate.region is None else "",
    )


def offer_key(rate: Rate) -> str:
    """The offer as a text that sorts as people read it, short enough for any index."""
    offer = offer_of(rate)
    digest = blake2b(repr(offer).encode(), digest_size=8).hexdigest()
    return _SEPARATOR.join([str(part)[:_KEY_PART] for part in offer[:6]] + [digest])


def rate_digest(body: bytes) -> bytes:
    """What tells a rate from the others of its offer."""
    return blake2b(body, digest_size=8).digest()


def in_order(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """The rates in the one order of every revision: by offer, the newest of an offer first; a rate given twice once."""
    pool: dict[Any, Any] = {}
    parts: dict[str, list[Rate]] = {}
    for rate in rates:
        settle(rate, pool)
        what = accelerator_of(rate) if isinstance(rate, GpuRate) else rate.provider.casefold()
        parts.setdefault(f"{rate.__struct_config__.tag}{_SEPARATOR}{what[:_KEY_PART]}{_SEPARATOR}", []).append(rate)
    # Accelerator by accelerator: sorting all of them at once would hold up every request for a third of a second, and
    # all their keys would take as much memory as the rates.
    return tuple(rate for _, part in sorted(parts.items(), key=itemgetter(0)) for rate in _part_in_order(part))


def _part_in_order(rates: Iterable[Rate]) -> list[Rate]:
    keyed = {}
    for rate in rates:
        newest_first = f"{_LATEST - start_of(rate).toordinal():07d}{rate_digest(encoded_rate(rate)).hex()}"
        keyed[offer_key(rate) + newest_first] = rate
    return [keyed[key] for key in sorted(keyed)]


def content_hash(rates: Sequence[Rate]) -> str:
    """The same for the same rates, whatever order they came in."""
    whole = sha256()
    for rate in rates:
        whole.update(encoded_rate(rate))
    return whole.hexdigest()


def settle(rate: R, pool: dict[Any, Any]) -> R:
    """The rate with equal values held once for all rates of the pool, and whole numbers as floats: 200,000 rates then
    take 60 MB instead of 200."""
    for field in (*_SHARED, *_SHARED_OF_GPU) if type(rate) is GpuRate else _SHARED:
        value = getattr(rate, field)
        if value is None:
            continue
        kind = type(value)
        if kind is int:
            value = float(value)
        # Decimals are kept by their digits: 6.9 and 6.90 are equal, and written differently.
        known = pool.setdefault((kind, str(value)) if kind is Money else (kind, value), value)
        if known is not getattr(rate, field):
            force_setattr(rate, field, known)
    if type(rate) is not GpuRate:
        for field in ("tier_from_gb", "tier_to_gb"):
            value = getattr(rate, field)
            if type(value) is int:
                force_setattr(rate, field, float(value))
    return rate
