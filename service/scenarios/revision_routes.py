"""Revisions of scenarios over HTTP: listed, read, taken up again."""

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.conditional import STORED_CACHE, caching, conditional, read_preconditions
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, project_of
from service.http.requests import query_of
from service.http.responses import JSON
from service.scenarios import revision_store, store
from service.scenarios.requests import (
    SAME_NAME,
    AnyRequest,
    Name,
    Number,
    comparison_link,
    diff_link,
    may_approve,
    read_name,
    tagged,
)
from service.scenarios.schemas import (
    RevisionRestore,
    Scenario,
    ScenarioRevision,
    ScenarioRevisionPage,
    ScenarioRevisionQuery,
)

# Read in the handler: beside a connection as a second dependency, a bad query would cancel its opening half-way.
_read_query = query_of(ScenarioRevisionQuery)
_UNSAID = RevisionRestore()
_RESTORES = {"why": {"summary": "With the reason", "value": {"note": "The offer is off: back to list prices"}}}
_FIRST = {
    "first": {
        "operationId": "getScenarioRevision",
        "parameters": {**SAME_NAME, "number": "$response.body#/items/0/number"},
    }
}
_THIS = {"name": "$response.body#/scenario", "revision": "$response.body#/number"}
_SINCE = {
    "diff": diff_link(_THIS, SAME_NAME),
    "compare": comparison_link(_THIS, SAME_NAME),
    "restore": {"operationId": "restoreScenarioRevision", "parameters": {**SAME_NAME, "number": _THIS["revision"]}},
}


@get(
    "/{name:str}/revisions",
    operation_id="listScenarioRevisions",
    opt=About(
        scope="scenarios:read",
        query=ScenarioRevisionQuery,
        headers=("Link",),
        success="A page of revisions.",
        database=True,
        links=_FIRST,
    ).as_opt(),
)
async def list_scenario_revisions(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[ScenarioRevisionPage]:
    """List a scenario's revisions.

    The newest first. A revision never changes.
    """
    page = await revision_store.list_revisions(reader, project_of(request), read_name(name), _read_query(request))
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


@get(
    "/{name:str}/revisions/{number:int}",
    operation_id="getScenarioRevision",
    opt=About(
        scope="scenarios:read",
        conditional="read",
        success="The revision.",
        database=True,
        errors=("422",),
        links=_SINCE,
    ).as_opt(),
)
async def get_scenario_revision(
    request: AnyRequest, name: Name, number: Number, reader: NamedDependency[AsyncConnection]
) -> JSON[ScenarioRevision]:
    """Get a revision of a scenario.

    What was asked and what was answered, byte for byte; the prices that were used; who saved it, when and why.
    """
    found = await revision_store.get_revision(reader, project_of(request), read_name(name), number)
    return conditional(request, revision_store.shown(found), found.etag, STORED_CACHE)


@post(
    "/{name:str}/revisions/{number:int}/restore",
    status_code=200,
    operation_id="restoreScenarioRevision",
    opt=About(
        scope="scenarios:write",
        conditional="write",
        headers=("ETag",),
        success="Restored: the newest revision.",
        examples=_RESTORES,
        database=True,
        errors=("409",),
    ).as_opt(),
)
async def restore_scenario_revision(
    request: AnyRequest,
    name: Name,
    number: Number,
    writer: NamedDependency[AsyncConnection],
    data: JSONBody[RevisionRestore] = _UNSAID,
) -> JSON[Scenario]:
    """Take up an older revision again.

    Its request and that very answer, byte for byte, become the newest revision; the scenario is a draft again. Nothing
    happens if it is the newest already. Needs If-Match; a body says why.
    """
    saved = await store.restore_revision(
        writer,
        actor_of(request),
        read_name(name),
        number,
        data.note,
        read_preconditions(request),
        may_approve=may_approve(request),
    )
    return tagged(saved)
