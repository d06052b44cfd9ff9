"""What was paid, over HTTP: recorded period by period, listed, deleted, imported from a file."""

import re
from typing import Annotated, Any
from urllib.parse import quote

from litestar import delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import BadRequest, BrokenRule, Fault
from service.http.conditional import STORED_CACHE, caching, conditional, read_preconditions
from service.http.encoding import encoded
from service.http.once import read_once, said
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, project_of
from service.http.requests import query_of
from service.http.responses import JSON
from service.prices.operations import Prices
from service.scenarios import actual_store, operations
from service.scenarios.actual_files import period_of
from service.scenarios.actual_schemas import (
    PERIOD_LENGTH,
    PERIOD_PATTERN,
    Actual,
    ActualImport,
    ActualImportQuery,
    ActualPage,
    ActualQuery,
    ActualWrite,
    Period,
)
from service.scenarios.requests import AnyRequest, Name, read_name

_CSV_TYPE = "text/csv"
_PERIOD = re.compile(PERIOD_PATTERN, re.ASCII)
PeriodInPath = Annotated[
    str,
    PathParameter(
        schema_extra={"pattern": PERIOD_PATTERN, "min_length": PERIOD_LENGTH, "max_length": PERIOD_LENGTH},
        description="The first day, and the first day after the period, as in 2027-01-01..2027-02-01 (UTC).",
    ),
]
_EXAMPLES = {
    "a month": {
        "summary": "What January came to",
        "value": {"amount": "118250.00", "gpu_hours": 43000, "productive_gpu_hours": 37500, "note": "invoice 2027-017"},
    }
}
_CSV_EXAMPLE = (
    "period_start,period_end,amount,gpu_hours,tokens_done\n"
    "2027-01-01,2027-02-01,118250.00,43000,310000000000\n"
    "2027-02-01,2027-03-01,101400.00,36800,280000000000\n"
)
_FILE = {
    _CSV_TYPE: {
        "schema": {"type": "string", "format": "binary"},
        "examples": {"two months": {"summary": "Two months", "value": _CSV_EXAMPLE}},
    }
}
_SAME_PERIOD = {"name": "$request.path.name", "period": "$request.path.period"}
_LINKS = {
    "read": {"operationId": "getActual", "parameters": _SAME_PERIOD},
    "forecast": {"operationId": "getScenarioForecast", "parameters": {"name": "$request.path.name"}},
    "remove": {"operationId": "deleteActual", "parameters": {**_SAME_PERIOD, "If-Match": "$response.header.ETag"}},
}
# Read in the handlers: beside a connection as a second dependency, a bad query would cancel its opening half-way.
_list_query = query_of(ActualQuery)
_import_query = query_of(ActualImportQuery)


@get(
    "/{name:str}/actuals",
    operation_id="listActuals",
    opt=About(
        scope="scenarios:read", query=ActualQuery, headers=("Link",), success="A page of records.", database=True
    ).as_opt(),
)
async def list_actuals(request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]) -> JSON[ActualPage]:
    """List what was paid.

    By period, the earliest first.
    """
    page = await actual_store.list_actuals(reader, project_of(request), read_name(name), _list_query(request))
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


@get(
    "/{name:str}/actuals/{period:str}",
    operation_id="getActual",
    opt=About(
        scope="scenarios:read", conditional="read", success="The record.", database=True, errors=("422",)
    ).as_opt(),
)
async def get_actual(
    request: AnyRequest, name: Name, period: PeriodInPath, reader: NamedDependency[AsyncConnection]
) -> JSON[Actual]:
    """Get what was paid for a period.

    The record of exactly this period.
    """
    found = await actual_store.get_actual(reader, project_of(request), read_name(name), _period(period))
    return conditional(request, encoded(found), found.etag, STORED_CACHE)


@put(
    "/{name:str}/actuals/{period:str}",
    operation_id="putActual",
    opt=About(
        scope="scenarios:write",
        conditional="write",
        headers=("ETag",),
        success="Replaced.",
        created=True,
        examples=_EXAMPLES,
        links=_LINKS,
        database=True,
        errors=("404", "409"),
    ).as_opt(),
)
async def put_actual(
    request: AnyRequest,
    name: Name,
    period: PeriodInPath,
    data: JSONBody[ActualWrite],
    writer: NamedDependency[AsyncConnection],
) -> JSON[Actual]:
    """Record what was paid for a period.

    What it came to, in the scenario's currency. Replacing a record needs If-Match, but one that says the same already
    stays as it is, so that a lost answer can be asked for again. A period that overlaps another one is a 409.
    """
    canonical, days = read_name(name), _period(period)
    stored = await actual_store.save_actual(
        writer, actor_of(request), canonical, days, data, read_preconditions(request)
    )
    headers = [(b"etag", stored.actual.etag.encode()), *caching(STORED_CACHE)]
    if stored.created:
        headers.append((b"location", f"/v1/scenarios/{quote(canonical, safe='')}/actuals/{days}".encode()))
    return JSON(encoded(stored.actual), 201 if stored.created else 200, headers)


@delete(
    "/{name:str}/actuals/{period:str}",
    operation_id="deleteActual",
    opt=About(
        scope="scenarios:write", conditional="write", success="Deleted.", database=True, errors=("409", "422")
    ).as_opt(),
)
async def delete_actual(
    request: AnyRequest, name: Name, period: PeriodInPath, writer: NamedDependency[AsyncConnection]
) -> None:
    """Delete what was recorded for a period.

    Needs If-Match. The audit log keeps that it was there.
    """
    await actual_store.delete_actual(
        writer, actor_of(request), read_name(name), _period(period), read_preconditions(request)
    )


@post(
    "/{name:str}/actuals/import",
    status_code=200,
    operation_id="importActuals",
    opt=About(
        scope="scenarios:write",
        rate="imports",
        query=ActualImportQuery,
        idempotent=True,
        body=_FILE,
        success="What became of every row.",
        database=True,
        errors=("404", "409", "413", "415", "422"),
    ).as_opt(),
)
async def import_actuals(request: AnyRequest, name: Name, prices: NamedDependency[Prices]) -> JSON[ActualImport]:
    """Import what was paid.

    A CSV file with the columns period_start, period_end (exclusive), amount and, where known, gpu_hours, tokens_done,
    productive_gpu_hours, note. All rows are taken or none; what stands against it is told by line.
    """
    asked = _import_query(request)
    _require_csv(request)
    canonical, once, body = read_name(name), await read_once(request), await request.body()
    replace = asked.on_existing == "replace"
    return said(await operations.import_file(prices, actor_of(request), canonical, body, once=once, replace=replace))


def _period(raw: str) -> Period:
    """BadRequest where it is not written as one, BrokenRule where it cannot be one."""
    if not _PERIOD.fullmatch(raw):
        told = "A period is written as 2027-01-01..2027-02-01: its first day, and the first day after it"
        raise BadRequest("malformed-parameter", told + ".", (Fault("path", "period", told),))
    start, _, end = raw.partition("..")
    try:
        return period_of(start, end)
    except ValueError as error:
        raise BrokenRule.at("period", str(error), "path") from None


def _require_csv(request: AnyRequest) -> None:
    """One Content-Type, of CSV, and no encoding over it."""
    given = request.headers.getall("content-type", [])
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    header, told = "Content-Type", ""
    if encoding != "identity":
        header, told = "Content-Encoding", "Bodies are read as they are: no Content-Encoding is accepted"
    elif len(given) != 1 or given[0].partition(";")[0].strip().lower() != _CSV_TYPE:
        told = f"Content-Type must be {_CSV_TYPE}; it is {' and '.join(map(ascii, given)) or 'missing'}"
    if told:
        raise BadRequest("unsupported-media-type", told + ".", (Fault("header", header, told),))


ACTUAL_HANDLERS: list[Any] = [list_actuals, get_actual, put_actual, delete_actual, import_actuals]
