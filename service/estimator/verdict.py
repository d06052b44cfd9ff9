"""The expected cost and finish against the budget: ok, warn or exceeded."""

import datetime
from decimal import Decimal

from msgspec import UNSET

from service.errors import BrokenRule
from service.estimator.inputs import Budget
from service.estimator.results import CostVerdict, DeadlineVerdict, Judged, Verdict, VerdictStatus
from service.money import exact, number, written
from service.units import PERCENT

_WORST_FIRST: tuple[VerdictStatus, ...] = ("exceeded", "warn", "ok")


def judge(
    budget: Budget,
    currency: str,
    start_at: datetime.datetime | None,
    total: Decimal,
    finish_at: datetime.datetime | None,
    judged: Judged = "expected",
) -> Verdict | None:
    """The verdict on this total and this finish; None if there is nothing to judge, BrokenRule if it cannot be."""
    if budget.amount is None and budget.deadline is None:
        if budget.confidence_percent is UNSET:
            raise BrokenRule.at("/budget", "Give an amount, a deadline, or both")
        return None
    by_cost = None if budget.amount is None else judge_cost(budget.amount, budget.warn_percent, currency, total)
    by_deadline = None if budget.deadline is None else _judge_deadline(budget, budget.deadline, start_at, finish_at)
    reached = {part.status for part in (by_cost, by_deadline) if part is not None}
    status = next(status for status in _WORST_FIRST if status in reached)
    return Verdict(status=status, judged=judged, cost=by_cost, deadline=by_deadline)


def judge_cost(amount: Decimal, warn_percent: float, currency: str, total: Decimal) -> CostVerdict:
    """The verdict on a total in the budget's currency."""
    warn_from = amount * exact(warn_percent)
    return CostVerdict(
        status=_status(total > amount, total * PERCENT >= warn_from),
        amount=written(amount, currency),
        used_percent=number(total * PERCENT / amount) if amount else None,
        headroom=amount - total,
    )


def _judge_deadline(
    budget: Budget,
    deadline: datetime.datetime,
    start_at: datetime.datetime | None,
    finish_at: datetime.datetime | None,
) -> DeadlineVerdict:
    if start_at is None or finish_at is None:
        raise BrokenRule.at("/budget/deadline", "A deadline can only be judged with start_at: give it too")
    allowed = (deadline - start_at).total_seconds()
    if allowed <= 0:
        raise BrokenRule.at("/budget/deadline", "The deadline must be after start_at")
    used_percent = (finish_at - start_at).total_seconds() * PERCENT / allowed
    return DeadlineVerdict(
        status=_status(finish_at > deadline, used_percent >= budget.warn_percent),
        deadline=deadline.astimezone(datetime.UTC),
        used_percent=used_percent,
        headroom_hours=(deadline - finish_at).total_seconds() / 3600,
    )


def _status(exceeded: bool, near: bool) -> VerdictStatus:
    return "exceeded" if exceeded else "warn" if near else "ok"
