"""Every answer carries an id: the caller's own where it may stand in a header and a log line, else a new one."""

import logging
import uuid

import httpx
import pytest

from service.logs import REQUEST_ID, OneLine
from tests.conftest import NewDatabase, client_of
from tests.support.server import Server

PATHS = ["/health/live", "/v1/gpus", "/v1/estimates", "/v1/scenarios/none", "/nowhere", "/v1/scenarios/a%2Fb"]


@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_has_one(api: httpx.AsyncClient, path: str) -> None:
    ids = [(await api.get(path)).headers["x-request-id"] for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(str(uuid.UUID(one)) == one and uuid.UUID(one).version == 8 for one in ids)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("sent", ["7", "trace:1.2_a-b", "x" * 100, "5d5a6c1e-7d2b-4a7e-9a53-0c5f8f6d1f11"])
async def test_the_callers_own_is_kept(api: httpx.AsyncClient, path: str, sent: str) -> None:
    assert (await api.get(path, headers={"X-Request-ID": sent})).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["", " ", "a b", "-a", "x" * 101, "a\tb", "<b>", "a,b", "\u00e9", "a\x0bb", "=1+1"])
async def test_what_may_not_stand_in_a_log_line_is_replaced(api: httpx.AsyncClient, sent: str) -> None:
    answer = await api.get("/health/live", headers=[(b"x-request-id", sent.encode())])
    assert uuid.UUID(answer.headers["x-request-id"]).version == 8


async def test_no_two_processes_make_the_same(new_database: NewDatabase) -> None:
    url = new_database("sqlite")
    async with client_of(url) as one, client_of(url) as other:
        ids = {(await api.get("/health/live")).headers["x-request-id"] for api in (one, other) for _ in range(5)}
    assert len(ids) == 10


def test_a_line_of_the_log_names_the_request() -> None:
    record = logging.LogRecord("name", logging.ERROR, "", 1, "went\nwrong", None, None)
    formatter = OneLine("%(name)s [%(request_id)s] %(message)s")
    token = REQUEST_ID.set(b"job-7")
    assert formatter.format(record) == "name [job-7] went\n    wrong"
    REQUEST_ID.reset(token)


def test_what_a_server_logs_of_a_failure_has_the_id_that_the_caller_has(new_database: NewDatabase) -> None:
    url = new_database("sqlite")
    with Server(url) as server:
        file = url.removeprefix("sqlite+aiosqlite:///")
        import sqlite3

        with sqlite3.connect(file) as connection:
            connection.execute("DROP TABLE scenarios")
        connection.close()
        answer = httpx.get(f"{server.base}/v1/scenarios", headers={"X-Request-ID": "job-7"}, trust_env=False)
        other = httpx.get(f"{server.base}/v1/scenarios", trust_env=False)
        printed = server.stop()
    for one in (answer, other):
        assert one.status_code in (500, 503), one.text
        assert f"[{one.headers['x-request-id']}]" in printed
    if other.status_code == 500:
        assert other.json()["instance"] == f"urn:uuid:{other.headers['x-request-id']}"
