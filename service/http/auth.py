"""The gate before every route: whose key it is, whether its scopes reach this far, and how often it has asked.

It stands as a middleware of the application: behind routing, so that it knows which scope the route asks for, and
before everything that answers. A route that says nothing of a scope lets nobody in.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Any, Protocol

from litestar.types import ASGIApp, Receive, Send

from service.errors import Forbidden, Unauthenticated
from service.http.limits import Limits
from service.http.principal import PUBLIC, Principal

# What a route is counted as where its `opt` does not say `rate`.
_RATE_OF_METHOD = {"GET": "reads"}


class Keys(Protocol):
    """Who knows keys."""

    def find(self, token: str) -> Principal | None:
        """Whose key it is, from memory; None where the database must be asked. Unauthenticated if it is no good."""

    async def read(self, token: str) -> Principal:
        """The same, asking the database."""


class Gate:
    """Lets a request pass with its principal, or raises Unauthenticated, Forbidden or TooManyRequests."""

    def __init__(self, app: ASGIApp, keys: Keys, limits: Limits) -> None:
        self._app = app
        self._keys = keys
        self._limits = limits

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        opt = scope["route_handler"].opt
        needed = opt.get("scope")
        if needed != PUBLIC:
            token = credential_of(scope["headers"])
            principal = self._keys.find(token) or await self._keys.read(token)
            if needed not in principal.scopes:
                raise _lacking(needed)
            rate = opt.get("rate") or _RATE_OF_METHOD.get(scope["method"], "writes")
            if not self._limits.take(principal, rate):
                await self._limits.ask(principal, rate)
            scope["principal"] = principal
        await self._app(scope, receive, send)


def credential_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The key as it was sent: as Bearer, as X-API-Key, or as the password of Basic; Unauthenticated without one."""
    given = [(name, value) for name, value in headers if name in _CARRIERS]
    if not given:
        raise Unauthenticated(
            "A key is needed: send it as `Authorization: Bearer`, as `X-API-Key`, or as the password of Basic.",
            sent=False,
        )
    if len(given) > 1:
        raise Unauthenticated("The key is sent in more than one header: send it once.", sent=True)
    name, value = given[0]
    text = value.decode("latin-1").strip()
    if name == b"x-api-key":
        return text
    scheme, _, rest = text.partition(" ")
    kind = scheme.lower()
    if kind == "bearer":
        return rest.strip()
    if kind == "basic":
        return _password(rest)
    raise no_good()


def no_good() -> Unauthenticated:
    """The same words whatever is wrong with a key: who tries keys learns nothing."""
    return Unauthenticated("The key is not known, has ended or was revoked.", sent=True)


def _password(encoded: str) -> str:
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise no_good() from None
    return decoded.partition(":")[2]


def _lacking(needed: str | None) -> Forbidden:
    if needed is None:
        return Forbidden("No key reaches this path: it says nothing of a scope.", "")
    return Forbidden(f"The key lacks the scope {needed}.", needed)


_CARRIERS = frozenset({b"authorization", b"x-api-key"})
