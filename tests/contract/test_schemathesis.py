"""The service against its own contract: generated requests, valid and invalid, alone and in sequences."""

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from service.app import create_app
from service.settings import Settings
from service.storage.schema import migrate
from tests.contract import checks  # noqa: F401  # registers our own check
from tests.contract.one_loop import OnOneLoop

# Cases are generated when the tests are collected, so the application exists before any fixture.
DIRECTORY = Path(tempfile.mkdtemp(prefix="traincost-contract-"))
URL = f"sqlite+aiosqlite:///{DIRECTORY / 'traincost.db'}"
served = create_app(Settings(database_url=URL))
app = OnOneLoop(served)
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.fixture(scope="module", autouse=True)
def _database() -> Iterator[None]:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, migrate(URL)).result()
    yield
    app.close(served.state.database.close())
    shutil.rmtree(DIRECTORY)


@schema.parametrize()
def test_every_operation_keeps_its_contract(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate()


EMPTIED = ("scenarios", "idempotency_keys", "price_table_uses", "price_rates", "price_revisions", "price_tables")


class EmptyAtFirst(schema.as_state_machine()):  # type: ignore[misc]
    """Every sequence begins on an empty database, so that it can be run again and do the same."""

    def setup(self) -> None:
        with sqlite3.connect(DIRECTORY / "traincost.db", timeout=30) as connection:
            for table in EMPTIED:
                connection.execute(f"DELETE FROM {table}")
        connection.close()
        super().setup()


def test_sequences_of_operations_keep_the_contract() -> None:
    run_state_machine_as_test(
        EmptyAtFirst,
        settings=settings(
            max_examples=25,
            stateful_step_count=15,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
