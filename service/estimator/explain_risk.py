"""The formulas of distributions: when chance alone lets a run end, and the quantiles, means and shares of the draws."""

import datetime
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import UNSET

from service.estimator import bill
from service.estimator.answers import Reliability, Risk
from service.estimator.detailed import DetailedRun
from service.estimator.distribution import gamma_quantile
from service.estimator.formula import Page, to_minor_units
from service.estimator.plan import Failures
from service.estimator.results import Estimate
from service.estimator.timing import Hours, completion_of
from service.estimator.uncertainty import SHOWN_PERCENTS, Outcome, mean_of, simulate
from service.money import exact, nothing
from service.units import HOURS_PER_DAY, PERCENT

_GAMMA = "a floor and a Gamma of the excess's mean and variance, by Daly's model (service.estimator.distribution)"
_TYPE_7 = "between neighbouring draws by straight line (Hyndman & Fan 1996, type 7)"
_COUNTED = "counted over the draws"
_CORRELATED = "squared correlation of the logarithms of input and cost, over the draws"
_OF_CHANCE = (50, 80, 90, 95)


def completion_page(failures: Failures, hours: Hours, told: Reliability) -> Page:
    """The quantiles of the run, with failures the only thing that is not certain."""
    page = Page()
    times = completion_of(float(hours.without_rework), failures)
    floor, excess = float(times.floor_hours), float(times.mean_hours - times.floor_hours)
    variance = float(times.variance_hours2)
    page.let("W", hours.without_rework, "h", "productive hours and their overhead")
    page.let("i", failures.instability_percent, "%", "work done again after loss spikes")
    page.let("p", failures.people_percent, "%", "work lost to bad settings")
    page.let("tau", failures.interval_hours, "h", "work between checkpoints")
    page.let("delta", failures.checkpoint_hours, "h", "time of a checkpoint")
    formula = f"W * (1 + (i + p) / {PERCENT}) * (1 + delta / tau)"
    page.write(None, "Hours of a run in which nothing fails", formula, floor, "h", _GAMMA)
    page.let("S", hours.setup.value, "h", "from provisioning to the first step")
    page.let("F", floor, "h", "hours of a run in which nothing fails")
    page.let("X", excess, "h", "what failures and waits take on average")
    page.let("V", variance, "h^2", "variance of that, exact by segments (Daly 2006)")
    varies = excess > 0 and variance > 0
    if varies:
        page.write(None, "Shape of the Gamma", "X ** 2 / V", excess**2 / variance, "1", _GAMMA)
    for percent in _OF_CHANCE:
        name, formula = f"P{percent} of the hours, by the chance of failures alone", "S + F"
        if varies:
            quantile = gamma_quantile(percent / PERCENT, excess**2 / variance)
            page.let("g", quantile, "1", f"P{percent} of a Gamma of shape X^2 / V and scale 1")
            formula = "S + F + V / X * g"
        result = getattr(told.completion, f"p{percent}_hours")
        page.write(f"reliability.completion.p{percent}_hours", name, formula, result, "h", _GAMMA)
    return page


def risk_pages(run: DetailedRun, hours: Hours, answer: Estimate) -> Iterator[Page]:
    """What the draws of the answer come to: drawn again, from the same seed."""
    if run.simulation is None or answer.risk is UNSET:
        return
    before = answer.cost.total if answer.cost.expected_total is UNSET else answer.cost.expected_total
    outcome = simulate(run.plan, run.simulation)
    rounding = before - bill.billed_amount(run.plan, hours)
    yield _quantiles_page(outcome, float(rounding), answer.risk, answer.cost.currency)
    yield _means_page(outcome, answer.risk, answer.cost.currency)
    yield _chances_page(answer.risk, run.start_at)


def _quantiles_page(outcome: Outcome, rounding: float, told: Risk, currency: str) -> Page:
    page = Page()
    page.let("r", rounding, currency, "what rounding its lines adds to the bill")
    for percent in SHOWN_PERCENTS:
        at = _neighbours(page, np.sort(outcome.cost), percent, currency)
        amount = max(nothing(currency), exact(at) + exact(rounding))
        field, name = f"risk.cost.p{percent}", f"P{percent} of the cost"
        rounded = to_minor_units(currency)
        page.write(field, name, "max(0, a + (b - a) * w + r)", amount, currency, _TYPE_7, rounded)
    for percent in SHOWN_PERCENTS:
        _neighbours(page, np.sort(outcome.hours), percent, "h")
        field, name = f"risk.days.p{percent}_days", f"P{percent} of the days"
        result = getattr(told.days, f"p{percent}_days")
        page.write(field, name, f"(a + (b - a) * w) / {HOURS_PER_DAY}", result, "day", _TYPE_7)
    return page


def _neighbours(page: Page, ordered: Any, percent: int, unit: str) -> float:
    """The draws beside a quantile, and how far it lies between them; what lies there."""
    rank: float = (ordered.size - 1) * percent / PERCENT
    below = math.floor(rank)
    one, other = float(ordered[below]), float(ordered[min(below + 1, ordered.size - 1)])
    page.let("a", one, unit, f"draw {below + 1:,} of {ordered.size:,} in order")
    page.let("b", other, unit, "the next one")
    page.let("w", rank - below, "1", f"of the way between them, P{percent} of the draws lie")
    return float(one + (other - one) * (rank - below))


def _means_page(outcome: Outcome, told: Risk, currency: str) -> Page:
    page = Page()
    page.let("k", told.samples, "1", "draws")
    cost, hours = mean_of(outcome.cost), mean_of(outcome.hours)
    if told.mean_cost is not None and cost is not None:
        page.let("s", cost * told.samples, currency, "their costs together")
        rounding = to_minor_units(currency)
        page.write("risk.mean_cost", "Mean of the cost", "s / k", cost, currency, _COUNTED, rounding)
    if told.mean_days is not None and hours is not None:
        page.let("s", hours * told.samples, "h", "their hours together")
        name, formula = "Mean of the days", f"s / k / {HOURS_PER_DAY}"
        page.write("risk.mean_days", name, formula, told.mean_days, "day", _COUNTED)
    return page


def _chances_page(told: Risk, start_at: datetime.datetime | None) -> Page:
    page = Page()
    page.let("k", told.samples, "1", "draws")
    chances = [("chance_over_budget_percent", "cost more than the budget", told.chance_over_budget_percent)]
    if start_at is not None:
        chances.append(("chance_after_deadline_percent", "end after the deadline", told.chance_after_deadline_percent))
    for field, meaning, percent in chances:
        if percent is not None:
            page.let("c", round(percent * told.samples / PERCENT), "1", f"draws that {meaning}")
            page.write(f"risk.{field}", f"Chance to {meaning}", f"{PERCENT} * c / k", percent, "%", _COUNTED)
    for share in told.variance_shares:
        page.let("rho", math.sqrt(share.percent / PERCENT), "1", "correlation of ln of the input with ln of the cost")
        field, name = f"risk.variance_shares[{share.input}].percent", f"Spread explained by {share.input}"
        page.write(field, name, f"{PERCENT} * rho ** 2", share.percent, "%", _CORRELATED)
    return page
