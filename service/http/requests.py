"""Strict reading of requests: JSON bodies and query strings, decoded once, faults named by pointer.

Litestar's own reading is lax (it takes "1" for 1, text/plain for JSON, the last of two equal keys, and any
query parameter). What is well formed is decoded straight into its Struct; everything slower happens only when
something is wrong, in `diagnosis`.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.dto import AbstractDTO
from litestar.exceptions import ClientException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.types.empty import Empty

from service.errors import BadRequest, BrokenRule, Fault
from service.http.diagnosis import DuplicateKey, allowed_values, bad_texts, distinct, explain, read_custom
from service.http.text import forbidden_in
from service.money import AMOUNT_PATTERN, Money, TooManyDigits

T = TypeVar("T")
Reader = Callable[[str], Any]

MAX_BODY_BYTES = 1_000_000
JSON_TYPE = "application/json"
MERGE_PATCH_TYPE = "application/merge-patch+json"

_JSON_TYPES: dict[str, frozenset[str]] = {
    "PATCH": frozenset({JSON_TYPE, MERGE_PATCH_TYPE}),
}
_ONLY_JSON = frozenset({JSON_TYPE})
_distinct_keys = json.JSONDecoder(object_pairs_hook=distinct)
_untyped = msgspec.json.Decoder()
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0+)?", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,399})(\.[0-9]{1,399})?([eE][+-]?[0-9]{1,4})?", re.ASCII)
_AMOUNT = re.compile(AMOUNT_PATTERN, re.ASCII)
_MAX_PARAMETERS = 100


class FastRequest(Request[Any, Any, Any]):
    """A request whose body is read in one go: most bodies arrive as one message."""

    __slots__ = ()

    async def body(self) -> bytes:
        if self._body is not Empty:
            return self._body
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientException("The client went away.")
            part = message.get("body", b"")
            size += len(part)
            if size > MAX_BODY_BYTES:
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
    if type(document) is not dict:
        return 0
    return len(document) + sum(_distinct_keys_of(value) for value in document.values() if type(value) is dict)


def _require_json(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    accepted = _JSON_TYPES.get(connection.scope["method"], _ONLY_JSON)  # type: ignore[typeddict-item]
    given = ""
    for name, value in connection.scope["headers"]:
        if name == b"content-type":
            given = value.decode("latin-1")
            break
    media_type, _, parameters = given.partition(";")
    charset = parameters.strip().lower()
    if media_type.strip().lower() in accepted and charset in ("", "charset=utf-8", 'charset="utf-8"'):
        return
    wanted = " or ".join(sorted(accepted))
    detail = f"Content-Type must be {wanted} in UTF-8; it is {ascii(given) if given else 'missing'}."
    raise BadRequest("unsupported-media-type", detail, (Fault("header", "Content-Type", detail),))


async def refuse_stray_query(request: Request[Any, Any, Any]) -> None:
    """Before every request: a route that declares no query parameters gets none. (As a guard, which is a plain
    function, this would cost a hop to another thread each time.)"""
    if request.scope["query_string"] and "query" not in request.route_handler.opt:
        _decode_query(request.scope["query_string"], {})


def query_of(model: type[T]) -> Callable[[Request[Any, Any, Any]], T]:
    """A dependency that reads the query string into `model`, or says which parameters are wrong."""
    readers = _readers(model)

    def read(request: Request[Any, Any, Any]) -> T:
        return _convert(_decode_query(request.scope["query_string"], readers), model)

    return read


def read_query(texts: Mapping[str, str], model: type[T]) -> T:
    """The same reading of texts that are already apart; BadRequest names the wrong ones."""
    return _convert(_read_pairs(list(texts.items()), _readers(model)), model)


def _convert(values: dict[str, Any], model: type[T]) -> T:
    try:
        return msgspec.convert(values, model, strict=True, dec_hook=read_custom)
    except msgspec.ValidationError:
        raise _out_of_range(values, model) from None


def _out_of_range(values: dict[str, Any], model: type[Any]) -> BadRequest | BrokenRule:
    """Each value that its type refuses; a number of too many digits matches the schema and breaks a rule."""
    faults = []
    only_digits = True
    for name, value in values.items():
        try:
            msgspec.convert({name: value}, model, strict=True, dec_hook=read_custom)
        except msgspec.ValidationError as error:
            faults.append(Fault("query", name, allowed_values(error, model, name)))
            only_digits &= isinstance(error.__cause__, TooManyDigits)
    return BrokenRule(str(TooManyDigits()), tuple(faults)) if only_digits else _malformed(faults)


def _decode_query(raw: bytes, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Each parameter once, by a known name, in the lexical form of its type."""
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        detail = f"The query string is not percent-encoded UTF-8, or has over {_MAX_PARAMETERS} parameters"
        raise _malformed([Fault("query", "", detail)]) from None
    return _read_pairs(pairs, readers)


def _read_pairs(pairs: list[tuple[str, str]], readers: Mapping[str, Reader]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    faults = []
    for name, text in pairs:
        reader = readers.get(name)
        if reader is None:
            known = f"; known are: {', '.join(readers)}" if readers else "; this path takes none"
            faults.append(Fault("query", name, f"Unknown query parameter{known}"))
        elif name in values:
            faults.append(Fault("query", name, "Given more than once"))
        else:
            try:
                values[name] = reader(text)
            except ValueError as error:
                faults.append(Fault("query", name, str(error)))
    if faults:
        raise _malformed(faults)
    return values


def _malformed(faults: list[Fault]) -> BadRequest:
    named = ", ".join(dict.fromkeys(fault.pointer for fault in faults if fault.pointer))
    return BadRequest(
        "malformed-parameter",
        f"Query parameters that cannot be read: {named}." if named else faults[0].message + ".",
        tuple(faults),
    )


def _readers(model: type[Any]) -> dict[str, Reader]:
    return {field.encode_name: _reader(field.type) for field in _fields(model)}


def _fields(model: type[Any]) -> tuple[msgspec.inspect.Field, ...]:
    return cast("msgspec.inspect.StructType", msgspec.inspect.type_info(model)).fields


def _reader(kind: msgspec.inspect.Type) -> Reader:
    """How the text of one parameter becomes the JSON value that its type expects."""
    if isinstance(kind, msgspec.inspect.Metadata):
        return _reader(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        for member in kind.types:
            if not isinstance(member, msgspec.inspect.NoneType) and type(member).__name__ != "UnsetType":
                return _reader(member)
    if isinstance(kind, msgspec.inspect.IntType):
        return _read_integer
    if isinstance(kind, msgspec.inspect.FloatType):
        return _read_number
    if isinstance(kind, msgspec.inspect.BoolType):
        return _read_boolean
    if isinstance(kind, msgspec.inspect.CustomType) and kind.cls is Money:
        return _read_amount
    return _read_text


def _read_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("Expected an integer such as 64")
    return int(text.partition(".")[0])


def _read_number(text: str) -> float:
    if not _NUMBER.fullmatch(text) or math.isinf(float(text)):
        raise ValueError("Expected a number such as 80 or 87.5")
    return float(text)


def _read_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("Expected true or false")
    return text == "true"


def _read_amount(text: str) -> str | float:
    if _AMOUNT.fullmatch(text):
        return text
    if _NUMBER.fullmatch(text):
        return float(text)
    raise ValueError("Expected an amount such as 2.50")


def _read_text(text: str) -> str:
    forbidden = forbidden_in(text, one_line=True)
    if forbidden is not None:
        raise ValueError(f"Holds the forbidden character {forbidden}")
    return text
