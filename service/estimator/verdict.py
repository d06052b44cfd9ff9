"""The expected cost and finish against the budget: ok, warn or exceeded."""

import datetime
from decimal import Decimal

from service.errors import BrokenRule
from service.estimator.inputs import Budget, Run
from service.estimator.results import CostVerdict, DeadlineVerdict, Verdict, VerdictStatus
from service.money import exact, number, written
from service.units import PERCENT

_WORST_FIRST: tuple[VerdictStatus, ...] = ("exceeded", "warn", "ok")


def judge(run: Run, budget: Budget, total: Decimal, finish_at: datetime.datetime | None) -> Verdict:
    """The verdict; BrokenRule for a budget that cannot be judged."""
    if budget.amount is None and budget.deadline is None:
        raise BrokenRule.at("/budget", "Give an amount, a deadline, or both")
    by_cost = _judge_cost(budget, run, total) if budget.amount is not None else None
    by_deadline = _judge_deadline(budget, run, finish_at) if budget.deadline is not None else None
    reached = {part.status for part in (by_cost, by_deadline) if part is not None}
    status = next(status for status in _WORST_FIRST if status in reached)
    return Verdict(status=status, judged="expected", cost=by_cost, deadline=by_deadline)


def _judge_cost(budget: Budget, run: Run, total: Decimal) -> CostVerdict:
    assert budget.amount is not None  # the caller asked
    warn_from = budget.amount * exact(budget.warn_percent)
    return CostVerdict(
        status=_status(total > budget.amount, total * PERCENT >= warn_from),
        amount=written(budget.amount, run.currency),
        used_percent=number(total * PERCENT / budget.amount) if budget.amount else None,
        headroom=budget.amount - total,
    )


def _judge_deadline(budget: Budget, run: Run, finish_at: datetime.datetime | None) -> DeadlineVerdict:
    if run.start_at is None or finish_at is None:
        raise BrokenRule.at("/budget/deadline", "A deadline can only be judged with start_at: give it too")
    assert budget.deadline is not None  # the caller asked
    allowed = (budget.deadline - run.start_at).total_seconds()
    if allowed <= 0:
        raise BrokenRule.at("/budget/deadline", "The deadline must be after start_at")
    used_percent = (finish_at - run.start_at).total_seconds() * PERCENT / allowed
    return DeadlineVerdict(
        status=_status(finish_at > budget.deadline, used_percent >= budget.warn_percent),
        deadline=budget.deadline.astimezone(datetime.UTC),
        used_percent=used_percent,
        headroom_hours=(budget.deadline - finish_at).total_seconds() / 3600,
    )


def _status(exceeded: bool, near: bool) -> VerdictStatus:
    return "exceeded" if exceeded else "warn" if near else "ok"
