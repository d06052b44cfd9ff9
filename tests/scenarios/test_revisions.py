"""Revisions of scenarios: one for each save with something new, never changed, and taken up again byte for byte."""

from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import text

from service.http.diagnosis import read_custom
from service.scenarios.revision_store import _Wire
from service.scenarios.schemas import ScenarioRevision
from service.storage.database import Database
from tests.conftest import client_of

URL = "/v1/scenarios/run"
RATE = {
    "kind": "accelerator",
    "accelerator_id": "h100-sxm-80gb",
    "provider": "aws",
    "purchase": "on_demand",
    "gpu_count": 8,
    "source": "a test",
}
FROM_TABLE: dict[str, Any] = {
    "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 8},
    "price": {"kind": "table", "table": "ours", "as_of": "2027-01-01"},
    "exchange": {"from_currency": "USD", "to_currency": "EUR", "rate": "0.92", "as_of": "2026-12-31"},
}
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def save(api: httpx.AsyncClient, gpu_count: int, url: str = URL, **more: Any) -> httpx.Response:
    known = await api.get(url)
    headers = {"If-Match": known.headers["etag"]} if known.status_code == 200 else {}
    body = {"request": {"cluster": {"gpu_count": gpu_count}}, **more}
    answer = await api.put(url, json=body, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    return answer


def bodies(answer: httpx.Response) -> tuple[bytes, bytes]:
    """Request and estimate as they were sent."""
    whole = _raw.decode(answer.content)
    return bytes(whole["request"]), bytes(whole["estimate"])


async def test_each_save_is_a_revision_that_stays_as_it_was(stored_api: httpx.AsyncClient) -> None:
    saved = [await save(stored_api, count, note=f"{count} of them") for count in (8, 16, 24)]
    seen = [await stored_api.get(f"{URL}/revisions/{number}") for number in (1, 2, 3)]
    assert [bodies(one) for one in seen] == [bodies(one) for one in saved]
    assert [one.json()["note"] for one in seen] == ["8 of them", "16 of them", "24 of them"]
    assert seen[0].json()["author"] == "local"
    await stored_api.patch(URL, json={"description": "other"}, headers={"If-Match": "*"})
    assert (await stored_api.get(f"{URL}/revisions/1")).content == seen[0].content
    assert (await stored_api.get(URL)).json()["revision"] == 3


async def test_a_revision_has_the_documented_shape(stored_api: httpx.AsyncClient) -> None:
    await save(stored_api, 8)
    answer = await stored_api.get(f"{URL}/revisions/1")
    msgspec.json.decode(answer.content, type=ScenarioRevision, dec_hook=read_custom)
    assert list(answer.json()) == list(ScenarioRevision.__struct_fields__) == list(_Wire.__struct_fields__)


async def test_a_revision_that_the_caller_has_is_not_sent_again(stored_api: httpx.AsyncClient) -> None:
    await save(stored_api, 8)
    etag = (await stored_api.get(f"{URL}/revisions/1")).headers["etag"]
    again = await stored_api.get(f"{URL}/revisions/1", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


async def test_the_same_request_and_answer_make_nothing_new(stored_api: httpx.AsyncClient) -> None:
    first = await save(stored_api, 8)
    second = await save(stored_api, 8, note="once more")
    assert (second.status_code, second.content, second.headers["etag"]) == (200, first.content, first.headers["etag"])
    described = await save(stored_api, 8, description="described")
    assert (described.json()["version"], described.json()["revision"]) == (2, 1)


async def test_revisions_are_listed_from_the_newest_a_page_at_a_time(stored_api: httpx.AsyncClient) -> None:
    for count in range(1, 6):
        await save(stored_api, count)
    numbers: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await stored_api.get(f"{URL}/revisions", params={"limit": 2, **cursor})).json()
        numbers += [item["number"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert numbers == [5, 4, 3, 2, 1]
    await save(stored_api, 1, "/v1/scenarios/other")
    foreign = await stored_api.get("/v1/scenarios/other/revisions", params=cursor)
    assert foreign.status_code == 422


async def test_an_older_revision_comes_back_byte_for_byte(stored_api: httpx.AsyncClient) -> None:
    first = await save(stored_api, 8)
    await save(stored_api, 16)
    etag = (await stored_api.get(URL)).headers["etag"]
    without = await stored_api.post(f"{URL}/revisions/1/restore")
    assert without.status_code == 428
    restored = await stored_api.post(f"{URL}/revisions/1/restore", headers={"If-Match": etag})
    assert restored.status_code == 200, restored.text
    assert restored.json()["revision"] == 3
    assert bodies(restored) == bodies(first)
    third = (await stored_api.get(f"{URL}/revisions/3")).json()
    assert (third["restored_from"], third["note"]) == (1, "Revision 1 again")
    stale = await stored_api.post(f"{URL}/revisions/1/restore", headers={"If-Match": etag})
    assert stale.status_code == 412


async def test_why_a_revision_is_taken_up_again_is_kept(stored_api: httpx.AsyncClient) -> None:
    for count in (8, 16):
        await save(stored_api, count)
    why, any_version = {"note": "the offer is off"}, {"If-Match": "*"}
    restored = await stored_api.post(f"{URL}/revisions/1/restore", json=why, headers=any_version)
    assert restored.status_code == 200, restored.text
    assert (await stored_api.get(f"{URL}/revisions/3")).json()["note"] == "the offer is off"
    for body, pointer in (({"because": "?"}, "/because"), ({"note": 1}, "/note")):
        refused = await stored_api.post(f"{URL}/revisions/1/restore", json=body, headers=any_version)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)


async def test_restoring_the_newest_revision_does_nothing(stored_api: httpx.AsyncClient) -> None:
    saved = await save(stored_api, 8)
    restored = await stored_api.post(f"{URL}/revisions/1/restore", headers={"If-Match": "*"})
    assert restored.content == saved.content


async def test_a_revision_that_is_not_there_is_404(stored_api: httpx.AsyncClient) -> None:
    await save(stored_api, 8)
    for url in (f"{URL}/revisions/2", "/v1/scenarios/none/revisions/1", "/v1/scenarios/none/revisions"):
        assert (await stored_api.get(url)).status_code == 404
    restored = await stored_api.post(f"{URL}/revisions/2/restore", headers={"If-Match": "*"})
    assert restored.status_code == 404


async def prices(api: httpx.AsyncClient, amount: str) -> None:
    await api.put("/v1/price-tables/ours", json={"currency": "USD"}, headers={"If-None-Match": "*"})
    rates = [{**RATE, "price_per_gpu_hour": amount}]
    answer = await api.post("/v1/price-tables/ours/revisions", json={"rates": rates})
    assert answer.status_code == 201, answer.text


async def test_a_revision_keeps_the_prices_that_were_used(stored_api: httpx.AsyncClient) -> None:
    await prices(stored_api, "2.00")
    saved = await stored_api.put(URL, json={"request": FROM_TABLE})
    assert saved.status_code == 201, saved.text
    await prices(stored_api, "3.00")
    kept = (await stored_api.get(f"{URL}/revisions/1")).json()
    assert (kept["price_table"], kept["price_revision"], kept["price_as_of"]) == ("ours", 1, "2027-01-01")
    assert kept["exchange"] == {**FROM_TABLE["exchange"], "rate": "0.92"}
    assert kept["currency"] == "EUR"
    assert "revision" not in kept["request"]["price"]  # what was asked stays what was asked
    again = await stored_api.put(URL, json={"request": FROM_TABLE}, headers={"If-Match": "*"})
    assert again.json()["revision"] == 2
    assert (await stored_api.get(f"{URL}/revisions/2")).json()["price_revision"] == 2


async def test_a_price_table_that_is_used_cannot_vanish(stored_api: httpx.AsyncClient) -> None:
    await prices(stored_api, "2.00")
    await stored_api.put(URL, json={"request": FROM_TABLE})
    any_version = {"If-Match": "*"}
    refused = await stored_api.delete("/v1/price-tables/ours", headers=any_version)
    assert refused.status_code == 409
    assert "1 scenario" in refused.json()["detail"]
    await stored_api.put(URL, json={"request": {}}, headers=any_version)
    assert (await stored_api.delete("/v1/price-tables/ours", headers=any_version)).status_code == 204
    restored = await stored_api.post(f"{URL}/revisions/1/restore", headers=any_version)
    assert restored.status_code == 200  # the answer is kept, whatever became of the table


async def test_a_deleted_scenario_holds_no_price_table(stored_api: httpx.AsyncClient) -> None:
    await prices(stored_api, "2.00")
    await stored_api.put(URL, json={"request": FROM_TABLE})
    any_version = {"If-Match": "*"}
    await stored_api.delete(URL, headers=any_version)
    restored = await stored_api.post(f"{URL}/restore")
    assert restored.status_code == 200
    assert (await stored_api.delete("/v1/price-tables/ours", headers=any_version)).status_code == 409
    await stored_api.delete(URL, headers=any_version)
    assert (await stored_api.delete("/v1/price-tables/ours", headers=any_version)).status_code == 204


async def test_the_database_refuses_to_change_a_revision(database_url: str) -> None:
    async with client_of(database_url) as api:
        await save(api, 8)
    database = Database(database_url, pool_size=1)
    with pytest.raises(Exception, match="a revision never changes"):
        async with database.engine.begin() as connection:
            await connection.execute(text("UPDATE scenario_revisions SET total = total + 1"))
    await database.close()
