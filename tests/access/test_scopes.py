"""Deny by default: every route says which scope it needs, or that it is public; and every scope is asked for."""

from typing import Any

import httpx
import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from service.app import create_app
from service.http.limits import Rate
from service.http.principal import PUBLIC, SCOPES, Scope
from service.settings import Settings
from tests.access.requests import OPERATIONS, Operation, ask
from tests.conftest import NewDatabase, client_of
from tests.support.keys import bearer, code, make_key

PUBLIC_PATHS = {
    "/",
    "/docs",
    "/docs/assets/{name}",
    "/errors",
    "/errors/{code}",
    "/health/live",
    "/health/ready",
    "/openapi.json",
    "/openapi.yaml",
    "/v1/shared/{link}",
    "/version",
}
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)


def handlers() -> list[tuple[str, HTTPRouteHandler]]:
    """Every handler that the application has, with its path."""
    app = create_app(Settings(auth="on"))
    found = []
    for route in app.routes:
        assert isinstance(route, HTTPRoute), f"{route.path} is no plain route: who guards it?"
        found += [(route.path_format, handler) for handler in route.route_handlers]
    return found


def test_every_route_has_a_scope_or_is_marked_as_public() -> None:
    for path, handler in handlers():
        said = handler.opt.get("scope")
        assert said in (*SCOPES, PUBLIC), f"{path} says nothing of a scope"
        if "OPTIONS" not in handler.http_methods:
            assert (said == PUBLIC) == (path in PUBLIC_PATHS), path


def test_what_a_route_is_counted_as_is_one_of_the_limits() -> None:
    for path, handler in handlers():
        assert handler.opt.get("rate") in (None, *Rate.__args__), path  # type: ignore[attr-defined]


async def test_a_route_that_says_nothing_lets_nobody_in(new_database: NewDatabase) -> None:
    url = new_database("sqlite")
    async with client_of(url, auth="on") as api:
        app: Any = api._transport.app  # type: ignore[attr-defined]
        for path, handler in _served(app):
            if path == "/v1/gpus":
                handler.opt.pop("scope")
        answer = await api.get("/v1/gpus", headers=bearer(await make_key(url)))
        assert (answer.status_code, code(answer)) == (403, "forbidden")
        assert (await api.get("/v1/gpus")).status_code == 401


def _served(app: Any) -> list[tuple[str, HTTPRouteHandler]]:
    return [(route.path_format, handler) for route in app.routes for handler in route.route_handlers]


@pytest.fixture(scope="module")
async def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A service that asks for keys; one key without each scope, and one with it only."""
    from service.storage.schema import migrate

    url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('scopes') / 'traincost.db'}"
    await migrate(url)
    others: dict[Scope, tuple[Scope, ...]] = {one: tuple(other for other in SCOPES if other != one) for one in SCOPES}
    return {
        "url": url,
        "without": {scope: await make_key(url, *others[scope]) for scope in SCOPES},
        "only": {scope: await make_key(url, scope) for scope in SCOPES},
    }


@each_operation
async def test_each_operation_wants_its_scope_and_no_other(operation: Operation, keys: dict[str, Any]) -> None:
    async with client_of(keys["url"], auth="on") as api:
        nobody = await ask(api, operation)
        if operation.scope == PUBLIC:
            assert nobody.status_code not in (401, 403)
            return
        assert (nobody.status_code, code(nobody)) == (401, "unauthenticated")
        refused = await ask(api, operation, headers=bearer(keys["without"][operation.scope]))
        assert (refused.status_code, code(refused)) == (403, "forbidden")
        assert f'scope="{operation.scope}"' in refused.headers["www-authenticate"]
        answered = await ask(api, operation, headers=bearer(keys["only"][operation.scope]))
        assert answered.status_code not in (401, 403, 500)


@each_operation
def test_the_document_says_the_scope_and_how_it_refuses(operation: Operation) -> None:
    if operation.scope == PUBLIC:
        assert operation.document["security"] == []
        # Where the path is the secret, who guesses it may do so only so often.
        refusals = {"429"} if operation.id == "getSharedRevision" else set()
        assert {"401", "403", "429"} & set(operation.document["responses"]) == refusals
        return
    assert operation.document["security"] == [{"bearer": []}, {"api_key": []}, {"basic": []}]
    assert operation.document["description"].endswith(f"Needs the scope `{operation.scope}`.")
    assert {"401", "403", "429"} <= set(operation.document["responses"])


async def test_where_nobody_is_asked_everybody_has_every_scope(api: httpx.AsyncClient) -> None:
    for operation in OPERATIONS:
        answer = await ask(api, operation)
        assert answer.status_code not in (401, 403, 429, 500), operation.id
        assert "www-authenticate" not in answer.headers
