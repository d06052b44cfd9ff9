"""Projects, keys and the audit log over HTTP. All of it is for admins."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from litestar import Request, Router, delete, get, post
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody, PathParameter
from sqlalchemy.ext.asyncio import AsyncConnection

from service.access import audit_store, operations, store
from service.access.keys import KEY_ID_LENGTH, KEY_ID_PATTERN
from service.access.operations import Access
from service.access.schemas import (
    ApiKey,
    ApiKeyPage,
    ApiKeyWrite,
    AuditPage,
    AuditQuery,
    NewApiKey,
    PageQuery,
    Project,
    ProjectPage,
    ProjectWrite,
    Rotation,
)
from service.http.conditional import STORED_CACHE, caching, conditional, content_etag
from service.http.encoding import encoded
from service.http.once import read_once, said
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import actor_of, principal_of, project_of
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.http.text import NAME_MAX_LENGTH, NAME_PATTERN, canonical_name

Connect = Callable[[], AsyncIterator[AsyncConnection]]
AnyRequest = Request[Any, Any, Any]
ProjectPath = Annotated[
    str,
    PathParameter(
        # Said in the contract and checked by `canonical_name`, which looks at the name in NFC.
        schema_extra={"pattern": NAME_PATTERN, "min_length": 1, "max_length": NAME_MAX_LENGTH},
        description="The project's name, in any case.",
    ),
]
KeyPath = Annotated[
    str,
    PathParameter(
        pattern=KEY_ID_PATTERN,
        min_length=KEY_ID_LENGTH,
        max_length=KEY_ID_LENGTH,
        description="The key's id: the part between `tc_` and the secret.",
    ),
]
_PROJECT = {
    "llm-research": {"summary": "A project", "value": {"name": "llm-research", "description": "Pre-training runs"}}
}
_KEY = {
    "dashboard": {
        "summary": "A key for a dashboard",
        "value": {"name": "finance dashboard", "scopes": ["scenarios:read", "prices:read", "exports:read"]},
    }
}
_SAME_KEY = {"key_id": "$response.body#/id"}
_KEY_LINKS = {
    "read": {"operationId": "getApiKey", "parameters": _SAME_KEY},
    "rotate": {"operationId": "rotateApiKey", "parameters": _SAME_KEY},
    "revoke": {"operationId": "revokeApiKey", "parameters": _SAME_KEY},
}
_PROJECT_LINKS = {"read": {"operationId": "getProject", "parameters": {"name": "$response.body#/name"}}}

# Read in the handlers: beside a connection as a second dependency, a bad query would cancel its opening half-way.
_page_query = query_of(PageQuery)
_audit_query = query_of(AuditQuery)


@get(
    "/projects",
    operation_id="listProjects",
    opt=About(query=PageQuery, headers=("Link",), success="A page of projects.", database=True).as_opt(),
)
async def list_projects(request: AnyRequest, reader: NamedDependency[AsyncConnection]) -> JSON[ProjectPage]:
    """List projects.

    The caller's own; for admins of the default project, who are those of the instance, all.
    """
    page = await store.list_projects(reader, operations.within(principal_of(request)), _page_query(request))
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


@post(
    "/projects",
    operation_id="createProject",
    status_code=201,
    opt=About(
        idempotent=True,
        headers=("Location", "ETag"),
        success="Created.",
        examples=_PROJECT,
        links=_PROJECT_LINKS,
        database=True,
        errors=("409",),
    ).as_opt(),
)
async def create_project(
    request: AnyRequest, data: JSONBody[ProjectWrite], access: NamedDependency[Access]
) -> JSON[Project]:
    """Create a project.

    For admins of the default project. It has no key yet: make one by naming it in `createApiKey`.
    """
    once = await read_once(request)
    return said(await operations.create_project(access, principal_of(request), actor_of(request), data, once))


@get(
    "/projects/{name:str}",
    operation_id="getProject",
    opt=About(conditional="read", success="The project.", database=True, errors=("422",)).as_opt(),
)
async def get_project(
    request: AnyRequest, name: ProjectPath, reader: NamedDependency[AsyncConnection]
) -> JSON[Project]:
    """Get a project.

    The caller's own; for admins of the default project any.
    """
    within = operations.within(principal_of(request))
    found = await store.get_project(reader, canonical_name(name, "path", "name"), within)
    body = encoded(found.project)
    return conditional(request, body, content_etag(body), STORED_CACHE)


@get(
    "/api-keys",
    operation_id="listApiKeys",
    opt=About(query=PageQuery, headers=("Link",), success="A page of keys.", database=True).as_opt(),
)
async def list_api_keys(request: AnyRequest, reader: NamedDependency[AsyncConnection]) -> JSON[ApiKeyPage]:
    """List the project's keys.

    In the order in which they were made, without their secrets, and without those that were revoked.
    """
    page = await store.list_keys(reader, project_of(request), _page_query(request))
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


@post(
    "/api-keys",
    operation_id="createApiKey",
    status_code=201,
    opt=About(
        idempotent=True,
        headers=("Location",),
        success="Created; the key is shown this once.",
        examples=_KEY,
        links=_KEY_LINKS,
        database=True,
    ).as_opt(),
)
async def create_api_key(
    request: AnyRequest, data: JSONBody[ApiKeyWrite], access: NamedDependency[Access]
) -> JSON[NewApiKey]:
    """Create a key.

    The answer shows the whole key, this once: only its SHA-256 is stored. Sent again with the same Idempotency-Key, no
    second key is made, and the first is not shown again.
    """
    once = await read_once(request)
    return said(await operations.create_key(access, principal_of(request), actor_of(request), data, once))


@get(
    "/api-keys/{key_id:str}",
    operation_id="getApiKey",
    opt=About(conditional="read", success="The key.", database=True).as_opt(),
)
async def get_api_key(request: AnyRequest, key_id: KeyPath, reader: NamedDependency[AsyncConnection]) -> JSON[ApiKey]:
    """Get a key.

    Without its secret: what it may do, when it ends, when it was last used.
    """
    body = encoded(await store.get_key(reader, project_of(request), key_id))
    return conditional(request, body, content_etag(body), STORED_CACHE)


@delete(
    "/api-keys/{key_id:str}",
    operation_id="revokeApiKey",
    opt=About(success="Revoked.", database=True).as_opt(),
)
async def revoke_api_key(request: AnyRequest, key_id: KeyPath, access: NamedDependency[Access]) -> None:
    """Revoke a key.

    At once, and for good; other workers learn of it within a second. No If-Match is asked for: it is urgent.
    """
    await operations.revoke_key(access, actor_of(request), key_id)


@post(
    "/api-keys/{key_id:str}/rotate",
    operation_id="rotateApiKey",
    status_code=201,
    opt=About(
        idempotent=True,
        headers=("Location",),
        success="Created; the new key is shown this once.",
        links=_KEY_LINKS,
        database=True,
        errors=("409",),
    ).as_opt(),
)
async def rotate_api_key(
    request: AnyRequest, key_id: KeyPath, data: JSONBody[Rotation], access: NamedDependency[Access]
) -> JSON[NewApiKey]:
    """Rotate a key.

    A new key with the same name and scopes, and the end that the first was made with; the old one stays good for a
    while, so that its users can change over. Two that follow each other may be live at once, not three: 409.
    """
    once = await read_once(request)
    return said(await operations.rotate_key(access, actor_of(request), key_id, data, once))


@get(
    "/audit-log",
    operation_id="listAuditLog",
    opt=About(query=AuditQuery, headers=("Link",), success="A page of the log.", database=True).as_opt(),
)
async def list_audit_log(request: AnyRequest, reader: NamedDependency[AsyncConnection]) -> JSON[AuditPage]:
    """Read the project's audit log.

    Who did what to which object, the newest first. It is written with what it tells of, and is never changed.
    """
    page = await audit_store.list_entries(reader, project_of(request), _audit_query(request))
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


def access_router(reading: Connect, access: Access) -> Router:
    """The routes, given how to get a connection for reading, and what the decisions need."""
    return Router(
        "/v1",
        route_handlers=[
            list_projects,
            create_project,
            get_project,
            list_api_keys,
            create_api_key,
            get_api_key,
            revoke_api_key,
            rotate_api_key,
            list_audit_log,
        ],
        dependencies={
            "reader": Provide(reading),
            "access": Provide(lambda: access, sync_to_thread=False),
        },
        opt={"scope": "admin"},
        dto=StrictBody,
        request_class=FastRequest,
        tags=["Access"],
    )
