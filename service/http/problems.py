"""Errors to RFC 9457 problem details: one table of codes, one answer shape, from every path."""

import logging
import uuid
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap
from msgspec import Meta, Struct

from service.errors import Fault, Forbidden, TooManyRequests, TraincostError, Unauthenticated

PROBLEM_JSON = "application/problem+json"
RETRY_AFTER_SECONDS = 2

_log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


class Kind(Struct, frozen=True):
    """One kind of error: its status, its constant title, and what it means to a caller."""

    status: int
    title: str
    meaning: str


# Every `type` that an answer can carry, as /errors/{code}. docs/errors.md is compared with this table.
KINDS: dict[str, Kind] = {
    "malformed-json": Kind(
        400,
        "The body is not JSON",
        "The bytes are no JSON text in UTF-8, or are nested deeper than 64 levels. Nothing was read.",
    ),
    "malformed-parameter": Kind(
        400,
        "A parameter cannot be read",
        "A query, path or header parameter is unknown, repeated, or not of the documented form.",
    ),
    "malformed-request": Kind(400, "The request cannot be read", "The request as a whole is not understood."),
    "unauthenticated": Kind(
        401,
        "A key is needed",
        "No key was sent, or one that is not known, has ended or was revoked; which of these is not told.",
    ),
    "forbidden": Kind(
        403,
        "The key does not reach this far",
        "The key is good and lacks the scope that the operation needs, or that the object needs as it stands: what is "
        "approved is changed only by those who approve.",
    ),
    "not-found": Kind(
        404,
        "Not found",
        "There is nothing at this path or by this name; near names are given where there are any.",
    ),
    "method-not-allowed": Kind(
        405, "Method not allowed", "The path exists and does not answer to this method; see Allow."
    ),
    "conflict": Kind(
        409, "Conflict", "Things as they stand do not allow it, such as a name that another object holds by now."
    ),
    "precondition-failed": Kind(
        412,
        "Precondition failed",
        "If-Match names a version that is not the current one, or If-None-Match: * met an existing object. "
        "Read the object again, and repeat the change on what it says now.",
    ),
    "body-too-large": Kind(
        413, "The body is too large", "A body may have at most 1,000,000 bytes, an imported file 20,000,000."
    ),
    "unsupported-media-type": Kind(
        415,
        "Unsupported media type",
        "The body must be JSON, or for an import also CSV, and its Content-Type must say so.",
    ),
    "invalid-body": Kind(
        422,
        "The body does not match the schema",
        "The body is JSON, and a field is missing, unknown, of the wrong type or out of range. The first error "
        "of each section is listed.",
    ),
    "duplicate-key": Kind(
        422, "A key is given twice", "The same key stands twice in one JSON object, so its meaning is open."
    ),
    "invalid-text": Kind(
        422,
        "A text holds forbidden characters",
        "A text holds NUL, a control character, a lone surrogate or a bidirectional control.",
    ),
    "broken-rule": Kind(
        422,
        "A rule is broken",
        "The body matches the schema, and its values cannot be true together or cannot be computed.",
    ),
    "unknown-name": Kind(
        422,
        "Unknown name",
        "The catalogue has no such entry. The nearest entries are named; none is guessed.",
    ),
    "ambiguous-name": Kind(
        422, "Ambiguous name", "The name fits several catalogue entries, which are listed. Name one of them."
    ),
    "not-yet-available": Kind(
        422,
        "Not yet available",
        "The accelerator is announced and cannot be rented. Set cluster.allow_announced to plan with it.",
    ),
    "precondition-required": Kind(
        428,
        "Precondition required",
        "The object exists. Send If-Match with its ETag, so that nobody's change is lost.",
    ),
    "too-many-requests": Kind(
        429,
        "Too many requests",
        "The key has made as many requests of this kind as it may in a minute, or this address has sent as many keys "
        "or links that are no good. Try again after Retry-After seconds.",
    ),
    "internal": Kind(500, "Internal error", "Something failed here. The log has the details under the instance's id."),
    "unavailable": Kind(
        503, "Temporarily unavailable", "The database does not answer. Try again after Retry-After seconds."
    ),
}
_BY_STATUS = {
    400: "malformed-request",
    404: "not-found",
    405: "method-not-allowed",
    413: "body-too-large",
    415: "unsupported-media-type",
}


class Problem(Struct, frozen=True):
    """RFC 9457 problem details, with the bad fields named."""

    type: Annotated[str, Meta(description="/errors/{code}: stable, and documented under that path.")]
    title: Annotated[str, Meta(description="Constant for each type.")]
    status: int
    detail: str
    instance: Annotated[str, Meta(description="The path asked for; for a 500 a urn:uuid that the log has too.")]
    errors: Annotated[tuple[Fault, ...], Meta(description="Each bad field; empty where no field is to blame.")]


def type_of(code: str) -> str:
    """The problem type of a code."""
    return f"/errors/{code}"


def problem(
    code: str,
    detail: str,
    instance: str,
    faults: tuple[Fault, ...] = (),
    headers: dict[str, str] | None = None,
) -> Response[bytes]:
    """An answer of this kind."""
    kind = KINDS[code]
    body = Problem(type_of(code), kind.title, kind.status, detail, instance, faults)
    return Response(
        _encoder.encode(body),
        status_code=kind.status,
        media_type=PROBLEM_JSON,
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def instance_of(scope: Any) -> str:
    """The path asked for, as it was written: a URI reference."""
    return quote(scope["path"], safe="/%") if scope.get("raw_path") is None else scope["raw_path"].decode("latin-1")


def on_ours(request: Request[Any, Any, Any], error: TraincostError) -> Response[bytes]:
    if KINDS[error.code].status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return on_any(request, error)
    headers = {}
    if error.code == "unavailable":
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        _log.warning("database unavailable: %r", error.__cause__ or error)
    elif isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, Unauthenticated | Forbidden):
        headers["WWW-Authenticate"] = _challenge(error)
    return problem(error.code, error.detail, instance_of(request.scope), error.faults, headers)


def _challenge(error: Unauthenticated | Forbidden) -> str:
    """What to send instead (RFC 6750 and 7617); programs that know Basic only look for it here."""
    if isinstance(error, Forbidden):
        return f'Bearer realm="traincost", error="insufficient_scope", scope="{error.scope}"'
    bearer = 'Bearer realm="traincost"' + (', error="invalid_token"' if error.sent else "")
    return f'{bearer}, Basic realm="traincost", charset="UTF-8"'


def _on_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return on_any(request, error)
    headers = dict(error.headers or {})
    if "allow" in headers:
        headers["allow"] = allowed(headers["allow"].split(", "))
    path = instance_of(request.scope)
    if isinstance(error, ValidationException) and _lacks_body(error):
        return problem("malformed-json", "The body is missing.", path, (Fault("body", "", "Missing"),), headers)
    if isinstance(error, ValidationException):
        return problem("malformed-parameter", "A parameter cannot be read.", path, _faults(error), headers)
    code = _BY_STATUS.get(error.status_code, "malformed-request")
    detail = error.detail if code == "malformed-request" else KINDS[code].meaning
    return problem(code, detail, path, _WHOLE_BODY if code == "body-too-large" else (), headers)


_WHOLE_BODY = (Fault("body", "", "The body as a whole is too large"),)


def _lacks_body(error: ValidationException) -> bool:
    """Litestar speaks of an empty body as of a missing parameter `data`."""
    extra = error.extra if isinstance(error.extra, list) else []
    return any(isinstance(item, dict) and item.get("key") == "data" for item in extra)


def _faults(error: ValidationException) -> tuple[Fault, ...]:
    """Litestar's own list of bad parameters, in our shape."""
    extra = error.extra if isinstance(error.extra, list) else []
    return tuple(
        Fault(
            "path" if item.get("source") == "path" else "header" if item.get("source") == "header" else "query",
            str(item.get("key", "")),
            str(item.get("message", "")),
        )
        for item in extra
        if isinstance(item, dict)
    )


def on_any(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The client is told nothing of the inside; the log gets everything, under the same id."""
    instance = _failure_of(request.scope)
    scope: Any = request.scope
    hidden = "route_handler" in scope and scope["route_handler"].opt.get("secret_path")
    path = scope["path_template"] if hidden else scope["path"]  # whoever reads the log could follow a link
    _log.error("%s %s failed as %s", scope["method"], ascii(path), instance, exc_info=error)
    return problem("internal", KINDS["internal"].meaning, instance)


def _failure_of(scope: Any) -> str:
    """A failure's name: the request's id, if that is a UUID."""
    try:
        return uuid.UUID(scope["request_id"].decode()).urn
    except (KeyError, ValueError):
        return uuid.uuid4().urn


def allowed(methods: list[str]) -> str:
    """An Allow header: HEAD wherever GET, sorted."""
    return ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))


HANDLERS: ExceptionHandlersMap = {
    TraincostError: on_ours,
    HTTPException: _on_http,
    Exception: on_any,
}
