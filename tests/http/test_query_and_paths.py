"""Query strings and paths that are wrong, and methods that a path does not answer to."""

import socket
from urllib.parse import quote

import httpx
import pytest

from tests.support.server import Server

PATHS = [
    "/v1/estimates",
    "/v1/gpus",
    "/v1/gpus/h100-sxm-80gb",
    "/v1/interconnects",
    "/v1/scenarios",
    "/health/live",
    "/health/ready",
    "/version",
    "/errors",
    "/errors/not-found",
    "/openapi.json",
    "/openapi.yaml",
    "/docs",
]


def assert_problem(answer: httpx.Response, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"/errors/{code}"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("gpu_count=abc", "gpu_count"),
        ("gpu_count=0", "gpu_count"),
        ("gpu_count=-5", "gpu_count"),
        ("gpu_count=1.5", "gpu_count"),
        ("gpu_count=+64", "gpu_count"),
        ("gpu_count=%2B64", "gpu_count"),
        ("gpu_count=%D9%A3", "gpu_count"),
        ("gpu_count=", "gpu_count"),
        ("gpu_count=" + "9" * 5000, "gpu_count"),
        ("gpu_count=64&gpu_count=64", "gpu_count"),
        ("gpus=64", "gpus"),
        ("GPU_COUNT=64", "GPU_COUNT"),
        ("gpu_cost_per_hour=2.5x", "gpu_cost_per_hour"),
        ("gpu_cost_per_hour=-1", "gpu_cost_per_hour"),
        ("gpu_cost_per_hour=NaN", "gpu_cost_per_hour"),
        ("ideal_gpu_hours=1e400", "ideal_gpu_hours"),
        ("ideal_gpu_hours=inf", "ideal_gpu_hours"),
        ("scaling_efficiency_percent=101", "scaling_efficiency_percent"),
        ("scaling_efficiency_percent=0", "scaling_efficiency_percent"),
        ("%00=1", "\x00"),
    ],
)
async def test_a_bad_query_parameter_is_named(api: httpx.AsyncClient, query: str, field: str) -> None:
    answer = await api.get(f"/v1/estimates?{query}")
    assert_problem(answer, 400, "malformed-parameter")
    assert [(fault["in"], fault["pointer"]) for fault in answer.json()["errors"]] == [("query", field)]


async def test_every_bad_query_parameter_is_named_at_once(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/estimates?gpu_count=x&storage_cost=-&z=1")
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["gpu_count", "storage_cost", "z"]


async def test_too_many_digits_break_a_rule_in_a_query_too(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/estimates?gpu_cost_per_hour=0.0000001")
    assert_problem(answer, 422, "broken-rule")
    assert answer.json()["errors"][0]["pointer"] == "gpu_cost_per_hour"


async def test_a_query_that_is_not_utf8_is_refused(api: httpx.AsyncClient) -> None:
    assert_problem(await api.get("/v1/gpus?q=%ff"), 400, "malformed-parameter")


@pytest.mark.parametrize("path", PATHS)
async def test_an_unknown_query_parameter_is_refused_everywhere(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(f"{path}?surprise=1")
    assert_problem(answer, 400, "malformed-parameter")
    assert answer.json()["errors"][0]["pointer"] == "surprise"


async def test_a_post_takes_no_query(api: httpx.AsyncClient) -> None:
    assert_problem(await api.post("/v1/estimates?gpu_count=64", json={}), 400, "malformed-parameter")


@pytest.mark.parametrize("path", PATHS)
async def test_head_is_get_without_a_body(api: httpx.AsyncClient, path: str) -> None:
    by_get, by_head = await api.get(path), await api.head(path)
    assert by_get.status_code == by_head.status_code == 200
    assert by_head.content == b""
    assert by_head.headers.pop("x-request-id") != by_get.headers.pop("x-request-id")
    assert by_head.headers == by_get.headers


async def test_head_of_what_is_not_there_is_404(api: httpx.AsyncClient) -> None:
    answer = await api.head("/v1/scenarios/none")
    assert answer.status_code == 404
    assert answer.content == b""


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/estimates", {"GET", "HEAD", "POST", "OPTIONS"}),
        ("/v1/scenarios", {"GET", "HEAD", "OPTIONS"}),
        ("/v1/scenarios/x", {"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}),
        ("/v1/gpus", {"GET", "HEAD", "OPTIONS"}),
    ],
)
async def test_allow_lists_every_method_of_a_path(api: httpx.AsyncClient, path: str, methods: set[str]) -> None:
    options = await api.options(path)
    assert options.status_code == 204
    assert set(options.headers["allow"].split(", ")) == methods
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - methods:
        answer = await api.request(method, path)
        assert_problem(answer, 405, "method-not-allowed")
        assert set(answer.headers["allow"].split(", ")) == methods


@pytest.mark.parametrize(
    "path", ["/nope", "/v1", "/v1/nope", "/v1/gpus/a/b", "/v1/scenarios/a/b", "/docs/nope", "/docs/assets/nope"]
)
async def test_an_unknown_path_is_a_problem_too(api: httpx.AsyncClient, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = await api.request(method, path)
        if answer.status_code != 405:
            assert_problem(answer, 404, "not-found")


NAMES_THAT_ARE_NONE = [
    "a%2Fb",
    "a%2frevisions",
    "a%5Cb",
    "a%00b",
    "%00",
    "%ff",
    "%C3",
    "%0A",
    "a%0Ab",
    "%E2%80%AE",
    "%20a",
    "a%20",
]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("raw", NAMES_THAT_ARE_NONE)
def test_a_path_that_holds_no_name_is_refused_over_a_socket(shared_server: Server, raw: str, method: str) -> None:
    body = {"PATCH": b"{}", "PUT": b'{"request":{}}'}.get(method, b"")
    answer = send_raw(shared_server, method, f"/v1/scenarios/{raw}", body)
    head, _, told = answer.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"400", answer
    if method != "HEAD":
        assert b"application/problem+json" in head
        assert b'"in":"path"' in told


def send_raw(server: Server, method: str, target: str, body: bytes) -> bytes:
    """One request exactly as written: no client library may tidy up its path."""
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    request = (
        f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


@pytest.mark.parametrize(
    "name", ["plain", "two words", "50% off", "a?b", "a#b", "a&b=c", "naïve", "日本語", "🚀", "a+b", ".hidden", "%41"]
)
def test_an_ordinary_name_goes_over_a_socket_and_back(shared_server: Server, name: str) -> None:
    url = f"{shared_server.base}/v1/scenarios/{quote(name, safe='')}"
    created = httpx.put(url, json={"request": {}}, trust_env=False)
    assert created.status_code == 201, created.text
    assert created.json()["name"] == name
    assert httpx.get(shared_server.base + created.headers["location"], trust_env=False).json()["name"] == name


async def test_minus_zero_is_zero(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/estimates?gpu_cost_per_hour=-0")
    assert answer.json()["cost"]["compute"] == "0.00"


async def test_an_instance_is_a_uri_reference(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/scenarios/two%20words%C3%A9")
    assert answer.json()["instance"] == "/v1/scenarios/two%20words%C3%A9"
