"""The distribution of cost and time: seeded draws of the uncertain inputs through the same plan and the same bill."""

import datetime
import math
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal

import numpy as np
from msgspec import Struct, structs

from service.errors import BrokenRule
from service.estimator import bill, risk_advice
from service.estimator.answers import CostQuantiles, DayQuantiles, FinishQuantiles, Risk, VarianceShare
from service.estimator.cost import Number
from service.estimator.distribution import (
    chance_of_exceeding_percent,
    completion_hours,
    lognormal,
    quantiles,
    stream,
    triangular,
    variance_shares_percent,
)
from service.estimator.inputs import Budget
from service.estimator.plan import Failures, Plan, Ratio
from service.estimator.results import Note
from service.estimator.run import to_the_second
from service.estimator.timing import Hours, completion_of, finish_at, hours_of, plan_in_floats
from service.money import MAX_INTEGER_DIGITS, exact, nothing, number, to_minor_unit
from service.units import HOURS_PER_DAY, PERCENT

UncertainInput = Literal[
    "throughput", "scaling", "overhead", "price", "failure_rate", "restart", "checkpoint", "spot_rate"
]
SHOWN_PERCENTS = (10, 50, 80, 90, 95)
# Of all causes of spread the one that no better input can narrow.
CHANCE = "chance_of_failures"
_CHANCE_SPREAD = "when failures happen: floor and Gamma, by Daly's moments"
LARGEST_AMOUNT = Decimal(10) ** MAX_INTEGER_DIGITS
# The section of a request that an input comes from.
SECTIONS: dict[str, str] = {
    "throughput": "/work",
    "scaling": "/scaling",
    "overhead": "/work",
    "price": "/price",
    "failure_rate": "/rework",
    "restart": "/rework",
    "checkpoint": "/rework",
    "spot_rate": "/rework/spot",
    CHANCE: "/rework",
}
_LARGEST_SHARE = 0.01
_SECONDS_PER_HOUR = 3600
_HALF_A_MICROSECOND = 5e-7


class InputSpread(Struct, frozen=True, kw_only=True):
    """How one input is drawn, as a factor on its estimate: lognormal by `sigma`, else triangular from low to high."""

    input: UncertainInput
    sigma: float | None = None
    low: float = 1.0
    high: float = 1.0
    source: str

    def drawn(self, seed: int, size: int) -> Number:
        """One factor a draw; the draws of an input do not depend on which others there are."""
        draws = stream(seed, self.input)
        if self.sigma is not None:
            return lognormal(draws, 1.0, self.sigma, size)
        return triangular(draws, self.low, 1.0, self.high, size)

    def told(self) -> str:
        """In words, for the answer."""
        if self.sigma is not None:
            return f"lognormal, sigma {self.sigma:.3g}: {self.source}"
        return f"triangular, {PERCENT * self.low:.4g} to {PERCENT * self.high:.4g} % of the estimate: {self.source}"


class Simulation(Struct, frozen=True):
    """How often, from which seed, and what is drawn."""

    samples: int
    seed: int
    spreads: tuple[InputSpread, ...]


class Outcome(Struct, frozen=True):
    """Cost in the plan's currency and hours from start to end, one of each a draw; the factors behind them, and which
    of these the request spread. What rounding its lines adds to the bill as planned is added to every draw: without a
    spread every quantile is the total.
    """

    cost: Any
    hours: Any
    factors: dict[str, Any]
    stated: frozenset[str]
    rounding: Decimal = Decimal(0)

    def cost_at(self, percent: float, currency: str) -> Decimal:
        """The amount that the cost stays under with this chance; BrokenRule where it is more than one can be."""
        amount = exact(quantiles(self.cost, (percent,))[0]) + self.rounding
        if amount >= LARGEST_AMOUNT:
            raise self._beyond_money(percent)
        return max(nothing(currency), to_minor_unit(amount, currency))

    def main_cause(self) -> str:
        """The input that explains most of the spread of the cost."""
        shares = shares_percent(self)
        return max(shares, key=lambda name: (shares[name], name))

    def _beyond_money(self, percent: float) -> BrokenRule:
        """That a quantile is more than an amount can be, said of the input that makes most of its spread."""
        told = f"At P{percent:g} the cost has more than {MAX_INTEGER_DIGITS} integer digits"
        if not self.factors:
            return BrokenRule.at("/uncertainty", told)
        cause = self.main_cause()
        if cause in self.stated:
            return BrokenRule.at(f"/uncertainty/spreads/{cause}", f"{told}, by this spread most of all: narrow it")
        told += f", most of all by the spread of {cause}, which nobody gave: say what you measured, or state a spread"
        return BrokenRule.at(SECTIONS[cause], told)

    def hours_at(self, percent: float) -> float:
        """The hours that the run stays under with this chance."""
        return quantiles(self.hours, (percent,))[0]


def simulate(plan: Plan, simulation: Simulation) -> Outcome:
    """Draws through the plan. The checkpoint interval stays as planned; chance multiplies what failures cost."""
    size = simulation.samples
    factors = {spread.input: spread.drawn(simulation.seed, size) for spread in simulation.spreads}
    varied = with_factors(plan_in_floats(plan), factors)
    excess: Number = 1.0
    if varied.failures is not None:
        excess = _excess(varied, varied.failures, simulation)
    hours = hours_of(varied, excess)
    _check_overflow(varied, hours)
    told: dict[str, Any] = {str(name): values for name, values in factors.items()}
    if varied.failures is not None:
        told[CHANCE] = np.broadcast_to(excess, (size,))
    return Outcome(
        cost=np.broadcast_to(bill.billed_amount(varied, hours), (size,)),
        hours=np.broadcast_to(hours.expected, (size,)),
        factors=told,
        stated=frozenset(spread.input for spread in simulation.spreads if spread.source == "request"),
    )


def risk_of(
    outcome: Outcome,
    simulation: Simulation,
    currency: str,
    start_at: datetime.datetime | None,
    budget: Budget | None,
) -> Risk:
    """The section of an answer."""
    hours = quantiles(outcome.hours, SHOWN_PERCENTS)
    cost = (outcome.cost_at(percent, currency) for percent in SHOWN_PERCENTS)
    days = mean_of(outcome.hours)
    amount = None if budget is None else budget.amount
    deadline = None if budget is None else budget.deadline
    return Risk(
        samples=simulation.samples,
        seed=simulation.seed,
        mean_cost=_mean_cost(outcome, currency),
        mean_days=None if days is None else number(exact(days / HOURS_PER_DAY)),
        cost=CostQuantiles(*cost),
        days=DayQuantiles(*(number(exact(value / HOURS_PER_DAY)) for value in hours)),
        finish_at=None
        if start_at is None
        else FinishQuantiles(*(to_the_second(finish_at(start_at, value), start_at) for value in hours)),
        chance_over_budget_percent=None if amount is None else _chance_over(outcome, amount, currency),
        chance_after_deadline_percent=None
        if deadline is None or start_at is None
        else chance_of_exceeding_percent(
            outcome.hours, ((deadline - start_at).total_seconds() + _HALF_A_MICROSECOND) / _SECONDS_PER_HOUR
        ),
        variance_shares=_shares(outcome, simulation),
    )


def risk_notes(outcome: Outcome, risk: Risk) -> tuple[Note, ...]:
    """What to mind of the distribution, which shows only in the draws."""
    unsaid = tuple(name for name in ("mean_cost", "mean_days") if getattr(risk, name) is None)
    return (risk_advice.unsaid_means(unsaid, outcome.main_cause()),) if unsaid else ()


def mean_of(draws: Any) -> float | None:
    """Their mean; None where the largest one in a hundred make up more than half of it: the mean of other draws would
    be another, and that of all there are may not exist (a lognormal in an exponent has none)."""
    most = math.ceil(draws.size * _LARGEST_SHARE)
    ordered = np.partition(draws, draws.size - most)
    total = float(np.sum(ordered))
    return total / draws.size if float(np.sum(ordered[-most:])) <= total / 2 else None


def _mean_cost(outcome: Outcome, currency: str) -> Decimal | None:
    """The mean as an amount; None where none can be said, or it is more than an amount can be."""
    mean = mean_of(outcome.cost)
    amount = None if mean is None else exact(mean)
    return None if amount is None or amount >= LARGEST_AMOUNT else to_minor_unit(amount, currency)


def _chance_over(outcome: Outcome, amount: Decimal, currency: str) -> float:
    """How many of the draws are over the amount once they are rounded as the total is."""
    unit = nothing(currency)
    half_a_unit = Decimal(5).scaleb(int(unit.as_tuple().exponent) - 1)
    limit = amount.quantize(unit, ROUND_FLOOR) + half_a_unit - outcome.rounding
    return chance_of_exceeding_percent(outcome.cost, float(limit))


def _check_overflow(plan: Plan, hours: Hours) -> None:
    """BrokenRule where a draw goes over a commitment, and nobody says what that costs: unknown is never free."""
    held = plan.commitment
    if held is None or held.overflow_rate is not None:
        return
    _, over = bill.used_and_over(plan, held, hours)
    if np.any(over > 0):
        told = "In some draws GPU-hours lie beyond the commitment: give their price"
        raise BrokenRule.at("/price/overflow_amount", told)


def _excess(plan: Plan, failures: Failures, simulation: Simulation) -> Number:
    """What failures cost in each draw, over what they cost on average there."""
    steady = hours_of(structs.replace(plan, failures=None, buffer_percent=0.0))
    times = completion_of(steady.without_rework, failures)
    drawn = completion_hours(
        stream(simulation.seed, CHANCE), structs.replace(times, mean_hours=_sized(times.mean_hours, simulation))
    )
    mean = times.mean_hours - times.floor_hours
    return np.where(mean > 0, (drawn - times.floor_hours) / np.where(mean > 0, mean, 1.0), 1.0)


def _sized(value: Number, simulation: Simulation) -> Number:
    """One number a draw, where nothing that is drawn made it so."""
    return np.broadcast_to(value, (simulation.samples,))


def inputs_of(plan: Plan) -> frozenset[UncertainInput]:
    """The inputs that a plan has: drawing any other changes nothing."""
    held, failures = plan.commitment, plan.failures
    is_priced = bool(plan.rate.numerator or plan.fallback_rate) if held is None else bool(held.overflow_rate)
    found: dict[UncertainInput, bool] = {
        "throughput": True,
        "scaling": True,
        "overhead": bool(plan.overhead_percent),
        "price": is_priced,
    }
    if failures is not None:
        restarts = failures.per_hour * failures.restart_hours, failures.spot_per_hour * failures.spot_restart_hours
        found["failure_rate"] = failures.per_hour > 0
        found["restart"] = any(restarts)
        found["checkpoint"] = failures.checkpoint_hours > 0
        found["spot_rate"] = failures.spot_per_hour > 0
    return frozenset(name for name, has in found.items() if has)


def can_fail(plan: Plan) -> bool:
    """Whether chance alone spreads the hours."""
    failures = plan.failures
    return failures is not None and failures.per_hour + failures.spot_per_hour > 0


def with_factors(plan: Plan, factors: dict[UncertainInput, Number]) -> Plan:
    """The plan with its uncertain inputs drawn."""
    price = factors.get("price", 1.0)
    changes: dict[str, Any] = {}
    if "throughput" in factors:
        changes["hours"] = plan.hours / factors["throughput"]
    if "scaling" in factors:
        changes["efficiency_percent"] = np.minimum(plan.efficiency_percent * factors["scaling"], PERCENT)
    if "overhead" in factors:
        changes["overhead_percent"] = plan.overhead_percent * factors["overhead"]
    if "price" in factors:
        changes["rate"] = Ratio(plan.rate.numerator * price, plan.rate.divisor)
        if plan.fallback_rate is not None:
            changes["fallback_rate"] = plan.fallback_rate * price
        if plan.commitment is not None and plan.commitment.overflow_rate is not None:
            changes["commitment"] = structs.replace(
                plan.commitment, overflow_rate=plan.commitment.overflow_rate * price
            )
    if plan.failures is not None:
        changes["failures"] = _varied_failures(plan.failures, factors)
    return structs.replace(plan, **changes)


def _varied_failures(failures: Failures, factors: dict[UncertainInput, Number]) -> Failures:
    restart = factors.get("restart", 1.0)
    return structs.replace(
        failures,
        per_hour=failures.per_hour * factors.get("failure_rate", 1.0),
        restart_hours=failures.restart_hours * restart,
        spot_restart_hours=failures.spot_restart_hours * restart,
        checkpoint_hours=failures.checkpoint_hours * factors.get("checkpoint", 1.0),
        spot_per_hour=failures.spot_per_hour * factors.get("spot_rate", 1.0),
    )


def shares_percent(outcome: Outcome) -> dict[str, float]:
    """What each input explains of the spread of the cost; where that is nothing or does not vary, of the hours."""
    output = outcome.cost if np.min(outcome.cost) > 0 and np.ptp(outcome.cost) > 0 else outcome.hours
    positive = {name: np.maximum(values, 1e-300) for name, values in outcome.factors.items()}
    return variance_shares_percent(positive, output)


def _shares(outcome: Outcome, simulation: Simulation) -> tuple[VarianceShare, ...]:
    """Most first."""
    told: dict[str, str] = {spread.input: spread.told() for spread in simulation.spreads}
    shares = shares_percent(outcome)
    return tuple(
        VarianceShare(name, number(exact(share)), told.get(name, _CHANCE_SPREAD))
        for name, share in sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
    )
