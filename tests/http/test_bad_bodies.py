"""Bodies that are wrong: each is a problem that names the field, and changes nothing."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from service.estimates.schemas import EstimateRequest

JSON = {"Content-Type": "application/json"}
FIELDS = set(EstimateRequest.__struct_fields__)


async def post(api: httpx.AsyncClient, body: bytes | str, headers: dict[str, str] = JSON) -> httpx.Response:
    return await api.post("/v1/estimates", content=body, headers=headers)


def assert_problem(answer: httpx.Response, status: int, code: str, pointer: str, where: str = "body") -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["type"] == f"/errors/{code}"
    assert problem["status"] == status
    assert set(problem) == {"type", "title", "status", "detail", "instance", "errors"}
    assert {"in": where, "pointer": pointer} in [
        {"in": fault["in"], "pointer": fault["pointer"]} for fault in problem["errors"]
    ], problem
    return problem


NOT_JSON = {
    "empty": b"",
    "cut off": b'{"work":',
    "trailing": b"{} x",
    "NaN": b'{"work":{"kind":"gpu_hours","hours":NaN}}',
    "Infinity": b'{"work":{"kind":"gpu_hours","hours":-Infinity}}',
    "UTF-16": '{"budget":null}'.encode("utf-16"),
    "Latin-1": b'{"cluster":{"gpu":"\xe9"}}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "single quotes": b"{'work': 1}",
    "open brackets": b"[" * 100_000,
    "closed brackets": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"work":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    "control character": b'{"cluster":{"gpu":"a\x01"}}',
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
async def test_what_is_no_json_is_refused_as_a_whole(api: httpx.AsyncClient, body: bytes) -> None:
    assert_problem(await post(api, body), 400, "malformed-json", "")


AGAINST_THE_SCHEMA = {
    "zero GPUs": ('{"cluster":{"gpu_count":0}}', "/cluster/gpu_count"),
    "negative GPUs": ('{"cluster":{"gpu_count":-1}}', "/cluster/gpu_count"),
    "half a GPU": ('{"cluster":{"gpu_count":1.5}}', "/cluster/gpu_count"),
    "too many GPUs": ('{"cluster":{"gpu_count":1000001}}', "/cluster/gpu_count"),
    "a boolean for a count": ('{"cluster":{"gpu_count":true}}', "/cluster/gpu_count"),
    "a string for a count": ('{"cluster":{"gpu_count":"64"}}', "/cluster/gpu_count"),
    "a huge count": (f'{{"cluster":{{"gpu_count":{"9" * 5000}}}}}', "/cluster/gpu_count"),
    "efficiency 0": ('{"scaling":{"kind":"fixed","efficiency_percent":0}}', "/scaling/efficiency_percent"),
    "efficiency 101": ('{"scaling":{"kind":"fixed","efficiency_percent":101}}', "/scaling/efficiency_percent"),
    "efficiency as text": ('{"scaling":{"kind":"fixed","efficiency_percent":"80"}}', "/scaling/efficiency_percent"),
    "hours 1e400": ('{"work":{"kind":"gpu_hours","hours":1e400}}', "/work/hours"),
    "hours of 5,000 digits": (f'{{"work":{{"kind":"gpu_hours","hours":{"1" * 5000}}}}}', "/work/hours"),
    "no hours": ('{"work":{"kind":"gpu_hours"}}', "/work/hours"),
    "zero hours": ('{"work":{"kind":"gpu_hours","hours":0}}', "/work/hours"),
    "negative rework": ('{"rework":{"kind":"buffer","rework_percent":-1}}', "/rework/rework_percent"),
    "negative price": ('{"price":{"kind":"hourly","amount":-1}}', "/price/amount"),
    "negative price as text": ('{"price":{"kind":"hourly","amount":"-1"}}', "/price/amount"),
    "price with exponent": ('{"price":{"kind":"hourly","amount":"1e3"}}', "/price/amount"),
    "price NaN": ('{"price":{"kind":"hourly","amount":"NaN"}}', "/price/amount"),
    "price with 13 digits": ('{"price":{"kind":"hourly","amount":"1000000000000"}}', "/price/amount"),
    "price with 7 decimals": ('{"price":{"kind":"hourly","amount":"0.0000001"}}', "/price/amount"),
    "price as an object": ('{"price":{"kind":"hourly","amount":{}}}', "/price/amount"),
    "price with a line feed": ('{"price":{"kind":"hourly","amount":"1\\n"}}', "/price/amount"),
    "Arabic digits": ('{"price":{"kind":"hourly","amount":"\u0661"}}', "/price/amount"),
    "lower-case currency": ('{"price":{"kind":"hourly","amount":1,"currency":"usd"}}', "/price/currency"),
    "unknown unit": ('{"price":{"kind":"hourly","amount":1,"per":"rack"}}', "/price/per"),
    "naive date": ('{"start_at":"2027-01-04T09:00:00"}', "/start_at"),
    "a date without time": ('{"start_at":"2027-01-04"}', "/start_at"),
    "year 12027": ('{"start_at":"12027-01-04T09:00:00Z"}', "/start_at"),
    "no kind": ('{"work":{"hours":120}}', "/work/kind"),
    "no kind in a union": ('{"scaling":{"efficiency_percent":80}}', "/scaling/kind"),
    "unknown kind": ('{"work":{"kind":"tokens","hours":1}}', "/work/kind"),
    "unknown kind in a union": ('{"scaling":{"kind":"magic"}}', "/scaling/kind"),
    "a member of another kind": (
        '{"scaling":{"kind":"fixed","efficiency_percent":80,"preset":"x"}}',
        "/scaling/preset",
    ),
    "unknown section": ('{"gpus":64}', "/gpus"),
    "unknown field": ('{"cluster":{"gpus":64}}', "/cluster/gpus"),
    "null for a section": ('{"work":null}', "/work"),
    "an array": ("[]", ""),
    "a string": ('"x"', ""),
    "null": ("null", ""),
}


@pytest.mark.parametrize(("body", "pointer"), AGAINST_THE_SCHEMA.values(), ids=AGAINST_THE_SCHEMA.keys())
async def test_what_breaks_the_schema_names_the_field(api: httpx.AsyncClient, body: str, pointer: str) -> None:
    assert_problem(await post(api, body), 422, "invalid-body", pointer)


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ('{"price":{"kind":"hourly","amount":1,"per":"rack"}}', "gpu, node"),
        ('{"scaling":{"kind":"magic"}}', "communication, fixed, interconnect, measured, model"),
        ('{"work":{"kind":"tokens","hours":1}}', "gpu_hours, throughput, transformer"),
        ('{"cluster":{"gpus":64}}', "gpu, gpu_count, gpus_per_node, allow_announced, custom_gpu, interconnect"),
        ('{"gpus":64}', ", ".join(sorted(FIELDS))),
        (
            '{"work":{"kind":"transformer","model":"llama-3-8b","training":"lora","lora":{"targets":["query","q"]}}}',
            "query, key, value, output, gate, up, down",
        ),
        ('{"scaling":{"kind":"measured","points":[{"gpus":8}]}}', "gpu_count, tokens_per_second, step_seconds"),
    ],
)
async def test_the_allowed_values_are_named(api: httpx.AsyncClient, body: str, allowed: str) -> None:
    message = (await post(api, body)).json()["errors"][0]["message"]
    said = message.partition(": ")[2]
    assert sorted(said.split(", ")) == sorted(allowed.split(", "))


async def test_the_first_error_of_each_section_is_reported(api: httpx.AsyncClient) -> None:
    body = '{"cluster":{"gpu_count":0},"work":{"kind":"gpu_hours","hours":-1},"rework":5,"nope":1}'
    problem = assert_problem(await post(api, body), 422, "invalid-body", "/cluster/gpu_count")
    assert [fault["pointer"] for fault in problem["errors"]] == [
        "/cluster/gpu_count",
        "/work/hours",
        "/rework",
        "/nope",
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"work":{"kind":"gpu_hours","hours":1},"work":{"kind":"gpu_hours","hours":2}}', "/work"),
        ('{"work":{"kind":"gpu_hours","hours":1,"hours":1}}', "/work/hours"),
        ('{"scaling":{"kind":"fixed","kind":"fixed","efficiency_percent":80}}', "/scaling/kind"),
        ('{"a/b~c":1,"a/b~c":2}', "/a~1b~0c"),
        ('{"work":{"kind":"gpu_hours","hours":1,"\\u0068ours":2}}', "/work/hours"),
    ],
)
async def test_a_key_given_twice_is_refused(api: httpx.AsyncClient, body: str, pointer: str) -> None:
    assert_problem(await post(api, body), 422, "duplicate-key", pointer)


@pytest.mark.parametrize(
    "character", ["\\u0000", "\\ud800", "\\udc00\\ud800", "\\u202e", "\\u2066", "\\u0085", "\u202e"]
)
async def test_forbidden_characters_are_refused(api: httpx.AsyncClient, character: str) -> None:
    for body in (f'{{"cluster":{{"gpu":"h100{character}"}}}}', f'{{"cluster":{{"gpu":"{character}"}}}}'):
        problem = assert_problem(await post(api, body), 422, "invalid-text", "/cluster/gpu")
        assert "U+" in problem["errors"][0]["message"]


async def test_a_surrogate_pair_is_one_character(api: httpx.AsyncClient) -> None:
    answer = await api.put("/v1/scenarios/x", content=b'{"request":{},"description":"\\ud83d\\ude80"}', headers=JSON)
    assert answer.status_code == 201
    assert answer.json()["description"] == "\U0001f680"


@pytest.mark.parametrize("number", ["33.0", "3.3e1", "33"])
async def test_an_integer_may_be_written_as_json_schema_allows(api: httpx.AsyncClient, number: str) -> None:
    answer = await post(api, f'{{"cluster":{{"gpu_count":{number}}}}}')
    assert answer.status_code == 200, answer.text
    assert answer.json()["assumptions"][0]["value"] == 33


async def test_a_price_of_too_many_digits_breaks_a_rule_not_the_schema(api: httpx.AsyncClient) -> None:
    answer = await post(api, '{"price":{"kind":"hourly","amount":2.1234567}}')
    assert_problem(answer, 422, "broken-rule", "/price/amount")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/xml", "application/msgpack", "application/json; charset=utf-16", "", "json"],
)
async def test_only_json_bodies_are_read(api: httpx.AsyncClient, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    assert_problem(await post(api, "{}", headers), 415, "unsupported-media-type", "Content-Type", "header")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ;"])
async def test_spellings_of_json_are_read(api: httpx.AsyncClient, content_type: str) -> None:
    assert (await post(api, "{}", {"Content-Type": content_type})).status_code == 200


async def test_a_body_of_2_mb_is_too_large(api: httpx.AsyncClient) -> None:
    assert_problem(await post(api, b'"' + b"x" * 2_000_000 + b'"'), 413, "body-too-large", "")
    assert (await post(api, b" " * 999_990 + b"{}")).status_code == 200


async def test_a_body_that_comes_in_pieces_is_read_and_limited(api: httpx.AsyncClient) -> None:
    async def pieces(count: int) -> Any:
        yield b"{"
        for _ in range(count):
            yield b" " * 100_000
        yield b"}"

    answer = await api.post("/v1/estimates", content=pieces(3), headers=JSON)
    assert answer.status_code == 200
    assert_problem(await api.post("/v1/estimates", content=pieces(30), headers=JSON), 413, "body-too-large", "")


async def test_a_refused_body_stores_nothing(stored_api: httpx.AsyncClient) -> None:
    for body in (*NOT_JSON.values(), *(json.dumps({"request": {"gpus": 1}}).encode(), b"{}", b'{"request":{},"x":1}')):
        answer = await stored_api.put("/v1/scenarios/kept-clean", content=body, headers=JSON)
        assert answer.status_code in (400, 422), answer.text
    assert (await stored_api.get("/v1/scenarios")).json()["items"] == []


async def test_an_encoded_body_and_two_types_are_refused(api: httpx.AsyncClient) -> None:
    encoded = await post(api, "{}", {**JSON, "Content-Encoding": "gzip"})
    assert_problem(encoded, 415, "unsupported-media-type", "Content-Encoding", "header")
    twice = await api.post(
        "/v1/estimates", content=b"{}", headers=[("Content-Type", "application/json"), ("Content-Type", "text/plain")]
    )
    assert_problem(twice, 415, "unsupported-media-type", "Content-Type", "header")


async def test_an_answer_quotes_only_as_much_as_helps(api: httpx.AsyncClient) -> None:
    huge = "x" * 900_000
    for body in (f'{{"{huge}":1}}', f'{{"price":{{"kind":"hourly","amount":1,"currency":"{huge}"}}}}'):
        answer = await post(api, body)
        assert answer.status_code == 422
        assert len(answer.content) < 20_000
    many = "{" + ",".join(f'"k{i}":1' for i in range(50_000)) + "}"
    answer = await post(api, many)
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 20


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/scenarios/run/approve"),
        ("POST", "/v1/scenarios/run/reopen"),
        ("DELETE", "/v1/scenarios/run"),
        ("GET", "/v1/scenarios/run"),
        ("GET", "/v1/gpus"),
        ("GET", "/health/live"),
    ],
)
@pytest.mark.parametrize(("content", "kind"), [(b'{"note":"why"}', "application/json"), (b"garbage", "text/plain")])
async def test_a_body_where_none_is_taken_is_refused_and_nothing_is_done(
    api: httpx.AsyncClient, method: str, path: str, content: bytes, kind: str
) -> None:
    stored = await api.put("/v1/scenarios/run", json={"request": {}})
    headers = {"Content-Type": kind, **({} if method == "GET" else {"If-Match": "*"})}
    answer = await api.request(method, path, content=content, headers=headers)
    assert_problem(answer, 400, "malformed-request", "")
    assert (await api.get("/v1/scenarios/run")).content == stored.content


async def test_a_body_of_no_bytes_is_none(api: httpx.AsyncClient) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    await api.put("/v1/scenarios/run", json={"request": {}})
    for content in (b"", nothing()):
        answer = await api.post("/v1/scenarios/run/approve", content=content, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text
