"""Work in a process of its own: what it answers, and what is left of it when something ends before it is done."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.apart import Apart
from service.errors import AmbiguousName, Fault, Unavailable
from tests.storage import apart_jobs

_MOST_SECONDS = 30
_PARENT = """
import asyncio, sys
from service.apart import Apart
from tests.storage import apart_jobs
asyncio.run(Apart().run(apart_jobs.write_and_stay, sys.argv[1], data=b''))
"""


async def until_written(path: Path) -> int:
    """The process that a job has told of itself."""
    deadline = time.monotonic() + _MOST_SECONDS
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return int(path.read_text())


async def until_gone(process: int) -> None:
    """Wait until there is no such process, or only what its parent has not asked about."""
    deadline = time.monotonic() + _MOST_SECONDS
    while Path(f"/proc/{process}/stat").exists():
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_it_runs_in_another_process_and_what_it_prints_is_no_answer() -> None:
    number, text = await Apart().run(apart_jobs.who_am_i, data=("é" * 100_000).encode())
    assert number != os.getpid()
    assert text == "é" * 100_000


async def test_an_error_of_ours_comes_back_whole() -> None:
    with pytest.raises(AmbiguousName) as raised:
        await Apart().run(apart_jobs.refuse, "h100", data=b"")
    assert raised.value.candidates == ("h100-sxm-80gb", "h100-pcie-80gb")
    assert raised.value.faults == (Fault("query", "gpu", raised.value.detail),)
    assert str(raised.value) == raised.value.detail


async def test_a_child_that_is_ended_from_outside_is_no_result() -> None:
    with pytest.raises(Unavailable, match="ended before it was done"):
        await Apart().run(apart_jobs.die, data=b"x" * 1_000_000)


async def test_an_error_that_is_none_of_ours_is_raised_where_it_is_logged() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        await Apart().run(apart_jobs.fail, data=b"")


async def test_a_caller_that_gives_up_ends_it(tmp_path: Path) -> None:
    apart = Apart()
    running = asyncio.create_task(apart.run(apart_jobs.write_and_stay, str(tmp_path / "pid"), data=b""))
    child = await until_written(tmp_path / "pid")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until_gone(child)
    assert (await apart.run(apart_jobs.who_am_i, data=b""))[1] == ""  # and the next has its turn


async def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT, str(tmp_path / "pid")]) as parent:
        child = await until_written(tmp_path / "pid")
        parent.send_signal(signal.SIGKILL)
    await until_gone(child)


async def test_of_two_the_second_waits(tmp_path: Path) -> None:
    apart, log = Apart(), tmp_path / "log"
    await asyncio.gather(*(apart.run(apart_jobs.begin_and_end, str(log), data=b"") for _ in range(2)))
    assert log.read_text() == "begin\nend\nbegin\nend\n"
