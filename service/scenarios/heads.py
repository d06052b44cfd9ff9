"""A scenario's head as a row of the database, and as the JSON that is sent of it."""

import datetime
from typing import Any

from msgspec import Raw, Struct, structs
from sqlalchemy import Row

from service.errors import Conflict, Fault
from service.estimator.inputs import DEFAULT_WARN_PERCENT
from service.estimator.verdict import judge_cost
from service.http.encoding import encoded
from service.http.text import name_key
from service.money import to_minor_unit, written
from service.scenarios.schemas import BudgetShown, BudgetVerdict, ScenarioSummary, Status
from service.scenarios.tables import scenarios
from service.storage.audit import hash_of

AnyRow = Row[*tuple[Any, ...]]
# Without what is only searched.
HEAD = tuple(column for column in scenarios.c if column.name not in ("words", "project_id", "deleted_at"))


class Stored(Struct, frozen=True):
    """A scenario as it leaves the store: its tag and its JSON, and whether it or its newest revision was just made."""

    name: str
    etag: str
    body: bytes
    created: bool = False
    revised: bool = False


# The generation of `Wire`: part of its tags, so that no cache keeps an answer of another. One more whenever a version
# that is stored already is sent as other bytes: with another field, or judged by another rule.
GENERATION = 2


class Kept(Struct, frozen=True):
    """What is kept of a scenario. The audit log has its hash, which no rule by which it is judged moves."""

    name: str
    description: str
    labels: dict[str, str]
    request: Raw
    estimate: Raw
    version: int
    model_version: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    revision: int
    status: Status
    approved_revision: int | None
    owner: str | None
    cost_centre: str | None
    planned_start: datetime.datetime | None
    budget: BudgetShown | None


class Wire(Kept, frozen=True):
    """`schemas.Scenario` with the stored bytes in their place; a test holds the two together."""

    verdict: BudgetVerdict | None


def etag_of(row: AnyRow) -> str:
    """A strong tag: each change makes another version."""
    return f'"{row.id}-{row.version}-{GENERATION}"'


def words_of(name: str, description: str) -> str:
    """What a search looks through."""
    return f"{name_key(name)}\n{name_key(description)}"


def stored(row: AnyRow, request: bytes, estimate: bytes, *, created: bool = False, revised: bool = False) -> Stored:
    """A head with the request and the answer of its newest revision."""
    values = (*structs.astuple(_kept(row, request, estimate)), verdict_of(row))
    return Stored(row.name, etag_of(row), encoded(Wire(*values)), created, revised)


def audit_hash(row: AnyRow, request: bytes, estimate: bytes) -> str:
    """The hash of it that stands in the audit log."""
    return hash_of(encoded(_kept(row, request, estimate)))


def _kept(row: AnyRow, request: bytes, estimate: bytes) -> Kept:
    return Kept(
        row.name,
        row.description,
        row.labels,
        Raw(request),
        Raw(estimate),
        row.version,
        row.model_version,
        row.created_at,
        row.updated_at,
        row.latest_number,
        row.status,
        row.approved_number,
        row.owner,
        row.cost_centre,
        row.planned_start,
        budget_of(row),
    )


def summary_of(row: AnyRow) -> ScenarioSummary:
    """A head as a list shows it."""
    return ScenarioSummary(
        row.name,
        row.description,
        row.labels,
        row.currency,
        to_minor_unit(row.total, row.currency),
        row.version,
        etag_of(row),
        row.model_version,
        row.created_at,
        row.updated_at,
        row.latest_number,
        row.status,
        row.owner,
        row.cost_centre,
        row.planned_start,
        budget_of(row),
        verdict_of(row),
    )


def refuse_archived(name: str, status: Status) -> None:
    """What is archived is changed by nobody: Conflict."""
    if status == "archived":
        told = f"{name!r} is archived: reopen it first."
        raise Conflict(told, (Fault("path", "name", told),))


def verdict_of(row: AnyRow) -> BudgetVerdict | None:
    """The stored total against what has been set aside, in the same currency."""
    if row.budget_amount is None or row.budget_currency != row.currency:
        return None
    total = to_minor_unit(row.total, row.currency)
    found = judge_cost(written(row.budget_amount, row.currency), DEFAULT_WARN_PERCENT, row.currency, total)
    return BudgetVerdict(found.status, "total", found.used_percent, found.headroom)


def budget_of(row: AnyRow) -> BudgetShown | None:
    """What has been set aside, with the digits that it was given in."""
    if row.budget_amount is None:
        return None
    return BudgetShown(written(row.budget_amount, row.budget_currency), row.budget_currency)
