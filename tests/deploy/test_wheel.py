"""The wheel in a fresh venv, without the checkout: the very commands of the compose file, on a real PostgreSQL."""

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import asyncpg
import httpx
import pytest

from tests.cli.commands import assert_one_line
from tests.deploy.recipes import compose, environment_of, health_command, removed_from_image
from tests.support.keys import bearer
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.server import ROOT

PASSWORD = "p@ss/word %41:'\"$x"  # no character of it may need care
SERVICES = compose()["services"]


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh venv with the pinned requirements, less what only builds, and the wheel."""
    directory = tmp_path_factory.mktemp("installed")
    inherited = {
        name: value for name, value in os.environ.items() if not re.match("PYTHON|VIRTUAL_ENV|TRAINCOST", name)
    }

    def run(*command: str | Path) -> None:
        ended = subprocess.run(command, cwd=directory, env=inherited, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", ROOT)
    [wheel] = (directory / "dist").iterdir()
    run(sys.executable, "-m", "venv", "--without-pip", "venv")
    into = [*pip, "--python", str(directory / "venv/bin/python")]
    run(*into, "install", "--require-hashes", "--requirement", ROOT / "requirements.txt")
    run(*into, "uninstall", "--yes", *removed_from_image())
    run(*into, "install", "--no-deps", wheel)
    run(*into, "check")
    return directory / "venv"


class Machine:
    """Where the wheel is installed: nothing but the venv on the path, these settings, and a directory of its own."""

    def __init__(self, venv: Path, directory: Path, settings: dict[str, str]) -> None:
        self.directory = directory
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.environment = {
            "PATH": f"{venv / 'bin'}:/usr/bin:/bin",
            "HOME": str(directory),
            **settings,
            "TRAINCOST_HOST": "127.0.0.1",
            "TRAINCOST_PORT": str(self.port),
        }

    def run(self, command: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self._found(command),
            cwd=self.directory,
            env={**self.environment, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def running(self, command: list[str]) -> Iterator[None]:
        """While it runs, and its health check in the compose file passes."""
        log = self.directory / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self._found(command), cwd=self.directory, env=self.environment, stdout=out, stderr=out
            )
        try:
            deadline = time.monotonic() + 60
            while self.run(health_command("service")).returncode != 0:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(20)
        assert "Traceback" not in log.read_text()

    def _found(self, command: list[str]) -> list[str]:
        program = shutil.which(command[0], path=self.environment["PATH"])
        assert program is not None
        return [program, *command[1:]]


def assert_serves(base: str, key: str | None = None) -> None:
    with httpx.Client(base_url=base, trust_env=False, headers=bearer(key) if key else {}) as client:
        assert client.post("/v1/estimates", json={}).json()["cost"]["total"] == "27950.00"
        stored = client.put("/v1/scenarios/first", json={"request": {"cluster": {"gpu_count": 128}}})
        assert stored.status_code == 201
        assert client.get("/v1/scenarios/first").content == stored.content
        assert client.get("/v1/gpus/h100-sxm-80gb").status_code == 200
        assert client.get("/openapi.yaml").status_code == 200
        assert client.get("/docs/assets/swagger-ui-bundle.js").status_code == 200


@pytest.fixture
def composed(venv: Path, tmp_path: Path, postgres: Postgres) -> Machine:
    """The compose file's environment, with its database on the throw-away PostgreSQL, and a password that counts."""
    asyncio.run(make_compose_database(postgres))
    settings = environment_of("service", POSTGRES_PASSWORD=PASSWORD)
    settings["TRAINCOST_DATABASE_URL"] = settings["TRAINCOST_DATABASE_URL"].replace(
        "@database:5432/", f"@127.0.0.1:{postgres.port}/"
    )
    return Machine(venv, tmp_path, settings)


async def make_compose_database(postgres: Postgres) -> None:
    """What the database's image makes of its environment; only with its password may the user come in."""
    access = postgres.directory / "data" / "pg_hba.conf"
    access.write_text(f"host all traincost 127.0.0.1/32 scram-sha-256\n{access.read_text()}")
    quoted = PASSWORD.replace("'", "''")
    connection = await asyncpg.connect(postgres.url("postgres").replace("+asyncpg", ""))
    try:
        await connection.execute("SELECT pg_reload_conf()")
        await connection.execute(f"CREATE ROLE traincost LOGIN PASSWORD '{quoted}'")
        await connection.execute("CREATE DATABASE traincost OWNER traincost")
    finally:
        await connection.close()


def test_compose_commands_run_in_a_fresh_venv(composed: Machine) -> None:
    refused = composed.run(SERVICES["migrate"]["command"], PGPASSWORD="wrong")
    assert_one_line(refused, "password authentication failed")
    assert composed.run(SERVICES["service"]["command"]).stderr.endswith("run `traincost migrate`.\n")

    migrated = composed.run(SERVICES["migrate"]["command"])
    assert migrated.returncode == 0, migrated.stderr
    assert composed.run(health_command("service")).returncode == 1
    key = composed.run(["traincost", "keys", "create"]).stdout.strip()
    with composed.running(SERVICES["service"]["command"]):
        assert httpx.post(f"{composed.base}/v1/estimates", json={}, trust_env=False).status_code == 401
        assert_serves(composed.base, key)
    again = composed.run(SERVICES["migrate"]["command"])
    assert again.stdout == migrated.stdout


def test_the_same_wheel_migrates_and_serves_sqlite(venv: Path, tmp_path: Path) -> None:
    machine = Machine(venv, tmp_path, {})
    assert machine.run(["traincost", "migrate"]).returncode == 0
    with machine.running(["traincost", "serve"]):
        assert_serves(machine.base)
    assert (tmp_path / "traincost.db").exists()


def test_the_wheel_sees_nothing_of_the_checkout(venv: Path, tmp_path: Path) -> None:
    machine = Machine(venv, tmp_path, {})
    told = machine.run(["python", "-c", "import service, sys; print(service.__file__, *sys.path, sep='\\n')"])
    package, *path = told.stdout.splitlines()
    assert Path(package).is_relative_to(venv)
    assert (Path(package).parent / "migrations" / "env.py").exists()
    assert not any(Path(entry).is_relative_to(ROOT) for entry in path if entry)
    assert machine.run(["python", "-c", "import migrations"]).returncode == 1
    assert machine.run(["python", "-c", "import hatchling"]).returncode == 1


def test_the_health_check_fails_once_the_database_is_not_of_this_release(venv: Path, tmp_path: Path) -> None:
    machine = Machine(venv, tmp_path, {})
    with machine.running(["traincost", "serve", "--migrate"]):
        assert machine.run(health_command("service")).returncode == 0
        with closing(sqlite3.connect(tmp_path / "traincost.db")) as another, another:
            another.execute("UPDATE alembic_version SET version_num = 'ffff'")
        assert machine.run(health_command("service")).returncode == 1
        assert httpx.get(f"{machine.base}/health/live", trust_env=False).status_code == 200
