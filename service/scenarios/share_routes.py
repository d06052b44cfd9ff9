"""Links to revisions over HTTP: made, listed, revoked, and followed without a key."""

from litestar import delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.conditional import STORED_CACHE, caching
from service.http.encoding import encoded
from service.http.once import read_once, said
from service.http.openapi import About
from service.http.paging import next_link
from service.http.principal import PUBLIC, actor_of, project_of
from service.http.requests import query_of
from service.http.responses import JSON
from service.scenarios import creations, share_store
from service.scenarios.requests import SAME_NAME, AnyRequest, Name, ShareId, Token, read_name
from service.scenarios.revision_store import shown_outside
from service.scenarios.schemas import NewShare, SharedRevision, SharePage, ShareQuery, ShareWrite
from service.storage.idempotency import Doors

_EXAMPLES = {"finance": {"summary": "For a week", "value": {"expires_in_hours": 168, "note": "for the budget round"}}}
_LINKS = {
    "follow": {"operationId": "getSharedRevision", "parameters": {"link": "$response.body#/token"}},
    "revoke": {"operationId": "revokeScenarioShare", "parameters": {**SAME_NAME, "share_id": "$response.body#/id"}},
}
_SECRET = (
    (b"cache-control", b"private, no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
)
_read_query = query_of(ShareQuery)


@post(
    "/{name:str}/shares",
    status_code=201,
    operation_id="createScenarioShare",
    opt=About(
        scope="scenarios:write",
        idempotent=True,
        success="Made; the token is shown this once.",
        examples=_EXAMPLES,
        links=_LINKS,
        database=True,
        errors=("409",),
    ).as_opt(),
)
async def create_scenario_share(
    request: AnyRequest, name: Name, data: JSONBody[ShareWrite], doors: NamedDependency[Doors]
) -> JSON[NewShare]:
    """Make a link to a revision.

    Whoever has it sees exactly that revision, without a key, until it ends or is revoked. Only a digest of its token is
    kept.
    """
    once = await read_once(request)
    return said(await creations.share(doors, actor_of(request), read_name(name), data, once))


@get(
    "/{name:str}/shares",
    operation_id="listScenarioShares",
    opt=About(
        scope="scenarios:read", query=ShareQuery, headers=("Link",), success="A page of links.", database=True
    ).as_opt(),
)
async def list_scenario_shares(
    request: AnyRequest, name: Name, reader: NamedDependency[AsyncConnection]
) -> JSON[SharePage]:
    """List a scenario's links.

    The newest first, those that have ended or were revoked too; none with its token.
    """
    page = await share_store.list_shares(reader, project_of(request), read_name(name), _read_query(request))
    return JSON(encoded(page), headers=(*caching(STORED_CACHE), *next_link(request, page.next_cursor)))


@delete(
    "/{name:str}/shares/{share_id:int}",
    operation_id="revokeScenarioShare",
    opt=About(scope="scenarios:write", success="Revoked.", database=True, errors=("422",)).as_opt(),
)
async def revoke_scenario_share(
    request: AnyRequest, name: Name, share_id: ShareId, writer: NamedDependency[AsyncConnection]
) -> None:
    """Revoke a link.

    From now on it shows nothing. It stays in the list.
    """
    await share_store.revoke_share(writer, actor_of(request), read_name(name), share_id)


@get(
    "/{link:str}",
    operation_id="getSharedRevision",
    opt={
        **About(scope=PUBLIC, success="The revision.", headers=("Cache-Control",), database=True).as_opt(),
        "secret_path": True,
    },
)
async def get_shared_revision(link: Token, reader: NamedDependency[AsyncConnection]) -> JSON[SharedRevision]:
    """Follow a link.

    No key is asked for. A link that is unknown, has ended or was revoked is not there.
    """
    return JSON(shown_outside(await creations.shown_by(reader, link)), headers=_SECRET)
