"""`python -m bench`: which servers are compared on what, and the tables that come of it."""

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.in_process import Check
from bench.load import Exchange, run_load
from bench.prices import measure_prices, told
from bench.rounds import Contender, Goal, Report, compare_answers, measure, say
from bench.servers import Server, output_of, take_cores
from bench.traffic import (
    SCENARIOS,
    Replacements,
    detailed_exchanges,
    estimate_exchanges,
    same_apart_from_times,
    scenario_reads,
    scenario_writes,
    table_exchanges,
    unusual_exchanges,
    usual_answer,
)
from bench.writes import check_refusals, check_rows, ids_of_scenarios
from service.prices.default import seed_default_table
from service.storage.schema import migrate
from tests.support.postgres import Postgres

_SERVICE = "service.app:create_app"
_NO_DATABASE = "sqlite+aiosqlite:///never-opened.db"  # estimates store nothing, and a file is made when first used
_PARTS = ("estimates", "tables", "scenarios", "detailed", "prices")
_COMPARED_WRITES = 2 * SCENARIOS


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    options = _options()
    for_servers, for_load = take_cores()
    if for_servers == for_load:
        say("There is only one core: servers and load share it, and the figures say little.")
    reports = []
    if options.part in (None, "estimates"):
        reports.append(measure_estimates(for_servers, options.rounds, options.seconds))
    if options.part in (None, "tables"):
        reports.append(measure_tables(for_servers, options.rounds, options.seconds))
    if options.part in (None, "scenarios"):
        reports.append(measure_scenarios(for_servers, options.rounds, options.seconds))
        reports.append(measure_writes(for_servers, options.rounds, options.seconds))
    checks: list[Check] = []
    if options.part in (None, "detailed"):
        reports.append(measure_detailed(for_servers, options.rounds, options.seconds))
        say("detailed: searches, draws and 10,000 in a row")
        checks = msgspec.json.decode(output_of("bench.in_process", for_servers), type=list[Check])
    for report in reports:
        print(_told(report))
    if checks:
        print("\nin process, on one core\n" + "\n".join(map(_checked, checks)))
    if options.part == "prices":  # five minutes, so only when it is asked for
        print(told(*measure_prices(for_servers)))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode([*reports, *checks])) + b"\n")


def measure_estimates(core: int, rounds: int, seconds: float) -> Report:
    """One estimate: Litestar without us, us, and FastAPI."""
    exchanges = estimate_exchanges()
    fixed = usual_answer()
    bare_exchanges = [Exchange(exchange.request, fixed) for exchange in exchanges]
    with ExitStack() as stack:
        bare = stack.enter_context(Server("bench.bare:app", core))
        service = stack.enter_context(Server(_SERVICE, core, factory=True, database_url=_NO_DATABASE))
        fastapi = stack.enter_context(Server("bench.fastapi_peer:app", core))
        for server in (service, fastapi):
            compare_answers(server, exchanges + unusual_exchanges())
        say(f"estimates: the service and FastAPI say the same to {len(exchanges)} requests and to unusual ones")
        contenders = [
            Contender("(i)", "bare Litestar handler, no estimate", bare, bare_exchanges),
            Contender("(ii)", "POST /v1/estimates", service, exchanges),
            Contender("(iii)", "the same in FastAPI with pydantic", fastapi, exchanges),
        ]
        goals = [Goal("(ii)", "(i)", 0.95), Goal("(ii)", "(iii)", 1.9)]
        return measure("estimates", contenders, goals, rounds, seconds)


def measure_tables(core: int, rounds: int, seconds: float) -> Report:
    """The classic estimate at the price of a table against the same at an hourly price, both of one server."""
    hourly, by_table = table_exchanges()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite+aiosqlite:///{directory}/tables.db"
        asyncio.run(migrate(url))
        asyncio.run(seed_default_table(url))
        service = stack.enter_context(Server(_SERVICE, core, factory=True, database_url=url))
        compare_answers(service, hourly + by_table)
        say(f"tables: the service says to {len(by_table)} requests over HTTP what it says in process")
        contenders = [
            Contender("(x)", "POST /v1/estimates, hourly price", service, hourly),
            Contender("(xi)", "the same, price of a table", service, by_table),
        ]
        return measure("tables", contenders, [Goal("(xi)", "(x)", 1 / 1.15)], rounds, seconds)


def measure_scenarios(core: int, rounds: int, seconds: float) -> Report:
    """One stored scenario from PostgreSQL, which runs beside the load: us, and FastAPI with the ORM."""
    with ExitStack() as stack:
        postgres = Postgres()
        stack.callback(postgres.close)
        url = postgres.new_database()
        asyncio.run(migrate(url))
        service = stack.enter_context(Server(_SERVICE, core, factory=True, database_url=url))
        peer = stack.enter_context(Server("bench.fastapi_scenarios:app", core, database_url=url))
        exchanges = _store_scenarios(service)
        for server in (service, peer):
            compare_answers(server, exchanges)
        say(f"scenarios: the service and FastAPI say the same of {len(exchanges)} scenarios")
        contenders = [
            Contender("(iv)", "GET /v1/scenarios/{name}", service, exchanges),
            Contender("(iv peer)", "the same in FastAPI with the ORM", peer, exchanges),
        ]
        return measure("scenarios", contenders, [Goal("(iv)", "(iv peer)", 1.5)], rounds, seconds)


def measure_writes(core: int, rounds: int, seconds: float) -> Report:
    """The same scenarios replaced, each time by a new revision: us, and FastAPI with the ORM, each on a database of its
    own, which is looked through afterwards."""
    with ExitStack() as stack:
        postgres = Postgres()
        stack.callback(postgres.close)
        url = postgres.new_database()
        asyncio.run(migrate(url))
        with Server(_SERVICE, core, factory=True, database_url=url) as service:
            _store_scenarios(service)
        peer_url = postgres.new_database(template=url.rpartition("/")[2])
        service = stack.enter_context(Server(_SERVICE, core, factory=True, database_url=url))
        peer = stack.enter_context(Server("bench.fastapi_scenarios:app", core, database_url=peer_url))
        replacements = Replacements(asyncio.run(ids_of_scenarios(url)))
        for server in (service, peer):
            check_refusals(server)
            compare_answers(server, replacements, _COMPARED_WRITES, same_apart_from_times)
        say(f"writes: the service and FastAPI say the same to {_COMPARED_WRITES} replacements, and refuse the same")
        contenders = [
            Contender(key, title, server, replacements, _COMPARED_WRITES, same_apart_from_times)
            for key, title, server in (
                ("(iv put)", "PUT /v1/scenarios/{name}", service),
                ("(iv put peer)", "the same in FastAPI with the ORM", peer),
            )
        ]
        report = measure("writes", contenders, [Goal("(iv put)", "(iv put peer)", 1.2)], rounds, seconds)
        for database, figures in zip((url, peer_url), report.figures, strict=True):
            check_rows(database, replacements, _COMPARED_WRITES + figures.answered)
        say("writes: every revision, label and line of the audit log is there")
        return report


def measure_detailed(core: int, rounds: int, seconds: float) -> Report:
    """A whole transformer estimate against the classic one, both of one server."""
    classic, detailed = estimate_exchanges(), detailed_exchanges()
    with Server(_SERVICE, core, factory=True, database_url=_NO_DATABASE) as service:
        compare_answers(service, classic + detailed)
        say(f"detailed: the service says to {len(detailed)} whole requests over HTTP what it says in process")
        contenders = [
            Contender("(v)", "POST /v1/estimates, seven values", service, classic),
            Contender("(vi)", "the same, a whole transformer", service, detailed),
        ]
        return measure("detailed", contenders, [Goal("(vi)", "(v)", 1 / 1.5)], rounds, seconds)


def _store_scenarios(service: Server) -> list[Exchange]:
    """Save them through the service; how each is read, and what must be read."""
    writes = scenario_writes()
    saved = run_load(service.port, writes, count=len(writes), sample_every=1, status=201)
    return scenario_reads([answer for _, answer in sorted(saved.samples)])


def _told(report: Report) -> str:
    lines = [
        "",
        f"{report.part}: medians of {report.rounds} rounds of {report.seconds:g} s, {report.connections} connections",
        f"{'':50}{'req/s':>8}{'p99 ms':>9}{'CPU us/req':>12}",
    ]
    lines += [
        f"{row.key:14}{row.title:36}{row.per_second:8.0f}{row.p99_ms:9.2f}{row.cpu_us:12.0f}" for row in report.figures
    ]
    for ratio in report.ratios:
        goal = ratio.goal
        verdict = "reached" if ratio.reached else "MISSED"
        lines.append(
            f"{goal.faster} / {goal.slower}: {ratio.median:.3f}, goal {goal.at_least:.3g} or more: {verdict}"
            f" (rounds {min(ratio.rounds):.2f} to {max(ratio.rounds):.2f}; by CPU {ratio.cpu_median:.3f})"
        )
    return "\n".join(lines)


def _checked(check: Check) -> str:
    told = f"{check.key:10}{check.title:66}{check.figure:10,.1f} {check.unit}"
    if check.limit is None:
        return told
    limit = f"{'at most' if check.side == 'at_most' else 'at least'} {check.limit:,g}"
    return f"{told}, goal {limit}: {'reached' if check.reached else 'MISSED'}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure side by side; see bench/README.md.")
    parser.add_argument("part", nargs="?", choices=_PARTS, help="only this part")
    parser.add_argument("--rounds", type=int, default=21, help="how often each server is loaded (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="for how long each time (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    main()
