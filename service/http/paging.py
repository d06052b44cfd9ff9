"""Pages of lists: a limit, and an opaque cursor that remembers where the last page ended and what was asked."""

import base64
import binascii
import datetime
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from service.errors import BrokenRule
from service.http.text import forbidden_in

if TYPE_CHECKING:  # stores use pages without a web framework
    from litestar import Request

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
_MAX_COUNT = 2**63
Row = TypeVar("Row")

Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many items a page holds at the most.")]
Cursor = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        pattern="^[A-Za-z0-9_-]+$",
        description="`next_cursor` of the page before, with the same filters and sort.",
    ),
]


class _Position(Struct, frozen=True, array_like=True):
    """What a cursor holds: a digest of the question, and the last row's keys."""

    question: str
    keys: list[str | int]


def write_cursor(question: Sequence[object], keys: list[str | int]) -> str:
    """The cursor after the row with these sort keys, good for this question only."""
    packed = msgspec.json.encode(_Position(_digest(question), keys))
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def read_cursor(cursor: str, question: Sequence[object], kinds: Sequence[Callable[[Any], Any]]) -> list[Any]:
    """The keys in a cursor, each read by its kind; BrokenRule where it is not one of ours, or of another question."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = msgspec.json.decode(packed, type=_Position)
        keys = [read(key) for read, key in zip(kinds, position.keys, strict=True)]
    except (binascii.Error, ValueError, OverflowError, msgspec.DecodeError):
        raise _bad_cursor("It is not a cursor of this service") from None
    if position.question != _digest(question):
        raise _bad_cursor("It belongs to other filters or another sort: start again without a cursor")
    return keys


def page_of(
    rows: tuple[Row, ...], limit: int, cursor: str | UnsetType, question: Sequence[object]
) -> tuple[tuple[Row, ...], str | None]:
    """A page of a list that is in memory and does not change, and the cursor of the next."""
    start = 0 if cursor is UNSET else read_cursor(cursor, question, (count_key,))[0]
    end = start + limit
    return rows[start:end], write_cursor(question, [end]) if end < len(rows) else None


def text_key(value: Any) -> str:
    """A sort key that is a text; ValueError where it cannot be one of ours."""
    if type(value) is not str or forbidden_in(value):
        raise ValueError(value)
    return value


def instant_key(value: Any) -> datetime.datetime:
    """A sort key that is a point in time."""
    instant = datetime.datetime.fromisoformat(text_key(value))
    if instant.tzinfo is None:
        raise ValueError(value)
    return instant.astimezone(datetime.UTC)


def count_key(value: Any) -> int:
    """A sort key that is a row's number or a place in a list."""
    if type(value) is not int or not 0 <= value < _MAX_COUNT:
        raise ValueError(value)
    return value


def next_link(request: "Request[Any, Any, Any]", cursor: str | None) -> tuple[tuple[bytes, bytes], ...]:
    """The Link header of the next page, relative to the host; none on the last page."""
    if cursor is None:
        return ()
    asked = [(key, value) for key, value in request.query_params.multi_items() if key != "cursor"]
    query = urlencode([*asked, ("cursor", cursor)], quote_via=quote_plus)
    return ((b"link", f'<{request.scope["path"]}?{query}>; rel="next"'.encode("ascii")),)


def _digest(question: Sequence[object]) -> str:
    return blake2b(msgspec.json.encode(list(question)), digest_size=8).hexdigest()


def _bad_cursor(message: str) -> BrokenRule:
    return BrokenRule.at("cursor", message, "query")
