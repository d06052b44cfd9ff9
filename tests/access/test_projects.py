"""Projects: made by admins of the instance, seen by their own."""

import httpx
import pytest

from tests.support.keys import bearer, code, make_key, make_project

URL = "/v1/projects"


async def test_what_was_there_before_projects_belongs_to_the_first(keyed_api: httpx.AsyncClient) -> None:
    items = (await keyed_api.get(URL)).json()["items"]
    assert [item["name"] for item in items] == ["default"]


async def test_a_project_is_made_and_found_in_any_case(keyed_api: httpx.AsyncClient) -> None:
    made = await keyed_api.post(URL, json={"name": "LLM research", "description": "pre-training"})
    assert made.status_code == 201
    assert made.headers["location"] == f"{URL}/LLM%20research"
    found = await keyed_api.get(f"{URL}/llm%20RESEARCH")
    assert found.content == made.content
    assert found.headers["etag"] == made.headers["etag"]
    unchanged = await keyed_api.get(f"{URL}/LLM research", headers={"If-None-Match": found.headers["etag"]})
    assert unchanged.status_code == 304


async def test_a_name_is_taken_in_any_case(keyed_api: httpx.AsyncClient) -> None:
    for name in ("default", "DEFAULT", "\uff44efault"):
        answer = await keyed_api.post(URL, json={"name": name})
        assert (answer.status_code, code(answer)) == (409, "conflict")


@pytest.mark.parametrize("name", ["", "a/b", "..", " a", "a\n", "a\u202eb", "x" * 101])
async def test_what_is_no_name_is_refused(keyed_api: httpx.AsyncClient, name: str) -> None:
    answer = await keyed_api.post(URL, json={"name": name})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/name"


async def test_sent_again_with_its_key_it_makes_one(keyed_api: httpx.AsyncClient) -> None:
    first, again = [
        await keyed_api.post(URL, json={"name": "once"}, headers={"Idempotency-Key": "p"}) for _ in range(2)
    ]
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content


async def test_others_see_only_their_own(keyed_api: httpx.AsyncClient, database_url: str) -> None:
    await make_project(database_url, "other")
    other = bearer(await make_key(database_url, project="other"))
    assert [item["name"] for item in (await keyed_api.get(URL, headers=other)).json()["items"]] == ["other"]
    assert (await keyed_api.get(f"{URL}/other", headers=other)).status_code == 200
    assert (await keyed_api.get(f"{URL}/default", headers=other)).status_code == 404
    assert (await keyed_api.get(f"{URL}/other")).status_code == 200


async def test_projects_come_in_pages(keyed_api: httpx.AsyncClient, database_url: str) -> None:
    for number in range(3):
        await make_project(database_url, f"project {number}")
    first = (await keyed_api.get(URL, params={"limit": 2})).json()
    rest = (await keyed_api.get(URL, params={"limit": 2, "cursor": first["next_cursor"]})).json()
    names = [item["name"] for item in (*first["items"], *rest["items"])]
    assert names == ["default", "project 0", "project 1", "project 2"]
    other = bearer(await make_key(database_url, project="project 1"))
    stolen = await keyed_api.get(URL, params={"limit": 2, "cursor": first["next_cursor"]}, headers=other)
    assert stolen.status_code == 422
