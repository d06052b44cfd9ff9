"""What a worker holds in memory: the newest whole, older ones as asked for, no database where nothing has changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service.errors import Conflict, NotFound
from service.http.preconditions import Preconditions, Tags
from service.prices import store
from service.prices.contents import content_of, store_content
from service.prices.snapshots import MAX_OLDER, Snapshots
from service.prices.table_schemas import PriceTableWrite, RevisionWrite
from service.storage.audit import Actor
from service.storage.database import Database
from tests.prices.rates import asked, gpu

_ACTOR = Actor(1, None, "a test", None)
_NO_CONDITIONS = Preconditions(None, None)
_ANY_VERSION = Preconditions(Tags(any=True, tags=()), None)


class Prepared:
    """A database, what is held of it, and how often it was asked."""

    def __init__(self, url: str) -> None:
        self.database = Database(url, pool_size=2)
        self.begin = asynccontextmanager(self.database.writing)
        self.questions = 0
        self.snapshots = Snapshots(self._connected)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        self.questions += 1
        async with asynccontextmanager(self.database.reading)() as connection:
            yield connection

    async def revise(self, *prices: str, name: str = "ours") -> None:
        async with self.begin() as connection:
            content = content_of([gpu(price, provider=f"p{n}") for n, price in enumerate(prices)])
            await store_content(connection, _ACTOR, name, RevisionWrite(rates=()), content, _NO_CONDITIONS)


@pytest.fixture
async def prepared(database_url: str) -> AsyncIterator[Prepared]:
    """One table, with a revision of one rate."""
    made = Prepared(database_url)
    async with made.begin() as connection:
        await store.save_table(connection, _ACTOR, "ours", PriceTableWrite(currency="USD"), _NO_CONDITIONS)
    await made.revise("2.00")
    yield made
    await made.database.close()


async def test_finding_asks_no_database(prepared: Prepared) -> None:
    assert prepared.snapshots.find(_ACTOR.project_id, "ours") is None
    await prepared.snapshots.refresh()
    before = prepared.questions
    found = prepared.snapshots.find(_ACTOR.project_id, "OURS")
    assert found is not None
    assert (found.table, found.currency, found.revision, found.rate_count) == ("ours", "USD", 1, 1)
    choice = found.index.find_choice(asked())
    assert choice is not None
    assert str(choice.rate.price_per_gpu_hour) == "2"
    assert prepared.questions == before


async def test_what_has_not_changed_is_not_read_again(prepared: Prepared) -> None:
    await prepared.snapshots.refresh()
    held = prepared.snapshots.find(_ACTOR.project_id, "ours")
    async with prepared.begin() as connection:
        await store.save_table(connection, _ACTOR, "another", PriceTableWrite(currency="USD"), _NO_CONDITIONS)
    await prepared.snapshots.refresh()
    assert prepared.snapshots.find(_ACTOR.project_id, "ours") is held


async def test_older_revisions_are_read_when_asked_for_and_kept_for_a_while(prepared: Prepared) -> None:
    for number in range(2, MAX_OLDER + 4):
        await prepared.revise(f"{number}.00")
    await prepared.snapshots.refresh()
    assert prepared.snapshots.find(_ACTOR.project_id, "ours", 1) is None
    first = await prepared.snapshots.get(_ACTOR.project_id, "ours", 1)
    assert prepared.snapshots.find(_ACTOR.project_id, "ours", 1) is first
    for number in range(2, MAX_OLDER + 2):
        assert (await prepared.snapshots.get(_ACTOR.project_id, "ours", number)).revision == number
    assert prepared.snapshots.find(_ACTOR.project_id, "ours", 1) is None
    with pytest.raises(NotFound):
        await prepared.snapshots.get(_ACTOR.project_id, "ours", 99)
    with pytest.raises(NotFound):
        await prepared.snapshots.get(_ACTOR.project_id, "theirs")


async def test_a_revision_is_found_by_its_id_after_its_table_is_gone(prepared: Prepared) -> None:
    held = await prepared.snapshots.get(_ACTOR.project_id, "ours")
    async with prepared.begin() as connection:
        await store.delete_table(connection, _ACTOR, "ours", _ANY_VERSION)
    await prepared.snapshots.refresh()
    assert prepared.snapshots.find(_ACTOR.project_id, "ours") is None
    again = await prepared.snapshots.get_by_id(_ACTOR.project_id, held.revision_id)
    assert again.index.find_choice(asked()) == held.index.find_choice(asked())


async def test_a_name_that_is_used_again_never_finds_the_deleted_table(prepared: Prepared) -> None:
    await prepared.revise("3.00")
    deleted = await prepared.snapshots.get(_ACTOR.project_id, "ours", 1)
    async with prepared.begin() as connection:
        await store.delete_table(connection, _ACTOR, "ours", _ANY_VERSION)
    async with prepared.begin() as connection:
        await store.save_table(connection, _ACTOR, "ours", PriceTableWrite(currency="USD"), _NO_CONDITIONS)
    for price in ("8.00", "9.00"):
        await prepared.revise(price)
    await prepared.snapshots.refresh()
    assert prepared.snapshots.find(_ACTOR.project_id, "ours", 1) is None
    assert await prepared.snapshots.get_by_id(_ACTOR.project_id, deleted.revision_id) is deleted
    again = await prepared.snapshots.get(_ACTOR.project_id, "ours", 1)
    assert again.revision_id != deleted.revision_id
    assert prepared.snapshots.find(_ACTOR.project_id, "ours", 1) is again


async def test_another_project_has_tables_of_its_own(prepared: Prepared) -> None:
    held = await prepared.snapshots.get(_ACTOR.project_id, "ours")
    other = 2
    assert prepared.snapshots.find(other, "ours") is None
    with pytest.raises(NotFound):
        await prepared.snapshots.get(other, "ours")
    with pytest.raises(NotFound):
        await prepared.snapshots.get_by_id(other, held.revision_id)


async def test_while_watched_a_change_is_seen_within_a_second(prepared: Prepared) -> None:
    async with prepared.snapshots.watched():
        assert prepared.snapshots.find(_ACTOR.project_id, "ours") is not None
        await prepared.revise("3.00", "4.00")
        await asyncio.sleep(1)
        found = prepared.snapshots.find(_ACTOR.project_id, "ours")
        assert found is not None
        assert (found.revision, found.rate_count) == (2, 2)
        before = prepared.questions
        assert await prepared.snapshots.get(_ACTOR.project_id, "ours") is found
        assert prepared.questions == before


async def test_a_table_that_is_used_cannot_be_deleted(prepared: Prepared) -> None:
    async with prepared.begin() as connection:
        for number in (7, 7, 8):
            await store.use_table(connection, _ACTOR.project_id, "ours", "scenario", number)
    with pytest.raises(Conflict, match="used by 2 scenarios"):
        async with prepared.begin() as connection:
            await store.delete_table(connection, _ACTOR, "ours", _ANY_VERSION)
    async with prepared.begin() as connection:
        await store.release_tables(connection, "scenario", 7)
        await store.release_tables(connection, "scenario", 8)
        await store.delete_table(connection, _ACTOR, "ours", _ANY_VERSION)
    with pytest.raises(NotFound):
        async with prepared.begin() as connection:
            await store.use_table(connection, _ACTOR.project_id, "ours", "scenario", 9)
