"""Strict reading of requests: JSON bodies and query strings, decoded once, faults named by pointer.

Litestar's own reading is lax (it takes "1" for 1, text/plain for JSON, the last of two equal keys, and any
query parameter). What is well formed is decoded straight into its Struct; everything slower happens only when
something is wrong, in `diagnosis`.
"""

import json
import logging
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.dto import AbstractDTO
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.types.empty import Empty

from service.errors import BadRequest, Fault
from service.http.diagnosis import DuplicateKey, bad_texts, distinct, explain, read_custom
from service.http.queries import query_reader, refuse_any

T = TypeVar("T")

MAX_BODY_BYTES = 1_000_000
JSON_TYPE = "application/json"
MERGE_PATCH_TYPE = "application/merge-patch+json"

_JSON_TYPES: dict[str, frozenset[str]] = {
    "PATCH": frozenset({JSON_TYPE, MERGE_PATCH_TYPE}),
}
_UTF8 = ("", "charset=utf-8", 'charset="utf-8"')
_ONLY_JSON = frozenset({JSON_TYPE})
_distinct_keys = json.JSONDecoder(object_pairs_hook=distinct)
_untyped = msgspec.json.Decoder()
_log = logging.getLogger(__name__)


class FastRequest(Request[Any, Any, Any]):
    """A request whose body is read in one go: most bodies arrive as one message."""

    __slots__ = ()
    max_body_bytes = MAX_BODY_BYTES

    async def body(self) -> bytes:
        if self._body is not Empty:
            return self._body
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise _went_away()
            part = message.get("body", b"")
            size += len(part)
            if size > self.max_body_bytes:
                raise RequestEntityTooLarge
            parts.append(part)
            if not message.get("more_body", False):
                break
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._body = self._connection_state.body = body
        return body


class StrictBody(AbstractDTO[Any]):
    """Decodes a body strictly with one cached msgspec decoder a handler. Use as `dto=` on a router."""

    _decoders: ClassVar[dict[str, msgspec.json.Decoder[Any]]] = {}

    @classmethod
    def create_for_field_definition(cls, field_definition: Any, handler_id: str, backend_cls: Any = None) -> None:
        cls._decoders[handler_id] = msgspec.json.Decoder(field_definition.annotation, strict=True, dec_hook=read_custom)

    @classmethod
    def is_supported_model_type_field(cls, field_definition: Any) -> bool:
        return False  # never for what a handler returns

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Any:
        return iter(())  # the decoder knows the fields

    @classmethod
    def detect_nested_field(cls, field_definition: Any) -> bool:
        return False

    @classmethod
    def create_openapi_schema(cls, field_definition: Any, handler_id: str, schema_creator: Any) -> Any:
        return schema_creator.for_field_definition(field_definition)

    def decode_bytes(self, value: bytes) -> Any:
        connection = self.asgi_connection
        _require_json(connection)
        decoder = self._decoders[connection.route_handler.handler_id]
        try:
            decoded = decoder.decode(value)
            document = distinct_document(value)
        except (msgspec.DecodeError, UnicodeDecodeError, DuplicateKey, RecursionError):
            return explain(value, decoder.type)
        if (b"\\u" in value or not value.isascii()) and any(bad_texts(document)):
            return explain(value, decoder.type)
        return decoded


def distinct_document(body: bytes) -> Any:
    """The body as plain objects; DuplicateKey where an object holds a key twice."""
    document = _untyped.decode(body)
    # There are at least as many colons as keys written: where there are no more than distinct keys, none is equal.
    if _distinct_keys_of(document) == body.count(b":"):
        return document
    return _distinct_keys.decode(body.decode())


def _distinct_keys_of(document: Any) -> int:
    """The keys of an object and of the objects in it. Deeper ones are not counted, which only costs the full look."""
    if type(document) is not dict:
        return 0
    count = len(document)
    for value in document.values():
        if type(value) is dict:
            count += len(value)
    return count


def _require_json(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """One Content-Type, which is JSON in UTF-8, and no encoding over it."""
    accepted = _JSON_TYPES.get(connection.scope["method"], _ONLY_JSON)  # type: ignore[typeddict-item]
    given = []
    for name, value in connection.scope["headers"]:
        if name == b"content-type":
            given.append(value.decode("latin-1"))
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            raise _unsupported("Content-Encoding", "Bodies are read as they are: no Content-Encoding is accepted")
    if len(given) == 1 and _is_json(given[0], accepted):
        return
    told = " and ".join(map(ascii, given)) or "missing"
    wanted = " or ".join(sorted(accepted))
    raise _unsupported("Content-Type", f"Content-Type must be {wanted} in UTF-8; it is {told}")


def _is_json(content_type: str, accepted: frozenset[str]) -> bool:
    media_type, _, parameters = content_type.partition(";")
    return media_type.strip().lower() in accepted and parameters.strip().lower() in _UTF8


def _unsupported(header: str, message: str) -> BadRequest:
    return BadRequest("unsupported-media-type", message + ".", (Fault("header", header, message),))


async def refuse_strays(request: Request[Any, Any, Any]) -> None:
    """Before every request: a route that declares no query parameters gets none, and one that declares no body gets
    none either, so that nothing that was meant is dropped. A body whose length is told is refused unread: it may never
    come. (As a guard, which is a plain function, this would cost a hop to another thread each time.)"""
    if request.scope["query_string"] and "query" not in request.route_handler.opt:
        refuse_any(request.scope["query_string"])
    if _takes_body(request.route_handler):
        return
    for name, value in request.scope["headers"]:
        if name == b"content-length":
            if value.strip(b"0"):
                raise _stray_body()
        elif name == b"transfer-encoding":
            await _require_no_byte(request)


async def _require_no_byte(request: Request[Any, Any, Any]) -> None:
    """A body in chunks may turn out to be none; its first byte is enough to refuse it. What was found is kept with the
    connection: who looks again need not wait for what has come already."""
    if request._body is not Empty:
        return
    more = True
    while more:
        message = await request.receive()
        if message["type"] != "http.request":
            raise _went_away()
        if message.get("body"):
            raise _stray_body()
        more = message.get("more_body", False)
    request._body = request._connection_state.body = b""


def _stray_body() -> BadRequest:
    told = "This operation takes no body"
    return BadRequest("malformed-request", f"{told}: leave it out.", (Fault("body", "", told),))


def _went_away() -> BadRequest:
    """Nobody is there to be answered, and nothing is wrong here."""
    _log.debug("the client went away before its body had come")
    return BadRequest("malformed-request", "The client went away.")


def _takes_body(handler: Any) -> bool:
    return "body" in handler.opt or handler.parsed_data_field is not None


def query_of(model: type[T]) -> Callable[[Request[Any, Any, Any]], T]:
    """A dependency that reads a request's query string into `model`."""
    read = query_reader(model)

    def dependency(request: Request[Any, Any, Any]) -> T:
        return read(request.scope["query_string"])

    return dependency
