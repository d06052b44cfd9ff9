"""Finding scenarios: by status, owner, cost centre, label, currency and words, sorted by money and by start."""

from typing import Any

import httpx
import pytest

ROWS: dict[str, dict[str, Any]] = {
    "alpha": {"owner": "ann", "labels": {"team": "llm", "q": "2"}, "planned_start": "2027-03-01T00:00:00Z"},
    "beta": {"owner": "bob", "labels": {"team": "llm"}, "cost_centre": "47", "description": "50%_off in Spring"},
    "gamma": {"owner": "ann", "labels": {"team": "a:b"}, "planned_start": "2027-01-01T00:00:00Z"},
    "delta": {"cost_centre": "47", "description": "500 off"},
}
COUNTS = {"alpha": 8, "beta": 4, "gamma": 16, "delta": 2}


@pytest.fixture
async def filled(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    for name, more in ROWS.items():
        currency = "EUR" if name == "gamma" else "USD"
        price = {"kind": "hourly", "amount": "2.00", "currency": currency}
        body = {"request": {"cluster": {"gpu_count": COUNTS[name]}, "price": price}, **more}
        assert (await stored_api.put(f"/v1/scenarios/{name}", json=body)).status_code == 201
    await stored_api.post("/v1/scenarios/beta/approve", headers={"If-Match": "*"})
    return stored_api


async def found(api: httpx.AsyncClient, **query: Any) -> list[str]:
    """Every name, a page of one at a time."""
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await api.get("/v1/scenarios", params={"limit": 1, **query, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        names += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            return names
        cursor = {"cursor": page["next_cursor"]}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"status": "approved"}, ["beta"]),
        ({"status": "draft"}, ["alpha", "delta", "gamma"]),
        ({"owner": "ann"}, ["alpha", "gamma"]),
        ({"cost_centre": "47"}, ["beta", "delta"]),
        ({"label": "team:llm"}, ["alpha", "beta"]),
        ({"label": "team:a:b"}, ["gamma"]),
        ({"label": "team:"}, []),
        ({"label": "q:2", "owner": "ann"}, ["alpha"]),
        ({"label": "team:llm", "owner": "bob"}, ["beta"]),
        ({"label": "team:llm", "sort": "-name"}, ["beta", "alpha"]),
        ({"label": "team:llm", "sort": "total"}, ["beta", "alpha"]),
        ({"label": "team:llm", "status": "draft", "q": "a"}, ["alpha"]),
        ({"currency": "EUR"}, ["gamma"]),
        ({"q": "50%_o"}, ["beta"]),
        ({"q": "SPRING"}, ["beta"]),
        ({"q": "lph"}, ["alpha"]),
        ({"sort": "total"}, ["delta", "beta", "alpha", "gamma"]),
        ({"sort": "-total"}, ["gamma", "alpha", "beta", "delta"]),
        ({"sort": "planned_start"}, ["gamma", "alpha", "beta", "delta"]),
        ({"sort": "-planned_start"}, ["delta", "beta", "alpha", "gamma"]),
    ],
    ids=str,
)
async def test_each_filter_finds_what_it_should(
    filled: httpx.AsyncClient, query: dict[str, str], names: list[str]
) -> None:
    assert await found(filled, **query) == names


async def test_a_label_that_was_taken_off_finds_nothing(filled: httpx.AsyncClient) -> None:
    await filled.patch("/v1/scenarios/alpha", json={"labels": {"team": None}}, headers={"If-Match": "*"})
    await filled.delete("/v1/scenarios/beta", headers={"If-Match": "*"})
    assert await found(filled, label="team:llm") == []
    assert await found(filled, label="q:2") == ["alpha"]


async def test_a_description_that_was_changed_is_found_by_its_new_words(filled: httpx.AsyncClient) -> None:
    await filled.patch("/v1/scenarios/alpha", json={"description": "Winter"}, headers={"If-Match": "*"})
    assert await found(filled, q="winter") == ["alpha"]


@pytest.mark.parametrize(
    "query",
    [{"label": "team"}, {"label": ":x"}, {"label": "Team:x"}, {"status": "gone"}, {"currency": "XXX"}, {"owner": ""}],
    ids=str,
)
async def test_a_filter_that_cannot_be_is_refused(filled: httpx.AsyncClient, query: dict[str, str]) -> None:
    assert (await filled.get("/v1/scenarios", params=query)).status_code in (400, 422)


async def test_a_cursor_belongs_to_its_filters(filled: httpx.AsyncClient) -> None:
    cursor = (await filled.get("/v1/scenarios", params={"limit": 1, "owner": "ann"})).json()["next_cursor"]
    other = await filled.get("/v1/scenarios", params={"limit": 1, "owner": "bob", "cursor": cursor})
    assert other.status_code == 422


async def test_a_label_is_found_with_whoever_owns_the_scenario_now(filled: httpx.AsyncClient) -> None:
    changed = await filled.patch("/v1/scenarios/alpha", json={"owner": "cleo"}, headers={"If-Match": "*"})
    assert changed.status_code == 200
    assert await found(filled, label="team:llm", owner="ann") == []
    assert await found(filled, label="team:llm", owner="cleo") == ["alpha"]
    again = {"request": {"cluster": {"gpu_count": 3}}, "labels": {"team": "llm"}, "owner": "dora"}
    assert (await filled.put("/v1/scenarios/alpha", json=again, headers={"If-Match": "*"})).status_code == 200
    assert await found(filled, label="team:llm", owner="dora") == ["alpha"]


async def test_a_deleted_scenario_is_found_by_its_label_once_it_is_back(filled: httpx.AsyncClient) -> None:
    assert (await filled.delete("/v1/scenarios/alpha", headers={"If-Match": "*"})).status_code == 204
    assert await found(filled, label="team:llm") == ["beta"]
    assert (await filled.post("/v1/scenarios/alpha/restore")).status_code == 200
    assert await found(filled, label="team:llm") == ["alpha", "beta"]
