"""Entity tags and preconditions (RFC 9110): strong tags on what is stored, and no write to an unseen version."""

import re
from hashlib import blake2b
from typing import Any, Literal

from litestar import Request

from service.errors import BadRequest, Fault
from service.http.preconditions import Preconditions, Tags
from service.http.responses import JSON, Empty, Header

_ONE_TAG = '(W/)?"[!#-~]*"'
TAGS_PATTERN = f"^{_ONE_TAG}( *, *{_ONE_TAG})*$"
TAGS_MAX_LENGTH = 1000
_TAG = re.compile(_ONE_TAG)
_TAGS = re.compile(TAGS_PATTERN)

KEY_PATTERN = "^[!-~]+$"
KEY_MAX_LENGTH = 255
_KEY = re.compile(KEY_PATTERN)

CATALOGUE_CACHE = b"public, max-age=86400"
STORED_CACHE = b"private, no-cache"


def content_etag(body: bytes) -> str:
    """A strong tag for bytes that are the same for everybody."""
    return f'"{blake2b(body, digest_size=12).hexdigest()}"'


def read_tags(request: Request[Any, Any, Any], name: Literal["if-match", "if-none-match"]) -> Tags | None:
    """The header's tags, None where it is absent; BadRequest where it is malformed."""
    wanted = name.encode()
    values = [value for key, value in request.scope["headers"] if key == wanted]
    if not values:
        return None
    text = b",".join(values).decode("latin-1").strip()
    if text == "*":
        return Tags(any=True, tags=())
    if not _TAGS.fullmatch(text) or len(text) > TAGS_MAX_LENGTH:
        title = "-".join(part.capitalize() for part in name.split("-"))
        message = f'{title} takes * or a list of quoted entity tags, as in "7-3"'
        raise BadRequest("malformed-parameter", message + ".", (Fault("header", title, message),))
    return Tags(any=False, tags=tuple(match.group() for match in _TAG.finditer(text)))


def read_preconditions(request: Request[Any, Any, Any]) -> Preconditions:
    """A dependency for handlers that write."""
    return Preconditions(read_tags(request, "if-match"), read_tags(request, "if-none-match"))


def read_idempotency_key(request: Request[Any, Any, Any]) -> str | None:
    """The key of a POST that may be sent twice, None where it has none; BadRequest where it is malformed."""
    values = [value for key, value in request.scope["headers"] if key == b"idempotency-key"]
    if not values:
        return None
    text = values[0].decode("latin-1").strip()
    if len(values) > 1 or len(text) > KEY_MAX_LENGTH or not _KEY.fullmatch(text):
        message = f"Idempotency-Key is one text of 1 to {KEY_MAX_LENGTH} visible ASCII characters, without spaces"
        raise BadRequest("malformed-parameter", message + ".", (Fault("header", "Idempotency-Key", message),))
    return text


def conditional(
    request: Request[Any, Any, Any],
    body: bytes,
    etag: str,
    cache: bytes,
    headers: tuple[Header, ...] = (),
    media_type: bytes = b"application/json",
) -> JSON[Any]:
    """200 with the body, or 304 where the caller has it already."""
    answer_headers = ((b"etag", etag.encode()), *caching(cache), *headers)
    known = read_tags(request, "if-none-match")
    if known is not None and known.holds(etag, strong=False):
        return Empty(304, answer_headers)
    return JSON(body, 200, answer_headers, media_type)


def caching(cache: bytes) -> tuple[Header, ...]:
    """Who may keep an answer, and on what else it depends."""
    return ((b"cache-control", cache), (b"vary", _VARY[cache]))


_VARY = {
    CATALOGUE_CACHE: b"Accept-Encoding",
    STORED_CACHE: b"Authorization, X-API-Key",
}
