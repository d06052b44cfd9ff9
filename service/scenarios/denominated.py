"""Two requests in two currencies, mixed field by field: each amount keeps the currency that it was written in.

All money of a request is in the currency of its price, so that an amount means something else as soon as that is
another: 300 of a request in yen would be 300 dollars in one in dollars. Here an amount is a pair, and is put into the
currency of whatever request it stands in at a rate that somebody states.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from service.estimates.schemas import EstimateRequest
from service.estimator.inputs import (
    DEFAULT_EGRESS,
    DEFAULT_PRICE_PER_GPU_HOUR,
    DEFAULT_STORAGE,
    FixedEgress,
    FixedStorage,
    HourlyPrice,
)
from service.http.diagnosis import read_custom
from service.http.encoding import encoded
from service.money import Money, exact_arithmetic

# A rate of exchange is no amount, and a budget's amount changes no total.
_NO_MONEY = frozenset({"exchange", "budget"})

RateBetween = Callable[[str], Decimal]


class Denominated(Struct, frozen=True):
    """An amount as it was written, and its currency."""

    amount: Any
    currency: str


def denominated(request: EstimateRequest, currency: str) -> dict[str, Any]:
    """The request as JSON, each amount in it with this currency."""
    body: dict[str, Any] = msgspec.json.decode(encoded(request))
    return {
        section: value if section in _NO_MONEY else _with_currency(getattr(request, section), value, currency)
        for section, value in body.items()
    }


def with_defaults(request: EstimateRequest) -> EstimateRequest:
    """The same with its default amounts written out, for they are in the currency of the price too."""
    return structs.replace(
        request,
        price=HourlyPrice(amount=DEFAULT_PRICE_PER_GPU_HOUR) if request.price is UNSET else request.price,
        storage=FixedStorage(amount=DEFAULT_STORAGE) if request.storage is UNSET else request.storage,
        egress=FixedEgress(amount=DEFAULT_EGRESS) if request.egress is UNSET else request.egress,
    )


def currencies_in(body: Any) -> frozenset[str]:
    """Those that its amounts are in."""
    return frozenset(one.currency for one in _amounts(body))


def as_written(body: dict[str, Any]) -> EstimateRequest:
    """The request with every amount as it stands, whatever its currency."""
    return _read(_map(body, lambda one: one.amount))


def in_one_currency(body: dict[str, Any], rate_from: RateBetween) -> EstimateRequest:
    """The request with every amount in one currency, given what one unit of each is in it. Nothing is rounded."""

    def put(one: Denominated) -> Any:
        rate = rate_from(one.currency)
        if rate == 1:
            return one.amount
        with exact_arithmetic():
            return Money(Decimal(one.amount) * rate)

    return _read(_map(body, put))


def _read(body: Any) -> EstimateRequest:
    return msgspec.convert(body, EstimateRequest, dec_hook=_read_custom)


def _read_custom(kind: type, value: object) -> object:
    """An amount that was converted has more digits than one that can be typed."""
    return value if kind is Money and isinstance(value, Money) else read_custom(kind, value)


def _with_currency(value: Any, body: Any, currency: str) -> Any:
    if isinstance(value, Money):
        return Denominated(body, currency) if value else body  # nothing is nothing in any currency
    if isinstance(body, dict) and isinstance(value, Struct):
        # The kind of a section is in its JSON only.
        return {key: _with_currency(getattr(value, key, None), part, currency) for key, part in body.items()}
    if isinstance(body, list) and isinstance(value, tuple):
        return [_with_currency(one, part, currency) for one, part in zip(value, body, strict=True)]
    return body


def _map(body: Any, put: Callable[[Denominated], Any]) -> Any:
    if isinstance(body, Denominated):
        return put(body)
    if isinstance(body, dict):
        return {key: _map(part, put) for key, part in body.items()}
    if isinstance(body, list):
        return [_map(part, put) for part in body]
    return body


def _amounts(body: Any) -> Iterator[Denominated]:
    if isinstance(body, Denominated):
        yield body
    elif isinstance(body, dict | list):
        for part in body.values() if isinstance(body, dict) else body:
            yield from _amounts(part)
