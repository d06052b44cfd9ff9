"""Whose key is it: looked up in the database, kept in memory for a second, compared in constant time every time.

What there is no key of is remembered apart, so that whoever tries keys displaces no good one.
"""

import asyncio
import datetime
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Self

import msgspec
from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError

from service.access import store
from service.access.keys import is_key, key_id_of
from service.errors import Unauthenticated
from service.http.auth import no_good
from service.http.failures import keep
from service.http.principal import Principal
from service.storage.idempotency import Begin

# So long a key that was revoked in another process is still good in this one.
REMEMBERED_SECONDS = 1.0
NOTED_EVERY_SECONDS = 15.0
_MAX_REMEMBERED = 10_000

Clock = Callable[[], float]
_log = logging.getLogger(__name__)


class _Known(Struct, frozen=True):
    """What the database said of a key, and until when that is believed."""

    row: store.KeyRow
    principal: Principal
    until: float
    ends_at: float | None  # as time.time() counts


class Keyring:
    """The keys that were sent lately to this process. `find` asks no database; `read` does."""

    def __init__(self, connected: Begin, begin: Begin, clock: Clock = time.monotonic) -> None:
        self._connected = connected
        self._begin = begin
        self._clock = clock
        self._known: dict[str, _Known] = {}  # those that are believed no more too: they were good lately
        self._unknown: dict[str, float] = {}  # until when it is believed that there is no such key
        self._reading: dict[str, asyncio.Task[_Known | None]] = {}
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
        if known is not None:
            return None if known.until < self._clock() else _checked(known, token)
        if self._unknown.get(key_id, -math.inf) >= self._clock():
            raise no_good()
        return None

    def was_good(self, token: str) -> bool:
        """Whether it was when the database was last asked, or the database is being asked just now."""
        key_id = key_id_of(token)
        if key_id in self._reading:
            return True
        known = None if key_id is None else self._known.get(key_id)
        try:
            return known is not None and _checked(known, token) is not None
        except Unauthenticated:
            return False

    async def read(self, token: str) -> Principal:
        """Whose key it is, asking the database: once for all who ask for this key at the same time."""
        key_id = key_id_of(token)
        if key_id is None:
            raise no_good()
        task = self._reading.get(key_id)
        if task is None:
            task = asyncio.create_task(self._read(key_id))
            self._reading[key_id] = task
            task.add_done_callback(partial(self._end_reading, key_id))
        known = await asyncio.shield(task)  # who goes away does not end it for the others
        if known is None:
            raise no_good()
        principal = _checked(known, token)
        self._used[known.row.id] = datetime.datetime.now(datetime.UTC)
        return principal

    def forget(self, key_id: str) -> None:
        """The key was changed by this process: ask again, and believe nothing that was asked before."""
        self._reading.pop(key_id, None)
        known = self._known.get(key_id)
        if known is not None:
            self._known[key_id] = msgspec.structs.replace(known, until=-math.inf)

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

    async def _read(self, key_id: str) -> _Known | None:
        async with self._connected() as connection:
            row = await store.find_key(connection, key_id)
        until = self._clock() + REMEMBERED_SECONDS
        known = None
        if row is not None:
            ends_at = None if row.expires_at is None else row.expires_at.timestamp()
            known = _Known(row, Principal(row.project_id, key_id, row.scopes, row.name), until, ends_at)
        if self._reading.get(key_id) is not asyncio.current_task():
            return known  # it was changed meanwhile
        if known is not None:
            keep(self._known, key_id, known, _MAX_REMEMBERED)
        else:
            self._known.pop(key_id, None)
            keep(self._unknown, key_id, until, _MAX_REMEMBERED)
        return known

    def _end_reading(self, key_id: str, task: asyncio.Task[_Known | None]) -> None:
        if self._reading.get(key_id) is task:
            del self._reading[key_id]


def _checked(known: _Known, token: str) -> Principal:
    """The principal of a key that is really this one, and has not ended."""
    if not is_key(token, known.row.digest):
        raise no_good()
    if known.ends_at is not None and time.time() >= known.ends_at:
        raise no_good()
    return known.principal
