"""Scenarios in the database: read, saved, described, approved, deleted. A connection and a project in, bytes out.

What reads is given a project, what writes an actor, who goes into the audit log in the same transaction. A write names
the version that it was based on, so that of two that saw the same only one gets through, and revisions have no gaps.
"""

import datetime
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Struct
from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import (
    BadRequest,
    BrokenRule,
    Conflict,
    Fault,
    Forbidden,
    NotFound,
    PreconditionFailed,
    PreconditionRequired,
)
from service.estimates.held import Tables
from service.estimates.operations import estimate, in_utc
from service.estimates.schemas import EstimateRequest
from service.estimator.answers import PricesUsed
from service.estimator.results import Estimate
from service.http.encoding import encoded
from service.http.preconditions import Preconditions
from service.http.text import canonical_name, name_key
from service.prices.store import release_tables, use_table
from service.scenarios.heads import HEAD, AnyRow, Stored, audit_hash, etag_of, refuse_archived, stored, words_of
from service.scenarios.revision_store import add_revision, get_revision, says_the_same, values_again, values_of
from service.scenarios.schemas import (
    ScenarioDuplicate,
    ScenarioPatch,
    ScenarioWrite,
    Status,
)
from service.scenarios.tables import scenario_labels, scenario_revisions, scenarios
from service.scenarios.values import budget_columns, checked_labels, instant_in_utc, one_line, patched_budget
from service.storage.audit import Action, Actor, record

_NAME_TAKEN = ("uq_scenarios_live_name", "scenarios.name_key")  # how PostgreSQL and SQLite name that index
_MAX_KEY_BYTES = 1000  # what PostgreSQL can index, with room to spare
_USER = "scenario"  # as what price tables know it
_DONE: dict[Status, Action] = {"approved": "approved", "archived": "archived", "draft": "reopened"}

_S = scenarios.c
_R = scenario_revisions.c
# Built once: putting a statement together takes longer than running it.
_OURS = _S.project_id == bindparam("project")
_WHOLE = select(*HEAD, _R.request, _R.estimate, _R.price_table, _R.exchange).select_from(
    scenarios.join(scenario_revisions, (_R.scenario_id == _S.id) & (_R.number == _S.latest_number))
)
_BY_NAME = _WHOLE.where(_OURS, _S.deleted_at.is_(None), _S.name_key == bindparam("key"))
_LAST_DELETED = (
    _WHOLE.where(_OURS, _S.deleted_at.is_not(None), _S.name_key == bindparam("key"))
    .order_by(_S.deleted_at.desc(), _S.id.desc())
    .limit(1)
)


class Answered(Struct, frozen=True):
    """A request with its answer, as a revision keeps them."""

    values: dict[str, Any]
    tables: tuple[str, ...]


async def get_scenario(connection: AsyncConnection, project_id: int, name: str) -> Stored:
    """The scenario of this name; NotFound."""
    row = await _find_row(connection, project_id, name)
    if row is None:
        raise NotFound.named("scenario", name)
    return _whole(row)


async def save_scenario(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    write: ScenarioWrite,
    preconditions: Preconditions,
    tables: Tables | None = None,
    *,
    may_approve: bool = True,
) -> Stored:
    """Create or replace, as the preconditions allow, with the estimate computed now. What comes out as it was makes no
    new revision, and if nothing else is different, no new version."""
    row = await _find_row(connection, actor.project_id, name)
    if row is None:
        preconditions.allow_creation()
    else:
        preconditions.allow_change(etag_of(row))
        _allow_edit(row, may_approve)
    request = in_utc(write.request, "/request")
    answered = answered_now(request, estimate(request, "/request", tables=tables), write.note)
    described = {
        "description": write.description,
        "labels": checked_labels(write.labels),
        "owner": one_line(write.owner, "/owner"),
        "cost_centre": one_line(write.cost_centre, "/cost_centre"),
        "planned_start": instant_in_utc(write.planned_start),
        **budget_columns(write.budget),
    }
    if row is not None:
        return await _replace(connection, actor, "replaced", row, described, answered)
    try:
        return await _insert(connection, actor, name, described, answered)
    except IntegrityError as error:
        if not _is_name_taken(error):
            raise
        # Somebody created it between our look and our write.
        told = "Somebody else has just created this object: read it first."
        kind = PreconditionRequired if preconditions.if_none_match is None else PreconditionFailed
        header = "If-Match" if preconditions.if_none_match is None else "If-None-Match"
        raise kind(told, (Fault("header", header, told),)) from None


async def save_answer(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    answered: Answered,
    preconditions: Preconditions,
    *,
    may_approve: bool,
) -> Stored:
    """An answer that was computed elsewhere as the newest revision; the descriptive fields stay."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions, may_approve=may_approve)
    return await _replace(connection, actor, "revised", row, {}, answered)


async def restore_revision(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    number: int,
    note: str,
    preconditions: Preconditions,
    *,
    may_approve: bool,
) -> Stored:
    """The request of an older revision and that very answer as a new one; the newest itself stays as it is."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions, may_approve=may_approve)
    older = await get_revision(connection, actor.project_id, name, number)
    if number == row.latest_number:
        return _whole(row)
    values = {**values_again(older, note or f"Revision {number} again", _now()), "restored_from": number}
    answered = Answered(values, tables_used(older.estimate()))
    return await _replace(connection, actor, "revised", row, {}, answered, always=True)


async def patch_scenario(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    patch: ScenarioPatch,
    preconditions: Preconditions,
    *,
    may_approve: bool = True,
) -> Stored:
    """Change descriptive fields only; the stored answer stays byte for byte."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions, may_approve=may_approve)
    values: dict[str, Any] = {}
    if patch.description is not UNSET:
        values["description"] = patch.description or ""
    if patch.labels is not UNSET:
        merged = {**row.labels, **patch.labels} if patch.labels is not None else {}
        values["labels"] = checked_labels({key: value for key, value in merged.items() if value is not None})
    if patch.owner is not UNSET:
        values["owner"] = one_line(patch.owner, "/owner")
    if patch.cost_centre is not UNSET:
        values["cost_centre"] = one_line(patch.cost_centre, "/cost_centre")
    if patch.planned_start is not UNSET:
        values["planned_start"] = instant_in_utc(patch.planned_start)
    if patch.budget is not UNSET:
        values.update(patched_budget(row, patch.budget))
    return await _describe(connection, actor, "changed", row, values)


async def set_status(
    connection: AsyncConnection,
    actor: Actor,
    name: str,
    status: Status,
    preconditions: Preconditions,
    *,
    may_approve: bool,
) -> Stored:
    """Approve what was seen, put away, or take up again; nothing happens where it is so already."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions)
    if row.status == status:
        return _whole(row)
    _allow_edit(row, may_approve, archived=status == "draft")
    approved = {"approved": row.latest_number, "archived": row.approved_number, "draft": None}[status]
    return await _describe(connection, actor, _DONE[status], row, {"status": status, "approved_number": approved})


async def duplicate_scenario(connection: AsyncConnection, actor: Actor, name: str, asked: ScenarioDuplicate) -> Stored:
    """A draft of another name with the newest request and that very answer; NotFound, or Conflict on a taken name."""
    original = await get_revision(connection, actor.project_id, name)
    row = await _find_row(connection, actor.project_id, name)
    if row is None:
        raise NotFound.named("scenario", name)
    described = {
        key: getattr(row, key)
        for key in (
            "description",
            "labels",
            "owner",
            "cost_centre",
            "planned_start",
            "budget_amount",
            "budget_currency",
        )
    }
    note = asked.note or f"A copy of {row.name}, revision {original.number}"
    answered = Answered(values_again(original, note, _now()), tables_used(original.estimate()))
    try:
        copied = canonical_name(asked.name, "body", "/name")
    except BadRequest as error:  # it has passed its schema: whatever is wrong with it is a rule
        raise BrokenRule(error.detail, error.faults) from None
    if await _find_row(connection, actor.project_id, copied) is not None:
        raise _name_taken(copied, Fault("body", "/name", "There is a scenario of this name"))
    try:
        return await _insert(connection, actor, copied, described, answered)
    except IntegrityError as error:
        if not _is_name_taken(error):
            raise
        raise _name_taken(copied, Fault("body", "/name", "There is a scenario of this name")) from None


async def delete_scenario(
    connection: AsyncConnection, actor: Actor, name: str, preconditions: Preconditions, *, may_approve: bool = True
) -> None:
    """Take it out of sight; its money history stays, and its name is free again."""
    row = await _row_for_change(connection, actor.project_id, name, preconditions)
    _allow_edit(row, may_approve, archived=True)
    await _describe(connection, actor, "deleted", row, {"deleted_at": _now()})
    await release_tables(connection, _USER, row.id)


async def restore_scenario(connection: AsyncConnection, actor: Actor, name: str, *, may_approve: bool = True) -> Stored:
    """Bring back what was deleted last under this name; NotFound, or Conflict where the name is taken again. What was
    approved is brought back by those who may delete it."""
    asked = {"project": actor.project_id, "key": name_key(name)}
    deleted = (await connection.execute(_LAST_DELETED, asked)).one_or_none()
    if deleted is None:
        raise NotFound.named("deleted scenario", name)
    _allow_edit(deleted, may_approve, archived=True)
    told = f"There is another scenario called {name!r} by now: delete it first, or leave this one deleted."
    taken = _name_taken(name, Fault("path", "name", told), told)
    if await _find_row(connection, actor.project_id, name) is not None:
        raise taken
    statement = (
        update(scenarios)
        .where(_S.id == deleted.id, _S.version == deleted.version, _S.deleted_at.is_not(None))
        .values(version=deleted.version + 1, updated_at=_now(), deleted_at=None)
        .returning(*HEAD)
    )
    try:
        row = (await connection.execute(statement)).one_or_none()
    except IntegrityError as error:
        if not _is_name_taken(error):
            raise
        raise taken from None
    if row is None:  # somebody else restored it between our look and our write
        raise taken
    restored = stored(row, deleted.request, deleted.estimate)
    if deleted.price_table is not None:
        newest = await get_revision(connection, actor.project_id, row.name)
        await _use_tables(connection, actor, row.id, tables_used(newest.estimate()))
    await record(
        connection, actor, "restored", "scenario", row.name, after=audit_hash(row, deleted.request, deleted.estimate)
    )
    return restored


def answered_now(request: EstimateRequest, answer: Estimate, note: str) -> Answered:
    """An answer that was just computed, as a revision keeps it. The request's times are in UTC already."""
    return Answered(values_of(encoded(request), answer, note, _now()), tables_used(answer))


def tables_used(answer: Estimate) -> tuple[str, ...]:
    """The names of the price tables that an answer was read from."""
    prices = answer.prices
    if not isinstance(prices, PricesUsed):
        return ()
    parts = (prices.price, prices.storage, prices.filesystem, prices.egress)
    return tuple(sorted({part.revision.table for part in parts if part is not None}))


async def _find_row(connection: AsyncConnection, project_id: int, name: str) -> AnyRow | None:
    return (await connection.execute(_BY_NAME, {"project": project_id, "key": name_key(name)})).one_or_none()


async def _row_for_change(
    connection: AsyncConnection,
    project_id: int,
    name: str,
    preconditions: Preconditions,
    *,
    may_approve: bool | None = None,
) -> AnyRow:
    """The row that the caller has seen, and where it says who that is, one that may be edited."""
    row = await _find_row(connection, project_id, name)
    if row is None:
        raise NotFound.named("scenario", name)
    preconditions.allow_change(etag_of(row))
    if may_approve is not None:
        _allow_edit(row, may_approve)
    return row


def _allow_edit(row: AnyRow, may_approve: bool, *, archived: bool = False) -> None:
    """What is archived is changed by nobody, what is approved only by those who approve."""
    if not archived:
        refuse_archived(row.name, row.status)
    if row.status == "approved" and not may_approve:
        raise Forbidden(
            f"{row.name!r} is approved: only a key with the scope scenarios:approve changes it.", "scenarios:approve"
        )


async def _insert(
    connection: AsyncConnection, actor: Actor, name: str, described: dict[str, Any], answered: Answered
) -> Stored:
    """Head and first revision; IntegrityError where the name is taken."""
    key = name_key(name)
    if len(key.encode()) > _MAX_KEY_BYTES:
        raise BrokenRule.at("name", f"Case folded, the name has over {_MAX_KEY_BYTES} bytes", "path")
    now = _now()
    statement = (
        insert(scenarios)
        .values(
            project_id=actor.project_id,
            name=name,
            name_key=key,
            words=words_of(name, described["description"]),
            status="draft",
            latest_number=1,
            version=1,
            created_at=now,
            updated_at=now,
            **described,
            **_of_head(answered.values),
        )
        .returning(*HEAD)
    )
    row = (await connection.execute(statement)).one()
    await add_revision(connection, actor, row.id, 1, answered.values)
    await _write_labels(connection, actor.project_id, row)
    await _use_tables(connection, actor, row.id, answered.tables)
    made = stored(row, answered.values["request"], answered.values["estimate"], created=True)
    after = audit_hash(row, answered.values["request"], answered.values["estimate"])
    await record(connection, actor, "created", "scenario", row.name, after=after)
    return made


async def _replace(
    connection: AsyncConnection,
    actor: Actor,
    action: Action,
    row: AnyRow,
    described: dict[str, Any],
    answered: Answered,
    *,
    always: bool = False,
) -> Stored:
    """A new revision of what was read, if there is anything new in it; it is a draft then."""
    values = answered.values
    if not always and values["request"] == row.request and says_the_same(values["estimate"], row.estimate):
        changes = {key: value for key, value in described.items() if getattr(row, key) != value}
        return await _describe(connection, actor, action, row, changes) if changes else _whole(row)
    number = row.latest_number + 1
    head = {**described, **_of_head(values), "latest_number": number, "status": "draft", "approved_number": None}
    written = await _write_head(connection, row, head)
    await add_revision(connection, actor, row.id, number, values)
    if row.price_table is not None:
        await release_tables(connection, _USER, row.id)
    await _use_tables(connection, actor, row.id, answered.tables)
    await _write_labels(connection, actor.project_id, written, before=row)
    before = audit_hash(row, row.request, row.estimate)
    after = audit_hash(written, values["request"], values["estimate"])
    await record(connection, actor, action, "scenario", row.name, before=before, after=after)
    return stored(written, values["request"], values["estimate"], revised=True)


async def _describe(
    connection: AsyncConnection, actor: Actor, action: Action, row: AnyRow, values: dict[str, Any]
) -> Stored:
    """The next version with the same revision."""
    written = await _write_head(connection, row, values)
    await _write_labels(connection, actor.project_id, written, before=row)
    before = audit_hash(row, row.request, row.estimate)
    after = None if action == "deleted" else audit_hash(written, row.request, row.estimate)
    await record(connection, actor, action, "scenario", row.name, before=before, after=after)
    return stored(written, row.request, row.estimate)


async def _write_head(connection: AsyncConnection, row: AnyRow, values: dict[str, Any]) -> AnyRow:
    """Write over exactly the version that was read; PreconditionFailed where another write came between."""
    if "description" in values:
        values = {**values, "words": words_of(row.name, values["description"])}
    statement = (
        update(scenarios)
        .where(_S.id == row.id, _S.version == row.version, _S.deleted_at.is_(None))
        .values(version=row.version + 1, updated_at=_now(), **values)
        .returning(*HEAD)
    )
    written = (await connection.execute(statement)).one_or_none()
    if written is None:
        told = "Somebody else has just changed this object: read it again."
        raise PreconditionFailed(told, (Fault("header", "If-Match", told),))
    return written


async def _write_labels(
    connection: AsyncConnection, project_id: int, row: AnyRow, *, before: AnyRow | None = None
) -> None:
    """The labels once more, as rows that an index finds, if they or the owner beside them are others than before."""
    if before is not None and (before.labels, before.owner) == (row.labels, row.owner):
        return
    if before is not None and before.labels:
        await connection.execute(delete(scenario_labels).where(scenario_labels.c.scenario_id == row.id))
    if row.labels:
        shared = {"scenario_id": row.id, "project_id": project_id, "name_key": name_key(row.name), "owner": row.owner}
        each = [{**shared, "key": key, "value": value} for key, value in row.labels.items()]
        await connection.execute(insert(scenario_labels), each)


async def _use_tables(connection: AsyncConnection, actor: Actor, scenario_id: int, names: tuple[str, ...]) -> None:
    """They cannot be deleted while the newest revision was read from them. One that is gone already stays gone: the
    answer is kept, and its revision of the prices can be read by its id."""
    for name in names:  # in order of name, so that no two wait for each other
        with suppress(NotFound):
            await use_table(connection, actor.project_id, name, _USER, scenario_id)


def _of_head(values: dict[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in ("currency", "total", "model_version")}


def _is_name_taken(error: IntegrityError) -> bool:
    return any(sign in str(error.orig) for sign in _NAME_TAKEN)


def _name_taken(name: str, fault: Fault, told: str | None = None) -> Conflict:
    return Conflict(told or f"There is a scenario called {name!r} already.", (fault,))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _whole(row: AnyRow) -> Stored:
    return stored(row, row.request, row.estimate)
