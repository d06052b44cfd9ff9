"""What is worked out of stored scenarios: differences, comparisons, other prices, costs by month, forecasts.

Everything is read first; the arithmetic runs in a thread afterwards, with no connection in hand.
"""

import asyncio
import datetime
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs
from sqlalchemy.ext.asyncio import AsyncConnection

from service.aside import aside
from service.errors import BadRequest, BrokenRule, Fault, NotFound, Where
from service.estimates.bill_schemas import MeteredEgress, MeteredStorage, TablePrice, TableTiers
from service.estimates.held import CurrenciesDiffer, Held
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.estimates.tables import tables_of
from service.estimator.inputs import Budget
from service.estimator.results import Estimate, Judged, Note, Verdict
from service.estimator.verdict import judge
from service.http.encoding import encoded
from service.http.preconditions import Preconditions
from service.http.text import canonical_name
from service.money import Money, written
from service.prices.operations import Prices
from service.scenarios.actual_files import read_file
from service.scenarios.actual_schemas import FileRow
from service.scenarios.actual_store import Plan, find_plan, import_actuals, list_records
from service.scenarios.arithmetic.actuals import burn_down
from service.scenarios.arithmetic.comparison import Candidate, ScenarioComparison, compared
from service.scenarios.arithmetic.forecast import Reforecast, reforecast
from service.scenarios.arithmetic.phasing import phased, schedule_of
from service.scenarios.arithmetic.rates import ExchangeRates
from service.scenarios.arithmetic.spreads import Schedule
from service.scenarios.arithmetic.variance import variance
from service.scenarios.differing import Side, difference, revision_ids
from service.scenarios.insight_schemas import (
    ComparisonRequest,
    ConversionRates,
    DiffRequest,
    DiffSide,
    ForecastQuery,
    PhasingQuery,
    PointShown,
    Reprice,
    Repriced,
    RepriceQuery,
    ScenarioDiff,
    ScenarioForecast,
    ScenarioPhasing,
    ScenarioRef,
)
from service.scenarios.revision_store import StoredRevision, get_revision
from service.scenarios.store import answered_now, save_answer
from service.storage.audit import Actor
from service.storage.idempotency import Answer, Once, act_once


class Reading(Struct, frozen=True):
    """A scenario computed anew: what was stored, what is asked instead, and what that comes to."""

    stored: StoredRevision
    request: EstimateRequest
    answer: Estimate
    shown: Repriced


async def diff(prices: Prices, project_id: int, asked: DiffRequest) -> ScenarioDiff:
    """Why the later total is not the earlier one."""
    named = {"before": asked.before, "after": asked.after}
    before, after = await _revisions(prices, project_id, {f"/{place}": side for place, side in named.items()})
    sides = (
        _side(before, _rates(asked.before.rates, "/before/rates")),
        _side(after, _rates(asked.after.rates, "/after/rates")),
    )
    held = await _held(prices, project_id, sides)
    attribution = await asyncio.to_thread(difference, *sides, held)
    return ScenarioDiff(_shown(before), _shown(after), attribution)


async def compare(prices: Prices, project_id: int, asked: ComparisonRequest) -> ScenarioComparison:
    """The stored answers side by side."""
    rates = _rates(asked.rates, "/rates")
    found = await _revisions(prices, project_id, {f"/scenarios/{at}": one for at, one in enumerate(asked.scenarios)})
    seen: set[tuple[int, int]] = set()
    for at, one in enumerate(found):
        if (one.scenario_id, one.number) in seen:
            raise BrokenRule.at(f"/scenarios/{at}", f"Revision {one.number} of {one.name!r} is here twice")
        seen.add((one.scenario_id, one.number))
    if rates is not None and rates.currency != found[0].currency:
        told = f"Amounts are compared in the first one's currency, which is {found[0].currency}"
        raise BrokenRule.at("/rates/currency", told)
    return await asyncio.to_thread(lambda: compared(_candidates(found), rates))


async def read_anew(prices: Prices, project_id: int, name: str, asked: Reprice, query: RepriceQuery) -> Reading:
    """The scenario with other prices and by the current model, beside what is stored. Nothing is written."""
    number = asked.scenario_revision
    if query.save and number is not UNSET:
        raise BrokenRule.at("/scenario_revision", "Only the newest revision is followed by another: leave it out")
    if asked.note and not query.save:
        raise BrokenRule.at("/note", "Nothing is saved that it could be kept with: ask for save=true")
    async with prices.connected() as connection:
        stored = await _find_revision(connection, project_id, name, number, "/scenario_revision", "body")
    request = _repriced_request(stored.request, asked, query)
    tables = prices.snapshots.of(project_id)
    for table, revision in tables_of(request):
        with suppress(NotFound):  # what does not exist is told by the estimate, at its field
            await tables.get(table, revision)
    try:
        answer = await asyncio.to_thread(_estimated, request, tables)
    except BrokenRule as error:
        differ = isinstance(error, CurrenciesDiffer)
        error.faults = tuple(_as_asked(fault, asked, query, differ=differ) for fault in error.faults)
        raise
    sides = (_side(stored, None), Side(request, answer))
    held = await _held(prices, project_id, sides)
    attribution = await asyncio.to_thread(difference, *sides, held)
    cost = answer.cost
    shown = Repriced(_shown(stored), cost.currency, cost.total, attribution, answer, saved=False, saved_revision=None)
    return Reading(stored, request, answer, shown)


async def save_anew(
    prices: Prices,
    actor: Actor,
    name: str,
    asked: Reprice,
    query: RepriceQuery,
    preconditions: Preconditions,
    *,
    may_approve: bool,
) -> tuple[Repriced, str]:
    """The same, kept as the scenario's newest revision if there is anything new in it; with the scenario's tag."""
    read = await read_anew(prices, actor.project_id, name, asked, query)
    request = _as_kept(read.stored.request, read.request, read.answer)
    note = asked.note or f"Revision {read.stored.number} at other prices"
    answered = answered_now(request, read.answer, note)
    async with prices.begin() as connection:
        saved = await save_answer(connection, actor, name, answered, preconditions, may_approve=may_approve)
        if not saved.revised:
            return read.shown, saved.etag
        newest = await get_revision(connection, actor.project_id, name)
    return structs.replace(read.shown, saved=True, saved_revision=newest.number), saved.etag


async def import_file(
    prices: Prices, actor: Actor, name: str, body: bytes, *, once: Once | None, replace: bool
) -> Answer:
    """Every row of a file recorded, or none."""

    async def prepare() -> tuple[FileRow, ...]:
        async with prices.connected() as connection:
            await find_plan(connection, actor.project_id, name)  # what is not there is told before the file is read
        return await aside(read_file, body)

    async def effect(connection: AsyncConnection, rows: tuple[FileRow, ...]) -> Answer:
        report = await import_actuals(connection, actor, name, rows, replace=replace)
        return Answer(200, (), encoded(report))

    return await act_once(prices, once, prepare, effect)


async def phase(prices: Prices, project_id: int, name: str, asked: PhasingQuery) -> ScenarioPhasing:
    """Cost by calendar month from the planned start."""
    async with prices.connected() as connection:
        stored = await _find_revision(connection, project_id, name, asked.revision, "revision", "query")
        plan = await find_plan(connection, project_id, name)
    answer, schedule = stored.estimate(), _schedule(stored, plan)
    found = await asyncio.to_thread(phased, answer, schedule, asked.basis)
    return ScenarioPhasing(stored.name, stored.number, found)


async def forecast(prices: Prices, project_id: int, name: str, asked: ForecastQuery) -> ScenarioForecast:
    """What the run will come to by what was recorded, why that differs from the plan, and what the budget says."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    if asked.as_of is not UNSET:
        now = datetime.datetime.combine(asked.as_of, datetime.time(), datetime.UTC)
    async with prices.connected() as connection:
        stored = await _find_revision(connection, project_id, name, asked.revision, "revision", "query")
        plan = await find_plan(connection, project_id, name)
        records = await list_records(connection, project_id, stored.scenario_id, stored.currency)
    answer, schedule = stored.estimate(), _schedule(stored, plan)

    def work_out() -> ScenarioForecast:
        expected = reforecast(answer, schedule, records, now)
        verdict, notes = _verdict(stored, plan, schedule, expected)
        return ScenarioForecast(
            stored.name,
            stored.number,
            now,
            schedule.start_at,
            expected,
            variance(answer, schedule, records, now),
            burn_down(answer, schedule, records, now, asked.basis),
            verdict,
            (*_notes(answer), *notes),
        )

    return await asyncio.to_thread(work_out)


# ------------------------------------------------------------------------------------------- what is read


async def _revisions(
    prices: Prices, project_id: int, asked: dict[str, ScenarioRef] | dict[str, DiffSide]
) -> list[StoredRevision]:
    """Every one that is named, by the pointer at which it is; NotFound says which is not there."""
    found = []
    async with prices.connected() as connection:
        for pointer, one in asked.items():
            try:
                name = canonical_name(one.name, "body", f"{pointer}/name")
            except BadRequest as error:  # the name is one by the schema, and none in NFC
                raise BrokenRule(error.detail, error.faults) from None
            try:
                at = f"{pointer}/revision"
                found.append(await _find_revision(connection, project_id, name, one.revision, at, "body"))
            except NotFound as error:
                if error.faults[0].where == "path":
                    error.faults = (Fault("body", f"{pointer}/name", error.detail),)
                raise
    return found


async def _find_revision(
    connection: AsyncConnection, project_id: int, name: str, number: int | UnsetType, pointer: str, where: Where
) -> StoredRevision:
    """The revision, or the newest; NotFound says of the field at `pointer` that there is none of this number."""
    try:
        return await get_revision(connection, project_id, name, None if number is UNSET else number)
    except NotFound as error:
        if error.faults[0].pointer == "number":
            error.faults = (Fault(where, pointer, error.detail),)
        raise


async def _held(prices: Prices, project_id: int, sides: Sequence[Side]) -> dict[int, Held]:
    """The revisions of price tables that the sides were answered by."""
    return {one: await prices.snapshots.get_by_id(project_id, one) for one in sorted(revision_ids(sides))}


def _side(stored: StoredRevision, rates: ExchangeRates | None) -> Side:
    return Side(stored.request, stored.estimate(), rates)


def _rates(given: ConversionRates | UnsetType, at: str) -> ExchangeRates | None:
    if given is UNSET:
        return None
    for currency, rate in given.rates.items():
        if not rate:
            raise BrokenRule.at(f"{at}/rates/{currency}", "A rate is more than 0")
    rates = {currency: +rate for currency, rate in given.rates.items()}
    return ExchangeRates(currency=given.currency, as_of=given.as_of, rates=rates, source=given.source)


def _shown(stored: StoredRevision) -> PointShown:
    return PointShown(
        stored.name, stored.number, stored.currency, stored.total, stored.model_version, stored.created_at
    )


def _candidates(found: Sequence[StoredRevision]) -> list[Candidate]:
    """By name, and where a scenario is there more than once by its revision too."""
    names = [one.name for one in found]
    return [
        Candidate(one.name if names.count(one.name) == 1 else f"{one.name}@{one.number}", one.estimate())
        for one in found
    ]


# ------------------------------------------------------------------------------------------- other prices


def _estimated(request: EstimateRequest, tables: Any) -> Estimate:
    return estimate(request, tables=tables)


def _repriced_request(request: EstimateRequest, asked: Reprice, query: RepriceQuery) -> EstimateRequest:
    """The request with other prices: the newest of every table unless a revision is asked for."""
    price, storage, egress = request.price, request.storage, request.egress
    day: dict[str, Any] = {} if query.as_of is UNSET else {"as_of": query.as_of}
    is_read = False
    if isinstance(price, TablePrice):
        table = price.table if asked.table is UNSET else asked.table
        price, is_read = structs.replace(price, table=table, revision=asked.revision, **day), True
    elif asked.table is not UNSET or asked.revision is not UNSET:
        field = "table" if asked.revision is UNSET else "revision"
        raise BrokenRule.at(f"/{field}", "The scenario reads its price per GPU-hour from no price table")
    if isinstance(storage, MeteredStorage) and storage.from_table is not UNSET:
        tiers = structs.replace(storage.from_table, revision=UNSET, **day)
        storage, is_read = structs.replace(storage, from_table=tiers), True
    if isinstance(egress, MeteredEgress) and egress.from_table is not UNSET:
        tiers = structs.replace(egress.from_table, revision=UNSET, **day)
        egress, is_read = structs.replace(egress, from_table=tiers), True
    if day and not is_read:
        raise BrokenRule.at("as_of", "The scenario reads no price table, so that no day has other prices", "query")
    exchange = request.exchange if asked.exchange is UNSET else asked.exchange
    return structs.replace(request, price=price, storage=storage, egress=egress, exchange=exchange)


def _as_asked(fault: Fault, asked: Reprice, query: RepriceQuery, *, differ: bool) -> Fault:
    """A fault of the request that was put together, said of what was sent: of the field that it is in, else of the one
    that chose these prices, or the currency where two `differ`; of the scenario where it is its own."""
    if asked.exchange is not UNSET and fault.pointer.startswith("/exchange"):
        return fault  # it is called the same here
    section, _, field = fault.pointer.rpartition("/")
    sent = [name for name in ("table", "revision") if getattr(asked, name) is not UNSET]
    sent += [] if query.as_of is UNSET else ["as_of"]
    blamed = sent[0] if sent else None
    if differ:
        blamed = next((name for name in ("table", "exchange") if getattr(asked, name) is not UNSET), None)
    elif field in sent and (section == "/price" or field == "as_of"):
        blamed = field
    elif field in ("table", "revision"):
        blamed = None
    told = fault.message if blamed == field and not differ else f"In the scenario, at {fault.pointer}: {fault.message}"
    if blamed is None:
        return Fault("path", "name", told)
    return Fault("query", blamed, told) if blamed == "as_of" else Fault("body", f"/{blamed}", told)


def _as_kept(before: EstimateRequest, request: EstimateRequest, answer: Estimate) -> EstimateRequest:
    """A revision or a table that was pinned stays pinned, to the one that answered; what was open stays open."""
    used = answer.prices
    if used is UNSET:
        return request
    old, price, storage, egress = before.price, request.price, request.storage, request.egress
    if isinstance(old, TablePrice) and isinstance(price, TablePrice) and old.revision is not UNSET and used.price:
        price = structs.replace(price, revision=used.price.revision.revision)
    if _is_pinned(before.storage) and isinstance(storage, MeteredStorage) and used.storage:
        storage = structs.replace(storage, from_table=_pinned_to(storage.from_table, used.storage.revision.revision))
    if _is_pinned(before.egress) and isinstance(egress, MeteredEgress) and used.egress:
        egress = structs.replace(egress, from_table=_pinned_to(egress.from_table, used.egress.revision.revision))
    return structs.replace(request, price=price, storage=storage, egress=egress)


def _is_pinned(section: object) -> bool:
    tiers = section.from_table if isinstance(section, MeteredStorage | MeteredEgress) else UNSET
    return tiers is not UNSET and tiers.revision is not UNSET


def _pinned_to(tiers: TableTiers | UnsetType, revision: int) -> TableTiers | UnsetType:
    return tiers if tiers is UNSET else structs.replace(tiers, revision=revision)


# ------------------------------------------------------------------------------------------- plans


def _schedule(stored: StoredRevision, plan: Plan) -> Schedule:
    """From the request's own start, else the scenario's; BrokenRule where neither is known."""
    request = stored.request
    if request.start_at is None and plan.planned_start is None:
        told = (
            "What falls due when needs the day on which the run starts: PATCH the scenario with a planned_start, as in "
            '{"planned_start": "2027-01-01T00:00:00Z"}, or save a request with a start_at'
        )
        raise BrokenRule.at("name", told, "path")
    return schedule_of(request, plan.planned_start if request.start_at is None else None)


def _notes(answer: Estimate) -> tuple[Note, ...]:
    prices = answer.prices
    if prices is UNSET or prices.price is None or not prices.price.segments:
        return ()
    told = "The planned rate changes while the run goes on: what was paid is compared with the mean of the rates."
    return (Note("mean-rate", "info", told),)


def _verdict(
    stored: StoredRevision, plan: Plan, schedule: Schedule, expected: Reforecast
) -> tuple[Verdict | None, tuple[Note, ...]]:
    """The budget of the request, or the one of the scenario where that has no amount, on what is expected now or, where
    the request asks for a confidence, on that quantile."""
    asked = stored.request.budget or Budget()
    amount, notes = _budget_amount(asked, plan, expected.currency)
    judged: Judged = "expected" if asked.confidence_percent is UNSET else "quantile"
    total, finish = expected.total, expected.finish_at
    if judged == "quantile":
        total, finish = expected.confident_total, expected.confident_finish_at
    deadline = asked.deadline
    if deadline is not None and (finish is None or deadline <= schedule.start_at):
        deadline = None
    budget = structs.replace(asked, amount=None if total is None else amount, deadline=deadline)
    if (budget.amount, budget.deadline) != (amount, asked.deadline):
        notes.append(Note("not-judged", "warning", "A part of the budget cannot be judged, for it is not known."))
    if budget.amount is None and budget.deadline is None:
        return None, tuple(notes)
    known_total = expected.planned_total if total is None else total
    return judge(budget, expected.currency, schedule.start_at, known_total, finish, judged), tuple(notes)


def _budget_amount(asked: Budget, plan: Plan, currency: str) -> tuple[Money | None, list[Note]]:
    """The amount that is judged, and what there is to say of the other one."""
    if plan.budget_amount is None:
        return asked.amount, []
    given = f"{written(plan.budget_amount, plan.budget_currency or currency)} {plan.budget_currency}"
    if asked.amount is not None:
        told = f"The budget in the request is judged, and not the scenario's of {given}."
        return asked.amount, [Note("budget-of-request", "info", told)]
    if plan.budget_currency != currency:
        told = f"The scenario's budget of {given} is not judged, for the plan is in {currency}."
        return None, [Note("budget-currency", "warning", told)]
    return Money(written(plan.budget_amount, currency)), []
