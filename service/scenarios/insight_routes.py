"""What is worked out of stored scenarios, over HTTP: differences, comparisons, other prices, months, forecasts."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from litestar import Router, get, post
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import Forbidden
from service.http.conditional import STORED_CACHE, caching, read_preconditions
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.principal import actor_of, principal_of, project_of
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.prices.operations import Prices
from service.scenarios import operations
from service.scenarios.actual_routes import ACTUAL_HANDLERS
from service.scenarios.arithmetic.comparison import ScenarioComparison
from service.scenarios.insight_schemas import (
    ComparisonRequest,
    DiffRequest,
    ForecastQuery,
    PhasingQuery,
    Reprice,
    Repriced,
    RepriceQuery,
    ScenarioDiff,
    ScenarioForecast,
    ScenarioPhasing,
)
from service.scenarios.requests import AnyRequest, Name, may_approve, read_name

Connect = Callable[[], AsyncIterator[AsyncConnection]]
_PRIVATE = caching(STORED_CACHE)
_DIFFS = {
    "two revisions": {
        "summary": "What the second revision changed",
        "value": {"before": {"name": "base-model", "revision": 1}, "after": {"name": "base-model", "revision": 2}},
    },
    "two currencies": {
        "summary": "Two scenarios in two currencies, at a stated rate",
        "value": {
            "before": {"name": "on-aws"},
            "after": {
                "name": "in-frankfurt",
                "rates": {"currency": "USD", "as_of": "2027-01-04", "rates": {"EUR": "1.08"}, "source": "treasury"},
            },
        },
    },
}
_COMPARISONS = {
    "three offers": {
        "summary": "Three scenarios, one of them in euros",
        "value": {
            "scenarios": [{"name": "on-aws"}, {"name": "on-spot"}, {"name": "in-frankfurt", "revision": 2}],
            "rates": {"currency": "USD", "as_of": "2027-01-04", "rates": {"EUR": "1.08"}, "source": "treasury"},
        },
    }
}
_REPRICES = {
    "newest": {"summary": "The newest prices and the current model", "value": {}},
}
_reprice_query = query_of(RepriceQuery)
_phasing_query = query_of(PhasingQuery)
_forecast_query = query_of(ForecastQuery)


@post(
    "/",
    status_code=200,
    operation_id="diffScenarios",
    opt=About(
        scope="scenarios:read",
        rate="estimates",
        success="The difference and its effects.",
        examples=_DIFFS,
        database=True,
        errors=("404",),
    ).as_opt(),
)
async def diff_scenarios(
    request: AnyRequest, data: JSONBody[DiffRequest], prices: NamedDependency[Prices]
) -> JSON[ScenarioDiff]:
    """Explain a difference.

    Why the total of one scenario or revision is not that of another: by input field, price, model version and currency,
    in this order, adding up to the cent. Each is evaluated with the prices that it was stored with. Nothing is stored.
    """
    return JSON(encoded(await operations.diff(prices, project_of(request), data)), headers=_PRIVATE)


@post(
    "/",
    status_code=200,
    operation_id="compareScenarios",
    opt=About(
        scope="scenarios:read",
        rate="estimates",
        success="All beside the first.",
        examples=_COMPARISONS,
        database=True,
        errors=("404",),
    ).as_opt(),
)
async def compare_scenarios(
    request: AnyRequest, data: JSONBody[ComparisonRequest], prices: NamedDependency[Prices]
) -> JSON[ScenarioComparison]:
    """Compare scenarios.

    Two to twenty side by side as they were stored: totals and components against the first, the cheapest, the fastest,
    and which are never the choice. Other currencies at the rates that you state.
    """
    return JSON(encoded(await operations.compare(prices, project_of(request), data)), headers=_PRIVATE)


@post(
    "/{name:str}/reprice",
    status_code=200,
    operation_id="repriceScenario",
    opt=About(
        scope="scenarios:read",
        rate="estimates",
        query=RepriceQuery,
        conditional="write",
        success="What it comes to now, and why that differs.",
        examples=_REPRICES,
        database=True,
        errors=("403", "409"),
    ).as_opt(),
)
async def reprice_scenario(
    request: AnyRequest, name: Name, data: JSONBody[Reprice], prices: NamedDependency[Prices]
) -> JSON[Repriced]:
    """Price a scenario anew.

    With other prices and by the current model, and why that differs from what is stored. Another `table` or `revision`
    needs the scope `prices:read`. Nothing is stored unless `save=true`, which needs the scope `scenarios:write` and
    If-Match, and makes a revision if the request or its answer is another than the newest's.
    """
    query, preconditions = _reprice_query(request), read_preconditions(request)
    if data.table is not UNSET or data.revision is not UNSET:
        _require(request, "prices:read", "To choose the prices")
    if query.save:
        _require(request, "scenarios:write", "To save")
        saved, etag = await operations.save_anew(
            prices,
            actor_of(request),
            read_name(name),
            data,
            query,
            preconditions,
            may_approve=may_approve(request),
        )
        return JSON(encoded(saved), headers=((b"etag", etag.encode()), *_PRIVATE))
    read = await operations.read_anew(prices, project_of(request), read_name(name), data, query)
    return JSON(encoded(read.shown), headers=_PRIVATE)


@get(
    "/{name:str}/phasing",
    operation_id="getScenarioPhasing",
    opt=About(scope="scenarios:read", query=PhasingQuery, success="Cost by month.", database=True).as_opt(),
)
async def get_scenario_phasing(
    request: AnyRequest, name: Name, prices: NamedDependency[Prices]
) -> JSON[ScenarioPhasing]:
    """Get cost by month.

    By calendar month (UTC) from the request's start_at, else the scenario's planned_start; storage that outlasts the
    run included. Lines add up to their amounts, months to the total, to the cent.
    """
    found = await operations.phase(prices, project_of(request), read_name(name), _phasing_query(request))
    return JSON(encoded(found), headers=_PRIVATE)


@get(
    "/{name:str}/forecast",
    operation_id="getScenarioForecast",
    opt=About(scope="scenarios:read", query=ForecastQuery, success="The forecast.", database=True).as_opt(),
)
async def get_scenario_forecast(
    request: AnyRequest, name: Name, prices: NamedDependency[Prices]
) -> JSON[ScenarioForecast]:
    """Forecast a run under way.

    What it will come to and when it will end, from what was recorded so far; the variance against the plan by price,
    volume and efficiency; the burn-down; and the verdict on the budget.
    """
    found = await operations.forecast(prices, project_of(request), read_name(name), _forecast_query(request))
    return JSON(encoded(found), headers=_PRIVATE)


def _require(request: AnyRequest, scope: str, what: str) -> None:
    if scope not in principal_of(request).scopes:
        raise Forbidden(f"{what}, the scope {scope} is needed, which the key does not have.", scope)


def insight_routers(reading: Connect, writing: Connect, prices: Prices) -> list[Router]:
    """The routes, given how to get a connection for reading, a transaction for writing, and what is in memory."""
    common: dict[str, Any] = {
        "dependencies": {
            "reader": Provide(reading),
            "writer": Provide(writing),
            "prices": Provide(lambda: prices, sync_to_thread=False),
        },
        "dto": StrictBody,
        "request_class": FastRequest,
        "tags": ["Scenarios"],
    }
    of_one: list[Any] = [reprice_scenario, get_scenario_phasing, get_scenario_forecast, *ACTUAL_HANDLERS]
    return [
        Router("/v1/scenarios", route_handlers=of_one, **common),
        Router("/v1/scenario-diffs", route_handlers=[diff_scenarios], **common),
        Router("/v1/scenario-comparisons", route_handlers=[compare_scenarios], **common),
    ]
