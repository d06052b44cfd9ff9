"""`traincost serve` as an operator meets it: what it prints, how it stops, how many serve."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import TRAINCOST
from tests.conftest import NewDatabase
from tests.support.ports import free_port
from tests.support.server import Server, clean_environment

TOTAL = "27950.00"
LOG_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+ |    )")


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Server]:
    """`serve --migrate` on an SQLite file that does not exist yet."""
    with Server(f"sqlite+aiosqlite:///{tmp_path}/new.db", "--migrate") as running:
        yield running


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def post_estimate(base: str) -> str:
    """The total of a real POST, on a connection of its own."""
    answer = httpx.post(f"{base}/v1/estimates", json={}, trust_env=False, timeout=2)
    assert answer.status_code == 200
    total: str = answer.json()["cost"]["total"]
    return total


def run_as_printed(command: str) -> bytes:
    """What a curl command answers; by httpx where there is no curl."""
    words = shlex.split(command)
    if shutil.which(words[0]):
        return subprocess.run([*words, "--noproxy", "*"], check=True, capture_output=True, timeout=20).stdout
    assert words[:4] == ["curl", "-s", "-X", "POST"]
    assert (words[5], words[7]) == ("-H", "-d")
    name, _, value = words[6].partition(": ")
    return httpx.post(words[4], headers={name: value}, content=words[8], trust_env=False).content


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


def workers_of(server: Server) -> list[int]:
    """The processes that serve: the children that multiprocessing spawned for it."""
    parent = server.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


class paused:  # noqa: N801  # used as a function
    """A process that takes no turn for a while, so that whatever is answered is answered by another."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __enter__(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: self._state() == "T")

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]


def answered_without(held: int, base: str) -> bool:
    """Does another than this process answer? Not while it is still starting."""
    with paused(held):
        try:
            return post_estimate(base) == TOTAL
        except httpx.TimeoutException:
            return False


def test_it_prints_where_the_docs_are_and_an_example_that_works_as_printed(tmp_path: Path) -> None:
    environment = clean_environment(port=str(free_port()))
    with subprocess.Popen(
        [TRAINCOST, "serve", "--migrate"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = dict(line.split(maxsplit=1) for line in (process.stdout.readline() for _ in range(4)))
        try:
            answer = httpx.Response(200, content=run_as_printed(printed["try"])).json()
            assert answer["cost"]["total"] == "55550.00"
            assert "swagger-ui" in httpx.get(printed["docs"].strip(), trust_env=False).text
            assert httpx.get(printed["contract"].strip(), trust_env=False).text.startswith("openapi: ")
        finally:
            process.terminate()
    assert (tmp_path / "traincost.db").exists()


def test_a_new_database_is_migrated_and_served(new_server: Server) -> None:
    assert post_estimate(new_server.base) == TOTAL
    assert httpx.get(f"{new_server.base}/health/ready", trust_env=False).status_code == 200
    stored = httpx.put(f"{new_server.base}/v1/scenarios/first", json={"request": {}}, trust_env=False)
    assert stored.status_code == 201


def test_a_stored_scenario_is_there_after_a_restart(new_server: Server) -> None:
    answer = httpx.put(f"{new_server.base}/v1/scenarios/kept", json={"request": {}}, trust_env=False)
    new_server.stop()
    new_server.start()
    found = httpx.get(f"{new_server.base}/v1/scenarios/kept", trust_env=False)
    assert found.content == answer.content


def test_the_request_under_way_is_answered_when_it_is_told_to_stop(new_server: Server) -> None:
    body = b'{"cluster": {"gpu_count": 64}}'
    head = (
        f"POST /v1/estimates HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", new_server.port), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")  # the handler waits for the body now
        new_server.process.send_signal(signal.SIGTERM)
        eventually(lambda: not answers(new_server.port))
        connection.sendall(body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert TOTAL.encode() in answer
    assert new_server.process.wait(10) == -signal.SIGTERM
    assert "Traceback" not in new_server.output()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_it_stops_at_once_when_nothing_is_under_way(new_server: Server, name: str) -> None:
    with httpx.Client(base_url=new_server.base, trust_env=False) as idle:
        idle.get("/version").raise_for_status()
        new_server.process.send_signal(signal.Signals[name])
        new_server.process.wait(5)
    assert "Traceback" not in new_server.output()


def test_two_workers_on_postgresql_both_serve_the_same_scenarios(new_database: NewDatabase) -> None:
    with Server(new_database("postgresql"), workers="2") as server:
        eventually(lambda: len(workers_of(server)) == 2)
        workers = workers_of(server)
        for held, name in zip(workers, ("one", "two"), strict=True):
            eventually(lambda held=held: answered_without(held, server.base))  # type: ignore[misc]
            with paused(held):
                httpx.put(
                    f"{server.base}/v1/scenarios/{name}", json={"request": {}}, trust_env=False
                ).raise_for_status()
        for held in workers:
            with paused(held):
                listed = httpx.get(f"{server.base}/v1/scenarios", trust_env=False).json()
                assert [scenario["name"] for scenario in listed["items"]] == ["one", "two"]
        assert workers_of(server) == workers
        output = server.stop()
    logged = [line for line in output.splitlines() if not line.startswith(("traincost ", "  "))]
    assert all(LOG_LINE.match(line) for line in logged), output
    assert len([line for line in logged if "Started server process" in line]) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
