"""Who asks: a principal with its project and scopes, as the handlers and the stores know it."""

from typing import Any, Literal, get_args

from litestar import Request
from msgspec import Struct

from service.storage.audit import Actor

Scope = Literal[
    "estimates:run",
    "scenarios:read",
    "scenarios:write",
    "scenarios:approve",
    "prices:read",
    "prices:write",
    "exports:read",
    "admin",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
# In the place of a scope: nobody is asked for a key.
PUBLIC = "public"

# Everything that was there before there were projects belongs to this one, and its admins are those of the instance.
DEFAULT_PROJECT_ID = 1


class Principal(Struct, frozen=True):
    """A key, or whoever is on this machine where nobody is asked for one."""

    project_id: int
    key_id: str | None
    scopes: frozenset[str]
    name: str


LOCAL = Principal(DEFAULT_PROJECT_ID, None, frozenset(SCOPES), "local")


def principal_in(scope: Any) -> Principal:
    """Whoever sent what has this scope."""
    principal: Principal = scope["principal"]
    return principal


def principal_of(request: Request[Any, Any, Any]) -> Principal:
    """Whoever sent the request. A route that asked nobody has none, and must not act for a project."""
    return principal_in(request.scope)


def project_of(request: Request[Any, Any, Any]) -> int:
    """The project that is read."""
    return principal_of(request).project_id


def actor_of(request: Request[Any, Any, Any]) -> Actor:
    """Who writes, as the audit log has it."""
    principal = principal_of(request)
    request_id: bytes = request.scope["request_id"]  # type: ignore[typeddict-item]  # ours
    return Actor(principal.project_id, principal.key_id, principal.name, request_id.decode())


def administers_instance(principal: Principal) -> bool:
    """Whether it may make projects and see all of them."""
    return principal.project_id == DEFAULT_PROJECT_ID and "admin" in principal.scopes
