"""A request as JSON to its answer with every formula, as JSON."""

from typing import Any

import msgspec

from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from tests.support.tables import list_prices


def explained(request: dict[str, Any]) -> dict[str, Any]:
    """What `explain=true` answers."""
    answer = estimate(msgspec.convert(request, EstimateRequest, dec_hook=money), explain=True, tables=list_prices())
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    return found


def money(kind: type, value: object) -> object:
    """An amount as the decoder reads it."""
    return kind(str(value))
