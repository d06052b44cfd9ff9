"""The audit log as a project's admin reads it."""

from typing import Any

from msgspec import UNSET
from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.access.schemas import AuditEntry, AuditPage, AuditQuery
from service.access.store import instant_in_utc
from service.http.paging import count_key, read_cursor, write_cursor
from service.storage.audit import audit_log

_A = audit_log.c


async def list_entries(connection: AsyncConnection, project_id: int, asked: AuditQuery) -> AuditPage:
    """One page of a project's lines, the newest first."""
    exact = {name: getattr(asked, name) for name in ("kind", "name", "action", "key_id")}
    given = {name: value for name, value in exact.items() if value is not UNSET}
    since = None if asked.since is UNSET else instant_in_utc(asked.since, "since", "query")
    until = None if asked.until is UNSET else instant_in_utc(asked.until, "until", "query")
    question = ("audit", project_id, given, since, until)
    statement = select(audit_log).where(_A.project_id == project_id, *(_A[name] == given[name] for name in given))
    if since is not None:
        statement = statement.where(_A.at >= since)
    if until is not None:
        statement = statement.where(_A.at < until)
    if asked.cursor is not UNSET:
        statement = statement.where(_A.id < read_cursor(asked.cursor, question, (count_key,))[0])
    rows = (await connection.execute(statement.order_by(_A.id.desc()).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].id]) if len(rows) > len(page) else None
    return AuditPage(tuple(map(_entry, page)), cursor)


def _entry(row: Row[*tuple[Any, ...]]) -> AuditEntry:
    return AuditEntry(
        row.id,
        row.at,
        row.key_id,
        row.actor,
        row.action,
        row.kind,
        row.name,
        row.before_hash,
        row.after_hash,
        row.request_id,
    )
