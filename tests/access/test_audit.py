"""The audit log: every write is in it, with who and what and the request's id, and nothing of it can be changed."""

import datetime
from hashlib import sha256
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import text

from service.access.keys import key_id_of
from service.http.encoding import encoded
from service.prices.default import seed_default_table
from service.scenarios import heads
from service.scenarios.schemas import Share
from service.storage.database import Database
from tests.access.requests import OPERATIONS, RATE
from tests.access.test_auth import rows
from tests.support.keys import bearer, make_key

LOG = "/v1/audit-log"
ANY = {"If-Match": "*"}


async def entries(api: httpx.AsyncClient, **query: str) -> list[dict[str, Any]]:
    answer = await api.get(LOG, params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_every_write_is_in_it_and_nothing_else(keyed_api: httpx.AsyncClient) -> None:
    api, scenario, table = keyed_api, "/v1/scenarios/run", "/v1/price-tables/ours"
    made = {"name": "key", "scopes": ["admin"]}
    requests: list[tuple[str, str, Any]] = [
        ("PUT", scenario, {"request": {}}),
        ("PUT", scenario, {"request": {}, "description": "second"}),
        ("PATCH", scenario, {"description": "third"}),
        ("GET", scenario, None),
        ("PUT", scenario, {"request": {}, "description": "third"}),  # nothing new, and so nothing done
        ("PUT", scenario, {"request": {"cluster": {"gpu_count": 8}}}),
        ("POST", f"{scenario}/revisions/1/restore", None),
        ("POST", f"{scenario}/approve", None),
        ("POST", f"{scenario}/archive", None),
        ("POST", f"{scenario}/reopen", None),
        ("POST", f"{scenario}/duplicate", {"name": "copy"}),
        ("POST", f"{scenario}/shares", {}),
        ("DELETE", f"{scenario}/shares/1", None),
        ("DELETE", f"{scenario}/shares/1", None),  # it is revoked already
        ("DELETE", scenario, None),
        ("POST", f"{scenario}/restore", None),
        ("PUT", table, {"currency": "USD"}),
        ("PUT", table, {"currency": "USD", "description": "second"}),
        ("PATCH", table, {"description": "third"}),
        ("POST", f"{table}/revisions", {"rates": [RATE]}),
        ("POST", f"{table}/revisions", {"rates": [RATE]}),  # nothing new, and so nothing done
        ("DELETE", table, None),
        ("POST", f"{table}/restore", None),
        ("POST", "/v1/projects", {"name": "other"}),
        ("POST", "/v1/api-keys", made),
        ("POST", "/v1/estimates", {}),
    ]
    for method, path, body in requests:
        seen = path.endswith(("/approve", "/archive", "/reopen", "/1/restore"))
        makes = method in ("GET", "POST") or body in ({"request": {}}, {"currency": "USD"})
        only = {} if makes and not seen else ANY
        answer = await api.request(method, path, json=body, headers=only)
        assert answer.status_code < 300, (method, path, answer.text)
        if path == "/v1/api-keys":
            made = answer.json()
    new = (await api.post(f"/v1/api-keys/{made['id']}/rotate", json={})).json()
    assert (await api.delete(f"/v1/api-keys/{new['id']}")).status_code == 204

    found = [(item["kind"], item["action"], item["name"]) for item in reversed(await entries(api))][1:]
    assert found == [
        ("scenario", "created", "run"),
        ("scenario", "replaced", "run"),
        ("scenario", "changed", "run"),
        ("scenario", "replaced", "run"),
        ("scenario", "revised", "run"),
        ("scenario", "approved", "run"),
        ("scenario", "archived", "run"),
        ("scenario", "reopened", "run"),
        ("scenario", "created", "copy"),
        ("scenario-share", "created", "run#1"),
        ("scenario-share", "revoked", "run#1"),
        ("scenario", "deleted", "run"),
        ("scenario", "restored", "run"),
        ("price-table", "created", "ours"),
        ("price-table", "replaced", "ours"),
        ("price-table", "changed", "ours"),
        ("price-table", "revised", "ours"),
        ("price-table", "deleted", "ours"),
        ("price-table", "restored", "ours"),
        ("project", "created", "other"),
        ("api-key", "created", made["id"]),
        ("api-key", "rotated", made["id"]),
        ("api-key", "revoked", new["id"]),
    ]


def test_no_operation_that_writes_is_forgotten_above() -> None:
    computed = {"createEstimate", "compareScenarios", "diffScenarios"}
    elsewhere = {"putActual", "deleteActual", "importActuals", "repriceScenario"}  # with what they do
    writes = {one.id for one in OPERATIONS if one.method != "GET"} - computed - elsewhere
    assert writes == {
        *("approveScenario", "archiveScenario", "reopenScenario", "duplicateScenario", "restoreScenarioRevision"),
        *("createScenarioShare", "revokeScenarioShare"),
        *("putScenario", "patchScenario", "deleteScenario", "restoreScenario"),
        *("putPriceTable", "patchPriceTable", "deletePriceTable", "restorePriceTable"),
        *("createPriceRevision", "importPrices"),
        *("createProject", "createApiKey", "rotateApiKey", "revokeApiKey"),
    }


async def test_a_line_says_who_by_which_key_in_which_request(keyed_api: httpx.AsyncClient, database_url: str) -> None:
    key = await make_key(database_url, "scenarios:write", name="nightly job")
    headers = {**bearer(key), "X-Request-ID": "job-7"}
    await keyed_api.put("/v1/scenarios/run", json={"request": {}}, headers=headers)
    line = (await entries(keyed_api))[0]
    assert (line["key_id"], line["actor"], line["request_id"]) == (key_id_of(key), "nightly job", "job-7")
    assert abs(datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(line["at"])).seconds < 30


async def test_without_keys_it_was_somebody_here(api: httpx.AsyncClient) -> None:
    answer = await api.put("/v1/scenarios/run", json={"request": {}})
    line = (await entries(api))[0]
    assert (line["key_id"], line["actor"]) == (None, "local")
    assert line["request_id"] == answer.headers["x-request-id"]


async def test_what_an_object_was_before_is_what_it_became(keyed_api: httpx.AsyncClient) -> None:
    for description in ("a", "b"):
        body: dict[str, Any] = {"request": {}, "description": description}
        await keyed_api.put("/v1/scenarios/run", json=body, headers=ANY if description == "b" else {})
    await keyed_api.delete("/v1/scenarios/run", headers=ANY)
    await keyed_api.post("/v1/scenarios/run/restore")
    restored, deleted, replaced, created = await entries(keyed_api, kind="scenario")
    assert created["before_hash"] is None
    assert created["after_hash"] == replaced["before_hash"] != replaced["after_hash"] == deleted["before_hash"]
    assert deleted["after_hash"] is None
    assert len(restored["after_hash"]) == 64


async def test_a_scenario_has_the_hash_of_what_is_kept_of_it_whatever_it_is_judged_by(
    keyed_api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"request": {}, "budget": {"amount": "1000000", "currency": "USD"}}
    made = await keyed_api.put("/v1/scenarios/run", json=body)
    assert made.json()["verdict"] is not None
    monkeypatch.setattr(heads, "verdict_of", lambda row: None)  # as another release may judge it
    await keyed_api.patch("/v1/scenarios/run", json={"description": "second"}, headers=ANY)
    changed, created = await entries(keyed_api, kind="scenario")
    kept = made.content[: made.content.rindex(b',"verdict":')] + b"}"
    assert changed["before_hash"] == created["after_hash"] == sha256(kept).hexdigest()


async def test_a_link_has_the_hashes_of_what_the_list_shows_of_it(keyed_api: httpx.AsyncClient) -> None:
    await keyed_api.put("/v1/scenarios/run", json={"request": {}})
    shares = "/v1/scenarios/run/shares"
    made = (await keyed_api.post(shares, json={"note": "for the budget round"})).json()

    async def shown() -> str:
        item = msgspec.json.decode((await keyed_api.get(shares)).content)["items"][0]
        return sha256(encoded(msgspec.convert(item, Share))).hexdigest()

    live = await shown()
    await keyed_api.delete(f"{shares}/{made['id']}")
    revoked, created = await entries(keyed_api, kind="scenario-share")
    assert (created["before_hash"], created["after_hash"]) == (None, live)
    assert (revoked["before_hash"], revoked["after_hash"]) == (live, await shown())
    assert live != await shown()


async def test_a_revision_has_the_hash_of_its_rates(keyed_api: httpx.AsyncClient) -> None:
    await keyed_api.put("/v1/price-tables/ours", json={"currency": "USD"})
    for price in ("1.00", "2.00"):
        body = {"rates": [{**RATE, "price_per_gpu_hour": price}]}
        revision = (await keyed_api.post("/v1/price-tables/ours/revisions", json=body)).json()
    second, first = await entries(keyed_api, action="revised")
    assert second["after_hash"] == revision["content_hash"]
    assert second["before_hash"] == first["after_hash"]


async def test_what_was_refused_or_rolled_back_is_not_in_it(keyed_api: httpx.AsyncClient) -> None:
    before = len(await entries(keyed_api))
    await keyed_api.put("/v1/scenarios/run", json={"request": {"budget": {}}})
    await keyed_api.put("/v1/scenarios/run", json={"request": {}}, headers=ANY)
    await keyed_api.post("/v1/projects", json={"name": "default"})
    await keyed_api.post("/v1/price-tables/none/revisions", json={"rates": []})
    assert len(await entries(keyed_api)) == before


async def test_it_is_filtered_and_comes_in_pages(keyed_api: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await keyed_api.put(f"/v1/scenarios/{name}", json={"request": {}})
    await keyed_api.delete("/v1/scenarios/b", headers=ANY)
    assert [item["action"] for item in await entries(keyed_api, name="b")] == ["deleted", "created"]
    assert [item["name"] for item in await entries(keyed_api, kind="scenario", action="created")] == ["c", "b", "a"]
    assert await entries(keyed_api, key_id="aaaaaaaaaaaa") == []
    assert await entries(keyed_api, since="2999-01-01T00:00:00Z") == []
    assert len(await entries(keyed_api, until="2999-01-01T00:00:00Z", since="2020-01-01T00:00:00Z")) == 5
    first = (await keyed_api.get(LOG, params={"limit": 3})).json()
    rest = (await keyed_api.get(LOG, params={"limit": 3, "cursor": first["next_cursor"]})).json()
    ids = [item["id"] for item in (*first["items"], *rest["items"])]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 5


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_a_time_beyond_all_years_is_a_rule_that_is_broken(keyed_api: httpx.AsyncClient, time: str) -> None:
    answer = await keyed_api.get(LOG, params={"since": time})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "since"


@pytest.mark.parametrize("statement", ["UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log"])
async def test_the_database_lets_nobody_change_it(
    keyed_api: httpx.AsyncClient, database_url: str, statement: str
) -> None:
    await keyed_api.put("/v1/scenarios/run", json={"request": {}})
    before = await rows(database_url, "SELECT * FROM audit_log")
    database = Database(database_url, pool_size=1)
    with pytest.raises(Exception, match="the audit log is only added to"):
        async with database.engine.begin() as connection:
            await connection.execute(text(statement))
    await database.close()
    assert await rows(database_url, "SELECT * FROM audit_log") == before


async def test_the_release_says_what_it_changed(database_url: str, keyed_api: httpx.AsyncClient) -> None:
    await seed_default_table(database_url)
    line = (await entries(keyed_api, kind="price-table"))[0]
    assert (line["actor"], line["action"], line["name"]) == ("the release", "revised", "list-prices")


async def test_nothing_typed_becomes_anything_else(keyed_api: httpx.AsyncClient, database_url: str) -> None:
    """What a user typed is a text: to SQL, in a header, in a line of the log."""
    for name in ("'; DROP TABLE audit_log; --", "%_%", "=1+1", "<script>", "${jndi}", "a`b", '"'):
        made = await keyed_api.post("/v1/api-keys", json={"name": name, "scopes": ["scenarios:write"]})
        answer = await keyed_api.put(
            f"/v1/scenarios/{made.json()['id']}", json={"request": {}}, headers=bearer(made.json()["key"])
        )
        assert answer.status_code == 201
        assert (await entries(keyed_api))[0]["actor"] == name
    assert len(await rows(database_url, "SELECT id FROM audit_log")) == 15
