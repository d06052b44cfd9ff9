"""A database that fails: 503 that says when to come back, never a success that was not stored."""

import asyncio
from pathlib import Path

import httpx
import pytest
from sqlalchemy import event

from service.storage.schema import migrate
from tests.conftest import client_of
from tests.support.postgres import Postgres
from tests.support.server import Server

BODY: dict[str, dict[str, object]] = {"request": {}}


def assert_unavailable(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/errors/unavailable"
    assert int(answer.headers["retry-after"]) > 0


async def test_a_failed_commit_is_no_success(database_url: str) -> None:
    async with client_of(database_url) as api:
        client = api._transport.app  # type: ignore[attr-defined]

        def fail(_: object) -> None:
            raise OSError("the disk is full")

        event.listen(client.state.database.engine.sync_engine, "commit", fail)
        assert_unavailable(await api.put("/v1/scenarios/x", json=BODY))
        event.remove(client.state.database.engine.sync_engine, "commit", fail)
        assert (await api.get("/v1/scenarios/x")).status_code == 404
        assert (await api.put("/v1/scenarios/x", json=BODY)).status_code == 201


async def test_without_a_database_estimates_go_on(tmp_path: Path) -> None:
    async with client_of(f"sqlite+aiosqlite:///{tmp_path / 'missing' / 'none.db'}") as api:
        assert (await api.post("/v1/estimates", json={})).status_code == 200
        assert (await api.get("/health/live")).status_code == 200
        assert_unavailable(await api.get("/v1/scenarios"))
        assert_unavailable(await api.put("/v1/scenarios/x", json=BODY))
        assert_unavailable(await api.get("/health/ready"))


async def test_an_unmigrated_database_is_not_ready(tmp_path: Path) -> None:
    async with client_of(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}") as api:
        assert_unavailable(await api.get("/health/ready"))


def test_service_resumes_when_postgresql_comes_back() -> None:
    postgres = Postgres()
    try:
        url = postgres.new_database()
        asyncio.run(migrate(url))
        with Server(url) as server, httpx.Client(base_url=server.base, timeout=30, trust_env=False) as client:
            assert client.put("/v1/scenarios/x", json=BODY).status_code == 201
            postgres.stop()
            for _ in range(12):  # more often than there are pooled connections
                assert_unavailable(client.get("/v1/scenarios/x"))
            assert_unavailable(client.get("/health/ready"))
            assert client.post("/v1/estimates", json={}).status_code == 200
            postgres.start()
            assert client.get("/health/ready").status_code == 200
            assert client.get("/v1/scenarios/x").status_code == 200
            assert client.put("/v1/scenarios/y", json=BODY).status_code == 201
    finally:
        postgres.close()


async def test_a_busy_pool_waits_instead_of_failing(database_url: str) -> None:
    async with client_of(database_url, pool_size=1) as api:
        await api.put("/v1/scenarios/x", json=BODY)
        answers = await asyncio.gather(*(api.get("/v1/scenarios/x") for _ in range(50)))
        assert {answer.status_code for answer in answers} == {200}


@pytest.mark.parametrize("path", ["/v1/scenarios/x", "/v1/scenarios"])
async def test_ready_and_reads_agree(database_url: str, path: str) -> None:
    async with client_of(database_url) as api:
        assert (await api.get("/health/ready")).status_code == 200
        assert (await api.get(path)).status_code in (200, 404)
