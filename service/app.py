"""The one file that sees everything: settings in, an ASGI application out."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from litestar import Litestar, Request, Response, Router
from litestar.datastructures import State
from sqlalchemy.exc import SQLAlchemyError

from service import __version__
from service.backtest.routes import router as backtest_router
from service.catalog.routes import router as catalog_router
from service.estimates.routes import estimate_router
from service.estimator import MODEL_VERSION
from service.http.docs import docs_router, errors_router
from service.http.edge import AllowPlugin, Edge
from service.http.health import health_router
from service.http.openapi import build_document
from service.http.problems import HANDLERS, on_any, on_ours
from service.http.requests import MAX_BODY_BYTES, refuse_stray_query
from service.prices.operations import Prices
from service.prices.routes import price_routers
from service.prices.snapshots import Snapshots
from service.scenarios.routes import scenario_router
from service.settings import DEFAULT_DATABASE_URL, Settings, load_settings
from service.storage.database import Database, unavailable
from service.storage.idempotency import Turns, forgetting
from service.storage.schema import require_current

# A file is read in a thread: it lets go of the interpreter so often that requests hardly notice. Python's own 5 ms
# would be added to each of them.
_SWITCH_SECONDS = 0.0005

_TAGS = {
    "Estimates": "What a run will cost and when it will end.",
    "Catalogue": "Accelerators, models and interconnects, each figure with its source.",
    "Price tables": "Named prices in dated, immutable revisions, and the one rate that answers a question.",
    "Scenarios": "Named requests, kept with the answer they had when they were saved.",
    "Back-test": "Predictions replayed against published runs.",
    "Operations": "Health, release, and what each error means.",
}


def create_app(settings: Settings | None = None) -> Litestar:
    """The service; without settings, those of the environment."""
    settings = settings or load_settings()
    database = Database(settings.database_url, pool_size=settings.pool_size)

    async def ready() -> None:
        await require_current(database.engine)

    prices = _prices(database)

    @asynccontextmanager
    async def open_database(_: Litestar) -> AsyncIterator[None]:
        sys.setswitchinterval(_SWITCH_SECONDS)
        async with prices.snapshots.watched(), forgetting(prices.begin):
            yield
        await database.close()

    features = _features(database, prices, ready)
    return Edge(
        [*features, docs_router(_document_of(features))],
        before_request=refuse_stray_query,
        exception_handlers={**HANDLERS, SQLAlchemyError: _on_database, OSError: _on_database},
        lifespan=[open_database],
        logging_config=None,
        openapi_config=None,
        plugins=[AllowPlugin()],
        request_max_body_size=MAX_BODY_BYTES,
        state=State({"database": database, "prices": prices}),
    )


def create_document() -> dict[str, Any]:
    """The OpenAPI document, which is the same whatever the settings. No database is opened for it."""

    async def nobody_asks() -> None:
        """The document's application is never served."""

    database = Database(DEFAULT_DATABASE_URL, pool_size=1)
    return _document_of(_features(database, _prices(database), nobody_asks))()


def _prices(database: Database) -> Prices:
    """What the price tables need of this database."""
    connected = asynccontextmanager(database.reading)
    return Prices(connected, asynccontextmanager(database.writing), Snapshots(connected), Turns())


def _features(database: Database, prices: Prices, ready: Callable[[], Any]) -> list[Router]:
    return [
        estimate_router(prices.snapshots),
        catalog_router,
        backtest_router,
        *price_routers(database.reading, database.writing, prices),
        scenario_router(database.reading, database.writing),
        health_router(ready, __version__, MODEL_VERSION),
        errors_router,
    ]


def _document_of(features: list[Router]) -> Callable[[], dict[str, Any]]:
    @cache
    def document() -> dict[str, Any]:
        return build_document(features, version=__version__, tags=_TAGS)

    return document


def _on_database(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A database that does not answer is no fault of ours: 503, and the caller may try again."""
    told = unavailable(error)
    return on_any(request, error) if told is None else on_ours(request, told)
