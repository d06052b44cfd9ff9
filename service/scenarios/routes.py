"""Scenarios over HTTP: each handler reads its preconditions, asks the store, and tags the answer."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any
from urllib.parse import quote

from litestar import Request, Router, delete, get, patch, post, put
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody, PathParameter
from sqlalchemy.ext.asyncio import AsyncConnection

from service.estimates.routes import held_tables
from service.http.conditional import STORED_CACHE, caching, conditional, read_preconditions
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, project_of
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.http.text import NAME_MAX_LENGTH, NAME_PATTERN, canonical_name
from service.prices.operations import Prices
from service.prices.snapshots import ProjectTables
from service.scenarios import store
from service.scenarios.schemas import Scenario, ScenarioPage, ScenarioPatch, ScenarioQuery, ScenarioWrite

Connect = Callable[[], AsyncIterator[AsyncConnection]]
Name = Annotated[
    str,
    PathParameter(
        # Said in the contract and checked by `canonical_name`, which looks at the name in NFC.
        schema_extra={"pattern": NAME_PATTERN, "min_length": 1, "max_length": NAME_MAX_LENGTH},
        description="The scenario's name: unique in any case, kept in NFC.",
    ),
]
_EXAMPLES = {
    "pretraining": {
        "summary": "A run of 512 H100 with a budget",
        "value": {
            "description": "Base model, second quarter",
            "labels": {"team": "llm", "quarter": "2027-q2"},
            "request": {
                "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512},
                "work": {"kind": "gpu_hours", "hours": 720},
                "price": {"kind": "hourly", "amount": "2.80"},
                "budget": {"amount": "1500000"},
            },
        },
    }
}
# Read in the handler: beside a connection as a second dependency, a bad query would cancel its opening half-way.
_read_query = query_of(ScenarioQuery)
_SAME_NAME = {"name": "$request.path.name"}
_LINKS = {
    "read": {"operationId": "getScenario", "parameters": _SAME_NAME},
    "replace": {
        "operationId": "putScenario",
        "parameters": {**_SAME_NAME, "If-Match": "$response.header.ETag"},
    },
    "describe": {
        "operationId": "patchScenario",
        "parameters": {**_SAME_NAME, "If-Match": "$response.header.ETag"},
    },
    "remove": {
        "operationId": "deleteScenario",
        "parameters": {**_SAME_NAME, "If-Match": "$response.header.ETag"},
    },
}


@get(
    "/",
    operation_id="listScenarios",
    opt=About(
        scope="scenarios:read", query=ScenarioQuery, headers=("Link",), success="A page of scenarios.", database=True
    ).as_opt(),
)
async def list_scenarios(
    request: Request[Any, Any, Any],
    reader: NamedDependency[AsyncConnection],
) -> JSON[ScenarioPage]:
    """List scenarios.

    In a stable order, a page at a time.
    """
    page = await store.list_scenarios(reader, project_of(request), _read_query(request))
    headers = (*caching(STORED_CACHE), *next_link(request, page.next_cursor))
    return JSON(encoded(page), headers=headers)


@get(
    "/{name:str}",
    operation_id="getScenario",
    opt=About(
        scope="scenarios:read",
        conditional="read",
        success="The scenario.",
        database=True,
        errors=("422",),
        links=_LINKS,
    ).as_opt(),
)
async def get_scenario(
    request: Request[Any, Any, Any], name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[Scenario]:
    """Get a scenario.

    With the answer that was computed when it was saved, unchanged since.
    """
    found = await store.get_scenario(reader, project_of(request), _name(name))
    return conditional(request, found.body, found.etag, STORED_CACHE)


@put(
    "/{name:str}",
    operation_id="putScenario",
    opt=About(
        scope="scenarios:write",
        conditional="write",
        headers=("ETag",),
        success="Replaced.",
        created=True,
        examples=_EXAMPLES,
        links=_LINKS,
        database=True,
    ).as_opt(),
)
async def put_scenario(
    request: Request[Any, Any, Any],
    name: Name,
    data: JSONBody[ScenarioWrite],
    writer: NamedDependency[AsyncConnection],
) -> JSON[Scenario]:
    """Create or replace a scenario.

    The estimate is computed and kept with it. Replacing needs If-Match (428 without it, 412 when stale);
    `If-None-Match: *` creates only.
    """
    name = _name(name)
    actor = actor_of(request)
    tables = await held_tables(_tables(request), data.request)
    saved = await store.save_scenario(writer, actor, name, data, read_preconditions(request), tables)
    headers = [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)]
    if saved.created:
        headers.append((b"location", f"/v1/scenarios/{quote(name, safe='')}".encode()))
    return JSON(saved.body, 201 if saved.created else 200, headers)


@patch(
    "/{name:str}",
    operation_id="patchScenario",
    opt=About(
        scope="scenarios:write", conditional="write", headers=("ETag",), success="Changed.", database=True
    ).as_opt(),
)
async def patch_scenario(
    request: Request[Any, Any, Any],
    name: Name,
    data: JSONBody[ScenarioPatch],
    writer: NamedDependency[AsyncConnection],
) -> JSON[Scenario]:
    """Change description and labels.

    A JSON merge patch; needs If-Match. The stored answer stays byte for byte.
    """
    saved = await store.patch_scenario(writer, actor_of(request), _name(name), data, read_preconditions(request))
    return JSON(saved.body, 200, [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)])


@delete(
    "/{name:str}",
    operation_id="deleteScenario",
    opt=About(
        scope="scenarios:write", conditional="write", success="Deleted.", database=True, errors=("422",)
    ).as_opt(),
)
async def delete_scenario(
    request: Request[Any, Any, Any], name: Name, writer: NamedDependency[AsyncConnection]
) -> None:
    """Delete a scenario.

    Needs If-Match. Its name is free again; what it stood for stays in the database, and can be restored.
    """
    await store.delete_scenario(writer, actor_of(request), _name(name), read_preconditions(request))


@post(
    "/{name:str}/restore",
    status_code=200,
    operation_id="restoreScenario",
    opt=About(
        scope="scenarios:write", headers=("ETag",), success="Restored.", database=True, errors=("409", "422")
    ).as_opt(),
)
async def restore_scenario(
    request: Request[Any, Any, Any], name: Name, writer: NamedDependency[AsyncConnection]
) -> JSON[Scenario]:
    """Restore a deleted scenario.

    The one that was deleted last under this name, with its stored answer unchanged; 409 if the name is taken again.
    """
    restored = await store.restore_scenario(writer, actor_of(request), _name(name))
    return JSON(restored.body, 200, [(b"etag", restored.etag.encode()), *caching(STORED_CACHE)])


def _name(raw: str) -> str:
    return canonical_name(raw, "path", "name")


def _tables(request: Request[Any, Any, Any]) -> ProjectTables:
    prices: Prices = request.app.state["prices"]
    return prices.snapshots.of(project_of(request))


def scenario_router(reading: Connect, writing: Connect) -> Router:
    """The routes, given how to get a connection for reading and a transaction for writing."""
    return Router(
        "/v1/scenarios",
        route_handlers=[list_scenarios, get_scenario, put_scenario, patch_scenario, delete_scenario, restore_scenario],
        dependencies={"reader": Provide(reading), "writer": Provide(writing)},
        dto=StrictBody,
        request_class=FastRequest,
        tags=["Scenarios"],
    )
