"""GET and POST /v1/estimates: what a run will cost and when it will end."""

import asyncio
from typing import Annotated

from litestar import Router, get, post
from litestar.di import NamedDependency, Provide
from litestar.middleware import DefineMiddleware
from litestar.params import JSONBody
from msgspec import Meta, Struct

from service.estimates.examples import EXAMPLES
from service.estimates.operations import classic_estimate, estimate, takes_long
from service.estimates.schemas import ClassicQuery, EstimateRequest
from service.estimator.results import Estimate
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.http.straight import Straight


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


def _answer(request: EstimateRequest) -> bytes:
    return encoded(estimate(request))


@post(
    "/",
    middleware=[DefineMiddleware(Straight, kind=EstimateRequest, answer=_answer, takes_long=takes_long)],
    status_code=200,
    operation_id="createEstimate",
    opt=About(query=EstimateQuery, examples=EXAMPLES).as_opt(),
    dependencies={"asked": Provide(query_of(EstimateQuery), sync_to_thread=False)},
)
async def create_estimate(data: JSONBody[EstimateRequest], asked: NamedDependency[EstimateQuery]) -> JSON[Estimate]:
    """Estimate a run.

    Every section is optional; `{}` is the classic calculator. Nothing is stored. The same request gets the
    same bytes.
    """
    if takes_long(data):  # in a thread, so that others are answered meanwhile
        return JSON(await asyncio.to_thread(lambda: encoded(estimate(data, explain=asked.explain))))
    return JSON(encoded(estimate(data, explain=asked.explain)))


_CACHEABLE = ((b"cache-control", b"public, max-age=3600"),)

router = Router(
    "/v1/estimates",
    route_handlers=[get_classic_estimate, create_estimate],
    opt={"scope": "estimates:run", "rate": "estimates"},
    dto=StrictBody,
    request_class=FastRequest,
    tags=["Estimates"],
)
