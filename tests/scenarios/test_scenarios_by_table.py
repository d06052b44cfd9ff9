"""Scenarios whose prices stand in a table: the revision and the day are kept, and new prices change nothing stored."""

from typing import Any

import httpx
import msgspec
import pytest

from tests.prices.rates import row
from tests.prices.stock import DAY, by_table, revise, stock

URL = "/v1/scenarios/run"


async def save(api: httpx.AsyncClient, body: dict[str, Any], **headers: str) -> httpx.Response:
    return await api.put(
        URL, json={"request": body}, headers={name.replace("_", "-"): it for name, it in headers.items()}
    )


def revision(answer: httpx.Response) -> dict[str, Any]:
    """Which revision of which table the stored answer was read from, and for which day."""
    found: dict[str, Any] = answer.json()["estimate"]["prices"]["price"]["revision"]
    return found


@pytest.fixture
async def stocked(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    """A table with a revision, and a scenario at its price."""
    await stock(stored_api, "ours", row("2.00"))
    assert (await save(stored_api, by_table(table="ours"))).status_code == 201
    return stored_api


async def test_revision_and_day_are_kept_with_the_answer(stocked: httpx.AsyncClient) -> None:
    found = await stocked.get(URL)
    assert found.json()["estimate"]["cost"]["total"] == "1600.00"
    assert revision(found)["table"] == "ours"
    assert (revision(found)["revision"], revision(found)["as_of"]) == (1, DAY)


async def test_a_new_revision_leaves_what_is_stored_byte_for_byte(stocked: httpx.AsyncClient) -> None:
    before = await stocked.get(URL)
    await revise(stocked, "ours", row("9.00"))
    after = await stocked.get(URL)
    assert after.content == before.content
    assert after.headers["etag"] == before.headers["etag"]


async def test_describing_it_anew_does_not_price_it_anew(stocked: httpx.AsyncClient) -> None:
    before = await stocked.get(URL)
    await revise(stocked, "ours", row("9.00"))
    patched = await stocked.patch(
        URL, json={"description": "second quarter"}, headers={"If-Match": before.headers["etag"]}
    )
    assert patched.status_code == 200, patched.text
    raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
    stored, now = (bytes(raw.decode(answer.content)["estimate"]) for answer in (before, patched))
    assert now == stored


async def test_saved_again_it_takes_the_newest_revision_or_the_one_it_names(stocked: httpx.AsyncClient) -> None:
    await revise(stocked, "ours", row("9.00"))
    again = await save(stocked, by_table(table="ours"), If_Match="*")
    assert (revision(again)["revision"], again.json()["estimate"]["cost"]["total"]) == (2, "7200.00")
    pinned = await save(stocked, by_table(table="ours", revision=1), If_Match="*")
    assert (revision(pinned)["revision"], pinned.json()["estimate"]["cost"]["total"]) == (1, "1600.00")


async def test_the_request_is_kept_as_it_was_sent(stocked: httpx.AsyncClient) -> None:
    price = (await stocked.get(URL)).json()["request"]["price"]
    assert {"kind": "table", "table": "ours", "as_of": DAY}.items() <= price.items()
    assert "revision" not in price


async def test_what_is_stored_is_what_an_estimate_would_have_said(stocked: httpx.AsyncClient) -> None:
    raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
    stored = bytes(raw.decode((await stocked.get(URL)).content)["estimate"])
    assert stored == (await stocked.post("/v1/estimates", json=by_table(table="ours"))).content


async def test_the_rate_of_exchange_is_kept_with_its_day(stocked: httpx.AsyncClient) -> None:
    exchange = {"from_currency": "USD", "to_currency": "EUR", "rate": "0.92", "as_of": "2026-11-02"}
    answer = await save(stocked, {**by_table(table="ours"), "exchange": exchange}, If_Match="*")
    assert answer.json()["estimate"]["prices"]["exchange"] == exchange
    assert answer.json()["estimate"]["cost"]["total"] == "1472.00"


@pytest.mark.parametrize(
    ("price", "pointer"),
    [
        ({"table": "nobody's"}, "/request/price/table"),
        ({"table": "ours", "revision": 2}, "/request/price/revision"),
        ({"table": "ours", "purchase": "spot"}, "/request/price/purchase"),
    ],
)
async def test_what_has_no_price_is_not_stored(stocked: httpx.AsyncClient, price: dict[str, Any], pointer: str) -> None:
    before = await stocked.get(URL)
    answer = await save(stocked, by_table(**price), If_Match="*")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert (await stocked.get(URL)).content == before.content


async def test_whatever_becomes_of_the_table_the_scenario_stays(stocked: httpx.AsyncClient) -> None:
    before = await stocked.get(URL)
    await stocked.delete("/v1/price-tables/ours", headers={"If-Match": "*"})
    assert (await stocked.get(URL)).content == before.content
