"""Links that show one revision: without a key, for a while, until they are revoked; and their tokens nowhere else."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import event, text

from service.storage.database import Database
from tests.conftest import client_of
from tests.support.keys import bearer, make_key
from tests.support.server import Server

URL = "/v1/scenarios/run"
BODY: dict[str, Any] = {"request": {"cluster": {"gpu_count": 8}}, "description": "not for them", "owner": "nor this"}


@pytest.fixture
async def closed(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service asking for keys, with one scenario of two revisions; the client sends a key."""
    async with client_of(database_url, auth="on") as api:
        api.headers.update(bearer(await make_key(database_url)))
        await api.put(URL, json=BODY)
        other = {**BODY, "request": {"cluster": {"gpu_count": 16}}}
        await api.put(URL, json=other, headers={"If-Match": "*"})
        yield api


async def share(api: httpx.AsyncClient, **asked: Any) -> dict[str, Any]:
    answer = await api.post(f"{URL}/shares", json=asked)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def follow(api: httpx.AsyncClient, made: dict[str, Any]) -> httpx.Response:
    """Without any key."""
    async with httpx.AsyncClient(transport=api._transport, base_url="http://outside.test") as outside:
        return await outside.get(f"/v1/shared/{made['token']}")


async def test_a_link_shows_exactly_its_revision_without_a_key(closed: httpx.AsyncClient) -> None:
    made = await share(closed, revision=1)
    shown = await follow(closed, made)
    assert shown.status_code == 200, shown.text
    assert list(shown.json()) == ["name", "revision", "request", "estimate", "created_at"]
    first = (await closed.get(f"{URL}/revisions/1")).json()
    assert shown.json()["request"] == first["request"]
    assert shown.json()["estimate"] == first["estimate"]
    assert shown.headers["cache-control"] == "private, no-store"
    assert shown.headers["referrer-policy"] == "no-referrer"
    assert shown.headers["x-robots-tag"] == "noindex"  # a link that stands on some page is not to be found by others
    assert made["path"] == f"/v1/shared/{made['token']}"


async def test_a_link_shows_the_newest_revision_of_when_it_was_made(closed: httpx.AsyncClient) -> None:
    made = await share(closed)
    before = await follow(closed, made)
    await closed.put(URL, json={"request": {}}, headers={"If-Match": "*"})
    assert before.json()["revision"] == 2
    assert (await follow(closed, made)).content == before.content


async def test_unknown_ended_revoked_and_deleted_links_get_the_same_answer(
    closed: httpx.AsyncClient, database_url: str
) -> None:
    ended, revoked, deleted = [await share(closed) for _ in range(3)]
    assert (await closed.delete(f"{URL}/shares/{revoked['id']}")).status_code == 204
    database = Database(database_url, pool_size=1)
    async with database.engine.begin() as connection:
        statement = text("UPDATE scenario_shares SET expires_at = '2020-01-01 00:00:00' WHERE id = :id")
        await connection.execute(statement, {"id": ended["id"]})
    await database.close()
    answers = [await follow(closed, one) for one in (ended, revoked, {"token": "x" * 43})]
    await closed.delete(URL, headers={"If-Match": "*"})
    answers.append(await follow(closed, deleted))
    told = {(one.status_code, one.json()["detail"], one.json()["errors"][0]["message"]) for one in answers}
    assert len(told) == 1
    assert answers[0].status_code == 404
    assert {one.json()["errors"][0]["pointer"] for one in answers} == {"link"}


async def test_the_list_has_every_link_and_no_token(closed: httpx.AsyncClient) -> None:
    made = [await share(closed, note=f"for {who}") for who in ("ann", "bob")]
    await closed.delete(f"{URL}/shares/{made[0]['id']}")
    listed = await closed.get(f"{URL}/shares")
    assert [(one["note"], one["revoked_at"] is None) for one in listed.json()["items"]] == [
        ("for bob", True),
        ("for ann", False),
    ]
    assert not any(one["token"] in listed.text for one in made)
    page = (await closed.get(f"{URL}/shares", params={"limit": 1})).json()
    rest = await closed.get(f"{URL}/shares", params={"limit": 1, "cursor": page["next_cursor"]})
    assert [one["note"] for one in rest.json()["items"]] == ["for ann"]


async def test_a_link_that_is_asked_for_twice_is_made_once_and_shown_once(closed: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "share-1"}
    first, second = [(await closed.post(f"{URL}/shares", json={}, headers=key)).json() for _ in range(2)]
    assert first["id"] == second["id"]
    assert first["token"]
    assert second["token"] is None
    assert second["path"] is None


async def test_a_token_stands_nowhere_in_the_database(closed: httpx.AsyncClient, database_url: str) -> None:
    made = (await closed.post(f"{URL}/shares", json={}, headers={"Idempotency-Key": "k"})).json()
    await closed.delete(f"{URL}/shares/{made['id']}")
    database = Database(database_url, pool_size=1)
    async with database.engine.connect() as connection:
        for table in ("scenario_shares", "audit_log", "idempotency_keys"):
            rows = (await connection.execute(text(f"SELECT * FROM {table}"))).all()
            assert rows
            assert made["token"] not in repr(rows)
            assert made["token"].encode() not in b"".join(x for row in rows for x in row if isinstance(x, bytes))
    await database.close()
    log = (await closed.get("/v1/audit-log", params={"kind": "scenario-share"})).json()["items"]
    assert [(entry["action"], entry["name"]) for entry in log] == [
        ("revoked", f"run#{made['id']}"),
        ("created", f"run#{made['id']}"),
    ]


async def test_a_token_stands_in_no_log_even_if_following_it_fails(
    closed: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    made = await share(closed)
    app = closed._transport.app  # type: ignore[attr-defined]

    def fail(*_: object) -> None:
        raise RuntimeError("something of our own")

    engine = app.state.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", fail)
    with caplog.at_level(logging.DEBUG):
        assert (await follow(closed, made)).status_code == 500
    event.remove(engine, "before_cursor_execute", fail)
    ours = [
        str(record.__dict__) + record.getMessage() for record in caplog.records if record.name.startswith("service")
    ]
    assert any("/v1/shared/{link}" in line for line in ours)
    assert not any(made["token"] in line for line in ours)


def test_a_server_prints_no_token(server: Server) -> None:
    with httpx.Client(base_url=server.base, timeout=10, trust_env=False) as client:
        client.put(URL, json={"request": {}})
        made = client.post(f"{URL}/shares", json={}).json()
        assert client.get(made["path"]).status_code == 200
        assert client.head(made["path"]).status_code == 200
        assert client.get(f"/v1/shared/{'y' * 43}").status_code == 404
    printed = server.stop()
    assert made["token"] not in printed
    assert "y" * 43 not in printed


async def test_of_what_is_archived_no_link_is_made_and_old_ones_can_be_revoked(closed: httpx.AsyncClient) -> None:
    made = await share(closed)
    await closed.post(f"{URL}/archive", headers={"If-Match": "*"})
    refused = await closed.post(f"{URL}/shares", json={})
    assert (refused.status_code, "archived: reopen it first" in refused.json()["detail"]) == (409, True)
    assert (await follow(closed, made)).status_code == 200
    assert (await closed.delete(f"{URL}/shares/{made['id']}")).status_code == 204
    assert (await follow(closed, made)).status_code == 404
    await closed.post(f"{URL}/reopen", headers={"If-Match": "*"})
    assert (await closed.post(f"{URL}/shares", json={})).status_code == 201


async def test_what_cannot_be_shared_is_refused(closed: httpx.AsyncClient) -> None:
    for asked in ({"expires_in_hours": 2161}, {"expires_in_hours": 0}, {"revision": 0}, {"note": "two\nlines"}):
        assert (await closed.post(f"{URL}/shares", json=asked)).status_code == 422
    assert (await closed.post(f"{URL}/shares", json={"revision": 3})).status_code == 404
    assert (await closed.delete(f"{URL}/shares/99")).status_code == 404
    assert (await closed.get("/v1/shared/short")).status_code == 400
