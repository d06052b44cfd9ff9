"""A revision whose stored rates cannot be read: its own table says so, and every other goes on."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from service.http.preconditions import Preconditions
from service.prices.contents import content_of, store_content
from service.prices.snapshots import Snapshots
from service.prices.table_schemas import RevisionWrite
from service.storage.audit import Actor
from service.storage.database import Database
from tests.conftest import client_of
from tests.prices.rates import gpu, row
from tests.prices.stock import answered, by_table, refusal, revise, stock

CHOICE = "/v1/price-tables/{}/choice?gpu=h100-sxm-80gb&as_of=2026-11-30"
EXPORT = "/v1/price-tables/broken/revisions/{}/export"
TOO_LARGE = "1000000000000"  # a digit more than any release reads


async def spoil(url: str) -> None:
    """A revision of the table `broken` that holds an amount which nobody can read, past every check."""
    database = Database(url, pool_size=1)
    async with asynccontextmanager(database.writing)() as connection:
        content = content_of([gpu(TOO_LARGE)])
        actor, conditions = Actor(1, None, "a test", None), Preconditions(None, None)
        await store_content(connection, actor, "broken", RevisionWrite(rates=()), content, conditions)
    await database.close()


def snapshots_of(api: httpx.AsyncClient) -> Snapshots:
    app: Any = api._transport.app  # type: ignore[attr-defined]  # httpx names it so
    found: Snapshots = app.state.prices.snapshots
    return found


@pytest.fixture
async def api(stored_api: httpx.AsyncClient, database_url: str) -> httpx.AsyncClient:
    """Two tables; the newest of two revisions of `broken` cannot be read."""
    await stock(stored_api, "sound", row("2.00"))
    await stock(stored_api, "broken", row("3.00"))
    await spoil(database_url)
    return stored_api


@pytest.fixture
async def started(api: httpx.AsyncClient, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service after a restart: nothing is held of the revision before."""
    async with client_of(database_url) as client:
        yield client


async def test_what_is_held_of_it_stays_and_other_tables_are_written_and_read(api: httpx.AsyncClient) -> None:
    assert (await api.get(CHOICE.format("broken"))).json()["revision"] == 1
    await revise(api, "sound", row("2.50"))
    assert (await api.get(CHOICE.format("sound"))).json()["rate"]["price_per_gpu_hour"] == "2.5"
    assert (await answered(api, by_table(table="sound")))["cost"]["compute"] == "2000.00"


async def test_after_a_restart_only_its_own_table_is_refused_and_says_why(started: httpx.AsyncClient) -> None:
    told = "Revision 2 of price table 'broken' cannot be read"
    choice = await started.get(CHOICE.format("broken"))
    assert (choice.status_code, choice.json()["detail"].startswith(told)) == (422, True)
    pointer, detail = await refusal(started, by_table(table="broken"))
    assert pointer == "/price/table"
    assert detail.startswith(told)
    assert (await refusal(started, by_table(table="broken", revision=2)))[1].startswith(told)
    assert (await answered(started, by_table(table="sound")))["cost"]["compute"] == "1600.00"
    assert (await started.get(CHOICE.format("sound"))).status_code == 200


async def test_its_older_revisions_are_read_and_exported(started: httpx.AsyncClient) -> None:
    assert (await answered(started, by_table(table="broken", revision=1)))["cost"]["compute"] == "2400.00"
    assert b"h100-sxm-80gb" in (await started.get(EXPORT.format(1))).content


async def test_another_revision_mends_it(started: httpx.AsyncClient) -> None:
    await revise(started, "broken", row("4.00"))
    assert (await answered(started, by_table(table="broken")))["cost"]["compute"] == "3200.00"


async def test_it_is_logged_once(started: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "service.prices.snapshots"):
        for price in ("5.00", "6.00"):
            await revise(started, "sound", row(price))
            await started.get(CHOICE.format("broken"))
    (record,) = caplog.records
    assert "number 2 of 'broken' in project 1, cannot be read" in record.getMessage()


async def test_a_name_that_is_used_again_is_not_answered_by_what_was_deleted(
    api: httpx.AsyncClient, database_url: str
) -> None:
    await api.get(CHOICE.format("broken"))
    deleted = await api.delete("/v1/price-tables/broken", headers={"If-Match": "*"})
    assert deleted.status_code == 204, deleted.text
    await api.put("/v1/price-tables/broken", json={"currency": "USD"})
    await spoil(database_url)
    assert "Revision 1 of price table 'broken' cannot be read" in (await refusal(api, by_table(table="broken")))[1]


async def test_what_is_written_is_answered_though_it_cannot_be_read_back_just_now(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise OSError("away")

    monkeypatch.setattr(snapshots_of(api), "refresh", fail)
    made = await api.post("/v1/price-tables/sound/revisions", json={"rates": [row("7.00")]})
    assert (made.status_code, made.json()["number"]) == (201, 2)
    file = b"kind,accelerator_id,provider,purchase,price_per_gpu_hour,source\r\naccelerator,l4-24gb,a,spot,1,x\r\n"
    sent = await api.post("/v1/price-tables/sound/imports", content=file, headers={"content-type": "text/csv"})
    assert (sent.status_code, sent.json()["revision"]["number"]) == (201, 3)


@pytest.mark.parametrize("amount", [TOO_LARGE, 1_000_000_000_000, "999999999999.9999996"])
async def test_a_revision_as_json_takes_no_such_amount(api: httpx.AsyncClient, amount: object) -> None:
    for field in ("price_per_gpu_hour", "upfront"):
        answer = await api.post("/v1/price-tables/sound/revisions", json={"rates": [row(**{field: amount})]})  # type: ignore[arg-type]
        assert answer.status_code in {400, 422}
        assert answer.json()["errors"][0]["pointer"] == f"/rates/0/{field}"
