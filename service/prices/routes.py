"""Price tables over HTTP: tables, their revisions, files in and out."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from litestar import Response, Router, delete, get, patch, post, put
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.conditional import (
    STORED_CACHE,
    caching,
    conditional,
    read_preconditions,
    read_tags,
)
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.paging import next_link
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON, Empty, Streamed
from service.prices import operations, revision_store, store
from service.prices.importers.own_csv import write_rates
from service.prices.importers.schemas import MAX_BYTES
from service.prices.operations import Prices
from service.prices.rate_routes import RATE_HANDLERS
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
    read_once,
    require_file,
    said,
)
from service.prices.schemas import MAX_RATES
from service.prices.table_schemas import (
    ImportAnswer,
    ImportQuery,
    PriceTable,
    PriceTablePage,
    PriceTablePatch,
    PriceTableQuery,
    PriceTableWrite,
    Revision,
    RevisionPage,
    RevisionQuery,
    RevisionWrite,
)

Connect = Callable[[], AsyncIterator[AsyncConnection]]
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
_EXAMPLES = {
    "contract-prices": {"summary": "Our own prices", "value": {"currency": "USD", "description": "Contract prices"}}
}
_SAME_NAME = {"name": "$request.path.name"}
_WITH_TAG = {**_SAME_NAME, "If-Match": "$response.header.ETag"}
_LINKS = {
    "read": {"operationId": "getPriceTable", "parameters": _SAME_NAME},
    "replace": {"operationId": "putPriceTable", "parameters": _WITH_TAG},
    "describe": {"operationId": "patchPriceTable", "parameters": _WITH_TAG},
    "remove": {"operationId": "deletePriceTable", "parameters": _WITH_TAG},
    "revise": {"operationId": "createPriceRevision", "parameters": _SAME_NAME},
    "rates": {"operationId": "listRates", "parameters": _SAME_NAME},
}

# Read in the handlers: beside a connection as a second dependency, a bad query would cancel its opening half-way.
_tables_query = query_of(PriceTableQuery)
_revisions_query = query_of(RevisionQuery)
_import_query = query_of(ImportQuery)


@get(
    "/",
    operation_id="listPriceTables",
    opt=About(query=PriceTableQuery, headers=("Link",), success="A page of price tables.", database=True).as_opt(),
)
async def list_price_tables(request: AnyRequest, reader: NamedDependency[AsyncConnection]) -> JSON[PriceTablePage]:
    """List price tables.

    Sorted by name unless asked otherwise; pages follow each other by cursor.
    """
    page = await store.list_tables(reader, _tables_query(request))
    return JSON(encoded(page), headers=(*PRIVATE, *next_link(request, page.next_cursor)))


@get(
    "/{name:str}",
    operation_id="getPriceTable",
    opt=About(conditional="read", success="The price table.", database=True, errors=("422",), links=_LINKS).as_opt(),
)
async def get_price_table(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[PriceTable]:
    """Get a price table.

    With its newest revision, and with what it is known not to know.
    """
    found = await store.get_table(reader, read_name(name))
    return conditional(request, found.body, found.etag, STORED_CACHE)


@put(
    "/{name:str}",
    operation_id="putPriceTable",
    opt=About(
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
async def put_price_table(
    request: AnyRequest, name: Name, data: JSONBody[PriceTableWrite], writer: NamedDependency[AsyncConnection]
) -> JSON[PriceTable]:
    """Create or describe a price table.

    Its rates come in revisions. Replacing needs If-Match (428 without it, 412 when stale); `If-None-Match: *` creates
    only. The currency is fixed once there is a revision.
    """
    saved = await store.save_table(writer, read_name(name), data, read_preconditions(request))
    headers = [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)]
    if saved.created:
        headers.append((b"location", operations.table_path(read_name(name)).encode()))
    return JSON(saved.body, 201 if saved.created else 200, headers)


@patch(
    "/{name:str}",
    operation_id="patchPriceTable",
    opt=About(conditional="write", headers=("ETag",), success="Changed.", database=True, errors=("409",)).as_opt(),
)
async def patch_price_table(
    request: AnyRequest, name: Name, data: JSONBody[PriceTablePatch], writer: NamedDependency[AsyncConnection]
) -> JSON[PriceTable]:
    """Change the description.

    A JSON merge patch; needs If-Match. Revisions stay as they are.
    """
    saved = await store.patch_table(writer, read_name(name), data, read_preconditions(request))
    return JSON(saved.body, 200, [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)])


@delete(
    "/{name:str}",
    operation_id="deletePriceTable",
    opt=About(conditional="write", success="Deleted.", database=True, errors=("409", "422")).as_opt(),
)
async def delete_price_table(request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]) -> None:
    """Delete a price table.

    Needs If-Match; 409 while something uses it. Its name is free again, its revisions stay readable by their ids, and
    it can be restored.
    """
    await store.delete_table(writer, read_name(name), read_preconditions(request))


@post(
    "/{name:str}/restore",
    status_code=200,
    operation_id="restorePriceTable",
    opt=About(headers=("ETag",), success="Restored.", database=True, errors=("409", "422")).as_opt(),
)
async def restore_price_table(name: Name, writer: NamedDependency[AsyncConnection]) -> JSON[PriceTable]:
    """Restore a deleted price table.

    The one that was deleted last under this name, with all its revisions; 409 if the name is taken again.
    """
    restored = await store.restore_table(writer, read_name(name))
    return JSON(restored.body, 200, [(b"etag", restored.etag.encode()), *caching(STORED_CACHE)])


@get(
    "/{name:str}/revisions",
    operation_id="listPriceRevisions",
    opt=About(query=RevisionQuery, headers=("Link",), success="A page of revisions.", database=True).as_opt(),
)
async def list_price_revisions(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[RevisionPage]:
    """List a table's revisions.

    The newest first. A revision never changes.
    """
    head = await store.get_head(reader, read_name(name))
    page = await revision_store.list_revisions(reader, head, _revisions_query(request))
    return JSON(encoded(page), headers=(*PRIVATE, *next_link(request, page.next_cursor)))


@post(
    "/{name:str}/revisions",
    status_code=200,
    operation_id="createPriceRevision",
    opt=About(
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
    return said(await operations.write_revision(prices, read_name(name), data, read_preconditions(request), once))


@get(
    "/{name:str}/revisions/{number:int}",
    operation_id="getPriceRevision",
    opt=About(conditional="read", success="The revision.", database=True, errors=("422",)).as_opt(),
)
async def get_price_revision(
    request: AnyRequest, name: Name, number: Number, reader: NamedDependency[AsyncConnection]
) -> JSON[Revision]:
    """Get a revision of a table.

    Who made it when, from what, and how many rates it holds; the rates themselves are under rates and export.
    """
    revision = await store.get_revision(reader, read_name(name), number)
    return conditional(request, encoded(revision), operations.revision_etag(revision), STORED_CACHE)


@get(
    "/{name:str}/revisions/{number:int}/export",
    operation_id="exportPriceRevision",
    media_type=CSV_TYPE,
    opt=About(
        conditional="read", success="The rates as CSV.", database=True, errors=("422",), content=_CSV_ANSWER
    ).as_opt(),
)
async def export_price_revision(
    request: AnyRequest, name: Name, number: Number, prices: NamedDependency[Prices]
) -> Response[Any]:
    """Export a revision.

    All its rates as CSV, which an import reads back to the same revision.
    """
    async with prices.connected() as connection:
        revision = await store.get_revision(connection, read_name(name), number)
    return _exported(request, prices, revision)


@post(
    "/{name:str}/imports",
    status_code=200,
    operation_id="importPrices",
    request_class=FileRequest,
    opt=About(
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
    once = None if asked.dry_run else await read_once(request)
    async with prices.connected() as connection:
        head = await store.get_head(connection, read_name(name))
    return said(
        await operations.import_file(
            prices,
            head.name,
            await request.body(),
            options_of(asked, head.currency),
            beside(asked),
            read_preconditions(request),
            once,
            dry_run=asked.dry_run,
        )
    )


@get(
    "/{revision_id:int}",
    operation_id="getPriceRevisionById",
    opt=About(conditional="read", success="The revision.", database=True, errors=("422",)).as_opt(),
)
async def get_price_revision_by_id(
    request: AnyRequest, revision_id: RevisionId, reader: NamedDependency[AsyncConnection]
) -> JSON[Revision]:
    """Get a revision by its id.

    Whatever became of its table: what was priced with it stays explained.
    """
    revision = await revision_store.get_revision_by_id(reader, revision_id)
    return conditional(request, encoded(revision), operations.revision_etag(revision), STORED_CACHE)


@get(
    "/{revision_id:int}/export",
    operation_id="exportPriceRevisionById",
    media_type=CSV_TYPE,
    opt=About(
        conditional="read", success="The rates as CSV.", database=True, errors=("422",), content=_CSV_ANSWER
    ).as_opt(),
)
async def export_price_revision_by_id(
    request: AnyRequest, revision_id: RevisionId, prices: NamedDependency[Prices]
) -> Response[Any]:
    """Export a revision by its id.

    All its rates as CSV, whatever became of its table.
    """
    async with prices.connected() as connection:
        revision = await revision_store.get_revision_by_id(connection, revision_id)
    return _exported(request, prices, revision)


def _exported(request: AnyRequest, prices: Prices, revision: Revision) -> Response[Any]:
    etag = operations.revision_etag(revision)
    known = read_tags(request, "if-none-match")
    if known is not None and known.holds(etag, strong=False):
        return Empty(304, ((b"etag", etag.encode()), *PRIVATE))
    headers = ((b"etag", etag.encode()), *PRIVATE)
    return Streamed(operations.export(prices, revision, write_rates), headers, f"{CSV_TYPE}; charset=utf-8".encode())


def price_routers(reading: Connect, writing: Connect, prices: Prices) -> list[Router]:
    """The routes, given how to get a connection for reading, a transaction for writing, and what is in memory."""
    common: dict[str, Any] = {
        "dependencies": {
            "reader": Provide(reading),
            "writer": Provide(writing),
            "prices": Provide(lambda: prices, sync_to_thread=False),
        },
        "dto": StrictBody,
        "request_class": FastRequest,
        "tags": ["Price tables"],
    }
    tables = [
        list_price_tables,
        get_price_table,
        put_price_table,
        patch_price_table,
        delete_price_table,
        restore_price_table,
        list_price_revisions,
        create_price_revision,
        get_price_revision,
        export_price_revision,
        import_prices,
        *RATE_HANDLERS,
    ]
    by_id = [get_price_revision_by_id, export_price_revision_by_id]
    return [
        Router("/v1/price-tables", route_handlers=tables, **common),
        Router("/v1/price-revisions", route_handlers=by_id, **common),
    ]
