"""The service as its users run it: a process of its own, on loopback, on a free port, stopped by its id."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.support.ports import free_port

_START_SECONDS = 30
ROOT = Path(__file__).parents[2]


def clean_environment(**settings: str) -> dict[str, str]:
    """This process's environment without its TRAINCOST_* settings, and with these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINCOST_")}
    return {**inherited, **{f"TRAINCOST_{name.upper()}": value for name, value in settings.items()}}


class Server:
    """`traincost serve` on a database. As a context manager it is stopped at the end."""

    def __init__(self, database_url: str, *arguments: str, port: int | None = None, **settings: str) -> None:
        self.port = port or free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self._arguments = arguments
        self._environment = clean_environment(database_url=database_url, port=str(self.port), **settings)
        # A file and not a pipe: a server that logs much must not wait for a reader.
        descriptor, log = tempfile.mkstemp(prefix="traincost-server-", suffix=".log")
        os.close(descriptor)
        self._log = Path(log)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "serve", *self._arguments],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                httpx.get(f"{self.base}/health/live", timeout=1, trust_env=False).raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.05)
            else:
                return
        printed = self.output()
        self.close()
        raise RuntimeError(f"the server did not start: {printed}")

    def kill(self) -> None:
        """kill -9, the whole group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> str:
        """Terminate it as an operator would; what it printed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.output()

    def output(self) -> str:
        """Everything it has printed, all its starts together."""
        return self._log.read_text()

    def close(self) -> None:
        """Make sure that it has ended, and remove its log."""
        self.kill()
        self._log.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.close()
