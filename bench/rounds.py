"""Interleaved rounds: each server is loaded in turn, over and over, and compared only within a round."""

import statistics
import sys
from collections.abc import Callable, Sequence

from msgspec import Struct

from bench.load import CONNECTIONS, Exchanges, LoadError, RequestsOf, Slice, run_load
from bench.servers import Server
from bench.traffic import same_json

_WARM_UP_SECONDS = 1.0


class Contender(Struct, frozen=True):
    """A server and what it is asked; the answers that must come back stand beside the requests. `first` of them is
    asked first, and each slice goes on where the last one ended."""

    key: str
    title: str
    server: Server
    exchanges: Exchanges
    first: int = 0
    same: Callable[[bytes, bytes], bool] = same_json


class Goal(Struct, frozen=True):
    """How many times as many requests one contender must answer as another."""

    faster: str
    slower: str
    at_least: float


class Figures(Struct, frozen=True):
    """One contender over all rounds: medians, and how often it answered, the warm-up included."""

    key: str
    title: str
    answered: int
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
    answered: int
    per_second: float
    p99_ms: float
    cpu_us: float


def measure(part: str, contenders: Sequence[Contender], goals: Sequence[Goal], rounds: int, seconds: float) -> Report:
    """Warm each up with every answer compared, then load them in turn."""
    answered = {
        contender.key: _load(contender, contender.first, _WARM_UP_SECONDS, sample_every=1).answered
        for contender in contenders
    }
    taken: dict[str, list[_Measured]] = {contender.key: [] for contender in contenders}
    for number in range(rounds):
        # Back and forth, so that none always follows the same one.
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            measured = _load(contender, contender.first + answered[contender.key], seconds, sample_every=64)
            taken[contender.key].append(measured)
            answered[contender.key] += measured.answered
        told = "  ".join(f"{key} {each[-1].per_second:.0f}" for key, each in taken.items())
        say(f"{part}, round {number + 1} of {rounds}: {told} req/s")
    return Report(
        part=part,
        rounds=rounds,
        seconds=seconds,
        connections=CONNECTIONS,
        figures=[_figures(contender, answered[contender.key], taken[contender.key]) for contender in contenders],
        ratios=[_ratio(goal, taken) for goal in goals],
    )


def compare_answers(
    server: Server,
    exchanges: Exchanges,
    count: int | None = None,
    same: Callable[[bytes, bytes], bool] = same_json,
) -> None:
    """Ask each request once, or so many; LoadError where an answer does not say what it must."""
    wanted = len(exchanges) if count is None else count
    asked = run_load(server.port, RequestsOf(exchanges), count=wanted, sample_every=1)
    _check(asked, exchanges, same)


def say(line: str) -> None:
    """Progress, for whoever waits."""
    print(line, file=sys.stderr, flush=True)


def _load(contender: Contender, first: int, seconds: float, sample_every: int) -> _Measured:
    before = contender.server.cpu_seconds()
    slice_ = run_load(
        contender.server.port,
        RequestsOf(contender.exchanges),
        first=first,
        seconds=seconds,
        sample_every=sample_every,
    )
    cpu_seconds = contender.server.cpu_seconds() - before
    _check(slice_, contender.exchanges, contender.same)
    return _Measured(slice_.answered, slice_.per_second, slice_.p99_ms, cpu_seconds * 1e6 / slice_.answered)


def _check(slice_: Slice, exchanges: Exchanges, same: Callable[[bytes, bytes], bool]) -> None:
    for index, body in slice_.samples:
        if not same(body, exchanges[index].answer):
            request = exchanges[index].request.decode()
            raise LoadError(f"{request}\nwas answered\n{body.decode()}\nnot\n{exchanges[index].answer.decode()}")


def _figures(contender: Contender, answered: int, taken: list[_Measured]) -> Figures:
    def median(figure: Callable[[_Measured], float]) -> float:
        return statistics.median(map(figure, taken))

    return Figures(
        contender.key,
        contender.title,
        answered=answered,
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
