"""Load on one server: as many connections as wanted, one request in flight on each, for a time or a count.

The client is a raw asyncio protocol: it must cost far less than the server that it measures. It speaks just
the HTTP/1.1 that these servers answer (keep-alive, Content-Length), and only to loopback.
"""

import asyncio
import gc
import time
from typing import Protocol, cast

import uvloop
from msgspec import Struct

HOST = "127.0.0.1"
CONNECTIONS = 16
MAX_REQUESTS = 250_000  # in one slice, whatever its time
_PATIENCE_SECONDS = 30  # for the answers that are under way when the time is over
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class LoadError(Exception):
    """A server did not answer as it must, so there is nothing to measure."""


class Exchange(Struct, frozen=True):
    """A request as it is sent, and the JSON that must come back."""

    request: bytes
    answer: bytes


class Requests(Protocol):
    """What is sent, by its place: a list, or something that makes each request when its turn comes."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> bytes: ...


class Exchanges(Protocol):
    """The same with the answers."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Exchange: ...


class RequestsOf:
    """The requests of exchanges."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges

    def __len__(self) -> int:
        return len(self._exchanges)

    def __getitem__(self, place: int, /) -> bytes:
        return self._exchanges[place].request


class Slice(Struct, frozen=True):
    """What one slice of load saw. `samples` pairs the place of a request with the body of its answer."""

    answered: int
    seconds: float
    p50_ms: float
    p99_ms: float
    latencies_ms: tuple[float, ...]
    samples: tuple[tuple[int, bytes], ...]

    @property
    def per_second(self) -> float:
        """Requests answered a second."""
        return self.answered / self.seconds


def run_load(
    port: int,
    requests: Requests,
    *,
    first: int = 0,
    seconds: float = 60,
    count: int = MAX_REQUESTS,
    sample_every: int = 64,
    status: int = 200,
    connections: int = CONNECTIONS,
    per_second: float | None = None,
) -> Slice:
    """Send requests in their order from the first on, over and over, until the time or the count is over: each as soon
    as a connection is free, or so many a second. Then the time of one that is late for want of a connection counts from
    when it was due."""
    pacer = _Pacer(requests, first, seconds, min(count, MAX_REQUESTS), sample_every, status, per_second)
    gc.collect()
    gc.disable()  # a collection here would be a pause that the server is not to blame for
    try:
        uvloop.run(_drive(port, pacer, connections))
    finally:
        gc.enable()
    if pacer.fault is not None:
        raise LoadError(pacer.fault)
    latencies = sorted(pacer.latencies)
    return Slice(
        answered=len(latencies),
        seconds=pacer.last - pacer.first,
        p50_ms=latencies[len(latencies) // 2] * 1000,
        p99_ms=latencies[int(len(latencies) * 0.99)] * 1000,
        latencies_ms=tuple(latency * 1000 for latency in latencies),
        samples=tuple(pacer.samples),
    )


class _Pacer:
    """What the connections of one slice share: whose turn it is, and what came back."""

    def __init__(
        self,
        requests: Requests,
        place: int,
        seconds: float,
        count: int,
        sample_every: int,
        status: int,
        per_second: float | None,
    ) -> None:
        self.requests = requests
        self.place = place
        self.count = count
        self.sample_every = sample_every
        self.status = b"%d" % status
        self.apart_seconds = None if per_second is None else 1 / per_second
        self.sent = 0
        self.latencies: list[float] = []
        self.samples: list[tuple[int, bytes]] = []
        self.fault: str | None = None
        self.first = self.last = time.perf_counter()
        self.deadline = self.first + seconds

    def start(self) -> None:
        seconds = self.deadline - self.first
        self.first = self.last = time.perf_counter()
        self.deadline = self.first + seconds

    def next_index(self, now: float) -> int | None:
        """The place of the request to send now; None when the slice is over."""
        if self.sent >= self.count or now >= self.deadline or self.fault is not None:
            return None
        index = (self.place + self.sent) % len(self.requests)
        self.sent += 1
        return index

    def due_at(self, now: float) -> float:
        """When the request that was taken last is to be sent."""
        return now if self.apart_seconds is None else self.first + (self.sent - 1) * self.apart_seconds


class _Connection(asyncio.Protocol):
    def __init__(self, pacer: _Pacer) -> None:
        self.pacer = pacer
        self.done = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.index = 0
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self.fail("the server closed a connection")

    def fail(self, fault: str) -> None:
        self.pacer.fault = self.pacer.fault or fault
        if not self.done.done():
            self.done.set_result(None)

    def send(self, now: float) -> None:
        index = self.pacer.next_index(now)
        if index is None:
            self.done.set_result(None)
            return
        self.index = index
        due_at = self.pacer.due_at(now)
        if due_at > now:
            asyncio.get_running_loop().call_later(due_at - now, self._send_later)
            return
        self.sent_at = due_at
        self.transport.write(self.pacer.requests[index])

    def _send_later(self) -> None:
        self.sent_at = time.perf_counter()
        self.transport.write(self.pacer.requests[self.index])

    def data_received(self, data: bytes) -> None:
        if self.buffer:
            data = self.buffer + data
        head = data.find(_HEAD_END)
        if head < 0:
            self.buffer = data
            return
        length = _body_length(data[:head])
        body_at = head + len(_HEAD_END)
        if len(data) < body_at + length:
            self.buffer = data
            return
        self.buffer = b""
        self.answered(data, body_at)

    def answered(self, data: bytes, body_at: int) -> None:
        now = time.perf_counter()
        pacer = self.pacer
        if data[9:12] != pacer.status or self.done.done():
            self.fail(f"an answer that is no {pacer.status.decode()}: {data[:400]!r}")
            return
        pacer.latencies.append(now - self.sent_at)
        pacer.last = now
        if len(pacer.latencies) % pacer.sample_every == 0:
            pacer.samples.append((self.index, data[body_at:]))
        self.send(now)


def _body_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(_LENGTH)
    if at < 0:
        return 0
    end = lowered.find(b"\r", at)
    return int(lowered[at + len(_LENGTH) : end if end >= 0 else len(lowered)])


async def _drive(port: int, pacer: _Pacer, connections: int) -> None:
    loop = asyncio.get_running_loop()
    opened = [await loop.create_connection(lambda: _Connection(pacer), HOST, port) for _ in range(connections)]
    pacer.start()
    for _, connection in opened:
        connection.send(time.perf_counter())
    limit = pacer.deadline - pacer.first + _PATIENCE_SECONDS
    try:
        await asyncio.wait_for(asyncio.gather(*(connection.done for _, connection in opened)), limit)
    except TimeoutError:
        pacer.fault = "the server stopped answering"
    for transport, _ in opened:
        transport.abort()
