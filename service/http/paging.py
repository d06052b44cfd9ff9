"""Pages of lists: a limit, and an opaque cursor that remembers where the last page ended and what was asked."""

import base64
import binascii
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any
from urllib.parse import quote_plus, urlencode

import msgspec
from litestar import Request
from msgspec import Meta, Struct

from service.errors import BrokenRule

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

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


def read_cursor(cursor: str, question: Sequence[object], kinds: Sequence[type]) -> list[Any]:
    """The keys in a cursor; BrokenRule where it is not one of ours, or one of another question."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = msgspec.json.decode(packed, type=_Position)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise _bad_cursor("It is not a cursor of this service") from None
    if position.question != _digest(question):
        raise _bad_cursor("It belongs to other filters or another sort: start again without a cursor")
    if [type(key) for key in position.keys] != list(kinds):
        raise _bad_cursor("It is not a cursor of this service")
    return position.keys


def next_link(request: Request[Any, Any, Any], cursor: str | None) -> tuple[tuple[bytes, bytes], ...]:
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
