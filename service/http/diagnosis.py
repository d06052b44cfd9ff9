"""What is wrong with a body that could not be decoded: is it JSON at all, and which fields are to blame.

Only bodies that failed the straight decoding come here, so that this may take its time. It also finishes what
strict decoding is too strict for: JSON Schema counts 33.0 as an integer.
"""

import difflib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

import msgspec

from service.errors import BadRequest, BrokenRule, Fault
from service.http.text import forbidden_in
from service.money import (
    MONEY_SCHEMA,
    SIGNED_MONEY_SCHEMA,
    Money,
    SignedMoney,
    TooManyDigits,
    read_money,
    read_signed_money,
)

MAX_DEPTH = 64
_MAX_FAULTS = 20
_MAX_LISTED = 40
_MAX_QUOTED = 300
_MAX_MESSAGE = 2000
_MAPPING_VALUE = "[...]"
_SCHEMA_ROOT = "#/$defs/"


class DuplicateKey(ValueError):
    """The same key twice in one object."""


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written, equal keys kept."""


def read_custom(kind: type, value: object) -> object:
    """msgspec's hook for the types that it does not know."""
    if kind is Money:
        return read_money(value)
    if kind is SignedMoney:
        return read_signed_money(value)
    raise NotImplementedError(kind)  # how msgspec is told that a type is not ours


def schema_of_custom(kind: type) -> dict[str, Any]:
    """The JSON Schema of the types that msgspec does not know."""
    if kind is Money:
        return dict(MONEY_SCHEMA)
    if kind is SignedMoney:
        return dict(SIGNED_MONEY_SCHEMA)
    raise NotImplementedError(kind)  # how msgspec is told that a type is not ours


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs; DuplicateKey where one key stands twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DuplicateKey
    return made


def bad_texts(document: Any, pointer: str = "") -> Iterator[Fault]:
    """Each text, key or value, that holds a character which may not be there."""
    if isinstance(document, str):
        forbidden = forbidden_in(document)
        if forbidden:
            yield Fault("body", pointer, f"Holds the forbidden character {forbidden}")
    elif isinstance(document, list):
        for index, item in enumerate(document):
            yield from bad_texts(item, f"{pointer}/{index}")
    elif isinstance(document, dict):
        for key, value in document.items():
            at = f"{pointer}/{_escaped(key)}"
            if forbidden_in(key):
                yield Fault("body", at, f"The key holds the forbidden character {forbidden_in(key)}")
            yield from bad_texts(value, at)


def explain(body: bytes, kind: Any) -> Any:
    """The decoded body after all, or the error that says what is wrong with it and where."""
    document = _parse(body)
    _refuse_depth(document)
    duplicates = tuple(_duplicates(document, ""))[:_MAX_FAULTS]
    if duplicates:
        raise BadRequest("duplicate-key", "The body gives a key twice.", duplicates)
    plain = _plain(document)
    texts = tuple(bad_texts(plain))[:_MAX_FAULTS]
    if texts:
        raise BadRequest("invalid-text", "The body holds forbidden characters.", texts)
    try:
        return msgspec.convert(plain, kind, strict=True, dec_hook=read_custom)
    except msgspec.ValidationError as error:
        _refuse(plain, kind, error)


def _parse(body: bytes) -> Any:
    """The JSON text, objects as pairs; BadRequest where it is none."""
    try:
        return json.loads(body.decode(), object_pairs_hook=_Pairs, parse_constant=_no_constant, parse_int=_integer)
    except UnicodeDecodeError:
        raise _malformed("The body is not UTF-8") from None
    except RecursionError:
        raise _malformed(f"The body is nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise _malformed(f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise _malformed(f"The body is not JSON: {error}") from None


def _malformed(message: str) -> BadRequest:
    return BadRequest("malformed-json", message + ".", (Fault("body", "", message),))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _integer(digits: str) -> int | float:
    """Beyond 64 bits no field of ours counts: as a float it fails the range it is out of."""
    return int(digits) if len(digits) < 19 else float(digits)


def _refuse_depth(document: Any) -> None:
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise _malformed(f"The body is nested deeper than {MAX_DEPTH} levels")


def _children(value: Any) -> list[Any]:
    if isinstance(value, _Pairs):
        return [inner for _, inner in value]
    return value if isinstance(value, list) else []


def _duplicates(value: Any, pointer: str) -> Iterator[Fault]:
    if isinstance(value, _Pairs):
        seen = set()
        for key, inner in value:
            at = f"{pointer}/{_escaped(key)}"
            if key in seen:
                yield Fault("body", at, "The key is given more than once")
            seen.add(key)
            yield from _duplicates(inner, at)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _duplicates(inner, f"{pointer}/{index}")


def _plain(value: Any) -> Any:
    """Objects as dicts, and integral floats as the integers that JSON Schema takes them for."""
    if isinstance(value, _Pairs):
        return {key: _plain(inner) for key, inner in value}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if type(value) is float and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def _refuse(plain: Any, kind: Any, first: msgspec.ValidationError) -> NoReturn:
    """The first error of each section, each with the values that would be allowed."""
    errors = [first]
    if isinstance(plain, dict):
        for key, value in plain.items():
            try:
                msgspec.convert({key: value}, kind, strict=True, dec_hook=read_custom)
            except msgspec.ValidationError as raised:
                errors.append(raised)
            if len(errors) > _MAX_FAULTS:
                break
    faults: dict[str, Fault] = {}
    broken_rules_only = True
    for error in errors:
        # A section alone may lack its required siblings; only the whole body's own error counts for those.
        if error is not first and _missing_at_top(error):
            continue
        fault = _clipped(_fault(error, plain, kind))
        faults.setdefault(fault.pointer, fault)
        broken_rules_only &= isinstance(error.__cause__, TooManyDigits)
    listed = tuple(faults.values())[:_MAX_FAULTS]
    if broken_rules_only:
        raise BrokenRule(str(TooManyDigits()), listed)
    named = ", ".join(fault.pointer or "the body" for fault in listed)
    raise BadRequest("invalid-body", f"The body does not match the schema at: {named}.", listed)


def _clipped(fault: Fault) -> Fault:
    """A fault quotes what was sent: as much of it as helps."""
    return Fault(fault.where, fault.pointer[:_MAX_QUOTED], fault.message[:_MAX_MESSAGE])


def _missing_at_top(error: msgspec.ValidationError) -> bool:
    return str(error).startswith("Object missing required field") and " - at `$" not in str(error)


def _fault(error: msgspec.ValidationError, plain: Any, kind: Any) -> Fault:
    """msgspec's message and path as a pointer, with what would have been allowed."""
    message, _, path = str(error).partition(" - at `")
    if _MAPPING_VALUE in path or " - at `key" in str(error):
        return _fault_in_mapping(error, message, path, plain, kind)
    pointer = _pointer(path.rstrip("`"))
    quoted = message.partition("`")[2].rpartition("`")[0]
    if message.startswith("Object contains unknown field"):
        allowed = _allowed(kind, plain, pointer)
        at = f"{pointer}/{_escaped(quoted)}"
        return Fault("body", at, f"Unknown field; known are: {', '.join(allowed)}" if allowed else "Unknown field")
    if message.startswith("Object missing required field"):
        return Fault("body", f"{pointer}/{_escaped(quoted)}", "Required and missing")
    if message.startswith(("Invalid enum value", "Invalid value")):
        allowed = _allowed(kind, plain, pointer)
        if allowed:
            message = f"{message}; {_some_of(allowed, message)}"
    return Fault("body", pointer, message)


def _fault_in_mapping(error: msgspec.ValidationError, message: str, path: str, plain: Any, kind: Any) -> Fault:
    """msgspec names the mapping (`$.labels[...]`, or "key in `$.labels`") and not the key: find the key."""
    bad_key = path.startswith("key")
    mapping = _pointer(path.rstrip("`").rpartition("`")[2] if bad_key else path.partition(_MAPPING_VALUE)[0])
    parts = mapping.split("/")[1:]
    for key, value in _at(plain, parts).items():
        try:
            msgspec.convert(_with(plain, parts, {key: value}), kind, strict=True, dec_hook=read_custom)
        except msgspec.ValidationError as raised:
            if str(raised) == str(error):
                return Fault("body", f"{mapping}/{_escaped(key)}", f"The key: {message}" if bad_key else message)
    return Fault("body", mapping, message)


def _at(plain: Any, parts: list[str]) -> Any:
    for part in parts:
        plain = plain[part]
    return plain


def _with(plain: Any, parts: list[str], value: Any) -> Any:
    """The document with another value at this place."""
    if not parts:
        return value
    return {**plain, parts[0]: _with(plain[parts[0]], parts[1:], value)}


def allowed_values(error: msgspec.ValidationError, kind: Any, field: str) -> str:
    """msgspec's message on one field, with the values of its enum where it has one."""
    message = str(error).partition(" - at `$")[0]
    if not message.startswith("Invalid enum value"):
        return message
    return f"{message}; {_some_of(_allowed(kind, {}, '/' + field), message)}"


def _some_of(allowed: list[str], message: str) -> str:
    """The allowed values, or of a long list those nearest to what was given."""
    if len(allowed) <= _MAX_LISTED:
        return f"allowed are: {', '.join(allowed)}"
    given = message.partition("'")[2].rpartition("'")[0].upper()[:_MAX_QUOTED]
    near = difflib.get_close_matches(given, allowed, n=5, cutoff=0.3) or allowed[:5]
    return f"allowed are {len(allowed)} values, among them: {', '.join(near)}"


def _pointer(path: str) -> str:
    """`$.work.points[3].n` as the JSON pointer /work/points/3/n."""
    return path.removeprefix("$").replace("[", "/").replace("]", "").replace(".", "/")


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1").encode("utf-8", "backslashreplace").decode()


@cache
def _schemas(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (schema,), definitions = msgspec.json.schema_components([kind], schema_hook=schema_of_custom)
    return schema, definitions


def _allowed(kind: Any, plain: Any, pointer: str) -> list[str]:
    """What the schema allows at a pointer: the values of an enum, or the names of an object's fields."""
    schema, definitions = _schemas(kind)
    nodes = [schema]
    value = plain
    for part in [*pointer.split("/")[1:], None]:
        nodes = [one for node in nodes for one in _alternatives(node, definitions, value)]
        if part is None:
            break
        nodes = [inner for node in nodes for inner in _inside(node, part)]
        value = _part_of(value, part)
    enums = [str(choice) for node in nodes for choice in node.get("enum", ())]
    fields = [name for node in nodes for name in node.get("properties", ())]
    return list(dict.fromkeys(enums or fields))


def _inside(node: dict[str, Any], part: str) -> Iterator[dict[str, Any]]:
    """The schema of a field of an object, or of an element of an array."""
    if part in node.get("properties", {}):
        yield node["properties"][part]
    elif node.get("type") == "array" and part.isdigit() and isinstance(node.get("items"), dict):
        yield node["items"]


def _part_of(value: Any, part: str) -> Any:
    if isinstance(value, list):
        return value[int(part)] if part.isdigit() and int(part) < len(value) else None
    return value.get(part) if isinstance(value, dict) else None


def _alternatives(node: dict[str, Any], definitions: dict[str, Any], value: Any) -> Iterator[dict[str, Any]]:
    """The schemas that a node stands for; of a tagged union the tagged one, where the tag is right."""
    if "$ref" in node:
        yield from _alternatives(definitions[node["$ref"].removeprefix(_SCHEMA_ROOT)], definitions, value)
    elif "anyOf" in node:
        mapping = node.get("discriminator", {}).get("mapping", {})
        tag = value.get("kind") if isinstance(value, dict) else None
        chosen = mapping.get(tag) if isinstance(tag, str) else None
        for option in [{"$ref": chosen}] if chosen else node["anyOf"]:
            yield from _alternatives(option, definitions, value)
    else:
        yield node
