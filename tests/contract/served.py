"""A service for the fuzzer, on a database of its own, asking for keys or not."""

import asyncio
import shutil
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.config import SchemathesisConfig

from service.access.keys import key_id_of
from service.app import create_app
from service.settings import Settings
from service.storage.schema import migrate
from tests.contract import checks  # noqa: F401  # registers our own check
from tests.contract.configs import KEYED, config_text
from tests.contract.one_loop import OnOneLoop
from tests.contract.sparing import spare_key
from tests.support.keys import bearer, make_key_now

_EMPTIED = (
    "scenario_actuals",
    "scenario_shares",
    "scenario_labels",
    "scenario_revisions",
    "scenarios",
    "idempotency_keys",
    "price_table_uses",
    "price_rates",
    "price_revisions",
    "price_tables",
)
# The fuzzer asks as one address, and often with keys and links that are no good.
_LIMITS = ("rate_estimates", "rate_reads", "rate_writes", "rate_imports", "rate_failures")
_KEY_NAME = "the fuzzer"


class Served:
    """The application, which is there when cases are generated; its database is made when they are run."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.directory = Path(tempfile.mkdtemp(prefix="traincost-contract-"))
        self.url = f"sqlite+aiosqlite:///{self.directory / 'traincost.db'}"
        self.headers: dict[str, str] = {}
        self.key_id = ""
        settings: dict[str, Any] = dict.fromkeys(_LIMITS, 0)
        settings["auth"] = "on" if kind == KEYED else "off"
        self.served = create_app(Settings(database_url=self.url, **settings))
        self.app = OnOneLoop(self.served)
        config = SchemathesisConfig.from_str(config_text(kind))
        self.schema: Any = schemathesis.openapi.from_asgi("/openapi.json", self.app, config=config)

    def open(self) -> None:
        """Make the database, and a key where one is asked for."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, migrate(self.url)).result()
        if self.kind == KEYED:
            key = make_key_now(self.url, name=_KEY_NAME)
            self.headers, self.key_id = bearer(key), key_id_of(key) or ""

    def close(self) -> None:
        self.app.close(self.served.state.database.close())
        shutil.rmtree(self.directory)

    def empty(self) -> None:
        """Leave nothing but the project and the key that were there at first."""
        with sqlite3.connect(self.directory / "traincost.db", timeout=30) as connection:
            for table in _EMPTIED:
                connection.execute(f"DELETE FROM {table}")
            connection.execute("DELETE FROM api_keys WHERE name <> ?", (_KEY_NAME,))
            connection.execute("DELETE FROM projects WHERE id > 1")
        connection.close()

    def run_sequences(self) -> None:
        """Operations one after the other, each fed with what the one before answered."""
        served = self

        class EmptyAtFirst(self.schema.as_state_machine()):  # type: ignore[misc]
            """Every sequence begins on an empty database, so that it can be run again and do the same."""

            def setup(self) -> None:
                served.empty()
                super().setup()

            def before_call(self, case: Any) -> None:
                spare_key(case, served.key_id)

            def get_call_kwargs(self, case: Any) -> dict[str, Any]:
                return {"headers": served.headers}

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
