"""Whose key is it: looked up in the database, kept in memory for a second, compared in constant time every time."""

import asyncio
import datetime
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self

from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError

from service.access import store
from service.access.keys import is_key, key_id_of
from service.http.auth import no_good
from service.http.principal import Principal
from service.storage.idempotency import Begin

# So long a key that was revoked in another process is still good in this one.
REMEMBERED_SECONDS = 1.0
NOTED_EVERY_SECONDS = 15.0
_MAX_REMEMBERED = 10_000

Clock = Callable[[], float]
_log = logging.getLogger(__name__)


class _Known(Struct, frozen=True):
    """What the database said of a key, and until when that is believed. No row: there is no such key."""

    row: store.KeyRow | None
    principal: Principal | None
    until: float
    ends_at: float | None  # as time.time() counts


class Keyring:
    """The keys that were sent lately to this process. `find` asks no database; `read` does."""

    def __init__(self, connected: Begin, begin: Begin, clock: Clock = time.monotonic) -> None:
        self._connected = connected
        self._begin = begin
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._reading: dict[str, asyncio.Task[_Known]] = {}
        self._used: dict[int, datetime.datetime] = {}

    def __deepcopy__(self, _: object) -> Self:
        """The framework copies its handlers with what they hold; this is shared, never copied."""
        return self

    def find(self, token: str) -> Principal | None:
        """Whose key it is; None where the database must be asked; Unauthenticated where it is no good."""
        key_id = key_id_of(token)
        if key_id is None:
            raise no_good()
        known = self._known.get(key_id)
        if known is None or known.until < self._clock():
            return None
        return _checked(known, token)

    async def read(self, token: str) -> Principal:
        """The same, asking the database: once for all who ask for this key at the same time."""
        key_id = key_id_of(token)
        if key_id is None:
            raise no_good()
        task = self._reading.get(key_id)
        if task is None:
            task = asyncio.create_task(self._read(key_id))
            self._reading[key_id] = task
            task.add_done_callback(lambda _: self._reading.pop(key_id, None))
        known = await asyncio.shield(task)  # who goes away does not end it for the others
        principal = _checked(known, token)
        if known.row is not None:
            self._used[known.row.id] = datetime.datetime.now(datetime.UTC)
        return principal

    def forget(self, key_id: str) -> None:
        """The key was changed by this process: ask again."""
        self._known.pop(key_id, None)

    async def note_uses(self) -> None:
        """Write down when keys were last used."""
        used, self._used = self._used, {}
        if used:
            async with self._begin() as connection:
                for row_id, at in sorted(used.items()):  # in one order: two workers may do so at once
                    await store.note_use(connection, row_id, at)

    @asynccontextmanager
    async def noting(self) -> AsyncIterator[None]:
        """While inside, uses are written down now and then, and at the end."""
        over = asyncio.Event()

        async def note() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), NOTED_EVERY_SECONDS)
                try:
                    await self.note_uses()
                except (SQLAlchemyError, OSError) as error:  # it only says when a key was used
                    _log.warning("uses of keys cannot be noted: %r", error)

        task = asyncio.create_task(note())
        try:
            yield
        finally:  # never cancelled half-way: a connection would be left behind
            over.set()
            await task

    async def _read(self, key_id: str) -> _Known:
        async with self._connected() as connection:
            row = await store.find_key(connection, key_id)
        until = self._clock() + REMEMBERED_SECONDS
        if row is None:
            known = _Known(None, None, until, None)
        else:
            ends_at = None if row.expires_at is None else row.expires_at.timestamp()
            known = _Known(row, Principal(row.project_id, key_id, row.scopes, row.name), until, ends_at)
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()  # somebody tries keys; those that are good are soon back
        self._known[key_id] = known
        return known


def _checked(known: _Known, token: str) -> Principal:
    """The principal of a key that is really this one, and has not ended."""
    row, principal = known.row, known.principal
    if row is None or principal is None or not is_key(token, row.digest):
        raise no_good()
    if known.ends_at is not None and time.time() >= known.ends_at:
        raise no_good()
    return principal
