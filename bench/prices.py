"""Price tables at their limits: look-ups in 200,000 rates, and an import of as many while estimates are asked for."""

import asyncio
import itertools
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
from msgspec import Struct

from bench.load import HOST, run_load
from bench.rounds import say
from bench.servers import Server
from bench.traffic import estimate_exchanges
from service.catalog.gpus import load_gpus
from service.http.preconditions import Preconditions
from service.money import Money
from service.prices import store
from service.prices.contents import content_of, store_content
from service.prices.schemas import GpuRate
from service.prices.table_schemas import PriceTableWrite, RevisionWrite
from service.storage.audit import Actor
from service.storage.database import create_engine
from service.storage.schema import migrate
from tests.support.postgres import Postgres

RATES = 200_000
OLDER_RATES = 2_000
OLDER = (10, 100, 1_000)
LOOKUPS = 400
BACKENDS = ("sqlite", "postgresql")
# What the table must keep to: half of the look-ups, the import, and what it adds to the server's memory and to p99.
LOOKUP_MS, IMPORT_SECONDS, IMPORT_MB, IMPORT_P99 = 5.0, 20.0, 200.0, 3.0
_ACCELERATORS = tuple(gpu.id for gpu in load_gpus())[:40]
_PROVIDERS = tuple(f"provider-{n:02d}" for n in range(25))
_REGIONS = tuple(f"region-{n:02d}" for n in range(25))
_PURCHASES = ("on_demand", "spot", "reserved", "marketplace")
_COUNTS = (1, 8)
_ACTOR = Actor(1, None, "bench", None)
_NO_CONDITIONS = Preconditions(None, None)
# What one key may ask for by default; and beside it, as many as sixteen connections can.
USUAL_PER_SECOND = 1_000.0
_WATCH_SECONDS = 0.2
_ASIDE_SECONDS = 2.0  # so long at a time, until the import is over


class Lookups(Struct, frozen=True):
    """Half of the look-ups took no longer than this."""

    backend: str
    older: int
    rates_ms: float
    choice_ms: float


class Import(Struct, frozen=True):
    """One import of 200,000 rows, estimates being asked for all the while: so many a second, or as many as come."""

    backend: str
    asked_per_second: float | None
    seconds: float
    added_mb: float
    before_p99_ms: float
    during_p99_ms: float
    before_per_second: float
    during_per_second: float


def measure_prices(core: int) -> tuple[list[Lookups], list[Import]]:
    """Both, on both databases."""
    lookups, imports = [], []
    with ExitStack() as stack:
        postgres = Postgres()
        stack.callback(postgres.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for backend in BACKENDS:
            for asked_per_second in (USUAL_PER_SECOND, None):
                url = _new_database(backend, directory, postgres, f"imports-{asked_per_second}")
                imports.append(_measure_import(backend, url, core, asked_per_second))
                say(f"prices: {imports[-1]}")
            url = _new_database(backend, directory, postgres, "lookups")
            asyncio.run(_fill(url))
            lookups += _measure_lookups(backend, url, core)
            say(f"prices: {lookups[-len(OLDER) :]}")
    return lookups, imports


def told(lookups: list[Lookups], imports: list[Import]) -> str:
    """As it is printed, each figure with its goal."""
    lines = [
        "",
        f"prices: half of {LOOKUPS} look-ups among {RATES:,} rates, one after the other, goal {LOOKUP_MS:g} ms",
    ]
    lines.append(f"{'':14}{'older revisions':>18}{'rates ms':>12}{'choice ms':>12}")
    for row in lookups:
        verdict = "reached" if max(row.rates_ms, row.choice_ms) <= LOOKUP_MS else "MISSED"
        lines.append(f"{row.backend:14}{row.older:18,}{row.rates_ms:12.2f}{row.choice_ms:12.2f}  {verdict}")
    lines.append("")
    lines.append(
        f"prices: import of {RATES:,} rows, goals {IMPORT_SECONDS:g} s, {IMPORT_MB:g} MB more, p99 of estimates at "
        f"most {IMPORT_P99:g} times"
    )
    lines.append(
        f"{'':14}{'asked/s':>10}{'seconds':>10}{'MB more':>10}{'p99 ms before':>16}{'during':>10}{'times':>8}"
        f"{'req/s':>14}"
    )
    for one in imports:
        times = one.during_p99_ms / one.before_p99_ms
        kept = one.seconds <= IMPORT_SECONDS and one.added_mb <= IMPORT_MB and times <= IMPORT_P99
        lines.append(
            f"{one.backend:14}{'all' if one.asked_per_second is None else f'{one.asked_per_second:,.0f}':>10}"
            f"{one.seconds:10.1f}{one.added_mb:10.0f}{one.before_p99_ms:16.2f}{one.during_p99_ms:10.2f}"
            f"{times:8.1f}{one.before_per_second:7.0f}/{one.during_per_second:.0f}  {'reached' if kept else 'MISSED'}"
        )
    return "\n".join(lines)


def _offers() -> Iterator[tuple[str, str, str, str, int]]:
    return itertools.islice(itertools.product(_ACCELERATORS, _PROVIDERS, _REGIONS, _PURCHASES, _COUNTS), RATES)


def _rate(offer: tuple[str, str, str, str, int], price: int) -> GpuRate:
    accelerator, provider, region, purchase, count = offer
    return GpuRate(
        accelerator_id=accelerator,
        provider=provider,
        region=region,
        purchase=purchase,  # type: ignore[arg-type]  # one of the five
        gpu_count=float(count),
        price_per_gpu_hour=Money(price).scaleb(-4),  # type: ignore[arg-type]  # scaleb keeps no subclass
        source="bench",
    )


def _new_database(backend: str, directory: Path, postgres: Postgres, name: str) -> str:
    url = f"sqlite+aiosqlite:///{directory / name}.db" if backend == "sqlite" else postgres.new_database()
    asyncio.run(migrate(url))
    return url


async def _fill(url: str) -> None:
    """A table for each number of older revisions, its newest revision with 200,000 rates."""
    engine = create_engine(url, pool_size=1)
    draw = random.Random(1)
    offers = list(_offers())
    for older in OLDER:
        name = f"t{older}"
        async with engine.begin() as connection:
            await store.save_table(connection, _ACTOR, name, PriceTableWrite(currency="USD"), _NO_CONDITIONS)
        for count in (*[OLDER_RATES] * older, RATES):
            chosen = offers if count == RATES else draw.sample(offers, count)
            content = content_of([_rate(offer, draw.randrange(10_000, 100_000)) for offer in chosen])
            async with engine.begin() as connection:
                await store_content(connection, _ACTOR, name, RevisionWrite(rates=()), content, _NO_CONDITIONS)
        say(f"prices: {name} has {older:,} revisions of {OLDER_RATES:,} rates and one of {RATES:,}")
    if engine.dialect.name != "sqlite":
        async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            await connection.exec_driver_sql("ANALYZE")
    await engine.dispose()


def _measure_lookups(backend: str, url: str, core: int) -> list[Lookups]:
    draw = random.Random(2)
    offers = draw.sample(list(_offers()), LOOKUPS)
    with Server("service.app:create_app", core, factory=True, database_url=url) as server:
        made = []
        for older in OLDER:
            rates = [
                f"/v1/price-tables/t{older}/rates?gpu={gpu}&provider={provider}&region={region}&purchase={purchase}"
                for gpu, provider, region, purchase, _ in offers
            ]
            choices = [
                f"/v1/price-tables/t{older}/choice?gpu={gpu}&purchase={purchase}&region={region}&gpu_count={count * 8}"
                for gpu, _, region, purchase, count in offers
            ]
            made.append(Lookups(backend, older, _half_ms(server.port, rates), _half_ms(server.port, choices)))
        return made


def _half_ms(port: int, paths: list[str]) -> float:
    requests = [f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() for path in paths]
    run_load(port, requests[:50], count=50, connections=1)
    return run_load(port, requests, count=len(requests), connections=1).p50_ms


def _measure_import(backend: str, url: str, core: int, asked_per_second: float | None) -> Import:
    file = _file()
    estimates = [exchange.request for exchange in estimate_exchanges()]
    with Server("service.app:create_app", core, factory=True, database_url=url) as server:
        base = f"http://{HOST}:{server.port}/v1/price-tables/bench"
        httpx.put(base, json={"currency": "USD"}, trust_env=False).raise_for_status()
        before = run_load(server.port, estimates, seconds=5, per_second=asked_per_second)
        resident_mb = peak_mb = server.memory_mb()
        taken: list[float] = []

        def send() -> None:
            began = time.perf_counter()
            answer = httpx.post(
                f"{base}/imports", content=file, headers={"Content-Type": "text/csv"}, timeout=300, trust_env=False
            )
            taken.append(time.perf_counter() - began)
            assert answer.status_code == 201, answer.text  # a benchmark stops where it is wrong

        def watch() -> None:
            nonlocal peak_mb
            while sending.is_alive():
                peak_mb = max(peak_mb, server.memory_mb())
                time.sleep(_WATCH_SECONDS)

        sending, watching = threading.Thread(target=send), threading.Thread(target=watch)
        sending.start()
        watching.start()
        during = []
        while sending.is_alive():
            during.append(run_load(server.port, estimates, seconds=_ASIDE_SECONDS, per_second=asked_per_second))
        sending.join()
        watching.join()
        during_ms = sorted(itertools.chain.from_iterable(one.latencies_ms for one in during))
        return Import(
            backend,
            asked_per_second,
            taken[0],
            peak_mb - resident_mb,
            before.p99_ms,
            during_ms[int(len(during_ms) * 0.99)],
            before.per_second,
            len(during_ms) / sum(one.seconds for one in during),
        )


def _file() -> bytes:
    lines = ["kind,accelerator_id,provider,region,purchase,price_per_gpu_hour,gpu_count,source"]
    draw = random.Random(3)
    lines += [
        f"accelerator,{gpu},{provider},{region},{purchase},{draw.randrange(10_000, 100_000) / 10_000},{count},bench"
        for gpu, provider, region, purchase, count in _offers()
    ]
    return "\r\n".join(lines).encode()
