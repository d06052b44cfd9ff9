"""What is decided about price tables: is a new revision one, what does a file bring, which rate answers."""

import datetime
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TypeVar

from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from service.apart import Apart
from service.aside import aside
from service.catalog.gpus import get_gpu
from service.errors import AmbiguousName, BrokenRule, Fault, UnknownName
from service.http.encoding import encoded
from service.http.preconditions import Preconditions
from service.http.text import name_key
from service.prices import store
from service.prices.contents import Content, answer_with, content_of, store_content
from service.prices.file_imports import FileImport, import_here, import_there, report, report_there
from service.prices.importers.names import another_id
from service.prices.importers.schemas import ImportOptions
from service.prices.lookup import Question, age_days, choose, doubts
from service.prices.offers import decode_rate
from service.prices.rate_store import read_bodies
from service.prices.rules import broken_rule
from service.prices.schemas import GpuRate, Rate
from service.prices.snapshots import Snapshots
from service.prices.table_schemas import ChoiceQuery, RateChoice, Revision, RevisionWrite
from service.storage.audit import Actor
from service.storage.idempotency import Answer, Doors, Once, act_once

APART_BYTES = 262_144  # read in a tenth of a second; starting a process takes longer
_MAX_FAULTS = 20
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Prices(Doors, frozen=True):
    """What the decisions need: connections to read, transactions to write, whose turn it is, what is in memory, and
    where large files are read."""

    snapshots: Snapshots
    database_url: str
    apart: Apart


async def write_revision(
    prices: Prices, actor: Actor, name: str, write: RevisionWrite, preconditions: Preconditions, once: Once | None
) -> Answer:
    """A new revision of these rates; 200 with the newest one where nothing is different."""
    store.refuse_released(name)
    await aside(_check, write.rates)

    async def prepare() -> Content:
        return await aside(content_of, write.rates)

    async def effect(connection: AsyncConnection, content: Content) -> Answer:
        revision, created = await store_content(connection, actor, name, write, content, preconditions)
        return answer_with(created, revision, encoded(revision))

    return await _act_once(prices, once, prepare, effect)


async def import_file(prices: Prices, asked: FileImport, body: bytes) -> Answer:
    """A file's rates become a revision. Read before anything is locked; a large file in a process of its own."""
    store.refuse_released(asked.name)
    if len(body) < APART_BYTES:
        answer = await import_here(prices, asked, body)
    elif asked.once is None:
        answer = await prices.apart.run(import_there, prices.database_url, asked, data=body)
    else:
        async with prices.turns.taken(asked.once.project_id, asked.once.key):
            answer = await prices.apart.run(import_there, prices.database_url, asked, data=body)
    await bring_up_to_date(prices)
    return answer


async def try_file(prices: Prices, name: str, body: bytes, options: ImportOptions) -> Answer:
    """The report of a file that would go into this table. Nothing is stored."""
    store.refuse_released(name)
    if len(body) < APART_BYTES:
        return await aside(report, body, options)
    return await prices.apart.run(report_there, options, data=body)


async def choose_rate(prices: Prices, project_id: int, name: str, asked: ChoiceQuery) -> RateChoice:
    """The one rate that answers, from memory."""
    snapshot = await prices.snapshots.get(project_id, name, None if asked.revision is UNSET else asked.revision)
    as_of = datetime.datetime.now(datetime.UTC).date() if asked.as_of is UNSET else asked.as_of
    question = Question(
        accelerator_id=accelerator_id(asked.gpu),
        gpu_count=asked.gpu_count,
        as_of=as_of,
        purchase=asked.purchase,
        provider=asked.provider or None,
        region=asked.region or None,
        country=asked.country or None,
        term_months=asked.term_months or None,
        gpus_per_node=asked.gpus_per_node or None,
    )
    choice = choose(snapshot.index, question)
    return RateChoice(
        snapshot.table,
        snapshot.currency,
        snapshot.revision,
        snapshot.revision_id,
        as_of,
        choice.rate,
        age_days(choice.rate, as_of, snapshot.as_of),
        choice.candidate_count,
        choice.beaten,
        doubts(choice.rate, question, snapshot.as_of),
    )


async def export(
    prices: Prices, revision: Revision, write: Callable[[list[Rate]], Iterator[bytes]]
) -> AsyncGenerator[bytes, None]:
    """A revision's rates as the writer has them, a chunk at a time, each made in a thread; one header for all."""
    first = True
    async with prices.connected() as connection:
        async for bodies in read_bodies(connection, revision.id):  # holds nothing of its own
            yield await aside(_written, bodies, write, with_header=first)
            first = False
    if first:
        yield b"".join(write([]))


def _written(bodies: list[bytes], write: Callable[[list[Rate]], Iterator[bytes]], *, with_header: bool) -> bytes:
    text = b"".join(write([decode_rate(body) for body in bodies]))
    return text if with_header else text.partition(b"\n")[2]


def accelerator_id(name: str) -> str:
    """The catalogue id of a name; UnknownName or AmbiguousName says so of the parameter."""
    try:
        return get_gpu(name).id
    except (UnknownName, AmbiguousName) as error:
        raise error.placed("gpu", "query") from None


def accelerator_keys(name: str) -> tuple[str, ...]:
    """What rates of this accelerator may be kept by: its catalogue id, for a generic name every id that it fits, and
    the name as a file had it where no id was to be found."""
    try:
        return (get_gpu(name).id,)
    except AmbiguousName as error:
        return (*error.candidates, name_key(name))
    except UnknownName:
        return (name_key(name),)


async def _act_once(
    prices: Prices,
    once: Once | None,
    prepare: Callable[[], Awaitable[T]],
    effect: Callable[[AsyncConnection, T], Awaitable[Answer]],
) -> Answer:
    """`act_once`, and what is in memory brought up to date."""
    answer = await act_once(prices, once, prepare, effect)
    await bring_up_to_date(prices)
    return answer


async def bring_up_to_date(prices: Prices) -> None:
    """What is in memory after a write, which stands whether or not this succeeds: whoever watches tries again."""
    try:
        await prices.snapshots.refresh()
    except Exception as error:  # noqa: BLE001  # whatever it is, what was written is written
        _log.warning("price tables cannot be read after a write, and may be out of date: %r", error)


def _check(rates: tuple[Rate, ...]) -> None:
    """What the schema could not say of each rate."""
    faults = []
    for place, rate in enumerate(rates):
        broken = broken_rule(rate) or _broken_name(rate)
        if broken is not None:
            field, message = broken
            faults.append(Fault("body", f"/rates/{place}/{field}", message))
        if len(faults) == _MAX_FAULTS:
            break
    if faults:
        raise BrokenRule(faults[0].message + ".", tuple(faults))


def _broken_name(rate: Rate) -> tuple[str, str] | None:
    """An id must be the catalogue's own, or nobody finds the rate; one that nobody knows stays."""
    if not isinstance(rate, GpuRate) or rate.accelerator_id is None:
        return None
    told = another_id(rate.accelerator_id)
    return None if told is None else ("accelerator_id", told)
