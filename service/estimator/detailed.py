"""The facts of a run beyond the classic fields to an estimate: hours, rounded lines, and every section it deserves."""

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from service.errors import BrokenRule, Fault
from service.estimator import MODEL_VERSION, bill, cost
from service.estimator.answers import (
    Memory,
    Performance,
    Reliability,
    Risk,
)
from service.estimator.failures import FailureFacts, reliability_of
from service.estimator.flops import billed_mfu
from service.estimator.inputs import Budget
from service.estimator.plan import Plan
from service.estimator.purchases import (
    Alternatives,
    EnergyFacts,
    OwnedFacts,
    break_evens,
    commitment_use,
    comparison_notes,
    energy_use,
    owned_cost,
    purchase_notes,
)
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
from service.estimator.run import to_the_second
from service.estimator.timing import Hours, finish_at, hours_of
from service.estimator.uncertainty import LARGEST_AMOUNT, Outcome, Simulation, risk_notes, risk_of, simulate
from service.estimator.verdict import judge
from service.money import MAX_INTEGER_DIGITS, exact, exact_arithmetic, nothing, number, to_minor_unit, unit_price
from service.units import HOURS_PER_DAY, PERCENT

_T = TypeVar("_T")
_MILLION = 1_000_000
_ALWAYS_SHOWN = frozenset({"compute", "rework", "storage", "egress"})
_AT_GIVEN_EFFICIENCY = "GPU time at the given scaling efficiency"
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


def estimate(run: DetailedRun) -> Estimate:
    """The estimate of one run; BrokenRule where the facts contradict each other."""
    with exact_arithmetic():
        hours = hours_of(run.plan)
        outcome = None if run.simulation is None else simulate(run.plan, run.simulation)
        return _estimate(run, hours, outcome)


def split_by_rate(
    run: DetailedRun,
    changed: Callable[[Plan, datetime.datetime, datetime.datetime], tuple[Plan, _T] | None],
) -> tuple[DetailedRun, _T] | None:
    """The run at the rates that hold from its start to its expected end; None if those are one."""
    assert run.start_at is not None  # the caller asked
    with exact_arithmetic():
        found = changed(run.plan, run.start_at, finish_at(run.start_at, hours_of(run.plan).expected))
        return None if found is None else (structs.replace(run, plan=found[0]), found[1])


def _estimate(run: DetailedRun, hours: Hours, outcome: Outcome | None) -> Estimate:
    plan, currency = run.plan, run.currency
    expected = hours.expected
    billed_gpu_hours = bill.billed_gpu_hours(plan, hours)
    confidence = UNSET if run.budget is None else run.budget.confidence_percent
    lines = _rounded(run, hours)
    lines += _terms(plan, currency, sum((line.amount for line in lines), Decimal(0)))
    before = sum((line.amount for line in lines), Decimal(0))
    if outcome is not None:
        outcome = structs.replace(outcome, rounding=before - bill.billed_amount(plan, hours))
        if confidence is not UNSET:
            lines.append(_contingency(confidence, outcome.cost_at(confidence, currency), before, currency))
    _check_size((line.component, line.amount) for line in lines)
    money = _cost(run, hours, lines, before)
    finish = None if run.start_at is None else finish_at(run.start_at, expected)
    use = commitment_use(plan, hours, currency)
    risk = _risk(run, outcome)
    compared = break_evens(plan, run.failures, run.alternatives, hours)
    gpu_hours = hours.working.numerator * plan.gpu_count / hours.working.divisor
    return Estimate(
        money,
        Duration(
            number(hours.ideal.value),
            number(hours.without_rework),
            number(hours.without_rework / HOURS_PER_DAY),
            number(expected),
            number(expected / HOURS_PER_DAY),
            None if finish is None else to_the_second(finish, run.start_at),
            UNSET if run.performance is None else number(hours.overhead.value),
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
        _verdict(run, money.total, finish, outcome),
        run.assumptions,
        run.notes
        + purchase_notes(use, compared)
        + comparison_notes(plan, run.failures, run.alternatives, compared, currency)
        + (() if risk is None or outcome is None else risk_notes(outcome, risk)),
        MODEL_VERSION,
        performance=_or_unset(_billed_performance(run, billed_gpu_hours)),
        memory=_or_unset(run.memory),
        reliability=_or_unset(_reliability(run, hours)),
        risk=_or_unset(risk),
        commitment=_or_unset(use),
        owned=_or_unset(owned_cost(run.owned, billed_gpu_hours, currency)),
        energy=_or_unset(energy_use(run.energy, billed_gpu_hours)),
        break_evens=_or_unset(compared),
    )


# ------------------------------------------------------------------------------------------- money


def _rounded(run: DetailedRun, hours: Hours) -> list[CostLine]:
    """Each line rounded half-up from what was multiplied before it was divided; lines of nothing are left out."""
    items = list(bill.items(run.plan, hours))
    _check_size((item.component, item.amount) for item in items)
    return [_line(run, item) for item in items if item.quantity or item.amount or item.component in _ALWAYS_SHOWN]


def _line(run: DetailedRun, item: bill.Item) -> CostLine:
    currency = run.currency
    at_given_efficiency = item.component == "compute" and run.scaling_is_explicit
    return CostLine(
        item.component,
        _AT_GIVEN_EFFICIENCY if at_given_efficiency else item.description,
        number(item.quantity),
        item.unit,
        unit_price(item.unit_price, currency) + 0,  # what little is below zero is no -0
        to_minor_unit(item.amount, currency) + 0,
        _DECISIONS[item.component],
    )


def _terms(plan: Plan, currency: str, listed: Decimal) -> list[CostLine]:
    """Discount, credits and tax, each where there is one; the tax is on the rounded rest."""
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


def _check_size(amounts: Iterable[tuple[Component, Decimal]]) -> None:
    """BrokenRule where they are more than an amount of money holds, one or all together: at the largest."""
    by_component = list(amounts)
    sizes = [abs(amount) for _, amount in by_component]
    if max(sizes) < LARGEST_AMOUNT and sum(amount for _, amount in by_component) < LARGEST_AMOUNT:
        return
    largest = by_component[sizes.index(max(sizes))][0]
    what, sections = "GPUs, hours and price together cost", ["/cluster", "/work", "/price"]
    if largest.startswith(("storage", "egress")):
        section = largest.partition("_")[0]
        what, sections = f"{section.capitalize()} costs", [f"/{section}"]
    elif largest.startswith("rework"):
        sections.append("/rework")
    told = f"{what} more than {MAX_INTEGER_DIGITS} integer digits hold"
    raise BrokenRule(told + ".", tuple(Fault("body", section, told) for section in sections))


def _contingency(confidence_percent: float, quantile: Decimal, expected: Decimal, currency: str) -> CostLine:
    """What the quantile needs beyond the expected cost; nothing where it needs less."""
    amount = max(quantile - expected, nothing(currency))
    return _sum_line("contingency", f"Contingency up to P{confidence_percent:g} of the cost", amount)


def _sum_line(component: Component, text: str, amount: Decimal) -> CostLine:
    return CostLine(component, text, 1.0, "run", amount, amount, _DECISIONS[component])


def _cost(run: DetailedRun, hours: Hours, lines: list[CostLine], before: Decimal) -> Cost:
    none = to_minor_unit(Decimal(0), run.currency)

    def of(*prefixes: str) -> Decimal:
        return sum((line.amount for line in lines if line.component.startswith(prefixes)), none)

    total = sum((line.amount for line in lines), none)
    storage, egress = of("storage"), of("egress")
    listed = total - of("discount", "credits", "tax", "contingency")
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
        number((storage + egress) * PERCENT / listed) if listed else None,
        tuple(lines),
        overhead=UNSET if run.performance is None else of("overhead"),
        list_total=listed if has_terms else UNSET,
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
    run: DetailedRun, total: Decimal, finish: datetime.datetime | None, outcome: Outcome | None
) -> Verdict | None:
    """On the expected figures, or on the quantile that the budget asks for."""
    budget = run.budget
    if budget is None:
        return None
    if budget.confidence_percent is UNSET or outcome is None:
        return judge(budget, run.currency, run.start_at, total, finish)
    if run.start_at is not None:
        finish = finish_at(run.start_at, outcome.hours_at(budget.confidence_percent))
    return judge(budget, run.currency, run.start_at, total, finish, "quantile")


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


def _or_unset(value: _T | None) -> _T | UnsetType:
    return UNSET if value is None else value
