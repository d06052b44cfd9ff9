"""kill -9 of the server under write load: what was acknowledged is there, and nothing is half-written."""

import random
import threading
import time
from typing import Any

import httpx
import msgspec
import pytest

from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import read_custom
from service.http.encoding import encoded
from tests.support.server import Server

WRITERS = 4


class Writer(threading.Thread):
    """Creates and replaces its own scenarios until the server is gone; remembers what was acknowledged."""

    def __init__(self, base: str, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.base = base
        self.number = number
        self.random = random.Random(seed * 1000 + number)
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.in_flight: dict[str, int] = {}

    def run(self) -> None:
        with httpx.Client(base_url=self.base, timeout=10, trust_env=False) as client:
            while True:
                try:
                    self._write(client)
                except httpx.TransportError:
                    return  # the server is gone: what was in flight may or may not be stored

    def _write(self, client: httpx.Client) -> None:
        name = f"w{self.number}-{self.random.randrange(20)}"
        count = self.random.randrange(1, 5000)
        known = self.acknowledged.get(name)
        self.in_flight = {name: count}
        answer = client.put(
            f"/v1/scenarios/{name}",
            json={"request": {"cluster": {"gpu_count": count}}, "description": str(count)},
            headers={"If-Match": known["etag"]} if known else {},
        )
        if answer.status_code in (200, 201):
            self.acknowledged[name] = {"etag": answer.headers["etag"], "body": answer.content}
        self.in_flight = {}
        assert answer.status_code in (200, 201), answer.text


def check(base: str, writers: list[Writer]) -> int:
    """Every acknowledged scenario is there, or the write that was in flight over it; all of them are whole."""
    seen: set[str] = set()
    with httpx.Client(base_url=base, timeout=10, trust_env=False) as client:
        for writer in writers:
            for name in {*writer.acknowledged, *writer.in_flight}:
                found = client.get(f"/v1/scenarios/{name}")
                known = writer.acknowledged.get(name)
                if found.status_code == 404:
                    assert known is None, f"{name} was acknowledged and is lost"
                    continue
                if known is None or found.content != known["body"]:
                    assert found.json()["description"] == str(writer.in_flight[name])
                assert_whole(found.content)
                seen.add(name)
                writer.acknowledged[name] = {"etag": found.headers["etag"], "body": found.content}
        listed = [item["name"] for item in client.get("/v1/scenarios", params={"limit": 200}).json()["items"]]
    assert sorted(listed) == sorted(seen)
    return len(seen)


def assert_whole(content: bytes) -> None:
    """The stored answer is the answer to the stored request, byte for byte."""
    stored = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    request = msgspec.json.decode(stored["request"], type=EstimateRequest, dec_hook=read_custom)
    assert bytes(stored["estimate"]) == encoded(estimate(request))
    assert request.cluster
    assert str(request.cluster.gpu_count) == msgspec.json.decode(stored["description"])


def survive(database_url: str, kills: int) -> int:
    """Kill the server this often, each time under load; how many scenarios were checked after the last."""
    server = Server(database_url)
    writers = [Writer(server.base, number, 0) for number in range(WRITERS)]
    checked = 0
    try:
        for kill in range(kills):
            for writer in writers:
                writer.start()
            time.sleep(random.Random(kill).uniform(0.4, 1.2))
            server.kill()
            for writer in writers:
                writer.join(20)
                assert not writer.is_alive()
            server.start()
            checked = check(server.base, writers)
            assert checked > 0
            writers = [successor(writer, kill + 1) for writer in writers]
    finally:
        server.close()
    return checked


def successor(writer: Writer, seed: int) -> Writer:
    """A thread runs once: the next one knows what this one knew."""
    following = Writer(writer.base, writer.number, seed)
    following.acknowledged = writer.acknowledged
    return following


def test_a_kill_loses_no_acknowledged_scenario(database_url: str) -> None:
    assert survive(database_url, 1) > 0


@pytest.mark.soak
def test_thirty_kills_lose_no_acknowledged_scenario(database_url: str) -> None:
    assert survive(database_url, 30) > 0
