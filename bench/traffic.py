"""What is asked and what must be answered: seeded, and all different, so that no answer can be remembered."""

import json
import random
from typing import Any

from bench.load import HOST, Exchange
from bench.workloads import decoder, full_bodies
from service.estimates.operations import estimate
from service.http.encoding import encoded
from tests.support.tables import InMemory, list_prices

SEED = 20270104
ESTIMATES = 3000
SCENARIOS = 1000
_PRICED = ("h100-sxm-80gb", "h200-sxm-141gb", "a100-sxm-80gb", "b200-sxm-180gb", "l40s-48gb")  # by several providers

# Beyond the seven values: what answers must agree on as well before their speed is compared.
_UNUSUAL: tuple[dict[str, Any], ...] = (
    {},
    {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 12},
        "price": {"kind": "hourly", "amount": "22.4", "per": "node"},
    },
    {
        "work": {"kind": "gpu_hours", "hours": 250000, "basis": "total"},
        "rework": {"kind": "buffer", "rework_percent": 0},
    },
    {
        "scaling": {"kind": "interconnect", "preset": "eth-10-tcp", "level": "low"},
        "storage": {"kind": "fixed", "amount": 0.5},
    },
    {
        "scaling": {"kind": "interconnect", "preset": "nvlink4"},
        "price": {"kind": "hourly", "amount": "310", "currency": "JPY"},
    },
    {"start_at": "2027-01-04T09:00:00+02:00", "budget": {"amount": "28000", "deadline": "2027-01-10T00:00:00Z"}},
    {"budget": {"amount": "27949.99", "warn_percent": 80}},
)


def estimate_exchanges() -> list[Exchange]:
    """`POST /v1/estimates` with the seven values, each time other ones."""
    pick = random.Random(SEED)
    return [_estimate_exchange(seven_values(pick)) for _ in range(ESTIMATES)]


def detailed_exchanges() -> list[Exchange]:
    """The same of a transformer with its layout, failures and metered storage, each time other ones."""
    return [_estimate_exchange(body) for body in full_bodies(SEED, ESTIMATES)]


def table_exchanges() -> tuple[list[Exchange], list[Exchange]]:
    """The seven values and an accelerator, at an hourly price; and the same by the table of the release. On any other
    day the latter have other answers."""
    pick = random.Random(SEED)
    hourly, by_table = [], []
    for _ in range(ESTIMATES):
        body = seven_values(pick)
        body["cluster"]["gpu"] = pick.choice(_PRICED)
        hourly.append(_estimate_exchange(body))
        by_table.append(_estimate_exchange({**body, "price": {"kind": "table"}}, list_prices()))
    return hourly, by_table


def usual_answer() -> bytes:
    """An answer as long as most."""
    answers = sorted((exchange.answer for exchange in estimate_exchanges()), key=len)
    return answers[len(answers) // 2]


def unusual_exchanges() -> list[Exchange]:
    """A few more, with a section of every kind."""
    return [_estimate_exchange(body) for body in _UNUSUAL]


def scenario_writes() -> list[bytes]:
    """`PUT` of each scenario, as yet unknown."""
    pick = random.Random(SEED)
    return [
        _request(
            "PUT",
            _scenario_path(number),
            {
                "description": f"Run {number} of the second quarter: the base model on a longer context",
                "labels": {"team": pick.choice(["llm", "vision", "speech"]), "quarter": "2027-q2"},
                "request": seven_values(pick),
            },
        )
        for number in range(SCENARIOS)
    ]


def scenario_reads(answers: list[bytes]) -> list[Exchange]:
    """`GET` of each scenario in no order, given what the service answered when it was saved."""
    reads = [Exchange(_request("GET", _scenario_path(number), None), answer) for number, answer in enumerate(answers)]
    random.Random(SEED).shuffle(reads)
    return reads


def seven_values(pick: random.Random) -> dict[str, Any]:
    """The request of the classic calculator."""
    return {
        "cluster": {"gpu_count": pick.randint(1, 4096)},
        "work": {"kind": "gpu_hours", "hours": round(pick.uniform(1, 2000), 2)},
        "scaling": {"kind": "fixed", "efficiency_percent": round(pick.uniform(60, 98), 1)},
        "rework": {"kind": "buffer", "rework_percent": round(pick.uniform(1, 30), 1)},
        "price": {"kind": "hourly", "amount": f"{pick.uniform(1, 9):.2f}"},
        "storage": {"kind": "fixed", "amount": f"{pick.uniform(10, 5000):.2f}"},
        "egress": {"kind": "fixed", "amount": f"{pick.uniform(10, 5000):.2f}"},
    }


def same_json(one: bytes, other: bytes) -> bool:
    """Whether both say the same, however they write it."""
    return one == other or json.loads(one) == json.loads(other)


def _estimate_exchange(body: dict[str, Any], tables: InMemory | None = None) -> Exchange:
    answer = encoded(estimate(decoder.decode(json.dumps(body)), tables=tables))
    return Exchange(_request("POST", "/v1/estimates", body), answer)


def _scenario_path(number: int) -> str:
    return f"/v1/scenarios/run-{number:04}"


def _request(method: str, path: str, body: dict[str, Any] | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", "User-Agent: bench", "Accept: application/json"]
    content = b"" if body is None else json.dumps(body).encode()
    if content:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content
