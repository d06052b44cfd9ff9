"""A database of the first release, brought up to date, down again and up: every stored answer byte for byte."""

import asyncio
import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from alembic import command
from sqlalchemy import Connection, text

from service.estimates.operations import estimate
from service.estimates.schemas import Cluster, EstimateRequest
from service.http.encoding import encoded
from service.http.text import name_key
from service.storage.schema import migrate, migration_config
from tests.conftest import BACKENDS, client_of
from tests.migrations.databases import on
from tests.support.postgres import Postgres

COUNT = 10_000
DELETED = 7  # every seventh
FIRST_RELEASE = "0001"


@pytest.fixture(params=BACKENDS)
def first_release(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """As the first release left it: 10,000 scenarios, some of them deleted, with the answers that it gave."""
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path / 'first.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database()
    asyncio.run(migrate(url, FIRST_RELEASE))
    on(url, fill)
    return url


def fill(connection: Connection) -> None:
    sqlite = connection.dialect.name == "sqlite"
    at: Any = datetime.datetime(2026, 11, 2, 9, 30, 0, 123456, datetime.UTC)
    at = "2026-11-02 09:30:00.123456" if sqlite else at
    rows = []
    for number in range(1, COUNT + 1):
        request = EstimateRequest(cluster=Cluster(gpu_count=number))
        answer = estimate(request)
        total = answer.cost.total
        rows.append(
            {
                "name": f"Run {number:05}",
                "key": name_key(f"Run {number:05}"),
                "description": f"Straße {number}",
                "labels": f'{{"team": "t{number % 5}", "q": "\u00e9"}}',
                # What this release would write otherwise: it must be kept, not written anew.
                "request": encoded(request).replace(b":", b": ", 1),
                "estimate": encoded(answer)[:-1] + b',"old":true}',
                "total": int(total * 1_000_000) if sqlite else total,
                "version": 1 + number % 3,
                "at": at,
                "deleted": at if number % DELETED == 0 else None,
            }
        )
    labels = ":labels" if sqlite else "CAST(:labels AS JSONB)"
    connection.execute(
        text(
            "INSERT INTO scenarios (project_id, name, name_key, description, labels, request, estimate, currency, "
            "total, model_version, version, created_at, updated_at, deleted_at) VALUES (1, :name, :key, :description, "
            f"{labels}, :request, :estimate, 'USD', :total, '0.1', :version, :at, :at, :deleted)"
        ),
        rows,
    )


def before(connection: Connection) -> list[Any]:
    return [
        tuple(row)
        for row in connection.execute(
            text(
                "SELECT id, name, description, labels, request, estimate, currency, total, model_version, version, "
                "created_at, updated_at, deleted_at FROM scenarios ORDER BY id"
            )
        )
    ]


def after(connection: Connection) -> list[Any]:
    return [
        tuple(row)
        for row in connection.execute(
            text(
                "SELECT s.id, s.name, s.description, s.labels, r.request, r.estimate, r.currency, r.total, "
                "r.model_version, s.version, s.created_at, s.updated_at, s.deleted_at FROM scenarios s "
                "JOIN scenario_revisions r ON r.scenario_id = s.id AND r.number = 1 AND s.latest_number = 1 "
                "ORDER BY s.id"
            )
        )
    ]


def counts(connection: Connection) -> tuple[Any, ...]:
    return tuple(
        connection.scalar(text(f"SELECT count(*) FROM {table}"))
        for table in ("scenario_revisions", "scenario_labels", "scenario_shares")
    )


def test_ten_thousand_scenarios_keep_their_answers_up_down_and_up_again(first_release: str) -> None:
    url = first_release
    kept = on(url, before)
    assert len(kept) == COUNT
    asyncio.run(migrate(url))
    assert on(url, after) == kept
    assert on(url, counts) == (COUNT, 2 * COUNT, 0)
    on(url, lambda connection: command.downgrade(migration_config(connection), FIRST_RELEASE))
    assert on(url, before) == kept
    asyncio.run(migrate(url))
    assert on(url, after) == kept
    asyncio.run(served(url, kept))


async def served(url: str, kept: list[Any]) -> None:
    """The service shows them, finds them and goes on from them."""
    async with client_of(url) as api:
        found = await api.get("/v1/scenarios/RUN 00001")
        assert kept[0][4] in found.content
        assert kept[0][5] in found.content
        revision = await api.get("/v1/scenarios/run 00001/revisions/1")
        assert revision.json()["author"] is None
        assert kept[0][5] in revision.content
        listed = await api.get("/v1/scenarios", params={"label": "team:t1", "q": "STRASSE 1", "limit": 200})
        names = [item["name"] for item in listed.json()["items"]]
        assert names[:2] == ["Run 00001", "Run 00011"]
        assert (await api.get("/v1/scenarios/Run 00007")).status_code == 404
        assert (await api.post("/v1/scenarios/Run 00007/restore")).status_code == 200
        saved = await replace(api, "Run 00001", found.headers["etag"])
        assert saved.json()["revision"] == 2
        new = await api.put("/v1/scenarios/new", json={"request": {}})
        assert new.status_code == 201
        assert int(new.headers["etag"].strip('"').partition("-")[0]) > COUNT


async def replace(api: httpx.AsyncClient, name: str, etag: str) -> httpx.Response:
    return await api.put(f"/v1/scenarios/{name}", json={"request": {}}, headers={"If-Match": etag})
