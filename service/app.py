"""The one file that sees everything: settings in, an ASGI application out."""

import gc
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from litestar import Litestar, Request, Response, Router
from litestar.datastructures import State
from litestar.middleware import DefineMiddleware
from sqlalchemy.exc import SQLAlchemyError

from service import __version__
from service.access.keyring import Keyring
from service.access.operations import Access
from service.access.routes import access_router
from service.apart import Apart
from service.backtest.routes import router as backtest_router
from service.catalog.routes import router as catalog_router
from service.estimates.routes import estimate_router
from service.estimator import MODEL_VERSION
from service.http.auth import Gate
from service.http.docs import docs_router, errors_router
from service.http.edge import AllowPlugin, Edge
from service.http.failures import Failures
from service.http.health import health_router
from service.http.limits import Lease, Limits
from service.http.openapi import build_document
from service.http.principal import LOCAL
from service.http.problems import HANDLERS, on_any, on_ours
from service.http.requests import MAX_BODY_BYTES, refuse_strays
from service.prices.operations import Prices
from service.prices.routes import price_routers
from service.prices.snapshots import Snapshots
from service.scenarios.insight_routes import insight_routers
from service.scenarios.routes import scenario_routers
from service.settings import DEFAULT_DATABASE_URL, Settings, load_settings
from service.storage.database import Database, unavailable
from service.storage.idempotency import Doors, Turns, forgetting
from service.storage.schema import require_current
from service.storage.windows import lease

# A file is read in a thread: it lets go of the interpreter so often that requests hardly notice. Python's own 5 ms
# would be added to each of them.
_SWITCH_SECONDS = 0.0005

_TAGS = {
    "Estimates": "What a run will cost and when it will end.",
    "Catalogue": "Accelerators, models and interconnects, each figure with its source.",
    "Price tables": "Named prices in dated, immutable revisions, and the one rate that answers a question.",
    "Scenarios": "Named requests, kept with the answer they had when they were saved.",
    "Access": "Projects, the keys that belong to them, and the log of who changed what.",
    "Back-test": "Predictions replayed against published runs.",
    "Operations": "Health, release, and what each error means.",
}


def create_app(settings: Settings | None = None) -> Litestar:
    """The service; without settings, those of the environment."""
    settings = settings or load_settings()
    database = Database(settings.database_url, pool_size=settings.pool_size)

    async def ready() -> None:
        await require_current(database.engine)

    prices, access = _prices(database), _access(database)

    @asynccontextmanager
    async def open_database(_: Litestar) -> AsyncIterator[None]:
        sys.setswitchinterval(_SWITCH_SECONDS)
        async with prices.snapshots.watched(), forgetting(prices.begin), access.keyring.noting():
            # What is there now stays: without it, looking for garbage in it would hold up requests for a tenth of a
            # second whenever a price table is read.
            gc.collect()
            gc.freeze()
            yield
            gc.unfreeze()
        await database.close()

    features = _features(database, prices, access, ready)
    failures = Failures(settings.rate_failures)
    gate = DefineMiddleware(Gate, keys=access.keyring, limits=_limits(settings, database), failures=failures)
    return Edge(
        [*features, docs_router(_document_of(features))],
        everybody=None if settings.asks_for_keys else LOCAL,
        middleware=[gate] if settings.asks_for_keys else [],
        before_request=refuse_strays,
        exception_handlers={**HANDLERS, SQLAlchemyError: _on_database, OSError: _on_database},
        lifespan=[open_database],
        logging_config=None,
        openapi_config=None,
        plugins=[AllowPlugin()],
        request_max_body_size=MAX_BODY_BYTES,
        state=State({"database": database, "prices": prices, "access": access}),
    )


def create_document() -> dict[str, Any]:
    """The OpenAPI document, which is the same whatever the settings. No database is opened for it."""

    async def nobody_asks() -> None:
        """The document's application is never served."""

    database = Database(DEFAULT_DATABASE_URL, pool_size=1)
    return _document_of(_features(database, _prices(database), _access(database), nobody_asks))()


def _prices(database: Database) -> Prices:
    """What the price tables need of this database."""
    connected = asynccontextmanager(database.reading)
    writing = asynccontextmanager(database.writing)
    return Prices(connected, writing, Turns(), Snapshots(connected), database.url, Apart())


def _doors(database: Database) -> Doors:
    """What acting once needs of this database."""
    return Doors(asynccontextmanager(database.reading), asynccontextmanager(database.writing), Turns())


def _access(database: Database) -> Access:
    """What projects and keys need of this database."""
    connected, begin = asynccontextmanager(database.reading), asynccontextmanager(database.writing)
    return Access(connected, begin, Turns(), Keyring(connected, begin))


def _limits(settings: Settings, database: Database) -> Limits:
    """How often a key may ask. SQLite serves one worker, whose memory is count enough: its lock is for stores."""
    begin = asynccontextmanager(database.writing)

    async def take(key_id: str, kind: str, window: int, wanted: int, limit: int) -> int:
        async with begin() as connection:
            return await lease(connection, key_id, kind, window, wanted, limit)

    shared: Lease | None = None if database.engine.dialect.name == "sqlite" else take
    per_minute = {
        "estimates": settings.rate_estimates,
        "reads": settings.rate_reads,
        "writes": settings.rate_writes,
        "imports": settings.rate_imports,
    }
    return Limits(per_minute, shared)


def _features(database: Database, prices: Prices, access: Access, ready: Callable[[], Any]) -> list[Router]:
    return [
        estimate_router(prices.snapshots),
        catalog_router,
        backtest_router,
        *price_routers(database.reading, database.writing, prices),
        *scenario_routers(database.reading, database.writing, _doors(database)),
        *insight_routers(database.reading, database.writing, prices),
        access_router(database.reading, access),
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
