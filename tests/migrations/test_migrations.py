"""Migrations on both databases: up, down, up; and what they build is what the tables say, CHECKs included."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, inspect, text

import service.access.tables
import service.prices.tables
import service.scenarios.actual_tables
import service.scenarios.tables
import service.storage.audit
import service.storage.idempotency
import service.storage.windows  # noqa: F401  # these register their tables
from service.errors import StartupError
from service.storage.base import metadata
from service.storage.database import create_engine
from service.storage.schema import migrate, migration_config, require_current
from tests.conftest import BACKENDS
from tests.migrations.databases import on
from tests.support.postgres import Postgres


@pytest.fixture(params=BACKENDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


def shape_of(connection: Connection) -> dict[str, Any]:
    """Tables with columns, indexes (their condition too) and CHECK constraints, in a form that compares."""
    looked = inspect(connection)
    made: dict[str, Any] = {}
    for table in looked.get_table_names():
        if table == "alembic_version":
            continue
        made[table] = {
            "columns": {
                column["name"]: (
                    str(column["type"].compile(connection.dialect)),
                    column["nullable"],
                    column["default"] if column["name"] != "id" else None,
                )
                for column in looked.get_columns(table)
            },
            "primary key": looked.get_pk_constraint(table),
            "indexes": {index["name"]: index_shape(dict(index)) for index in looked.get_indexes(table)},
            "checks": {check["name"]: flat(check["sqltext"]) for check in looked.get_check_constraints(table)},
        }
    return made


def index_shape(index: dict[str, Any]) -> tuple[Any, ...]:
    where = [flat(value) for key, value in index.get("dialect_options", {}).items() if key.endswith("_where")]
    return index["column_names"], bool(index["unique"]), where


def flat(value: object) -> str:
    return re.sub(r"\s+", " ", str(value))


def create_all(connection: Connection) -> dict[str, Any]:
    metadata.create_all(connection)
    return shape_of(connection)


def test_migrations_build_what_the_tables_say(empty_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    asyncio.run(migrate(empty_url))
    if empty_url.startswith("sqlite"):
        other = f"sqlite+aiosqlite:///{tmp_path / 'created.db'}"
    else:
        other = request.getfixturevalue("postgres").new_database()
    migrated, created = on(empty_url, shape_of), on(other, create_all)
    assert migrated == created
    assert migrated["scenarios"]["checks"]


def test_alembic_sees_no_drift(empty_url: str) -> None:
    asyncio.run(migrate(empty_url))
    on(empty_url, lambda connection: command.check(migration_config(connection)))


def test_down_and_up_again_leaves_the_same(empty_url: str) -> None:
    asyncio.run(migrate(empty_url))
    before = on(empty_url, shape_of)
    on(empty_url, lambda connection: command.downgrade(migration_config(connection), "base"))
    assert on(empty_url, shape_of) == {}
    asyncio.run(migrate(empty_url))
    assert on(empty_url, shape_of) == before


def test_migrating_twice_changes_nothing(empty_url: str) -> None:
    asyncio.run(migrate(empty_url))
    asyncio.run(migrate(empty_url))

    async def current() -> None:
        engine = create_engine(empty_url, pool_size=1)
        await require_current(engine)
        await engine.dispose()

    asyncio.run(current())


def test_a_newer_database_is_left_alone(empty_url: str) -> None:
    asyncio.run(migrate(empty_url))
    on(empty_url, lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = 'ffff'")))
    with pytest.raises(StartupError, match="newer"):
        asyncio.run(migrate(empty_url))
    assert (
        on(empty_url, lambda connection: connection.scalar(text("SELECT version_num FROM alembic_version"))) == "ffff"
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"name": "''"},
        {"name": "'" + "n" * 101 + "'"},
        {"currency": "'US'"},
        {"total": "-1"},
        {"version": "0"},
        {"project_id": "NULL"},
        {"status": "'gone'"},
        {"latest_number": "0"},
        {"budget_amount": "1"},
    ],
    ids=str,
)
def test_the_database_refuses_what_must_not_be(empty_url: str, broken: dict[str, str]) -> None:
    asyncio.run(migrate(empty_url))
    row = {
        "project_id": "1",
        "name": "'n'",
        "name_key": "'n'",
        "description": "''",
        "labels": "'{}'",
        "words": "'n'",
        "status": "'draft'",
        "latest_number": "1",
        "currency": "'USD'",
        "total": "1",
        "model_version": "'1'",
        "version": "1",
        "created_at": "'2027-01-01 00:00:00'",
        "updated_at": "'2027-01-01 00:00:00'",
    }
    insert = "INSERT INTO scenarios ({}) VALUES ({})"  # literals of this test only

    def put(values: dict[str, str]) -> None:
        on(
            empty_url,
            lambda connection: connection.execute(text(insert.format(", ".join(values), ", ".join(values.values())))),
        )

    with pytest.raises(Exception, match=r"(?i)constraint"):
        put({**row, **broken})
    put(row)
    with pytest.raises(Exception, match=r"(?i)unique"):
        put(row)
