"""What cannot start says so in one line that names what to do, with exit code 1 and no traceback."""

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from service.storage.database import create_engine
from tests.cli.commands import TRAINCOST, assert_one_line, traincost
from tests.conftest import NewDatabase
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.server import clean_environment

WRITABLE = "must exist and be writable; check TRAINCOST_DATABASE_URL"


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield str(other.getsockname()[1])


def execute(url: str, statement: str) -> None:
    async def run() -> None:
        engine = create_engine(url, pool_size=1)
        async with engine.begin() as connection:
            await connection.execute(text(statement))
        await engine.dispose()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        pytest.param(
            {"prot": "8000"}, ["TRAINCOST_PROT is no setting", "TRAINCOST_PORT, TRAINCOST_WORKERS"], id="unknown"
        ),
        pytest.param({"port": "http"}, ["TRAINCOST_PORT: Expected `int`, got 'http'", "Port to listen on"], id="port"),
        pytest.param({"port": "65536"}, ["TRAINCOST_PORT: Expected `int` <= 65535"], id="port-too-high"),
        pytest.param({"port": ""}, ["TRAINCOST_PORT: Expected `int`, got ''"], id="port-empty"),
        pytest.param({"workers": "0"}, ["TRAINCOST_WORKERS: Expected `int` >= 1"], id="no-workers"),
        pytest.param({"log_level": "loud"}, ["TRAINCOST_LOG_LEVEL: ", "'loud'", "`warning`"], id="log-level"),
        pytest.param({"auth": "perhaps"}, ["TRAINCOST_AUTH: Invalid enum value", "'perhaps'", "`auto`"], id="auth"),
        pytest.param({"rate_reads": "-1"}, ["TRAINCOST_RATE_READS: Expected `int` >= 0"], id="rate"),
        pytest.param({"workers": "2"}, ["SQLite serves one worker; use PostgreSQL"], id="sqlite-with-two-workers"),
        pytest.param(
            {"host": "0.0.0.0", "auth": "off"},
            ["set TRAINCOST_AUTH=on and make a key with `traincost keys create`, or listen on 127.0.0.1"],
            id="open-bind",
        ),
        pytest.param({"host": "::", "auth": "off"}, ["set TRAINCOST_AUTH=on"], id="open-bind-ipv6"),
        pytest.param({"host": "a.test", "auth": "off"}, ["set TRAINCOST_AUTH=on"], id="open-bind-by-name"),
        pytest.param(
            {"host": "localhost.test", "auth": "off"}, ["set TRAINCOST_AUTH=on"], id="only-looks-like-loopback"
        ),
        pytest.param(
            {"host": "host.invalid"},
            ["Cannot listen on host.invalid port 8000", "Set TRAINCOST_HOST"],
            id="no-such-host",
        ),
        pytest.param(
            {"database_url": "mysql://u:hidden@host/name"},
            ["TRAINCOST_DATABASE_URL: ", "`postgresql+asyncpg://user@host/name`"],
            id="another-database",
        ),
        pytest.param(
            {"database_url": "postgresql+asyncpg://u:hid@den@host/name"},
            ["TRAINCOST_DATABASE_URL cannot be read as a URL", "percent-encoded"],
            id="password-not-encoded",
        ),
        pytest.param(
            {"database_url": "postgresql+asyncpg://u:hidden@host:port/name"},
            ["TRAINCOST_DATABASE_URL cannot be read as a URL: its port is a number"],
            id="database-port",
        ),
        pytest.param(
            {"database_url": "postgresql+asyncpg://u:hidden@127.0.0.1/name?colour=red"},
            ["u:***@127.0.0.1/name", "colour", "check TRAINCOST_DATABASE_URL"],
            id="unknown-part-of-the-url",
        ),
        pytest.param({"database_url": "sqlite+aiosqlite:////no/such/directory/x.db"}, [WRITABLE], id="no-directory"),
        pytest.param({"database_url": "sqlite+aiosqlite:///."}, [WRITABLE], id="a-directory"),
        pytest.param({"database_url": "sqlite+aiosqlite:///text.txt"}, ["file is not a database"], id="no-database"),
        pytest.param(
            {"database_url": "sqlite+aiosqlite:///file:read-only.db?mode=ro&uri=true"},
            ["readonly database", WRITABLE],
            id="read-only",
        ),
    ],
)
def test_a_bad_setting_is_one_line(tmp_path: Path, settings: dict[str, str], says: list[str]) -> None:
    (tmp_path / "text.txt").write_text("A thousand words. " * 100)
    (tmp_path / "read-only.db").touch()
    if not {"host", "port"} & set(settings):
        settings = {**settings, "port": str(free_port())}
    ended = traincost(tmp_path, "serve", "--migrate", **settings)
    assert_one_line(ended, *says)
    assert "hid" not in ended.stderr
    assert not (tmp_path / "traincost.db").exists()


def test_a_port_in_use_is_one_line_and_leaves_the_database_alone(tmp_path: Path, taken_port: str) -> None:
    ended = traincost(tmp_path, "serve", "--migrate", port=taken_port)
    assert_one_line(ended, f"Cannot listen on 127.0.0.1 port {taken_port}", "Set TRAINCOST_PORT to another")
    assert list(tmp_path.iterdir()) == []


def test_the_port_given_on_the_command_line_is_the_one_that_is_tried(tmp_path: Path, taken_port: str) -> None:
    ended = traincost(tmp_path, "serve", "--port", taken_port, port=str(free_port()))
    assert_one_line(ended, f"port {taken_port}")


def test_of_two_that_start_at_once_on_a_port_one_serves(tmp_path: Path) -> None:
    environment = clean_environment(port=str(free_port()))
    pair = [
        subprocess.Popen(
            [TRAINCOST, "serve", "--migrate"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    while all(process.poll() is None for process in pair):
        time.sleep(0.05)
    lost, won = sorted(pair, key=lambda process: process.returncode is None)
    assert won.poll() is None
    won.terminate()
    told = [process.communicate(timeout=30) for process in (lost, won)]
    assert lost.returncode == 1
    assert told[0][1].startswith("traincost: Cannot listen on 127.0.0.1")
    assert told[0][1].count("\n") == 1
    assert "Traceback" not in told[1][1]


def test_a_database_newer_than_the_code_is_one_line(tmp_path: Path, database_url: str) -> None:
    execute(database_url, "UPDATE alembic_version SET version_num = 'ffff'")
    for command in (["serve"], ["serve", "--migrate"], ["migrate"]):
        ended = traincost(tmp_path, *command, database_url=database_url, port=str(free_port()))
        assert_one_line(ended, "at revision ffff", "it is newer. Upgrade traincost, or set TRAINCOST_DATABASE_URL")


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_database_not_migrated_is_one_line(tmp_path: Path, backend: str, request: pytest.FixtureRequest) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/empty.db"
    if backend == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    ended = traincost(tmp_path, "serve", database_url=url, port=str(free_port()))
    assert_one_line(ended, "at revision none", "run `traincost migrate`")


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_postgresql_that_is_not_there_is_one_line(tmp_path: Path, command: str) -> None:
    url = f"postgresql+asyncpg://someone:hidden@127.0.0.1:{free_port()}/traincost"
    ended = traincost(tmp_path, command, database_url=url, port=str(free_port()))
    assert_one_line(ended, "someone:***@127.0.0.1", "PostgreSQL must be running", "check TRAINCOST_DATABASE_URL")
    assert "hidden" not in ended.stderr


def test_a_database_that_postgresql_does_not_have_is_one_line(tmp_path: Path, postgres: Postgres) -> None:
    ended = traincost(tmp_path, "serve", database_url=postgres.url("nowhere"), port=str(free_port()))
    assert_one_line(ended, 'database "nowhere" does not exist', "check TRAINCOST_DATABASE_URL")


def test_a_revision_that_does_not_exist_is_one_line(tmp_path: Path, new_database: NewDatabase) -> None:
    ended = traincost(tmp_path, "migrate", "nine", database_url=new_database("sqlite"))
    assert_one_line(ended, "cannot be brought to revision 'nine'", "Try head")


def test_a_contract_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    ended = traincost(tmp_path, "openapi", "--output", "nowhere/openapi.yaml")
    assert_one_line(ended, "Cannot write nowhere/openapi.yaml: No such file or directory", "--output")
