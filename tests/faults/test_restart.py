"""PostgreSQL restarted under load: what cannot be answered is 503 that says when to come back, and then it goes on."""

import asyncio
import http.client
import json
import threading
import time

from service.storage.schema import migrate
from tests.faults.ledger import Acknowledged, acknowledged, check
from tests.support.postgres import Postgres
from tests.support.server import Server

CLIENTS = 8


class Steady(threading.Thread):
    """Saves its own scenario again and again, whatever it is answered."""

    def __init__(self, port: int, number: int, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port, self.name_of_its_own, self.over = port, f"own-{number}", over
        self.answers: list[tuple[float, int, str, str, bytes]] = []
        self.acknowledged: list[Acknowledged] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        path, count = f"/v1/scenarios/{self.name_of_its_own}", 0
        while not self.over.is_set():
            count += 1
            headers = {"Content-Type": "application/json", **({"If-Match": "*"} if self.acknowledged else {})}
            body = json.dumps({"request": {"cluster": {"gpu_count": count}}})
            connection.request("PUT", path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            told = answer.getheader("content-type", ""), answer.getheader("retry-after", "")
            self.answers.append((time.monotonic(), answer.status, *told, content))
            if answer.status in (200, 201):
                self.acknowledged.append(acknowledged(self.name_of_its_own, content))
            else:
                time.sleep(0.01)
        connection.close()


def test_writes_go_on_by_themselves_when_postgresql_is_back() -> None:
    postgres = Postgres()
    over = threading.Event()
    try:
        url = postgres.new_database()
        asyncio.run(migrate(url))
        with Server(url) as server:
            clients = [Steady(server.port, number, over) for number in range(CLIENTS)]
            for client in clients:
                client.start()
            time.sleep(1)
            postgres.stop()
            time.sleep(1)
            postgres.start()
            back = time.monotonic()
            time.sleep(1.5)
            over.set()
            for client in clients:
                client.join(60)
                assert not client.is_alive()
        answers = [answer for client in clients for answer in client.answers]
        failed = [answer for answer in answers if answer[1] not in (200, 201)]
        assert failed
        for _, status, media_type, retry_after, content in failed:
            # 428: its first write was stored, and the connection broke before that could be said.
            assert status in (503, 428), content
            assert media_type == "application/problem+json"
            if status == 503:
                assert json.loads(content)["type"] == "/errors/unavailable"
                assert int(retry_after) > 0
        assert all(any(at > back and status == 200 for at, status, *_ in client.answers) for client in clients)
        assert check(url, [one for client in clients for one in client.acknowledged]) > 0
    finally:
        over.set()
        postgres.close()
