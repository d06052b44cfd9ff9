"""Revisions of price tables over HTTP: listed, read, added, imported from files and exported to them."""

from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.conditional import STORED_CACHE, conditional, read_preconditions, read_tags
from service.http.encoding import encoded
from service.http.once import read_once, said
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, project_of
from service.http.requests import query_of
from service.http.responses import JSON, Empty, Streamed
from service.prices import contents, operations, revision_store, store
from service.prices.file_imports import FileImport
from service.prices.importers.own_csv import write_rates
from service.prices.importers.schemas import MAX_BYTES
from service.prices.operations import Prices
from service.prices.requests import (
    CSV_TYPE,
    PRIVATE,
    AnyRequest,
    FileRequest,
    Name,
    Number,
    RevisionId,
    beside,
    options_of,
    read_name,
    require_file,
)
from service.prices.schemas import MAX_RATES
from service.prices.table_schemas import (
    ImportAnswer,
    ImportQuery,
    Revision,
    RevisionPage,
    RevisionQuery,
    RevisionWrite,
)

_CSV_ANSWER = {CSV_TYPE: {"schema": {"type": "string"}}}
_FILE = {
    CSV_TYPE: {"schema": {"type": "string", "format": "binary", "maxLength": MAX_BYTES}},
    "application/json": {
        "schema": {
            "type": ["object", "array"],
            "additionalProperties": {},
            "maxProperties": 1000,
            "items": {},
            "maxItems": MAX_RATES,
        }
    },
}

# Read in the handlers: beside a connection as a second dependency, a bad query would cancel its opening half-way.
_revisions_query = query_of(RevisionQuery)
_import_query = query_of(ImportQuery)


@get(
    "/{name:str}/revisions",
    operation_id="listPriceRevisions",
    opt=About(
        scope="prices:read", query=RevisionQuery, headers=("Link",), success="A page of revisions.", database=True
    ).as_opt(),
)
async def list_price_revisions(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[RevisionPage]:
    """List a table's revisions.

    The newest first. A revision never changes.
    """
    head = await store.get_head(reader, project_of(request), read_name(name))
    page = await revision_store.list_revisions(reader, head, _revisions_query(request))
    return JSON(encoded(page), headers=(*PRIVATE, *next_link(request, page.next_cursor)))


@post(
    "/{name:str}/revisions",
    status_code=200,
    operation_id="createPriceRevision",
    opt=About(
        scope="prices:write",
        conditional="add",
        idempotent=True,
        headers=("ETag",),
        success="Nothing is different: the newest revision.",
        created=True,
        database=True,
        errors=("404", "409"),
    ).as_opt(),
)
async def create_price_revision(
    request: AnyRequest, name: Name, data: JSONBody[RevisionWrite], prices: NamedDependency[Prices]
) -> JSON[Revision]:
    """Add a revision.

    All rates of the table, as they stand from now on; the older revisions stay. The same rates in any order make no new
    revision. Larger tables are imported. With If-Match only if nobody has changed the table.
    """
    once = await read_once(request)
    return said(
        await operations.write_revision(
            prices, actor_of(request), read_name(name), data, read_preconditions(request), once
        )
    )


@get(
    "/{name:str}/revisions/{number:int}",
    operation_id="getPriceRevision",
    opt=About(
        scope="prices:read", conditional="read", success="The revision.", database=True, errors=("422",)
    ).as_opt(),
)
async def get_price_revision(
    request: AnyRequest, name: Name, number: Number, reader: NamedDependency[AsyncConnection]
) -> JSON[Revision]:
    """Get a revision of a table.

    Who made it when, from what, and how many rates it holds; the rates themselves are under rates and export.
    """
    revision = await store.get_revision(reader, project_of(request), read_name(name), number)
    return conditional(request, encoded(revision), contents.revision_etag(revision), STORED_CACHE)


@get(
    "/{name:str}/revisions/{number:int}/export",
    operation_id="exportPriceRevision",
    media_type=CSV_TYPE,
    opt=About(
        scope="prices:read",
        conditional="read",
        success="The rates as CSV.",
        database=True,
        errors=("422",),
        content=_CSV_ANSWER,
    ).as_opt(),
)
async def export_price_revision(
    request: AnyRequest, name: Name, number: Number, prices: NamedDependency[Prices]
) -> Response[Any]:
    """Export a revision.

    All its rates as CSV, which an import reads back to the same revision.
    """
    async with prices.connected() as connection:
        revision = await store.get_revision(connection, project_of(request), read_name(name), number)
    return _exported(request, prices, revision)


@post(
    "/{name:str}/imports",
    status_code=200,
    operation_id="importPrices",
    request_class=FileRequest,
    opt=About(
        scope="prices:write",
        rate="imports",
        query=ImportQuery,
        conditional="add",
        idempotent=True,
        body=_FILE,
        success="Read, and nothing new: a dry run, or rates that the table has already.",
        created=True,
        database=True,
        errors=("404", "409", "413", "415"),
    ).as_opt(),
)
async def import_prices(request: AnyRequest, name: Name, prices: NamedDependency[Prices]) -> JSON[ImportAnswer]:
    """Import a price file.

    Of up to 20 MB and 200,000 rows, as CSV or JSON; its rates become the next revision, all of them or none. The report
    tells what became of every row. A column mapping is a JSON object in the query.
    """
    asked = _import_query(request)
    require_file(request)
    async with prices.connected() as connection:
        head = await store.get_head(connection, project_of(request), read_name(name))
    options = options_of(asked, head.currency)
    if asked.dry_run:
        return said(await operations.try_file(prices, head.name, await request.body(), options))
    once = await read_once(request)
    body, preconditions = await request.body(), read_preconditions(request)
    given = FileImport(actor_of(request), head.name, options, beside(asked), preconditions, once)
    return said(await operations.import_file(prices, given, body))


@get(
    "/{revision_id:int}",
    operation_id="getPriceRevisionById",
    opt=About(
        scope="prices:read", conditional="read", success="The revision.", database=True, errors=("422",)
    ).as_opt(),
)
async def get_price_revision_by_id(
    request: AnyRequest, revision_id: RevisionId, reader: NamedDependency[AsyncConnection]
) -> JSON[Revision]:
    """Get a revision by its id.

    Whatever became of its table: what was priced with it stays explained.
    """
    revision = await revision_store.get_revision_by_id(reader, project_of(request), revision_id)
    return conditional(request, encoded(revision), contents.revision_etag(revision), STORED_CACHE)


@get(
    "/{revision_id:int}/export",
    operation_id="exportPriceRevisionById",
    media_type=CSV_TYPE,
    opt=About(
        scope="prices:read",
        conditional="read",
        success="The rates as CSV.",
        database=True,
        errors=("422",),
        content=_CSV_ANSWER,
    ).as_opt(),
)
async def export_price_revision_by_id(
    request: AnyRequest, revision_id: RevisionId, prices: NamedDependency[Prices]
) -> Response[Any]:
    """Export a revision by its id.

    All its rates as CSV, whatever became of its table.
    """
    async with prices.connected() as connection:
        revision = await revision_store.get_revision_by_id(connection, project_of(request), revision_id)
    return _exported(request, prices, revision)


def _exported(request: AnyRequest, prices: Prices, revision: Revision) -> Response[Any]:
    etag = contents.revision_etag(revision)
    known = read_tags(request, "if-none-match")
    if known is not None and known.holds(etag, strong=False):
        return Empty(304, ((b"etag", etag.encode()), *PRIVATE))
    headers = ((b"etag", etag.encode()), *PRIVATE)
    return Streamed(operations.export(prices, revision, write_rates), headers, f"{CSV_TYPE}; charset=utf-8".encode())


REVISION_HANDLERS: list[Any] = [
    list_price_revisions,
    create_price_revision,
    get_price_revision,
    export_price_revision,
    import_prices,
]
REVISION_BY_ID_HANDLERS: list[Any] = [get_price_revision_by_id, export_price_revision_by_id]
