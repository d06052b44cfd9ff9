"""Who sends keys and links that are no good is refused after so many a minute, before the database is asked."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from msgspec import Struct
from sqlalchemy import event

from service.access import keyring as remembered
from service.access import store
from service.access.keyring import Keyring
from service.access.keys import key_id_of, new_key
from service.errors import TooManyRequests, Unauthenticated
from service.http import failures as counted
from service.http.failures import Failures, address_of
from tests.access.test_limits import Time
from tests.conftest import NewDatabase, client_of
from tests.support.keys import bearer, code, make_key
from tests.support.server import Server

URL = "/v1/scenarios"
LIMIT = 5
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


def refused(failures: Failures, address: str = HERE) -> int | None:
    """After how many seconds somebody who fails here may try again; None if it is now."""
    try:
        failures.count(address)
    except TooManyRequests as error:
        return error.retry_after_seconds
    return None


def test_exactly_so_many_fail_in_a_minute_which_begins_with_the_first() -> None:
    time = Time()
    failures = Failures(LIMIT, time)
    for _ in range(3):
        for _ in range(LIMIT):
            assert refused(failures) is None
            time.now += 2
        for second, wait in ((10.0, 50), (10.5, 50), (58.5, 2), (59.99, 1)):
            time.now = time.now // 60 * 60 + second
            assert refused(failures) == wait
        time.now = time.now // 60 * 60 + 60
        assert refused(failures) is None
        time.now += 60


def test_each_address_is_counted_by_itself() -> None:
    failures = Failures(1, Time())
    assert [refused(failures, one) is None for one in (HERE, ELSEWHERE, HERE)] == [True, True, False]


def test_a_limit_of_nothing_is_none() -> None:
    failures = Failures(0, Time())
    assert not any(refused(failures) for _ in range(1000))
    for _ in range(1000):
        with pytest.raises(Unauthenticated), failures.trying(HERE):
            raise Unauthenticated("no", sent=True)


def test_what_is_being_looked_up_counts_until_it_is_known_to_be_good() -> None:
    failures = Failures(2, Time())
    with failures.trying(HERE), failures.trying(HERE):
        with pytest.raises(TooManyRequests) as error, failures.trying(HERE):
            pytest.fail("it is looked up")
        assert error.value.retry_after_seconds == 1
        with failures.trying(ELSEWHERE):
            pass
    for _ in range(10):
        with failures.trying(HERE):
            pass
    for number in range(2):
        with pytest.raises(Unauthenticated), failures.trying(HERE) as attempt:
            raise Unauthenticated("no", sent=True)
        assert attempt.failed, number
    with pytest.raises(TooManyRequests), failures.trying(HERE):
        pytest.fail("it is looked up")


def test_what_is_known_to_have_failed_after_the_minute_counts_in_the_next() -> None:
    time = Time()
    failures = Failures(1, time)
    with failures.trying(HERE) as attempt:
        time.now += 61
        attempt.failed = True
    assert refused(failures) == 60


def test_a_database_that_does_not_answer_is_no_failure_of_the_caller() -> None:
    failures = Failures(1, Time())
    with pytest.raises(OSError, match="gone"), failures.trying(HERE):
        raise OSError("gone")
    assert refused(failures) is None


def test_of_too_many_addresses_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "_MAX_ADDRESSES", 3)
    failures = Failures(1, Time())
    for address in ("a", "b", "c", "d"):
        assert refused(failures, address) is None
    assert len(failures._counts) == 3
    assert [refused(failures, one) is None for one in ("b", "c", "d", "a")] == [False, False, False, True]


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("192.0.2.1", 1), "192.0.2.1"),
        (("::ffff:192.0.2.1", 1), "192.0.2.1"),
        (("2001:db8:1:2:3:4:5:6", 1), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::", 2), "2001:db8:1:2::/64"),
        (("2001:db8:1:3::1", 1), "2001:db8:1:3::/64"),
        (("fe80::1%eth0", 1), "fe80::/64"),
        (("a socket\nwith a line", 1), ""),
        (None, ""),
    ],
    ids=str,
)
def test_who_is_counted_as_one(client: Any, address: str) -> None:
    assert address_of({"client": client}) == address


class Closed(Struct, frozen=True):
    """The service asking for keys, a good key of it, and what its database was asked."""

    app: Any
    url: str
    key: str
    asked: list[str]

    def at(self, address: str, *keys: str) -> httpx.AsyncClient:
        """A client at an address."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(address, 1))
        headers = bearer(keys[0]) if keys else {}
        return httpx.AsyncClient(transport=transport, base_url="http://traincost.test", headers=headers)


@pytest.fixture
async def closed(database_url: str) -> AsyncIterator[Closed]:
    key = await make_key(database_url)
    async with client_of(database_url, auth="on", rate_failures=LIMIT) as client:
        app: Any = client._transport.app  # type: ignore[attr-defined]
        asked: list[str] = []
        event.listen(
            app.state.database.engine.sync_engine,
            "before_cursor_execute",
            lambda connection, cursor, statement, *_: asked.append(statement),
        )
        yield Closed(app, database_url, key, asked)


async def statuses(client: httpx.AsyncClient, tokens: list[str]) -> list[int]:
    return [(await client.get(URL, headers=bearer(token))).status_code for token in tokens]


def unknown(count: int) -> list[str]:
    return [new_key().token for _ in range(count)]


async def test_unknown_keys_are_refused_before_the_database_is_asked(closed: Closed) -> None:
    async with closed.at(HERE) as here, closed.at(ELSEWHERE) as elsewhere:
        assert await statuses(here, unknown(LIMIT + 20)) == [401] * LIMIT + [429] * 20
        assert len(closed.asked) == LIMIT
        answer = await here.get(URL, headers=bearer(new_key().token))
        assert (answer.status_code, code(answer)) == (429, "too-many-requests")
        assert 55 <= int(answer.headers["retry-after"]) <= 60
        assert answer.headers["cache-control"] == "no-store"
        assert (await elsewhere.get(URL, headers=bearer(closed.key))).status_code == 200
        assert await statuses(elsewhere, unknown(1)) == [401]


async def test_many_at_once_get_no_further_than_one_after_the_other(closed: Closed) -> None:
    async with closed.at(HERE) as here:
        sent = [here.get(URL, headers=bearer(token)) for token in unknown(60)]
        answers = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert (answers.count(401), answers.count(429)) == (LIMIT, 60 - LIMIT)
    assert len(closed.asked) == LIMIT


async def test_wrong_secrets_of_a_real_key_and_what_is_no_key_count_too(closed: Closed) -> None:
    wrong = [f"tc_{key_id_of(closed.key)}_{new_key().token.rpartition('_')[2]}" for _ in range(2)]
    for tokens in (wrong, [*wrong, "tc_"]):
        async with closed.at(ELSEWHERE if "tc_" in tokens else HERE) as client:
            assert await statuses(client, tokens * LIMIT) == [401] * LIMIT + [429] * (len(tokens) - 1) * LIMIT


async def test_who_sends_no_key_is_told_so_however_often(closed: Closed) -> None:
    async with closed.at(HERE) as here:
        assert {(await here.get(URL)).status_code for _ in range(3 * LIMIT)} == {401}
        await statuses(here, unknown(LIMIT + 1))
        assert (await here.get(URL)).status_code == 401
    assert len(closed.asked) == LIMIT


async def test_a_good_key_goes_on_where_others_fail_and_is_looked_up_each_second_as_ever(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "REMEMBERED_SECONDS", -1.0)  # each answer of the database is too old at once
    second = await make_key(closed.url)
    async with closed.at(HERE) as here:
        assert await statuses(here, [closed.key]) == [200]
        assert await statuses(here, unknown(LIMIT)) == [401] * LIMIT
        assert await statuses(here, [closed.key] * 10) == [200] * 10
        assert await statuses(here, [second]) == [429]  # nobody has seen it yet: it might be anything
        revoked = await here.delete(f"/v1/api-keys/{key_id_of(closed.key)}", headers=bearer(closed.key))
        assert revoked.status_code == 204
        closed.asked.clear()
        assert await statuses(here, [closed.key] * 10) == [429] * 10
        assert len(closed.asked) == 1
    async with closed.at(ELSEWHERE) as elsewhere:
        assert await statuses(elsewhere, [second]) == [200]


async def test_a_new_key_that_is_sent_often_at_once_is_one_look_up(closed: Closed) -> None:
    async with closed.at(HERE) as here:
        answers = await asyncio.gather(*(here.get("/v1/gpus", headers=bearer(closed.key)) for _ in range(10 * LIMIT)))
    assert {answer.status_code for answer in answers} == {200}


async def test_a_key_that_was_rotated_goes_on_where_others_fail(closed: Closed) -> None:
    async with closed.at(HERE) as here:
        assert await statuses(here, [closed.key, *unknown(LIMIT)]) == [200, *[401] * LIMIT]
        rotated = await here.post(f"/v1/api-keys/{key_id_of(closed.key)}/rotate", json={}, headers=bearer(closed.key))
        assert rotated.status_code == 201
        assert await statuses(here, [closed.key]) == [200]


async def test_keys_that_are_tried_displace_no_good_one(closed: Closed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_MAX_REMEMBERED", 3)
    keyring: Keyring = closed.app.state["access"].keyring
    await keyring.read(closed.key)
    for token in unknown(10):
        with pytest.raises(Unauthenticated):
            await keyring.read(token)
    assert len(keyring._unknown) == 3
    assert keyring.find(closed.key) is not None
    others = [await make_key(closed.url) for _ in range(3)]
    for token in others:
        await keyring.read(token)
    assert keyring.find(closed.key) is None  # of good ones, too, the oldest is forgotten
    assert all(keyring.find(token) is not None for token in others)


async def test_what_was_asked_before_a_key_was_revoked_is_not_believed_afterwards(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring: Keyring = closed.app.state["access"].keyring
    find_key, answered, go_on = store.find_key, asyncio.Event(), asyncio.Event()

    async def slow(*asked: Any) -> Any:
        row = await find_key(*asked)
        answered.set()
        await go_on.wait()
        return row

    monkeypatch.setattr(store, "find_key", slow)
    reading = asyncio.create_task(keyring.read(closed.key))
    await answered.wait()
    keyring.forget(key_id_of(closed.key) or "")
    go_on.set()
    await reading
    assert keyring.find(closed.key) is None


async def links(closed: Closed, client: httpx.AsyncClient, tokens: list[str]) -> list[int]:
    return [(await client.get(f"/v1/shared/{token}")).status_code for token in tokens]


async def test_links_that_show_nothing_are_refused_before_the_database_is_asked(closed: Closed) -> None:
    async with closed.at(ELSEWHERE, closed.key) as owner, closed.at(HERE) as here:
        await owner.put(f"{URL}/run", json={"request": {}})
        made = [(await owner.post(f"{URL}/run/shares", json={})).json() for _ in range(2)]
        seen, unseen = [one["token"] for one in made]
        assert await links(closed, here, [seen] * 3 * LIMIT) == [200] * 3 * LIMIT
        closed.asked.clear()
        tried = [f"{number:043}" for number in range(3 * LIMIT)]
        assert await links(closed, here, tried) == [404] * LIMIT + [429] * 2 * LIMIT
        assert len(closed.asked) == LIMIT
        answer = await here.head(f"/v1/shared/{tried[0]}")
        assert (answer.status_code, answer.headers["content-type"]) == (429, "application/problem+json")
        assert 55 <= int(answer.headers["retry-after"]) <= 60
        # What was followed before goes on; what was not might be anything.
        assert await links(closed, here, [seen, unseen]) == [200, 429]
        assert await links(closed, owner, [unseen]) == [200]
        assert (await owner.delete(f"{URL}/run/shares/{made[0]['id']}")).status_code == 204
        closed.asked.clear()
        assert await links(closed, here, [seen] * 3) == [404, 429, 429]
        assert len(closed.asked) == 1


async def test_keys_and_links_are_counted_together(closed: Closed) -> None:
    async with closed.at(HERE) as here:
        await statuses(here, unknown(LIMIT - 1))
        assert await links(closed, here, ["short", "x" * 43]) == [400, 429]
        assert await statuses(here, unknown(1)) == [429]


async def test_links_at_once_get_no_further(closed: Closed) -> None:
    async with closed.at(HERE) as here:
        sent = [here.get(f"/v1/shared/{number:043}") for number in range(40)]
        answers = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert (answers.count(404), answers.count(429)) == (LIMIT, 40 - LIMIT)


async def test_the_log_says_once_who_fails_and_not_with_what(closed: Closed, caplog: pytest.LogCaptureFixture) -> None:
    tokens = unknown(3 * LIMIT)
    with caplog.at_level(logging.WARNING):
        async with closed.at("2001:db8::7") as client:
            await statuses(client, tokens)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("service")]
    assert lines == ["2001:db8::/64 sent 5 keys or links that are no good within a minute"]


async def test_any_number_may_fail_where_that_is_said(new_database: NewDatabase) -> None:
    async with client_of(new_database("sqlite"), auth="on", rate_failures=0) as client:
        assert await statuses(client, unknown(100)) == [401] * 100


def test_behind_a_proxy_that_is_believed_each_of_its_callers_is_counted_by_itself(new_database: NewDatabase) -> None:
    url = new_database("sqlite")
    with Server(url, auth="on", rate_failures="2") as server, httpx.Client(trust_env=False) as client:

        def ask(caller: str) -> int:
            headers = {**bearer(new_key().token), "X-Forwarded-For": caller}
            return client.get(f"{server.base}{URL}", headers=headers).status_code

        assert [ask(HERE) for _ in range(3)] == [401, 401, 429]
        assert [ask(ELSEWHERE) for _ in range(3)] == [401, 401, 429]
        assert [ask(f"{ELSEWHERE}, {HERE}"), ask(f"198.51.100.1, {HERE}")] == [429, 429]  # the last that the proxy saw
