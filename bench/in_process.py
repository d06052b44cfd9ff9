"""Detailed estimates without HTTP, in this process: searched layouts, draws, and many in a row; figures as JSON."""

import gc
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from bench.traffic import SEED, seven_values
from bench.workloads import decoder, full_bodies, hard_searches, searches, uncertain_body
from service.errors import BrokenRule
from service.estimates.operations import estimate
from service.http.encoding import encoded

BACK_TO_BACK = 10_000
_REPEATS = 5
_DRAWN = 21
_MOST_GROWTH_MB = 2.0
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


class Check(Struct, frozen=True):
    """One figure against its limit; without a limit it is only told."""

    key: str
    title: str
    figure: float
    unit: str
    limit: float | None = None
    side: Literal["at_most", "at_least"] = "at_most"

    @property
    def reached(self) -> bool:
        """Whether it is within; True where there is none."""
        if self.limit is None:
            return True
        return self.figure <= self.limit if self.side == "at_most" else self.figure >= self.limit


def main() -> None:
    """All of it, to standard output."""

    pick = random.Random(SEED)
    classic = [json.dumps(seven_values(pick)).encode() for _ in range(BACK_TO_BACK)]
    detailed = [json.dumps(body).encode() for body in full_bodies(SEED, BACK_TO_BACK)]
    checks = [
        *_many("classic", classic, 20_000),
        *_many("detailed", detailed, 1500),
        *_emptied(detailed[:1000]),
        *_searches(),
        *_draws(),
    ]
    sys.stdout.buffer.write(msgspec.json.encode(checks))


def _run(bodies: list[bytes]) -> None:
    for body in bodies:
        _answered(body)


def _answered(body: bytes) -> bytes:
    return encoded(estimate(decoder.decode(body)))


def _many(kind: str, bodies: list[bytes], least_per_second: float) -> Iterable[Check]:
    """One after the other, from body to bytes: how fast, and what memory they leave behind, the second time over."""
    _run(bodies)
    before = _resident_mb()
    seconds = _cpu_seconds(lambda: _run(bodies))
    grown = _resident_mb() - before
    told = f"{len(bodies):,} {kind} estimates in a row"
    yield Check("(ix)", told, len(bodies) / seconds, "a second of CPU", least_per_second, "at_least")
    yield Check("(ix)", f"memory after {told}", grown, "MB more", _MOST_GROWTH_MB)


def _emptied(bodies: list[bytes]) -> Iterable[Check]:
    """Each with every cache emptied before it: what the caches are worth. Emptying is not counted."""
    caches = _caches()
    taken = []
    for body in bodies:
        for cache in caches:
            cache.cache_clear()
        taken.append(_cpu_seconds(partial(_answered, body)))
    told = f"one detailed estimate, all {len(caches)} caches empty"
    yield Check("(ix)", told, statistics.median(taken) * 1e6, "us of CPU")


_Cache: type[Any] = type(lru_cache(abs))


def _caches() -> list[Any]:
    """Every bounded cache of the service; those of files are not bounded, and stay."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("service.")]
    found = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, _Cache) and value.cache_parameters()["maxsize"] is not None
    }
    return list(found.values())


def _searches() -> Iterable[Check]:
    """Each the least of a few, for the machine does other things too; once without being counted."""
    for title, cases, limit in (("usual", searches(), 10.0), ("hardest", hard_searches(), 10.0)):
        taken = sorted((ms, name) for name, body in cases if (ms := _search_ms(body)) is not None)
        middle, (most, name) = statistics.median(ms for ms, _ in taken), taken[-1]
        yield Check("(vii)", f"layout searched, {title}: median of {len(taken)}", middle, "ms of CPU", limit)
        yield Check("(vii)", f"layout searched, {title}: worst, {name}", most, "ms of CPU", limit)


def _search_ms(body: dict[str, Any]) -> float | None:
    """None where nothing fits: there is no estimate then."""
    request = decoder.decode(json.dumps(body))
    try:
        estimate(request)
    except BrokenRule:
        return None
    return min(_cpu_seconds(lambda: estimate(request)) for _ in range(_REPEATS)) * 1e3


def _draws() -> Iterable[Check]:
    requests = [decoder.decode(json.dumps(uncertain_body(seed))) for seed in range(_DRAWN)]
    estimate(requests[0])
    taken = [_cpu_seconds(partial(estimate, request)) * 1e3 for request in requests]
    yield Check("(viii)", "20,000 draws of 8 inputs: median", statistics.median(taken), "ms of CPU", 60.0)
    yield Check("(viii)", "20,000 draws of 8 inputs: worst", max(taken), "ms of CPU", 60.0)


def _cpu_seconds(work: Callable[[], object]) -> float:
    """Processor time of this process, all its threads."""
    before = time.process_time()
    work()
    return time.process_time() - before


def _resident_mb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MB


if __name__ == "__main__":
    main()
