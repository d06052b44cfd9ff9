"""Projects and keys on a terminal: how the first key comes to be, and how the last one goes."""

import datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from service.access import store
from service.access.keys import new_key
from service.access.schemas import ApiKey, PageQuery, Project, ProjectWrite
from service.errors import NotFound, StartupError
from service.http.paging import MAX_LIMIT
from service.http.principal import DEFAULT_PROJECT_ID, SCOPES, Scope
from service.http.text import NAME_MAX_LENGTH, canonical_name, forbidden_in
from service.storage.audit import Actor
from service.storage.database import create_engine
from service.storage.schema import require_current

_COMMAND_LINE = "the command line"


def at_terminal(project_id: int) -> Actor:
    """Who acts on the command line, as the audit log has it."""
    return Actor(project_id, None, _COMMAND_LINE, None)


async def create_project(database_url: str, name: str, description: str) -> Project:
    """A new project."""
    if forbidden_in(description):
        raise StartupError("--description: it holds a control character")
    async with _writing(database_url) as connection:
        write = ProjectWrite(_named(name, "project"), description)
        return (await store.add_project(connection, at_terminal(DEFAULT_PROJECT_ID), write)).project


async def list_projects(database_url: str) -> Sequence[Project]:
    """All of them."""
    async with _writing(database_url) as connection:
        return await _all(partial(store.list_projects, connection, None))


async def create_key(
    database_url: str, project: str, name: str, scopes: tuple[Scope, ...], days: int | None
) -> tuple[ApiKey, str]:
    """A new key of a project, and the text of it that is shown once."""
    if not 1 <= len(name) <= NAME_MAX_LENGTH or forbidden_in(name, one_line=True):
        raise StartupError(f"--name: a name has 1 to {NAME_MAX_LENGTH} characters, and is one line")
    expires_at = None
    if days is not None:
        expires_at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    new = new_key()
    async with _writing(database_url) as connection:
        project_id = (await store.get_project(connection, project, None)).id
        made = await store.add_key(
            connection,
            at_terminal(project_id),
            new,
            project_id=project_id,
            name=name,
            scopes=scopes,
            expires_at=expires_at,
        )
    return made, new.token


async def list_keys(database_url: str, project: str) -> Sequence[ApiKey]:
    """All of a project's that were not revoked."""
    async with _writing(database_url) as connection:
        project_id = (await store.get_project(connection, project, None)).id
        return await _all(partial(store.list_keys, connection, project_id))


async def revoke_key(database_url: str, key_id: str) -> None:
    """It is no good from now on, whosever it is."""
    async with _writing(database_url) as connection:
        found = await store.find_key(connection, key_id)
        if found is None:
            raise NotFound.named("key", key_id, "key_id")
        await store.revoke_key(connection, at_terminal(found.project_id), found.project_id, key_id)


async def has_keys(database_url: str) -> bool:
    """Whether anybody could be let in by one."""
    async with _writing(database_url) as connection:
        return await store.has_keys(connection)


def scopes_of(names: tuple[str, ...]) -> tuple[Scope, ...]:
    """Scopes as they were typed, all of them where none was; StartupError names one that does not exist."""
    unknown = [name for name in names if name not in SCOPES]
    if unknown:
        raise StartupError(f"--scope: {unknown[0]} is no scope; the scopes are {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in names) or SCOPES


def keys_table(keys: Sequence[ApiKey]) -> str:
    """Keys to read, one a line."""
    rows = [("id", "name", "scopes", "ends", "last used")]
    rows += [
        (key.id, key.name, ",".join(key.scopes), _day(key.expires_at, "never"), _day(key.last_used_at, "not yet"))
        for key in keys
    ]
    return _table(rows)


def projects_table(projects: Sequence[Project]) -> str:
    """Projects to read, one a line."""
    return _table([("name", "description"), *((one.name, " ".join(one.description.split())) for one in projects)])


async def _all(page_of: Callable[[PageQuery], Awaitable[Any]]) -> list[Any]:
    """What a list has on all its pages."""
    page = await page_of(PageQuery(MAX_LIMIT))
    listed = list(page.items)
    while page.next_cursor is not None:
        page = await page_of(PageQuery(MAX_LIMIT, page.next_cursor))
        listed += page.items
    return listed


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _day(instant: datetime.datetime | None, otherwise: str) -> str:
    return otherwise if instant is None else f"{instant:%Y-%m-%d %H:%M}Z"


def _named(name: str, what: str) -> str:
    return canonical_name(name, "query", what)


@asynccontextmanager
async def _writing(database_url: str) -> AsyncIterator[AsyncConnection]:
    """A transaction on a database that is up to date."""
    engine = create_engine(database_url, pool_size=1)
    try:
        await require_current(engine)
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()
