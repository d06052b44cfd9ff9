"""A file that brings no rate never takes the place of a good revision; an empty list of rates may."""

import json

import httpx
import pytest

from tests.prices.rates import row

URL = "/v1/price-tables/ours"
CSV = {"content-type": "text/csv"}
JSON = {"content-type": "application/json"}
FLAT = b"accelerator,provider,price_per_gpu_hour\n"
OWN = b"kind,accelerator_id,provider,purchase,price_per_gpu_hour,source\r\n"
OFFER = {"provider": "a", "gpu": "l4", "usd_hr": 1, "kind": "spot", "source_url": "x"}


@pytest.fixture
async def table(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The service with one table, which has a rate."""
    await stored_api.put(URL, json={"currency": "USD"})
    made = await stored_api.post(f"{URL}/revisions", json={"rates": [row()]})
    assert made.status_code == 201
    return stored_api


async def latest(api: httpx.AsyncClient, url: str = URL) -> tuple[int, int]:
    found = (await api.get(url)).json()["latest"]
    return found["number"], found["rate_count"]


@pytest.mark.parametrize(
    ("file", "query", "pointer", "says"),
    [
        (FLAT, "", "", "no rows"),
        (OWN, "", "", "no rows"),
        (b'{"offers": []}', "", "", "no rows"),
        (FLAT + b"L4,a,cheap\nL4,b,call us\n", "?on_error=skip", "/2", "'cheap' is not a number"),
        (FLAT + b",a,1\n,b,1\n", "", "/2", "The row has no accelerator"),
        (json.dumps({"offers": [{**OFFER, "gpu": None}]}).encode(), "", "/1", "The row has no accelerator"),
        (b"[]", "", "", "empty"),
    ],
)
async def test_a_file_without_a_rate_is_refused_with_what_became_of_its_rows(
    table: httpx.AsyncClient, file: bytes, query: str, pointer: str, says: str
) -> None:
    headers = JSON if file[:1] in b"[{" else CSV
    answer = await table.post(f"{URL}/imports{query}", content=file, headers=headers)
    assert answer.status_code == 422, answer.text
    fault = answer.json()["errors"][0]
    assert (fault["in"], fault["pointer"]) == ("body", pointer)
    assert says in fault["message"]
    assert await latest(table) == (1, 1)


async def test_a_dry_run_tells_that_the_file_would_be_refused(table: httpx.AsyncClient) -> None:
    answer = await table.post(f"{URL}/imports?dry_run=true", content=FLAT + b",a,1\n", headers=CSV)
    report = answer.json()["report"]
    assert (answer.status_code, report["refused"], report["rows"]["skipped"]) == (200, True, 1)
    assert "no_rate" in {note["code"] for note in report["notes"]}


async def test_a_revision_of_no_rates_may_be_written_and_its_export_is_nothing_new(table: httpx.AsyncClient) -> None:
    assert (await table.post(f"{URL}/revisions", json={"rates": []})).status_code == 201
    export = (await table.get(f"{URL}/revisions/2/export")).content
    again = await table.post(f"{URL}/imports", content=export, headers=CSV)
    assert (again.status_code, again.json()["created"]) == (200, False)
    assert await latest(table) == (2, 0)
    await table.put("/v1/price-tables/fresh", json={"currency": "USD"})
    fresh = await table.post("/v1/price-tables/fresh/imports", content=export, headers=CSV)
    assert fresh.status_code == 422
    assert (await table.get("/v1/price-tables/fresh")).json()["latest"] is None


async def test_the_counts_of_the_report_are_those_of_the_revision(table: httpx.AsyncClient) -> None:
    line = b"accelerator,l4-24gb,a,spot,1,x\r\n"
    other = b"accelerator,l4-24gb,a,spot,2,x\r\n"
    answer = await table.post(f"{URL}/imports", content=OWN + line + other + line, headers=CSV)
    told = answer.json()
    assert told["report"]["rates"]["total"] == told["revision"]["rate_count"] == 2
    assert told["report"]["rows"] == {
        "total": 3,
        "accepted": 2,
        "skipped": 1,
        "rejected": 0,
        "ambiguous": 0,
        "unknown": 0,
        "suspicious": 1,
    }


async def test_what_is_not_to_be_in_the_query_is_said_of_the_query(table: httpx.AsyncClient) -> None:
    mapping = json.dumps({"columns": {"gpu": "x"}})
    for query, pointer in (({"mapping": mapping}, "mapping"), ({"mapping": "{}", "format": "own_csv"}, "mapping")):
        answer = await table.post(f"{URL}/imports", params=query, content=FLAT, headers=CSV)
        fault = answer.json()["errors"][0]
        assert (answer.status_code, fault["in"], fault["pointer"]) == (422, "query", pointer)
    nobody = await table.post(f"{URL}/imports", content=b"accelerator,price_per_gpu_hour\nL4,1\n", headers=CSV)
    assert (nobody.json()["errors"][0]["in"], nobody.json()["errors"][0]["pointer"]) == ("query", "provider")


@pytest.mark.parametrize("given", ["h100-sxm", "b200"])
async def test_an_id_that_is_only_a_spelling_is_refused_in_a_revision_too(table: httpx.AsyncClient, given: str) -> None:
    answer = await table.post(f"{URL}/revisions", json={"rates": [row(), row(accelerator_id=given)]})
    fault = answer.json()["errors"][0]
    assert (answer.status_code, fault["pointer"]) == (422, "/rates/1/accelerator_id")
    assert "in the catalogue" in fault["message"]
    for kept in ("h100", "no-such-part"):  # what the catalogue cannot tell or does not know may stay
        made = await table.post(f"{URL}/revisions", json={"rates": [row(accelerator_id=kept)]})
        assert made.status_code == 201
