"""A plain run to bill, and what tests read off the answer: its total and its lines by component."""

import json
from decimal import Decimal
from typing import Any

import msgspec

from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import read_custom
from tests.support.asking import ask

CENT = Decimal("0.01")

_decoder = msgspec.json.Decoder(EstimateRequest, dec_hook=read_custom)


def request_of(body: dict[str, Any]) -> EstimateRequest:
    """A body as the estimator gets it."""
    return _decoder.decode(json.dumps(body))


def a_run(hours: float = 100, gpu_count: int = 8, amount: str = "2", **sections: Any) -> dict[str, Any]:
    """A run at 100 % efficiency without rework, storage or egress, unless the sections say otherwise."""
    return {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": gpu_count},
        "work": {"kind": "gpu_hours", "hours": hours},
        "scaling": {"kind": "fixed", "efficiency_percent": 100},
        "rework": {"kind": "buffer", "rework_percent": 0},
        "price": {"kind": "hourly", "amount": amount},
        "storage": {"kind": "fixed", "amount": "0"},
        "egress": {"kind": "fixed", "amount": "0"},
        **sections,
    }


def answer_to(hours: float = 100, gpu_count: int = 8, amount: str = "2", **sections: Any) -> dict[str, Any]:
    """What is answered to it."""
    return ask(a_run(hours, gpu_count, amount, **sections))


def total(answer: dict[str, Any]) -> Decimal:
    """What it costs in all."""
    return Decimal(answer["cost"]["total"])


def amounts(answer: dict[str, Any]) -> dict[str, Decimal]:
    """Amounts by component; of several lines of one component their sum."""
    found: dict[str, Decimal] = {}
    for line in answer["cost"]["lines"]:
        found[line["component"]] = found.get(line["component"], Decimal(0)) + Decimal(line["amount"])
    return found


def line_of(answer: dict[str, Any], component: str) -> dict[str, Any]:
    """The one line of a component."""
    (found,) = (line for line in answer["cost"]["lines"] if line["component"] == component)
    return dict(found)
