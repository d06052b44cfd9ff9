"""GET /v1/backtest: how well this version predicts what was published, misses included."""

from functools import cache
from threading import Lock
from typing import Annotated, Any

from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from msgspec import Meta, Struct, structs

from service.backtest.operations import BacktestReport, report
from service.http.conditional import CATALOGUE_CACHE, conditional, content_etag
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.requests import query_of
from service.http.responses import JSON

_making = Lock()


class BacktestQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of it."""

    rows: Annotated[bool, Meta(description="Every row with its prediction too, about 350 kB.")] = False


@get(
    "/backtest",
    operation_id="getBacktest",
    opt=About(query=BacktestQuery, conditional="read", success="The back-test.").as_opt(),
    dependencies={"asked": Provide(query_of(BacktestQuery), sync_to_thread=False)},
    sync_to_thread=True,  # the first time takes two seconds
)
def get_backtest(request: Request[Any, Any, Any], asked: NamedDependency[BacktestQuery]) -> JSON[BacktestReport]:
    """Get the back-test.

    Predictions replayed against published runs and measured tables: absolute errors with intervals, whole sources
    left out in turn, beside two baselines on the same rows, and the goals that were reached or missed. A run is
    predicted only from what could be known before it.
    """
    body, etag = _report(asked.rows)
    return conditional(request, body, etag, CATALOGUE_CACHE)


def _report(rows: bool) -> tuple[bytes, str]:
    with _making:  # once, whoever asks at the same time
        return _made(rows)


@cache
def _made(rows: bool) -> tuple[bytes, str]:
    whole = report()
    body = encoded(whole if rows else structs.replace(whole, rows=()))
    return body, content_etag(body)


router = Router("/v1", route_handlers=[get_backtest], opt={"scope": "estimates:run"}, tags=["Back-test"])
