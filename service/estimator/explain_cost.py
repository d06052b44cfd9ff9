"""The formulas of what cost lines add up to, of discount, tax and contingency, and of what one unit costs."""

from collections import Counter
from decimal import Decimal

from msgspec import UNSET

from service.estimator import bill
from service.estimator.formula import SIX_DIGITS, Page, to_minor_units
from service.estimator.plan import Plan
from service.estimator.results import Estimate
from service.estimator.timing import Hours
from service.units import PERCENT

_GPU_TIME = "accelerators times hours"
_SUM = "the sum of the rounded lines"
_TERMS = frozenset({"discount", "credits", "tax", "contingency"})
_MILLION = 1_000_000


def sums_page(plan: Plan, hours: Hours, answer: Estimate, waiting_percent: float | None, *, explicit: bool) -> Page:
    """Totals as sums of lines, and what scaling loses."""
    page, cost, currency = Page(), answer.cost, answer.cost.currency
    symbols = []
    seen = Counter(line.component for line in cost.lines)
    for index, line in enumerate(cost.lines):
        symbol = line.component if seen[line.component] == 1 else f"{line.component}_{index}"
        page.let(symbol, line.amount, currency, line.description)
        symbols.append((symbol, line.component))

    def of(*prefixes: str) -> str:
        return " + ".join(symbol for symbol, component in symbols if component.startswith(prefixes)) or "0"

    other = " + ".join(symbol for symbol, component in symbols if component not in _TERMS)
    due = " + ".join(symbol for symbol, component in symbols if component not in {"tax", "contingency"})
    expected = " + ".join(symbol for symbol, component in symbols if component != "contingency")
    every = " + ".join(symbol for symbol, _ in symbols)
    for field, name, formula, amount in (
        ("total", "Total", every, cost.total),
        ("compute", "Compute", of("compute", "commitment_overflow"), cost.compute),
        ("rework", "Rework", of("rework"), cost.rework),
        ("idle", "Idle", of("idle", "commitment_unused"), cost.idle),
        ("storage", "Storage", of("storage"), cost.storage),
        ("egress", "Egress", of("egress"), cost.egress),
        ("overhead", "Overhead", of("overhead"), cost.overhead),
        ("list_total", "List price of everything", other, cost.list_total),
        ("net_total", "After discount and credits, before tax", due, cost.net_total),
        ("expected_total", "Total without contingency", expected, cost.expected_total),
    ):
        if amount is not UNSET:
            page.write(f"cost.{field}", name, formula, amount, currency, _SUM)
    listed = sum((line.amount for line in cost.lines if line.component not in _TERMS), Decimal(0))
    if cost.non_gpu_percent is not None and listed:
        page.let("listed", listed, currency, "list price of everything")
        fixed = f"{PERCENT} * (storage_ + egress_) / listed"
        page.let("storage_", cost.storage, currency, "storage")
        page.let("egress_", cost.egress, currency, "egress")
        page.write(
            "cost.non_gpu_percent", "Share that is not GPU time", fixed, cost.non_gpu_percent, "%", "by definition"
        )
    _scaling_loss(page, plan, hours, answer, waiting_percent if not explicit else None)
    return page


def _scaling_loss(page: Page, plan: Plan, hours: Hours, answer: Estimate, waiting_percent: float | None) -> None:
    cost, rate = answer.cost, bill.run_rate(plan)
    if cost.scaling_loss is None:
        return
    page.let("q", hours.productive.value * plan.gpu_count, "GPU-hour", "productive GPU-hours")
    page.let("price", rate.value, cost.currency, "price of a GPU-hour")
    page.let("e", plan.efficiency_percent, "%", "scaling efficiency")
    page.let("w", waiting_percent or 0.0, "%", "share of a step in which nothing is computed")
    share = f"({PERCENT} - e) / {PERCENT}" if waiting_percent is None else f"w / {PERCENT}"
    loss = hours.productive.value * plan.gpu_count * rate.value
    lost = PERCENT - plan.efficiency_percent if waiting_percent is None else Decimal(str(waiting_percent))
    page.write(
        "cost.scaling_loss",
        "The part of compute that pays for waiting",
        f"q * price * {share}",
        loss * lost / PERCENT,
        cost.currency,
        "what perfect scaling would not have cost",
        to_minor_units(cost.currency),
    )


def terms_page(plan: Plan, answer: Estimate) -> Page:
    """Discount, credits, tax and contingency: each on the rounded rest."""
    page, currency = Page(), answer.cost.currency
    amounts = {line.component: line.amount for line in answer.cost.lines if line.component in _TERMS}
    if not amounts:
        return page
    listed = sum((line.amount for line in answer.cost.lines if line.component not in _TERMS), Decimal(0))
    discount, credit = -amounts.get("discount", Decimal(0)), -amounts.get("credits", Decimal(0))
    for symbol, value, meaning in (
        ("listed", listed, "list price of everything"),
        ("d", discount, "discount"),
        ("c", credit, "credits spent"),
        ("held", plan.credits, "credits that there are"),
    ):
        page.let(symbol, value, currency, meaning)
    page.let("dp", plan.discount_percent, "%", "discount")
    page.let("tp", plan.tax_percent, "%", "tax")
    found = {
        "discount": (f"-listed * dp / {PERCENT}", -listed * plan.discount_percent / PERCENT, "off the list price"),
        "credits": ("-min(held, listed - d)", -min(plan.credits, listed - discount), "at most what is due"),
        "tax": (
            f"(listed - d - c) * tp / {PERCENT}",
            (listed - discount - credit) * plan.tax_percent / PERCENT,
            "on what is due after discount and credits",
        ),
    }
    for component, (formula, result, source) in found.items():
        if component in amounts:
            at, rounding = f"cost.lines[{component}].amount", to_minor_units(currency)
            page.write(at, component.capitalize(), formula, result, currency, source, rounding)
    contingency = amounts.get("contingency", Decimal(0))
    if contingency:
        page.let("Q", answer.cost.total, currency, "the quantile of the cost that the budget asks for, simulated")
        page.let("E", answer.cost.total - contingency, currency, "expected cost")
        source = "what the quantile needs beyond the expected cost; the quantile is that of the simulation"
        page.write("cost.lines[contingency].amount", "Contingency", "max(Q - E, 0)", contingency, currency, source)
    return page


def units_page(plan: Plan, hours: Hours, answer: Estimate) -> Page:
    """The total, contingency apart, over what was bought."""
    page, cost, units = Page(), answer.cost, answer.unit_costs
    before = cost.total if cost.expected_total is UNSET else cost.expected_total
    billed = bill.billed_gpu_hours(plan, hours)
    ideal = plan.gpu_count * hours.ideal.value
    currency = cost.currency
    page.let("C", before, currency, "total without contingency")
    page.let("Q", billed, "GPU-hour", "all GPU-hours that are billed")
    page.let("n", plan.gpu_count, "GPU", "accelerators")
    page.let("H", hours.ideal.value, "h", "ideal hours")
    at, by = "unit_costs", "total over quantity"
    rounding = SIX_DIGITS
    page.write(
        f"{at}.per_gpu_hour", "Of a billed GPU-hour", "C / Q", before / billed, f"{currency}/GPU-hour", by, rounding
    )
    page.write(
        f"{at}.per_ideal_gpu_hour",
        "Of an ideal GPU-hour",
        "C / (n * H)",
        before / ideal,
        f"{currency}/GPU-hour",
        by,
        rounding,
    )
    if units.per_million_tokens is not None and answer.performance is not UNSET:
        tokens = Decimal(str(answer.performance.trained_tokens))
        page.let("D", answer.performance.trained_tokens, "token", "trained tokens")
        result = before * _MILLION / tokens
        page.write(f"{at}.per_million_tokens", "Of a million tokens", "C * 1000000 / D", result, currency, by, rounding)
    return page


def billed_page(plan: Plan, hours: Hours, answer: Estimate) -> Page:
    """All GPU-hours, by line."""
    page, parts = Page(), []
    for component, part in bill.gpu_time(plan, hours):
        if part.numerator:
            page.let(component, part.value, "GPU-hour", component.replace("_", " "))
            parts.append(component)
    formula = " + ".join(parts) or "0"
    page.write(
        "expected_gpu_hours", "All GPU-hours that are billed", formula, answer.expected_gpu_hours, "GPU-hour", _GPU_TIME
    )
    return page
