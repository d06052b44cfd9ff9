"""What a revision of a price table holds, and how it becomes the newest one of its table."""

from urllib.parse import quote

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.preconditions import Preconditions
from service.prices import revision_store, store
from service.prices.offers import content_hash, in_order
from service.prices.rate_store import insert_rates
from service.prices.schemas import Rate
from service.prices.table_schemas import Revision, RevisionWrite
from service.storage.audit import Actor
from service.storage.idempotency import Answer

# Who changes the table that comes with the release.
_RELEASE = Actor(store.RELEASED_PROJECT_ID, None, "the release", None)


class Content(Struct, frozen=True):
    """The rates of a revision in their order, and the digest that tells whether they are new."""

    rates: tuple[Rate, ...]
    digest: str


async def store_content(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    write: RevisionWrite,
    content: Content,
    preconditions: Preconditions,
) -> tuple[Revision, bool]:
    """In the caller's transaction: the revision that holds this content now, and whether it is new."""
    head = await store.get_head_for_write(connection, actor.project_id, name, preconditions)
    return await _store_under(connection, actor, head, write, content)


async def store_released(
    connection: AsyncConnection,
    name: str,
    currency: str,
    description: str,
    gaps: tuple[str, ...],
    write: RevisionWrite,
) -> tuple[Revision, bool]:
    """The same for the table that comes with the release."""
    head = await store.ensure_released(connection, name, currency, description, gaps)
    return await _store_under(connection, _RELEASE, head, write, content_of(write.rates))


def content_of(rates: tuple[Rate, ...] | list[Rate]) -> Content:
    """Rates as a revision keeps them."""
    ordered = in_order(rates)
    return Content(ordered, content_hash(ordered))


def table_path(name: str) -> str:
    """Where a table is."""
    return f"/v1/price-tables/{quote(name, safe='')}"


def answer_with(created: bool, revision: Revision, body: bytes) -> Answer:
    path = f"{table_path(revision.table)}/revisions/{revision.number}"
    headers = (("etag", revision_etag(revision)), *((("location", path),) if created else ()))
    return Answer(201 if created else 200, headers, body)


def revision_etag(revision: Revision) -> str:
    """A revision never changes, so its id is its tag."""
    return f'"revision-{revision.id}"'


async def _store_under(
    connection: AsyncConnection, actor: Actor, head: revision_store.Head, write: RevisionWrite, content: Content
) -> tuple[Revision, bool]:
    latest = await revision_store.find_latest(connection, head.id)
    if latest is not None and latest.content_hash == content.digest:
        return latest, False
    revision = await revision_store.add_revision(
        connection, actor, head, latest, write, content_hash=content.digest, rate_count=len(content.rates)
    )
    await insert_rates(connection, revision.id, content.rates)
    return revision, True
