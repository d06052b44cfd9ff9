"""The straight way and the long way give the same answers; only the time differs."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimates.operations import estimate, takes_long
from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import DuplicateKey
from service.http.encoding import encoded
from service.http.requests import distinct_document
from service.http.straight import Straight
from tests.support.examples import EXAMPLES

STRAIGHT = {"Content-Type": "application/json"}
LONG = {"Content-Type": "application/json; charset=utf-8"}  # the same to a caller, and not taken straight

BODIES: dict[str, str] = {
    **{example.total: json.dumps(example.body) for example in EXAMPLES},
    "empty": "{}",
    "a time, which holds colons": '{"start_at":"2027-01-04T09:00:00+01:00"}',
    "an integral float": '{"cluster":{"gpu_count":64.0}}',
    "an escape": '{"cluster":{"gpu":"l40\\u0073"}}',
    "no ASCII": '{"cluster":{"gpu":"h\u00e9"}}',
    "a key twice": '{"cluster":{},"cluster":{}}',
    "a key twice within": '{"work":{"kind":"gpu_hours","hours":1,"hours":2}}',
    "a broken rule": '{"budget":{}}',
    "no JSON": "{",
    "no schema": '{"cluster":{"gpu_count":0}}',
    "too large": " " * 1_000_001,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_both_ways_answer_alike(api: httpx.AsyncClient, body: str) -> None:
    straight = await api.post("/v1/estimates", content=body.encode(), headers=STRAIGHT)
    long = await api.post("/v1/estimates", content=body.encode(), headers=LONG)
    assert straight.status_code == long.status_code
    assert straight.content == long.content
    assert straight.headers.pop("x-request-id") != long.headers.pop("x-request-id")
    assert straight.headers == long.headers


async def answered_straight(body: bytes, **scope: Any) -> bool:
    """Whether the middleware answers by itself, or hands the request on with its body whole."""
    went_on: list[bytes] = []
    sent: list[Any] = []

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        went_on.append((await receive())["body"])

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    middleware = Straight(app, EstimateRequest, lambda request, _scope: encoded(estimate(request)), takes_long)
    headers = [(b"content-type", b"application/json")]
    await middleware({"query_string": b"", "headers": headers, **scope}, receive, send)  # type: ignore[arg-type]
    assert bool(sent) != bool(went_on)
    assert went_on in ([], [body])
    return bool(sent)


async def test_only_a_plain_good_request_goes_straight() -> None:
    assert await answered_straight(b"{}")
    assert await answered_straight(json.dumps(EXAMPLES[0].body).encode())
    assert not await answered_straight(b"{}", query_string=b"a=1")
    assert not await answered_straight(b"{}", headers=[(b"content-type", b"text/plain")])
    assert not await answered_straight(b"{}", headers=[])
    for name in ("an escape", "no ASCII", "a key twice", "a key twice within", "a broken rule", "no JSON"):
        assert not await answered_straight(BODIES[name].encode()), name


keys = st.sampled_from(["a", "b", "c:", ":"])
values = st.recursive(st.integers() | st.sampled_from([":", "x"]), lambda inner: st.lists(st.tuples(keys, inner)))


def written(value: Any) -> str:
    """JSON with every pair of a list of pairs, equal keys too."""
    if isinstance(value, list):
        return "{" + ",".join(f"{json.dumps(key)}:{written(inner)}" for key, inner in value) + "}"
    return json.dumps(value)


def has_twins(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    names = [key for key, _ in value]
    return len(set(names)) < len(names) or any(has_twins(inner) for _, inner in value)


@given(values)
def test_a_key_given_twice_is_found_wherever_it_is(value: Any) -> None:
    try:
        document = distinct_document(written(value).encode())
    except DuplicateKey:
        assert has_twins(value)
    else:
        assert not has_twins(value)
        assert document == json.loads(written(value))
