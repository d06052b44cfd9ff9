"""The outermost layer: HEAD, and paths that must not be decoded into other paths, before any routing."""

from typing import Any
from urllib.parse import unquote_to_bytes

from litestar import Litestar, Request, Response
from litestar.enums import ScopeType
from litestar.plugins import ReceiveRoutePlugin
from litestar.routes import BaseRoute, HTTPRoute
from litestar.types import Message, Send

from service.errors import Fault
from service.http.problems import allowed, instance_of, problem


class Edge(Litestar):
    """Litestar, with HEAD wherever GET (it answers 405 to it), and raw paths looked at before they are routed.

    A server decodes a path once, so that `a%2Frevisions` would arrive as the path of `a`'s revisions.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == ScopeType.HTTP:
            if scope["method"] == "HEAD":
                scope = {**scope, "method": "GET"}
                send = _without_body(send)
            raw = scope.get("raw_path") or b""
            if b"%" in raw and (fault := _bad_path(raw)):
                instance = instance_of(scope)
                answer = problem("malformed-parameter", fault.message + ".", instance, (fault,))
                await answer.to_asgi_response(None, Request(scope))(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def _bad_path(raw: bytes) -> Fault | None:
    decoded = unquote_to_bytes(raw)
    if b"\x00" in decoded:
        return Fault("path", "", "The path holds an encoded NUL")
    upper = raw.upper()
    if b"%2F" in upper or b"%5C" in upper:
        return Fault("path", "", "The path holds an encoded slash or backslash: no name has one")
    try:
        decoded.decode()
    except UnicodeDecodeError:
        return Fault("path", "", "The path is not percent-encoded UTF-8")
    return None


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head


class AllowPlugin(ReceiveRoutePlugin):
    """OPTIONS lists every method of a path; Litestar 2 lists only the first handler's (its issue 4169)."""

    def receive_route(self, route: BaseRoute) -> None:
        if not isinstance(route, HTTPRoute):
            return
        entry = route.route_handler_map.get("OPTIONS")
        if entry is None or entry[0].include_in_schema:
            return
        methods = allowed([str(method) for method in route.methods])

        def options(scope: Any) -> Response[None]:
            return Response(None, status_code=204, headers={"Allow": methods})

        entry[0]._fn = options  # type: ignore[assignment]  # the handler was made for a plain function, too
