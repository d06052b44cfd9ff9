"""The audit log: who did what to which object, written in the transaction that did it, and never changed."""

import datetime
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from sqlalchemy import BigInteger, Column, Index, String, Table, Text, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.base import metadata
from service.storage.columns import BigId, CodePointText, Instant

Action = Literal[
    "created",
    "replaced",
    "changed",
    "deleted",
    "restored",
    "revised",
    "rotated",
    "revoked",
    "imported",
    "approved",
    "archived",
    "reopened",
]
Kind = Literal["scenario", "scenario-share", "price-table", "price-revision", "project", "api-key", "actual"]

# Triggers of its migration refuse every UPDATE and DELETE of it.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("project_id", BigInteger, nullable=False),
    Column("at", Instant, nullable=False),
    Column("key_id", String(12)),  # null where nobody was asked for a key
    Column("actor", Text, nullable=False),
    Column("action", String(20), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("before_hash", String(64)),
    Column("after_hash", String(64)),
    Column("request_id", String(100)),
    Index("ix_audit_log_project_id_id", "project_id", "id"),
)


class Actor(Struct, frozen=True):
    """Who acts for which project, by which key, in which request. Every write to a store brings one."""

    project_id: int
    key_id: str | None
    name: str
    request_id: str | None


async def record(
    connection: AsyncConnection,
    actor: Actor,
    action: Action,
    kind: Kind,
    name: str,
    *,
    before: str | None = None,
    after: str | None = None,
    project_id: int | None = None,
) -> None:
    """One line of the log. The object is of the actor's project unless another is named; hashes, never contents."""
    values = {
        "project_id": actor.project_id if project_id is None else project_id,
        "at": datetime.datetime.now(datetime.UTC),
        "key_id": actor.key_id,
        "actor": actor.name,
        "action": action,
        "kind": kind,
        "name": name,
        "before_hash": before,
        "after_hash": after,
        "request_id": actor.request_id,
    }
    await connection.execute(_INSERT, values)


_INSERT = insert(audit_log).inline()  # nobody asks for its id


def hash_of(content: bytes) -> str:
    """What stands in the log for an object as it was."""
    return sha256(content).hexdigest()
