"""Scenarios over HTTP: each handler reads its preconditions, asks the store, and tags the answer."""

from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

from litestar import Router, delete, get, patch, post, put
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody
from sqlalchemy.ext.asyncio import AsyncConnection

from service.estimates.routes import held_tables
from service.http.conditional import STORED_CACHE, caching, conditional, read_preconditions
from service.http.encoding import encoded
from service.http.once import read_once, said
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, project_of
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.scenarios import creations, list_store, store
from service.scenarios.requests import (
    SAME_NAME,
    AnyRequest,
    Name,
    comparison_link,
    diff_link,
    may_approve,
    read_name,
    tables_for,
    tagged,
)
from service.scenarios.revision_routes import (
    get_scenario_revision,
    list_scenario_revisions,
    restore_scenario_revision,
)
from service.scenarios.schemas import (
    Scenario,
    ScenarioDuplicate,
    ScenarioPage,
    ScenarioPatch,
    ScenarioQuery,
    ScenarioWrite,
    Status,
)
from service.scenarios.share_routes import (
    create_scenario_share,
    get_shared_revision,
    list_scenario_shares,
    revoke_scenario_share,
)
from service.storage.idempotency import Doors

Connect = Callable[[], AsyncIterator[AsyncConnection]]
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
_ANSWERED = {"name": "$response.body#/name"}
_ON_WHAT_WAS_SEEN = {**SAME_NAME, "If-Match": "$response.header.ETag"}
_LINKS = {
    "read": {"operationId": "getScenario", "parameters": SAME_NAME},
    "revisions": {"operationId": "listScenarioRevisions", "parameters": SAME_NAME},
    "share": {"operationId": "createScenarioShare", "parameters": SAME_NAME},
    "duplicate": {"operationId": "duplicateScenario", "parameters": SAME_NAME},
    "phasing": {"operationId": "getScenarioPhasing", "parameters": SAME_NAME},
    "actuals": {"operationId": "listActuals", "parameters": SAME_NAME},
    "pay": {"operationId": "putActual", "parameters": SAME_NAME},
    "import": {"operationId": "importActuals", "parameters": SAME_NAME},
    "forecast": {"operationId": "getScenarioForecast", "parameters": SAME_NAME},
    "reprice": {"operationId": "repriceScenario", "parameters": SAME_NAME},
    "diff": diff_link(_ANSWERED, _ANSWERED),
    **{
        word: {"operationId": operation, "parameters": _ON_WHAT_WAS_SEEN}
        for word, operation in (
            ("replace", "putScenario"),
            ("describe", "patchScenario"),
            ("approve", "approveScenario"),
            ("archive", "archiveScenario"),
            ("reopen", "reopenScenario"),
            ("remove", "deleteScenario"),
        )
    },
}
_COPY_LINKS = {
    "read": {"operationId": "getScenario", "parameters": _ANSWERED},
    "diff": diff_link(SAME_NAME, _ANSWERED),
    "compare": comparison_link(SAME_NAME, _ANSWERED),
}
_COPY = {"next-quarter": {"summary": "A copy for the next quarter", "value": {"name": "base-model-2027-q3"}}}


@get(
    "/",
    operation_id="listScenarios",
    opt=About(
        scope="scenarios:read", query=ScenarioQuery, headers=("Link",), success="A page of scenarios.", database=True
    ).as_opt(),
)
async def list_scenarios(
    request: AnyRequest,
    reader: NamedDependency[AsyncConnection],
) -> JSON[ScenarioPage]:
    """List scenarios.

    In a stable order, a page at a time.
    """
    page = await list_store.list_scenarios(reader, project_of(request), _read_query(request))
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
async def get_scenario(request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]) -> JSON[Scenario]:
    """Get a scenario.

    With the answer that was computed when it was saved, unchanged since.
    """
    found = await store.get_scenario(reader, project_of(request), read_name(name))
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
        errors=("409",),
    ).as_opt(),
)
async def put_scenario(
    request: AnyRequest,
    name: Name,
    data: JSONBody[ScenarioWrite],
    writer: NamedDependency[AsyncConnection],
) -> JSON[Scenario]:
    """Create or replace a scenario.

    The estimate is computed, and kept with the request as a revision that never changes; the same request with the same
    answer makes no new one. A scenario that was approved becomes a draft again, and only a key that may approve can do
    that. Replacing needs If-Match (428 without it, 412 when stale); `If-None-Match: *` creates only.
    """
    name = read_name(name)
    actor = actor_of(request)
    tables = await held_tables(tables_for(request), data.request)
    saved = await store.save_scenario(
        writer, actor, name, data, read_preconditions(request), tables, may_approve=may_approve(request)
    )
    headers = [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)]
    if saved.created:
        headers.append((b"location", f"/v1/scenarios/{quote(name, safe='')}".encode()))
    return JSON(saved.body, 201 if saved.created else 200, headers)


@patch(
    "/{name:str}",
    operation_id="patchScenario",
    opt=About(
        scope="scenarios:write",
        conditional="write",
        headers=("ETag",),
        success="Changed.",
        database=True,
        errors=("409",),
    ).as_opt(),
)
async def patch_scenario(
    request: AnyRequest,
    name: Name,
    data: JSONBody[ScenarioPatch],
    writer: NamedDependency[AsyncConnection],
) -> JSON[Scenario]:
    """Change what describes a scenario.

    Description, labels, owner, cost centre, planned start and budget, by a JSON merge patch; needs If-Match. The stored
    answer stays byte for byte.
    """
    saved = await store.patch_scenario(
        writer,
        actor_of(request),
        read_name(name),
        data,
        read_preconditions(request),
        may_approve=may_approve(request),
    )
    return tagged(saved)


@delete(
    "/{name:str}",
    operation_id="deleteScenario",
    opt=About(
        scope="scenarios:write", conditional="write", success="Deleted.", database=True, errors=("422",)
    ).as_opt(),
)
async def delete_scenario(request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]) -> None:
    """Delete a scenario.

    Needs If-Match. Its name is free again; what it stood for stays in the database, and can be restored.
    """
    await store.delete_scenario(
        writer, actor_of(request), read_name(name), read_preconditions(request), may_approve=may_approve(request)
    )


@post(
    "/{name:str}/restore",
    status_code=200,
    operation_id="restoreScenario",
    opt=About(
        scope="scenarios:write", headers=("ETag",), success="Restored.", database=True, errors=("409", "422")
    ).as_opt(),
)
async def restore_scenario(request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]) -> JSON[Scenario]:
    """Restore a deleted scenario.

    The one that was deleted last under this name, with its stored answer and its status unchanged: what is approved
    needs `scenarios:approve`. 409 if the name is taken again.
    """
    return tagged(
        await store.restore_scenario(writer, actor_of(request), read_name(name), may_approve=may_approve(request))
    )


@post(
    "/{name:str}/duplicate",
    status_code=201,
    operation_id="duplicateScenario",
    opt=About(
        scope="scenarios:write",
        idempotent=True,
        headers=("Location", "ETag"),
        success="Created.",
        examples=_COPY,
        links=_COPY_LINKS,
        database=True,
        errors=("409",),
    ).as_opt(),
)
async def duplicate_scenario(
    request: AnyRequest, name: Name, data: JSONBody[ScenarioDuplicate], doors: NamedDependency[Doors]
) -> JSON[Scenario]:
    """Duplicate a scenario.

    A draft of another name, with the newest request and that very answer as its first revision; 409 if the name is
    taken.
    """
    once = await read_once(request)
    return said(await creations.duplicate(doors, actor_of(request), read_name(name), data, once))


def _becomes(success: str, scope: str) -> dict[str, object]:
    return About(
        scope=scope,
        conditional="write",
        headers=("ETag",),
        success=success,
        database=True,
        errors=("409", "422"),
    ).as_opt()


async def _set(request: AnyRequest, name: str, writer: AsyncConnection, status: Status) -> JSON[Scenario]:
    saved = await store.set_status(
        writer,
        actor_of(request),
        read_name(name),
        status,
        read_preconditions(request),
        may_approve=may_approve(request),
    )
    return tagged(saved)


@post(
    "/{name:str}/approve",
    status_code=200,
    operation_id="approveScenario",
    opt=_becomes("Approved.", "scenarios:approve"),
)
async def approve_scenario(request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]) -> JSON[Scenario]:
    """Approve a scenario.

    The revision that If-Match has seen. From now on only keys with `scenarios:approve` can change it, and a new
    revision makes it a draft again.
    """
    return await _set(request, name, writer, "approved")


@post(
    "/{name:str}/archive",
    status_code=200,
    operation_id="archiveScenario",
    opt=_becomes("Archived.", "scenarios:write"),
)
async def archive_scenario(request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]) -> JSON[Scenario]:
    """Archive a scenario.

    It stays where it is and is changed by nobody. Needs If-Match, and `scenarios:approve` if it is approved.
    """
    return await _set(request, name, writer, "archived")


@post(
    "/{name:str}/reopen",
    status_code=200,
    operation_id="reopenScenario",
    opt=_becomes("A draft.", "scenarios:write"),
)
async def reopen_scenario(request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]) -> JSON[Scenario]:
    """Make a scenario a draft again.

    One that is archived, or approved, which needs `scenarios:approve`. Needs If-Match.
    """
    return await _set(request, name, writer, "draft")


def scenario_routers(reading: Connect, writing: Connect, doors: Doors) -> list[Router]:
    """The routes, given how to get a connection for reading and a transaction for writing, and how to act once."""
    dependencies = {
        "reader": Provide(reading),
        "writer": Provide(writing),
        "doors": Provide(lambda: doors, sync_to_thread=False),
    }
    scenarios = Router(
        "/v1/scenarios",
        route_handlers=[
            list_scenarios,
            get_scenario,
            put_scenario,
            patch_scenario,
            delete_scenario,
            restore_scenario,
            duplicate_scenario,
            approve_scenario,
            archive_scenario,
            reopen_scenario,
            list_scenario_revisions,
            get_scenario_revision,
            restore_scenario_revision,
            create_scenario_share,
            list_scenario_shares,
            revoke_scenario_share,
        ],
        dependencies=dependencies,
        dto=StrictBody,
        request_class=FastRequest,
        tags=["Scenarios"],
    )
    shared = Router(
        "/v1/shared",
        route_handlers=[get_shared_revision],
        dependencies={"reader": Provide(reading)},
        tags=["Scenarios"],
    )
    return [scenarios, shared]
