"""Projects and keys in the database. A connection in, a Struct out; what writes also writes the audit log."""

import datetime
from typing import Any

from msgspec import UNSET, Struct
from sqlalchemy import Row, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.access.keys import NewKey
from service.access.schemas import ApiKey, ApiKeyPage, PageQuery, Project, ProjectPage, ProjectWrite
from service.access.tables import api_keys, projects
from service.errors import BadRequest, BrokenRule, Conflict, Fault, NotFound, Where
from service.http.encoding import encoded
from service.http.paging import count_key, read_cursor, write_cursor
from service.http.principal import Scope
from service.http.text import canonical_name, name_key
from service.storage.audit import Actor, hash_of, record

LIVE_KEYS_OF_A_LINE = 2

_P = projects.c
_K = api_keys.c
_NAME_TAKEN = ("uq_projects_name_key", "projects.name_key")  # how PostgreSQL and SQLite name that index
_KEYS = select(api_keys, _P.name.label("project_name")).join(projects, _K.project_id == _P.id)

AnyRow = Row[*tuple[Any, ...]]


class KeyRow(Struct, frozen=True):
    """What is to be known of a key to let somebody in by it."""

    id: int
    project_id: int
    digest: bytes
    name: str
    scopes: frozenset[str]
    expires_at: datetime.datetime | None


class ProjectRow(Struct, frozen=True):
    """A project with its number, which only the database and the principals know."""

    id: int
    project: Project


async def add_project(connection: AsyncConnection, actor: Actor, write: ProjectWrite) -> ProjectRow:
    """A new project; Conflict where the name is taken."""
    name = _canonical(write.name)
    statement = (
        insert(projects)
        .values(name=name, name_key=name_key(name), description=write.description, created_at=_now())
        .returning(projects)
    )
    try:
        row = (await connection.execute(statement)).one()
    except IntegrityError as error:
        if not any(sign in str(error.orig) for sign in _NAME_TAKEN):
            raise
        told = f"There is a project called {name!r} already."
        raise Conflict(told, (Fault("body", "/name", told),)) from None
    made = _project(row)
    await record(connection, actor, "created", "project", name, after=hash_of(encoded(made.project)))
    return made


async def get_project(connection: AsyncConnection, name: str, within: int | None) -> ProjectRow:
    """The project of this name; NotFound, as is any but the one within which the caller may look."""
    statement = select(projects).where(_P.name_key == name_key(name), *_only(within))
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        raise NotFound.named("project", name)
    return _project(row)


async def list_projects(connection: AsyncConnection, within: int | None, asked: PageQuery) -> ProjectPage:
    """One page in the order in which they were made: all, or the one within which the caller may look."""
    question = ("projects", within)
    statement = select(projects).where(*_only(within))
    if asked.cursor is not UNSET:
        statement = statement.where(_P.id > read_cursor(asked.cursor, question, (count_key,))[0])
    rows = (await connection.execute(statement.order_by(_P.id).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].id]) if len(rows) > len(page) else None
    return ProjectPage(tuple(_project(row).project for row in page), cursor)


async def find_key(connection: AsyncConnection, key_id: str) -> KeyRow | None:
    """A key that was not revoked, of any project; None if there is none."""
    statement = select(api_keys).where(_K.key_id == key_id, _K.revoked_at.is_(None))
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    return KeyRow(row.id, row.project_id, row.digest, row.name, frozenset(row.scopes), row.expires_at)


async def has_keys(connection: AsyncConnection) -> bool:
    """Whether anybody could be let in at all."""
    return (await connection.execute(select(_K.id).where(*_live()).limit(1))).one_or_none() is not None


async def note_use(connection: AsyncConnection, key_row_id: int, at: datetime.datetime) -> None:
    """Remember when a key was last used."""
    earlier = or_(_K.last_used_at.is_(None), _K.last_used_at < at)
    await connection.execute(update(api_keys).where(_K.id == key_row_id, earlier).values(last_used_at=at))


async def add_key(
    connection: AsyncConnection,
    actor: Actor,
    new: NewKey,
    *,
    project_id: int,
    name: str,
    scopes: tuple[Scope, ...],
    expires_at: datetime.datetime | None,
) -> ApiKey:
    """A new key of a project."""
    _refuse_line_breaks(name)
    ends = None if expires_at is None else instant_in_utc(expires_at, "/expires_at")
    if ends is not None and ends <= _now():
        raise BrokenRule.at("/expires_at", "It lies in the past")
    made = await _insert(connection, new, project_id, name, scopes, ends, new.key_id)
    await _record(connection, actor, "created", project_id, after=made)
    return made


async def get_key(connection: AsyncConnection, project_id: int, key_id: str) -> ApiKey:
    """A project's key; NotFound, also if it was revoked."""
    return _key(await _get_row(connection, project_id, key_id))


async def list_keys(connection: AsyncConnection, project_id: int, asked: PageQuery) -> ApiKeyPage:
    """One page of a project's keys, without those that were revoked."""
    question = ("keys", project_id)
    statement = _KEYS.where(_K.project_id == project_id, _K.revoked_at.is_(None))
    if asked.cursor is not UNSET:
        statement = statement.where(_K.id > read_cursor(asked.cursor, question, (count_key,))[0])
    rows = (await connection.execute(statement.order_by(_K.id).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].id]) if len(rows) > len(page) else None
    return ApiKeyPage(tuple(map(_key, page)), cursor)


async def revoke_key(connection: AsyncConnection, actor: Actor, project_id: int, key_id: str) -> None:
    """It is no good from now on; NotFound."""
    row = await _get_row(connection, project_id, key_id, hold=True)
    await connection.execute(update(api_keys).where(_K.id == row.id).values(revoked_at=_now()))
    await _record(connection, actor, "revoked", project_id, before=_key(row))


async def rotate_key(
    connection: AsyncConnection, actor: Actor, new: NewKey, key_id: str, overlap: datetime.timedelta
) -> ApiKey:
    """A new key with the same name, scopes and the end that was asked for at first; the old one ends after the overlap.
    Conflict where two are live."""
    row = await _get_row(connection, actor.project_id, key_id, hold=True)
    now = _now()
    if row.expires_at is not None and row.expires_at <= now:
        told = "The key has ended: make a new one."
        raise Conflict(told, (Fault("path", "key_id", told),))
    # All of a line are held in one order, so that two who rotate at once do not make three of it.
    line = select(_K.id).where(_K.line_id == row.line_id, *_live()).order_by(_K.id).with_for_update()
    if len((await connection.execute(line)).all()) >= LIVE_KEYS_OF_A_LINE:
        told = "There are two live keys already, this one and one before or after it: revoke one of them first."
        raise Conflict(told, (Fault("path", "key_id", told),))
    ends = now + overlap
    if row.expires_at is None or ends < row.expires_at:
        await connection.execute(update(api_keys).where(_K.id == row.id).values(expires_at=ends))
    made = await _insert(connection, new, row.project_id, row.name, tuple(row.scopes), row.line_ends_at, row.line_id)
    await _record(connection, actor, "rotated", row.project_id, before=_key(row), after=made)
    return made


def instant_in_utc(instant: datetime.datetime, pointer: str, where: Where = "body") -> datetime.datetime:
    """A time as it is stored; BrokenRule for one that is no time in UTC."""
    try:
        return instant.astimezone(datetime.UTC)
    except OverflowError:
        raise BrokenRule.at(pointer, "In UTC it is outside the years 1 to 9999", where) from None


def _canonical(name: str) -> str:
    """A project's name. Whatever is wrong with it is a rule: it has passed its schema."""
    try:
        return canonical_name(name, "body", "/name")
    except BadRequest as error:
        raise BrokenRule(error.detail, error.faults) from None


def _refuse_line_breaks(name: str) -> None:
    """Where a pattern ends, there may still be a line break; to Python, not to JSON Schema."""
    if "\n" in name:
        raise BrokenRule.at("/name", "A name is one line")


def _live() -> tuple[Any, ...]:
    return (_K.revoked_at.is_(None), or_(_K.expires_at.is_(None), _K.expires_at > _now()))


def _only(within: int | None) -> tuple[Any, ...]:
    return () if within is None else (_P.id == within,)


async def _get_row(connection: AsyncConnection, project_id: int, key_id: str, *, hold: bool = False) -> AnyRow:
    statement = _KEYS.where(_K.project_id == project_id, _K.key_id == key_id, _K.revoked_at.is_(None))
    if hold:
        statement = statement.with_for_update(of=api_keys)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        raise NotFound.named("key", key_id, "key_id")
    return row


async def _insert(
    connection: AsyncConnection,
    new: NewKey,
    project_id: int,
    name: str,
    scopes: tuple[Scope, ...],
    line_ends_at: datetime.datetime | None,
    line_id: str,
) -> ApiKey:
    values = {
        "project_id": project_id,
        "key_id": new.key_id,
        "line_id": line_id,
        "digest": new.digest,
        "name": name,
        "scopes": sorted(set(scopes)),
        "created_at": _now(),
        "expires_at": line_ends_at,
        "line_ends_at": line_ends_at,
    }
    await connection.execute(insert(api_keys).values(values))
    return _key((await connection.execute(_KEYS.where(_K.key_id == new.key_id))).one())


async def _record(
    connection: AsyncConnection,
    actor: Actor,
    action: Any,
    project_id: int,
    *,
    before: ApiKey | None = None,
    after: ApiKey | None = None,
) -> None:
    subject = before or after
    assert subject is not None
    await record(
        connection,
        actor,
        action,
        "api-key",
        subject.id,
        before=None if before is None else hash_of(encoded(before)),
        after=None if after is None else hash_of(encoded(after)),
        project_id=project_id,
    )


def _project(row: AnyRow) -> ProjectRow:
    return ProjectRow(row.id, Project(row.name, row.description, row.created_at))


def _key(row: AnyRow) -> ApiKey:
    return ApiKey(
        row.key_id,
        row.project_name,
        row.name,
        tuple(row.scopes),
        row.created_at,
        row.expires_at,
        row.last_used_at,
        row.line_id if row.line_id != row.key_id else None,
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
