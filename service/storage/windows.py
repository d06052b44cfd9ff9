"""How many requests of a key were let in within a minute: counted in leases, for all workers together."""

from sqlalchemy import BigInteger, Column, Integer, String, Table, case
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage.base import metadata

rate_windows = Table(
    "rate_windows",
    metadata,
    Column("key_id", String(12), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("minute", BigInteger, nullable=False),  # minutes since 1970; an older one is over, and its count void
    Column("taken", Integer, nullable=False),
)


async def lease(connection: AsyncConnection, key_id: str, kind: str, minute: int, wanted: int, limit: int) -> int:
    """Take so many of the requests that a key may still make in this minute; how many there were, 0 if none."""
    known = rate_windows.c
    statement = postgresql.insert(rate_windows).values(key_id=key_id, kind=kind, minute=minute, taken=wanted)
    same = known.minute >= statement.excluded.minute  # a worker whose clock is behind counts in the newer one
    taken: int = (
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=[known.key_id, known.kind],
                set_={
                    "minute": case((same, known.minute), else_=statement.excluded.minute),
                    "taken": case((same, known.taken + wanted), else_=wanted),
                },
            ).returning(known.taken)
        )
    ).scalar_one()
    return max(0, min(wanted, wanted - (taken - limit)))
