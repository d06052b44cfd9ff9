"""How often a key may ask: each key and each kind by itself, all workers together, and no write for each request."""

import asyncio

import httpx
import pytest

from service.errors import TooManyRequests
from service.http.limits import Limits
from service.http.principal import LOCAL, Principal
from service.storage import windows
from service.storage.database import Database
from tests.access.requests import CSV
from tests.access.test_auth import rows
from tests.conftest import NewDatabase, client_of
from tests.support.keys import bearer, code, make_key
from tests.support.server import Server

KEY = Principal(1, "abcdefghij12", frozenset(), "a test")
OTHER = Principal(1, "bbcdefghij12", frozenset(), "another")


class Time:
    """A clock that is set."""

    now = 60_000.0

    def __call__(self) -> float:
        return self.now


class Database_:  # noqa: N801  # stands for one
    """Grants leases of what is left, and counts how often it is asked."""

    def __init__(self) -> None:
        self.taken: dict[tuple[str, str, int], int] = {}
        self.asked = 0

    async def __call__(self, key_id: str, kind: str, window: int, wanted: int, limit: int) -> int:
        self.asked += 1
        place = (key_id, kind, window)
        granted = max(0, min(wanted, limit - self.taken.get(place, 0)))
        self.taken[place] = self.taken.get(place, 0) + granted
        return granted


async def passes(limits: Limits, principal: Principal = KEY, rate: str = "reads") -> bool:
    if limits.take(principal, rate):
        return True
    try:
        await limits.ask(principal, rate)
    except TooManyRequests:
        return False
    return True


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("limit", [1, 7, 19, 20, 21, 100])
async def test_exactly_so_many_pass_in_a_minute(limit: int, shared: bool) -> None:
    time = Time()
    limits = Limits({"reads": limit}, Database_() if shared else None, time)
    for _ in range(3):
        assert [await passes(limits) for _ in range(limit + 5)] == [True] * limit + [False] * 5
        time.now += 60


async def test_who_is_refused_is_told_when_the_minute_is_over() -> None:
    time = Time()
    limits = Limits({"reads": 1}, None, time)
    await limits.ask(KEY, "reads")
    for second, wait in ((0.0, 60), (0.5, 60), (59.0, 1), (59.99, 1)):
        time.now = 60_000 + second
        with pytest.raises(TooManyRequests) as refused:
            await limits.ask(KEY, "reads")
        assert refused.value.retry_after_seconds == wait


async def test_each_key_and_each_kind_is_counted_by_itself() -> None:
    limits = Limits({"reads": 1, "writes": 1}, None, Time())
    assert [await passes(limits), await passes(limits, OTHER), await passes(limits, KEY, "writes")] == [True] * 3
    assert not await passes(limits)


async def test_a_limit_of_nothing_is_none() -> None:
    database = Database_()
    limits = Limits({"reads": 0}, database, Time())
    assert all([await passes(limits, LOCAL) for _ in range(1000)])
    assert database.asked == 0


async def test_the_database_is_asked_by_the_lease_and_no_more_when_all_is_taken() -> None:
    database, time = Database_(), Time()
    workers = [Limits({"reads": 1000}, database, time) for _ in range(2)]
    let_in = [await passes(workers[number % 2]) for number in range(3000)]
    assert sum(let_in) == 1000
    assert database.asked <= 24


async def test_at_once_no_more_pass_than_one_after_the_other() -> None:
    class Slow(Database_):
        async def __call__(self, key_id: str, kind: str, window: int, wanted: int, limit: int) -> int:
            await asyncio.sleep(0.001)
            return await super().__call__(key_id, kind, window, wanted, limit)

    limits = Limits({"reads": 50}, Slow(), Time())
    assert sum(await asyncio.gather(*(passes(limits) for _ in range(200)))) == 50


async def test_a_lease_of_the_minute_before_is_worth_nothing() -> None:
    time = Time()

    class Late(Database_):
        async def __call__(self, key_id: str, kind: str, window: int, wanted: int, limit: int) -> int:
            if self.asked == 0:
                time.now += 60
            return await super().__call__(key_id, kind, window, wanted, limit)

    database = Late()
    assert await passes(Limits({"reads": 1}, database, time))
    assert sorted(window for *_, window in database.taken) == [1000, 1001]


async def test_workers_take_their_leases_of_one_count(new_database: NewDatabase) -> None:
    database = Database(new_database("postgresql"), pool_size=5)

    async def take(minute: int, wanted: int) -> int:
        async with database.engine.begin() as connection:
            return await windows.lease(connection, "abcdefghij12", "reads", minute, wanted, 10)

    assert sum(await asyncio.gather(*(take(7, 3) for _ in range(8)))) == 10
    assert await take(8, 4) == 4
    assert await take(7, 4) == 4  # a clock that is behind counts in the newer minute
    assert await take(8, 4) == 2
    assert await take(8, 4) == 0
    assert await take(9, 4) == 4
    await database.close()


async def test_too_many_are_answered_by_a_problem_with_retry_after(database_url: str) -> None:
    key, other = await make_key(database_url), await make_key(database_url)
    async with client_of(database_url, auth="on", rate_writes=2, rate_estimates=3, rate_imports=1) as api:
        for path, body, limit in (("/v1/scenarios/a/restore", None, 2), ("/v1/estimates", {}, 3)):
            answers = [await api.post(path, json=body, headers=bearer(key)) for _ in range(limit + 1)]
            assert 429 not in [answer.status_code for answer in answers[:-1]]
            assert (answers[-1].status_code, code(answers[-1])) == (429, "too-many-requests")
            assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
            assert (await api.post(path, json=body, headers=bearer(other))).status_code != 429
        file = {"content": CSV.encode(), "headers": {**bearer(key), "Content-Type": "text/csv"}}
        answers = [await api.post("/v1/price-tables/none/imports", **file) for _ in range(2)]  # type: ignore[arg-type]
        assert [answer.status_code for answer in answers] == [404, 429]
        assert (await api.get("/v1/scenarios", headers=bearer(key))).status_code == 200
        assert {(await api.get("/health/live")).status_code for _ in range(20)} == {200}


async def test_where_nobody_is_asked_nothing_is_counted(new_database: NewDatabase) -> None:
    async with client_of(new_database("sqlite"), rate_estimates=1) as api:
        assert {(await api.post("/v1/estimates", json={})).status_code for _ in range(5)} == {200}


def test_two_workers_let_in_no_more_than_one(new_database: NewDatabase) -> None:
    url = new_database("postgresql")
    key = asyncio.run(make_key(url))
    with Server(url, auth="on", workers="2", rate_estimates="40") as server:

        def ask() -> int:  # a connection of its own each time, so that both workers are asked
            answer = httpx.post(f"{server.base}/v1/estimates", json={}, headers=bearer(key), trust_env=False)
            return answer.status_code

        answered = [ask() for _ in range(140)]
    # The minute may have turned once meanwhile; what a worker leaves of its last lease may be missing.
    assert 38 <= answered.count(200) <= 80
    assert answered.count(429) == 140 - answered.count(200)
    taken = asyncio.run(rows(url, "SELECT kind, taken FROM rate_windows"))
    assert [kind for kind, _ in taken] == ["estimates"]
