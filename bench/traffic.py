"""What is asked and what must be answered: seeded, and all different, so that no answer can be remembered."""

import datetime
import json
import random
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from bench.load import HOST, Exchange
from bench.workloads import decoder, full_bodies
from service.estimates.operations import estimate
from service.http.encoding import encoded
from service.scenarios.heads import GENERATION
from tests.support.tables import InMemory, list_prices

SEED = 20270104
ESTIMATES = 3000
SCENARIOS = 1000
_TURNS = 4  # so many different requests for each scenario, one after the other
_FOREVER = 10**9
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
    return [_request("PUT", scenario_path(number), _scenario_body(number, pick)) for number in range(SCENARIOS)]


class _Replacement(Struct, frozen=True):
    """A `PUT` without its tag, and the answer without its version."""

    head: bytes
    content: bytes
    answer: bytes


class Replacements:
    """`PUT` over one scenario after the other, again and again, each on the version that the one before has made.

    `ids` are those of the scenarios, all of version 1. Every request is another than the last for its scenario, so that
    it makes a revision; every second one has other labels as well.
    """

    def __init__(self, ids: Sequence[int]) -> None:
        pick = random.Random(SEED + 1)
        self._ids = ids
        self._made = [_replacement(number, turn, pick) for turn in range(_TURNS) for number in range(SCENARIOS)]

    def __len__(self) -> int:
        return _FOREVER

    def __getitem__(self, place: int, /) -> Exchange:
        made = self._made[place % len(self._made)]
        version = place // SCENARIOS + 1
        tag = b'"%d-%d-%d"' % (self._ids[place % SCENARIOS], version, GENERATION)
        told = b'%s, "version": %d, "revision": %d}' % (made.answer, version + 1, version + 1)
        return Exchange(b"%s\r\nIf-Match: %s\r\n\r\n%s" % (made.head, tag, made.content), told)


def _replacement(number: int, turn: int, pick: random.Random) -> _Replacement:
    body = _scenario_body(number, pick)
    body["labels"]["quarter"] = f"2027-q{2 + turn // 2}"
    body |= {"owner": "ml-infra@example.com", "note": f"As of review {turn + 1}"}
    # What the request leaves open, each would keep in its own way.
    body["request"]["cluster"]["gpus_per_node"] = 8
    body["request"]["work"]["basis"] = "per_gpu"
    body["request"]["price"] |= {"currency": "USD", "per": "gpu"}
    head, _, content = _request("PUT", scenario_path(number), body).partition(b"\r\n\r\n")
    asked = decoder.decode(json.dumps(body["request"]))
    answer = estimate(asked)
    told = {
        "name": scenario_name(number),
        **{key: body[key] for key in ("description", "labels", "owner")},
        "request": json.loads(encoded(asked)),
        "estimate": json.loads(encoded(answer)),
        "model_version": answer.model_version,
        "status": "draft",
        **dict.fromkeys(("approved_revision", "cost_centre", "planned_start", "budget", "verdict")),
    }
    return _Replacement(head, content, json.dumps(told).encode()[:-1])


def _scenario_body(number: int, pick: random.Random) -> dict[str, Any]:
    return {
        "description": f"Run {number} of the second quarter: the base model on a longer context",
        "labels": {"team": pick.choice(["llm", "vision", "speech"]), "quarter": "2027-q2"},
        "request": seven_values(pick),
    }


def scenario_reads(answers: list[bytes]) -> list[Exchange]:
    """`GET` of each scenario in no order, given what the service answered when it was saved."""
    reads = [Exchange(_request("GET", scenario_path(number), None), answer) for number, answer in enumerate(answers)]
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


def same_apart_from_times(scenario: bytes, expected: bytes) -> bool:
    """Whether a scenario is as expected, which says nothing of when it was written."""
    told: dict[str, Any] = json.loads(scenario)
    created_at, updated_at = (datetime.datetime.fromisoformat(told.pop(key)) for key in ("created_at", "updated_at"))
    return created_at < updated_at and told == json.loads(expected)


def _estimate_exchange(body: dict[str, Any], tables: InMemory | None = None) -> Exchange:
    answer = encoded(estimate(decoder.decode(json.dumps(body)), tables=tables))
    return Exchange(_request("POST", "/v1/estimates", body), answer)


def scenario_name(number: int) -> str:
    """What a scenario is called."""
    return f"run-{number:04}"


def scenario_path(number: int) -> str:
    """Where it is."""
    return f"/v1/scenarios/{scenario_name(number)}"


def _request(method: str, path: str, body: dict[str, Any] | None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", "User-Agent: bench", "Accept: application/json"]
    content = b"" if body is None else json.dumps(body).encode()
    if content:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content
