"""What is made once, however often it is asked for: copies of scenarios, and links whose token nobody keeps."""

import datetime
import secrets
from hashlib import sha256
from urllib.parse import quote

import msgspec
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import Fault, NotFound
from service.http.encoding import encoded
from service.scenarios import share_store, store
from service.scenarios.revision_store import StoredRevision
from service.scenarios.schemas import NewShare, ScenarioDuplicate, ShareWrite
from service.storage.audit import Actor
from service.storage.idempotency import Answer, Doors, Once, act_once

TOKEN_BYTES = 32
TOKEN_LENGTH = 43
TOKEN_PATTERN = f"^[A-Za-z0-9_-]{{{TOKEN_LENGTH}}}$"


async def duplicate(doors: Doors, actor: Actor, name: str, asked: ScenarioDuplicate, once: Once | None) -> Answer:
    """A draft of another name with the same request and the same answer."""

    async def effect(connection: AsyncConnection, _: None) -> Answer:
        made = await store.duplicate_scenario(connection, actor, name, asked)
        location = f"/v1/scenarios/{quote(made.name, safe='')}"
        return Answer(201, (("location", location), ("etag", made.etag)), made.body)

    return await act_once(doors, once, _nothing, effect)


async def share(doors: Doors, actor: Actor, name: str, asked: ShareWrite, once: Once | None) -> Answer:
    """A link to a revision. Its token has 256 bits, which is why a plain SHA-256 of it may be kept."""

    async def effect(connection: AsyncConnection, _: None) -> Answer:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        now = datetime.datetime.now(datetime.UTC)
        link = share_store.NewLink(
            digest_of(token), now + datetime.timedelta(hours=asked.expires_in_hours), asked.note.replace("\n", "")
        )
        number = None if asked.revision is UNSET else asked.revision
        made = await share_store.add_share(connection, actor, name, number, link, now)
        shown = NewShare(**msgspec.structs.asdict(made), token=token, path=f"/v1/shared/{token}")
        return Answer(201, (), encoded(shown))

    return await act_once(doors, once, _nothing, effect, _without_token)


async def shown_by(connection: AsyncConnection, token: str) -> StoredRevision:
    """What a link shows; NotFound, in the same words whatever is wrong with it."""
    found = await share_store.find_shared(connection, digest_of(token))
    if found is None:
        told = "The link is not known, has ended or was revoked."
        raise NotFound(told, (Fault("path", "link", told),))
    return found


def digest_of(token: str) -> bytes:
    """What is kept of a link's token."""
    return sha256(token.encode()).digest()


async def _nothing() -> None:
    """There is nothing to prepare."""


def _without_token(answer: Answer) -> Answer:
    """What is kept for a second request: no token is stored, not for an hour."""
    shown = msgspec.json.decode(answer.body, type=NewShare)
    return msgspec.structs.replace(answer, body=encoded(msgspec.structs.replace(shown, token=None, path=None)))
