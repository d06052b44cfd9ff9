"""The revisions of scenarios in the database, which never change. A connection and a project in, a Struct out."""

import datetime
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from sqlalchemy import Row, Select, bindparam, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import Fault, NotFound
from service.estimates.held import on_any_day
from service.estimates.schemas import EstimateRequest
from service.estimator.answers import ExchangeUsed, PricesUsed, RevisionUsed
from service.estimator.results import Estimate
from service.http.diagnosis import read_custom
from service.http.encoding import encoded
from service.http.paging import count_key, read_cursor, write_cursor
from service.http.text import name_key
from service.money import to_minor_unit
from service.scenarios.schemas import RevisionSummary, ScenarioRevisionPage, ScenarioRevisionQuery
from service.scenarios.tables import scenario_revisions, scenarios
from service.storage.audit import Actor

_S = scenarios.c
_R = scenario_revisions.c
_LIVE = (_S.project_id == bindparam("project"), _S.deleted_at.is_(None), _S.name_key == bindparam("key"))
_SUMMED = [column for column in scenario_revisions.c if column.name not in ("request", "estimate")]
_SHOWN = (_S.name, *scenario_revisions.c)
_JOINED = scenarios.join(scenario_revisions, _R.scenario_id == _S.id)

_read_request = msgspec.json.Decoder(EstimateRequest, dec_hook=read_custom)
_read_estimate = msgspec.json.Decoder(Estimate, dec_hook=read_custom)
_read_exchange = msgspec.json.Decoder(ExchangeUsed, dec_hook=read_custom)

AnyRow = Row[*tuple[Any, ...]]


class StoredRevision(Struct, frozen=True):
    """One revision as it was saved: the bytes that were sent, and what was used for them."""

    scenario_id: int
    name: str
    number: int
    request_body: bytes
    estimate_body: bytes
    model_version: str
    currency: str
    total: Decimal
    price_table: str | None
    price_revision: int | None
    price_revision_id: int | None
    price_as_of: datetime.date | None
    exchange: ExchangeUsed | None
    restored_from: int | None
    author: str | None
    key_id: str | None
    note: str
    created_at: datetime.datetime

    @property
    def request(self) -> EstimateRequest:
        """What was asked."""
        return _read_request.decode(self.request_body)

    def estimate(self) -> Estimate:
        """What was answered."""
        return _read_estimate.decode(self.estimate_body)

    @property
    def etag(self) -> str:
        """A strong tag, good for ever."""
        return f'"{self.scenario_id}-r{self.number}"'


class _Wire(Struct, frozen=True):
    """`schemas.ScenarioRevision` with the stored bytes in their place; a test holds the two together."""

    scenario: str
    number: int
    currency: str
    total: Decimal
    model_version: str
    price_table: str | None
    price_revision: int | None
    price_revision_id: int | None
    price_as_of: datetime.date | None
    exchange: ExchangeUsed | None
    restored_from: int | None
    author: str | None
    key_id: str | None
    note: str
    created_at: datetime.datetime
    request: Raw
    estimate: Raw


class _SharedWire(Struct, frozen=True):
    """`schemas.SharedRevision` likewise."""

    name: str
    revision: int
    request: Raw
    estimate: Raw
    created_at: datetime.datetime


async def get_revision(
    connection: AsyncConnection, project_id: int, name: str, number: int | None = None
) -> StoredRevision:
    """A revision of a live scenario by number, or its newest; NotFound."""
    wanted = _S.latest_number if number is None else number
    statement = select(*_SHOWN).select_from(_JOINED).where(*_LIVE, _R.number == wanted)
    row = (await connection.execute(statement, _named(project_id, name))).one_or_none()
    if row is not None:
        return stored_revision(row)
    await _require(connection, project_id, name)
    raise NotFound(f"{name!r} has no revision {number}.", (Fault("path", "number", "No such revision"),))


async def list_revisions(
    connection: AsyncConnection, project_id: int, name: str, asked: ScenarioRevisionQuery
) -> ScenarioRevisionPage:
    """One page of a live scenario's, the newest first; NotFound."""
    scenario_id = await _require(connection, project_id, name)
    question = ("revisions", project_id, scenario_id)
    statement: Select[Any] = select(*_SUMMED).where(_R.scenario_id == scenario_id)
    if asked.cursor is not UNSET:
        statement = statement.where(_R.number < read_cursor(asked.cursor, question, (count_key,))[0])
    rows = (await connection.execute(statement.order_by(_R.number.desc()).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].number]) if len(rows) > len(page) else None
    return ScenarioRevisionPage(tuple(map(_summary, page)), cursor)


async def add_revision(
    connection: AsyncConnection, actor: Actor, scenario_id: int, number: int, values: dict[str, Any]
) -> None:
    """The revision of this number, of a scenario whose head the caller has just written."""
    whole = {"author": actor.name, "key_id": actor.key_id, "note": "", **values}
    await connection.execute(_INSERT.values(scenario_id=scenario_id, number=number, **whole))


def values_of(request: bytes, answer: Estimate, note: str, now: datetime.datetime) -> dict[str, Any]:
    """What a revision keeps of an answer that was just computed."""
    used = _first_used(answer.prices)
    exchange = None if answer.prices is UNSET or answer.prices is None else answer.prices.exchange
    return {
        "request": request,
        "estimate": encoded(answer),
        "currency": answer.cost.currency,
        "total": answer.cost.total,
        "model_version": answer.model_version,
        "price_table": used and used.table,
        "price_revision": used and used.revision,
        "price_revision_id": used and used.revision_id,
        "price_as_of": used and used.as_of,
        "exchange": None if exchange is None else encoded(exchange),
        "note": note,
        "created_at": now,
    }


def values_again(revision: StoredRevision, note: str, now: datetime.datetime) -> dict[str, Any]:
    """The same for an answer that was kept: its bytes are what they were."""
    return {
        "request": revision.request_body,
        "estimate": revision.estimate_body,
        "currency": revision.currency,
        "total": revision.total,
        "model_version": revision.model_version,
        "price_table": revision.price_table,
        "price_revision": revision.price_revision,
        "price_revision_id": revision.price_revision_id,
        "price_as_of": revision.price_as_of,
        "exchange": None if revision.exchange is None else encoded(revision.exchange),
        "note": note,
        "created_at": now,
    }


def says_the_same(one: bytes, other: bytes) -> bool:
    """Whether two answers differ at most by the day on which they looked at the same prices."""
    return one == other or on_any_day(_read_estimate.decode(one)) == on_any_day(_read_estimate.decode(other))


def shown(revision: StoredRevision) -> bytes:
    """A revision as JSON, request and answer as they were sent."""
    bodies = Raw(revision.request_body), Raw(revision.estimate_body)
    return encoded(_Wire(revision.name, *_facts(revision), *bodies))  # type: ignore[call-arg]


def shown_outside(revision: StoredRevision) -> bytes:
    """What a link shows of it."""
    wire = _SharedWire(
        revision.name, revision.number, Raw(revision.request_body), Raw(revision.estimate_body), revision.created_at
    )
    return encoded(wire)


def stored_revision(row: AnyRow) -> StoredRevision:
    """A row of revisions with its scenario's name."""
    return StoredRevision(
        row.scenario_id,
        row.name,
        row.number,
        row.request,
        row.estimate,
        row.model_version,
        row.currency,
        to_minor_unit(row.total, row.currency),
        row.price_table,
        row.price_revision,
        row.price_revision_id,
        row.price_as_of,
        _exchange(row.exchange),
        row.restored_from,
        row.author,
        row.key_id,
        row.note,
        row.created_at,
    )


_INSERT = insert(scenario_revisions).inline()


def _named(project_id: int, name: str) -> dict[str, Any]:
    return {"project": project_id, "key": name_key(name)}


async def _require(connection: AsyncConnection, project_id: int, name: str) -> int:
    found: int | None = await connection.scalar(select(_S.id).where(*_LIVE), _named(project_id, name))
    if found is None:
        raise NotFound.named("scenario", name)
    return found


def _first_used(prices: Any) -> RevisionUsed | None:
    """Of the tables that were read, the one with the accelerator's price, else that of storage, else of egress."""
    if not isinstance(prices, PricesUsed):
        return None
    return next(
        (part.revision for part in (prices.price, prices.storage, prices.filesystem, prices.egress) if part), None
    )


def _exchange(stored: bytes | ExchangeUsed | None) -> ExchangeUsed | None:
    return _read_exchange.decode(stored) if isinstance(stored, bytes) else stored


def _facts(one: Any) -> tuple[Any, ...]:
    """What a list says of a revision too, in its order."""
    return (
        one.number,
        one.currency,
        to_minor_unit(one.total, one.currency),
        one.model_version,
        one.price_table,
        one.price_revision,
        one.price_revision_id,
        one.price_as_of,
        _exchange(one.exchange),
        one.restored_from,
        one.author,
        one.key_id,
        one.note,
        one.created_at,
    )


def _summary(row: AnyRow) -> RevisionSummary:
    return RevisionSummary(*_facts(row))
