"""Interleaved rounds: each server is loaded in turn, over and over, and compared only within a round."""

import statistics
import sys
from collections.abc import Callable, Sequence

from msgspec import Struct

from bench.load import CONNECTIONS, Exchange, LoadError, Slice, run_load
from bench.servers import Server
from bench.traffic import same_json

_WARM_UP_SECONDS = 1.0


class Contender(Struct, frozen=True):
    """A server and what it is asked; the answers that must come back stand beside the requests."""

    key: str
    title: str
    server: Server
    exchanges: list[Exchange]


class Goal(Struct, frozen=True):
    """How many times as many requests one contender must answer as another."""

    faster: str
    slower: str
    at_least: float


class Figures(Struct, frozen=True):
    """One contender over all rounds: medians."""

    key: str
    title: str
    per_second: float
    p99_ms: float
    cpu_us: float


class Ratio(Struct, frozen=True):
    """A goal and what was measured: each round's ratio of requests a second, and their median."""

    goal: Goal
    rounds: list[float]
    median: float
    cpu_median: float
    reached: bool


class Report(Struct, frozen=True):
    """What one part of the benchmark found."""

    part: str
    rounds: int
    seconds: float
    connections: int
    figures: list[Figures]
    ratios: list[Ratio]


class _Measured(Struct, frozen=True):
    per_second: float
    p99_ms: float
    cpu_us: float


def measure(part: str, contenders: Sequence[Contender], goals: Sequence[Goal], rounds: int, seconds: float) -> Report:
    """Warm each up with every answer compared, then load them in turn."""
    for contender in contenders:
        _load(contender, _WARM_UP_SECONDS, sample_every=1)
    taken: dict[str, list[_Measured]] = {contender.key: [] for contender in contenders}
    for number in range(rounds):
        # Back and forth, so that none always follows the same one.
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            taken[contender.key].append(_load(contender, seconds, sample_every=64))
        told = "  ".join(f"{key} {measured[-1].per_second:.0f}" for key, measured in taken.items())
        say(f"{part}, round {number + 1} of {rounds}: {told} req/s")
    return Report(
        part=part,
        rounds=rounds,
        seconds=seconds,
        connections=CONNECTIONS,
        figures=[_figures(contender, taken[contender.key]) for contender in contenders],
        ratios=[_ratio(goal, taken) for goal in goals],
    )


def compare_answers(server: Server, exchanges: list[Exchange]) -> None:
    """Ask each request once; LoadError where an answer does not say what it must."""
    asked = run_load(server.port, [exchange.request for exchange in exchanges], count=len(exchanges), sample_every=1)
    _check(asked, exchanges)


def say(line: str) -> None:
    """Progress, for whoever waits."""
    print(line, file=sys.stderr, flush=True)


def _load(contender: Contender, seconds: float, sample_every: int) -> _Measured:
    before = contender.server.cpu_seconds()
    slice_ = run_load(
        contender.server.port,
        [exchange.request for exchange in contender.exchanges],
        seconds=seconds,
        sample_every=sample_every,
    )
    cpu_seconds = contender.server.cpu_seconds() - before
    _check(slice_, contender.exchanges)
    return _Measured(slice_.per_second, slice_.p99_ms, cpu_seconds * 1e6 / slice_.answered)


def _check(slice_: Slice, exchanges: list[Exchange]) -> None:
    for index, body in slice_.samples:
        if not same_json(body, exchanges[index].answer):
            request = exchanges[index].request.decode()
            raise LoadError(f"{request}\nwas answered\n{body.decode()}\nnot\n{exchanges[index].answer.decode()}")


def _figures(contender: Contender, taken: list[_Measured]) -> Figures:
    def median(figure: Callable[[_Measured], float]) -> float:
        return statistics.median(map(figure, taken))

    return Figures(
        contender.key,
        contender.title,
        per_second=median(lambda measured: measured.per_second),
        p99_ms=median(lambda measured: measured.p99_ms),
        cpu_us=median(lambda measured: measured.cpu_us),
    )


def _ratio(goal: Goal, taken: dict[str, list[_Measured]]) -> Ratio:
    pairs = list(zip(taken[goal.faster], taken[goal.slower], strict=True))
    rounds = [faster.per_second / slower.per_second for faster, slower in pairs]
    median = statistics.median(rounds)
    return Ratio(
        goal,
        rounds=rounds,
        median=median,
        cpu_median=statistics.median(slower.cpu_us / faster.cpu_us for faster, slower in pairs),
        reached=median >= goal.at_least,
    )
