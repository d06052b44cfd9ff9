"""How often a key may ask: permits for a minute, counted in memory, and taken from the database by the lease."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, Self

from service.errors import TooManyRequests
from service.http.principal import Principal

Rate = Literal["estimates", "reads", "writes", "imports"]
WINDOW_SECONDS = 60
# Of a limit, what a worker takes at once: it asks the database at most so many times a minute, and what it leaves
# unused is at most such a part, which the other workers miss.
LEASES_PER_WINDOW = 20

Clock = Callable[[], float]


class Lease(Protocol):
    """Takes permits that all workers share."""

    def __call__(self, key_id: str, kind: str, window: int, wanted: int, limit: int) -> Awaitable[int]:
        """How many of those wanted there were."""


class _Permits:
    """What is left of a lease, and whether there is more to be had in this window."""

    __slots__ = ("left", "over")

    def __init__(self) -> None:
        self.left = 0
        self.over = False


class Limits:
    """Permits of every key for this minute. A limit of 0 is none."""

    def __init__(self, per_minute: Mapping[str, int], lease: Lease | None, clock: Clock = time.time) -> None:
        self._per_minute = per_minute
        self._lease = lease
        self._clock = clock
        self._window = 0
        self._permits: dict[tuple[str | None, str], _Permits] = {}
        self._leasing = asyncio.Lock()

    def __deepcopy__(self, _: object) -> Self:
        """The framework copies its handlers with what they hold; this is shared, never copied."""
        return self

    def take(self, principal: Principal, rate: str) -> bool:
        """Take a permit that is in memory, if there is one."""
        if not self._per_minute[rate]:
            return True
        window = int(self._clock() // WINDOW_SECONDS)
        if window != self._window:
            self._window = window
            self._permits = {}
            return False
        permits = self._permits.get((principal.key_id, rate))
        if permits is None or not permits.left:
            return False
        permits.left -= 1
        return True

    async def ask(self, principal: Principal, rate: str) -> None:
        """Take a permit of a new lease; TooManyRequests tells when there will be some."""
        async with self._leasing:
            while not self.take(principal, rate):
                window, permits = self._window, self._of(principal, rate)
                if permits.over:
                    raise self._refused(rate)
                wanted = self._wanted(rate)
                granted = wanted
                if self._lease is not None:
                    limit = self._per_minute[rate]
                    granted = await self._lease(principal.key_id or "", rate, window, wanted, limit)
                permits.left += granted
                permits.over = self._lease is None or granted < wanted

    def _of(self, principal: Principal, rate: str) -> _Permits:
        return self._permits.setdefault((principal.key_id, rate), _Permits())

    def _wanted(self, rate: str) -> int:
        limit = self._per_minute[rate]
        return limit if self._lease is None else max(1, limit // LEASES_PER_WINDOW)

    def _refused(self, rate: str) -> TooManyRequests:
        seconds = max(1, math.ceil(WINDOW_SECONDS - self._clock() % WINDOW_SECONDS))
        told = f"The key has made its {self._per_minute[rate]:,} requests ({rate}) of this minute."
        return TooManyRequests(f"{told} Try again in {seconds} s.", seconds)
