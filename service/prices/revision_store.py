"""The revisions of price tables in the database, which never change. A connection and a project in, a Struct out."""

import datetime
from typing import Any

from msgspec import UNSET, Struct
from sqlalchemy import ColumnElement, Row, Select, bindparam, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import NotFound
from service.http.paging import count_key, read_cursor, write_cursor
from service.prices.table_schemas import Revision, RevisionPage, RevisionQuery, RevisionWrite
from service.prices.tables import price_revisions, price_tables
from service.storage.audit import Actor, record

_T = price_tables.c
_R = price_revisions.c
# A project's own tables, and these with the one that comes with the release; the project is given when it is executed.
OURS = _T.project_id == bindparam("project")
VISIBLE = or_(OURS, _T.read_only.is_(True))
_REVISIONS = select(price_revisions, _T.name, _T.currency).join(price_tables, _R.table_id == _T.id)


class Head(Struct, frozen=True):
    """What the rest of the service needs to know of a live table."""

    id: int
    project_id: int
    name: str
    key: str
    currency: str
    latest_number: int
    version: int
    read_only: bool
    etag: str


async def find_revision(
    connection: AsyncConnection, number: int | None, *table: ColumnElement[bool], **given: Any
) -> Revision | None:
    """The revision of this number, or the newest, of the one table that fits what is given; None without one."""
    wanted = _R.number == (_T.latest_number if number is None else number)
    row = (await connection.execute(_REVISIONS.where(*table, wanted), given)).one_or_none()
    return None if row is None else _revision(row)


async def find_latest(connection: AsyncConnection, table_id: int) -> Revision | None:
    """A table's newest revision; None before the first."""
    return await find_revision(connection, None, _R.table_id == table_id)


async def get_revision_by_id(connection: AsyncConnection, project_id: int, revision_id: int) -> Revision:
    """A revision by its id, whatever became of its table; NotFound."""
    statement = _REVISIONS.where(_R.id == revision_id, VISIBLE)
    row = (await connection.execute(statement, {"project": project_id})).one_or_none()
    if row is None:
        raise NotFound.named("price revision", str(revision_id), "revision_id")
    return _revision(row)


async def list_revisions(connection: AsyncConnection, head: Head, asked: RevisionQuery) -> RevisionPage:
    """One page, the newest first, of a table that the caller has found in its project."""
    statement: Select[Any] = _REVISIONS.where(_R.table_id == head.id)
    if asked.cursor is not UNSET:
        statement = statement.where(_R.number < read_cursor(asked.cursor, [head.id], (count_key,))[0])
    rows = (await connection.execute(statement.order_by(_R.number.desc()).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor([head.id], [page[-1].number]) if len(rows) > len(page) else None
    return RevisionPage(tuple(map(_revision, page)), cursor)


async def add_revision(
    connection: AsyncConnection,
    actor: Actor,
    head: Head,
    before: Revision | None,
    write: RevisionWrite,
    *,
    content_hash: str,
    rate_count: int,
) -> Revision:
    """The next revision of a table that is held for writing, after the newest so far, without its rates."""
    values = {
        "author": write.author,
        "note": write.note,
        "source": write.source,
        "licence": write.licence,
        "as_of": write.as_of,
        "content_hash": content_hash,
        "rate_count": rate_count,
    }
    number, now = head.latest_number + 1, datetime.datetime.now(datetime.UTC)
    row = (
        await connection.execute(
            insert(price_revisions)
            .values(table_id=head.id, number=number, created_at=now, **values)
            .returning(price_revisions)
        )
    ).one()
    await connection.execute(
        update(price_tables)
        .where(_T.id == head.id)
        .values(latest_number=number, version=head.version + 1, updated_at=now)
    )
    await record(
        connection,
        actor,
        "revised",
        "price-table",
        head.name,
        before=None if before is None else before.content_hash,
        after=content_hash,
    )
    return _revision_of(row, head.name, head.currency)


def _revision(row: Row[*tuple[Any, ...]]) -> Revision:
    return _revision_of(row, row.name, row.currency)


def _revision_of(row: Row[*tuple[Any, ...]], table: str, currency: str) -> Revision:
    return Revision(
        row.id,
        table,
        currency,
        row.number,
        row.author,
        row.note,
        row.source,
        row.licence,
        row.as_of,
        row.content_hash,
        row.rate_count,
        row.created_at,
    )
