"""Links that show one revision: kept as digests. A connection and a project or an actor in, a Struct out."""

import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from sqlalchemy import Row, Select, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import NotFound
from service.http.encoding import encoded
from service.http.paging import count_key, read_cursor, write_cursor
from service.http.text import name_key
from service.scenarios.heads import refuse_archived
from service.scenarios.revision_store import StoredRevision, get_revision, stored_revision
from service.scenarios.schemas import Share, SharePage, ShareQuery
from service.scenarios.tables import scenario_revisions, scenario_shares, scenarios
from service.storage.audit import Actor, hash_of, record

_S = scenarios.c
_R = scenario_revisions.c
_H = scenario_shares.c
_SHOWN = [column for column in scenario_shares.c if column.name != "digest"]
# Whatever is wrong with a link, it is the same: not there.
_BY_DIGEST = (
    select(_S.name, *scenario_revisions.c)
    .select_from(
        scenario_shares.join(scenarios, _S.id == _H.scenario_id).join(
            scenario_revisions, (_R.scenario_id == _H.scenario_id) & (_R.number == _H.number)
        )
    )
    .where(
        _H.digest == bindparam("digest"),
        _H.revoked_at.is_(None),
        _H.expires_at > bindparam("now", type_=_H.expires_at.type),
        _S.deleted_at.is_(None),
    )
)

AnyRow = Row[*tuple[Any, ...]]


class NewLink(Struct, frozen=True):
    """What is kept of a link that is being made."""

    digest: bytes
    expires_at: datetime.datetime
    note: str


async def add_share(
    connection: AsyncConnection, actor: Actor, name: str, number: int | None, link: NewLink, now: datetime.datetime
) -> Share:
    """A link to a revision of a live scenario, or to its newest; NotFound, or Conflict where it is archived."""
    await _require(connection, actor.project_id, name, to_change=True)
    revision = await get_revision(connection, actor.project_id, name, number)
    statement = (
        insert(scenario_shares)
        .values(
            scenario_id=revision.scenario_id,
            number=revision.number,
            digest=link.digest,
            note=link.note,
            author=actor.name,
            created_at=now,
            expires_at=link.expires_at,
        )
        .returning(*_SHOWN)
    )
    made = _share((await connection.execute(statement)).one())
    told = _told(revision.name, made.id)
    await record(connection, actor, "created", "scenario-share", told, after=_hash_of(made))
    return made


async def list_shares(connection: AsyncConnection, project_id: int, name: str, asked: ShareQuery) -> SharePage:
    """One page of a live scenario's links, the newest first, those that have ended too; NotFound."""
    scenario_id, _ = await _require(connection, project_id, name)
    question = ("shares", project_id, scenario_id)
    statement: Select[Any] = select(*_SHOWN).where(_H.scenario_id == scenario_id)
    if asked.cursor is not UNSET:
        statement = statement.where(_H.id < read_cursor(asked.cursor, question, (count_key,))[0])
    rows = (await connection.execute(statement.order_by(_H.id.desc()).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].id]) if len(rows) > len(page) else None
    return SharePage(tuple(map(_share, page)), cursor)


async def revoke_share(connection: AsyncConnection, actor: Actor, name: str, share_id: int) -> None:
    """It shows nothing from now on; NotFound. Nothing happens to one that was revoked before."""
    scenario_id, shown_name = await _require(connection, actor.project_id, name)
    this = (_H.scenario_id == scenario_id, _H.id == share_id)
    if await connection.scalar(select(func.count()).select_from(scenario_shares).where(*this)) == 0:
        raise NotFound.named("link", str(share_id), "share_id")
    statement = (
        update(scenario_shares)
        .where(*this, _H.revoked_at.is_(None))
        .values(revoked_at=datetime.datetime.now(datetime.UTC))
        .returning(*_SHOWN)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is not None:
        after = _share(row)
        before = _hash_of(msgspec.structs.replace(after, revoked_at=None))
        told = _told(shown_name, share_id)
        await record(connection, actor, "revoked", "scenario-share", told, before=before, after=_hash_of(after))


async def find_shared(connection: AsyncConnection, digest: bytes) -> StoredRevision | None:
    """What a link shows; None where it is unknown, has ended or was revoked, or its scenario was deleted."""
    asked = {"digest": digest, "now": datetime.datetime.now(datetime.UTC)}
    row = (await connection.execute(_BY_DIGEST, asked)).one_or_none()
    return None if row is None else stored_revision(row)


async def _require(
    connection: AsyncConnection, project_id: int, name: str, *, to_change: bool = False
) -> tuple[int, str]:
    """Id and name of a live scenario; one that is to be changed is held until the transaction ends."""
    statement = select(_S.id, _S.name, _S.status).where(
        _S.project_id == project_id, _S.deleted_at.is_(None), _S.name_key == name_key(name)
    )
    row = (await connection.execute(statement.with_for_update() if to_change else statement)).one_or_none()
    if row is None:
        raise NotFound.named("scenario", name)
    if to_change:
        refuse_archived(row.name, row.status)
    return row.id, row.name


def _told(name: str, share_id: int) -> str:
    """How the log names a link: never by its token."""
    return f"{name}#{share_id}"


def _hash_of(share: Share) -> str:
    """What stands in the log for a link: of what the list shows, so nothing of its token."""
    return hash_of(encoded(share))


def _share(row: AnyRow) -> Share:
    return Share(row.id, row.number, row.note, row.author, row.created_at, row.expires_at, row.revoked_at)
