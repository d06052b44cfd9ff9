"""What a user typed is a text wherever it comes: in SQL, in a header, in a line of the log, in a cell of a CSV."""

import csv
import io
import logging
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.access.requests import RATE
from tests.access.test_auth import rows

HOSTILE = [
    "'; DROP TABLE projects; --",
    '" OR 1=1',
    "%' OR '1'='1",
    "_",
    "%",
    "{0}",
    "%s%n",
    "=cmd|' '!A1",
    "+1",
    "@SUM(A1)",
    "<img src=x onerror=alert(1)>",
    "a b?c#d&e=f",
    "\u00fcmlaut \u4e2d\u6587 \U0001f680",
]
BREAKING = ["a\r\nX-Injected: 1", "a\nb", "a\x00b", "a\x1b[31m", "a\u2028b", "a\u202eb"]


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_name_comes_back_as_it_was_typed(keyed_api: httpx.AsyncClient, database_url: str, text: str) -> None:
    stored: dict[str, Any] = {"/v1/scenarios": {"request": {}}, "/v1/price-tables": {"currency": "USD"}}
    for path, body in stored.items():
        made = await keyed_api.put(f"{path}/{quote(text, safe='')}", json=body)
        assert made.status_code == 201, made.text
        assert made.headers["location"] == f"{path}/{quote(text, safe='')}"
        assert (await keyed_api.get(made.headers["location"])).json()["name"] == text
        found = await keyed_api.get(path, params={"q": text})
        assert [item["name"] for item in found.json()["items"]] == [text]
    project = await keyed_api.post("/v1/projects", json={"name": text})
    assert project.headers["location"].isascii()
    assert (await keyed_api.get(project.headers["location"])).json()["name"] == text
    logged = await keyed_api.get("/v1/audit-log", params={"name": text})
    assert {item["kind"] for item in logged.json()["items"]} == {"scenario", "price-table", "project"}
    assert len(await rows(database_url, "SELECT id FROM projects")) == 2


@pytest.mark.parametrize("text", BREAKING)
async def test_what_breaks_a_line_is_no_name(keyed_api: httpx.AsyncClient, text: str) -> None:
    stored: dict[str, Any] = {"/v1/scenarios": {"request": {}}, "/v1/price-tables": {"currency": "USD"}}
    for path, body in stored.items():
        assert (await keyed_api.put(f"{path}/{quote(text, safe='')}", json=body)).status_code in (400, 422)
    made: dict[str, Any] = {"/v1/projects": {}, "/v1/api-keys": {"scopes": ["admin"]}}
    for path, body in made.items():
        assert (await keyed_api.post(path, json={"name": text, **body})).status_code == 422
    assert (await keyed_api.get("/v1/audit-log", params={"name": text})).status_code == 400


async def test_a_cell_of_an_export_is_no_formula(keyed_api: httpx.AsyncClient) -> None:
    await keyed_api.put("/v1/price-tables/ours", json={"currency": "USD"})
    body = {"rates": [{**RATE, "provider": text, "source": text} for text in HOSTILE if text.strip()]}
    assert (await keyed_api.post("/v1/price-tables/ours/revisions", json=body)).status_code == 201
    exported = await keyed_api.get("/v1/price-tables/ours/revisions/1/export")
    cells = [cell for row in csv.reader(io.StringIO(exported.text)) for cell in row]
    assert "'=cmd|' '!A1" in cells
    assert not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@", "\t")]


async def test_a_path_makes_no_line_of_the_log(
    keyed_api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object) -> object:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("service.access.store.get_project", fails)
    key = keyed_api.headers["authorization"].partition(" ")[2]
    with caplog.at_level(logging.DEBUG):
        answer = await keyed_api.get("/v1/projects/a%C2%85b")
        other = await keyed_api.get("/v1/projects/\u4e2d")
    assert (answer.status_code, other.status_code) == (400, 500)
    assert "\\u4e2d" in caplog.text
    assert "\u4e2d" not in caplog.text
    for secret in (key, key.rpartition("_")[2]):
        assert secret not in caplog.text
