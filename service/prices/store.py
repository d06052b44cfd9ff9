"""Price tables in the database, and who relies on them. A connection and a project in, a Struct or bytes out.

What reads is given a project, what writes an actor, who goes into the audit log in the same transaction. The table that
comes with the release is seen by every project, and changed by none.
"""

import datetime
from typing import Any

from msgspec import UNSET, Struct
from sqlalchemy import ColumnElement, Row, bindparam, delete, func, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import BrokenRule, Conflict, Fault, NotFound, PreconditionFailed, PreconditionRequired, Where
from service.http.encoding import encoded
from service.http.paging import count_key, instant_key, read_cursor, text_key, write_cursor
from service.http.preconditions import Preconditions
from service.http.text import name_key
from service.prices.revision_store import OURS, VISIBLE, Head, find_latest, find_revision
from service.prices.table_schemas import (
    PriceTable,
    PriceTablePage,
    PriceTablePatch,
    PriceTableQuery,
    PriceTableSummary,
    PriceTableWrite,
    Revision,
)
from service.prices.tables import price_table_uses, price_tables
from service.storage.audit import Action, Actor, hash_of, record

# The table that comes with the release; nobody else may take its name.
RELEASED_NAME = "list-prices"
# In its project it stands among the tables of the default project, and every other project sees it there.
RELEASED_PROJECT_ID = 1
_RELEASED_KEY = name_key(RELEASED_NAME)
_NAME_TAKEN = ("uq_price_tables_live_name", "price_tables.name_key")  # how PostgreSQL and SQLite name that index
_MAX_KEY_BYTES = 1000  # what PostgreSQL can index, with room to spare

_T = price_tables.c
_LIVE = (OURS, _T.deleted_at.is_(None))
_BY_NAME = select(price_tables).where(*_LIVE, _T.name_key == bindparam("key"))
_LAST_DELETED = (
    select(price_tables)
    .where(OURS, _T.deleted_at.is_not(None), _T.name_key == bindparam("key"))
    .order_by(_T.deleted_at.desc(), _T.id.desc())
    .limit(1)
)

AnyRow = Row[*tuple[Any, ...]]


class Stored(Struct, frozen=True):
    """A table as it leaves the store: its tag and its JSON, and whether it was just made."""

    etag: str
    body: bytes
    created: bool = False


async def get_table(connection: AsyncConnection, project_id: int, name: str) -> Stored:
    """The table of this name; NotFound."""
    row = await _get_row(connection, project_id, name)
    return await _stored(connection, row)


async def get_head(connection: AsyncConnection, project_id: int, name: str) -> Head:
    """What is to be known of the table of this name; NotFound."""
    return _head(await _get_row(connection, project_id, name))


async def get_head_for_write(
    connection: AsyncConnection, project_id: int, name: str, preconditions: Preconditions
) -> Head:
    """The same, held until the transaction ends, so that revisions come one after the other; Conflict where it cannot
    be changed, PreconditionFailed where the caller has seen another version. A new revision needs no If-Match."""
    row = (await connection.execute(_BY_NAME.with_for_update(), _named(project_id, name))).one_or_none()
    if row is None:
        raise NotFound.named("price table", name)
    refuse_released(row.name)
    if preconditions.if_match is not None:
        preconditions.allow_change(_etag(row))
    return _head(row)


async def save_table(
    connection: AsyncConnection, actor: Actor, name: str, write: PriceTableWrite, preconditions: Preconditions
) -> Stored:
    """Create or describe anew, as the preconditions allow."""
    refuse_released(name)
    row = await _find_row(connection, actor.project_id, name)
    if row is None:
        preconditions.allow_creation()
        return await _insert(connection, actor, name, write, preconditions)
    preconditions.allow_change(_etag(row))
    if row.latest_number and row.currency != write.currency:
        told = f"The table's prices are in {row.currency}: make a table of its own for those in {write.currency}."
        raise Conflict(told, (Fault("body", "/currency", told),))
    values = {"currency": write.currency, "description": write.description}
    return await _update(connection, actor, "replaced", row, values)


async def patch_table(
    connection: AsyncConnection, actor: Actor, name: str, patch: PriceTablePatch, preconditions: Preconditions
) -> Stored:
    """Change the description."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions)
    values = {} if patch.description is UNSET else {"description": patch.description or ""}
    return await _update(connection, actor, "changed", row, values)


async def delete_table(connection: AsyncConnection, actor: Actor, name: str, preconditions: Preconditions) -> None:
    """Take it out of sight; its revisions stay readable by their ids. Conflict while somebody relies on it."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions, hold=True)
    users = (
        await connection.execute(
            select(price_table_uses.c.kind, func.count())
            .where(price_table_uses.c.table_id == row.id)
            .group_by(price_table_uses.c.kind)
            .order_by(price_table_uses.c.kind)
        )
    ).all()
    if users:
        by = " and ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in users)
        told = f"The table is used by {by}: it cannot be deleted before they are."
        raise Conflict(told, (Fault("path", "name", told),))
    await _update(connection, actor, "deleted", row, {"deleted_at": _now()})


async def restore_table(connection: AsyncConnection, actor: Actor, name: str) -> Stored:
    """Bring back what was deleted last under this name; NotFound, or Conflict where the name is taken again."""
    deleted = (await connection.execute(_LAST_DELETED, _named(actor.project_id, name))).one_or_none()
    if deleted is None:
        raise NotFound.named("deleted price table", name)
    if await _find_row(connection, actor.project_id, name) is not None:
        raise _name_taken(name)
    statement = (
        update(price_tables)
        .where(_T.id == deleted.id, _T.version == deleted.version, _T.deleted_at.is_not(None))
        .values(version=deleted.version + 1, updated_at=_now(), deleted_at=None)
        .returning(price_tables)
    )
    try:
        row = (await connection.execute(statement)).one_or_none()
    except IntegrityError as error:
        if not _is_name_taken(error):
            raise
        raise _name_taken(name) from None
    if row is None:  # somebody else restored it between our look and our write
        raise _name_taken(name)
    await record(connection, actor, "restored", "price-table", row.name, after=_hash(row))
    return await _stored(connection, row)


async def use_table(connection: AsyncConnection, project_id: int, name: str, kind: str, used_by_id: int) -> Head:
    """Say that something relies on this table, in the same transaction in which it is stored; NotFound."""
    row = (await connection.execute(_BY_NAME.with_for_update(), _named(project_id, name))).one_or_none()
    if row is None:
        raise NotFound.named("price table", name)
    use = {"table_id": row.id, "kind": kind, "used_by_id": used_by_id}
    known = select(price_table_uses).where(*(price_table_uses.c[field] == value for field, value in use.items()))
    if (await connection.execute(known)).one_or_none() is None:
        await connection.execute(insert(price_table_uses).values(use))
    return _head(row)


async def release_tables(connection: AsyncConnection, kind: str, used_by_id: int) -> None:
    """It no longer relies on any table."""
    uses = price_table_uses.c
    await connection.execute(delete(price_table_uses).where(uses.kind == kind, uses.used_by_id == used_by_id))


async def list_tables(connection: AsyncConnection, project_id: int, asked: PriceTableQuery) -> PriceTablePage:
    """One page in a stable order."""
    descending = asked.sort.startswith("-")
    by = asked.sort.removeprefix("-")
    column = _T.name_key if by == "name" else _T[by]
    q = None if asked.q is UNSET else asked.q
    question = (project_id, asked.sort, q)
    statement = select(price_tables).where(VISIBLE, _T.deleted_at.is_(None))
    if q is not None:
        statement = statement.where(_T.name_key.contains(name_key(q), autoescape=True))
    if asked.cursor is not UNSET:
        statement = statement.where(_after(asked.cursor, question, by, column, descending))
    order = (column.desc(), _T.id.desc()) if descending else (column, _T.id)
    statement = statement.order_by(*order).limit(asked.limit + 1)
    rows = (await connection.execute(statement, {"project": project_id})).all()
    page = rows[: asked.limit]
    cursor = None
    if len(rows) > len(page):
        last = page[-1]
        key = last.name_key if by == "name" else getattr(last, by).isoformat()
        cursor = write_cursor(question, [key, last.id])
    return PriceTablePage(tuple(map(_summary, page)), cursor)


async def get_revision(
    connection: AsyncConnection,
    project_id: int,
    name: str,
    number: int | None,
    asked_in: tuple[Where, str] = ("path", "number"),
) -> Revision:
    """A revision of a live table by number, or its newest; NotFound names the parameter that asked for it."""
    named = _named(project_id, name)
    found = await find_revision(connection, number, *_LIVE, _T.name_key == bindparam("key"), **named)
    if found is not None:
        return found
    await _get_row(connection, project_id, name)
    if number is None:
        raise NotFound.named("price table with a revision", name)
    raise NotFound(f"{name!r} has no revision {number}.", (Fault(*asked_in, "No such revision"),))


async def ensure_released(
    connection: AsyncConnection, name: str, currency: str, description: str, gaps: tuple[str, ...]
) -> Head:
    """The table that comes with the release, described as this release does, and held for writing."""
    released = {"project": RELEASED_PROJECT_ID, "key": name_key(name)}
    row = (await connection.execute(_BY_NAME.with_for_update(), released)).one_or_none()
    now = _now()
    if row is None:
        values = {"name": name, "name_key": name_key(name), "currency": currency, "description": description}
        dialect_insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        statement = dialect_insert(price_tables).values(
            project_id=RELEASED_PROJECT_ID,
            read_only=True,
            gaps=list(gaps),
            latest_number=0,
            version=1,
            created_at=now,
            updated_at=now,
            **values,
        )
        # Another process may be starting too: then its row is there, and is waited for.
        await connection.execute(statement.on_conflict_do_nothing())
        row = (await connection.execute(_BY_NAME.with_for_update(), released)).one()
    if (row.description, tuple(row.gaps)) == (description, gaps):
        return _head(row)
    changed = {"description": description, "gaps": list(gaps), "version": row.version + 1, "updated_at": now}
    described = update(price_tables).where(_T.id == row.id).values(changed).returning(price_tables)
    return _head((await connection.execute(described)).one())


async def count_changes(connection: AsyncConnection) -> int:
    """A number that grows with every change to any table: each raises a version."""
    return int((await connection.execute(_CHANGES)).scalar_one())


async def list_heads(connection: AsyncConnection) -> tuple[Head, ...]:
    """Every live table of every project: what a worker holds in memory."""
    statement = select(price_tables).where(_T.deleted_at.is_(None)).order_by(_T.id)
    return tuple(map(_head, (await connection.execute(statement)).all()))


def owner_of(project_id: int, key: str) -> int:
    """The project that has the table which a project means by this key of a name."""
    return RELEASED_PROJECT_ID if key == _RELEASED_KEY else project_id


_CHANGES = select(func.coalesce(func.sum(_T.version), 0))


def _after(
    cursor: str, question: tuple[int, str, str | None], by: str, column: ColumnElement[Any], descending: bool
) -> ColumnElement[bool]:
    value, last_id = read_cursor(cursor, question, (text_key if by == "name" else instant_key, count_key))
    here = tuple_(column, _T.id)
    there = tuple_(value, last_id, types=[column.type, _T.id.type])
    return here < there if descending else here > there


def _named(project_id: int, name: str) -> dict[str, Any]:
    key = name_key(name)
    return {"project": owner_of(project_id, key), "key": key}


async def _find_row(connection: AsyncConnection, project_id: int, name: str) -> AnyRow | None:
    return (await connection.execute(_BY_NAME, _named(project_id, name))).one_or_none()


async def _get_row(connection: AsyncConnection, project_id: int, name: str) -> AnyRow:
    row = await _find_row(connection, project_id, name)
    if row is None:
        raise NotFound.named("price table", name)
    return row


async def _row_for_change(
    connection: AsyncConnection, project_id: int, name: str, preconditions: Preconditions, *, hold: bool = False
) -> AnyRow:
    statement = _BY_NAME.with_for_update() if hold else _BY_NAME
    row = (await connection.execute(statement, _named(project_id, name))).one_or_none()
    if row is None:
        raise NotFound.named("price table", name)
    refuse_released(row.name)
    preconditions.allow_change(_etag(row))
    return row


def refuse_released(name: str) -> None:
    """Conflict where this is the table that comes with the release."""
    if name_key(name) == RELEASED_NAME:
        told = f"{RELEASED_NAME!r} comes with the release and cannot be changed: keep prices in a table of your own."
        raise Conflict(told, (Fault("path", "name", told),))


async def _insert(
    connection: AsyncConnection, actor: Actor, name: str, write: PriceTableWrite, preconditions: Preconditions
) -> Stored:
    key = name_key(name)
    if len(key.encode()) > _MAX_KEY_BYTES:
        raise BrokenRule.at("name", f"Case folded, the name has over {_MAX_KEY_BYTES} bytes", "path")
    now = _now()
    statement = (
        insert(price_tables)
        .values(
            project_id=actor.project_id,
            name=name,
            name_key=key,
            currency=write.currency,
            description=write.description,
            read_only=False,
            gaps=[],
            latest_number=0,
            version=1,
            created_at=now,
            updated_at=now,
        )
        .returning(price_tables)
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
    await record(connection, actor, "created", "price-table", row.name, after=_hash(row))
    return await _stored(connection, row, created=True)


async def _update(
    connection: AsyncConnection, actor: Actor, action: Action, row: AnyRow, values: dict[str, Any]
) -> Stored:
    """Write over exactly the version that was read; PreconditionFailed where another write came between."""
    statement = (
        update(price_tables)
        .where(_T.id == row.id, _T.version == row.version, _T.deleted_at.is_(None))
        .values(version=row.version + 1, updated_at=_now(), **values)
        .returning(price_tables)
    )
    written = (await connection.execute(statement)).one_or_none()
    if written is None:
        told = "Somebody else has just changed this object: read it again."
        raise PreconditionFailed(told, (Fault("header", "If-Match", told),))
    after = None if action == "deleted" else _hash(written)
    await record(connection, actor, action, "price-table", row.name, before=_hash(row), after=after)
    return await _stored(connection, written)


def _is_name_taken(error: IntegrityError) -> bool:
    return any(sign in str(error.orig) for sign in _NAME_TAKEN)


def _name_taken(name: str) -> Conflict:
    told = f"There is another price table called {name!r} by now: delete it first, or leave this one deleted."
    return Conflict(told, (Fault("path", "name", told),))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _etag(row: AnyRow) -> str:
    return f'"{row.id}-{row.version}"'


def _head(row: AnyRow) -> Head:
    return Head(
        row.id,
        row.project_id,
        row.name,
        row.name_key,
        row.currency,
        row.latest_number,
        row.version,
        row.read_only,
        _etag(row),
    )


def _hash(row: AnyRow) -> str:
    """What stands in the audit log for a table's own fields; its rates have the hash of their revision."""
    return hash_of(encoded(_summary(row)))


async def _stored(connection: AsyncConnection, row: AnyRow, *, created: bool = False) -> Stored:
    table = PriceTable(
        row.name,
        row.currency,
        row.description,
        row.read_only,
        tuple(row.gaps),
        await find_latest(connection, row.id) if row.latest_number else None,
        row.version,
        row.created_at,
        row.updated_at,
    )
    return Stored(_etag(row), encoded(table), created)


def _summary(row: AnyRow) -> PriceTableSummary:
    return PriceTableSummary(
        row.name,
        row.currency,
        row.description,
        row.read_only,
        row.latest_number or None,
        row.version,
        _etag(row),
        row.created_at,
        row.updated_at,
    )
