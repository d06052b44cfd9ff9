"""A JSON array of objects as a table: items are decoded one at a time, numbers as the texts that they were."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from service.errors import BrokenRule
from service.prices.importers.rows import Reject, Row, Skip, shown

_SAMPLE_ITEMS = 100
_MAX_SCALAR = 200
# An untyped fraction stays text, so that nothing is lost before it is read as money.
_item = msgspec.json.Decoder(Any, float_hook=str)
_MEMBER = re.compile(rb'"\s*:')
_Array = list[Raw]
_Members = dict[str, Raw]
T = TypeVar("T")


class JsonTable:
    """The items of the only array: the document itself, or the member of this name."""

    delimiter: str | None = None
    sample = ""
    spanning = 0

    def __init__(self, data: bytes, encoding: str, member: str | None = None) -> None:
        self.encoding = encoding
        text = _as_utf8(data, encoding)
        self._items: _Array = _decoded(text, _Array) if member is None else _member(text, member)
        self._length = len(data)
        self._done = 0
        columns: dict[str, None] = {}
        for raw in self._items[:_SAMPLE_ITEMS]:
            item = _decoded(bytes(raw), Any)
            if isinstance(item, dict):
                columns.update(dict.fromkeys(item))
        self.columns = tuple(columns)
        self.is_empty = not self._items

    def require(self, columns: Iterable[str]) -> None:
        """BrokenRule names the first of them that no item has, if any item has anything."""
        missing = {column: None for column in columns if column not in self.columns}
        for raw in self._items[_SAMPLE_ITEMS:] if missing else ():
            item = _decoded(bytes(raw), Any)
            for column in [column for column in missing if isinstance(item, dict) and column in item]:
                del missing[column]
            if not missing:
                return
        for column in missing if self.columns else ():
            known = ", ".join(shown(name) for name in self.columns[:20])
            raise BrokenRule.at("", f"No item has {shown(column)}; the first have {known}")

    def rows(self, wanted: Sequence[str], *, strip: bool = True) -> Iterator[Row]:
        for place, raw in enumerate(self._items):
            self._done = place + 1
            yield place + 1, _cells(raw, wanted, strip=strip)

    def position(self) -> int:
        return self._length * self._done // max(len(self._items), 1)


def scalar_of(data: bytes) -> str | None:
    """What a document is that is JSON and neither an array nor an object; None for any other."""
    if len(data) > _MAX_SCALAR:
        return None
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return None if isinstance(value, list | dict) else "null" if value is None else type(value).__name__


def members_of(data: bytes, encoding: str) -> frozenset[str] | None:
    """The names of a JSON object's members; None for an array."""
    text = _as_utf8(data, encoding)
    return frozenset(_decoded(text, _Members)) if text.lstrip()[:1] == b"{" else None


def _cells(raw: Raw, wanted: Sequence[str], *, strip: bool) -> list[str] | Reject | Skip:
    try:
        item = _item.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return Reject("unreadable", None, f"The item cannot be read: {error}")
    if not isinstance(item, dict):
        return Reject("not_an_object", None, "The item is not an object")
    if not item:
        return Skip("empty_row", None, "The item is empty")
    twice = _named_twice(raw, len(item))
    if twice is not None:
        return Reject("named_twice", None, f"The item has {shown(twice)} twice")
    cells = []
    for name in wanted:
        value = item.get(name)
        if type(value) is str:
            cells.append(value.strip() if strip else value)
        elif value is None:
            cells.append("")
        elif value is True or value is False:
            cells.append("true" if value else "false")
        elif isinstance(value, int):
            # Beyond 64 bits an int may be too long to be written at all.
            cells.append(str(value) if abs(value) < 10**18 else "a number too long to read")
        else:
            return Reject("nested", None, f"{shown(name)} holds a list, an object or a number without end")
    return cells


def _named_twice(raw: Raw, count: int) -> str | None:
    """A member that stands twice in an item which is known to have so many different ones."""
    text = bytes(raw)
    if len(_MEMBER.findall(text)) == count:  # each member looks like one, whatever else does
        return None
    try:
        members = json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str)
    except (RecursionError, ValueError):
        return None
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            return str(name)
        seen.add(name)
    return None


def _member(text: bytes, member: str) -> _Array:
    members = _decoded(text, _Members)
    if member not in members:
        raise BrokenRule.at("", f"The JSON object has no member {shown(member)}")
    return _decoded(bytes(members[member]), _Array)


def _decoded(text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise BrokenRule.at("", f"The file is not the JSON that it should be: {error}") from None


def _as_utf8(data: bytes, encoding: str) -> bytes:
    if encoding == "utf-8-sig":
        return data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode(encoding).encode()
    except UnicodeError:
        raise BrokenRule.at("", f"The file cannot be read: a byte is not {encoding}") from None
