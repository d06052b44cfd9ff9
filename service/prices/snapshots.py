"""Prices in memory: each table's newest revision whole, indexed once a worker, and replaced within a second."""

import asyncio
import contextlib
import datetime
import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.aside import aside
from service.errors import BrokenRule, NotFound
from service.http.text import name_key
from service.prices import revision_store, store
from service.prices.lookup import RateIndex
from service.prices.offers import decode_rate, settle
from service.prices.rate_store import read_bodies
from service.prices.schemas import Rate
from service.prices.table_schemas import Revision

POLL_SECONDS = 0.5
_AT_ONCE = 100  # rates that are decoded, in less than a millisecond, before requests have their turn
MAX_OLDER = 8  # older revisions that were asked for lately

Connected = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

_log = logging.getLogger(__name__)


class UnreadableRevision(BrokenRule):
    """What is stored of a revision cannot be read: another one must take its place."""

    def __init__(self, revision: Revision) -> None:
        super().__init__(
            f"Revision {revision.number} of price table {revision.table!r} cannot be read from the database, which the "
            "log tells more of. Import its prices again, or name another revision."
        )


class Snapshot(Struct, frozen=True):
    """One revision's rates in memory. It never changes."""

    project_id: int
    table: str
    currency: str
    revision: int
    revision_id: int
    as_of: datetime.date | None
    rate_count: int
    index: RateIndex


class Snapshots:
    """What every worker holds of the price tables. `find` asks no database; `get` does where it must."""

    def __init__(self, connected: Connected) -> None:
        self._connected = connected
        self._latest: dict[tuple[int, str], Snapshot] = {}
        self._older: dict[int, Snapshot] = {}
        # Which of `_older` each is, until anything changes: names are used again.
        self._numbered: dict[tuple[int, str, int], int] = {}
        # Which table each of `_latest` is of, and the newest revisions that cannot be read: no number of tries helps.
        self._table_ids: dict[tuple[int, str], int] = {}
        self._unreadable: dict[tuple[int, str], Revision] = {}
        self._told: set[int] = set()
        self._changes = -1  # what `count_changes` said when `_latest` was made
        self._refreshing = asyncio.Lock()
        self._watched = False

    def __deepcopy__(self, _: object) -> Self:
        """The framework copies its handlers with what they hold; this is shared, never copied."""
        return self

    def find(self, project_id: int, name: str, revision: int | None = None) -> Snapshot | None:
        """The newest revision of a table, or one of this number if it is in memory; None otherwise. No database.

        If the newest cannot be read it is what was held before, and UnreadableRevision where nothing was.
        """
        key = name_key(name)
        owner = store.owner_of(project_id, key)
        latest = self._latest.get((owner, key))
        if latest is not None and revision in (None, latest.revision):
            return latest
        if revision is not None:
            return self._older.get(self._numbered.get((owner, key, revision), 0))
        unreadable = self._unreadable.get((owner, key))
        if unreadable is not None:
            raise UnreadableRevision(unreadable)
        return None

    def of(self, project_id: int) -> "ProjectTables":
        """The tables as one project sees them."""
        return ProjectTables(self, project_id)

    def kept(self, project_id: int) -> "ProjectTables | None":
        """The same while somebody keeps them up to date, else None."""
        return ProjectTables(self, project_id) if self._watched else None

    async def get(self, project_id: int, name: str, revision: int | None = None) -> Snapshot:
        """The same, read from the database where it is not in memory, or where nobody keeps it up to date; NotFound."""
        if self._watched or revision is not None:
            found = self.find(project_id, name, revision)
            if found is not None:
                return found
        await self.refresh()
        found = self.find(project_id, name, revision)
        if found is not None:
            return found
        changes = self._changes
        async with self._connected() as connection:
            wanted = await store.get_revision(connection, project_id, name, revision, ("query", "revision"))
            found = await self._read_older(connection, project_id, wanted)
        if self._changes == changes:
            key = name_key(name)
            self._numbered[store.owner_of(project_id, key), key, wanted.number] = wanted.id
        return found

    async def get_by_id(self, project_id: int, revision_id: int) -> Snapshot:
        """A revision by its id, whatever became of its table; NotFound."""
        for known in (*self._latest.values(), *self._older.values()):
            if known.revision_id == revision_id and known.project_id == _owner(project_id, known.table):
                return known
        async with self._connected() as connection:
            older = await revision_store.get_revision_by_id(connection, project_id, revision_id)
            return await self._read_older(connection, project_id, older)

    async def refresh(self) -> None:
        """Bring what is held up to what the database says now; one small statement if nothing has changed.

        A table that cannot be read keeps what is held of it, and holds up no other.
        """
        async with self._refreshing, self._connected() as connection:
            changes = await store.count_changes(connection)
            if changes == self._changes:
                return
            latest: dict[tuple[int, str], Snapshot] = {}
            unreadable: dict[tuple[int, str], Revision] = {}
            heads = await store.list_heads(connection)
            for head in heads:
                revision = await revision_store.find_latest(connection, head.id)
                if revision is None:
                    continue
                place = (head.project_id, head.key)
                known = self._latest.get(place) if self._table_ids.get(place) == head.id else None
                if known is None or known.revision_id != revision.id:
                    try:
                        known = await self._read(connection, head.project_id, revision)
                    except UnreadableRevision:
                        unreadable[place] = revision
                if known is not None:
                    latest[place] = known
            self._latest, self._unreadable = latest, unreadable
            self._table_ids = {(head.project_id, head.key): head.id for head in heads}
            self._numbered = {}
            self._changes = changes

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While inside, what is held is at most half a second and a reading time old."""
        with contextlib.suppress(Exception):  # a database that does not answer now may do so later
            await self.refresh()
            self._watched = True
        over = asyncio.Event()
        task = asyncio.create_task(self._watch(over))
        try:
            yield
        finally:  # never cancelled half-way: a connection would be left behind
            self._watched = False
            over.set()
            await task

    async def _watch(self, over: asyncio.Event) -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), POLL_SECONDS)
            if over.is_set():
                return
            try:
                await self.refresh()
            except Exception as error:  # noqa: BLE001  # whatever it is, the next look may succeed
                if self._watched:
                    _log.warning("price tables cannot be read, and may be out of date: %r", error)
                self._watched = False
            else:
                self._watched = True

    async def _read(self, connection: AsyncConnection, project_id: int, revision: Revision) -> Snapshot:
        """A revision from the database; UnreadableRevision, which is logged once."""
        try:
            return await read_snapshot(connection, project_id, revision)
        except (SQLAlchemyError, OSError):  # the database does not answer, and may do so later
            raise
        except Exception as error:
            if revision.id not in self._told:
                self._told.add(revision.id)
                _log.exception(
                    "price revision %d, number %d of %r in project %d, cannot be read; other tables can",
                    *(revision.id, revision.number, revision.table, project_id),
                )
            raise UnreadableRevision(revision) from error

    async def _read_older(self, connection: AsyncConnection, project_id: int, revision: Revision) -> Snapshot:
        owner = _owner(project_id, revision.table)
        known = self._older.pop(revision.id, None) or await self._read(connection, owner, revision)
        self._older[revision.id] = known
        while len(self._older) > MAX_OLDER:
            del self._older[next(iter(self._older))]
        self._numbered = {name: known_id for name, known_id in self._numbered.items() if known_id in self._older}
        return known


def _owner(project_id: int, table: str) -> int:
    """The project that has the table which a project sees under this name."""
    return store.owner_of(project_id, name_key(table))


class ProjectTables(Struct, frozen=True):
    """The price tables of one project, and those that are everybody's."""

    snapshots: Snapshots
    project_id: int

    def find(self, name: str, revision: int | None = None) -> Snapshot | None:
        """Whatever is in memory; no database."""
        return self.snapshots.find(self.project_id, name, revision)

    async def get(self, name: str, revision: int | None = None) -> Snapshot:
        """The same, read where it is not in memory; NotFound."""
        return await self.snapshots.get(self.project_id, name, revision)


async def read_snapshot(connection: AsyncConnection, project_id: int, revision: Revision) -> Snapshot:
    """A revision from the database, decoded in a thread so that requests go on being answered."""
    pool: dict[Any, Any] = {}
    rates: list[Rate] = []
    with _without_collections():
        async for bodies in read_bodies(connection, revision.id):
            for start in range(0, len(bodies), _AT_ONCE):
                rates += await aside(_decode, bodies[start : start + _AT_ONCE], pool)
        if len(rates) != revision.rate_count:
            raise NotFound.named("complete price revision", str(revision.id), "revision_id")
        index = await aside(RateIndex, rates)
    return Snapshot(
        project_id,
        revision.table,
        revision.currency,
        revision.number,
        revision.id,
        revision.as_of,
        revision.rate_count,
        index,
    )


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Nothing of what is made here is garbage; to look for some among all of it would hold up every request."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _decode(bodies: list[bytes], pool: dict[Any, Any]) -> list[Rate]:
    return [settle(decode_rate(body), pool) for body in bodies]
