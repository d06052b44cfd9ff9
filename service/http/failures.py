"""How often an address may fail: keys that are no good and links that show nothing, refused before the database is
asked.

The count is this process's own and is forgotten after a minute. What is being looked up counts as failed until it is
known, so that many at once get no further than one after the other.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, Self, TypeVar

from service.errors import TooManyRequests, Unauthenticated

WINDOW_SECONDS = 60
_MAX_ADDRESSES = 10_000
_NETWORK_BITS = 64  # of IPv6: whoever has one address has all that share these

Clock = Callable[[], float]
K = TypeVar("K")
V = TypeVar("V")
_log = logging.getLogger(__name__)


class Attempt:
    """Something that is being looked up; `failed` is set by whoever sees that it is no good."""

    __slots__ = ("failed",)

    def __init__(self) -> None:
        self.failed = False


class _Count:
    """What came from an address since its first failure."""

    __slots__ = ("ends", "failed", "trying")

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.failed = 0
        self.trying = 0


class Failures:
    """Failures of every address within a minute of its first. A limit of 0 is none."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._counts: dict[str, _Count] = {}  # in the order in which they began

    def __deepcopy__(self, _: object) -> Self:
        """The framework copies its handlers with what they hold; this is shared, never copied."""
        return self

    def count(self, address: str) -> None:
        """Something was no good and cost nothing; TooManyRequests where the address may fail no more."""
        if self._per_minute:
            self._require_some_left(address)
            self._add(address)

    @contextmanager
    def trying(self, address: str) -> Iterator[Attempt]:
        """While something is looked up; TooManyRequests, and no look-up, where the address may fail no more."""
        attempt = Attempt()
        if not self._per_minute:
            yield attempt
            return
        self._require_some_left(address)
        count = self._of(address)
        if count.failed + count.trying >= self._per_minute:
            raise _refused(f"{count.trying} new keys or links are being looked up already.", 1)
        count.trying += 1
        try:
            yield attempt
        except Unauthenticated:
            attempt.failed = True
            raise
        finally:
            count.trying -= 1
            if attempt.failed:
                self._add(address)
            self._forget_if_empty(address, count)

    def _require_some_left(self, address: str) -> None:
        count = self._counts.get(address)
        now = self._clock()
        if count is not None and count.failed >= self._per_minute and now < count.ends:
            told = f"{count.failed:,} keys or links that are no good were sent within a minute."
            raise _refused(told, min(WINDOW_SECONDS, max(1, math.ceil(count.ends - now))))

    def _add(self, address: str) -> None:
        count = self._of(address)
        count.failed += 1
        if count.failed == self._per_minute:
            sender = address or "a peer without an address"
            _log.warning("%s sent %d keys or links that are no good within a minute", sender, count.failed)

    def _of(self, address: str) -> _Count:
        """What is counted now; where there are too many addresses, the oldest is forgotten."""
        now = self._clock()
        count = self._counts.get(address)
        if count is None or count.ends <= now:
            count = _Count(now + WINDOW_SECONDS)
            keep(self._counts, address, count, _MAX_ADDRESSES)
        return count

    def _forget_if_empty(self, address: str, count: _Count) -> None:
        """A minute begins with a failure, not with what turned out to be good."""
        if not count.failed and not count.trying and self._counts.get(address) is count:
            del self._counts[address]


def address_of(scope: Any) -> str:
    """Who is counted as one: an address of IPv4, a network of IPv6, and together all whose address cannot be read."""
    client = scope.get("client")
    try:
        address = ip_address(client[0] if client else "")
    except ValueError:
        return ""
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), _NETWORK_BITS), strict=False))


def keep(held: dict[K, V], key: K, value: V, most: int) -> None:
    """Remember something as the newest, and forget the oldest where there would be too many."""
    held.pop(key, None)
    while len(held) >= most:
        del held[next(iter(held))]
    held[key] = value


def _refused(told: str, seconds: int) -> TooManyRequests:
    return TooManyRequests(f"From this address {told} Try again in {seconds} s.", seconds)
