"""Query strings read strictly into a Struct: each parameter once, by a known name, in the form of its type."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from service.errors import BadRequest, BrokenRule, Fault
from service.http.diagnosis import allowed_values, read_custom
from service.http.text import forbidden_in
from service.money import AMOUNT_PATTERN, Money, TooManyDigits

T = TypeVar("T")
Reader = Callable[[str], Any]

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0+)?", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,399})(\.[0-9]{1,399})?([eE][+-]?[0-9]{1,4})?", re.ASCII)
_AMOUNT = re.compile(AMOUNT_PATTERN, re.ASCII)
_MAX_PARAMETERS = 100


def query_reader(model: type[T]) -> Callable[[bytes], T]:
    """A function that reads a raw query string into `model`, or says which parameters are wrong."""
    readers = _readers(model)

    def read(raw: bytes) -> T:
        return _convert(_decode_query(raw, readers), model)

    return read


def refuse_any(raw: bytes) -> None:
    """For a path without parameters: BadRequest names those that were given."""
    _decode_query(raw, {})


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
    required = [field.encode_name for field in _fields(model) if field.required]
    faults = [Fault("query", name, "Required and missing") for name in required if name not in values]
    if faults:
        return _malformed(faults)
    only_digits = True
    for name, value in values.items():
        try:
            msgspec.convert(
                {name: value, **{other: values[other] for other in required}}, model, strict=True, dec_hook=read_custom
            )
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
