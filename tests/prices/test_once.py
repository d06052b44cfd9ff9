"""Requests that are sent twice act once, revisions made at once come in order, and readers see them within a second."""

import asyncio
import datetime
import time

import httpx
import pytest
from sqlalchemy import update

from service.storage import idempotency
from service.storage.database import Database
from service.storage.idempotency import idempotency_keys
from tests.conftest import NewDatabase, client_of
from tests.prices.rates import many, row
from tests.support.server import Server

URL = "/v1/price-tables/ours"
KEY = {"Idempotency-Key": "first-try"}


@pytest.fixture
async def table(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The service with one empty table."""
    await stored_api.put(URL, json={"currency": "USD"})
    return stored_api


async def revise(api: httpx.AsyncClient, price: str = "2.00", **headers: str) -> httpx.Response:
    return await api.post(f"{URL}/revisions", json={"rates": [row(price)]}, headers=headers)


async def test_the_same_request_with_its_key_is_answered_as_at_first(table: httpx.AsyncClient) -> None:
    first = await revise(table, **KEY)
    assert first.status_code == 201
    await revise(table, "3.00")
    again = await revise(table, **KEY)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert (await table.get(URL)).json()["latest"]["number"] == 2


async def test_a_replay_does_not_ask_for_the_version_again(table: httpx.AsyncClient) -> None:
    etag = (await table.get(URL)).headers["etag"]
    first = await revise(table, **KEY, **{"If-Match": etag})
    again = await revise(table, **KEY, **{"If-Match": etag})
    assert (first.status_code, again.content) == (201, first.content)


async def test_another_request_with_the_same_key_is_refused(table: httpx.AsyncClient) -> None:
    await revise(table, **KEY)
    answer = await revise(table, "3.00", **KEY)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "Idempotency-Key"


async def test_a_request_that_failed_leaves_its_key_free(table: httpx.AsyncClient) -> None:
    assert (await revise(table, **KEY, **{"If-Match": '"0-0"'})).status_code == 412
    assert (await revise(table, **KEY)).status_code == 201


async def test_a_key_is_forgotten_after_a_day(table: httpx.AsyncClient, database_url: str) -> None:
    await revise(table, **KEY)
    database = Database(database_url, pool_size=1)
    async with database.engine.begin() as connection:
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=25)
        await connection.execute(update(idempotency_keys).values(created_at=yesterday))
    assert (await revise(table, "3.00", **KEY)).status_code == 201
    async with database.engine.begin() as connection:
        await connection.execute(update(idempotency_keys).values(created_at=yesterday))
        await idempotency.forget_old(connection)
        assert (await connection.execute(idempotency_keys.select())).all() == []
    await database.close()


@pytest.mark.parametrize("key", ["", "two words", "x" * 256, "ümlaut"])
async def test_a_malformed_key_is_refused(table: httpx.AsyncClient, key: str) -> None:
    answer = await table.post(f"{URL}/revisions", json={"rates": []}, headers=[(b"idempotency-key", key.encode())])
    assert answer.status_code == 400


async def test_ten_of_the_same_at_once_act_once(table: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(revise(table, **KEY) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert (await table.get(URL)).json()["latest"]["number"] == 1


async def test_several_processes_act_once_too(new_database: NewDatabase) -> None:
    url = new_database("postgresql")
    async with client_of(url) as one, client_of(url) as other:
        await one.put(URL, json={"currency": "USD"})
        answers = await asyncio.gather(*(revise(api, **KEY) for api in (one, other) * 5))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
async def test_who_waits_too_long_for_the_first_is_told(
    new_database: NewDatabase, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 1)
    url = new_database(backend)
    async with client_of(url) as api, client_of(url) as other:
        await api.put(URL, json={"currency": "USD"})
        prices = api._transport.app.state["prices"]  # type: ignore[attr-defined]
        async with prices.turns.taken(1, KEY["Idempotency-Key"]):
            answer = await revise(api, **KEY)
        assert answer.status_code == 409
        if backend == "postgresql":  # the first is in another process
            database = Database(url, pool_size=1)
            async with database.engine.begin() as connection:
                await idempotency.claim(connection, idempotency.Once(1, KEY["Idempotency-Key"], "x" * 64))
                assert (await revise(other, **KEY)).status_code == 409
            await database.close()


async def test_revisions_made_at_once_come_in_order_and_whole(table: httpx.AsyncClient) -> None:
    async def write(number: int) -> httpx.Response:
        rates = [{**rate, "provider": f"p{number}"} for rate in many(50)]
        return await table.post(f"{URL}/revisions", json={"rates": rates})

    answers = await asyncio.gather(*(write(number) for number in range(8)))
    assert sorted(answer.json()["number"] for answer in answers) == list(range(1, 9))
    for answer in answers:
        items = (await table.get(f"{URL}/rates?limit=200&revision={answer.json()['number']}")).json()["items"]
        assert len(items) == 50
        assert len({item["provider"] for item in items}) == 1


async def test_of_those_who_based_theirs_on_the_same_version_one_wins(table: httpx.AsyncClient) -> None:
    etag = (await table.get(URL)).headers["etag"]
    answers = await asyncio.gather(*(revise(table, f"{n}.00", **{"If-Match": etag}) for n in range(1, 9)))
    assert sorted(answer.status_code for answer in answers) == [201] + [412] * 7


def test_every_worker_sees_a_new_revision_within_a_second(new_database: NewDatabase) -> None:
    url = new_database("postgresql")
    with Server(url, workers="2") as server, httpx.Client(base_url=server.base, trust_env=False) as client:
        client.put(URL, json={"currency": "USD"})
        for number in range(1, 4):
            client.post(f"{URL}/revisions", json={"rates": [row(f"{number}.00")]}).raise_for_status()
            time.sleep(1)
            # A connection of its own each time, so that both workers are asked.
            for _ in range(20):
                answer = httpx.get(f"{server.base}{URL}/choice?gpu=h100-sxm-80gb", trust_env=False)
                assert answer.json()["revision"] == number
