"""Scenarios in the database: read, save, patch, delete, list. A connection in, a Struct or bytes out."""

import datetime
from typing import Any

from msgspec import UNSET, Raw, Struct
from sqlalchemy import ColumnElement, Row, bindparam, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import BrokenRule, Conflict, Fault, NotFound, PreconditionFailed, PreconditionRequired
from service.estimates.held import Tables
from service.estimates.operations import estimate, in_utc
from service.http.conditional import Preconditions
from service.http.encoding import encoded
from service.http.paging import count_key, instant_key, read_cursor, text_key, write_cursor
from service.http.text import name_key
from service.money import to_minor_unit
from service.scenarios.schemas import (
    MAX_LABELS,
    ScenarioPage,
    ScenarioPatch,
    ScenarioQuery,
    ScenarioSummary,
    ScenarioWrite,
)
from service.scenarios.tables import scenarios

# Until there are projects, everything belongs to this one.
DEFAULT_PROJECT_ID = 1
_NAME_TAKEN = ("uq_scenarios_live_name", "scenarios.name_key")  # how PostgreSQL and SQLite name that index
_MAX_KEY_BYTES = 1000  # what PostgreSQL can index, with room to spare

_COLUMNS = scenarios.c
_SHOWN = (
    _COLUMNS.id,
    _COLUMNS.name,
    _COLUMNS.description,
    _COLUMNS.labels,
    _COLUMNS.request,
    _COLUMNS.estimate,
    _COLUMNS.version,
    _COLUMNS.model_version,
    _COLUMNS.created_at,
    _COLUMNS.updated_at,
)
_LISTED = (
    _COLUMNS.id,
    _COLUMNS.name,
    _COLUMNS.name_key,
    _COLUMNS.description,
    _COLUMNS.labels,
    _COLUMNS.currency,
    _COLUMNS.total,
    _COLUMNS.version,
    _COLUMNS.model_version,
    _COLUMNS.created_at,
    _COLUMNS.updated_at,
)

_LIVE = (_COLUMNS.project_id == DEFAULT_PROJECT_ID, _COLUMNS.deleted_at.is_(None))
# Built once: putting a statement together takes longer than running it.
_BY_NAME = select(*_SHOWN).where(*_LIVE, _COLUMNS.name_key == bindparam("key"))

_LAST_DELETED = (
    select(*_SHOWN)
    .where(
        _COLUMNS.project_id == DEFAULT_PROJECT_ID,
        _COLUMNS.deleted_at.is_not(None),
        _COLUMNS.name_key == bindparam("key"),
    )
    .order_by(_COLUMNS.deleted_at.desc(), _COLUMNS.id.desc())
    .limit(1)
)

AnyRow = Row[*tuple[Any, ...]]


class Stored(Struct, frozen=True):
    """A scenario as it leaves the store: its tag and its JSON, and whether it was just made."""

    etag: str
    body: bytes
    created: bool = False


class _Wire(Struct, frozen=True):
    """`schemas.Scenario` with the stored bytes in their place; a test holds the two together."""

    name: str
    description: str
    labels: dict[str, str]
    request: Raw
    estimate: Raw
    version: int
    model_version: str
    created_at: datetime.datetime
    updated_at: datetime.datetime


async def get_scenario(connection: AsyncConnection, name: str) -> Stored:
    """The scenario of this name; NotFound."""
    row = await _find_row(connection, name)
    if row is None:
        raise NotFound.named("scenario", name)
    return _stored(row)


async def save_scenario(
    connection: AsyncConnection,
    name: str,
    write: ScenarioWrite,
    preconditions: Preconditions,
    tables: Tables | None = None,
) -> Stored:
    """Create or replace, as the preconditions allow, with the estimate computed now."""
    row = await _find_row(connection, name)
    if row is None:
        preconditions.allow_creation()
    else:
        preconditions.allow_change(_etag(row))
    request = in_utc(write.request, "/request")
    answer = estimate(request, "/request", tables=tables)
    values: dict[str, Any] = {
        "description": write.description,
        "labels": _checked_labels(write.labels),
        "request": encoded(request),
        "estimate": encoded(answer),
        "currency": answer.cost.currency,
        "total": answer.cost.total,
        "model_version": answer.model_version,
    }
    if row is None:
        return await _insert(connection, {"name": name, **values}, preconditions)
    return await _update(connection, row, values)


async def patch_scenario(
    connection: AsyncConnection, name: str, patch: ScenarioPatch, preconditions: Preconditions
) -> Stored:
    """Change descriptive fields only; the stored answer stays byte for byte."""
    row = await _row_for_change(connection, name, preconditions)
    values: dict[str, Any] = {}
    if patch.description is not UNSET:
        values["description"] = patch.description or ""
    if patch.labels is not UNSET:
        merged = {**row.labels, **patch.labels} if patch.labels is not None else {}
        values["labels"] = _checked_labels({key: value for key, value in merged.items() if value is not None})
    return await _update(connection, row, values)


async def delete_scenario(connection: AsyncConnection, name: str, preconditions: Preconditions) -> None:
    """Take it out of sight; its money history stays, and its name is free again."""
    row = await _row_for_change(connection, name, preconditions)
    await _update(connection, row, {"deleted_at": _now()})


async def restore_scenario(connection: AsyncConnection, name: str) -> Stored:
    """Bring back what was deleted last under this name; NotFound, or Conflict where the name is taken again."""
    deleted = (await connection.execute(_LAST_DELETED, {"key": name_key(name)})).one_or_none()
    if deleted is None:
        raise NotFound.named("deleted scenario", name)
    if await _find_row(connection, name) is not None:
        raise _name_taken(name)
    statement = (
        update(scenarios)
        .where(_COLUMNS.id == deleted.id, _COLUMNS.version == deleted.version, _COLUMNS.deleted_at.is_not(None))
        .values(version=deleted.version + 1, updated_at=_now(), deleted_at=None)
        .returning(*_SHOWN)
    )
    try:
        row = (await connection.execute(statement)).one_or_none()
    except IntegrityError as error:
        if not _is_name_taken(error):
            raise
        raise _name_taken(name) from None
    if row is None:  # somebody else restored it between our look and our write
        raise _name_taken(name)
    return _stored(row)


def _is_name_taken(error: IntegrityError) -> bool:
    return any(sign in str(error.orig) for sign in _NAME_TAKEN)


def _name_taken(name: str) -> Conflict:
    told = f"There is another scenario called {name!r} by now: delete it first, or leave this one deleted."
    return Conflict(told, (Fault("path", "name", told),))


async def list_scenarios(connection: AsyncConnection, asked: ScenarioQuery) -> ScenarioPage:
    """One page in a stable order."""
    descending = asked.sort.startswith("-")
    by = asked.sort.removeprefix("-")
    column = _COLUMNS.name_key if by == "name" else _COLUMNS[by]
    q = None if asked.q is UNSET else asked.q
    question = (asked.sort, q)
    statement = select(*_LISTED).where(*_LIVE)
    if q is not None:
        statement = statement.where(_COLUMNS.name_key.contains(name_key(q), autoescape=True))
    if asked.cursor is not UNSET:
        statement = statement.where(_after(asked.cursor, question, by, column, descending))
    order = (column.desc(), _COLUMNS.id.desc()) if descending else (column, _COLUMNS.id)
    rows = (await connection.execute(statement.order_by(*order).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = None
    if len(rows) > len(page):
        last = page[-1]
        key = last.name_key if by == "name" else getattr(last, by).isoformat()
        cursor = write_cursor(question, [key, last.id])
    return ScenarioPage(tuple(_summary(row) for row in page), cursor)


def _after(
    cursor: str, question: tuple[str, str | None], by: str, column: ColumnElement[Any], descending: bool
) -> ColumnElement[bool]:
    value, last_id = read_cursor(cursor, question, (text_key if by == "name" else instant_key, count_key))
    here = tuple_(column, _COLUMNS.id)
    there = tuple_(value, last_id, types=[column.type, _COLUMNS.id.type])
    return here < there if descending else here > there


async def _find_row(connection: AsyncConnection, name: str) -> AnyRow | None:
    return (await connection.execute(_BY_NAME, {"key": name_key(name)})).one_or_none()


async def _row_for_change(connection: AsyncConnection, name: str, preconditions: Preconditions) -> AnyRow:
    row = await _find_row(connection, name)
    if row is None:
        raise NotFound.named("scenario", name)
    preconditions.allow_change(_etag(row))
    return row


async def _insert(connection: AsyncConnection, values: dict[str, Any], preconditions: Preconditions) -> Stored:
    key = name_key(values["name"])
    if len(key.encode()) > _MAX_KEY_BYTES:
        raise BrokenRule.at("name", f"Case folded, the name has over {_MAX_KEY_BYTES} bytes", "path")
    now = _now()
    statement = (
        insert(scenarios)
        .values(
            project_id=DEFAULT_PROJECT_ID,
            name_key=key,
            version=1,
            created_at=now,
            updated_at=now,
            **values,
        )
        .returning(*_SHOWN)
    )
    try:
        row = (await connection.execute(statement)).one()
    except IntegrityError as error:
        if not _is_name_taken(error):
            raise
        # Somebody created it between our look and our write.
        told = "Somebody else has just created this object: read it first."
        kind = PreconditionRequired if preconditions.if_none_match is None else PreconditionFailed
        header = "If-Match" if preconditions.if_none_match is None else "If-None-Match"
        raise kind(told, (Fault("header", header, told),)) from None
    return _stored(row, created=True)


async def _update(connection: AsyncConnection, row: AnyRow, values: dict[str, Any]) -> Stored:
    """Write over exactly the version that was read; PreconditionFailed where another write came between."""
    statement = (
        update(scenarios)
        .where(_COLUMNS.id == row.id, _COLUMNS.version == row.version, _COLUMNS.deleted_at.is_(None))
        .values(version=row.version + 1, updated_at=_now(), **values)
        .returning(*_SHOWN)
    )
    written = (await connection.execute(statement)).one_or_none()
    if written is None:
        told = "Somebody else has just changed this object: read it again."
        raise PreconditionFailed(told, (Fault("header", "If-Match", told),))
    return _stored(written)


def _checked_labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise BrokenRule.at("/labels", f"A scenario has at most {MAX_LABELS} labels")
    for key, value in labels.items():
        if "\n" in key or "\n" in value:
            raise BrokenRule.at(f"/labels/{key.strip()}", "A label is one line")
    return labels


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _etag(row: AnyRow) -> str:
    return f'"{row.id}-{row.version}"'


def _stored(row: AnyRow, *, created: bool = False) -> Stored:
    wire = _Wire(
        row.name,
        row.description,
        row.labels,
        Raw(row.request),
        Raw(row.estimate),
        row.version,
        row.model_version,
        row.created_at,
        row.updated_at,
    )
    return Stored(_etag(row), encoded(wire), created)


def _summary(row: AnyRow) -> ScenarioSummary:
    return ScenarioSummary(
        row.name,
        row.description,
        row.labels,
        row.currency,
        to_minor_unit(row.total, row.currency),
        row.version,
        _etag(row),
        row.model_version,
        row.created_at,
        row.updated_at,
    )
