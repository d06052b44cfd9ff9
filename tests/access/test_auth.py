"""The gate: three ways to send a key, one answer to everything that is none, and what is told of a good one."""

import asyncio
import base64
import datetime
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy import text, update

from service.access import store
from service.access.keys import key_id_of, new_key
from service.access.tables import api_keys
from service.storage.database import Database
from tests.conftest import NewDatabase, client_of
from tests.support.keys import bearer, code, make_key
from tests.support.server import Server

URL = "/v1/scenarios"


@pytest.fixture
async def closed(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service asking for keys, on both databases, and a client without one."""
    async with client_of(database_url, auth="on") as client:
        yield client


@pytest.fixture
async def key(closed: httpx.AsyncClient, database_url: str) -> str:
    return await make_key(database_url)


def ways(key: str) -> list[dict[str, str]]:
    """Every header that sends a key."""
    basic = base64.b64encode(f"anybody:{key}".encode()).decode()
    nobody = base64.b64encode(f":{key}".encode()).decode()
    return [
        {"Authorization": f"Bearer {key}"},
        {"authorization": f"bearer  {key}"},
        {"X-API-Key": key},
        {"Authorization": f"Basic {basic}"},
        {"Authorization": f"Basic {nobody}"},
    ]


async def test_a_key_is_taken_in_each_of_the_three_ways(closed: httpx.AsyncClient, key: str) -> None:
    for headers in ways(key):
        assert (await closed.get(URL, headers=headers)).status_code == 200, headers


async def test_without_a_key_the_answer_says_how_to_send_one(closed: httpx.AsyncClient) -> None:
    answer = await closed.get(URL)
    assert (answer.status_code, code(answer)) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == ('Bearer realm="traincost", Basic realm="traincost", charset="UTF-8"')
    assert answer.headers["cache-control"] == "no-store"


async def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(closed: httpx.AsyncClient, key: str) -> None:
    other = new_key().token
    wrong = f"{key[:-1]}{'a' if key[-1] != 'a' else 'b'}"
    sent = [headers for token in (other, wrong, key[:-1], f"{key}x", "tc_", "", "\u00e9") for headers in ways(token)]
    sent += [
        {"Authorization": text} for text in ("Bearer", "Basic", "Basic !", "Digest a=b", f"Token {key}", "Basic 4=")
    ]
    told = set()
    for headers in sent:
        encoded = {name: value.encode() for name, value in headers.items()}
        answer = await closed.get(URL, headers=encoded)  # type: ignore[arg-type]
        assert answer.status_code == 401, headers
        told.add((answer.json()["detail"], answer.headers["www-authenticate"]))
    assert told == {
        (
            "The key is not known, has ended or was revoked.",
            'Bearer realm="traincost", error="invalid_token", Basic realm="traincost", charset="UTF-8"',
        )
    }


async def test_a_key_that_is_sent_twice_is_refused(closed: httpx.AsyncClient, key: str) -> None:
    twice = [("X-API-Key", key), ("Authorization", f"Bearer {key}")]
    answer = await closed.get(URL, headers=twice)
    assert (answer.status_code, code(answer)) == (401, "unauthenticated")
    assert "more than one header" in answer.json()["detail"]


async def test_a_key_in_the_url_is_no_key(closed: httpx.AsyncClient, key: str) -> None:
    assert (await closed.get(URL, params={"api_key": key})).status_code == 401


async def test_a_key_without_the_scope_is_told_which(closed: httpx.AsyncClient, database_url: str) -> None:
    reader = bearer(await make_key(database_url, "scenarios:read"))
    assert (await closed.get(URL, headers=reader)).status_code == 200
    answer = await closed.put(f"{URL}/x", json={"request": {}}, headers=reader)
    assert (answer.status_code, code(answer)) == (403, "forbidden")
    assert 'error="insufficient_scope", scope="scenarios:write"' in answer.headers["www-authenticate"]
    assert (await closed.post("/v1/estimates", json={}, headers=reader)).status_code == 403


async def test_no_scope_implies_another(closed: httpx.AsyncClient, database_url: str) -> None:
    admin = bearer(await make_key(database_url, "admin"))
    assert (await closed.get("/v1/api-keys", headers=admin)).status_code == 200
    assert (await closed.get(URL, headers=admin)).status_code == 403


async def test_an_estimate_needs_a_key_too_whichever_way_it_goes(closed: httpx.AsyncClient, key: str) -> None:
    for content_type in ("application/json", "application/json; charset=utf-8"):
        headers = {"Content-Type": content_type}
        assert (await closed.post("/v1/estimates", content=b"{}", headers=headers)).status_code == 401
        answer = await closed.post("/v1/estimates", content=b"{}", headers={**headers, **bearer(key)})
        assert answer.json()["cost"]["total"] == "27950.00"


async def test_head_needs_a_key_as_get_does(closed: httpx.AsyncClient, key: str) -> None:
    assert (await closed.head(URL)).status_code == 401
    assert (await closed.head(URL, headers=bearer(key))).status_code == 200


async def test_a_key_that_has_ended_is_no_good(closed: httpx.AsyncClient, key: str, database_url: str) -> None:
    assert (await closed.get(URL, headers=bearer(key))).status_code == 200
    await change(database_url, expires_at=datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1.5))
    await asyncio.sleep(1.1)  # by then this process has asked again
    assert (await closed.get(URL, headers=bearer(key))).status_code == 200
    await asyncio.sleep(0.5)  # and now it needs not even ask
    assert (await closed.get(URL, headers=bearer(key))).status_code == 401


async def test_a_key_that_another_process_revoked_is_refused_within_about_a_second(
    closed: httpx.AsyncClient, key: str, database_url: str
) -> None:
    assert (await closed.get(URL, headers=bearer(key))).status_code == 200
    async with client_of(database_url, auth="on") as other:
        answer = await other.delete(f"/v1/api-keys/{key_id_of(key)}", headers=bearer(key))
        assert answer.status_code == 204
        assert (await other.get(URL, headers=bearer(key))).status_code == 401  # who revoked it knows at once
    await asyncio.sleep(1.1)
    assert (await closed.get(URL, headers=bearer(key))).status_code == 401


async def test_a_key_is_looked_up_once_a_second_however_many_ask(
    closed: httpx.AsyncClient, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    find_key = store.find_key

    async def counted(connection: object, key_id: str) -> object:
        asked.append(key_id)
        return await find_key(connection, key_id)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "find_key", counted)
    answers = await asyncio.gather(*(closed.post("/v1/estimates", json={}, headers=bearer(key)) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert asked == [key_id_of(key)]
    unknown = bearer(new_key().token)
    answers = await asyncio.gather(*(closed.get(URL, headers=unknown) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {401}
    assert len(asked) == 2


async def test_the_last_use_is_noted(closed: httpx.AsyncClient, key: str) -> None:
    path = f"/v1/api-keys/{key_id_of(key)}"
    assert (await closed.get(path, headers=bearer(key))).json()["last_used_at"] is None
    keyring = closed._transport.app.state["access"].keyring  # type: ignore[attr-defined]
    await keyring.note_uses()
    noted = datetime.datetime.fromisoformat((await closed.get(path, headers=bearer(key))).json()["last_used_at"])
    assert abs(datetime.datetime.now(datetime.UTC) - noted) < datetime.timedelta(seconds=30)
    await keyring.note_uses()  # nothing is noted twice


def test_a_server_notes_the_last_use_before_it_ends(new_database: NewDatabase) -> None:
    url = new_database("sqlite")
    key = asyncio.run(make_key(url))
    with Server(url, auth="on") as server:
        answer = httpx.get(f"{server.base}{URL}", headers=bearer(key), trust_env=False)
        assert answer.status_code == 200
        assert httpx.get(f"{server.base}{URL}", trust_env=False).status_code == 401
        printed = server.stop()
    assert key not in printed
    assert asyncio.run(rows(url, "SELECT last_used_at FROM api_keys"))[0][0] is not None


async def test_while_the_database_does_not_answer_nobody_is_let_in(tmp_path: object, new_database: NewDatabase) -> None:
    url = new_database("sqlite")
    key = await make_key(url)
    async with client_of(url.replace("traincost.db", "gone/traincost.db"), auth="on") as closed:
        answer = await closed.post("/v1/estimates", json={}, headers=bearer(key))
        assert (answer.status_code, code(answer)) == (503, "unavailable")
        assert (await closed.get("/health/live")).status_code == 200


async def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    database = Database(url, pool_size=1)
    async with database.engine.begin() as connection:
        found = [tuple(row) for row in (await connection.execute(text(statement))).all()]
    await database.close()
    return found


async def change(url: str, **values: object) -> None:
    database = Database(url, pool_size=1)
    async with database.engine.begin() as connection:
        await connection.execute(update(api_keys).values(values))
    await database.close()
