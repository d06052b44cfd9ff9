"""Lists of 50 scenarios in PostgreSQL, out of few and out of many: the first page and a deep one, by label, by owner.

`python -m bench.scenario_lists` says how long the store takes for each, and how many times as long among the many. Each
has a server of its own, with data of the same kind; they are asked in turn, about something else each time.
"""

import argparse
import asyncio
import datetime
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from decimal import Decimal
from typing import Any

from msgspec import UNSET, Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from bench.rounds import say
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.encoding import encoded
from service.http.paging import count_key, read_cursor, text_key, write_cursor
from service.scenarios.list_store import list_scenarios
from service.scenarios.schemas import ScenarioPage, ScenarioQuery
from service.scenarios.store import get_scenario
from service.storage.database import create_engine
from service.storage.schema import migrate
from tests.support.postgres import Postgres

FEW, MANY = 10_000, 1_000_000
CALLS = 200
AT_MOST_TIMES = 2.0
PAGE = 50
_SEED = 20270104
_SECONDS = 20.0  # for one question of one of the two; what takes longer is asked less often
_AT_ONCE = 10_000
# So many teams and owners whatever the number of scenarios, so that each has a fixed share of them; half of the
# scenarios are somebody's who has a hundred, and each grant pays for a hundred.
_TEAMS, _OWNERS, _QUARTERS, _EACH = 500, 100, 8, 100
_AFTER_ALL = 2**62  # as an id
# What a cursor of `list_scenarios` remembers, without filters.
_BY_NAME: tuple[object, ...] = ("scenarios", 1, "name", {})

Row = tuple[Any, ...]


class _Side(Struct, frozen=True):
    """A database and how many scenarios it has."""

    connection: AsyncConnection
    size: int


class Question(Struct, frozen=True):
    """What is asked, given where to draw from and how many scenarios there are."""

    title: str
    asked: Callable[[random.Random, int], ScenarioQuery]
    has_goal: bool = True


class Answer(Struct, frozen=True):
    """Half of the calls took no longer: milliseconds among the few and among the many, and how many items came."""

    title: str
    few_ms: float
    many_ms: float
    few_items: float
    many_items: float
    has_goal: bool

    @property
    def times(self) -> float:
        """How many times as long among the many."""
        return self.many_ms / self.few_ms


def _team(pick: random.Random) -> str:
    return f"team:t{pick.randrange(_TEAMS)}"


def _grant(pick: random.Random, count: int) -> str:
    return f"grant:g{pick.randrange(count // _EACH)}"


def _quarter(pick: random.Random) -> str:
    return f"quarter:q{pick.randrange(_QUARTERS)}"


def _lead(pick: random.Random) -> str:
    return f"lead {pick.randrange(_OWNERS)}"


def _person(pick: random.Random, count: int) -> str:
    return f"person {pick.randrange(count // 2 // _EACH)}"


def _deep(pick: random.Random, count: int) -> ScenarioQuery:
    """A page that begins about half-way."""
    before = pick.randrange(count * 2 // 5, count * 3 // 5)
    return ScenarioQuery(limit=PAGE, cursor=write_cursor(_BY_NAME, [_name(before), _AFTER_ALL]))


QUESTIONS = (
    Question("first page", lambda _pick, _count: ScenarioQuery(limit=PAGE)),
    Question("a page half-way", _deep),
    Question("label of one in 8", lambda pick, _: ScenarioQuery(limit=PAGE, label=_quarter(pick))),
    Question("label of one in 500", lambda pick, _: ScenarioQuery(limit=PAGE, label=_team(pick))),
    Question("label of 100 in all", lambda pick, count: ScenarioQuery(limit=PAGE, label=_grant(pick, count))),
    Question("owner of one in 200", lambda pick, _: ScenarioQuery(limit=PAGE, owner=_lead(pick))),
    Question("owner of 100 in all", lambda pick, count: ScenarioQuery(limit=PAGE, owner=_person(pick, count))),
    Question(
        "one in 8, owner of one in 200",
        lambda pick, _: ScenarioQuery(limit=PAGE, label=_quarter(pick), owner=_lead(pick)),
    ),
    Question(
        "one in 500, owner of one in 200",
        lambda pick, _: ScenarioQuery(limit=PAGE, label=_team(pick), owner=_lead(pick)),
    ),
    Question(
        "one in 8, owner of 100 in all",
        lambda pick, count: ScenarioQuery(limit=PAGE, label=_quarter(pick), owner=_person(pick, count)),
    ),
    Question("first page by -updated_at", lambda _pick, _count: ScenarioQuery(limit=PAGE, sort="-updated_at"), False),
    Question("first page by -total", lambda _pick, _count: ScenarioQuery(limit=PAGE, sort="-total"), False),
    Question("label that nobody has", lambda _pick, _count: ScenarioQuery(limit=PAGE, label="team:none"), False),
    Question(
        "a word of one name",
        lambda pick, count: ScenarioQuery(limit=PAGE, q=_name(pick.randrange(count)).upper()),
        False,
    ),
)


async def measure(sizes: Sequence[tuple[str, int]], calls: int) -> list[Answer]:
    """Fill two databases with so many scenarios each, and ask both."""
    for url, count in sizes:
        began = time.monotonic()
        await migrate(url)
        await _fill(url, count)
        say(f"{count:,} scenarios stored in {time.monotonic() - began:.0f} s")
    async with AsyncExitStack() as stack:
        sides = []
        for url, count in sizes:
            engine = create_engine(url, pool_size=1)
            stack.push_async_callback(engine.dispose)
            reader = engine.execution_options(isolation_level="AUTOCOMMIT").connect()
            sides.append(_Side(await stack.enter_async_context(reader), count))
        answers = [await _answer(question, sides, calls) for question in QUESTIONS]
        few_ms, many_ms = [await _half_ms_of_one(side, calls) for side in sides]
        return [*answers, Answer("one scenario whole", few_ms, many_ms, 1, 1, has_goal=False)]


async def _answer(question: Question, sides: Sequence[_Side], calls: int) -> Answer:
    """Ask both in turn."""
    picks = [random.Random(_SEED) for _ in sides]
    taken: list[list[float]] = [[] for _ in sides]
    items: list[list[int]] = [[] for _ in sides]
    for number in range(calls):
        for side, pick, milliseconds, counts in zip(sides, picks, taken, items, strict=True):
            if sum(milliseconds) > 1000 * _SECONDS:
                continue
            asked = question.asked(pick, side.size)
            began = time.perf_counter()
            page = await list_scenarios(side.connection, 1, asked)
            milliseconds.append(1000 * (time.perf_counter() - began))
            counts.append(len(page.items))
            if number == 0:
                await _check(side.connection, asked, page)
    few_ms, many_ms = (statistics.median(each) for each in taken)
    few_items, many_items = (statistics.median(each) for each in items)
    say(f"{question.title}: {few_ms:.2f} and {many_ms:.2f} ms")
    return Answer(question.title, few_ms, many_ms, few_items, many_items, question.has_goal)


async def _half_ms_of_one(side: _Side, calls: int) -> float:
    """One scenario whole, for comparison."""
    pick = random.Random(_SEED)
    taken = []
    for _ in range(calls):
        name = _name(pick.randrange(side.size))
        began = time.perf_counter()
        await get_scenario(side.connection, 1, name)
        taken.append(1000 * (time.perf_counter() - began))
    return statistics.median(taken)


async def _check(connection: AsyncConnection, asked: ScenarioQuery, page: ScenarioPage) -> None:
    """A page says what a look through the whole table says, as far as these questions go; ValueError where not."""
    by = asked.sort.removeprefix("-")
    conditions, values = ["true"], {}
    if asked.owner is not UNSET:
        conditions.append("owner = :owner")
        values["owner"] = asked.owner
    if asked.label is not UNSET:
        conditions.append("labels @> CAST(:label AS jsonb)")
        values["label"] = json.dumps(dict([asked.label.split(":")]))
    if asked.q is not UNSET:
        conditions.append("strpos(words, lower(:q)) > 0")
        values["q"] = asked.q
    if asked.cursor is not UNSET:
        conditions.append("name > :last")
        values["last"] = read_cursor(asked.cursor, _BY_NAME, (text_key, count_key))[0]
    direction = "DESC" if asked.sort.startswith("-") else "ASC"
    statement = (
        f"SELECT name FROM scenarios WHERE {' AND '.join(conditions)} "
        f"ORDER BY {by} {direction}, id {direction} LIMIT {asked.limit}"
    )
    expected = (await connection.execute(text(statement), values)).scalars().all()
    answered = [item.name for item in page.items]
    if answered != expected:
        raise ValueError(f"{asked} was answered {answered}, not {expected}")


async def _fill(url: str, count: int) -> None:
    """Scenarios of one revision each, by COPY; every index and constraint is there all the while."""
    engine = create_engine(url, pool_size=1)
    async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        rows = _rows(count)
        while made := list(itertools.islice(rows, _AT_ONCE)):
            heads, revisions, labels = zip(*made, strict=True)
            for table, columns, records in (
                ("scenarios", _HEAD, heads),
                ("scenario_revisions", _REVISION, revisions),
                ("scenario_labels", _LABEL, itertools.chain.from_iterable(labels)),
            ):
                await driver.copy_records_to_table(table, columns=columns, records=records)
        # As autovacuum leaves a table that has been there for a while.
        await connection.execute(text("VACUUM (ANALYZE)"))
    await engine.dispose()


_PAID = ("currency", "total", "model_version")
_HEAD = (
    *("id", "project_id", "name", "name_key", "description", "words", "labels", "status", "owner"),
    *("latest_number", "version", "created_at", "updated_at", *_PAID),
)
_REVISION = ("scenario_id", "number", "request", "estimate", "note", "created_at", *_PAID)
_LABEL = ("scenario_id", "key", "value", "project_id", "name_key", "owner")


def _rows(count: int) -> Iterator[tuple[Row, Row, list[Row]]]:
    """Heads, revisions and labels, in the order in which they were made, which is none of names, labels or totals."""
    pick = random.Random(_SEED)
    answer = estimate(EstimateRequest())
    request, body = encoded(EstimateRequest()), encoded(answer)
    begin = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
    names, grants, owned = (pick.sample(range(count), count) for _ in range(3))
    for place in range(count):
        scenario_id = place + 1
        name = _name(names[place])
        description = f"Run {place} of the second quarter: the base model on a longer context"
        labels = {
            "team": f"t{pick.randrange(_TEAMS)}",
            "quarter": f"q{pick.randrange(_QUARTERS)}",
            "grant": f"g{grants[place] // _EACH}",
        }
        half, rest = divmod(owned[place], count // 2)
        owner = f"person {rest // _EACH}" if half == 0 else f"lead {pick.randrange(_OWNERS)}"
        created_at = begin + datetime.timedelta(seconds=place)
        updated_at = created_at + datetime.timedelta(seconds=pick.randrange(count))
        paid = ("USD", answer.cost.total + Decimal(pick.randrange(10**8)) / 100, answer.model_version)
        yield (
            (
                *(
                    scenario_id,
                    1,
                    name,
                    name,
                    description,
                    f"{name}\n{description.lower()}",
                    json.dumps(labels),
                    "draft",
                ),
                *(owner, 1, 1, created_at, updated_at, *paid),
            ),
            (scenario_id, 1, request, body, "", created_at, *paid),
            [(scenario_id, key, value, 1, name, owner) for key, value in labels.items()],
        )


def _name(number: int) -> str:
    return f"run {number:07}"


def _told(answers: list[Answer], few: int, many: int, calls: int) -> str:
    lines = [
        f"pages of {PAGE} in PostgreSQL, read by the store: p50 of {calls} calls, milliseconds",
        f"{'':34}{few:>12,}{many:>12,}{'times':>8}{'items':>12}",
    ]
    for row in answers:
        verdict = "reached" if row.times <= AT_MOST_TIMES else "MISSED"
        goal = f"  goal {AT_MOST_TIMES:g} or less: {verdict}" if row.has_goal else ""
        items = f"{row.few_items:g}, {row.many_items:g}"
        lines.append(f"{row.title:34}{row.few_ms:12.2f}{row.many_ms:12.2f}{row.times:8.2f}{items:>12}{goal}")
    return "\n".join(lines)


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.scenario_lists", description="See bench/README.md.")
    parser.add_argument("--few", type=int, default=FEW, help="so many scenarios in the one database (%(default)s)")
    parser.add_argument("--many", type=int, default=MANY, help="so many in the other (%(default)s)")
    parser.add_argument("--calls", type=int, default=CALLS, help="how often each is asked (%(default)s)")
    options = parser.parse_args()
    with ExitStack() as stack:
        sizes = []
        for count in (options.few, options.many):
            postgres = Postgres()
            stack.callback(postgres.close)
            sizes.append((postgres.new_database(), count))
        answers = asyncio.run(measure(sizes, options.calls))
    print(_told(answers, options.few, options.many, options.calls))


if __name__ == "__main__":
    main()
