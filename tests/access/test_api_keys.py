"""Keys over HTTP: made and shown once, listed without secrets, rotated, revoked."""

import asyncio
import datetime
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.access.keys import key_id_of
from service.access.schemas import ApiKey, NewApiKey
from tests.access.test_auth import rows
from tests.conftest import NewDatabase, client_of
from tests.support.keys import bearer, code, make_key, make_project

URL = "/v1/api-keys"
ONCE = {"Idempotency-Key": "first-try"}


async def create(api: httpx.AsyncClient, headers: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    body = {"name": "dashboard", "scopes": ["scenarios:read", "admin"], **changes}
    answer = await api.post(URL, json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"{URL}/{made['id']}"
    return made


async def works(api: httpx.AsyncClient, key: str) -> bool:
    answer = await api.get(URL, headers=bearer(key))
    assert answer.status_code in (200, 401), answer.text
    return answer.status_code == 200


async def test_a_key_is_shown_when_it_is_made_and_never_again(keyed_api: httpx.AsyncClient) -> None:
    made = await create(keyed_api)
    key = made.pop("key")
    assert key_id_of(key) == made["id"]
    assert list(made) == list(ApiKey.__struct_fields__)
    assert {*made, "key"} == set(NewApiKey.__struct_fields__)
    assert made["scopes"] == ["admin", "scenarios:read"]
    assert made["project"] == "default"
    assert await works(keyed_api, key)
    found = await keyed_api.get(f"{URL}/{made['id']}")
    assert found.json() == made
    listed = (await keyed_api.get(URL)).json()["items"]
    assert listed[1] == made
    secret = key.rpartition("_")[2]
    for answer in (found, await keyed_api.get(URL), await keyed_api.get("/v1/audit-log")):
        assert secret not in answer.text


async def test_sent_again_with_its_key_it_makes_one_and_shows_it_once(keyed_api: httpx.AsyncClient) -> None:
    first, again = await create(keyed_api, ONCE), await create(keyed_api, ONCE)
    assert again == {**first, "key": None}
    assert len((await keyed_api.get(URL)).json()["items"]) == 2


async def test_the_database_holds_no_secret(new_database: NewDatabase) -> None:
    url = new_database("sqlite")
    admin = await make_key(url)
    async with client_of(url, auth="on") as api:
        api.headers.update(bearer(admin))
        made = [await create(api, ONCE)]
        rotated = await api.post(f"{URL}/{made[0]['id']}/rotate", json={}, headers={"Idempotency-Key": "r"})
        made.append(rotated.json())
    files = Path(url.partition("///")[2]).parent.glob("traincost.db*")
    held = b"".join(file.read_bytes() for file in files)
    assert made[0]["id"].encode() in held
    for key in (admin, *(one["key"] for one in made)):
        assert key.rpartition("_")[2].encode() not in held


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"name": ""}, "/name"),
        ({"name": "two\nlines"}, "/name"),
        ({"name": "a line\n"}, "/name"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["everything"]}, "/scopes/0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "/expires_at"),
        ({"expires_at": "9999-12-31T23:59:59-12:00"}, "/expires_at"),
        ({"project": "nowhere"}, "/project"),
        ({"project_id": 2}, "/project_id"),
        ({"key": "tc_mine"}, "/key"),
    ],
    ids=str,
)
async def test_what_is_wrong_is_named(keyed_api: httpx.AsyncClient, changes: dict[str, Any], pointer: str) -> None:
    answer = await keyed_api.post(URL, json={"name": "n", "scopes": ["admin"], **changes})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


async def test_a_revoked_key_is_gone(keyed_api: httpx.AsyncClient) -> None:
    made = await create(keyed_api)
    path = f"{URL}/{made['id']}"
    assert await works(keyed_api, made["key"])
    assert (await keyed_api.delete(path)).status_code == 204
    assert not await works(keyed_api, made["key"])
    for answer in (
        await keyed_api.get(path),
        await keyed_api.delete(path),
        await keyed_api.post(f"{path}/rotate", json={}),
    ):
        assert (answer.status_code, code(answer)) == (404, "not-found")
    assert made["id"] not in (await keyed_api.get(URL)).text


async def test_a_rotated_key_has_a_successor_and_an_end(keyed_api: httpx.AsyncClient) -> None:
    old = await create(keyed_api)
    answer = await keyed_api.post(f"{URL}/{old['id']}/rotate", json={"overlap_hours": 2})
    new = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{URL}/{new['id']}"
    assert (new["name"], new["scopes"], new["expires_at"]) == (old["name"], old["scopes"], None)
    assert new["rotated_from"] == old["id"]
    assert await works(keyed_api, old["key"])
    assert await works(keyed_api, new["key"])
    ends = datetime.datetime.fromisoformat((await keyed_api.get(f"{URL}/{old['id']}")).json()["expires_at"])
    left = ends - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(hours=1.9) < left <= datetime.timedelta(hours=2)


async def test_two_that_follow_each_other_live_at_once_and_not_three(keyed_api: httpx.AsyncClient) -> None:
    old = await create(keyed_api)
    answers = await asyncio.gather(*(keyed_api.post(f"{URL}/{old['id']}/rotate", json={}) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    new = next(answer.json() for answer in answers if answer.status_code == 201)
    third = await keyed_api.post(f"{URL}/{new['id']}/rotate", json={})
    assert (third.status_code, code(third)) == (409, "conflict")
    await keyed_api.delete(f"{URL}/{old['id']}")
    assert (await keyed_api.post(f"{URL}/{new['id']}/rotate", json={})).status_code == 201


@pytest.mark.parametrize("end", [None, "2099-01-01T00:00:00Z"])
async def test_a_key_that_is_rotated_again_passes_on_the_end_it_was_made_with(
    keyed_api: httpx.AsyncClient, end: str | None
) -> None:
    """The answer with the first successor may be lost: then that is revoked, and another is asked for."""
    old = await create(keyed_api, expires_at=end)
    path = f"{URL}/{old['id']}"
    lost = (await keyed_api.post(f"{path}/rotate", json={})).json()
    overlap_ends = (await keyed_api.get(path)).json()["expires_at"]
    assert overlap_ends is not None
    assert overlap_ends < "2099"
    assert (await keyed_api.delete(f"{URL}/{lost['id']}")).status_code == 204
    new = (await keyed_api.post(f"{path}/rotate", json={})).json()
    assert [one["expires_at"] for one in (lost, new)] == [end, end]
    assert (await keyed_api.get(path)).json()[
        "expires_at"
    ] == overlap_ends  # once ending, no key becomes good for longer
    await keyed_api.delete(path)
    assert (await keyed_api.post(f"{URL}/{new['id']}/rotate", json={})).json()["expires_at"] == end


async def test_an_overlap_beyond_the_end_of_a_key_changes_nothing(keyed_api: httpx.AsyncClient) -> None:
    soon = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
    old = await create(keyed_api, expires_at=soon)
    new = (await keyed_api.post(f"{URL}/{old['id']}/rotate", json={"overlap_hours": 24})).json()
    assert (await keyed_api.get(f"{URL}/{old['id']}")).json()["expires_at"] == old["expires_at"] == new["expires_at"]


async def test_without_an_overlap_the_old_key_ends_at_once(keyed_api: httpx.AsyncClient) -> None:
    old = await create(keyed_api)
    await keyed_api.post(f"{URL}/{old['id']}/rotate", json={"overlap_hours": 0})
    assert not await works(keyed_api, old["key"])
    ended = await keyed_api.post(f"{URL}/{old['id']}/rotate", json={})
    assert (ended.status_code, code(ended)) == (409, "conflict")


async def test_keys_come_in_pages(keyed_api: httpx.AsyncClient) -> None:
    names = [(await create(keyed_api, name=f"key {number}"))["name"] for number in range(5)]
    found, path = [], f"{URL}?limit=2"
    while path:
        answer = await keyed_api.get(path)
        found += [item["name"] for item in answer.json()["items"]]
        link = re.match(r'<(.*)>; rel="next"', answer.headers.get("link", ""))
        path = link[1] if link else ""
    assert found == ["a test", *names]


async def test_an_admin_of_the_instance_makes_the_first_key_of_another_project(
    keyed_api: httpx.AsyncClient, database_url: str
) -> None:
    assert (await keyed_api.post("/v1/projects", json={"name": "other"})).status_code == 201
    made = await create(keyed_api, project="Other")
    assert made["project"] == "other"
    assert made["id"] not in (await keyed_api.get(URL)).text
    assert made["id"] in (await keyed_api.get(URL, headers=bearer(made["key"]))).text


async def test_another_admin_does_not(keyed_api: httpx.AsyncClient, database_url: str) -> None:
    await make_project(database_url, "other")
    admin = bearer(await make_key(database_url, project="other"))
    own = await keyed_api.post(URL, json={"name": "n", "scopes": ["admin"], "project": "other"}, headers=admin)
    assert own.status_code == 201
    foreign, unknown = [
        await keyed_api.post(URL, json={"name": "n", "scopes": ["admin"], "project": name}, headers=admin)
        for name in ("default", "nowhere")
    ]
    assert foreign.status_code == unknown.status_code == 422
    assert foreign.json()["detail"].replace("default", "nowhere") == unknown.json()["detail"]
    created = await keyed_api.post("/v1/projects", json={"name": "third"}, headers=admin)
    assert (created.status_code, code(created)) == (403, "forbidden")


async def test_an_idempotency_key_is_no_way_into_another_project(
    keyed_api: httpx.AsyncClient, database_url: str
) -> None:
    await make_project(database_url, "other")
    mine = await create(keyed_api, ONCE)
    theirs = await create(keyed_api, {**ONCE, **bearer(await make_key(database_url, project="other"))})
    assert theirs["id"] != mine["id"]
    assert theirs["key"]


async def test_of_a_key_the_database_has_a_digest(keyed_api: httpx.AsyncClient, database_url: str) -> None:
    await create(keyed_api)
    for (digest,) in await rows(database_url, "SELECT digest FROM api_keys"):
        assert isinstance(digest, bytes)
        assert len(digest) == 32
