"""What is decided about price tables: is a new revision one, what does a file bring, which rate answers."""

import datetime
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

from msgspec import UNSET, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from service.apart import Apart
from service.aside import aside
from service.catalog.gpus import get_gpu
from service.errors import AmbiguousName, BrokenRule, Fault, UnknownName
from service.http.conditional import Preconditions
from service.http.encoding import encoded
from service.http.text import name_key
from service.prices import revision_store, store
from service.prices.importers.names import another_id
from service.prices.importers.reading import read_rates
from service.prices.importers.schemas import ImportOptions, ImportOutcome, ImportReport, RowFault
from service.prices.lookup import Question, age_days, choose, doubts
from service.prices.offers import content_hash, decode_rate, in_order
from service.prices.rate_store import insert_rates, read_bodies
from service.prices.rules import broken_rule
from service.prices.schemas import GpuRate, Rate
from service.prices.snapshots import Snapshots
from service.prices.table_schemas import ChoiceQuery, ImportAnswer, RateChoice, Revision, RevisionWrite
from service.storage.audit import Actor
from service.storage.database import Database, unavailable
from service.storage.idempotency import Answer, Doors, Once, Turns, act_once

APART_BYTES = 262_144  # read in a tenth of a second; starting a process takes longer
_MAX_FAULTS = 20
# Who changes the table that comes with the release.
_RELEASE = Actor(store.RELEASED_PROJECT_ID, None, "the release", None)
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Prices(Doors, frozen=True):
    """What the decisions need: connections to read, transactions to write, whose turn it is, what is in memory, and
    where large files are read."""

    snapshots: Snapshots
    database_url: str
    apart: Apart


class FileImport(Struct, frozen=True):
    """A file, how it is to be read, and what is to become of it."""

    actor: Actor
    name: str
    body: bytes
    options: ImportOptions
    write: RevisionWrite
    preconditions: Preconditions
    once: Once | None


class Content(Struct, frozen=True):
    """The rates of a revision in their order, and the digest that tells whether they are new."""

    rates: tuple[Rate, ...]
    digest: str


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
        return _answer(created, revision, encoded(revision))

    return await _act_once(prices, once, prepare, effect)


async def import_file(prices: Prices, asked: FileImport) -> Answer:
    """A file's rates become a revision. Read before anything is locked; a large file in a process of its own."""
    store.refuse_released(asked.name)
    if len(asked.body) < APART_BYTES:
        answer = await _import_here(prices, asked)
    elif asked.once is None:
        answer = await prices.apart.run(_import_there, prices.database_url, asked)
    else:
        async with prices.turns.taken(asked.once.project_id, asked.once.key):
            answer = await prices.apart.run(_import_there, prices.database_url, asked)
    await bring_up_to_date(prices)
    return answer


async def try_file(prices: Prices, name: str, body: bytes, options: ImportOptions) -> Answer:
    """The report of a file that would go into this table. Nothing is stored."""
    store.refuse_released(name)
    if len(body) < APART_BYTES:
        return await aside(_report, body, options)
    return await prices.apart.run(_report_there, body, options)


async def store_content(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    write: RevisionWrite,
    content: Content,
    preconditions: Preconditions,
) -> tuple[Revision, bool]:
    """In the caller's transaction: the revision that holds this content now, and whether it is new."""
    head = await store.get_head_for_write(connection, actor.project_id, name, preconditions)
    return await _store_under(connection, actor, head, write, content)


async def store_released(
    connection: AsyncConnection,
    name: str,
    currency: str,
    description: str,
    gaps: tuple[str, ...],
    write: RevisionWrite,
) -> tuple[Revision, bool]:
    """The same for the table that comes with the release."""
    head = await store.ensure_released(connection, name, currency, description, gaps)
    return await _store_under(connection, _RELEASE, head, write, content_of(write.rates))


def content_of(rates: tuple[Rate, ...] | list[Rate]) -> Content:
    """Rates as a revision keeps them."""
    ordered = in_order(rates)
    return Content(ordered, content_hash(ordered))


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


def table_path(name: str) -> str:
    """Where a table is."""
    return f"/v1/price-tables/{quote(name, safe='')}"


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


async def _store_under(
    connection: AsyncConnection, actor: Actor, head: revision_store.Head, write: RevisionWrite, content: Content
) -> tuple[Revision, bool]:
    latest = await revision_store.find_latest(connection, head.id)
    if latest is not None and latest.content_hash == content.digest:
        return latest, False
    revision = await revision_store.add_revision(
        connection, actor, head, latest, write, content_hash=content.digest, rate_count=len(content.rates)
    )
    await insert_rates(connection, revision.id, content.rates)
    return revision, True


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


async def _import_here(doors: Doors, asked: FileImport) -> Answer:
    async def prepare() -> tuple[ImportOutcome, Content]:
        return await aside(_read_file, asked.body, asked.options)

    async def effect(connection: AsyncConnection, read: tuple[ImportOutcome, Content]) -> Answer:
        outcome, content = read
        revision, created = await store_content(
            connection, asked.actor, asked.name, asked.write, content, asked.preconditions
        )
        if created and not content.rates:
            raise without_rates(outcome.report)
        return _answer(created, revision, encoded(ImportAnswer(created, False, revision, outcome.report)))

    return await act_once(doors, asked.once, prepare, effect)


async def _import_there(database_url: str, asked: FileImport) -> Answer:
    """The same as the one work of a process."""
    database = Database(database_url, pool_size=1)
    doors = Doors(asynccontextmanager(database.reading), asynccontextmanager(database.writing), Turns())
    try:
        return await _import_here(doors, asked)
    except Exception as error:
        told = unavailable(error)
        if told is None:
            raise
        raise told from error
    finally:
        await database.close()


def _report(body: bytes, options: ImportOptions) -> Answer:
    outcome = read_rates(body, options)
    return Answer(200, (), encoded(ImportAnswer(False, True, None, outcome.report)))


async def _report_there(body: bytes, options: ImportOptions) -> Answer:
    return _report(body, options)


def _read_file(body: bytes, options: ImportOptions) -> tuple[ImportOutcome, Content]:
    outcome = read_rates(body, options)
    report = outcome.report
    if report.refused and report.rows.rejected and options.on_error == "reject":
        raise BrokenRule(
            f"{report.rows.rejected} of {report.rows.total} rows cannot be read, and nothing was "
            "taken: mend them, or leave them out with on_error=skip; dry_run=true shows the whole report.",
            _faults(report.rejected),
        )
    if report.refused:
        raise without_rates(report)
    return outcome, content_of(outcome.rates)


def without_rates(report: ImportReport) -> BrokenRule:
    """Why a file that gives no rate is refused: it would empty a table, which nobody does with a file."""
    faults = _faults(sorted((*report.rejected, *report.skipped), key=lambda row: row.line))
    told = f"No row gives a rate: of {report.rows.total} none was accepted, and nothing was taken"
    return BrokenRule(
        f"{told}. A table is emptied by a revision with an empty list of rates.",
        faults or (Fault("body", "", "The file has no rows"),),
    )


def _faults(rows: Sequence[RowFault]) -> tuple[Fault, ...]:
    return tuple(Fault("body", f"/{row.line}", row.reason) for row in rows[:_MAX_FAULTS])


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


def _answer(created: bool, revision: Revision, body: bytes) -> Answer:
    path = f"{table_path(revision.table)}/revisions/{revision.number}"
    headers = (("etag", revision_etag(revision)), *((("location", path),) if created else ()))
    return Answer(201 if created else 200, headers, body)


def revision_etag(revision: Revision) -> str:
    """A revision never changes, so its id is its tag."""
    return f'"revision-{revision.id}"'
