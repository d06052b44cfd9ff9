"""What counts as a link that is no good, and what does not: only a link can be one."""

from collections.abc import AsyncIterator
from contextlib import ExitStack

import httpx
import pytest

from tests.conftest import NewDatabase
from tests.support.keys import bearer, make_key
from tests.support.server import Server
from tests.support.wire import opened, read_answer

LIMIT = 5
UNKNOWN = "/v1/shared/" + "B" * 43


@pytest.fixture
async def asking(new_database: NewDatabase) -> AsyncIterator[tuple[Server, str]]:
    """The service asking for keys, and a link that is good and that nobody has followed."""
    url = new_database("sqlite")
    headers = bearer(await make_key(url))
    with Server(url, auth="on", rate_failures=str(LIMIT)) as server, httpx.Client(trust_env=False) as owner:
        owner.put(f"{server.base}/v1/scenarios/run", json={"request": {}}, headers=headers)
        made = owner.post(f"{server.base}/v1/scenarios/run/shares", json={}, headers=headers)
        yield server, made.json()["path"]


def follow(server: Server, path: str) -> int:
    return httpx.get(f"{server.base}{path}", trust_env=False).status_code


@pytest.mark.parametrize("header", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_who_never_sends_a_body_holds_no_place_among_the_links_that_are_looked_up(
    asking: tuple[Server, str], header: str
) -> None:
    server, link = asking
    with ExitStack() as waiting:
        held = [waiting.enter_context(opened(server, f"GET {UNKNOWN} HTTP/1.1", header)) for _ in range(3 * LIMIT)]
        assert follow(server, "/health/live") == 200  # all of them have arrived
        assert follow(server, link) == 200
        if header.startswith("Content-Length"):
            assert all(one.recv(12) == b"HTTP/1.1 400" for one in held)


def test_a_body_in_chunks_that_is_none_is_followed(asking: tuple[Server, str]) -> None:
    server, link = asking
    for path, status in ((link, b"200"), (link, b"200"), (UNKNOWN, b"404")):
        lines = (f"GET {path} HTTP/1.1", "Connection: close", "Transfer-Encoding: chunked")
        with opened(server, *lines, body=b"0\r\n\r\n") as connection:
            assert read_answer(connection).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_query_after_a_good_link_is_refused_and_makes_it_no_bad_one(
    asking: tuple[Server, str], is_seen: bool
) -> None:
    server, link = asking
    if is_seen:
        assert follow(server, link) == 200
    assert [follow(server, f"{link}?utm_source=x") for _ in range(2 * LIMIT)] == [400] * 2 * LIMIT
    assert follow(server, link) == 200
    assert [follow(server, f"/v1/shared/{number:043}") for number in range(LIMIT)] == [404] * LIMIT
    assert follow(server, UNKNOWN) == 429
    assert follow(server, f"{link}?utm_source=x") == 400
    assert follow(server, link) == 200  # it has shown something, whatever was sent with it since


def test_what_is_no_link_at_all_counts_with_those_that_show_nothing(asking: tuple[Server, str]) -> None:
    server, _ = asking
    assert [follow(server, "/v1/shared/short") for _ in range(LIMIT + 1)] == [400] * LIMIT + [429]
