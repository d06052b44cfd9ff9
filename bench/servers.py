"""Servers as processes of their own: one worker each, on the first core, stopped by their id."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.load import HOST
from tests.support.ports import free_port
from tests.support.server import clean_environment

_ROOT = Path(__file__).parents[1]
_START_SECONDS = 60
_STOP_SECONDS = 10
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def take_cores() -> tuple[int, int]:
    """The core for servers and the core for load, which this process moves to; the same one if it has no other."""
    mine = sorted(os.sched_getaffinity(0))
    for_servers, for_load = mine[0], mine[1] if len(mine) > 1 else mine[0]
    os.sched_setaffinity(0, {for_load})
    return for_servers, for_load


@contextmanager
def _on_core(core: int) -> Iterator[None]:
    """A process that is started here inherits the core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def output_of(module: str, core: int) -> bytes:
    """What a module of its own process prints, alone on that core."""
    with _on_core(core):
        return subprocess.run([sys.executable, "-m", module], cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout


def _memory_of(pid: str) -> int:
    """Kilobytes of a process; none of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


class Server:
    """An application under uvicorn, run as `traincost serve` runs it. Ended with its context."""

    def __init__(self, application: str, core: int, *, factory: bool = False, **settings: str) -> None:
        self.port = free_port()
        options = ["--factory"] if factory else []
        with _on_core(core):
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "uvicorn", application, *options),
                    *("--host", HOST, "--port", str(self.port), "--loop", "uvloop", "--http", "httptools"),
                    *("--no-access-log", "--no-server-header", "--log-level", "warning"),
                ],
                cwd=_ROOT,
                env=clean_environment(**settings),
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def cpu_seconds(self) -> float:
        """Processor time that the process has used so far, its own and the kernel's for it."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND

    def memory_mb(self) -> float:
        """Memory that the process and its children hold now, what several of them share counted once."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(_memory_of, [str(pid), *children])) / 1000

    def stop(self) -> None:
        """Ask it to end; insist if it does not."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError("a server did not start; what it said stands above")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
