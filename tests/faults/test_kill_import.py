"""kill -9 in the middle of an import: the table is as it was, and the import can be sent again."""

import threading
import time

import httpx
import pytest

from tests.prices.rates import many
from tests.support.server import Server

URL = "/v1/price-tables/ours"
ROWS = 30_000


def file_of(count: int, price: str) -> bytes:
    lines = ["kind,accelerator_id,provider,region,purchase,price_per_gpu_hour,gpu_count,source"]
    lines += [f"accelerator,h100-sxm-80gb,aws,{rate['region']},on_demand,{price},8,a file" for rate in many(count)]
    return "\r\n".join(lines).encode()


def test_an_import_that_is_killed_leaves_nothing_half_way(database_url: str) -> None:
    with Server(database_url) as server, httpx.Client(base_url=server.base, timeout=60, trust_env=False) as client:
        client.put(URL, json={"currency": "USD"})
        first = client.post(f"{URL}/imports", content=file_of(10, "1.00"), headers={"content-type": "text/csv"})
        assert first.status_code == 201, first.text
        began = time.monotonic()
        whole = client.post(
            f"{URL}/imports?dry_run=true", content=file_of(ROWS, "2.00"), headers={"content-type": "text/csv"}
        )
        reading = time.monotonic() - began
        assert whole.status_code == 200, whole.text
        for part in (0.5, 1.1, 1.4, 1.7):
            importing = threading.Thread(target=_send, args=(server.base,), daemon=True)
            importing.start()
            time.sleep(reading * part)
            server.kill()
            importing.join(30)
            server.start()
            table = client.get(URL).json()
            rates = client.get(f"{URL}/rates", params={"limit": 200}).json()
            if table["latest"]["number"] == 1:
                assert len(rates["items"]) == 10
            else:  # it was through before the kill
                assert table["latest"]["rate_count"] == ROWS
                break
        done = client.post(f"{URL}/imports", content=file_of(ROWS, "2.00"), headers={"content-type": "text/csv"})
        assert done.status_code in (200, 201), done.text
        assert client.get(URL).json()["latest"]["rate_count"] == ROWS


def _send(base: str) -> None:
    with pytest.MonkeyPatch.context(), httpx.Client(base_url=base, timeout=60, trust_env=False) as client:
        try:
            client.post(f"{URL}/imports", content=file_of(ROWS, "2.00"), headers={"content-type": "text/csv"})
        except httpx.TransportError:
            return
