"""Two creating requests with one Idempotency-Key at the same moment, in one process or in two: one object."""

import asyncio

import pytest

from tests.conftest import client_of

URL = "/v1/scenarios/run"
MANY = 8


@pytest.mark.parametrize("processes", [1, 2])
async def test_many_equal_copies_at_once_are_one(database_url: str, processes: int) -> None:
    async with client_of(database_url) as one, client_of(database_url) as other:
        await one.put(URL, json={"request": {}})
        clients = [(one, other)[number % processes] for number in range(MANY)]
        key = {"Idempotency-Key": "the-same"}
        answers = await asyncio.gather(
            *(client.post(f"{URL}/duplicate", json={"name": "copy"}, headers=key) for client in clients)
        )
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.content for answer in answers}) == 1
        assert len((await one.get("/v1/scenarios")).json()["items"]) == 2


@pytest.mark.parametrize("processes", [1, 2])
async def test_many_equal_links_at_once_are_one_and_shown_once(database_url: str, processes: int) -> None:
    async with client_of(database_url) as one, client_of(database_url) as other:
        await one.put(URL, json={"request": {}})
        clients = [(one, other)[number % processes] for number in range(MANY)]
        key = {"Idempotency-Key": "the-same"}
        answers = await asyncio.gather(*(client.post(f"{URL}/shares", json={}, headers=key) for client in clients))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert len([answer for answer in answers if answer.json()["token"]]) == 1
        assert len((await one.get(f"{URL}/shares")).json()["items"]) == 1


async def test_another_request_with_the_same_key_is_refused(database_url: str) -> None:
    async with client_of(database_url) as api:
        await api.put(URL, json={"request": {}})
        key = {"Idempotency-Key": "the-same"}
        await api.post(f"{URL}/duplicate", json={"name": "copy"}, headers=key)
        refused = await api.post(f"{URL}/duplicate", json={"name": "another"}, headers=key)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "Idempotency-Key"
