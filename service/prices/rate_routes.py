"""Rates over HTTP: listed, chosen among, over time, and compared between two revisions."""

from typing import Any

from litestar import get
from litestar.di import NamedDependency
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.encoding import encoded
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import project_of
from service.http.requests import query_of
from service.http.responses import JSON
from service.prices import comparison, operations, rate_store, store
from service.prices.operations import Prices
from service.prices.requests import PRIVATE, AnyRequest, Name, read_name
from service.prices.table_schemas import (
    ChoiceQuery,
    Comparison,
    ComparisonQuery,
    HistoryPage,
    HistoryQuery,
    RateChoice,
    RatePage,
    RateQuery,
)

# Read in the handlers: beside a connection as a second dependency, a bad query would cancel its opening half-way.
_rates_query = query_of(RateQuery)
_choice_query = query_of(ChoiceQuery)
_history_query = query_of(HistoryQuery)
_comparison_query = query_of(ComparisonQuery)


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
        reader,
        project_of(request),
        read_name(name),
        None if asked.revision is UNSET else asked.revision,
        ("query", "revision"),
    )
    accelerators = () if asked.gpu is UNSET else operations.accelerator_keys(asked.gpu)
    page = await rate_store.list_rates(reader, revision, asked, accelerators)
    return JSON(page.body, headers=(*PRIVATE, *next_link(request, page.next_cursor)))


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
        encoded(await operations.choose_rate(prices, project_of(request), read_name(name), _choice_query(request))),
        headers=PRIVATE,
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
    head = await store.get_head(reader, project_of(request), read_name(name))
    accelerators = () if asked.gpu is UNSET else operations.accelerator_keys(asked.gpu)
    page = await rate_store.list_history(reader, head, asked, accelerators)
    return JSON(page.body, headers=(*PRIVATE, *next_link(request, page.next_cursor)))


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
    project_id, table = project_of(request), read_name(name)
    newer = None if asked.to is UNSET else asked.to
    to = await store.get_revision(reader, project_id, table, newer, ("query", "to"))
    older = max(to.number - 1, 1) if asked.from_ is UNSET else asked.from_
    before = await store.get_revision(reader, project_id, table, older, ("query", "from"))
    found = await comparison.compare_revisions(reader, before, to, asked)
    return JSON(encoded(found), headers=(*PRIVATE, *next_link(request, found.next_cursor)))


RATE_HANDLERS: list[Any] = [list_rates, choose_rate, list_rate_history, compare_price_revisions]
