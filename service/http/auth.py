"""The gate before every route: whose key it is, whether its scopes reach this far, how often it has asked or failed.

It stands as a middleware of the application: behind routing, so that it knows which scope the route asks for, and
before everything that answers. A route that says nothing of a scope lets nobody in.
"""

import base64
import binascii
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Protocol

from litestar import Request
from litestar.types import ASGIApp, Receive, Send

from service.errors import Forbidden, Unauthenticated
from service.http.failures import Failures, address_of, keep
from service.http.limits import Limits
from service.http.principal import PUBLIC, Principal
from service.http.requests import refuse_strays

# What a route is counted as where its `opt` does not say `rate`.
_RATE_OF_METHOD = {"GET": "reads"}
_MAX_LINKS = 10_000
# What is answered to a link that is none, or none any more.
_NO_LINK = frozenset({400, 404, 422})


class Keys(Protocol):
    """Who knows keys."""

    def find(self, token: str) -> Principal | None:
        """Whose key it is, from memory; None where the database must be asked. Unauthenticated if it is no good."""

    def was_good(self, token: str) -> bool:
        """Whether it was a good key when the database was last asked, or the database is being asked just now."""

    async def read(self, token: str) -> Principal:
        """Whose key it is, asking the database; Unauthenticated."""


class Gate:
    """Lets a request pass with its principal, or raises Unauthenticated, Forbidden or TooManyRequests.

    Who has failed too often is refused before the database is asked. What was good lately goes on being looked up: it
    costs as little as before, and somebody else behind the same address may be the one who fails.
    """

    def __init__(self, app: ASGIApp, keys: Keys, limits: Limits, failures: Failures) -> None:
        self._app = app
        self._keys = keys
        self._limits = limits
        self._failures = failures
        self._links: dict[bytes, None] = {}  # digests of those that have shown something

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        opt = scope["route_handler"].opt
        needed = opt.get("scope")
        if needed == PUBLIC and opt.get("secret_path"):
            await self._follow(scope, receive, send)
            return
        if needed != PUBLIC:
            try:
                token = credential_of(scope["headers"])
                principal = self._keys.find(token)
            except Unauthenticated as error:
                if error.sent:  # who sends no key has tried none: many programs ask first whether one is needed
                    self._failures.count(address_of(scope))
                raise
            if principal is None:
                principal = await self._ask(token, address_of(scope))
            if needed not in principal.scopes:
                raise _lacking(needed)
            rate = opt.get("rate") or _RATE_OF_METHOD.get(scope["method"], "writes")
            if not self._limits.take(principal, rate):
                await self._limits.ask(principal, rate)
            scope["principal"] = principal
        await self._app(scope, receive, send)

    async def _ask(self, token: str, address: str) -> Principal:
        """Whose key it is, by the database."""
        if not self._keys.was_good(token):
            with self._failures.trying(address):
                return await self._keys.read(token)
        try:
            return await self._keys.read(token)
        except Unauthenticated:
            self._failures.count(address)
            raise

    async def _follow(self, scope: Any, receive: Receive, send: Send) -> None:
        """A path that is a secret by itself: who guesses it fails as who guesses keys does.

        What does not belong to the request is refused first: it says nothing of the link, and no place among those that
        are looked up is held while it is waited for.
        """
        await refuse_strays(Request(scope, receive))
        link = sha256(scope["path"].encode(errors="replace")).digest()
        seen: list[int] = []

        async def send_seen(message: Any) -> None:
            if message["type"] == "http.response.start":
                seen.append(message["status"])
            await send(message)

        if link in self._links:
            await self._app(scope, receive, send_seen)
            if not _NO_LINK.isdisjoint(seen):
                self._links.pop(link, None)
            return
        with self._failures.trying(address_of(scope)) as attempt:
            await self._app(scope, receive, send_seen)
            attempt.failed = not _NO_LINK.isdisjoint(seen)
        if seen and seen[0] < 400:
            keep(self._links, link, None, _MAX_LINKS)


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
