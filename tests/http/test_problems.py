"""Errors as a caller sees them: one shape, documented types, nothing of the inside."""

import logging
import re
from typing import Any, cast

import httpx
import pytest
from litestar import get

from service.errors import Fault
from service.http.edge import Edge
from service.http.problems import HANDLERS, KINDS, Problem
from service.logs import OneLine
from tests.support.server import ROOT


async def test_every_type_is_found_at_its_path(api: httpx.AsyncClient) -> None:
    listed = (await api.get("/errors")).json()["items"]
    assert {item["type"] for item in listed} == {f"/errors/{code}" for code in KINDS}
    for item in listed:
        found = await api.get(item["type"])
        assert found.json() == item
    assert (await api.get("/errors/no-such-error")).status_code == 404


def test_the_document_of_errors_lists_every_type() -> None:
    rows = re.findall(r"^\| `/errors/([a-z-]+)` \| (\d+) \| (.+?) \| (.+?) \|$", docs("errors.md"), re.MULTILINE)
    assert rows == [(code, str(kind.status), kind.title, kind.meaning) for code, kind in KINDS.items()]


def docs(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.fixture
def broken() -> httpx.AsyncClient:
    """An application with a handler that fails, whatever it is asked for."""

    @get("/fails", media_type="text/csv")
    async def fails() -> str:
        raise RuntimeError("the secret is 42")

    app = Edge([fails], exception_handlers=HANDLERS, openapi_config=None, logging_config=None)
    transport = httpx.ASGITransport(cast("Any", app), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://traincost.test")


async def test_a_fault_of_ours_tells_the_caller_nothing_and_the_log_all(
    broken: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = await broken.get("/fails")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"  # although the route gives text/csv
    assert "secret" not in answer.text
    assert "RuntimeError" not in answer.text
    assert answer.json()["instance"].startswith("urn:uuid:")
    assert answer.json()["instance"] in caplog.text
    assert "the secret is 42" in caplog.text


def test_a_log_message_stays_on_its_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "one\nERROR two\r\nthree", None, None)
    written = OneLine("%(levelname)s %(message)s").format(record)
    assert len([line for line in written.splitlines() if not line.startswith(" ")]) == 1


def test_a_fault_says_in_where() -> None:
    assert Fault.__struct_encode_fields__ == ("in", "pointer", "message")
    assert Problem.__struct_encode_fields__ == ("type", "title", "status", "detail", "instance", "errors")


async def test_errors_may_not_be_kept(api: httpx.AsyncClient) -> None:
    assert (await api.get("/nope")).headers["cache-control"] == "no-store"
