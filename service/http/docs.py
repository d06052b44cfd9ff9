"""The contract as it is served: openapi.yaml, openapi.json, a page to read it on, and what each error means.

Everything comes from this package's own files, so that the page works on a network without internet.
"""

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from litestar import Request, Response, Router, get
from litestar.params import FromPath, PathParameter
from litestar.response import Redirect
from msgspec import Struct

from service.errors import NotFound
from service.http.conditional import CATALOGUE_CACHE, conditional, content_etag
from service.http.encoding import encoded
from service.http.openapi import About, as_yaml
from service.http.principal import PUBLIC
from service.http.problems import KINDS, type_of
from service.http.responses import JSON

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_ASSETS = {
    "swagger-ui.css": "swagger-ui/swagger-ui.css",
    "swagger-ui-bundle.js": "swagger-ui/swagger-ui-bundle.js",
    "docs.css": "docs.css",
    "docs.js": "docs.js",
    "icon.svg": "icon.svg",
}
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class ErrorType(Struct, frozen=True):
    """What a problem type means."""

    type: str
    title: str
    status: int
    meaning: str


class ErrorTypes(Struct, frozen=True):
    """Every problem type of this service."""

    items: tuple[ErrorType, ...]


def _error_type(code: str) -> ErrorType:
    kind = KINDS[code]
    return ErrorType(type_of(code), kind.title, kind.status, kind.meaning)


@get("/errors", operation_id="listErrorTypes", opt=About(conditional="read").as_opt(), sync_to_thread=False)
def list_error_types(request: Request[Any, Any, Any]) -> JSON[ErrorTypes]:
    """List the problem types.

    The `type` of a problem is a path of this service; this is what is found there.
    """
    body = encoded(ErrorTypes(tuple(map(_error_type, KINDS))))
    return conditional(request, body, content_etag(body), CATALOGUE_CACHE)


@get(
    "/errors/{code:str}",
    operation_id="getErrorType",
    opt=About(conditional="read").as_opt(),
    sync_to_thread=False,
)
def get_error_type(
    request: Request[Any, Any, Any],
    code: Annotated[
        str,
        PathParameter(pattern="^[a-z]+(-[a-z]+)*$", max_length=100, description="The part after /errors/."),
    ],
) -> JSON[ErrorType]:
    """Get what a problem type means."""
    if code not in KINDS:
        raise NotFound.named("problem type", code, "code")
    body = encoded(_error_type(code))
    return conditional(request, body, content_etag(body), CATALOGUE_CACHE)


errors_router = Router(
    "/", route_handlers=[list_error_types, get_error_type], opt={"scope": PUBLIC}, tags=["Operations"]
)


def docs_router(document: Callable[[], dict[str, Any]]) -> Router:
    """The routes that show the document, which is built when it is first asked for."""

    @cache
    def as_json_bytes() -> tuple[bytes, str]:
        body = json.dumps(document(), ensure_ascii=False).encode()
        return body, content_etag(body)

    @cache
    def as_yaml_bytes() -> tuple[bytes, str]:
        body = as_yaml(document())
        return body, content_etag(body)

    @get("/openapi.json", sync_to_thread=False)
    def openapi_json(request: Request[Any, Any, Any]) -> JSON[Any]:
        body, etag = as_json_bytes()
        return conditional(request, body, etag, CATALOGUE_CACHE)

    @get("/openapi.yaml", sync_to_thread=False)
    def openapi_yaml(request: Request[Any, Any, Any]) -> JSON[Any]:
        body, etag = as_yaml_bytes()
        return conditional(request, body, etag, CATALOGUE_CACHE, media_type=b"application/yaml")

    @get("/docs", sync_to_thread=False)
    def page() -> Response[bytes]:
        return Response(_file("docs.html"), media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)

    @get("/docs/assets/{name:str}", sync_to_thread=False)
    def asset(name: FromPath[str]) -> Response[bytes]:
        if name not in _ASSETS:
            raise NotFound.named("asset", name)
        return Response(
            _file(_ASSETS[name]),
            media_type=_TYPES[name.rpartition(".")[2]],
            headers={"Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff"},
        )

    @get("/", sync_to_thread=False)
    def index() -> Redirect:
        return Redirect("/docs", status_code=307)

    handlers = [openapi_json, openapi_yaml, page, asset, index]
    return Router("/", route_handlers=handlers, opt={"scope": PUBLIC}, include_in_schema=False)


@cache
def _file(name: str) -> bytes:
    return (files("service.http") / "static" / name).read_bytes()
