"""The formulas of every cost line: its quantity, the price of its unit, and its amount."""

from collections import Counter
from decimal import Decimal

from service.estimator import bill
from service.estimator.charges import HOURS_PER_MONTH
from service.estimator.cost import Number
from service.estimator.evidence import Crossing, Evidence, PaidRate
from service.estimator.formula import SIX_DIGITS, Page, to_minor_units
from service.estimator.plan import Plan
from service.estimator.results import CostLine, Estimate
from service.estimator.timing import Hours
from service.units import PERCENT

_COMPUTE = "classic calculator: ComputeCost = TotalGpuHours x GpuCostPerHour"
_TOTAL = "classic calculator: TotalGpuHours = NumberOfGpus x WallClockHours"
_REWORK = "classic calculator: ReworkCost = ComputeCost x ReworkPct / 100"
_GPU_TIME = "accelerators times hours"
_LINE = "quantity times unit price"
_MONTH = "a month of 730 hours (8,760 / 12), as object stores bill it"
_TERMS = frozenset({"discount", "credits", "tax", "contingency"})
_Formula = tuple[str, str]  # and its source


def line_pages(evidence: Evidence, plan: Plan, hours: Hours, answer: Estimate) -> tuple[Page, ...]:
    """A page for each line that is a quantity at a price."""
    unrounded = list(bill.items(plan, hours))
    pages, lines, known = [], answer.cost.lines, 0
    for at, line in zip(line_names(lines), lines, strict=True):
        if line.component in _TERMS:
            continue
        while unrounded[known].component != line.component or _is_left_out(unrounded[known], line):
            known += 1
        item, known = unrounded[known], known + 1
        if item.unit != "run":
            pages.append(_line_page(evidence, plan, hours, item, at, answer.cost.currency))
    return tuple(pages)


def line_names(lines: tuple[CostLine, ...]) -> list[str]:
    """Where each line stands: by its component, or by its index where another has the same."""
    seen = Counter(line.component for line in lines)
    return [f"cost.lines[{line.component if seen[line.component] == 1 else index}]" for index, line in enumerate(lines)]


def _is_left_out(item: bill.Item, line: CostLine) -> bool:
    """A line of nothing, which the answer does not have."""
    return not item.quantity and not item.amount and bool(line.quantity)


def _line_page(evidence: Evidence, plan: Plan, hours: Hours, item: bill.Item, at: str, currency: str) -> Page:
    page = Page()
    quantity = _quantity(page, evidence, plan, hours, item)
    rounding = to_minor_units(currency)
    if quantity is not None:
        formula, source = quantity
        page.write(f"{at}.quantity", f"{item.description}: quantity", formula, item.quantity, item.unit, source)
    page.let("q", item.quantity, item.unit, "quantity")
    price = _unit_price(page, evidence, plan, item)
    if price != "price":
        name, source = f"{item.description}: unit price", _price_source(evidence, plan)
        page.write(f"{at}.unit_price", name, price, item.unit_price, f"{currency}/{item.unit}", source, SIX_DIGITS)
    name = f"{item.description}: amount"
    if item.component == "rework" and plan.failures is None:
        page.let("n", plan.gpu_count, "GPU", "accelerators")
        page.let("W", hours.without_rework, "h", "wall clock without rework")
        page.let("r", plan.buffer_percent, "%", "rework, of the wall clock")
        formula = f"(n * W * {_factor(price)}) * r / {PERCENT}"
        page.write(f"{at}.amount", name, formula, item.amount, currency, _REWORK, rounding)
        return page
    source = _COMPUTE if item.component == "compute" else _LINE
    page.write(f"{at}.amount", name, f"q * {_factor(price)}", item.amount, currency, source, rounding)
    return page


def _factor(price: str) -> str:
    return f"({price})" if " " in price else price


def mean_rate(page: Page, paid: tuple[PaidRate, ...]) -> tuple[str, Number]:
    """The mean of the rates of a run, each for its time: the formula and its result."""
    for place, piece in enumerate(paid, 1):
        page.let(f"p{place}", piece.rate, "", f"price of a GPU-hour in piece {place} of the run")
        page.let(f"t{place}", piece.seconds, "s", f"length of piece {place}")
    places = range(1, len(paid) + 1)
    weighted = sum(piece.rate * piece.seconds for piece in paid)
    formula = f"({' + '.join(f'p{place} * t{place}' for place in places)}) / ({' + '.join(f't{n}' for n in places)})"
    return formula, weighted / sum(piece.seconds for piece in paid)


def _unit_price(page: Page, evidence: Evidence, plan: Plan, item: bill.Item) -> str:
    """How the price of the unit follows from what was given."""
    page.let("price", item.unit_price, "", f"price of one {item.unit}")
    held = plan.commitment
    if held is not None:
        page.let("G", held.gpu_count, "GPU", "committed accelerators")
        page.let("Tc", held.term_hours, "h", "length of the term")
        page.let("c", held.rate, "", "committed price of a GPU-hour")
        page.let("up", held.upfront, "", "paid at once")
        page.let("over", held.overflow_rate or 0, "", "price of a GPU-hour beyond the commitment")
    if item.unit != "GPU-hour":
        return "price"
    if item.component == "rework_spot_fallback":
        page.let("spot", plan.rate.value, "", "spot price of a GPU-hour")
        page.let("od", item.unit_price + plan.rate.value, "", "on-demand price of a GPU-hour")
        return "od - spot"
    if held is not None:
        committed = "c + up / (G * Tc)" if held.upfront else "c"
        return f"over - ({committed})" if item.component == "commitment_overflow" else committed
    if evidence.paid:
        return mean_rate(page, evidence.paid)[0]
    if plan.rate.divisor == 1:
        return "price"
    page.let("node", plan.rate.numerator, "", "price of a node")
    page.let("g", plan.rate.divisor, "GPU", "accelerators of a node")
    return "node / g"


def _price_source(evidence: Evidence, plan: Plan) -> str:
    if evidence.paid:
        return "each rate for its time; or what on-demand costs more than spot"
    if plan.commitment is not None:
        return "committed price, with what is paid at once spread over the term"
    return "price of a node over its accelerators; or what on-demand costs more than spot"


def _quantity(page: Page, evidence: Evidence, plan: Plan, hours: Hours, item: bill.Item) -> _Formula | None:
    for symbol, value, unit, meaning in (
        ("n", plan.gpu_count, "GPU", "accelerators"),
        ("s", plan.spare_gpus, "GPU", "accelerators that stand by"),
        ("S", plan.setup_hours, "h", "from provisioning to the first step"),
        ("P", hours.productive.value, "h", "productive hours"),
        ("O", hours.overhead.value, "h", "evaluation, ramp-up and hangs"),
        ("T", hours.expected, "h", "expected wall clock"),
        ("W", hours.without_rework, "h", "wall clock without rework"),
        ("r", plan.buffer_percent, "%", "rework, of the wall clock"),
    ):
        page.let(symbol, value, unit, meaning)
    if item.component.startswith("storage"):
        return _stored(page, plan, hours, item)
    if item.component.startswith("commitment"):
        return _of_commitment(page, plan, item)
    if item.component == "egress":
        return None if evidence.crossing is None else _tier(page, evidence.crossing, item)
    lost = {component: part.value for component, part in hours.rework}
    page.let("R", lost.get(item.component, 0), "h", "hours lost to it")
    if item.component == "rework_spot_wait":
        return _waiting(page, plan)
    if item.component == "rework_spot_fallback":
        return _fallback(page, plan, hours)
    formula = {
        "compute": "n * P",
        "overhead": "n * O",
        "idle_setup": "(n + s) * S",
        "idle_spares": "s * (T - S)",
        "rework": f"n * W * r / {PERCENT}",
    }.get(item.component, "n * R")
    return formula, _TOTAL if item.component == "compute" else _GPU_TIME


def _waiting(page: Page, plan: Plan) -> _Formula:
    assert plan.failures is not None  # there is a wait only with failures
    page.let("k", plan.failures.node_count, "node", "nodes")
    formula = "n * R * (k - 1) / k" if plan.failures.survivors_billed else "0 * R"
    return formula, "all nodes but the lost one are billed meanwhile, if any are"


def _fallback(page: Page, plan: Plan, hours: Hours) -> _Formula:
    assert plan.failures is not None  # nothing falls back without failures
    page.let("I", hours.interruptions, "1", "spot interruptions")
    page.let("f", plan.failures.fallback_percent, "%", "interruptions that fall back to on-demand nodes")
    page.let("A", plan.failures.spot_away_hours, "h", "how long spot capacity is away")
    page.let("k", plan.failures.node_count, "node", "nodes")
    page.let("X", sum((part.value for _, part in hours.rework), hours.without_rework), "h", "all hours of the run")
    kept = "min(A, W) * (1 - min(A, W) / (2 * W))"
    formula = f"min(I * f / {PERCENT} * {kept} * n / k, n * X)"
    return formula, "each kept until capacity is back or the run is over"


def _tier(page: Page, crossing: Crossing, item: bill.Item) -> _Formula:
    """What of the month lies between two boundaries."""
    below = Decimal(0)
    for tier in crossing.tiers:
        if tier.price_per_gb == item.unit_price and _in_tier(crossing, below, tier.up_to_gb) == item.quantity:
            break
        below = below if tier.up_to_gb is None else tier.up_to_gb
    page.let("V", crossing.dataset_gb * crossing.passes + crossing.exported_gb, "GB", "what crosses the boundary")
    page.let("u", crossing.used_gb, "GB", "what the month had already used")
    page.let("lo", below, "GB", "where the tier begins")
    source = "one month's volume by absolute boundaries, after what it already held (as AWS's price list)"
    if tier.up_to_gb is None:
        return "u + V - max(lo, u)", source
    page.let("hi", tier.up_to_gb, "GB", "where it ends")
    return "min(u + V, hi) - max(lo, u)", source


def _in_tier(crossing: Crossing, below: Decimal, up_to: Decimal | None) -> Decimal:
    end = crossing.used_gb + crossing.dataset_gb * crossing.passes + crossing.exported_gb
    top = end if up_to is None else min(end, up_to)
    return Decimal(top - max(below, crossing.used_gb))


def _of_commitment(page: Page, plan: Plan, item: bill.Item) -> _Formula:
    held = plan.commitment
    assert held is not None  # the line says so
    page.let("G", held.gpu_count, "GPU", "committed accelerators")
    page.let("Tc", held.term_hours, "h", "length of the term")
    page.let("left", held.left_hours, "h", "what is left of it at the start")
    used = "min(n + s, G) * min(T, left)"
    if item.component == "commitment_overflow":
        return f"(n + s) * T - {used}", "over the committed count, or after its end"
    return f"G * Tc - {used}", "paid for and left idle, other runs apart"


def _stored(page: Page, plan: Plan, hours: Hours, item: bill.Item) -> _Formula:
    held = plan.kept_checkpoints
    if item.component == "storage_checkpoints" and held is not None:
        written = hours.expected // held.every_hours
        copies = max(min(written, Decimal(held.archived)), Decimal(1)) if held.archived else Decimal(1)
        page.let("z", held.size_gb, "GB", "size of a checkpoint")
        page.let("i", held.every_hours, "h", "between two")
        page.let("keep", held.keep, "1", "how many of the last stay")
        page.let("N", written, "1", "how many are written")
        page.let("K", max(written - held.keep, Decimal(0)), "1", "how many of them are replaced")
        page.let("c", copies, "1", "how many are kept for good")
        page.write(None, "Checkpoints written", "-ceil(-T / i)", written, "1", "whole intervals of the run")
        rolling = "K * keep * i + (N - K) * T - i * (N * (N + 1) - K * (K + 1)) / 2"
        archive = f" + z * T * (c - 1) / (2 * {HOURS_PER_MONTH})" if held.archived else ""
        source = f"each lives until as many more are written as are kept, or the run is over; {_MONTH}"
        return f"z * ({rolling}) / {HOURS_PER_MONTH}{archive}", source
    kept = next(part for part in plan.kept if part.component == item.component)
    page.let("z", kept.size_gb, "GB", "size")
    page.let("H", hours.expected if kept.hours is None else kept.hours, "h", "kept so long")
    return f"z * H / {HOURS_PER_MONTH}", _MONTH
