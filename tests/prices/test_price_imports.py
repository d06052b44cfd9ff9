"""Files to revisions over HTTP: all of it or none, a report on every row, and back again by export."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from service.errors import Unavailable
from service.http.preconditions import Preconditions
from service.prices.file_imports import FileImport
from service.prices.importers.schemas import MAX_BYTES, ImportOptions
from service.prices.operations import APART_BYTES, import_file
from service.prices.table_schemas import RevisionWrite
from service.storage.audit import Actor
from tests.prices.rates import many, row

URL = "/v1/price-tables/ours"
CSV = {"content-type": "text/csv"}
FILE = (
    b"kind,accelerator_id,provider,region,purchase,price_per_gpu_hour,gpu_count,source\r\n"
    b"accelerator,h100-sxm-80gb,aws,us-east-1,on_demand,6.88,8,a file\r\n"
    b"accelerator,h200-sxm-141gb,aws,us-east-1,on_demand,7.91,8,a file\r\n"
)
BAD_ROW = b"accelerator,h100-sxm-80gb,aws,us-east-1,on_demand,cheap,8,a file\r\n"


@pytest.fixture
async def table(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The service with one empty table."""
    await stored_api.put(URL, json={"currency": "USD"})
    return stored_api


async def send(api: httpx.AsyncClient, file: bytes, query: str = "", **headers: str) -> httpx.Response:
    return await api.post(f"{URL}/imports{query}", content=file, headers={**CSV, **headers})


async def test_a_file_becomes_the_next_revision(table: httpx.AsyncClient) -> None:
    answer = await send(table, FILE, "?author=finance&source=price+page&licence=none&as_of=2026-11-01&note=first")
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert (told["created"], told["dry_run"], told["report"]["rows"]["accepted"]) == (True, False, 2)
    assert told["revision"]["rate_count"] == 2
    assert (told["revision"]["author"], told["revision"]["as_of"]) == ("finance", "2026-11-01")
    assert answer.headers["location"] == f"{URL}/revisions/1"
    again = await send(table, FILE, "?as_of=2026-11-01&source=price+page")
    assert (again.status_code, again.json()["created"]) == (200, False)


async def test_a_dry_run_stores_nothing(table: httpx.AsyncClient) -> None:
    answer = await send(table, FILE + BAD_ROW, "?dry_run=true")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["created"], told["revision"], told["report"]["rows"]["rejected"]) == (False, None, 1)
    assert (await table.get(URL)).json()["latest"] is None


async def test_one_bad_row_refuses_all_of_the_file_unless_told_to_skip(table: httpx.AsyncClient) -> None:
    refused = await send(table, FILE + BAD_ROW)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/4"
    assert (await table.get(URL)).json()["latest"] is None
    skipped = await send(table, FILE + BAD_ROW, "?on_error=skip")
    assert skipped.status_code == 201
    assert skipped.json()["revision"]["rate_count"] == 2


async def test_what_is_exported_is_imported_as_the_same_revision(table: httpx.AsyncClient) -> None:
    rates = [
        *many(600),
        row("1.5", region="=cmd()", purchase_word="secure", instance="x,y", note='say "so"'),
        row(None, unknown_reason="contact sales", provider="silent"),
        {"kind": "egress", "route": "internet", "provider": "aws", "price_per_gb": "0.09", "source": "a, b"},
        {
            "kind": "storage",
            "storage_class": "object_storage",
            "provider": "aws",
            "price_per_gb_month": 0,
            "source": "c",
        },
    ]
    made = await table.post(f"{URL}/revisions", json={"rates": rates})
    assert made.status_code == 201, made.text
    export = await table.get(f"{URL}/revisions/1/export")
    assert export.headers["content-type"] == "text/csv; charset=utf-8"
    assert len(export.content.splitlines()) == len(rates) + 1
    etag = {"If-None-Match": export.headers["etag"]}
    assert (await table.get(f"{URL}/revisions/1/export", headers=etag)).status_code == 304
    await table.put("/v1/price-tables/copy", json={"currency": "USD"})
    copied = await table.post("/v1/price-tables/copy/imports", content=export.content, headers=CSV)
    assert copied.status_code == 201, copied.text
    assert copied.json()["revision"]["content_hash"] == made.json()["content_hash"]


async def test_an_empty_revision_exports_its_header(table: httpx.AsyncClient) -> None:
    await table.post(f"{URL}/revisions", json={"rates": []})
    assert (await table.get(f"{URL}/revisions/1/export")).content.startswith(b"kind,")


async def test_a_flat_file_is_read_by_a_mapping(table: httpx.AsyncClient) -> None:
    mapping: dict[str, Any] = {
        "columns": {"accelerator": "gpu", "price_per_gpu_hour": "usd", "gpu_count": "n"},
        "constants": {"provider": "acme", "purchase": "on_demand", "source": "their list"},
    }
    file = b"gpu,usd,n\r\nH100 SXM,2.50,8\r\n"
    answer = await table.post(
        f"{URL}/imports",
        params={"format": "flat", "as_of": "2026-11-01", "mapping": json.dumps(mapping)},
        content=file,
        headers=CSV,
    )
    assert answer.status_code == 201, answer.text
    (item,) = (await table.get(f"{URL}/rates")).json()["items"]
    assert (item["accelerator_id"], item["provider"], item["price_per_gpu_hour"]) == ("h100-sxm-80gb", "acme", "2.5")
    assert item["seen_on"] == "2026-11-01"
    bad = await table.post(f"{URL}/imports?mapping=%7B%7D%7D", content=file, headers=CSV)
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "mapping")


async def test_only_files_of_the_documented_kinds_and_size_are_taken(table: httpx.AsyncClient) -> None:
    for headers in ({"content-type": "text/plain"}, {**CSV, "content-encoding": "gzip"}, {}):
        answer = await table.post(f"{URL}/imports", content=FILE, headers=headers)
        assert answer.status_code == 415, headers
    assert (await send(table, b"x" * (MAX_BYTES + 1))).status_code == 413
    assert (
        await table.post(f"{URL}/revisions", content=b"[" * 1_000_001, headers={"content-type": "application/json"})
    ).status_code == 413
    assert (await send(table, FILE, "?colour=red")).status_code == 400
    missing = await table.post("/v1/price-tables/none/imports", content=FILE, headers=CSV)
    assert missing.status_code == 404


async def test_an_import_acts_once_with_a_key(table: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "file-1"}
    first = await send(table, FILE, **key)
    assert first.status_code == 201
    again = await send(table, FILE, **key)
    assert (again.status_code, again.content) == (201, first.content)
    assert (await send(table, FILE + BAD_ROW, **key)).status_code == 422


async def test_an_import_may_ask_for_the_version_it_is_based_on(table: httpx.AsyncClient) -> None:
    stale = await send(table, FILE, **{"If-Match": '"0-0"'})
    assert stale.status_code == 412
    assert (await table.get(URL)).json()["latest"] is None


async def test_a_currency_that_is_not_the_tables_is_refused(table: httpx.AsyncClient) -> None:
    await table.put("/v1/price-tables/euro", json={"currency": "EUR"})
    answer = await table.post("/v1/price-tables/euro/imports", content=FILE, headers=CSV)
    assert answer.status_code == 201  # our own file names no currency: it is the table's
    assert answer.json()["revision"]["currency"] == "EUR"


@pytest.fixture
def large() -> bytes:
    """A file that is read in a process of its own, each row an offer of its own."""
    head, first, _ = FILE.splitlines(keepends=True)
    return head + b"".join(first.replace(b"us-east-1", b"region-%d" % n) for n in range(APART_BYTES // len(first) + 1))


async def until_done(api: httpx.AsyncClient, file: bytes, key: str) -> httpx.Response:
    """The answer to a key, asked for again where the first request with it takes longer than anybody waits."""
    for _ in range(20):
        answer = await send(api, file, **{"Idempotency-Key": key})
        if answer.status_code != 409:
            break
    return answer


async def test_a_large_file_is_read_elsewhere_and_answers_as_a_small_one(
    table: httpx.AsyncClient, large: bytes
) -> None:
    rows = large.count(b"\n") - 1
    tried = await send(table, large + BAD_ROW, "?dry_run=true")
    assert (tried.status_code, tried.json()["report"]["rows"]["rejected"]) == (200, 1)
    refused = await send(table, large + BAD_ROW)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, f"/{rows + 2}")
    stale = await send(table, large, **{"If-Match": '"0-0"'})
    assert stale.status_code == 412
    assert (await table.get(URL)).json()["latest"] is None
    first, second = await asyncio.gather(*(until_done(table, large, "large") for _ in range(2)))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert first.json()["revision"]["rate_count"] == rows
    choice = await table.get(f"{URL}/choice?gpu=h100-sxm-80gb&region=region-7")
    assert choice.json()["revision_id"] == first.json()["revision"]["id"]  # it has been read before it was answered
    assert (await send(table, large)).json()["created"] is False


async def test_a_database_that_is_not_there_is_no_fault_of_a_large_file(
    table: httpx.AsyncClient, large: bytes, tmp_path: Path
) -> None:
    app: Any = table._transport.app  # type: ignore[attr-defined]  # httpx names it so
    prices = replace(app.state.prices, database_url=f"sqlite+aiosqlite:///{tmp_path}/none/none.db")
    asked = FileImport(
        Actor(1, None, "a test", None),
        "ours",
        ImportOptions(),
        RevisionWrite(rates=()),
        Preconditions(None, None),
        None,
    )
    with pytest.raises(Unavailable):
        await import_file(prices, asked, large)
