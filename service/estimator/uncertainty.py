"""The distribution of cost and time: seeded draws of the uncertain inputs through the same plan and the same bill."""

import datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal

import numpy as np
from msgspec import Struct, structs

from service.errors import BrokenRule
from service.estimator import bill
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
    """Cost in the plan's currency and hours from start to end, one of each a draw; and the factors behind them. What
    rounding its lines adds to the bill as planned is added to every draw: without a spread every quantile is the total.
    """

    cost: Any
    hours: Any
    factors: dict[str, Any]
    rounding: Decimal = Decimal(0)

    def cost_at(self, percent: float, currency: str) -> Decimal:
        """The amount that the cost stays under with this chance; BrokenRule where it is more than one can be."""
        amount = exact(quantiles(self.cost, (percent,))[0]) + self.rounding
        if amount >= LARGEST_AMOUNT:
            told = f"At P{percent:g} the cost has more than {MAX_INTEGER_DIGITS} integer digits: narrow the spreads"
            raise BrokenRule.at("/uncertainty", told)
        return max(nothing(currency), to_minor_unit(amount, currency))

    def hours_at(self, percent: float) -> float:
        """The hours that the run stays under with this chance."""
        return quantiles(self.hours, (percent,))[0]


def simulate(plan: Plan, simulation: Simulation) -> Outcome:
    """Draws through the plan. The checkpoint interval stays as planned; chance multiplies what failures cost."""
    size = simulation.samples
    factors = {spread.input: spread.drawn(simulation.seed, size) for spread in simulation.spreads}
    varied = _varied(plan_in_floats(plan), factors)
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
    amount = None if budget is None else budget.amount
    deadline = None if budget is None else budget.deadline
    return Risk(
        samples=simulation.samples,
        seed=simulation.seed,
        mean_cost=to_minor_unit(exact(float(np.mean(outcome.cost))), currency),
        mean_days=number(exact(float(np.mean(outcome.hours)) / HOURS_PER_DAY)),
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


def _varied(plan: Plan, factors: dict[UncertainInput, Number]) -> Plan:
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


def _shares(outcome: Outcome, simulation: Simulation) -> tuple[VarianceShare, ...]:
    """Most first. Where nothing costs anything, of the hours."""
    told: dict[str, str] = {spread.input: spread.told() for spread in simulation.spreads}
    output = outcome.cost if np.min(outcome.cost) > 0 else outcome.hours
    positive = {name: np.maximum(values, 1e-300) for name, values in outcome.factors.items()}
    shares = variance_shares_percent(positive, output)
    return tuple(
        VarianceShare(name, number(exact(share)), told.get(name, _CHANCE_SPREAD))
        for name, share in sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
    )
