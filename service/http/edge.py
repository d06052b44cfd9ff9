"""The outermost layer: a name for each request, HEAD, and paths that must not be decoded into other paths."""

import re
import secrets
from collections.abc import Iterable
from itertools import count
from typing import Any
from urllib.parse import unquote_to_bytes

from litestar import Litestar, Request, Response
from litestar.enums import ScopeType
from litestar.plugins import ReceiveRoutePlugin
from litestar.routes import BaseRoute, HTTPRoute
from litestar.types import Message, Send

from service.errors import Fault
from service.http.principal import PUBLIC, Principal
from service.http.problems import allowed, instance_of, problem
from service.logs import REQUEST_ID

REQUEST_ID_HEADER = b"x-request-id"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


class Edge(Litestar):
    """Litestar, with HEAD wherever GET (it answers 405 to it), and raw paths looked at before they are routed.

    A server decodes a path once, so that `a%2Frevisions` would arrive as the path of `a`'s revisions. Each request
    has an id, the caller's own if it sent one, which is sent back and stands in the log. `everybody` is who asks
    where nobody is asked for a key; without it, who asks is found out by the gate.
    """

    def __init__(self, *arguments: Any, everybody: Principal | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._everybody = everybody
        self._form_of_ids = _form_of_ids()
        self._numbers = count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == ScopeType.HTTP:
            request_id = self._id_of(scope["headers"])
            scope["request_id"] = request_id
            REQUEST_ID.set(request_id)
            send = _with_id(send, request_id)
            if self._everybody is not None:
                scope["principal"] = self._everybody
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

    def _id_of(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The caller's own id, if it is one that may stand in a header and in a line of the log; else a new one."""
        for name, value in headers:
            if name == REQUEST_ID_HEADER:
                if _REQUEST_ID.fullmatch(value):
                    return value
                break
        return self._form_of_ids % next(self._numbers)


def _form_of_ids() -> bytes:
    """Ids that no other process makes: UUIDs of version 8, random but for the number at their end (RFC 9562)."""
    a, b, c = secrets.token_hex(4), secrets.token_hex(2), secrets.token_hex(3)
    return f"{a}-{b}-8{c[:3]}-a{c[3:]}-%012x".encode()


def _with_id(send: Send, request_id: bytes) -> Send:
    header = (REQUEST_ID_HEADER, request_id)

    def send_with_id(message: Any) -> Any:  # no coroutine of its own: this is on every request's way
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], header]
        return send(message)

    return send_with_id


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

        entry[0].opt["scope"] = PUBLIC  # which methods there are stands in the contract
        entry[0]._fn = options  # type: ignore[assignment]  # the handler was made for a plain function, too
