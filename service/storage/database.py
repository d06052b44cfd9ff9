"""The engine, and one transaction a request: `writing` commits once at the edge, `reading` holds none."""

from collections.abc import AsyncIterator
from typing import Any, Self

import msgspec
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from service.errors import Unavailable

_BUSY_TIMEOUT_MS = 30_000
_POOL_TIMEOUT_SECONDS = 30
_CONNECT_TIMEOUT_SECONDS = 10  # asyncpg waits a minute for a host that does not answer
_AUTOCOMMIT = {"isolation_level": "AUTOCOMMIT"}


class Database:
    """An engine and the two ways to use it. `writing` and `reading` are handlers' dependencies."""

    def __init__(self, url: str, *, pool_size: int) -> None:
        self.url = url
        self.engine = create_engine(url, pool_size=pool_size)
        self._reader = self.engine.execution_options(**_AUTOCOMMIT)

    def __deepcopy__(self, _: object) -> Self:
        """The framework copies its handlers with what they hold; an engine is shared, never copied."""
        return self

    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: committed when the handler is done, rolled back when it fails."""
        async with self.engine.begin() as connection:
            yield connection

    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection for single SELECTs, each of which sees one consistent state."""
        async with self._reader.connect() as connection:
            yield connection

    async def close(self) -> None:
        await self.engine.dispose()


def create_engine(url: str, *, pool_size: int) -> AsyncEngine:
    """An engine for SQLite or PostgreSQL whose transactions mean what they say."""
    engine = create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=_POOL_TIMEOUT_SECONDS,
        json_serializer=_dump_json,
        json_deserializer=msgspec.json.decode,
        hide_parameters=True,
        connect_args={"timeout": _CONNECT_TIMEOUT_SECONDS},
    )
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
    else:
        event.listen(engine.sync_engine, "connect", _prepare_postgresql)
    return engine


def _dump_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _prepare_sqlite(connection: Any, _: Any) -> None:
    """No implicit transactions (they lose updates), a log that survives a kill, and waiting for the writer."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={_BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _prepare_postgresql(connection: Any, _: Any) -> None:
    """Each statement is planned for what it asks. After five times PostgreSQL would take one plan for all values, and
    read every scenario of a label that many have where a page of them was asked for."""
    cursor = connection.cursor()
    cursor.execute("SET plan_cache_mode = force_custom_plan")
    cursor.close()
    connection.commit()


def _begin_sqlite(connection: Any) -> None:
    """A writer takes its lock at once: a transaction that first reads and then writes cannot wait for it."""
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_away(error: DBAPIError) -> bool:
    """Whether PostgreSQL says that it is starting, stopping, cut off or full: it may be there again shortly."""
    state = str(getattr(error.orig, "sqlstate", None) or "")
    return state.startswith("08") or state in ("57P01", "57P02", "57P03", "53300")


def unavailable(error: Exception) -> Unavailable | None:
    """What a failed connection is to a caller; None where the error is our own fault."""
    gone = isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError) or (
        isinstance(error, DBAPIError) and (error.connection_invalidated or _is_away(error))
    )
    if not gone:
        return None
    told = Unavailable("The database does not answer. Try again shortly.")
    told.__cause__ = error
    return told
