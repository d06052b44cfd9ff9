"""Many writers at once, on both databases: nothing is lost, and one name is created once."""

import asyncio

import httpx

from tests.conftest import client_of

WRITES = 200
WRITERS = 20
URL = "/v1/scenarios/shared"


def body(count: int) -> dict[str, object]:
    return {"request": {}, "description": str(count)}


async def add_one(api: httpx.AsyncClient) -> int:
    """One read-modify-write, tried again until the version read is still the current one; how often it lost."""
    for lost in range(10_000):
        seen = await api.get(URL)
        count = int(seen.json()["description"])
        answer = await api.put(URL, json=body(count + 1), headers={"If-Match": seen.headers["etag"]})
        if answer.status_code == 200:
            return lost
        assert answer.status_code == 412, answer.text
    raise AssertionError("never got through")


async def test_200_concurrent_read_modify_writes_lose_nothing(database_url: str) -> None:
    async with client_of(database_url) as api:
        await api.put(URL, json=body(0))

        async def writer() -> int:
            return sum([await add_one(api) for _ in range(WRITES // WRITERS)])

        lost = await asyncio.gather(*(writer() for _ in range(WRITERS)))
        found = (await api.get(URL)).json()
        assert found["description"] == str(WRITES)
        assert found["version"] == WRITES + 1
        assert sum(lost) > 0  # they did meet


async def test_of_many_creators_one_wins(database_url: str) -> None:
    async with client_of(database_url) as api:
        answers = await asyncio.gather(
            *(api.put(URL, json=body(i), headers={"If-None-Match": "*"}) for i in range(WRITERS))
        )
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [201] + [412] * (WRITERS - 1)
        winner = next(answer for answer in answers if answer.status_code == 201)
        assert (await api.get(URL)).content == winner.content
        assert len((await api.get("/v1/scenarios")).json()["items"]) == 1


async def test_creators_without_a_precondition_are_told_to_read_first(database_url: str) -> None:
    async with client_of(database_url) as api:
        answers = await asyncio.gather(*(api.put(URL, json=body(i)) for i in range(WRITERS)))
        assert sorted(answer.status_code for answer in answers) == [201] + [428] * (WRITERS - 1)


async def test_of_many_who_restore_one_does(database_url: str) -> None:
    async with client_of(database_url) as api:
        await api.put(URL, json=body(0))
        await api.delete(URL, headers={"If-Match": "*"})
        answers = await asyncio.gather(*(api.post(f"{URL}/restore") for _ in range(WRITERS)))
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(200) == 1
        assert set(statuses) <= {200, 404, 409}
        assert (await api.get(URL)).json()["version"] == 3
