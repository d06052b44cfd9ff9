"""Keys for tests: made in the database, as the command line does it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx

from service.access import cli as access
from service.http.principal import SCOPES, Scope

ALL: tuple[Scope, ...] = SCOPES


async def make_key(url: str, *scopes: Scope, project: str = "default", name: str = "a test") -> str:
    """A key of a project, with all scopes where none is named."""
    _, token = await access.create_key(url, project, name, scopes or ALL, None)
    return token


def make_key_now(url: str, *scopes: Scope, project: str = "default", name: str = "a test") -> str:
    """The same outside of any event loop, or inside of one that must not be used."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, make_key(url, *scopes, project=project, name=name)).result()


async def make_project(url: str, name: str) -> None:
    """A project without a key."""
    await access.create_project(url, name, "")


def bearer(token: str) -> dict[str, str]:
    """The header that sends a key."""
    return {"Authorization": f"Bearer {token}"}


def code(answer: httpx.Response) -> str:
    """The kind of a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text[:500]
    kind: str = answer.json()["type"]
    return kind.removeprefix("/errors/")
