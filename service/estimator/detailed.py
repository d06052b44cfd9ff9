"""The facts of a run beyond the classic fields to an estimate: hours, rounded lines, and every section it deserves."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from service.errors import BrokenRule, Fault
from service.estimator import MODEL_VERSION, bill, charges, cost
from service.estimator.answers import (
    BreakEven,
    CommitmentUse,
    EnergyUse,
    Explanation,
    Memory,
    OwnedCost,
    Performance,
    Reliability,
    Risk,
)
from service.estimator.failures import FailureFacts, reliability_of
from service.estimator.flops import billed_mfu
from service.estimator.inputs import Budget
from service.estimator.plan import Plan
from service.estimator.results import (
    Assumption,
    Component,
    Cost,
    CostLine,
    Duration,
    Estimate,
    Note,
    UnitCosts,
    Verdict,
)
from service.estimator.run import finish_after, to_the_second
from service.estimator.timing import Hours, hours_of
from service.estimator.uncertainty import Outcome, Simulation, risk_of, simulate
from service.estimator.verdict import judge
from service.money import MAX_INTEGER_DIGITS, exact, exact_arithmetic, number, to_minor_unit, unit_price
from service.units import HOURS_PER_DAY, PERCENT

_T = TypeVar("_T")
_LIMIT = Decimal(10) ** MAX_INTEGER_DIGITS
_MILLION = 1_000_000
_ALWAYS_SHOWN = frozenset({"compute", "storage", "egress"})
_TERA = 1e12

# The decision that each line serves.
_DECISIONS: dict[Component, str] = {
    "compute": "reserved against on-demand or spot capacity",
    "overhead": "evaluation and ramp-up schedule",
    "rework": "checkpointing",
    "rework_checkpoints": "checkpointing",
    "rework_hardware": "checkpointing, spares and automated restarts",
    "rework_spot": "reserved against on-demand or spot capacity",
    "rework_spot_wait": "reserved against on-demand or spot capacity",
    "rework_spot_fallback": "reserved against on-demand or spot capacity",
    "rework_instability": "checkpointing, data and learning-rate schedule",
    "rework_people": "small-scale rehearsals before the run",
    "idle_setup": "scheduling: when capacity is provisioned",
    "idle_spares": "checkpointing, spares and automated restarts",
    "commitment_overflow": "reserved against on-demand or spot capacity",
    "commitment_unused": "reserved against on-demand or spot capacity",
    "storage": "budget allocation",
    "storage_checkpoints": "checkpointing",
    "storage_filesystem": "budget allocation",
    "egress": "scheduling: where the data and the run live",
    "discount": "budget allocation",
    "credits": "budget allocation",
    "tax": "budget allocation",
    "contingency": "budget allocation",
}


class EnergyFacts(Struct, frozen=True, kw_only=True):
    """What energy takes: a power limit, and what lies around it."""

    tdp_watts: float
    server_power_ratio: float
    load_percent: float
    pue: float
    grams_per_kwh: float | None


class OwnedFacts(Struct, frozen=True, kw_only=True):
    """The three figures of one GPU-hour, and which is billed."""

    per_gpu_hour: charges.OwnedFigures
    billed: charges.OwnedBasis


class Alternatives(Struct, frozen=True, kw_only=True):
    """Prices of a GPU-hour to compare; None where one is not known."""

    on_demand: Decimal | None
    spot: Decimal | None
    reserved: Decimal | None


class DetailedRun(Struct, frozen=True, kw_only=True):
    """All the facts of one run. `waiting_percent` is the share of a step in which nothing is computed, None where
    nobody can tell; `peak_flops_per_second` that of one GPU, None without FLOPs."""

    plan: Plan
    currency: str
    start_at: datetime.datetime | None
    budget: Budget | None
    trained_tokens: float | None
    scaling_is_explicit: bool
    waiting_percent: float | None
    performance: Performance | None
    billed_utilisation_given: bool
    memory: Memory | None
    failures: FailureFacts | None
    simulation: Simulation | None
    energy: EnergyFacts | None
    owned: OwnedFacts | None
    alternatives: Alternatives | None
    assumptions: tuple[Assumption, ...]
    notes: tuple[Note, ...]
    explain: Callable[["DetailedRun", Hours, Estimate], tuple[Explanation, ...]] | None


def estimate(run: DetailedRun) -> Estimate:
    """The estimate of one run; BrokenRule where the facts contradict each other."""
    with exact_arithmetic():
        hours = hours_of(run.plan)
        outcome = None if run.simulation is None else simulate(run.plan, run.simulation)
        answer = _estimate(run, hours, outcome)
        if run.explain is None:
            return answer
        return structs.replace(answer, explanations=run.explain(run, hours, answer))


def _estimate(run: DetailedRun, hours: Hours, outcome: Outcome | None) -> Estimate:
    plan, currency = run.plan, run.currency
    expected = hours.expected
    billed_gpu_hours = bill.billed_gpu_hours(plan, hours)
    confidence = UNSET if run.budget is None else run.budget.confidence_percent
    lines = _rounded(plan, hours, currency)
    lines += _terms(plan, currency, sum((line.amount for line in lines), Decimal(0)))
    before = sum((line.amount for line in lines), Decimal(0))
    if confidence is not UNSET and outcome is not None:
        lines.append(_contingency(confidence, outcome.cost_at(confidence), before, currency))
    money = _cost(run, hours, lines, before)
    finish_at = None if run.start_at is None else finish_after(run.start_at, expected)
    gpu_hours = plan.gpu_count * hours.without_rework
    return Estimate(
        money,
        Duration(
            number(hours.ideal.value),
            number(hours.without_rework),
            number(hours.without_rework / HOURS_PER_DAY),
            number(expected),
            number(expected / HOURS_PER_DAY),
            None if finish_at is None else to_the_second(finish_at, run.start_at),
            number(hours.overhead.value),
            number(hours.rework_hours),
            number(hours.setup.value),
        ),
        number(gpu_hours),
        number(billed_gpu_hours),
        UnitCosts(
            per_gpu_hour=unit_price(before / billed_gpu_hours, currency),
            per_ideal_gpu_hour=unit_price(before / (plan.gpu_count * hours.ideal.value), currency),
            per_million_tokens=None
            if run.trained_tokens is None
            else unit_price(before * _MILLION / exact(run.trained_tokens), currency),
        ),
        _verdict(run, money.total, finish_at, outcome),
        run.assumptions,
        run.notes,
        MODEL_VERSION,
        performance=_or_unset(_billed_performance(run, billed_gpu_hours)),
        memory=_or_unset(run.memory),
        reliability=_or_unset(_reliability(run, hours)),
        risk=_or_unset(_risk(run, outcome)),
        commitment=_or_unset(_commitment(run, hours)),
        owned=_or_unset(_owned(run, billed_gpu_hours)),
        energy=_or_unset(_energy(run, billed_gpu_hours)),
        break_evens=_or_unset(_break_evens(run, hours)),
    )


# ------------------------------------------------------------------------------------------- money


def _rounded(plan: Plan, hours: Hours, currency: str) -> list[CostLine]:
    """Each line rounded half-up from what was multiplied before it was divided; lines of nothing are left out."""
    return [
        _line(item, currency)
        for item in bill.items(plan, hours)
        if item.quantity or item.amount or item.component in _ALWAYS_SHOWN
    ]


def _line(item: bill.Item, currency: str) -> CostLine:
    return CostLine(
        item.component,
        item.description,
        number(item.quantity),
        item.unit,
        unit_price(item.unit_price, currency),
        to_minor_unit(item.amount, currency),
        _DECISIONS[item.component],
    )


def _terms(plan: Plan, currency: str, listed: Decimal) -> list[CostLine]:
    """Discount, credits and tax, each where there is one; the tax is on the rounded rest."""
    if listed >= _LIMIT:
        told = f"GPUs, hours and price together cost more than {MAX_INTEGER_DIGITS} integer digits hold"
        raise BrokenRule(told + ".", tuple(Fault("body", field, told) for field in ("/cluster", "/work", "/price")))
    part = bill.terms(plan, listed)
    discount = to_minor_unit(part.discount, currency)
    spent = to_minor_unit(min(part.credits, listed - discount), currency)
    tax = to_minor_unit((listed - discount - spent) * plan.tax_percent / PERCENT, currency)
    named: tuple[tuple[Component, str, Decimal], ...] = (
        ("discount", "Discount off the list price", -discount),
        ("credits", "Credits spent", -spent),
        ("tax", "Tax on what is due", tax),
    )
    return [_sum_line(component, text, amount) for component, text, amount in named if amount]


def _contingency(confidence_percent: float, quantile: Decimal, expected: Decimal, currency: str) -> CostLine:
    """What the quantile needs beyond the expected cost; nothing where it needs less."""
    amount = max(to_minor_unit(quantile, currency) - expected, expected * 0)
    return _sum_line("contingency", f"Contingency up to P{confidence_percent:g} of the cost", amount)


def _sum_line(component: Component, text: str, amount: Decimal) -> CostLine:
    return CostLine(component, text, 1.0, "run", amount, amount, _DECISIONS[component])


def _cost(run: DetailedRun, hours: Hours, lines: list[CostLine], before: Decimal) -> Cost:
    none = to_minor_unit(Decimal(0), run.currency)

    def of(*prefixes: str) -> Decimal:
        return sum((line.amount for line in lines if line.component.startswith(prefixes)), none)

    total = sum((line.amount for line in lines), none)
    storage, egress = of("storage"), of("egress")
    adjusted = of("discount", "credits", "tax", "contingency")
    has_terms = any(line.component in {"discount", "credits", "tax", "contingency"} for line in lines)
    has_contingency = any(line.component == "contingency" for line in lines)
    return Cost(
        run.currency,
        total,
        of("compute", "commitment_overflow"),
        of("rework"),
        of("idle", "commitment_unused"),
        storage,
        egress,
        _scaling_loss(run, hours),
        number((storage + egress) * PERCENT / total) if total else None,
        tuple(lines),
        overhead=of("overhead"),
        list_total=total - adjusted if has_terms else UNSET,
        net_total=before - of("tax") if has_terms else UNSET,
        expected_total=before if has_contingency else UNSET,
    )


def _scaling_loss(run: DetailedRun, hours: Hours) -> Decimal | None:
    """What perfect scaling would not have cost: by the efficiency that was given or fitted, else by the step model."""
    plan = run.plan
    rate = bill.run_rate(plan)
    if run.scaling_is_explicit:
        loss = cost.scaling_loss(
            plan.gpu_count, plan.hours, rate.numerator, plan.efficiency_percent, plan.hours_divisor * rate.divisor
        )
    elif run.waiting_percent is not None:
        compute = hours.productive.numerator * plan.gpu_count * rate.numerator
        loss = compute * exact(run.waiting_percent) / (hours.productive.divisor * rate.divisor * PERCENT)
    else:
        return None
    return to_minor_unit(loss, run.currency)


# ------------------------------------------------------------------------------------------- sections


def _verdict(
    run: DetailedRun, total: Decimal, finish_at: datetime.datetime | None, outcome: Outcome | None
) -> Verdict | None:
    """On the expected figures, or on the quantile that the budget asks for."""
    budget = run.budget
    if budget is None:
        return None
    if budget.confidence_percent is UNSET or outcome is None:
        return judge(budget, run.currency, run.start_at, total, finish_at)
    if run.start_at is not None:
        finish_at = finish_after(run.start_at, exact(outcome.hours_at(budget.confidence_percent)))
    return judge(budget, run.currency, run.start_at, total, finish_at, "quantile")


def _billed_performance(run: DetailedRun, billed_gpu_hours: Decimal) -> Performance | None:
    """With the utilisation of the whole bill, which is known only now."""
    found = run.performance
    if found is None or found.model_flops is None or found.peak_tflops_per_gpu is None:
        return found
    if run.billed_utilisation_given:
        return found
    peak = found.peak_tflops_per_gpu * _TERA
    share = float(billed_mfu(found.model_flops, float(billed_gpu_hours), peak))
    return structs.replace(found, billed_mfu_percent=number(exact(PERCENT * share)))


def _reliability(run: DetailedRun, hours: Hours) -> Reliability | None:
    if run.failures is None or run.plan.failures is None:
        return None
    return reliability_of(run.plan.failures, run.failures, hours)


def _risk(run: DetailedRun, outcome: Outcome | None) -> Risk | None:
    if outcome is None or run.simulation is None:
        return None
    return risk_of(outcome, run.simulation, run.currency, run.start_at, run.budget)


def _commitment(run: DetailedRun, hours: Hours) -> CommitmentUse | None:
    held, currency = run.plan.commitment, run.currency
    if held is None:
        return None
    used, over = bill.used_and_over(run.plan, held, hours)
    term = charges.term_gpu_hours(held.gpu_count, held.term_hours)
    whole = charges.term_cost(held.gpu_count, held.term_hours, held.rate, held.upfront)
    unused = charges.unused_gpu_hours(term, used)
    if over and held.overflow_rate is None:
        told = (
            f"{number(over):,.0f} GPU-hours lie beyond the commitment of {held.gpu_count:f} GPUs for "
            f"{held.left_hours:f} h: give their price"
        )
        raise BrokenRule.at("/price/overflow_amount", told)
    rate = whole / term
    return CommitmentUse(
        term_gpu_hours=number(term),
        term_cost=to_minor_unit(whole, currency),
        used_gpu_hours=number(used),
        used_cost=to_minor_unit(charges.used_cost(whole, used, term), currency),
        unused_gpu_hours=number(unused),
        unused_cost=to_minor_unit(charges.used_cost(whole, unused, term), currency),
        overflow_gpu_hours=number(over),
        overflow_cost=None if held.overflow_rate is None else to_minor_unit(over * held.overflow_rate, currency),
        run_ends_within_term=hours.expected <= held.left_hours,
        break_even_utilisation_percent=number(charges.break_even_utilisation_percent(rate, held.overflow_rate))
        if held.overflow_rate
        else None,
    )


def _owned(run: DetailedRun, gpu_hours: Decimal) -> OwnedCost | None:
    if run.owned is None:
        return None
    one = run.owned.per_gpu_hour
    return OwnedCost(
        cash_increment=to_minor_unit(one.cash_increment * gpu_hours, run.currency),
        book=to_minor_unit(one.book * gpu_hours, run.currency),
        fully_loaded=to_minor_unit(one.fully_loaded * gpu_hours, run.currency),
        billed=run.owned.billed,
    )


def _energy(run: DetailedRun, gpu_hours: Decimal) -> EnergyUse | None:
    facts = run.energy
    if facts is None:
        return None
    kwh = charges.energy_kwh(float(gpu_hours), facts.tdp_watts, facts.server_power_ratio, facts.load_percent, facts.pue)
    return EnergyUse(
        energy_kwh=number(exact(kwh)),
        emissions_tonnes=None
        if facts.grams_per_kwh is None
        else number(exact(charges.emissions_tonnes(kwh, facts.grams_per_kwh))),
        tdp_watts=facts.tdp_watts,
        server_power_ratio=facts.server_power_ratio,
        load_percent=facts.load_percent,
        pue=facts.pue,
    )


def _break_evens(run: DetailedRun, hours: Hours) -> tuple[BreakEven, ...] | None:
    prices = run.alternatives
    if prices is None or not prices.on_demand:
        return None
    found = []
    if prices.spot is not None and run.plan.failures is not None and run.plan.failures.on_spot:
        found.append(_spot_break_even(run.plan, hours, prices.on_demand, prices.spot))
    if prices.reserved is not None:
        threshold = charges.break_even_utilisation_percent(prices.reserved, prices.on_demand)
        found.append(BreakEven("reserved_against_on_demand", number(threshold), None, None))
    return tuple(found)


def _spot_break_even(plan: Plan, hours: Hours, on_demand: Decimal, spot: Decimal) -> BreakEven:
    """The discount that pays for the longer run: the same plan without interruptions, against it."""
    assert plan.failures is not None
    steady = structs.replace(
        plan, failures=structs.replace(plan.failures, spot_per_hour=0.0, on_spot=False), fallback_rate=None
    )
    threshold = charges.break_even_discount_percent(hours.expected, hours_of(steady).expected)
    actual = (on_demand - spot) * PERCENT / on_demand
    return BreakEven("spot_against_on_demand", number(threshold), number(actual), bool(actual > threshold))


def _or_unset(value: _T | None) -> _T | UnsetType:
    return UNSET if value is None else value
