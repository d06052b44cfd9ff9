"""Draft, approved, archived: who may change what, and what describes a scenario."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from msgspec import Struct

from service.http.principal import Scope
from tests.conftest import client_of
from tests.support.keys import bearer, make_key

URL = "/v1/scenarios/run"
SEEN = {"If-Match": "*"}
BODY: dict[str, Any] = {"request": {"cluster": {"gpu_count": 8}}}
OTHER: dict[str, Any] = {"request": {"cluster": {"gpu_count": 16}}}


class Two(Struct, frozen=True):
    """The service, and two keys: one that writes, one that approves too."""

    api: httpx.AsyncClient
    writer: dict[str, str]
    approver: dict[str, str]


@pytest.fixture
async def two(database_url: str) -> AsyncIterator[Two]:
    async with client_of(database_url, auth="on") as api:
        scopes: tuple[Scope, ...] = ("scenarios:read", "scenarios:write")
        writer = bearer(await make_key(database_url, *scopes, name="writer"))
        approver = bearer(await make_key(database_url, *scopes, "scenarios:approve", name="approver"))
        assert (await api.put(URL, json=BODY, headers=writer)).status_code == 201
        yield Two(api, {**writer, **SEEN}, {**approver, **SEEN})


async def status(two: Two) -> tuple[str, int | None]:
    found = (await two.api.get(URL, headers=two.writer)).json()
    return found["status"], found["approved_revision"]


async def test_a_new_scenario_is_a_draft(two: Two) -> None:
    assert await status(two) == ("draft", None)


async def test_approving_needs_its_scope_and_the_version_that_was_seen(two: Two) -> None:
    refused = await two.api.post(f"{URL}/approve", headers=two.writer)
    assert refused.status_code == 403
    blind = {name: value for name, value in two.approver.items() if name != "If-Match"}
    assert (await two.api.post(f"{URL}/approve", headers=blind)).status_code == 428
    assert (await two.api.post(f"{URL}/approve", headers={**blind, "If-Match": '"9-9"'})).status_code == 412
    assert (await two.api.post(f"{URL}/approve", headers=two.approver)).status_code == 200
    assert await status(two) == ("approved", 1)


async def test_what_is_approved_is_changed_only_by_those_who_approve(two: Two) -> None:
    await two.api.put(URL, json=OTHER, headers=two.writer)
    await two.api.post(f"{URL}/approve", headers=two.approver)
    before = (await two.api.get(URL, headers=two.writer)).content
    for method, path, body in (
        ("PUT", "", BODY),
        ("PUT", "", OTHER),
        ("PATCH", "", {"owner": "me"}),
        ("DELETE", "", None),
        ("POST", "/archive", None),
        ("POST", "/reopen", None),
        ("POST", "/revisions/1/restore", None),
    ):
        refused = await two.api.request(method, f"{URL}{path}", json=body, headers=two.writer)
        assert (refused.status_code, refused.json()["type"]) == (403, "/errors/forbidden"), (method, path)
        assert 'scope="scenarios:approve"' in refused.headers["www-authenticate"]
    assert (await two.api.get(URL, headers=two.writer)).content == before
    saved = await two.api.put(URL, json=BODY, headers=two.approver)
    assert (saved.status_code, saved.json()["revision"]) == (200, 3)
    assert await status(two) == ("draft", None)


async def test_what_was_approved_when_it_was_deleted_is_brought_back_only_by_those_who_approve(two: Two) -> None:
    await two.api.post(f"{URL}/approve", headers=two.approver)
    assert (await two.api.delete(URL, headers=two.approver)).status_code == 204
    refused = await two.api.post(f"{URL}/restore", headers=two.writer)
    assert (refused.status_code, refused.json()["type"]) == (403, "/errors/forbidden")
    assert 'scope="scenarios:approve"' in refused.headers["www-authenticate"]
    assert (await two.api.get(URL, headers=two.writer)).status_code == 404
    assert (await two.api.post(f"{URL}/restore", headers=two.approver)).status_code == 200
    assert await status(two) == ("approved", 1)


@pytest.mark.parametrize("step", ["archive", "reopen"])
async def test_a_draft_and_what_is_archived_are_brought_back_by_those_who_write(two: Two, step: str) -> None:
    await two.api.post(f"{URL}/{step}", headers=two.writer)
    before = await status(two)
    assert (await two.api.delete(URL, headers=two.writer)).status_code == 204
    assert (await two.api.post(f"{URL}/restore", headers=two.writer)).status_code == 200
    assert await status(two) == before


async def test_describing_what_is_approved_keeps_the_approval(two: Two) -> None:
    await two.api.post(f"{URL}/approve", headers=two.approver)
    assert (await two.api.patch(URL, json={"owner": "me"}, headers=two.approver)).status_code == 200
    assert await status(two) == ("approved", 1)


async def test_what_is_archived_is_changed_by_nobody_until_it_is_reopened(two: Two) -> None:
    assert (await two.api.post(f"{URL}/archive", headers=two.writer)).status_code == 200
    for method, path, body in (("PUT", "", OTHER), ("PATCH", "", {"owner": "me"}), ("POST", "/approve", None)):
        refused = await two.api.request(method, f"{URL}{path}", json=body, headers=two.approver)
        assert (refused.status_code, refused.json()["type"]) == (409, "/errors/conflict"), (method, path)
    assert (await two.api.post(f"{URL}/reopen", headers=two.writer)).status_code == 200
    assert (await two.api.put(URL, json=OTHER, headers=two.writer)).status_code == 200


async def test_what_is_so_already_stays_as_it_is(two: Two) -> None:
    first = await two.api.post(f"{URL}/approve", headers=two.approver)
    again = await two.api.post(f"{URL}/approve", headers=two.approver)
    assert (again.status_code, again.content) == (200, first.content)


async def test_every_step_stands_in_the_audit_log(two: Two, database_url: str) -> None:
    for step in ("approve", "archive", "reopen"):
        await two.api.post(f"{URL}/{step}", headers=two.approver)
    admin = bearer(await make_key(database_url))
    entries = (await two.api.get("/v1/audit-log", params={"kind": "scenario"}, headers=admin)).json()["items"]
    assert [(entry["action"], entry["actor"]) for entry in entries][::-1] == [
        ("created", "writer"),
        ("approved", "approver"),
        ("archived", "approver"),
        ("reopened", "approver"),
    ]


async def test_a_patch_changes_what_describes_and_null_removes_it(stored_api: httpx.AsyncClient) -> None:
    await stored_api.put(URL, json=BODY)
    given = {
        "owner": "ml-infra",
        "cost_centre": "4711",
        "planned_start": "2027-04-01T02:00:00+02:00",
        "budget": {"amount": "1500000", "currency": "USD"},
    }
    told = (await stored_api.patch(URL, json=given, headers=SEEN)).json()
    assert {key: told[key] for key in given} == {
        **given,
        "planned_start": "2027-04-01T00:00:00Z",
        "budget": {"amount": "1500000.00", "currency": "USD"},
    }
    merged = (await stored_api.patch(URL, json={"budget": {"amount": 2}}, headers=SEEN)).json()
    assert merged["budget"] == {"amount": "2.00", "currency": "USD"}
    removed = (await stored_api.patch(URL, json=dict.fromkeys(given), headers=SEEN)).json()
    assert {key: removed[key] for key in given} == dict.fromkeys(given)
    assert removed["revision"] == 1


@pytest.mark.parametrize(
    ("patch", "pointer"),
    [
        ({"budget": {"amount": "5"}}, "/budget/currency"),
        ({"budget": {"currency": "USD"}}, "/budget/amount"),
        ({"planned_start": "0001-01-01T00:00:00+10:00"}, "/planned_start"),
        ({"owner": "two\nlines"}, "/owner"),
        ({"cost_centre": ""}, "/cost_centre"),
    ],
)
async def test_a_bad_description_names_its_field(
    stored_api: httpx.AsyncClient, patch: dict[str, Any], pointer: str
) -> None:
    await stored_api.put(URL, json=BODY)
    refused = await stored_api.patch(URL, json=patch, headers=SEEN)
    assert refused.status_code == 422
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [pointer]


async def test_a_copy_has_the_same_answer_and_its_own_life(stored_api: httpx.AsyncClient) -> None:
    await stored_api.put(URL, json={**BODY, "owner": "me", "labels": {"team": "llm"}})
    await stored_api.post(f"{URL}/approve", headers=SEEN)
    copied = await stored_api.post(f"{URL}/duplicate", json={"name": "copy"})
    assert copied.status_code == 201, copied.text
    assert copied.headers["location"] == "/v1/scenarios/copy"
    original, copy = (await stored_api.get(URL)).json(), copied.json()
    for field in ("request", "estimate", "labels", "owner"):
        assert copy[field] == original[field]
    assert (copy["status"], copy["revision"], copy["version"]) == ("draft", 1, 1)
    assert (await stored_api.get("/v1/scenarios/copy")).content == copied.content
    assert (await stored_api.get("/v1/scenarios/copy/revisions/1")).json()["note"] == "A copy of run, revision 1"
    taken = await stored_api.post(f"{URL}/duplicate", json={"name": "COPY"})
    assert (taken.status_code, taken.json()["errors"][0]["pointer"]) == (409, "/name")
    listed = await stored_api.get("/v1/scenarios", params={"label": "team:llm"})
    assert len(listed.json()["items"]) == 2


async def test_a_copy_that_is_asked_for_twice_is_made_once(stored_api: httpx.AsyncClient) -> None:
    await stored_api.put(URL, json=BODY)
    key = {"Idempotency-Key": "copy-1"}
    first, second = [await stored_api.post(f"{URL}/duplicate", json={"name": "c"}, headers=key) for _ in range(2)]
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert first.headers["location"] == second.headers["location"]
