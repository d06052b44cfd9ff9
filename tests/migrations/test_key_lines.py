"""What a line of keys had as its end before that was kept: read from all its keys, those that were revoked too."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, text

from service.storage.schema import migrate, migration_config
from tests.conftest import BACKENDS
from tests.migrations.databases import on
from tests.support.postgres import Postgres

END, OVERLAP = "2099-07-01 00:00:00.000000", "2027-07-02 00:00:00.000000"
# Key, line, end, whether it was revoked; and the end of its line.
KEYS = [
    ("never-ends", "never-ends", None, False, None),
    ("has-an-end", "has-an-end", END, False, END),
    ("was-rotated", "was-rotated", OVERLAP, False, None),
    ("lost", "was-rotated", None, True, None),
    ("third", "was-rotated", OVERLAP, False, None),  # it was given the end of an overlap
    ("to-an-end", "to-an-end", OVERLAP, False, END),
    ("its-heir", "to-an-end", END, False, END),
]


@pytest.fixture(params=BACKENDS)
def before(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of before with keys that were rotated."""
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path / 'before.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database()
    asyncio.run(migrate(url, "0006"))
    on(url, fill)
    return url


def fill(connection: Connection) -> None:
    digest = "zeroblob(32)" if connection.dialect.name == "sqlite" else "decode(repeat('00', 32), 'hex')"
    for key_id, line_id, end, revoked, _ in KEYS:
        ends, gone = (f"'{end}'" if end else "NULL"), (f"'{OVERLAP}'" if revoked else "NULL")
        connection.execute(
            text(
                "INSERT INTO api_keys (project_id, key_id, line_id, digest, name, scopes, created_at, expires_at, "
                f"revoked_at) VALUES (1, '{key_id}', '{line_id}', {digest}, 'n', '[]', '{OVERLAP}', {ends}, {gone})"
            )
        )


def ends_of(connection: Connection) -> list[tuple[Any, ...]]:
    rows = connection.execute(text("SELECT key_id, expires_at, line_ends_at FROM api_keys ORDER BY id")).all()
    return [(key_id, *(None if one is None else str(one)[:4] for one in ends)) for key_id, *ends in rows]


def test_a_line_ends_when_the_last_of_it_does_and_no_key_becomes_good_for_longer(before: str) -> None:
    wanted = [(key_id, end and end[:4], of_line and of_line[:4]) for key_id, _, end, _, of_line in KEYS]
    asyncio.run(migrate(before))
    assert on(before, ends_of) == wanted
    on(before, lambda connection: command.downgrade(migration_config(connection), "0006"))
    asyncio.run(migrate(before))
    assert on(before, ends_of) == wanted
