"""JSON answers that are encoded once and sent as they are."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Response
from litestar.types import Receive, Scope, Send

from service.money import Money

T = TypeVar("T")
Header = tuple[bytes, bytes]


def _encode_custom(value: object) -> str:
    if isinstance(value, Money):
        return format(value, "f")
    raise NotImplementedError(type(value))


_encoder = msgspec.json.Encoder(enc_hook=_encode_custom)


class JSON(Response[T], Generic[T]):
    """A ready-encoded JSON body. It skips Litestar's merging of headers and cookies, a third of the time of a
    small request, and stays a Response to routing, guards and OpenAPI."""

    def __init__(self, body: bytes, status: int = 200, headers: Sequence[Header] = ()) -> None:
        # The base class is not initialised on purpose: everything it holds is replaced by `send`.
        self.payload = body
        self.status = status
        self.extra = headers

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:  # an ASGI app like any other
        return self.send

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status,
                "headers": [
                    (b"content-type", b"application/json"),
                    (b"content-length", b"%d" % len(self.payload)),
                    (b"x-content-type-options", b"nosniff"),
                    *self.extra,
                ],
            }
        )
        await send({"type": "http.response.body", "body": self.payload, "more_body": False})


class Empty(JSON[None]):
    """An answer without a body: 204, 304."""

    def __init__(self, status: int, headers: Sequence[Header] = ()) -> None:
        super().__init__(b"", status, headers)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.extra)})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def encoded(value: object) -> bytes:
    """The one way an answer becomes bytes."""
    return _encoder.encode(value)
