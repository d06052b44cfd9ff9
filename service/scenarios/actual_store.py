"""What was paid, in the database: record, change, delete, import, list. A connection and a project in, a Struct out.

Whoever writes holds the scenario's row until the transaction ends, so that two periods written at once cannot overlap,
and none is written to what was archived meanwhile.
"""

import datetime
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec import UNSET, Struct
from sqlalchemy import ColumnElement, Row, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import BrokenRule, Conflict, Fault, NotFound
from service.http.encoding import encoded
from service.http.paging import read_cursor, text_key, write_cursor
from service.http.preconditions import Preconditions
from service.http.text import name_key
from service.money import written
from service.scenarios.actual_schemas import (
    MAX_ACTUALS,
    Actual,
    ActualImport,
    ActualPage,
    ActualQuery,
    ActualWrite,
    FileRow,
    ImportedRow,
    Outcome,
    Period,
)
from service.scenarios.actual_tables import actuals
from service.scenarios.arithmetic.actuals import ActualRecord
from service.scenarios.heads import refuse_archived
from service.scenarios.tables import scenarios
from service.storage.audit import Actor, hash_of, record

_C = actuals.c
_MAX_FAULTS = 20
AnyRow = Row[*tuple[Any, ...]]


class StoredActual(Struct, frozen=True):
    """A record as it leaves the store."""

    actual: Actual
    created: bool = False


class Plan(Struct, frozen=True):
    """What a scenario says of itself beside its request: when it is to start, what was set aside for it."""

    planned_start: datetime.datetime | None
    budget_amount: Decimal | None
    budget_currency: str | None


class _Owner(Struct, frozen=True):
    """The scenario that records belong to."""

    id: int
    name: str
    currency: str


async def find_plan(connection: AsyncConnection, project_id: int, name: str) -> Plan:
    """Of a live scenario; NotFound."""
    s = scenarios.c
    statement = select(s.planned_start, s.budget_amount, s.budget_currency)
    row = (await connection.execute(statement.where(*_named(project_id, name)))).one_or_none()
    if row is None:
        raise NotFound.named("scenario", name)
    return Plan(row.planned_start, row.budget_amount, row.budget_currency)


async def get_actual(connection: AsyncConnection, project_id: int, name: str, period: Period) -> Actual:
    """The record of exactly this period; NotFound."""
    owner = await _owner(connection, project_id, name)
    return _actual(await _row(connection, owner, period))


async def list_actuals(connection: AsyncConnection, project_id: int, name: str, asked: ActualQuery) -> ActualPage:
    """One page, the earliest period first."""
    owner = await _owner(connection, project_id, name)
    question = ("actuals", owner.id)
    statement = select(actuals).where(*_live(owner.id)).order_by(_C.period_start).limit(asked.limit + 1)
    if asked.cursor is not UNSET:
        (after,) = read_cursor(asked.cursor, question, (_day_key,))
        statement = statement.where(_C.period_start > after)
    rows = (await connection.execute(statement)).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].period_start.isoformat()]) if len(rows) > len(page) else None
    return ActualPage(tuple(_actual(row) for row in page), cursor)


async def list_records(
    connection: AsyncConnection, project_id: int, scenario_id: int, currency: str
) -> tuple[ActualRecord, ...]:
    """All of a scenario in the order of time, as arithmetic takes them; BrokenRule where one is in another currency."""
    statement = select(actuals).where(*_live(scenario_id), _C.project_id == project_id).order_by(_C.period_start)
    rows = (await connection.execute(statement)).all()
    for row in rows:
        if row.currency != currency:
            told = f"The record of {_period(row)} is in {row.currency} and the plan in {currency}: put one right"
            raise BrokenRule.at("name", told, "path")
    return tuple(
        ActualRecord(
            period_start=_midnight(row.period_start),
            period_end=_midnight(row.period_end),
            amount=row.amount,
            gpu_hours=row.gpu_hours,
            tokens_done=row.tokens_done,
            productive_gpu_hours=row.productive_gpu_hours,
        )
        for row in rows
    )


async def save_actual(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    period: Period,
    write: ActualWrite,
    preconditions: Preconditions,
) -> StoredActual:
    """Record a period or change its record, as the preconditions allow; Conflict where it overlaps another. A record
    that says the same already stays as it is, so that a write whose answer was lost can be sent again as it was."""
    owner = await _owner_for_write(connection, actor.project_id, name)
    found = await _find_row(connection, owner, period)
    if found is None:
        preconditions.allow_creation()
        await _check_new(connection, owner, period)
        return await _insert(connection, actor, owner, period, write)
    if _outcome(owner, found, write) == "unchanged" and preconditions.if_none_match is None:
        return StoredActual(_actual(found))
    preconditions.allow_change(_etag(found))
    return StoredActual(await _replace(connection, actor, owner, found, write))


async def delete_actual(
    connection: AsyncConnection, actor: Actor, name: str, period: Period, preconditions: Preconditions
) -> None:
    """Take a record out of sight; its row stays."""
    owner = await _owner_for_write(connection, actor.project_id, name)
    row = await _row(connection, owner, period)
    preconditions.allow_change(_etag(row))
    now = _now()
    statement = update(actuals).where(_C.id == row.id)
    await connection.execute(statement.values(deleted_at=now, updated_at=now, version=row.version + 1))
    before = hash_of(encoded(_actual(row)))
    await record(connection, actor, "deleted", "actual", _title(owner, period), before=before)


async def import_actuals(
    connection: AsyncConnection, actor: Actor, name: str, rows: Sequence[FileRow], *, replace: bool
) -> ActualImport:
    """All rows of a file or none: BrokenRule or Conflict names the lines that stand against it."""
    owner = await _owner_for_write(connection, actor.project_id, name)
    known = {_period(row): row for row in (await connection.execute(select(actuals).where(*_live(owner.id)))).all()}
    outcomes = [_outcome(owner, known.get(row.period), row.write) for row in rows]
    _refuse_overlaps(rows, [period for period in known if period not in {row.period for row in rows}])
    if not replace:
        _refuse_changes(rows, outcomes)
    if len(known) + outcomes.count("created") > MAX_ACTUALS:
        raise BrokenRule.at("", f"A scenario has at most {MAX_ACTUALS:,} records")
    await _write_rows(connection, actor, owner, known, list(zip(rows, outcomes, strict=True)))
    report = ActualImport(
        outcomes.count("created"),
        outcomes.count("replaced"),
        outcomes.count("unchanged"),
        tuple(
            ImportedRow(row.line, row.period.start, row.period.end, outcome)
            for row, outcome in zip(rows, outcomes, strict=True)
        ),
    )
    if report.created or report.replaced:
        told = hash_of(encoded([(str(row.period), row.write) for row in rows]))
        await record(connection, actor, "imported", "actual", owner.name, after=told)
    return report


async def _write_rows(
    connection: AsyncConnection,
    actor: Actor,
    owner: _Owner,
    known: dict[Period, AnyRow],
    rows: Sequence[tuple[FileRow, Outcome]],
) -> None:
    """All that is new and all that is different, each in one go."""
    created = [_new(actor, owner, row.period, row.write) for row, outcome in rows if outcome == "created"]
    changed = [
        {**_changed(actor, owner, known[row.period], row.write), "row_id": known[row.period].id}
        for row, outcome in rows
        if outcome == "replaced"
    ]
    if created:
        await connection.execute(insert(actuals), created)
    if changed:
        columns: dict[str, Any] = {name: bindparam(name) for name in changed[0] if name != "row_id"}
        await connection.execute(update(actuals).where(_C.id == bindparam("row_id")).values(columns), changed)


# ------------------------------------------------------------------------------------------- rules of many


def _refuse_overlaps(rows: Sequence[FileRow], others: Sequence[Period]) -> None:
    """Two rows of a file, or one of them and a record that it does not replace."""
    faults: list[Fault] = []
    latest: FileRow | None = None
    for row in sorted(rows, key=lambda row: (row.period, row.line)):
        if latest is not None and row.period.start < latest.period.end:
            faults.append(_fault(row, f"It overlaps line {latest.line} ({latest.period})"))
        if latest is None or row.period.end > latest.period.end:
            latest = row
    ordered = sorted(others)
    ends = [period.end for period in ordered]
    for row in rows:
        at = bisect_left(ends, row.period.start + datetime.timedelta(days=1))  # the first that ends after it begins
        if at < len(ordered) and ordered[at].start < row.period.end:
            faults.append(_fault(row, f"It overlaps the record of {ordered[at]}"))
    if faults:
        raise BrokenRule(f"Nothing was taken from the file. {faults[0].message}.", tuple(faults[:_MAX_FAULTS]))


def _refuse_changes(rows: Sequence[FileRow], outcomes: Sequence[Outcome]) -> None:
    faults = [
        _fault(row, f"{row.period} has a record that says something else; on_existing=replace puts this in its place")
        for row, outcome in zip(rows, outcomes, strict=True)
        if outcome == "replaced"
    ]
    if faults:
        raise Conflict(f"Nothing was taken from the file. {faults[0].message}.", tuple(faults[:_MAX_FAULTS]))


def _outcome(owner: _Owner, known: AnyRow | None, write: ActualWrite) -> Outcome:
    if known is None:
        return "created"
    is_same = known.currency == owner.currency and all(getattr(known, key) == value for key, value in _values(write))
    return "unchanged" if is_same else "replaced"


def _fault(row: FileRow, message: str) -> Fault:
    return Fault("body", f"/{row.line}", f"Line {row.line}: {message}")


# ------------------------------------------------------------------------------------------- rows


async def _owner(connection: AsyncConnection, project_id: int, name: str, *, lock: bool = False) -> _Owner:
    s = scenarios.c
    statement = select(s.id, s.name, s.currency, s.status).where(*_named(project_id, name))
    row = (await connection.execute(statement.with_for_update() if lock else statement)).one_or_none()
    if row is None:
        raise NotFound.named("scenario", name)
    if lock:
        refuse_archived(row.name, row.status)
    return _Owner(row.id, row.name, row.currency)


async def _owner_for_write(connection: AsyncConnection, project_id: int, name: str) -> _Owner:
    return await _owner(connection, project_id, name, lock=True)


async def _find_row(connection: AsyncConnection, owner: _Owner, period: Period) -> AnyRow | None:
    same = (_C.period_start == period.start, _C.period_end == period.end)
    return (await connection.execute(select(actuals).where(*_live(owner.id), *same))).one_or_none()


async def _row(connection: AsyncConnection, owner: _Owner, period: Period) -> AnyRow:
    row = await _find_row(connection, owner, period)
    if row is None:
        raise NotFound.named(f"record of scenario {owner.name!r}", str(period), "period")
    return row


async def _check_new(connection: AsyncConnection, owner: _Owner, period: Period) -> None:
    overlapping = (_C.period_start < period.end, _C.period_end > period.start)
    statement = select(_C.period_start, _C.period_end).where(*_live(owner.id), *overlapping)
    other = (await connection.execute(statement.order_by(_C.period_start).limit(1))).one_or_none()
    if other is not None:
        told = f"{period} overlaps the record of {_period(other)}: delete that first, or choose another period"
        raise Conflict(told + ".", (Fault("path", "period", told),))
    count = await connection.execute(select(_C.id).where(*_live(owner.id)).limit(MAX_ACTUALS))
    if len(count.all()) >= MAX_ACTUALS:
        raise BrokenRule.at("period", f"A scenario has at most {MAX_ACTUALS:,} records", "path")


async def _insert(
    connection: AsyncConnection, actor: Actor, owner: _Owner, period: Period, write: ActualWrite
) -> StoredActual:
    statement = insert(actuals).values(_new(actor, owner, period, write)).returning(*_C)
    made = _actual((await connection.execute(statement)).one())
    await record(connection, actor, "created", "actual", _title(owner, period), after=hash_of(encoded(made)))
    return StoredActual(made, created=True)


async def _replace(connection: AsyncConnection, actor: Actor, owner: _Owner, row: AnyRow, write: ActualWrite) -> Actual:
    statement = update(actuals).where(_C.id == row.id).values(_changed(actor, owner, row, write)).returning(*_C)
    made = _actual((await connection.execute(statement)).one())
    before, after = hash_of(encoded(_actual(row))), hash_of(encoded(made))
    await record(connection, actor, "replaced", "actual", _title(owner, _period(row)), before=before, after=after)
    return made


def _new(actor: Actor, owner: _Owner, period: Period, write: ActualWrite) -> dict[str, Any]:
    now = _now()
    return {
        "project_id": actor.project_id,
        "scenario_id": owner.id,
        "period_start": period.start,
        "period_end": period.end,
        "currency": owner.currency,
        "author": actor.name,
        "version": 1,
        "created_at": now,
        "updated_at": now,
        **dict(_values(write)),
    }


def _changed(actor: Actor, owner: _Owner, row: AnyRow, write: ActualWrite) -> dict[str, Any]:
    who = {"currency": owner.currency, "author": actor.name}
    return {**dict(_values(write)), **who, "version": row.version + 1, "updated_at": _now()}


def _values(write: ActualWrite) -> tuple[tuple[str, Any], ...]:
    return (
        ("amount", Decimal(write.amount)),
        ("gpu_hours", write.gpu_hours),
        ("tokens_done", write.tokens_done),
        ("productive_gpu_hours", write.productive_gpu_hours),
        ("note", write.note),
    )


def _actual(row: AnyRow) -> Actual:
    return Actual(
        row.period_start,
        row.period_end,
        row.currency,
        written(row.amount, row.currency),
        _figure(row.gpu_hours),
        _figure(row.tokens_done),
        _figure(row.productive_gpu_hours),
        row.note,
        row.author,
        row.version,
        _etag(row),
        row.created_at,
        row.updated_at,
    )


def _figure(value: float | None) -> float | None:
    """SQLite returns a whole one as an integer where it has just been written."""
    return None if value is None else float(value)


def _named(project_id: int, name: str) -> tuple[ColumnElement[bool], ...]:
    s = scenarios.c
    return (s.project_id == project_id, s.name_key == name_key(name), s.deleted_at.is_(None))


def _live(scenario_id: int) -> tuple[ColumnElement[bool], ...]:
    return (_C.scenario_id == scenario_id, _C.deleted_at.is_(None))


def _title(owner: _Owner, period: Period) -> str:
    return f"{owner.name}/{period}"


def _period(row: AnyRow) -> Period:
    return Period(row.period_start, row.period_end)


def _etag(row: AnyRow) -> str:
    return f'"actual-{row.id}-{row.version}"'


def _day_key(value: Any) -> datetime.date:
    return datetime.date.fromisoformat(text_key(value))


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
