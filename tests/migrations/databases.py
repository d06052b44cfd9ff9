"""Something done on a database, and committed."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from service.storage.database import create_engine

T = TypeVar("T")


def on(url: str, do: Callable[[Connection], T]) -> T:
    """Run something on a connection, and commit."""

    async def run() -> T:
        engine = create_engine(url, pool_size=1)
        try:
            async with engine.connect() as connection:
                result = await connection.run_sync(do)
                await connection.commit()
                return result
        finally:
            await engine.dispose()

    return asyncio.run(run())
