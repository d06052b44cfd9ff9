"""Lists of scenarios: filtered, sorted, a page at a time. A connection and a project in, a Struct out."""

import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import UNSET
from sqlalchemy import ColumnElement, Select, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.paging import count_key, instant_key, read_cursor, text_key, write_cursor
from service.http.text import name_key
from service.scenarios.heads import HEAD, AnyRow, summary_of
from service.scenarios.schemas import ScenarioPage, ScenarioQuery
from service.scenarios.tables import scenario_labels, scenarios

_S = scenarios.c
_L = scenario_labels.c
# After every start that is planned.
_NEVER = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
_SORTED: dict[str, ColumnElement[Any]] = {
    "name": _S.name_key,
    "created_at": _S.created_at,
    "updated_at": _S.updated_at,
    "total": _S.total,
    "planned_start": func.coalesce(_S.planned_start, literal(_NEVER, _S.planned_start.type)),
}


async def list_scenarios(connection: AsyncConnection, project_id: int, asked: ScenarioQuery) -> ScenarioPage:
    """One page in a stable order."""
    descending = asked.sort.startswith("-")
    by = asked.sort.removeprefix("-")
    column = _SORTED[by]
    given = {
        name: getattr(asked, name)
        for name in ("q", "status", "owner", "cost_centre", "label", "currency")
        if getattr(asked, name) is not UNSET
    }
    question = ("scenarios", project_id, asked.sort, given)
    statement, column, tie = _asked_of(project_id, by, given)
    if asked.cursor is not UNSET:
        kinds = {"name": text_key, "total": _amount_key}
        value, last_id = read_cursor(asked.cursor, question, (kinds.get(by, instant_key), count_key))
        here = tuple_(column, tie)
        there = tuple_(value, last_id, types=[column.type, tie.type])
        statement = statement.where(here < there if descending else here > there)
    order = (column.desc(), tie.desc()) if descending else (column, tie)
    rows = (await connection.execute(statement.order_by(*order).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [_key_of(page[-1], by), page[-1].id]) if len(rows) > len(page) else None
    return ScenarioPage(tuple(map(summary_of, page)), cursor)


def _asked_of(
    project_id: int, by: str, given: dict[str, Any]
) -> tuple[Select[Any], ColumnElement[Any], ColumnElement[Any]]:
    """What passes, and by which columns it is in order. With a label by name the labels come first: their index has
    them in that order, so that a page costs the same among few and among many."""
    heads = select(*HEAD).where(_S.project_id == project_id, _S.deleted_at.is_(None), *_filters(given))
    if "label" not in given:
        return heads, _SORTED[by], _S.id
    key, _, value = given["label"].partition(":")
    labelled = [_L.project_id == project_id, _L.key == key, _L.value == value]
    if by != "name":
        return heads.where(_S.id.in_(select(_L.scenario_id).where(*labelled))), _SORTED[by], _S.id
    if "owner" in given:
        labelled.append(_L.owner == given["owner"])
    return heads.join(scenario_labels, _L.scenario_id == _S.id).where(*labelled), _L.name_key, _L.scenario_id


def _filters(given: dict[str, Any]) -> list[ColumnElement[bool]]:
    made = [_S[name] == given[name] for name in ("status", "owner", "cost_centre", "currency") if name in given]
    if "q" in given:
        made.append(_S.words.contains(name_key(given["q"]), autoescape=True))
    return made


def _key_of(row: AnyRow, by: str) -> str:
    if by == "name":
        return str(row.name_key)
    value = getattr(row, by)
    if by == "total":
        return str(value)
    return (value or _NEVER).isoformat()


def _amount_key(value: Any) -> Decimal:
    """A sort key that is an amount of money."""
    try:
        amount = Decimal(text_key(value))
    except InvalidOperation:
        raise ValueError(value) from None
    if not amount.is_finite() or not 0 <= amount < 10**12 or amount != round(amount, 6):
        raise ValueError(value)
    return amount
