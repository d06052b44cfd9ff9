"""Migrations from inside the program: where they are, up to the newest, and is this database ours."""

import sqlite3
from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from service.errors import StartupError
from service.storage.database import create_engine


def migration_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration. A wheel carries the migrations inside the package, a checkout beside it."""
    package = Path(str(files("service")))
    inside, beside = package / "migrations", package.parent / "migrations"
    config = Config()
    config.set_main_option("script_location", str(inside if inside.is_dir() else beside))
    config.attributes["connection"] = connection
    return config


async def migrate(url: str, revision: str = "head") -> str | None:
    """Bring the database to a revision, and say which it has now; StartupError where it cannot be reached, is newer
    than this code, or there is no such revision."""
    engine = create_engine(url, pool_size=1)
    try:
        await _refuse_newer(engine)
        async with engine.connect() as connection:
            await connection.run_sync(_upgrade, revision)
            await connection.commit()
            return await connection.run_sync(_revision)
    except CommandError as error:
        raise StartupError(f"The database cannot be brought to revision {revision!r}: {error}. Try head.") from error
    except (SQLAlchemyError, OSError) as error:
        raise _unreachable(engine, error) from error
    finally:
        await engine.dispose()


async def require_current(engine: AsyncEngine) -> None:
    """StartupError unless the database is at exactly the revision that this code was written for."""
    try:
        found = await _refuse_newer(engine)
    except (SQLAlchemyError, OSError) as error:
        raise _unreachable(engine, error) from error
    head = _scripts().get_current_head()
    if found != head:
        raise StartupError(
            f"The database is at revision {found or 'none'} and this release needs {head}: run `traincost migrate`."
        )


def _upgrade(connection: Connection, revision: str) -> None:
    command.upgrade(migration_config(connection), revision)


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(migration_config())


async def _refuse_newer(engine: AsyncEngine) -> str | None:
    """The database's revision; StartupError where this code does not know it."""
    if engine.dialect.name == "sqlite":
        _try_file(engine)
    try:
        connection = await engine.execution_options(isolation_level="AUTOCOMMIT").connect()
    except (TypeError, ValueError) as error:  # the driver does not know a part of the URL
        raise _unreachable(engine, error) from error
    try:
        found = await connection.run_sync(_revision)
    finally:
        await connection.close()
    known = {script.revision for script in _scripts().walk_revisions()}
    if found is not None and found not in known:
        raise StartupError(
            f"The database is at revision {found}, which this release of traincost does not know: it is newer. "
            "Upgrade traincost, or set TRAINCOST_DATABASE_URL to another database."
        )
    return found


def _try_file(engine: AsyncEngine) -> None:
    """Open the file here first: the driver's thread that cannot may outlive the event loop, and complain."""
    try:
        sqlite3.connect(engine.url.database or "").close()
    except sqlite3.Error as error:
        raise _unreachable(engine, error) from error


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _unreachable(engine: AsyncEngine, error: Exception) -> StartupError:
    shown = engine.url.render_as_string(hide_password=True)
    reason = next(iter(str(getattr(error, "orig", None) or error).splitlines()), type(error).__name__)
    advice = (
        "The file and its directory must exist and be writable"
        if engine.dialect.name == "sqlite"
        else "PostgreSQL must be running, and have this database and user"
    )
    return StartupError(f"The database {shown} cannot be used: {reason}. {advice}; check TRAINCOST_DATABASE_URL.")
