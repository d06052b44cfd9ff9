"""Scenarios in the database: read, save, patch, delete, list. A connection and a project in, a Struct or bytes out.

What reads is given a project, what writes an actor, who goes into the audit log in the same transaction.
"""

import datetime
from typing import Any

from msgspec import UNSET, Raw, Struct
from sqlalchemy import ColumnElement, Row, bindparam, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import BrokenRule, Conflict, Fault, NotFound, PreconditionFailed, PreconditionRequired
from service.estimates.operations import estimate, in_utc
from service.estimates.tables import Tables
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
from service.storage.audit import Action, Actor, hash_of, record

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

# Built once: putting a statement together takes longer than running it.
_OURS = _COLUMNS.project_id == bindparam("project")
_LIVE = (_OURS, _COLUMNS.deleted_at.is_(None))
_BY_NAME = select(*_SHOWN).where(*_LIVE, _COLUMNS.name_key == bindparam("key"))

_LAST_DELETED = (
    select(*_SHOWN)
    .where(_OURS, _COLUMNS.deleted_at.is_not(None), _COLUMNS.name_key == bindparam("key"))
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


async def get_scenario(connection: AsyncConnection, project_id: int, name: str) -> Stored:
    """The scenario of this name; NotFound."""
    row = await _find_row(connection, project_id, name)
    if row is None:
        raise NotFound.named("scenario", name)
    return _stored(row)


async def save_scenario(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    write: ScenarioWrite,
    preconditions: Preconditions,
    tables: Tables | None = None,
) -> Stored:
    """Create or replace, as the preconditions allow, with the estimate computed now."""
    row = await _find_row(connection, actor.project_id, name)
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
        return await _insert(connection, actor, {"name": name, **values}, preconditions)
    return await _update(connection, actor, "replaced", row, values)


async def patch_scenario(
    connection: AsyncConnection, actor: Actor, name: str, patch: ScenarioPatch, preconditions: Preconditions
) -> Stored:
    """Change descriptive fields only; the stored answer stays byte for byte."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions)
    values: dict[str, Any] = {}
    if patch.description is not UNSET:
        values["description"] = patch.description or ""
    if patch.labels is not UNSET:
        merged = {**row.labels, **patch.labels} if patch.labels is not None else {}
        values["labels"] = _checked_labels({key: value for key, value in merged.items() if value is not None})
    return await _update(connection, actor, "changed", row, values)


async def delete_scenario(connection: AsyncConnection, actor: Actor, name: str, preconditions: Preconditions) -> None:
    """Take it out of sight; its money history stays, and its name is free again."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions)
    await _update(connection, actor, "deleted", row, {"deleted_at": _now()})


async def restore_scenario(connection: AsyncConnection, actor: Actor, name: str) -> Stored:
    """Bring back what was deleted last under this name; NotFound, or Conflict where the name is taken again."""
    asked = {"project": actor.project_id, "key": name_key(name)}
    deleted = (await connection.execute(_LAST_DELETED, asked)).one_or_none()
    if deleted is None:
        raise NotFound.named("deleted scenario", name)
    if await _find_row(connection, actor.project_id, name) is not None:
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
    restored = _stored(row)
    await record(connection, actor, "restored", "scenario", row.name, after=hash_of(restored.body))
    return restored


def _is_name_taken(error: IntegrityError) -> bool:
    return any(sign in str(error.orig) for sign in _NAME_TAKEN)


def _name_taken(name: str) -> Conflict:
    told = f"There is another scenario called {name!r} by now: delete it first, or leave this one deleted."
    return Conflict(told, (Fault("path", "name", told),))


async def list_scenarios(connection: AsyncConnection, project_id: int, asked: ScenarioQuery) -> ScenarioPage:
    """One page in a stable order."""
    descending = asked.sort.startswith("-")
    by = asked.sort.removeprefix("-")
    column = _COLUMNS.name_key if by == "name" else _COLUMNS[by]
    q = None if asked.q is UNSET else asked.q
    question = (project_id, asked.sort, q)
    statement = select(*_LISTED).where(*_LIVE)
    if q is not None:
        statement = statement.where(_COLUMNS.name_key.contains(name_key(q), autoescape=True))
    if asked.cursor is not UNSET:
        statement = statement.where(_after(asked.cursor, question, by, column, descending))
    order = (column.desc(), _COLUMNS.id.desc()) if descending else (column, _COLUMNS.id)
    statement = statement.order_by(*order).limit(asked.limit + 1)
    rows = (await connection.execute(statement, {"project": project_id})).all()
    page = rows[: asked.limit]
    cursor = None
    if len(rows) > len(page):
        last = page[-1]
        key = last.name_key if by == "name" else getattr(last, by).isoformat()
        cursor = write_cursor(question, [key, last.id])
    return ScenarioPage(tuple(_summary(row) for row in page), cursor)


def _after(
    cursor: str, question: tuple[int, str, str | None], by: str, column: ColumnElement[Any], descending: bool
) -> ColumnElement[bool]:
    value, last_id = read_cursor(cursor, question, (text_key if by == "name" else instant_key, count_key))
    here = tuple_(column, _COLUMNS.id)
    there = tuple_(value, last_id, types=[column.type, _COLUMNS.id.type])
    return here < there if descending else here > there


async def _find_row(connection: AsyncConnection, project_id: int, name: str) -> AnyRow | None:
    return (await connection.execute(_BY_NAME, {"project": project_id, "key": name_key(name)})).one_or_none()


async def _row_for_change(
    connection: AsyncConnection, project_id: int, name: str, preconditions: Preconditions
) -> AnyRow:
    row = await _find_row(connection, project_id, name)
    if row is None:
        raise NotFound.named("scenario", name)
    preconditions.allow_change(_etag(row))
    return row


async def _insert(
    connection: AsyncConnection, actor: Actor, values: dict[str, Any], preconditions: Preconditions
) -> Stored:
    key = name_key(values["name"])
    if len(key.encode()) > _MAX_KEY_BYTES:
        raise BrokenRule.at("name", f"Case folded, the name has over {_MAX_KEY_BYTES} bytes", "path")
    now = _now()
    statement = (
        insert(scenarios)
        .values(
            project_id=actor.project_id,
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
    created = _stored(row, created=True)
    await record(connection, actor, "created", "scenario", row.name, after=hash_of(created.body))
    return created


async def _update(
    connection: AsyncConnection, actor: Actor, action: Action, row: AnyRow, values: dict[str, Any]
) -> Stored:
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
    changed = _stored(written)
    after = None if action == "deleted" else hash_of(changed.body)
    await record(connection, actor, action, "scenario", row.name, before=hash_of(_stored(row).body), after=after)
    return changed


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
