"""Alembic's environment: the tables of every feature, on the connection that the caller brings or a new one."""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection

from service.access import tables as access_tables  # noqa: F401  # registers its tables
from service.prices import tables as price_tables  # noqa: F401  # registers its tables
from service.scenarios import actual_tables  # noqa: F401  # registers its tables
from service.scenarios import tables as scenario_tables  # noqa: F401  # registers its tables
from service.settings import DEFAULT_DATABASE_URL
from service.storage import audit, idempotency, windows  # noqa: F401  # register their tables
from service.storage.base import metadata
from service.storage.database import create_engine


def run(connection: Connection) -> None:
    """Run what was asked for, each migration in its own transaction."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        compare_server_default=True,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_on_new_connection() -> None:
    """For the alembic command line."""
    engine = create_engine(os.environ.get("TRAINCOST_DATABASE_URL", DEFAULT_DATABASE_URL), pool_size=1)
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    asyncio.run(run_on_new_connection())
