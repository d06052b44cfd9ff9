"""A price file to a revision: read, and stored in one transaction; here, or as the one work of a process."""

from collections.abc import Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from service.aside import aside
from service.errors import BrokenRule, Fault
from service.http.encoding import encoded
from service.http.preconditions import Preconditions
from service.prices.contents import Content, answer_with, content_of, store_content
from service.prices.importers.reading import read_rates
from service.prices.importers.schemas import ImportOptions, ImportOutcome, ImportReport, RowFault
from service.prices.table_schemas import ImportAnswer, RevisionWrite
from service.storage.audit import Actor
from service.storage.database import Database, unavailable
from service.storage.idempotency import Answer, Doors, Once, Turns, act_once

_MAX_FAULTS = 20


class FileImport(Struct, frozen=True):
    """A file, how it is to be read, and what is to become of it."""

    actor: Actor
    name: str
    options: ImportOptions
    write: RevisionWrite
    preconditions: Preconditions
    once: Once | None


async def import_here(doors: Doors, asked: FileImport, body: bytes) -> Answer:
    async def prepare() -> tuple[ImportOutcome, Content]:
        return await aside(_read_file, body, asked.options)

    async def effect(connection: AsyncConnection, read: tuple[ImportOutcome, Content]) -> Answer:
        outcome, content = read
        revision, created = await store_content(
            connection, asked.actor, asked.name, asked.write, content, asked.preconditions
        )
        if created and not content.rates:
            raise without_rates(outcome.report)
        return answer_with(created, revision, encoded(ImportAnswer(created, False, revision, outcome.report)))

    return await act_once(doors, asked.once, prepare, effect)


async def import_there(database_url: str, asked: FileImport, body: bytes) -> Answer:
    """The same as the one work of a process."""
    database = Database(database_url, pool_size=1)
    doors = Doors(asynccontextmanager(database.reading), asynccontextmanager(database.writing), Turns())
    try:
        return await import_here(doors, asked, body)
    except Exception as error:
        told = unavailable(error)
        if told is None:
            raise
        raise told from error
    finally:
        await database.close()


def report(body: bytes, options: ImportOptions) -> Answer:
    outcome = read_rates(body, options)
    return Answer(200, (), encoded(ImportAnswer(False, True, None, outcome.report)))


async def report_there(options: ImportOptions, body: bytes) -> Answer:
    return report(body, options)


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
