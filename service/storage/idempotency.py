"""A POST that is sent twice acts once: its key, what was asked, and the first answer, for a day."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import sha256
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from sqlalchemy import BigInteger, Column, Index, LargeBinary, String, Table, delete, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import BrokenRule, Conflict, Fault
from service.storage.base import metadata
from service.storage.columns import Instant

KEPT_FOR = datetime.timedelta(hours=24)
WAIT_SECONDS = 5
_FORGET_SECONDS = 3600
HEADER = "Idempotency-Key"
T = TypeVar("T")
Begin = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
_LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's SQLSTATE after lock_timeout

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("project_id", BigInteger, primary_key=True, autoincrement=False),
    Column("key", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("answer", LargeBinary),  # null only inside the transaction that claimed the key
    Column("created_at", Instant, nullable=False),
    Index("ix_idempotency_keys_created_at", "created_at"),
)
_COLUMNS = idempotency_keys.c


class Answer(Struct, frozen=True):
    """What was answered: enough to say it again."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Once(Struct, frozen=True):
    """A key as a project sent it, and a digest of what was asked with it."""

    project_id: int
    key: str
    fingerprint: str


def fingerprint_of(*parts: bytes) -> str:
    """A digest of the parts, each with its length, so that no two requests run together."""
    whole = sha256()
    for part in parts:
        whole.update(b"%d:" % len(part))
        whole.update(part)
    return whole.hexdigest()


async def find_answer(connection: AsyncConnection, once: Once) -> Answer | None:
    """The first answer to this key; None if it is new or a day old; BrokenRule if something else was asked with it."""
    row = (
        await connection.execute(
            select(_COLUMNS.fingerprint, _COLUMNS.answer).where(*_this(once), _COLUMNS.created_at > _now() - KEPT_FOR)
        )
    ).one_or_none()
    if row is None or row.answer is None:
        return None
    if row.fingerprint != once.fingerprint:
        raise BrokenRule.at(HEADER, "This key was used for another request: take a new one", "header")
    return msgspec.msgpack.decode(row.answer, type=Answer)


async def claim(connection: AsyncConnection, once: Once) -> Answer | None:
    """Take the key inside the transaction of its effect; the answer where somebody was first, who is waited for."""
    await connection.execute(delete(idempotency_keys).where(*_this(once), _COLUMNS.created_at <= _now() - KEPT_FOR))
    values = {"project_id": once.project_id, "key": once.key, "fingerprint": once.fingerprint, "created_at": _now()}
    if connection.dialect.name == "sqlite":  # its transaction began when no other was writing
        taken = await connection.execute(sqlite.insert(idempotency_keys).values(values).on_conflict_do_nothing())
    else:
        taken = await _claim_on_postgresql(connection, values)
    return None if taken.rowcount else await find_answer(connection, once)


async def keep_answer(connection: AsyncConnection, once: Once, answer: Answer) -> None:
    """Write the answer beside its effect, in the same transaction."""
    await connection.execute(update(idempotency_keys).where(*_this(once)).values(answer=msgspec.msgpack.encode(answer)))


async def forget_old(connection: AsyncConnection) -> None:
    """Remove what is over a day old."""
    await connection.execute(delete(idempotency_keys).where(_COLUMNS.created_at <= _now() - KEPT_FOR))


@asynccontextmanager
async def forgetting(begin: Begin) -> AsyncIterator[None]:
    """While inside, what is over a day old is removed, at first and then every hour."""

    over = asyncio.Event()

    async def forget() -> None:
        while not over.is_set():
            with suppress(SQLAlchemyError, OSError):  # a database that does not answer now will be asked again
                async with begin() as connection:
                    await forget_old(connection)
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _FORGET_SECONDS)

    task = asyncio.create_task(forget())
    try:
        yield
    finally:  # never cancelled half-way: a connection would be left behind
        over.set()
        await task


class Turns:
    """Within one process, requests with the same key one after the other: whoever is second waits, or is told."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def taken(self, project_id: int, key: str) -> AsyncIterator[None]:
        """Wait for the turn of a project's key; Conflict after five seconds."""
        lock = self._locks.setdefault((project_id, key), asyncio.Lock())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await lock.acquire()
        except TimeoutError:
            raise _still_running() from None
        try:
            yield
        finally:
            lock.release()


class Doors(Struct, frozen=True):
    """What acting once needs: connections to read, transactions to write, whose turn it is."""

    connected: Begin
    begin: Begin
    turns: Turns

    def __deepcopy__(self, _: object) -> "Doors":
        """The framework copies its handlers with what they hold; this is shared, never copied."""
        return self


async def act_once(
    doors: Doors,
    once: Once | None,
    prepare: Callable[[], Awaitable[T]],
    effect: Callable[[AsyncConnection, T], Awaitable[Answer]],
    keep: Callable[[Answer], Answer] = lambda answer: answer,
) -> Answer:
    """Prepare without a lock, then act in one transaction; with a key, the first answer again where there is one.

    What is kept of an answer can be less than what is sent: a secret is shown once."""
    if once is None:
        return await _act(doors, None, prepare, effect, keep)
    async with doors.turns.taken(once.project_id, once.key):
        async with doors.connected() as connection:
            known = await find_answer(connection, once)
        return known or await _act(doors, once, prepare, effect, keep)


async def _act(
    doors: Doors,
    once: Once | None,
    prepare: Callable[[], Awaitable[T]],
    effect: Callable[[AsyncConnection, T], Awaitable[Answer]],
    keep: Callable[[Answer], Answer],
) -> Answer:
    prepared = await prepare()
    async with doors.begin() as connection:
        if once is None:
            return await effect(connection, prepared)
        known = await claim(connection, once)
        if known is not None:
            return known
        answer = await effect(connection, prepared)
        await keep_answer(connection, once, keep(answer))
        return answer


async def _claim_on_postgresql(connection: AsyncConnection, values: dict[str, Any]) -> Any:
    """An insert of the same key waits for the transaction that did it first, and then does nothing."""
    await connection.execute(text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))
    try:
        taken = await connection.execute(postgresql.insert(idempotency_keys).values(values).on_conflict_do_nothing())
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise _still_running() from None
        raise
    await connection.execute(text("SET LOCAL lock_timeout = 0"))
    return taken


def _still_running() -> Conflict:
    told = "The first request with this key is still running: send the same again later to get its answer."
    return Conflict(told, (Fault("header", HEADER, told),))


def _this(once: Once) -> tuple[Any, ...]:
    return (_COLUMNS.project_id == once.project_id, _COLUMNS.key == once.key)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
