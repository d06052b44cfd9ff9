"""GET and POST /v1/estimates: what a run will cost and when it will end."""

import asyncio
from typing import Annotated, Any

from litestar import Request, Router, get, post
from litestar.di import NamedDependency, Provide
from litestar.middleware import DefineMiddleware
from litestar.params import JSONBody
from litestar.types import Scope
from msgspec import Meta, Struct

from service.errors import BrokenRule, NotFound
from service.estimates.examples import EXAMPLES
from service.estimates.held import Held, Tables
from service.estimates.operations import classic_estimate, estimate, reads_tables, takes_long
from service.estimates.schemas import ClassicQuery, EstimateRequest
from service.estimates.tables import tables_of
from service.estimator.results import Estimate
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.principal import principal_in, project_of
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.http.straight import Straight
from service.prices.snapshots import ProjectTables, Snapshots


@get(
    "/",
    operation_id="getClassicEstimate",
    opt=About(query=ClassicQuery).as_opt(),
    dependencies={"asked": Provide(query_of(ClassicQuery), sync_to_thread=False)},
    sync_to_thread=False,
)
def get_classic_estimate(asked: NamedDependency[ClassicQuery]) -> JSON[Estimate]:
    """Estimate by the classic seven fields.

    A link that can be kept and shared: every field is optional and has the classic calculator's default.
    """
    return JSON(encoded(classic_estimate(asked)), headers=_CACHEABLE)


class EstimateQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How much is said."""

    explain: Annotated[
        bool, Meta(description="Every formula that was used too, with its numbers put in, its result and its source.")
    ] = False


class Read(Struct, frozen=True):
    """The revisions that one request reads: whatever else is read meanwhile, these stay."""

    revisions: dict[tuple[str, int | None], Held | BrokenRule]

    def find(self, name: str, revision: int | None = None) -> Held | None:
        """One of them; None where it does not exist, BrokenRule where it cannot be read."""
        found = self.revisions.get((name, revision))
        if isinstance(found, BrokenRule):
            raise found
        return found


async def held_tables(tables: ProjectTables, request: EstimateRequest) -> Tables:
    """All that the request reads, in memory; what does not exist is told by the estimate."""
    found: dict[tuple[str, int | None], Held | BrokenRule] = {}
    for name, revision in tables_of(request) if reads_tables(request) else ():
        for wanted in (revision, None):  # the newest is named where the one that is asked for is not there
            try:
                found[name, wanted] = await tables.get(name, wanted)
            except NotFound:
                continue
            except BrokenRule as error:
                found[name, wanted] = error
            break
    return Read(found)


def estimate_router(snapshots: Snapshots) -> Router:
    """The routes, given the price tables that are in memory."""

    def answer_at_once(request: EstimateRequest, scope: Scope) -> bytes:
        tables = snapshots.kept(principal_in(scope).project_id) if reads_tables(request) else None
        return encoded(estimate(request, tables=tables))

    @post(
        "/",
        middleware=[DefineMiddleware(Straight, kind=EstimateRequest, answer=answer_at_once, takes_long=takes_long)],
        status_code=200,
        operation_id="createEstimate",
        opt=About(query=EstimateQuery, examples=EXAMPLES).as_opt(),
        dependencies={"asked": Provide(query_of(EstimateQuery), sync_to_thread=False)},
    )
    async def create_estimate(
        request: Request[Any, Any, Any], data: JSONBody[EstimateRequest], asked: NamedDependency[EstimateQuery]
    ) -> JSON[Estimate]:
        """Estimate a run.

        Every section is optional; `{}` is the classic calculator. Nothing is stored. The same request gets the
        same bytes; where prices are read from a table without a revision or a day, the answer says which were used.
        """
        tables = await held_tables(snapshots.of(project_of(request)), data)
        if takes_long(data):  # in a thread, so that others are answered meanwhile
            return JSON(await asyncio.to_thread(lambda: encoded(estimate(data, explain=asked.explain, tables=tables))))
        return JSON(encoded(estimate(data, explain=asked.explain, tables=tables)))

    return Router(
        "/v1/estimates",
        route_handlers=[get_classic_estimate, create_estimate],
        opt={"scope": "estimates:run", "rate": "estimates"},
        dto=StrictBody,
        request_class=FastRequest,
        tags=["Estimates"],
    )


_CACHEABLE = ((b"cache-control", b"public, max-age=3600"),)
