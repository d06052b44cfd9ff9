"""The formulas of how it is bought: commitments, owned hardware, energy, break-evens, and the verdict on a budget."""

import datetime
from decimal import Decimal

from service.estimator import bill
from service.estimator.answers import BreakEven, CommitmentUse, EnergyUse
from service.estimator.charges import GRAMS_PER_TONNE, HOURS_PER_YEAR, WATTS_PER_KILOWATT, straight_line_cost
from service.estimator.detailed import DetailedRun
from service.estimator.evidence import Bought
from service.estimator.formula import Page, to_minor_units
from service.estimator.inputs import Budget
from service.estimator.plan import Commitment, Plan
from service.estimator.purchases import Alternatives, EnergyFacts, spot_plan, without_spot
from service.estimator.results import Estimate, Verdict
from service.estimator.timing import Hours, hours_of
from service.units import PERCENT

_EPOCH = "Epoch AI (Cottier et al. 2024, arXiv 2405.21015)"
_TERM = "the term is billed, used or not"
_YEAR = "a year of 8,766 hours"
_ONE = Decimal(1)
_MICROSECONDS_PER_HOUR = 3_600_000_000


def commitment_page(plan: Plan, held: Commitment, hours: Hours, told: CommitmentUse, currency: str) -> Page:
    """What of the term the run uses."""
    page, rounding = Page(), to_minor_units(currency)
    used, over = bill.used_and_over(plan, held, hours)
    whole = held.gpu_count * held.term_hours * held.rate + held.upfront
    term = held.gpu_count * held.term_hours
    for symbol, value, unit, meaning in (
        ("n", plan.gpu_count, "GPU", "accelerators"),
        ("s", plan.spare_gpus, "GPU", "accelerators that stand by"),
        ("T", hours.expected, "h", "expected wall clock"),
        ("G", held.gpu_count, "GPU", "committed accelerators"),
        ("Tc", held.term_hours, "h", "length of the term"),
        ("left", held.left_hours, "h", "what is left of it at the start"),
        ("c", held.rate, currency, "committed price of a GPU-hour"),
        ("up", held.upfront, currency, "paid at once"),
        ("o", held.overflow_rate or 0, currency, "price of a GPU-hour beyond the commitment"),
        ("U", used, "GPU-hour", "used of the term"),
        ("X", over, "GPU-hour", "beyond the commitment"),
    ):
        page.let(symbol, value, unit, meaning)
    cost = "(G * Tc * c + up)"
    for field, name, formula, result in (
        ("term_gpu_hours", "GPU-hours of the term", "G * Tc", told.term_gpu_hours),
        ("used_gpu_hours", "Used of them", "min(n + s, G) * min(T, left)", told.used_gpu_hours),
        ("unused_gpu_hours", "Not used", "G * Tc - min(n + s, G) * min(T, left)", told.unused_gpu_hours),
        (
            "overflow_gpu_hours",
            "Beyond the commitment",
            "(n + s) * T - min(n + s, G) * min(T, left)",
            told.overflow_gpu_hours,
        ),
    ):
        page.write(f"commitment.{field}", name, formula, result, "GPU-hour", _TERM)
    for field, name, formula, amount in (
        ("term_cost", "Cost of the term", cost, whole),
        ("used_cost", "Of what is used", f"{cost} * U / (G * Tc)", whole * used / term),
        ("unused_cost", "Of what is not", f"{cost} * (G * Tc - U) / (G * Tc)", whole * (term - used) / term),
    ):
        page.write(f"commitment.{field}", name, formula, amount, currency, _TERM, rounding)
    if held.overflow_rate is not None:
        at, amount = "commitment.overflow_cost", over * held.overflow_rate
        page.write(at, "Of what is beyond", "X * o", amount, currency, "quantity times unit price", rounding)
    if told.break_even_utilisation_percent is not None:
        field, result = "commitment.break_even_utilisation_percent", told.break_even_utilisation_percent
        name, source = "Use of the term from which on it is cheaper", "committed price over the price beyond it"
        page.write(field, name, f"{PERCENT} * {cost} / (G * Tc) / o", result, "%", source)
    return page


def owned_page(bought: Bought, gpu_hours: Decimal, currency: str) -> Page:
    """Cash, book and fully loaded, of the GPU-hours that are billed."""
    page, rounding, cluster = Page(), to_minor_units(currency), bought.cluster
    for symbol, value, unit, meaning in (
        ("Q", gpu_hours, "GPU-hour", "all GPU-hours that are billed"),
        ("k", bought.kwh_per_gpu_hour, "kWh", "energy of a GPU-hour"),
        ("p", bought.energy_price_per_kwh, currency, "price of a kWh"),
        ("X", cluster.capex, currency, "paid for the cluster"),
        ("G", cluster.gpu_count, "GPU", "accelerators that were bought"),
        ("Y", cluster.life_years, "year", "written off over"),
        ("i", cluster.capital_percent_per_year, "%", "cost of capital, a year"),
        ("co", cluster.colocation_per_year, currency, "colocation, a year"),
        ("su", cluster.support_per_year, currency, "support, a year"),
        ("st", cluster.staff_per_year, currency, "staff, a year"),
        ("u", cluster.utilisation_percent, "%", "hours of a year that do any work"),
    ):
        page.let(symbol, value, unit, meaning)
    energy = bought.kwh_per_gpu_hour * bought.energy_price_per_kwh
    depreciation = straight_line_cost(cluster.capex, _ONE, cluster.gpu_count, cluster.life_years)
    capital = cluster.capex * cluster.capital_percent_per_year / (2 * PERCENT)
    running = capital + cluster.colocation_per_year + cluster.support_per_year + cluster.staff_per_year
    standing = depreciation + running / (cluster.gpu_count * HOURS_PER_YEAR)
    written_off, source = f"X / (G * Y * {HOURS_PER_YEAR})", f"straight line (IAS 16.62), {_YEAR}"
    page.write(None, "Depreciation of a GPU-hour", written_off, depreciation, currency, source)
    a_year = f"X * i / (2 * {PERCENT})"
    page.write(None, "Capital a year", a_year, capital, currency, "on the mean book value, half of what was paid")
    page.let("dep", depreciation, currency, "depreciation of a GPU-hour")
    page.let("cap", capital, currency, "capital, a year")
    others = f"(cap + co + su + st) / (G * {HOURS_PER_YEAR})"
    for field, name, formula, one, source in (
        ("cash_increment", "What the run adds: energy", "Q * k * p", energy, "energy of its GPU-hours"),
        ("book", "And depreciation", "Q * (k * p + dep)", energy + depreciation, "straight line (IAS 16.62)"),
        (
            "fully_loaded",
            "And capital, colocation, support, staff and idle hours",
            f"Q * (k * p + (dep + {others}) * {PERCENT} / u)",
            energy + standing * PERCENT / cluster.utilisation_percent,
            "idle hours are borne by those that work",
        ),
    ):
        page.write(f"owned.{field}", name, formula, one * gpu_hours, currency, source, rounding)
    if bought.power is not None:
        _power(page, bought.power)
        at, formula = "assumptions[price.kwh_per_gpu_hour].value", f"P * m * l * e / ({WATTS_PER_KILOWATT} * {PERCENT})"
        page.write(at, "Energy of a GPU-hour", formula, bought.kwh_per_gpu_hour, "kWh", _EPOCH)
    return page


def energy_page(facts: EnergyFacts, told: EnergyUse, gpu_hours: Decimal) -> Page:
    """Energy at the meter, and its emissions."""
    page = Page()
    _power(page, facts)
    page.let("Q", gpu_hours, "GPU-hour", "all GPU-hours that are billed")
    page.let("E", told.energy_kwh, "kWh", "energy at the meter")
    page.let("c", facts.grams_per_kwh or 0.0, "g/kWh", "CO2e of the grid")
    formula = f"Q * P * m * l * e / ({WATTS_PER_KILOWATT} * {PERCENT})"
    page.write("energy.energy_kwh", "Energy at the meter", formula, told.energy_kwh, "kWh", _EPOCH)
    if told.emissions_tonnes is not None:
        source = "Luccioni et al. 2022, arXiv 2211.02001"
        formula = f"E * c / {GRAMS_PER_TONNE}"
        page.write("energy.emissions_tonnes", "Emissions", formula, told.emissions_tonnes, "t", source)
    return page


def _power(page: Page, facts: EnergyFacts) -> None:
    page.let("P", facts.tdp_watts, "W", "power limit of one accelerator")
    page.let("m", facts.server_power_ratio, "1", "power of the server over that of its accelerators")
    page.let("l", facts.load_percent, "%", "mean draw, of the power limit")
    page.let("e", facts.pue, "1", "power usage effectiveness of the building")


def break_evens_page(
    run: DetailedRun, prices: Alternatives, told: tuple[BreakEven, ...], hours: Hours, billed: Decimal
) -> Page:
    """One way to buy against another."""
    page = Page()
    page.let("od", prices.on_demand or 0, "", "on-demand price of a GPU-hour")
    page.let("spot", prices.spot or 0, "", "spot price of a GPU-hour")
    page.let("res", prices.reserved or 0, "", "reserved price of a GPU-hour")
    for found in told:
        at = f"break_evens[{found.option}]"
        if found.option == "reserved_against_on_demand":
            name, formula = "Use of the term from which on it is cheaper", f"{PERCENT} * res / od"
            page.write(f"{at}.threshold_percent", name, formula, found.threshold_percent, "%", "price over price")
            continue
        if found.actual_percent is not None:
            name, formula = "Discount of spot", f"{PERCENT} * (od - spot) / od"
            page.write(f"{at}.actual_percent", name, formula, found.actual_percent, "%", "price over price")
        spot = spot_plan(run.plan, run.failures)
        assert spot is not None  # a break-even was found
        if spot is not run.plan:
            hours = hours_of(spot)
            billed = bill.billed_gpu_hours(spot, hours)
        _spot(page, run, spot, hours, billed, found.threshold_percent)
    return page


def _spot(page: Page, run: DetailedRun, plan: Plan, hours: Hours, billed: Decimal, threshold_percent: float) -> None:
    """The GPU-hours on spot against those of the same run on demand; those that fall back cost the same in both."""
    assert run.failures is not None  # on spot there are some
    steady = without_spot(plan, run.failures)
    fallen = hours.fallback_gpu_hours if plan.fallback_rate is not None else Decimal(0)
    page.let("Q", billed, "GPU-hour", "all GPU-hours that are billed on spot")
    page.let("R", bill.billed_gpu_hours(steady, hours_of(steady)), "GPU-hour", "billed without interruptions")
    page.let("B", fallen, "GPU-hour", "on demand in place of spot")
    page.let("r", plan.rate.value + (plan.fallback_rate or 0), "", "what they cost")
    name, formula = "Discount from which on spot is cheaper", f"{PERCENT} * (1 - (R - B * r / od) / (Q - B))"
    source = "1 - 1 / (GPU-hours on spot / GPU-hours on demand), each with its own best interval"
    page.write("break_evens[spot_against_on_demand].threshold_percent", name, formula, threshold_percent, "%", source)


def verdict_page(
    verdict: Verdict, budget: Budget, start_at: datetime.datetime | None, hours: Hours, answer: Estimate
) -> Page:
    """What of the budget and of the time is used."""
    page, currency = Page(), answer.cost.currency
    if verdict.cost is not None:
        page.let("B", verdict.cost.amount, currency, "the budget")
        page.let("C", answer.cost.total, currency, "total")
        if verdict.cost.used_percent is not None:
            name, result = "Share of the budget", verdict.cost.used_percent
            page.write("verdict.cost.used_percent", name, f"{PERCENT} * C / B", result, "%", "by definition")
        page.write("verdict.cost.headroom", "What is left", "B - C", verdict.cost.headroom, currency, "by definition")
    if verdict.deadline is None or start_at is None or budget.deadline is None:
        return page
    allowed = (verdict.deadline.deadline - start_at).total_seconds() / 3600
    page.let("A", allowed, "h", "from start to deadline")
    if verdict.judged == "quantile":
        taken, meaning = allowed - verdict.deadline.headroom_hours, "hours of that quantile, simulated"
    else:
        taken = round(float(hours.expected) * _MICROSECONDS_PER_HOUR) / _MICROSECONDS_PER_HOUR
        meaning = "expected wall clock, to the microsecond"
    page.let("T", taken, "h", meaning)
    at, result = "verdict.deadline", verdict.deadline.used_percent
    page.write(f"{at}.used_percent", "Share of the time", f"{PERCENT} * T / A", result, "%", "by definition")
    page.write(f"{at}.headroom_hours", "What is left", "A - T", verdict.deadline.headroom_hours, "h", "by definition")
    return page
