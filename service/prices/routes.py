"""Price tables over HTTP: the tables themselves, and the routers of all that is about prices."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from litestar import Router, delete, get, patch, post, put
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.conditional import STORED_CACHE, caching, conditional, read_preconditions
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, project_of
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.prices import contents, operations, store
from service.prices.operations import Prices
from service.prices.rate_routes import RATE_HANDLERS
from service.prices.requests import PRIVATE, AnyRequest, Name, read_name
from service.prices.revision_routes import REVISION_BY_ID_HANDLERS, REVISION_HANDLERS
from service.prices.table_schemas import PriceTable, PriceTablePage, PriceTablePatch, PriceTableQuery, PriceTableWrite

Connect = Callable[[], AsyncIterator[AsyncConnection]]
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


@get(
    "/",
    operation_id="listPriceTables",
    opt=About(
        scope="prices:read", query=PriceTableQuery, headers=("Link",), success="A page of price tables.", database=True
    ).as_opt(),
)
async def list_price_tables(request: AnyRequest, reader: NamedDependency[AsyncConnection]) -> JSON[PriceTablePage]:
    """List price tables.

    Sorted by name unless asked otherwise; pages follow each other by cursor.
    """
    page = await store.list_tables(reader, project_of(request), _tables_query(request))
    return JSON(encoded(page), headers=(*PRIVATE, *next_link(request, page.next_cursor)))


@get(
    "/{name:str}",
    operation_id="getPriceTable",
    opt=About(
        scope="prices:read",
        conditional="read",
        success="The price table.",
        database=True,
        errors=("422",),
        links=_LINKS,
    ).as_opt(),
)
async def get_price_table(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[PriceTable]:
    """Get a price table.

    With its newest revision, and with what it is known not to know.
    """
    found = await store.get_table(reader, project_of(request), read_name(name))
    return conditional(request, found.body, found.etag, STORED_CACHE)


@put(
    "/{name:str}",
    operation_id="putPriceTable",
    opt=About(
        scope="prices:write",
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
    saved = await store.save_table(writer, actor_of(request), read_name(name), data, read_preconditions(request))
    headers = [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)]
    if saved.created:
        headers.append((b"location", contents.table_path(read_name(name)).encode()))
    return JSON(saved.body, 201 if saved.created else 200, headers)


@patch(
    "/{name:str}",
    operation_id="patchPriceTable",
    opt=About(
        scope="prices:write", conditional="write", headers=("ETag",), success="Changed.", database=True, errors=("409",)
    ).as_opt(),
)
async def patch_price_table(
    request: AnyRequest, name: Name, data: JSONBody[PriceTablePatch], writer: NamedDependency[AsyncConnection]
) -> JSON[PriceTable]:
    """Change the description.

    A JSON merge patch; needs If-Match. Revisions stay as they are.
    """
    saved = await store.patch_table(writer, actor_of(request), read_name(name), data, read_preconditions(request))
    return JSON(saved.body, 200, [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)])


@delete(
    "/{name:str}",
    operation_id="deletePriceTable",
    opt=About(
        scope="prices:write", conditional="write", success="Deleted.", database=True, errors=("409", "422")
    ).as_opt(),
)
async def delete_price_table(request: AnyRequest, name: Name, prices: NamedDependency[Prices]) -> None:
    """Delete a price table.

    Needs If-Match; 409 while something uses it. Its name is free again, its revisions stay readable by their ids, and
    it can be restored.
    """
    async with prices.begin() as connection:
        await store.delete_table(connection, actor_of(request), read_name(name), read_preconditions(request))
    await operations.bring_up_to_date(prices)


@post(
    "/{name:str}/restore",
    status_code=200,
    operation_id="restorePriceTable",
    opt=About(
        scope="prices:write", headers=("ETag",), success="Restored.", database=True, errors=("409", "422")
    ).as_opt(),
)
async def restore_price_table(request: AnyRequest, name: Name, prices: NamedDependency[Prices]) -> JSON[PriceTable]:
    """Restore a deleted price table.

    The one that was deleted last under this name, with all its revisions; 409 if the name is taken again.
    """
    async with prices.begin() as connection:
        restored = await store.restore_table(connection, actor_of(request), read_name(name))
    await operations.bring_up_to_date(prices)
    return JSON(restored.body, 200, [(b"etag", restored.etag.encode()), *caching(STORED_CACHE)])


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
        *REVISION_HANDLERS,
        *RATE_HANDLERS,
    ]
    return [
        Router("/v1/price-tables", route_handlers=tables, **common),
        Router("/v1/price-revisions", route_handlers=REVISION_BY_ID_HANDLERS, **common),
    ]
