"""Price tables over HTTP: heads, revisions, imports, rates, and the one rate that answers a question."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, patch, post, put
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import BadRequest, BrokenRule, Fault
from service.http.conditional import (
    STORED_CACHE,
    caching,
    conditional,
    read_preconditions,
    read_tags,
)
from service.http.encoding import encoded
from service.http.once import read_once, said
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, project_of
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON, Empty, Streamed
from service.http.text import NAME_MAX_LENGTH, NAME_PATTERN, canonical_name
from service.prices import comparison, operations, rate_store, store
from service.prices.importers.own_csv import write_rates
from service.prices.importers.schemas import MAX_BYTES, ImportOptions, Mapping
from service.prices.operations import Prices
from service.prices.schemas import MAX_RATES
from service.prices.table_schemas import (
    ChoiceQuery,
    Comparison,
    ComparisonQuery,
    HistoryPage,
    HistoryQuery,
    ImportAnswer,
    ImportQuery,
    PriceTable,
    PriceTablePage,
    PriceTablePatch,
    PriceTableQuery,
    PriceTableWrite,
    RateChoice,
    RatePage,
    RateQuery,
    Revision,
    RevisionPage,
    RevisionQuery,
    RevisionWrite,
)

Connect = Callable[[], AsyncIterator[AsyncConnection]]
AnyRequest = Request[Any, Any, Any]
Name = Annotated[
    str,
    PathParameter(
        # Said in the contract and checked by `canonical_name`, which looks at the name in NFC.
        schema_extra={"pattern": NAME_PATTERN, "min_length": 1, "max_length": NAME_MAX_LENGTH},
        description="The price table's name: unique in any case, kept in NFC.",
    ),
]
Number = Annotated[int, PathParameter(ge=1, le=2**31 - 1, description="The revision's number in its table.")]
RevisionId = Annotated[int, PathParameter(ge=1, le=2**53, description="The revision's id, good for ever.")]

CSV_TYPE = "text/csv"
_CSV_ANSWER = {CSV_TYPE: {"schema": {"type": "string"}}}
_FILE_TYPES = (CSV_TYPE, "application/json")
_FILE = {
    CSV_TYPE: {"schema": {"type": "string", "pattern": "", "maxLength": MAX_BYTES}},
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
_rates_query = query_of(RateQuery)
_choice_query = query_of(ChoiceQuery)
_history_query = query_of(HistoryQuery)
_comparison_query = query_of(ComparisonQuery)
_import_query = query_of(ImportQuery)


class FileRequest(FastRequest):
    """A request whose body is a price file."""

    max_body_bytes = MAX_BYTES


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
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


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
    found = await store.get_table(reader, project_of(request), _name(name))
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
    saved = await store.save_table(writer, actor_of(request), _name(name), data, read_preconditions(request))
    headers = [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)]
    if saved.created:
        headers.append((b"location", operations.table_path(_name(name)).encode()))
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
    saved = await store.patch_table(writer, actor_of(request), _name(name), data, read_preconditions(request))
    return JSON(saved.body, 200, [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)])


@delete(
    "/{name:str}",
    operation_id="deletePriceTable",
    opt=About(
        scope="prices:write", conditional="write", success="Deleted.", database=True, errors=("409", "422")
    ).as_opt(),
)
async def delete_price_table(request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]) -> None:
    """Delete a price table.

    Needs If-Match; 409 while something uses it. Its name is free again, its revisions stay readable by their ids, and
    it can be restored.
    """
    await store.delete_table(writer, actor_of(request), _name(name), read_preconditions(request))


@post(
    "/{name:str}/restore",
    status_code=200,
    operation_id="restorePriceTable",
    opt=About(
        scope="prices:write", headers=("ETag",), success="Restored.", database=True, errors=("409", "422")
    ).as_opt(),
)
async def restore_price_table(
    request: AnyRequest, name: Name, writer: NamedDependency[AsyncConnection]
) -> JSON[PriceTable]:
    """Restore a deleted price table.

    The one that was deleted last under this name, with all its revisions; 409 if the name is taken again.
    """
    restored = await store.restore_table(writer, actor_of(request), _name(name))
    return JSON(restored.body, 200, [(b"etag", restored.etag.encode()), *caching(STORED_CACHE)])


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
    page = await store.list_revisions(reader, project_of(request), _name(name), _revisions_query(request))
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


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
        await operations.write_revision(prices, actor_of(request), _name(name), data, read_preconditions(request), once)
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
    revision = await store.get_revision(reader, project_of(request), _name(name), number)
    return conditional(request, encoded(revision), operations.revision_etag(revision), STORED_CACHE)


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
        revision = await store.get_revision(connection, project_of(request), _name(name), number)
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
    _require_file(request)
    async with prices.connected() as connection:
        head = await store.get_head(connection, project_of(request), _name(name))
    options = _options(asked, head.currency)
    if asked.dry_run:
        return said(await operations.try_file(head.name, await request.body(), options))
    once = await read_once(request)
    body, preconditions = await request.body(), read_preconditions(request)
    return said(
        await operations.import_file(
            prices, actor_of(request), head.name, body, options, _beside(asked), preconditions, once
        )
    )


@get(
    "/{name:str}/rates",
    operation_id="listRates",
    opt=About(
        scope="prices:read", query=RateQuery, headers=("Link",), success="A page of rates.", database=True
    ).as_opt(),
)
async def list_rates(request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]) -> JSON[RatePage]:
    """List rates.

    Of the newest revision or of another, by filters that all must hold; by offer, and of one offer the newest first.
    """
    asked = _rates_query(request)
    revision = await store.get_revision(
        reader, project_of(request), _name(name), None if asked.revision is UNSET else asked.revision
    )
    accelerator = None if asked.gpu is UNSET else operations.accelerator_key(asked.gpu)
    page = await rate_store.list_rates(reader, revision, asked, accelerator)
    return JSON(page.body, headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


@get(
    "/{name:str}/choice",
    operation_id="chooseRate",
    opt=About(scope="prices:read", query=ChoiceQuery, success="The rate.", database=True).as_opt(),
)
async def choose_rate(request: AnyRequest, name: Name, prices: NamedDependency[Prices]) -> JSON[RateChoice]:
    """Choose a rate.

    The one that an estimate uses: of each offer that fits purchase and number of GPUs the newest that holds on the day,
    of these the most specific, then the cheapest. With the candidates that it was better than; where there is none, the
    problem names what there is instead.
    """
    return JSON(
        encoded(await operations.choose_rate(prices, project_of(request), _name(name), _choice_query(request))),
        headers=_PRIVATE,
    )


@get(
    "/{name:str}/history",
    operation_id="listRateHistory",
    opt=About(
        scope="prices:read", query=HistoryQuery, headers=("Link",), success="A page of rates over time.", database=True
    ).as_opt(),
)
async def list_rate_history(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[HistoryPage]:
    """List a rate over time.

    The rates that pass the filters in every revision of the table, the newest revision first.
    """
    asked = _history_query(request)
    head = await store.get_head(reader, project_of(request), _name(name))
    accelerator = None if asked.gpu is UNSET else operations.accelerator_key(asked.gpu)
    page = await rate_store.list_history(reader, head, asked, accelerator)
    return JSON(page.body, headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


@get(
    "/{name:str}/comparison",
    operation_id="comparePriceRevisions",
    opt=About(
        scope="prices:read", query=ComparisonQuery, headers=("Link",), success="What changed.", database=True
    ).as_opt(),
)
async def compare_price_revisions(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[Comparison]:
    """Compare two revisions.

    What was added, removed or changed between them, with the change of the price in percent.
    """
    asked = _comparison_query(request)
    to = await store.get_revision(reader, project_of(request), _name(name), None if asked.to is UNSET else asked.to)
    before = await store.get_revision(
        reader, project_of(request), _name(name), max(to.number - 1, 1) if asked.from_ is UNSET else asked.from_
    )
    found = await comparison.compare_revisions(reader, before, to, asked)
    return JSON(encoded(found), headers=(*caching(STORED_CACHE), *next_link(request, found.next_cursor)))


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
    revision = await store.get_revision_by_id(reader, project_of(request), revision_id)
    return conditional(request, encoded(revision), operations.revision_etag(revision), STORED_CACHE)


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
        revision = await store.get_revision_by_id(connection, project_of(request), revision_id)
    return _exported(request, prices, revision)


_PRIVATE = caching(STORED_CACHE)


def _exported(request: AnyRequest, prices: Prices, revision: Revision) -> Response[Any]:
    etag = operations.revision_etag(revision)
    known = read_tags(request, "if-none-match")
    if known is not None and known.holds(etag, strong=False):
        return Empty(304, ((b"etag", etag.encode()), *_PRIVATE))
    headers = ((b"etag", etag.encode()), *_PRIVATE)
    return Streamed(operations.export(prices, revision, write_rates), headers, f"{CSV_TYPE}; charset=utf-8".encode())


def _require_file(request: AnyRequest) -> None:
    """One Content-Type, of CSV or JSON, and no encoding over it."""
    given = request.headers.getall("content-type", [])
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        message = "Bodies are read as they are: no Content-Encoding is accepted"
        raise BadRequest("unsupported-media-type", message + ".", (Fault("header", "Content-Encoding", message),))
    if len(given) != 1 or given[0].partition(";")[0].strip().lower() not in _FILE_TYPES:
        message = (
            f"Content-Type must be {' or '.join(_FILE_TYPES)}; it is {' and '.join(map(ascii, given)) or 'missing'}"
        )
        raise BadRequest("unsupported-media-type", message + ".", (Fault("header", "Content-Type", message),))


def _options(asked: ImportQuery, currency: str) -> ImportOptions:
    as_of = asked.as_of or None
    return ImportOptions(
        format=asked.format,
        mapping=None if asked.mapping is UNSET else _mapping(asked.mapping),
        on_error=asked.on_error,
        provider=asked.provider or None,
        source=asked.source or None,
        currency=currency,
        confidence=asked.confidence,
        valid_from=asked.valid_from or None,
        valid_to=asked.valid_to or None,
        seen_on=asked.seen_on or as_of,
        free_is_real=asked.free_is_real,
        encoding=asked.encoding,
        delimiter=asked.delimiter,
        decimal_mark=asked.decimal_mark,
    )


def _mapping(text: str) -> Mapping:
    try:
        return msgspec.json.decode(text, type=Mapping)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BrokenRule.at("mapping", f"It is no column mapping: {error}", "query") from None


def _beside(asked: ImportQuery) -> RevisionWrite:
    return RevisionWrite(
        rates=(),
        author=asked.author or "",
        note=asked.note or "",
        source=asked.source or "",
        licence=asked.licence or "",
        as_of=asked.as_of or None,
    )


def _name(raw: str) -> str:
    return canonical_name(raw, "path", "name")


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
        list_rates,
        choose_rate,
        list_rate_history,
        compare_price_revisions,
    ]
    by_id = [get_price_revision_by_id, export_price_revision_by_id]
    return [
        Router("/v1/price-tables", route_handlers=tables, **common),
        Router("/v1/price-revisions", route_handlers=by_id, **common),
    ]
