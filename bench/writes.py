"""Writes of scenarios that are compared: which are refused, and what must stand in the database after them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
from sqlalchemy import select, text

from bench.load import HOST, LoadError
from bench.servers import Server
from bench.traffic import SCENARIOS, Replacements, same_apart_from_times, scenario_name
from service.scenarios.store import get_scenario
from service.scenarios.tables import scenarios
from service.storage.database import create_engine

_AT_ONCE = 8
_BODY = {"request": {"work": {"kind": "gpu_hours", "hours": 1}}, "labels": {"team": "llm"}}
_OTHER = {"request": {"work": {"kind": "gpu_hours", "hours": 2}}, "labels": {"team": "llm", "quarter": "2027-q2"}}
# Each counts what must not be there.
_WRONG = {
    "scenarios whose revisions are not all there": """
        SELECT count(*) FROM scenarios s WHERE latest_number <> version
        OR (SELECT array_agg(number ORDER BY number) FROM scenario_revisions WHERE scenario_id = s.id)
            IS DISTINCT FROM (SELECT array_agg(n) FROM generate_series(1, s.latest_number) n)""",
    "revisions whose total is not their answer's": """
        SELECT count(*) FROM scenario_revisions
        WHERE total <> (convert_from(estimate, 'UTF8')::jsonb -> 'cost' ->> 'total')::numeric""",
    "scenarios whose total is not their newest revision's": """
        SELECT count(*) FROM scenarios s JOIN scenario_revisions r ON r.scenario_id = s.id AND number = latest_number
        WHERE (s.total, s.currency, s.model_version) <> (r.total, r.currency, r.model_version)
        OR s.updated_at < r.created_at""",
    "scenarios whose labels are not those to find them by": """
        SELECT count(*) FROM scenarios s WHERE labels IS DISTINCT FROM
        (SELECT jsonb_object_agg(key, value) FROM scenario_labels l WHERE scenario_id = s.id AND project_id = 1)""",
    "scenarios whose revisions are not all in the audit log": """
        SELECT count(*) FROM scenarios s WHERE latest_number <>
        (SELECT count(*) FROM audit_log WHERE name = s.name AND kind = 'scenario' AND request_id <> '')""",
    "lines of the audit log that do not follow from the one before": """
        SELECT count(*) FROM (SELECT before_hash, action, lag(action) OVER w AS last, lag(after_hash) OVER w AS had
        FROM audit_log WINDOW w AS (PARTITION BY name ORDER BY id)) lines
        WHERE action = 'replaced' AND last = 'replaced' AND before_hash IS DISTINCT FROM had""",
}


async def ids_of_scenarios(url: str) -> list[int]:
    """Their ids, by their numbers."""
    engine = create_engine(url, pool_size=1)
    async with engine.connect() as connection:
        names = [scenario_name(number) for number in range(SCENARIOS)]
        found = await connection.execute(select(scenarios.c.name, scenarios.c.id).where(scenarios.c.name.in_(names)))
        ids = {row.name: row.id for row in found}
    await engine.dispose()
    return [ids[name] for name in names]


def check_refusals(server: Server) -> None:
    """A scenario is created once, replaced by whoever has seen it and by one of many, and not by the same again."""
    address = f"http://{HOST}:{server.port}/v1/scenarios/refusals"
    with httpx.Client(trust_env=False) as client:

        def put(body: object, **headers: str) -> httpx.Response:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.put(address, json=body, headers=named)

        def expect(status: int, answer: httpx.Response) -> str:
            if answer.status_code != status:
                raise LoadError(f"{answer.status_code} and not {status}: {answer.text}")
            return str(answer.headers.get("etag"))

        expect(412, put(_BODY, if_match='"1-1"'))
        tag = expect(201, put(_BODY, if_none_match="*"))
        expect(428, put(_OTHER))
        expect(412, put(_OTHER, if_none_match="*"))
        expect(412, put(_OTHER, if_match='"1-7"'))
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            answers = list(threads.map(lambda _: put(_OTHER, if_match=tag), range(_AT_ONCE)))
        if sorted(answer.status_code for answer in answers) != [200] + [412] * (_AT_ONCE - 1):
            raise LoadError(f"of {_AT_ONCE} writes on one version: {answers}")
        tag = next(expect(200, answer) for answer in answers if answer.status_code == 200)
        if expect(200, put(_OTHER, if_match=tag)) != tag:
            raise LoadError("the same once more made a revision")


def check_rows(url: str, replacements: Replacements, answered: int) -> None:
    """Every replacement that was answered is there, and nothing else; LoadError where not."""
    asyncio.run(_check_rows(url, replacements, answered))


async def _check_rows(url: str, replacements: Replacements, answered: int) -> None:
    engine = create_engine(url, pool_size=1)
    try:
        async with engine.connect() as connection:
            for what, statement in _WRONG.items():
                if count := await connection.scalar(text(statement)):
                    raise LoadError(f"{what}: {count}")
            for place in range(max(0, answered - SCENARIOS), answered):
                name, expected = scenario_name(place % SCENARIOS), replacements[place].answer
                found = await get_scenario(connection, 1, name)
                if not same_apart_from_times(found.body, expected):
                    raise LoadError(f"{name} is\n{found.body.decode()}\nand not\n{expected.decode()}")
    finally:
        await engine.dispose()
