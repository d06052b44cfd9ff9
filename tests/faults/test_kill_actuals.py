"""kill -9 in the middle of an import of what was paid: nothing of it is there, or all, with its line in the log."""

import datetime
import threading
import time
from itertools import pairwise

import httpx

from service.scenarios.actual_schemas import MAX_ACTUALS
from tests.support.bills import a_run
from tests.support.server import Server

FIRST = datetime.date(2020, 1, 1)
DAYS = [FIRST + datetime.timedelta(days=count) for count in range(MAX_ACTUALS + 1)]
FILE = "period_start,period_end,amount,gpu_hours\n" + "".join(
    f"{begin},{end},1.25,24\n" for begin, end in pairwise(DAYS)
)


def test_an_import_of_actuals_that_is_killed_leaves_all_of_it_or_nothing(database_url: str) -> None:
    with Server(database_url) as server, httpx.Client(base_url=server.base, timeout=60, trust_env=False) as client:
        for name in ("whole", "early", "late"):
            assert client.put(f"/v1/scenarios/{name}", json={"request": a_run()}).status_code == 201
        began = time.monotonic()
        assert _send(server.base, "whole") == MAX_ACTUALS
        importing = time.monotonic() - began
        for name, part in (("early", 0.4), ("late", 0.8)):
            sending = threading.Thread(target=_send, args=(server.base, name), daemon=True)
            sending.start()
            time.sleep(importing * part)
            server.kill()
            sending.join(30)
            server.start()
            # The same file again makes what is missing: all of it, or nothing where it was through before the kill.
            assert _send(server.base, name) in (0, MAX_ACTUALS)
            assert _imports(client, name) == ["imported"]


def _imports(client: httpx.Client, name: str) -> list[str]:
    log = client.get("/v1/audit-log", params={"kind": "actual"}).json()["items"]
    return [line["action"] for line in log if line["name"] == name]


def _send(base: str, name: str) -> int | None:
    """How many records were made; None where no answer came."""
    url, headers = f"{base}/v1/scenarios/{name}/actuals/import", {"content-type": "text/csv"}
    try:
        answer = httpx.post(url, content=FILE, headers=headers, timeout=60, trust_env=False)
    except httpx.TransportError:
        return None
    assert answer.status_code == 200, answer.text
    created: int = answer.json()["created"]
    return created
