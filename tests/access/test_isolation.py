"""Principal by object by method, over the whole document: what another project has is not there.

One project has one of everything; another asks for each of these things by every operation there is.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from msgspec import Struct

from service.access.keys import key_id_of
from service.http.text import NAME_PATTERN
from service.prices.default import seed_default_table
from tests.access.requests import DOCUMENT, OPERATIONS, PLACES, RATE, Operation, ask
from tests.access.test_auth import rows
from tests.conftest import client_of
from tests.support.keys import bearer, make_key, make_project

SECRET_WORD = "hush"  # in every name and text of the one project
NAME = f"{SECRET_WORD}-one"
PROJECT = f"{SECRET_WORD}-project"


class World(Struct, frozen=True):
    """Two projects: what the one has, and the keys of both."""

    api: httpx.AsyncClient
    url: str
    mine: dict[str, str]
    theirs: dict[str, str]
    places: dict[str, dict[str, str]]


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    url = database_url
    await seed_default_table(url)
    await make_project(url, PROJECT)
    await make_project(url, "strangers")
    key = await make_key(url, project=PROJECT, name=f"{SECRET_WORD} key")
    mine, theirs = bearer(key), bearer(await make_key(url, project="strangers"))
    async with client_of(url, auth="on") as api:
        words = {"description": f"{SECRET_WORD} words"}
        created = await api.put(f"/v1/scenarios/{NAME}", json={"request": {}, **words}, headers=mine)
        assert created.status_code == 201
        second = {"request": {"cluster": {"gpu_count": 8}}, "note": f"{SECRET_WORD} note", **words}
        assert (
            await api.put(f"/v1/scenarios/{NAME}", json=second, headers={**mine, "If-Match": "*"})
        ).status_code == 200
        paid = f"/v1/scenarios/{NAME}/actuals/{PLACES['period']}"
        assert (await api.put(paid, json={"amount": "1", "note": SECRET_WORD}, headers=mine)).status_code == 201
        link = await api.post(f"/v1/scenarios/{NAME}/shares", json={"note": SECRET_WORD}, headers=mine)
        await api.put(f"/v1/scenarios/{NAME}-gone", json={"request": {}}, headers=mine)
        await api.delete(f"/v1/scenarios/{NAME}-gone", headers={**mine, "If-Match": "*"})
        table = f"/v1/price-tables/{NAME}"
        assert (await api.put(table, json={"currency": "USD", **words}, headers=mine)).status_code == 201
        rate = {**RATE, "provider": f"{SECRET_WORD} provider"}
        for price in ("2.00", "3.00"):
            revised = await api.post(
                f"{table}/revisions",
                json={"rates": [{**rate, "price_per_gpu_hour": price}], "note": SECRET_WORD},
                headers={**mine, "Idempotency-Key": f"key-{price}"},
            )
            assert revised.status_code == 201, revised.text
        await api.put(f"{table}-gone", json={"currency": "USD"}, headers=mine)
        await api.delete(f"{table}-gone", headers={**mine, "If-Match": "*"})
        by_name = {"name": NAME, "number": "1", "share_id": str(link.json()["id"])}
        places = {
            "/v1/scenarios/{name}/restore": {"name": f"{NAME}-gone"},
            "/v1/price-tables/{name}/restore": {"name": f"{NAME}-gone"},
            "/v1/scenarios/": by_name,
            "/v1/price-tables/": by_name,
            "/v1/price-revisions/": {"revision_id": str(revised.json()["id"])},
            "/v1/api-keys/": {"key_id": key_id_of(key) or ""},
            "/v1/projects/": {"name": PROJECT},
        }
        yield World(api, url, mine, theirs, places)


def places_of(world: World, operation: Operation) -> dict[str, str] | None:
    """The one project's object that an operation is about; None where it is about none."""
    if "{" not in operation.path:
        return None
    exact = world.places.get(operation.path)
    if exact is not None:
        return exact
    return next((places for start, places in world.places.items() if operation.path.startswith(start)), None)


# A PUT by name makes the caller's own object, and says nothing of the one of that name elsewhere.
MAKES_ITS_OWN = {"putScenario", "putPriceTable"}
ENDS_IT = {"revokeApiKey"}


async def test_every_object_is_404_to_another_project_by_every_method(world: World) -> None:
    about_objects = [(one, places) for one in OPERATIONS if (places := places_of(world, one)) is not None]
    assert {path.split("/")[2] for path in world.places} == {one.path.split("/")[2] for one, _ in about_objects}
    before = await everything(world)
    for operation, places in about_objects:
        answer = await ask(world.api, operation, places=places, headers=world.theirs)
        if operation.id in MAKES_ITS_OWN:
            # To be changed there must be something: there is not.
            assert answer.status_code == 412, operation.id
        else:
            assert answer.status_code == 404, (operation.id, answer.text)
        assert "words" not in answer.text
    assert await everything(world) == before


async def test_the_same_objects_are_there_for_their_own_project(world: World) -> None:
    for operation in OPERATIONS:
        places = places_of(world, operation)
        if places is not None and operation.id not in ENDS_IT and operation.method != "DELETE":
            answer = await ask(world.api, operation, places=places, headers=world.mine)
            assert answer.status_code in (200, 201, 204, 422), (operation.id, answer.text)


OWN = "own"  # a scenario that each project has


def priced_by(table: str, **price: int) -> dict[str, Any]:
    """A request that reads its price from this table."""
    return {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 8},
        "price": {"kind": "table", "table": table, **price},
    }


TIERS = {"table": NAME, "provider": "aws"}
# Objects that are named in a body: operation, path, and the body with each.
NAMED: list[tuple[str, str, dict[str, Any]]] = [
    ("diffScenarios", "/v1/scenario-diffs", {"before": {"name": OWN}, "after": {"name": NAME}}),
    ("diffScenarios", "/v1/scenario-diffs", {"before": {"name": NAME, "revision": 1}, "after": {"name": OWN}}),
    ("compareScenarios", "/v1/scenario-comparisons", {"scenarios": [{"name": OWN}, {"name": NAME}]}),
    ("compareScenarios", "/v1/scenario-comparisons", {"scenarios": [{"name": OWN}, {"name": NAME, "revision": 1}]}),
    ("repriceScenario", f"/v1/scenarios/{OWN}/reprice", {"table": NAME}),
    ("repriceScenario", f"/v1/scenarios/{OWN}/reprice", {"table": NAME, "revision": 1}),
    ("createEstimate", "/v1/estimates", priced_by(NAME)),
    ("createEstimate", "/v1/estimates", priced_by(NAME, revision=1)),
    ("createEstimate", "/v1/estimates", {"storage": {"kind": "metered", "dataset_gb": 1, "from_table": TIERS}}),
    ("createEstimate", "/v1/estimates", {"egress": {"kind": "metered", "exported_gb": 1, "from_table": TIERS}}),
    ("createApiKey", "/v1/api-keys", {"name": "a key", "scopes": ["admin"], "project": PROJECT}),
    ("putScenario", f"/v1/scenarios/{OWN}-priced", {"request": priced_by(NAME)}),
]
# What takes the name of a scenario or a table in its body, and makes a thing of the caller's own by it.
NAMES_ITS_OWN = {"duplicateScenario", "createProject"}
# One of each kind of row that is read from a table.
TABLE_RATES: list[dict[str, Any]] = [
    {**RATE, "price_per_gpu_hour": "2.00"},
    {"kind": "storage", "storage_class": "object_storage", "price_per_gb_month": "0.1", "tier_from_gb": 0},
    {"kind": "egress", "route": "internet", "price_per_gb": "0.1", "tier_from_gb": 0},
]


def of_nobody(text: str) -> Any:
    """The same JSON with a name that nobody has in the place of the one project's."""
    return json.loads(text.replace(NAME, "nobody-has-it").replace(PROJECT, "nobody-has-it"))


@pytest.mark.parametrize("at", range(len(NAMED)))
async def test_what_a_body_names_of_another_project_is_as_what_nobody_has(world: World, at: int) -> None:
    operation, path, body = NAMED[at]
    method = "PUT" if operation == "putScenario" else "POST"
    for headers, names in ((world.mine, (OWN, NAME)), (world.theirs, (OWN,))):
        await world.api.put(f"/v1/price-tables/{OWN}", json={"currency": "USD"}, headers=headers)
        rates = {"rates": [{"provider": "aws", "source": "a test", **rate} for rate in TABLE_RATES]}
        for name in names:
            made = await world.api.post(f"/v1/price-tables/{name}/revisions", json=rates, headers=headers)
            assert made.status_code == 201, made.text
        own = await world.api.put(f"/v1/scenarios/{OWN}", json={"request": priced_by(OWN)}, headers=headers)
        assert own.status_code == 201, own.text
    before = await everything(world)
    stolen, absent = [
        await world.api.request(method, path, json=one, headers=world.theirs)
        for one in (body, of_nobody(json.dumps(body)))
    ]
    assert stolen.status_code in (404, 422)
    assert of_nobody(stolen.text) == absent.json()
    assert await everything(world) == before
    ours = await world.api.request(method, path, json=body, headers=world.mine)
    assert ours.status_code in (200, 201), ours.text


def test_every_body_that_names_an_object_is_tried() -> None:
    taken = {
        operation.id
        for operation in OPERATIONS
        for content in operation.document.get("requestBody", {}).get("content", {}).values()
        if "application/json" in operation.document["requestBody"]["content"]
        and names_something(content["schema"], set())
    }
    assert taken == {operation for operation, *_ in NAMED} | NAMES_ITS_OWN


def names_something(schema: Any, seen: set[str]) -> bool:
    """Whether it has a field for the name of a scenario, a price table or a project, however deep."""
    if isinstance(schema, list):
        return any(names_something(one, seen) for one in schema)
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref")
    if reference is not None:
        name = reference.rpartition("/")[2]
        if name in seen:
            return False
        return names_something(DOCUMENT["components"]["schemas"][name], seen | {name})
    properties = schema.get("properties", {})
    return any(
        key in ("table", "project")
        or (key == "name" and value.get("pattern") == NAME_PATTERN)
        or names_something(value, seen)
        for key, value in properties.items()
    ) or any(names_something(value, seen) for key, value in schema.items() if key != "properties")


async def test_a_name_can_be_taken_in_each_project(world: World) -> None:
    only_new = {**world.theirs, "If-None-Match": "*"}
    scenario = await world.api.put(f"/v1/scenarios/{NAME}", json={"request": {}}, headers=only_new)
    table = await world.api.put(f"/v1/price-tables/{NAME}", json={"currency": "EUR"}, headers=only_new)
    assert (scenario.status_code, table.status_code) == (201, 201)
    mine = await world.api.get(f"/v1/price-tables/{NAME}", headers=world.mine)
    assert mine.json()["currency"] == "USD"
    rates = await world.api.get(f"/v1/price-tables/{NAME}/rates", headers=world.theirs)
    assert rates.status_code == 404  # theirs has no revision yet, and does not get mine
    choice = {"gpu": "h100-sxm-80gb", "gpu_count": "8"}
    chosen = await world.api.get(f"/v1/price-tables/{NAME}/choice", params=choice, headers=world.mine)
    assert chosen.json()["rate"]["provider"] == f"{SECRET_WORD} provider"
    stolen = await world.api.get(f"/v1/price-tables/{NAME}/choice", params=choice, headers=world.theirs)
    assert stolen.status_code == 404
    older = {**choice, "revision": "1"}
    assert (await world.api.get(f"/v1/price-tables/{NAME}/choice", params=older, headers=world.mine)).status_code == 200
    assert (
        await world.api.get(f"/v1/price-tables/{NAME}/choice", params=older, headers=world.theirs)
    ).status_code == 404


async def test_nothing_of_another_project_stands_in_any_list_or_search(world: World) -> None:
    asked = 0
    for operation in OPERATIONS:
        if operation.method == "GET" and "{" not in operation.path:
            queries: list[dict[str, str]] = [{}]
            parameters = {parameter["name"] for parameter in operation.document.get("parameters", [])}
            if "q" in parameters:
                queries.append({"q": SECRET_WORD})
            for query in queries:
                answer = await world.api.get(operation.path, params=query, headers=world.theirs)
                assert answer.status_code == 200, operation.id
                assert SECRET_WORD not in answer.text, operation.id
                asked += 1
    assert asked > 10


async def test_what_is_searched_for_is_there_for_its_own_project(world: World) -> None:
    for path in ("/v1/scenarios", "/v1/price-tables"):
        answer = await world.api.get(path, params={"q": SECRET_WORD}, headers=world.mine)
        assert [item["name"] for item in answer.json()["items"]] == [NAME]
    for path in ("/v1/api-keys", "/v1/projects", "/v1/audit-log"):
        assert SECRET_WORD in (await world.api.get(path, headers=world.mine)).text


async def test_a_cursor_of_another_project_is_none(world: World) -> None:
    for path, other in (("/v1/scenarios", "run"), ("/v1/price-tables", "table"), ("/v1/audit-log", "")):
        body: dict[str, Any] = {"request": {}} if path == "/v1/scenarios" else {"currency": "USD"}
        for headers in (world.mine, world.theirs):
            for name in ("a", "b") if other else ():
                await world.api.put(f"{path}/{other}-{name}", json=body, headers=headers)
        first = await world.api.get(path, params={"limit": 1}, headers=world.mine)
        cursor = first.json()["next_cursor"]
        stolen = await world.api.get(path, params={"limit": 1, "cursor": cursor}, headers=world.theirs)
        assert stolen.status_code == 422, path


async def test_an_idempotency_key_replays_nothing_of_another_project(world: World) -> None:
    table = f"/v1/price-tables/{NAME}"
    await world.api.put(table, json={"currency": "USD"}, headers=world.theirs)
    body = {
        "rates": [{**RATE, "provider": f"{SECRET_WORD} provider", "price_per_gpu_hour": "2.00"}],
        "note": SECRET_WORD,
    }
    same = {"Idempotency-Key": "key-2.00"}
    first = await world.api.post(f"{table}/revisions", json=body, headers={**world.mine, **same})
    own = await world.api.post(f"{table}/revisions", json=body, headers={**world.theirs, **same})
    assert (first.status_code, own.status_code) == (201, 201)
    assert first.json()["number"] == own.json()["number"] == 1
    assert first.json()["id"] != own.json()["id"]


async def test_the_price_table_of_the_release_is_there_for_all_and_changed_by_none(world: World) -> None:
    url = "/v1/price-tables/list-prices"
    answers = [await world.api.get(url, headers=headers) for headers in (world.mine, world.theirs)]
    assert answers[0].content == answers[1].content
    revision = answers[0].json()["latest"]["id"]
    for headers in (world.mine, world.theirs):
        assert (await world.api.get(f"/v1/price-revisions/{revision}", headers=headers)).status_code == 200
        assert (await world.api.get(f"/v1/price-revisions/{revision}/export", headers=headers)).status_code == 200
        chosen = await world.api.get(f"{url}/choice", params={"gpu": "h100-sxm-80gb"}, headers=headers)
        assert chosen.status_code == 200
        names = [item["name"] for item in (await world.api.get("/v1/price-tables", headers=headers)).json()["items"]]
        assert "list-prices" in names
        refused = await world.api.patch(url, json={}, headers={**headers, "If-Match": "*"})
        assert refused.status_code == 409


def _names_of_stores() -> list[str]:
    """Every function of a store that asks for a connection."""
    import inspect

    import service.access.audit_store
    import service.access.store
    import service.prices.revision_store
    import service.prices.store
    import service.scenarios.actual_store
    import service.scenarios.list_store
    import service.scenarios.revision_store
    import service.scenarios.share_store
    import service.scenarios.store

    found = []
    for module in (
        service.access.audit_store,
        service.access.store,
        service.prices.revision_store,
        service.prices.store,
        service.scenarios.actual_store,
        service.scenarios.list_store,
        service.scenarios.revision_store,
        service.scenarios.share_store,
        service.scenarios.store,
    ):
        for name, function in inspect.getmembers(module, inspect.iscoroutinefunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                parameters = list(inspect.signature(function).parameters)
                if not {"project_id", "actor", "within"} & set(parameters):
                    found.append(f"{module.__name__}.{name}")
    return found


def test_every_function_of_a_store_is_told_whose_it_is() -> None:
    assert _names_of_stores() == [
        "service.access.store.find_key",  # who asks is what it finds out
        "service.access.store.has_keys",
        "service.access.store.note_use",
        "service.prices.revision_store.find_latest",  # of a table that was found by its project
        "service.prices.revision_store.find_revision",
        "service.prices.revision_store.list_revisions",
        "service.prices.store.count_changes",  # what is in memory is of all projects, and is asked by project
        "service.prices.store.ensure_released",
        "service.prices.store.list_heads",
        "service.prices.store.release_tables",
        "service.scenarios.share_store.find_shared",  # whoever has the link
    ]


async def everything(world: World) -> list[Any]:
    """What the database says of the one project."""
    return [
        await rows(world.url, f"SELECT * FROM {table} ORDER BY 1, 2")
        for table in (
            "scenarios",
            "scenario_revisions",
            "scenario_labels",
            "scenario_shares",
            "scenario_actuals",
            "price_tables",
            "price_revisions",
            "projects",
        )
    ] + [
        await rows(world.url, "SELECT key_id, revoked_at, expires_at FROM api_keys ORDER BY 1"),
        await rows(world.url, "SELECT id FROM audit_log"),
    ]
