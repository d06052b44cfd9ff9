"""What is decided about keys and projects: who makes them for whom, and what is kept of an answer with a secret."""

import datetime
from urllib.parse import quote

import msgspec
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from service.access import store
from service.access.keyring import Keyring
from service.access.keys import NewKey, new_key
from service.access.schemas import ApiKey, ApiKeyWrite, NewApiKey, ProjectWrite, Rotation
from service.errors import BrokenRule, Forbidden, NotFound
from service.http.conditional import content_etag
from service.http.encoding import encoded
from service.http.principal import Principal, administers_instance
from service.storage.audit import Actor
from service.storage.idempotency import Answer, Doors, Once, act_once


class Access(Doors, frozen=True):
    """What the decisions need: connections to read, transactions to write, whose turn it is, the keys in memory."""

    keyring: Keyring


def within(principal: Principal) -> int | None:
    """The project within which a principal may look; None for an admin of the instance, who sees all."""
    return None if administers_instance(principal) else principal.project_id


async def create_project(
    access: Access, principal: Principal, actor: Actor, write: ProjectWrite, once: Once | None
) -> Answer:
    """A new project, by an admin of the instance."""
    if not administers_instance(principal):
        raise Forbidden("Projects are made by admins of the default project.", "admin")

    async def effect(connection: AsyncConnection, _: None) -> Answer:
        made = (await store.add_project(connection, actor, write)).project
        body = encoded(made)
        return Answer(
            201, (("location", f"/v1/projects/{quote(made.name, safe='')}"), ("etag", content_etag(body))), body
        )

    return await act_once(access, once, _nothing, effect)


async def create_key(
    access: Access, principal: Principal, actor: Actor, write: ApiKeyWrite, once: Once | None
) -> Answer:
    """A new key of the caller's project, or of another by an admin of the instance."""

    async def effect(connection: AsyncConnection, _: None) -> Answer:
        project_id = await _project_of(connection, principal, write)
        new = new_key()
        made = await store.add_key(
            connection,
            actor,
            new,
            project_id=project_id,
            name=write.name,
            scopes=write.scopes,
            expires_at=write.expires_at,
        )
        return _shown_once(made, new)

    return await act_once(access, once, _nothing, effect, _without_secret)


async def rotate_key(access: Access, actor: Actor, key_id: str, asked: Rotation, once: Once | None) -> Answer:
    """A key that follows another: both are good for a while."""

    async def effect(connection: AsyncConnection, _: None) -> Answer:
        new = new_key()
        overlap = datetime.timedelta(hours=asked.overlap_hours)
        return _shown_once(await store.rotate_key(connection, actor, new, key_id, overlap), new)

    answer = await act_once(access, once, _nothing, effect, _without_secret)
    access.keyring.forget(key_id)
    return answer


async def revoke_key(access: Access, actor: Actor, key_id: str) -> None:
    """It is no good from now on; in other processes within a second."""
    async with access.begin() as connection:
        await store.revoke_key(connection, actor, actor.project_id, key_id)
    access.keyring.forget(key_id)


async def _project_of(connection: AsyncConnection, principal: Principal, write: ApiKeyWrite) -> int:
    if write.project is UNSET:
        return principal.project_id
    try:
        return (await store.get_project(connection, write.project, within(principal))).id
    except NotFound as error:
        raise BrokenRule.at("/project", error.detail.rstrip(".")) from None


async def _nothing() -> None:
    """There is nothing to prepare."""


def _shown_once(made: ApiKey, new: NewKey) -> Answer:
    shown = NewApiKey(**msgspec.structs.asdict(made), key=new.token)
    return Answer(201, (("location", f"/v1/api-keys/{made.id}"),), encoded(shown))


def _without_secret(answer: Answer) -> Answer:
    """What is kept for a second request: no secret is stored, not for an hour."""
    shown = msgspec.json.decode(answer.body, type=NewApiKey)
    return msgspec.structs.replace(answer, body=encoded(msgspec.structs.replace(shown, key=None)))
