"""Many clients that write revisions over a server that is killed, and a checker that reads the database meanwhile."""

import asyncio
import http.client
import itertools
import json
import random
import threading
import time
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import text

from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import read_custom
from service.http.encoding import encoded
from service.storage.database import Database

SCENARIOS = 10
_read = msgspec.json.Decoder(EstimateRequest, dec_hook=read_custom)
_whole = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Acknowledged(Struct, frozen=True):
    """A revision that the service has said was saved."""

    scenario: str
    number: int
    request: bytes
    estimate: bytes


def acknowledged(scenario: str, content: bytes) -> Acknowledged:
    """What an answer to a write has acknowledged."""
    whole = _whole.decode(content)
    number = msgspec.json.decode(whole["revision"], type=int)
    return Acknowledged(scenario, number, bytes(whole["request"]), bytes(whole["estimate"]))


class Ledger:
    """What all clients together know, and whether the server is there."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.up.set()
        self.lock = threading.Lock()
        self.written = 0
        self.refused = 0
        self.acknowledged: list[Acknowledged] = []
        self.strange: list[str] = []
        self.seen: dict[str, tuple[str, int]] = {}  # the newest tag that anybody has seen, and its revision

    def note(self, name: str, status: int, etag: str, content: bytes) -> None:
        """One write has ended."""
        with self.lock:
            self.written += 1
            if status in (200, 201):
                one = acknowledged(name, content)
                self.acknowledged.append(one)
                self.seen[name] = etag, one.number
            elif status in (412, 428):
                self.refused += 1
                self.seen.pop(name, None)
            else:
                self.strange.append(f"{status} {content[:300]!r}")


class Client(threading.Thread):
    """Saves, restores and labels scenarios, each on what it has seen; goes on when the server is back."""

    def __init__(self, ledger: Ledger, port: int, number: int, writes: int) -> None:
        super().__init__(daemon=True)
        self.ledger = ledger
        self.port = port
        self.random = random.Random(number)
        self.writes = writes
        # No two writes of all clients ask for the same, because what is saved again as it was makes no new revision.
        self.counts = itertools.count(1 + number, 1_000)

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        for _ in range(self.writes):
            self.ledger.up.wait(60)
            try:
                self._write(connection)
            except (OSError, http.client.HTTPException):
                connection.close()  # whether it was stored, nobody has said
                time.sleep(0.05)
        connection.close()

    def _write(self, connection: http.client.HTTPConnection) -> None:
        name = f"s{self.random.randrange(SCENARIOS)}"
        etag, latest = self.ledger.seen.get(name) or self._look(connection, name)
        headers = {"If-Match": etag} if etag else {}
        if latest > 2 and self.random.random() < 0.1:
            older = self.random.randrange(1, latest)
            path, method, body = f"/v1/scenarios/{name}/revisions/{older}/restore", "POST", None
        else:
            count = next(self.counts)
            sent = {"request": {"cluster": {"gpu_count": count}}, "labels": {"n": str(count % 7)}}
            path, method, body = f"/v1/scenarios/{name}", "PUT", json.dumps(sent)
        self.ledger.note(name, *self._ask(connection, method, path, body, headers))

    def _look(self, connection: http.client.HTTPConnection, name: str) -> tuple[str, int]:
        status, etag, content = self._ask(connection, "GET", f"/v1/scenarios/{name}")
        return (etag, json.loads(content)["revision"]) if status == 200 else ("", 0)

    @staticmethod
    def _ask(
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, str, bytes]:
        said = {**(headers or {}), **({"Content-Type": "application/json"} if body else {})}
        connection.request(method, path, body, said)
        answer = connection.getresponse()
        return answer.status, answer.getheader("etag", ""), answer.read()


def check(url: str, known: list[Acknowledged]) -> int:
    """The database is whole, and has every revision that was acknowledged; how many revisions there are."""
    return asyncio.run(_check(url, known))


async def _check(url: str, known: list[Acknowledged]) -> int:
    database = Database(url, pool_size=1)
    try:
        async with database.engine.connect() as connection:

            async def rows(statement: str) -> list[Any]:
                return list((await connection.execute(text(statement))).all())

            heads = {row.id: row for row in await rows("SELECT * FROM scenarios")}
            revisions = await rows("SELECT * FROM scenario_revisions ORDER BY scenario_id, number")
            labels = await rows("SELECT * FROM scenario_labels")
            lines = await rows("SELECT name, count(*) AS lines FROM audit_log WHERE kind = 'scenario' GROUP BY name")
            orphans = [
                await rows(f"SELECT 1 FROM {table} WHERE {rule}")
                for table, rule in (
                    ("scenario_revisions", "scenario_id NOT IN (SELECT id FROM scenarios)"),
                    ("scenario_labels", "scenario_id NOT IN (SELECT id FROM scenarios)"),
                    ("scenario_shares", "scenario_id NOT IN (SELECT id FROM scenarios)"),
                    ("price_table_uses", "kind = 'scenario' AND used_by_id NOT IN (SELECT id FROM scenarios)"),
                    ("idempotency_keys", "answer IS NULL"),
                )
            ]
    finally:
        await database.close()
    assert orphans == [[], [], [], [], []]
    stored = {}
    for row in revisions:
        stored[heads[row.scenario_id].name, row.number] = row
    for one in known:
        row = stored[one.scenario, one.number]  # a KeyError here is a write that was lost
        assert (bytes(row.request), bytes(row.estimate)) == (one.request, one.estimate)
    scale = 1_000_000 if url.startswith("sqlite") else 1
    for head in heads.values():
        numbers = [row.number for row in revisions if row.scenario_id == head.id]
        assert numbers == list(range(1, head.latest_number + 1)), f"{head.name} has gaps"
        assert stored[head.name, head.latest_number].total == head.total
    for row in revisions:
        answer = estimate(_read.decode(row.request))
        assert encoded(answer) == row.estimate
        assert answer.cost.total == sum(line.amount for line in answer.cost.lines)
        assert answer.cost.total * scale == row.total
    assert {row.name: row.lines for row in lines} == {head.name: head.version for head in heads.values()}
    as_stored = {(one.scenario_id, one.key): (one.value, one.name_key, one.owner) for one in labels}
    shown = {
        (head.id, key): (value, head.name_key, head.owner)
        for head in heads.values()
        for key, value in (json.loads(head.labels) if isinstance(head.labels, str) else head.labels).items()
    }
    assert as_stored == shown
    return len(revisions)
