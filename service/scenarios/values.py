"""What describes a scenario, as it is written: labels, single lines, instants and budgets, each checked."""

import datetime
from typing import Any

from msgspec import UnsetType

from service.errors import BrokenRule
from service.scenarios.heads import AnyRow
from service.scenarios.schemas import MAX_LABELS, BudgetPatch, ScenarioBudget


def checked_labels(labels: dict[str, str]) -> dict[str, str]:
    """Labels, each of one line and not too many."""
    if len(labels) > MAX_LABELS:
        raise BrokenRule.at("/labels", f"A scenario has at most {MAX_LABELS} labels")
    for key, value in labels.items():
        if "\n" in key or "\n" in value:
            raise BrokenRule.at(f"/labels/{key.strip()}", "A label is one line")
    return labels


def one_line(text: str | None, pointer: str) -> str | None:
    """Where a pattern ends, there may still be a line break; to Python, not to JSON Schema."""
    if text is not None and "\n" in text:
        raise BrokenRule.at(pointer, "It is one line")
    return text


def instant_in_utc(instant: datetime.datetime | None) -> datetime.datetime | None:
    """An instant in UTC, as it is kept."""
    try:
        return None if instant is None else instant.astimezone(datetime.UTC)
    except OverflowError:
        raise BrokenRule.at("/planned_start", "In UTC this instant is outside the years 1 to 9999") from None


def budget_columns(budget: ScenarioBudget | None) -> dict[str, Any]:
    """A budget as its columns."""
    if budget is None:
        return {"budget_amount": None, "budget_currency": None}
    return {"budget_amount": budget.amount, "budget_currency": budget.currency}


def patched_budget(row: AnyRow, patch: BudgetPatch | None) -> dict[str, Any]:
    """What a patch leaves of a budget; BrokenRule where half of one would be."""
    if patch is None:
        return budget_columns(None)
    amount: Any = row.budget_amount if isinstance(patch.amount, UnsetType) else patch.amount
    currency = row.budget_currency if isinstance(patch.currency, UnsetType) else patch.currency
    if amount is None or currency is None:
        lacking = "amount" if amount is None else "currency"
        raise BrokenRule.at(f"/budget/{lacking}", "There is no budget yet: give both amount and currency")
    return {"budget_amount": amount, "budget_currency": currency}
