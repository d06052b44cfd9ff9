"""kill -9 while 32 clients write revisions of the same ten scenarios: none that was acknowledged is lost, none is half
there, and their numbers have no gaps."""

import random
import time

import pytest

from tests.faults.ledger import SCENARIOS, Client, Ledger, check
from tests.support.server import Server

CLIENTS = 32
WRITES = 200
_MOST_SECONDS = 300


def survive(database_url: str, kills: int) -> Ledger:
    """All writes, with so many kills spread over them; the database is looked at after each, before a server is."""
    whole = CLIENTS * WRITES
    chance = random.Random(kills)
    at = sorted(chance.sample(range(whole // 20, whole * 9 // 10), kills))
    ledger = Ledger()
    server = Server(database_url)
    clients = [Client(ledger, server.port, number, WRITES) for number in range(CLIENTS)]
    try:
        for client in clients:
            client.start()
        for threshold in at:
            deadline = time.monotonic() + _MOST_SECONDS
            while ledger.written < threshold and any(client.is_alive() for client in clients):
                time.sleep(0.002)
                assert time.monotonic() < deadline
            ledger.up.clear()
            server.kill()
            with ledger.lock:
                acknowledged = list(ledger.acknowledged)
            assert check(database_url, acknowledged) >= len({(one.scenario, one.number) for one in acknowledged})
            server.start()
            ledger.up.set()
        for client in clients:
            client.join(_MOST_SECONDS)
            assert not client.is_alive()
        server.stop()
    finally:
        server.close()
    assert ledger.strange == []
    # Each acknowledged write is a revision of its own.
    numbers = [(one.scenario, one.number) for one in ledger.acknowledged]
    assert len(set(numbers)) == len(numbers)
    assert check(database_url, ledger.acknowledged) >= len(numbers)
    assert len({one.scenario for one in ledger.acknowledged}) == SCENARIOS
    return ledger


def test_three_kills_lose_no_acknowledged_revision(database_url: str) -> None:
    ledger = survive(database_url, 3)
    assert ledger.refused > 0  # they did meet
    assert len(ledger.acknowledged) > CLIENTS * WRITES // 10


@pytest.mark.soak
def test_twenty_kills_lose_no_acknowledged_revision(database_url: str) -> None:
    assert len(survive(database_url, 20).acknowledged) > CLIENTS * WRITES // 10
