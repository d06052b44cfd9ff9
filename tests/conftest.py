"""Databases to test on, migrated once and copied for each test; clients in process and over a socket."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, settings

from service.app import create_app
from service.prices.default import seed_default_table
from service.settings import Settings
from service.storage.schema import migrate
from tests.support.keys import bearer, make_key
from tests.support.postgres import Postgres
from tests.support.server import Server

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

BACKENDS = ("sqlite", "postgresql")
NewDatabase = Callable[[str], str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL for the whole session."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def _migrated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[], str]], str]:
    """The URL of a migrated database of each kind, made when it is first asked for."""
    made: dict[str, str] = {}

    def get(backend: str, new: Callable[[], str]) -> str:
        if backend not in made:
            url = new()
            # In a thread, because a test's own event loop may be running here.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, migrate(url)).result()
            made[backend] = url
        return made[backend]

    return get


@pytest.fixture
def new_database(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    _migrated: Callable[[str, Callable[[], str]], str],
) -> NewDatabase:
    """A fresh migrated database of a kind, by name."""

    def new(backend: str) -> str:
        if backend == "sqlite":
            template = _migrated(
                "sqlite", lambda: f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('template') / 'template.db'}"
            )
            copy = tmp_path / "traincost.db"
            shutil.copy(template.removeprefix("sqlite+aiosqlite:///"), copy)
            return f"sqlite+aiosqlite:///{copy}"
        server: Postgres = request.getfixturevalue("postgres")
        return server.new_database(_migrated("postgresql", server.new_database).rpartition("/")[2])

    return new


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, new_database: NewDatabase) -> str:
    """A fresh migrated database, on SQLite and on PostgreSQL."""
    return new_database(request.param)


@pytest.fixture
async def api(new_database: NewDatabase) -> AsyncIterator[httpx.AsyncClient]:
    """The service in process, on SQLite: for what does not depend on the database."""
    async with client_of(new_database("sqlite")) as client:
        yield client


@pytest.fixture
async def stored_api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service in process, on both databases."""
    async with client_of(database_url) as client:
        yield client


@pytest.fixture
async def stocked_api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service in process, on both databases, with the price table that comes with the release."""
    await seed_default_table(database_url)
    async with client_of(database_url) as client:
        yield client


@pytest.fixture
async def keyed_api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service in process, on both databases, asking for keys; the client has one with every scope."""
    async with client_of(database_url, auth="on") as client:
        client.headers.update(bearer(await make_key(database_url)))
        yield client


class client_of:  # noqa: N801  # used as a function
    """A client of the service in process, on this database."""

    def __init__(self, database_url: str, **settings: object) -> None:
        self.app = create_app(Settings(database_url=database_url, **settings))  # type: ignore[arg-type]
        transport = httpx.ASGITransport(cast("Any", self.app), raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://traincost.test")

    async def __aenter__(self) -> httpx.AsyncClient:
        return self.client

    async def __aexit__(self, *exc: object) -> None:
        await self.client.aclose()
        await self.app.state.database.close()


@pytest.fixture
def server(database_url: str) -> Iterator[Server]:
    """The service as a process, on both databases."""
    with Server(database_url) as running:
        yield running


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One process on SQLite for all tests that only need a real socket; what they store stays."""
    database = tmp_path_factory.mktemp("shared") / "traincost.db"
    with Server(f"sqlite+aiosqlite:///{database}", "--migrate") as running:
        yield running
