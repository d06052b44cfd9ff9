"""Listing scenarios: pages in a stable order, cursors that belong to one question, a search that is escaped."""

from typing import Any

import httpx
import pytest

from service.http.paging import write_cursor

NAMES = [
    "alpha",
    "Beta",
    "gamma",
    "delta 100%",
    "delta 100x",
    "under_score",
    "underXscore",
    "back",
    "zeta",
    "\u00e9toile",
]


@pytest.fixture
async def filled(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    for name in NAMES:
        answer = await stored_api.put(f"/v1/scenarios/{name.replace('%', '%25')}", json={"request": {}})
        assert answer.status_code == 201, answer.text
    return stored_api


async def walk(api: httpx.AsyncClient, **query: Any) -> list[str]:
    """Every name, page by page, by the cursor in the body; the Link header must lead to the same."""
    names: list[str] = []
    url = httpx.URL("/v1/scenarios", params=query)
    for _ in range(50):
        answer = await api.get(url)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        names += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            assert "link" not in answer.headers
            return names
        url = httpx.URL("/v1/scenarios", params={**query, "cursor": page["next_cursor"]})
        linked = answer.headers["link"].removeprefix("<").partition(">")[0]
        assert (await api.get(linked)).json() == (await api.get(url)).json()
        assert answer.headers["link"].endswith('; rel="next"')
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("limit", [1, 3, 10, 200])
async def test_pages_hold_everything_once_in_order(filled: httpx.AsyncClient, limit: int) -> None:
    names = await walk(filled, limit=limit)
    assert names == sorted(NAMES, key=str.casefold)
    assert await walk(filled, limit=limit, sort="-name") == names[::-1]


@pytest.mark.parametrize("sort", ["created_at", "updated_at"])
async def test_times_sort_both_ways(filled: httpx.AsyncClient, sort: str) -> None:
    assert await walk(filled, limit=3, sort=sort) == NAMES
    assert await walk(filled, limit=3, sort=f"-{sort}") == NAMES[::-1]


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("100%", ["delta 100%"]),
        ("r_s", ["under_score"]),
        ("BETA", ["Beta"]),
        ("\u00c9TOILE", ["\u00e9toile"]),
        ("e", ["Beta", "delta 100%", "delta 100x", "under_score", "underXscore", "zeta", "\u00e9toile"]),
        ("nothing", []),
        ("\\", []),
    ],
)
async def test_a_search_takes_wildcards_for_what_they_are(filled: httpx.AsyncClient, q: str, found: list[str]) -> None:
    assert await walk(filled, q=q, limit=2) == found


async def test_an_item_says_enough_to_write_to_it(filled: httpx.AsyncClient) -> None:
    item = (await filled.get("/v1/scenarios", params={"q": "alpha"})).json()["items"][0]
    assert item["total"] == "27950.00"
    assert item["currency"] == "USD"
    found = await filled.get("/v1/scenarios/alpha")
    assert found.headers["etag"] == item["etag"]
    assert found.json()["created_at"] == item["created_at"]


async def test_a_deleted_scenario_is_not_listed(filled: httpx.AsyncClient) -> None:
    await filled.delete("/v1/scenarios/alpha", headers={"If-Match": "*"})
    assert "alpha" not in await walk(filled)


async def test_a_row_that_comes_between_pages_moves_nothing(filled: httpx.AsyncClient) -> None:
    first = (await filled.get("/v1/scenarios", params={"limit": 5})).json()
    await filled.put("/v1/scenarios/aaa", json={"request": {}})
    second = (await filled.get("/v1/scenarios", params={"limit": 200, "cursor": first["next_cursor"]})).json()
    together = [item["name"] for item in first["items"] + second["items"]]
    assert together == sorted(NAMES, key=str.casefold)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": "all"}, "limit"),
        ({"sort": "words"}, "sort"),
        ({"sort": "id; DROP TABLE scenarios"}, "sort"),
        ({"cursor": "!!!"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"q": ""}, "q"),
        ({"q": "a\u202e"}, "q"),
        ({"q": "x" * 101}, "q"),
    ],
)
async def test_a_bad_question_names_the_parameter(
    stored_api: httpx.AsyncClient, query: dict[str, Any], field: str
) -> None:
    answer = await stored_api.get("/v1/scenarios", params=query)
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"] == "/errors/malformed-parameter"
    assert answer.json()["errors"][0]["pointer"] == field


async def test_the_allowed_sorts_are_named(stored_api: httpx.AsyncClient) -> None:
    answer = await stored_api.get("/v1/scenarios", params={"sort": "size"})
    assert "-updated_at" in answer.json()["errors"][0]["message"]


FORGED = [
    ("created_at", ["abc", 1]),
    ("created_at", ["2027-01-01T00:00:00", 1]),
    ("created_at", ["0001-01-01T00:00:00+14:00", 1]),
    ("created_at", [5, 1]),
    ("name", ["a", 2**63]),
    ("name", ["a", -1]),
    ("name", ["a\x00", 1]),
    ("name", ["a"]),
    ("name", ["a", "b"]),
]


@pytest.mark.parametrize(("sort", "keys"), FORGED, ids=str)
async def test_a_forged_cursor_is_refused(stored_api: httpx.AsyncClient, sort: str, keys: list[Any]) -> None:
    cursor = write_cursor((sort, None), keys)
    answer = await stored_api.get("/v1/scenarios", params={"sort": sort, "cursor": cursor})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == "cursor"


async def test_a_cursor_belongs_to_its_question(filled: httpx.AsyncClient) -> None:
    cursor = (await filled.get("/v1/scenarios", params={"limit": 2})).json()["next_cursor"]
    other = await filled.get("/v1/scenarios", params={"limit": 2, "cursor": cursor, "sort": "-name"})
    assert other.status_code == 422
    assert other.json()["errors"][0] == {
        "in": "query",
        "pointer": "cursor",
        "message": "It belongs to other filters or another sort: start again without a cursor",
    }


@pytest.mark.parametrize("cursor", ["x", "W10", "WyJhIixbMV1d", "A" * 2000])
async def test_a_cursor_that_is_not_ours_is_refused(stored_api: httpx.AsyncClient, cursor: str) -> None:
    answer = await stored_api.get("/v1/scenarios", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "cursor"
