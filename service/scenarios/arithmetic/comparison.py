"""Scenarios side by side: totals and components against the first, cheapest, fastest, and which are never the choice.

Amounts are compared in the baseline's currency. A scenario in another one needs a stated rate: without it, what cannot
be said is null and a note says why, and nothing is called the cheapest, since nobody can know. Components of a
converted scenario are shared out so that they add up to its converted total.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from msgspec import UNSET, Meta, Struct

from service.errors import BrokenRule
from service.estimator.results import Component, Estimate, Note
from service.money import exact, exact_arithmetic, number
from service.scenarios.arithmetic.rates import ExchangeRates, converted, find_rate
from service.scenarios.arithmetic.shares import amount_of, rounded_to, units_of
from service.scenarios.arithmetic.spreads import Moment
from service.units import PERCENT

FEWEST, MOST = 2, 20

_Delta = Annotated[Decimal | None, Meta(description="Over the baseline's; null where no rate is given.")]


class Candidate(Struct, frozen=True):
    """A scenario to be compared."""

    name: str
    answer: Estimate


class ComparedComponent(Struct, frozen=True):
    """One component of one scenario, in the baseline's currency."""

    component: Component
    amount: Annotated[Decimal | None, Meta(description="0 where it has no such line; null where no rate is given.")]
    delta: _Delta


class ComparedScenario(Struct, frozen=True):
    """One scenario beside the first."""

    name: str
    currency: Annotated[str, Meta(description="Its own.")]
    total: Annotated[Decimal, Meta(description="In its own currency.")]
    comparable_total: Annotated[
        Decimal | None, Meta(description="In the baseline's currency; null where no rate is given.")
    ]
    rate: Annotated[
        Decimal | None, Meta(description="Of the baseline's currency for one unit of its own; null if unknown.")
    ]
    delta: _Delta
    delta_percent: Annotated[float | None, Meta(description="Of the baseline's total; null if that is 0 or unknown.")]
    components: tuple[ComparedComponent, ...]
    days: Annotated[float, Meta(description="Expected wall clock, rework included.")]
    delta_days: float
    finish_at: Moment | None
    cheapest: Annotated[bool | None, Meta(description="None costs less; null where not all can be compared.")]
    fastest: Annotated[bool, Meta(description="None takes less time.")]
    dominated: Annotated[
        bool | None,
        Meta(description="Another is no dearer and no slower, and better in one; null where nobody can tell."),
    ]
    dominated_by: Annotated[tuple[str, ...], Meta(description="All that are known to dominate it.")]


class ScenarioComparison(Struct, frozen=True):
    """Two to twenty scenarios; the first is the baseline."""

    baseline: str
    currency: Annotated[str, Meta(description="The baseline's.")]
    rates: Annotated[ExchangeRates | None, Meta(description="As given.")]
    scenarios: tuple[ComparedScenario, ...]
    cheapest: Annotated[
        tuple[str, ...] | None, Meta(description="Several if they cost the same; null where not all can be compared.")
    ]
    fastest: tuple[str, ...]
    notes: tuple[Note, ...]


def compared(candidates: Sequence[Candidate], rates: ExchangeRates | None = None) -> ScenarioComparison:
    """All beside the first; BrokenRule where they are too few or too many."""
    if not FEWEST <= len(candidates) <= MOST:
        raise BrokenRule.at("/scenarios", f"A comparison has {FEWEST} to {MOST} scenarios, not {len(candidates)}")
    with exact_arithmetic():
        return _compared(candidates, rates)


class _Seen(Struct, frozen=True):
    """A scenario, and its total where it can be compared."""

    name: str
    answer: Estimate
    rate: Decimal | None
    total: Decimal | None

    @property
    def days(self) -> float:
        return self.answer.duration.expected_wall_clock_days


def _compared(candidates: Sequence[Candidate], rates: ExchangeRates | None) -> ScenarioComparison:
    currency = candidates[0].answer.cost.currency
    seen = [_seen(candidate, currency, rates) for candidate in candidates]
    components = tuple(dict.fromkeys(line.component for one in seen for line in one.answer.cost.lines))
    by_component = [_by_component(one, currency, components) for one in seen]
    totals = [one.total for one in seen]
    known = [total for total in totals if total is not None]
    least = min(known) if len(known) == len(totals) else None
    fewest_days = min(one.days for one in seen)
    scenarios = tuple(
        _beside(one, seen, least, fewest_days, _component_deltas(components, amounts, by_component[0]))
        for one, amounts in zip(seen, by_component, strict=True)
    )
    return ScenarioComparison(
        seen[0].name,
        currency,
        rates,
        scenarios,
        None if least is None else tuple(one.name for one in seen if one.total == least),
        tuple(one.name for one in seen if one.days == fewest_days),
        tuple(_notes(seen, currency)),
    )


def _seen(candidate: Candidate, currency: str, rates: ExchangeRates | None) -> _Seen:
    cost = candidate.answer.cost
    rate = find_rate(cost.currency, currency, rates)
    return _Seen(
        candidate.name, candidate.answer, rate, None if rate is None else converted(cost.total, rate, currency)
    )


def _beside(
    one: _Seen, seen: Sequence[_Seen], least: Decimal | None, fewest_days: float, parts: tuple[ComparedComponent, ...]
) -> ComparedScenario:
    """One scenario with everything that is said of it."""
    base = seen[0]
    assert base.total is not None  # it is in its own currency
    delta = None if one.total is None else one.total - base.total
    cost, duration = one.answer.cost, one.answer.duration
    better = [(other.name, _is_better(other, one)) for other in seen if other is not one]
    by = tuple(name for name, is_better in better if is_better)
    nobody_can_tell = not by and any(is_better is None for _, is_better in better)
    return ComparedScenario(
        name=one.name,
        currency=cost.currency,
        total=cost.total,
        comparable_total=one.total,
        rate=one.rate,
        delta=delta,
        delta_percent=None if delta is None or not base.total else number(delta * PERCENT / base.total),
        components=parts,
        days=one.days,
        delta_days=number(exact(one.days) - exact(base.days)),
        finish_at=duration.finish_at,
        cheapest=None if least is None else one.total == least,
        fastest=one.days == fewest_days,
        dominated=None if nobody_can_tell else bool(by),
        dominated_by=by,
    )


def _is_better(one: _Seen, other: _Seen) -> bool | None:
    """Whether one is no dearer and no slower than another and better in one of the two; None where nobody can tell.

    In one currency the totals are compared as they are, for two may be converted to the same amount.
    """
    if one.days > other.days:
        return False
    mine, yours = one.total, other.total
    if one.answer.cost.currency == other.answer.cost.currency:
        mine, yours = one.answer.cost.total, other.answer.cost.total
    if mine is None or yours is None:
        return None
    return mine <= yours and (mine < yours or one.days < other.days)


def _by_component(one: _Seen, currency: str, components: Sequence[Component]) -> tuple[Decimal, ...] | None:
    """Amounts in the baseline's currency that add up to the total; None without a rate."""
    if one.rate is None or one.total is None:
        return None
    sums = dict.fromkeys(components, Decimal(0))
    for line in one.answer.cost.lines:
        sums[line.component] += line.amount
    one_unit = Fraction(amount_of(1, currency))
    exact_parts = [Fraction(amount) * Fraction(one.rate) / one_unit for amount in sums.values()]
    parts = rounded_to(units_of(one.total, currency), exact_parts)
    return tuple(amount_of(part, currency) for part in parts)


def _component_deltas(
    components: Sequence[Component], amounts: tuple[Decimal, ...] | None, base: tuple[Decimal, ...] | None
) -> tuple[ComparedComponent, ...]:
    if amounts is None or base is None:
        return tuple(ComparedComponent(component, None, None) for component in components)
    return tuple(
        ComparedComponent(component, amount, amount - other)
        for component, amount, other in zip(components, amounts, base, strict=True)
    )


def _notes(seen: Sequence[_Seen], currency: str) -> Iterator[Note]:
    for one in seen:
        if one.rate is None:
            told = (
                f"No rate from {one.answer.cost.currency} to {currency} is given: the cost of {one.name!r} is left out."
            )
            yield Note("no-rate", "warning", told)
    with_contingency = [one.answer.cost.expected_total is not UNSET for one in seen]
    if any(with_contingency) and not all(with_contingency):
        told = "Some totals hold a contingency and others do not: see the component."
        yield Note("contingency-in-some", "warning", told)
    if len({one.answer.model_version for one in seen}) > 1:
        yield Note("model-versions-differ", "warning", "The scenarios were computed by different model versions.")
