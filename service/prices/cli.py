"""A price file on a terminal: into a table of the database, out of one, and the report as a text to read."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from service.access.cli import at_terminal
from service.access.store import get_project
from service.errors import NotFound, StartupError
from service.http.preconditions import Preconditions
from service.http.text import canonical_name
from service.prices import contents, file_imports, rate_store, store
from service.prices.importers import read_rates
from service.prices.importers import schemas as files
from service.prices.importers.fields import words_of
from service.prices.importers.own_csv import write_rates
from service.prices.importers.schemas import ImportOptions, ImportReport, RowFault
from service.prices.offers import decode_rate
from service.prices.table_schemas import ImportAnswer, PriceTableWrite, RevisionWrite
from service.storage.database import create_engine
from service.storage.schema import require_current

_MAX_PRINTED = 20
_NO_PRECONDITIONS = Preconditions(None, None)
Progress = Callable[[int], None]


class Import(Struct, frozen=True):
    """What is to become of a file. Without a table it is only read."""

    data: bytes
    options: ImportOptions
    beside: RevisionWrite
    table: str | None
    project: str
    create: bool
    dry_run: bool


def read_file(path: str) -> bytes:
    """The bytes of a price file; StartupError where there are none to be had, or too many."""
    try:
        if Path(path).stat().st_size > files.MAX_BYTES:
            raise StartupError(f"{path} has more than {files.MAX_BYTES:,} bytes: split it.")
        return Path(path).read_bytes()
    except OSError as error:
        raise StartupError(f"Cannot read {path}: {error.strerror}.") from None


def read_import(path: str, mapping: str | None, given: Mapping[str, Any]) -> Import:
    """The options as they were given, checked by their schemas; StartupError names the wrong one."""
    told = {name: value for name, value in given.items() if value is not None}
    wanted = {name: told.pop(name, None) for name in ("table", "project", "create", "dry_run")}
    if mapping is not None:
        told["mapping"] = _mapping(mapping)
    beside: dict[str, Any] = {
        name: told[name] for name in ("author", "note", "source", "licence", "as_of") if name in told
    }
    options = {name: value for name, value in told.items() if name in ImportOptions.__struct_fields__}
    if wanted["table"] is None and not wanted["dry_run"]:
        raise StartupError("Say into which table with --table, or only look with --dry-run.")
    return Import(
        read_file(path),
        _converted(options, ImportOptions),
        _converted({"rates": (), **beside}, RevisionWrite),
        wanted["table"],
        wanted["project"] or "default",
        bool(wanted["create"]),
        bool(wanted["dry_run"]),
    )


async def run_import(database_url: str, asked: Import, progress: Progress | None) -> ImportAnswer:
    """Read the file, and then store its rates in one transaction; nothing is stored if dry or refused."""
    if asked.table is None:
        return ImportAnswer(False, True, None, read_rates(asked.data, asked.options, progress).report)
    engine = create_engine(database_url, pool_size=1)
    try:
        await require_current(engine)
        async with engine.connect() as connection:
            actor = at_terminal((await get_project(connection, asked.project, None)).id)
            try:
                currency: str | None = (await store.get_head(connection, actor.project_id, asked.table)).currency
            except NotFound:
                if not asked.create:
                    raise
                currency = None
        if not asked.dry_run:
            store.refuse_released(asked.table)
        options = msgspec.structs.replace(asked.options, currency=currency) if currency else asked.options
        outcome = read_rates(asked.data, options, progress)
        if asked.dry_run or outcome.report.refused:
            return ImportAnswer(False, asked.dry_run, None, outcome.report)
        content = contents.content_of(outcome.rates)
        async with engine.begin() as connection:
            if currency is None:
                name = canonical_name(asked.table, "query", "table")
                await store.save_table(connection, actor, name, PriceTableWrite(options.currency), _NO_PRECONDITIONS)
            revision, created = await contents.store_content(
                connection, actor, asked.table, asked.beside, content, _NO_PRECONDITIONS
            )
            if created and not content.rates:
                raise file_imports.without_rates(outcome.report)
        return ImportAnswer(created, False, revision, outcome.report)
    finally:
        await engine.dispose()


async def run_export(
    database_url: str, project: str, table: str, revision: int | None, write: Callable[[bytes], object]
) -> int:
    """Every rate of a revision, the newest if none is named, as our own CSV; how many there are."""
    engine = create_engine(database_url, pool_size=1)
    try:
        await require_current(engine)
        async with engine.connect() as connection:
            project_id = (await get_project(connection, project, None)).id
            found = await store.get_revision(connection, project_id, table, revision)
            write(b"".join(write_rates(())))
            async for bodies in rate_store.read_bodies(connection, found.id):
                write(b"".join(write_rates(map(decode_rate, bodies), with_header=False)))
        return found.rate_count
    finally:
        await engine.dispose()


def answer_text(answer: ImportAnswer) -> str:
    """What became of the file, to read."""
    report = answer.report
    rows, rates = report.rows, report.rates
    lines = [
        f"file      {report.format}, {report.encoding}, decimal {report.decimal_mark}",
        f"rows      {rows.total:,}: {rows.accepted:,} accepted, {rows.skipped:,} skipped, {rows.rejected:,} rejected",
        f"rates     {rates.total:,}: {rates.accelerator:,} of accelerators, {rates.storage:,} of storage, "
        f"{rates.egress:,} of egress; {rates.unknown_price:,} without a price",
        f"names     ambiguous in {rows.ambiguous:,} of the rows, unknown in {rows.unknown:,}",
        f"doubts    about {rows.suspicious:,} of the rows",
    ]
    if report.unused_columns:
        lines.append(f"unused    {', '.join(report.unused_columns)}")
    lines += [f"note      {note.message} ({note.count:,})" for note in report.notes]
    for title, faults, total in (
        ("rejected", report.rejected, rows.rejected),
        ("skipped", report.skipped, rows.skipped),
        ("suspicious", report.suspicious, None),
    ):
        lines += _listed(title, faults, total)
    lines += _unmatched(report)
    return "\n".join([*lines, "", _verdict(answer)])


def _verdict(answer: ImportAnswer) -> str:
    report = answer.report
    if report.refused and not report.rates.total:
        return "Nothing is stored: no row gives a rate, and a file never empties a table."
    if report.refused:
        return "Nothing is stored: rows were rejected. Mend them, or leave them out with --on-error=skip."
    if answer.dry_run:
        return "Nothing is stored: this was a dry run."
    assert answer.revision is not None
    revision = answer.revision
    if answer.created:
        return f"Stored as revision {revision.number} of {revision.table}; rates: {revision.rate_count:,}."
    return f"Nothing is new: revision {revision.number} of {revision.table} has these rates."


def _listed(title: str, faults: Sequence[RowFault], total: int | None) -> list[str]:
    if not faults:
        return []
    shown = [(str(fault.line), fault.column or fault.field or "", fault.reason) for fault in faults[:_MAX_PRINTED]]
    return ["", *_columns([("line", "column", "reason"), *shown], title), *_more(total or len(faults))]


def _unmatched(report: ImportReport) -> list[str]:
    names = report.unmatched
    if not names:
        return []
    shown = [(name.name, str(name.rows), name.matched, ", ".join(name.candidates)) for name in names[:_MAX_PRINTED]]
    return ["", *_columns([("name", "rows", "", "fits, or is near"), *shown], "names"), *_more(len(names))]


def _columns(rows: Sequence[Sequence[str]], title: str) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [title, *("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)]


def _more(total: int) -> list[str]:
    return (
        [f"  and {total - _MAX_PRINTED:,} more; --json lists up to {files.MAX_LISTED:,}"]
        if total > _MAX_PRINTED
        else []
    )


def _mapping(path: str) -> files.Mapping:
    try:
        return msgspec.json.decode(read_file(path), type=files.Mapping)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StartupError(f"--mapping: {path} is no column mapping: {error}.") from None


def _converted(given: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).rpartition(" - at `$.")
        name = where.rstrip("`")
        raise StartupError(f"--{name.replace('_', '-')}: {what}{_allowed(kind, name, given.get(name))}.") from None


def _allowed(kind: type[Any], name: str, value: object) -> str:
    """What an option may say instead, where that is a list of words."""
    part = next((part for part in msgspec.structs.fields(kind) if part.name == name), None)
    words = () if part is None else words_of(part.type)
    if isinstance(value, str):
        for spelling in (value.upper(), value.lower()):
            if spelling in words:
                return f"; write it {spelling}"
    if part is not None and len(words) > _MAX_PRINTED:
        return f"; it is one of {len(words)}, such as {part.default}"
    return f"; it is one of {', '.join(words)}" if words else ""
