"""Lists of 50 out of 100,000 scenarios, on both databases: the first page and a deep one, by name, label and owner.

`python -m bench.scenario_lists` says how long the store takes for each, the median of some calls.
"""

import asyncio
import datetime
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from sqlalchemy import insert, text

from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.encoding import encoded
from service.scenarios.list_store import list_scenarios
from service.scenarios.schemas import ScenarioQuery
from service.scenarios.store import get_scenario
from service.scenarios.tables import scenario_labels, scenario_revisions, scenarios
from service.storage.database import Database
from service.storage.schema import migrate
from tests.support.postgres import Postgres

COUNT = 100_000
CALLS = 15
_AT_ONCE = 2_000
_OWNERS, _TEAMS = 200, 500


async def measure(url: str) -> dict[str, float]:
    """Milliseconds of each question."""
    await migrate(url)
    database = Database(url, pool_size=2)
    await _fill(database)
    made = {}
    async with database.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        if connection.dialect.name == "postgresql":
            await connection.execute(text("ANALYZE"))
        deep = ScenarioQuery(limit=50)
        for _ in range(1000):  # 50,000 in
            deep = ScenarioQuery(limit=50, cursor=(await list_scenarios(connection, 1, deep)).next_cursor or "")
        questions = {
            "first page": ScenarioQuery(limit=50),
            "page 1,001": deep,
            "first page by -updated_at": ScenarioQuery(limit=50, sort="-updated_at"),
            "first page by -total": ScenarioQuery(limit=50, sort="-total"),
            "one label": ScenarioQuery(limit=50, label="team:t77"),
            "one owner": ScenarioQuery(limit=50, owner="owner 77"),
            "a label that nobody has": ScenarioQuery(limit=50, label="team:none"),
            "a word": ScenarioQuery(limit=50, q="RUN 0777"),
        }
        for title, question in questions.items():
            made[title] = await _median(lambda question=question: list_scenarios(connection, 1, question))
        made["one scenario"] = await _median(lambda: get_scenario(connection, 1, "run 077777"))
    await database.close()
    return made


async def _median(call: Any) -> float:
    took = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)


async def _fill(database: Database) -> None:
    answer = estimate(EstimateRequest())
    request, body = encoded(EstimateRequest()), encoded(answer)
    begin = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
    for first in range(0, COUNT, _AT_ONCE):
        heads, revisions, labels = [], [], []
        for number in range(first + 1, first + _AT_ONCE + 1):
            at = begin + datetime.timedelta(seconds=number)
            name, team = f"run {number:06}", f"t{number % _TEAMS}"
            paid: dict[str, Any] = {
                "currency": "USD",
                "total": answer.cost.total + number,
                "model_version": answer.model_version,
            }
            heads.append(
                {
                    "id": number,
                    "project_id": 1,
                    "name": name,
                    "name_key": name,
                    "description": "",
                    "words": f"{name}\n",
                    "labels": {"team": team},
                    "status": "draft",
                    "owner": f"owner {number % _OWNERS}",
                    "latest_number": 1,
                    "version": 1,
                    "created_at": at,
                    "updated_at": at,
                    **paid,
                }
            )
            revisions.append(
                {"scenario_id": number, "number": 1, "request": request, "estimate": body, "note": "", "created_at": at}
                | paid
            )
            labels.append({"scenario_id": number, "key": "team", "value": team, "project_id": 1})
        async with database.engine.begin() as connection:
            await connection.execute(insert(scenarios).inline(), heads)
            await connection.execute(insert(scenario_revisions).inline(), revisions)
            await connection.execute(insert(scenario_labels).inline(), labels)


def main() -> None:
    """Both databases, side by side."""
    postgres = Postgres()
    try:
        with tempfile.TemporaryDirectory() as directory:
            on_sqlite = asyncio.run(measure(f"sqlite+aiosqlite:///{Path(directory) / 'lists.db'}"))
        on_postgresql = asyncio.run(measure(postgres.new_database()))
    finally:
        postgres.close()
    print(f"{COUNT:,} scenarios, milliseconds")
    print(f"{'':28}{'SQLite':>9}{'PostgreSQL':>12}")
    for title, milliseconds in on_sqlite.items():
        print(f"{title:28}{milliseconds:9.2f}{on_postgresql[title]:12.2f}")


if __name__ == "__main__":
    main()
