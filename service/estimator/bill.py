"""The lines of a bill before they are rounded: GPU time by component, a commitment's, storage; list, net and gross."""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
from msgspec import Struct

from service.estimator import charges
from service.estimator.cost import Number
from service.estimator.plan import Commitment, Plan, Ratio
from service.estimator.results import Component
from service.estimator.timing import Hours
from service.units import PERCENT


class Item(Struct, frozen=True, kw_only=True):
    """A line of the bill before it is rounded: a quantity at a price, or an amount by itself."""

    component: Component
    description: str
    quantity: Number
    unit: str
    unit_price: Number
    amount: Number


class Terms(Struct, frozen=True):
    """List to net to gross, unrounded."""

    discount: Number
    credits: Number
    tax: Number


_GPU_TIME: dict[Component, str] = {
    "compute": "GPU time of productive steps",
    "overhead": "Evaluation, ramp-up and hangs",
    "rework": "GPU time paid again after failures",
    "rework_checkpoints": "Writing checkpoints",
    "rework_hardware": "Work lost to hardware and software failures, and restarts",
    "rework_spot": "Work lost to spot interruptions, and restarts",
    "rework_spot_wait": "Survivors billed while the run waits for spot capacity",
    "rework_instability": "Work done again after loss spikes and roll-backs",
    "rework_people": "Work lost to bad settings and tuning crashes",
    "idle_setup": "From provisioning to the first step",
    "idle_spares": "Spare nodes that stand by",
}


def gpu_time(plan: Plan, hours: Hours) -> Iterator[tuple[Component, Ratio]]:
    """GPU-hours by component. Waiting for one lost node, whichever it is, only the others are billed."""
    count = plan.gpu_count
    yield "compute", Ratio(hours.productive.numerator * count, hours.productive.divisor)
    yield "overhead", Ratio(hours.overhead.numerator * count, hours.overhead.divisor)
    for component, part in hours.rework:
        if component == "rework_spot_wait":
            assert plan.failures is not None
            nodes = plan.failures.node_count
            survivors = nodes - 1 if plan.failures.survivors_billed else 0
            yield component, Ratio(part.numerator * count * survivors, part.divisor * nodes)
        else:
            yield component, Ratio(part.numerator * count, part.divisor)
    yield "idle_setup", Ratio(hours.setup.numerator * (count + plan.spare_gpus), hours.setup.divisor)
    yield "idle_spares", Ratio((hours.expected - hours.setup.value) * plan.spare_gpus)


def run_rate(plan: Plan) -> Ratio:
    """The price of a GPU-hour; of a commitment with its upfront payment spread over the term."""
    held = plan.commitment
    if held is None:
        return plan.rate
    term = charges.term_gpu_hours(held.gpu_count, held.term_hours)
    return Ratio(charges.term_cost(held.gpu_count, held.term_hours, held.rate, held.upfront), term)


def items(plan: Plan, hours: Hours) -> Iterator[Item]:
    """Every line at list price: GPU time, what a commitment adds, storage, and what was fixed."""
    rate = run_rate(plan)
    price = rate.value
    for component, part in gpu_time(plan, hours):
        yield Item(
            component=component,
            description=_GPU_TIME[component],
            quantity=part.value,
            unit="GPU-hour",
            unit_price=price,
            amount=part.times(rate),
        )
    if plan.fallback_rate is not None:
        yield _fallback(plan.fallback_rate, hours.fallback_gpu_hours)
    if plan.commitment is not None:
        yield from _commitment_items(plan, plan.commitment, hours)
    yield from _storage_items(plan, hours)
    for charge in plan.fixed:
        yield Item(
            component=charge.component,
            description=charge.description,
            quantity=charge.quantity,
            unit=charge.unit,
            unit_price=charge.unit_price,
            amount=charge.amount,
        )


def list_amount(plan: Plan, hours: Hours) -> Number:
    """The sum of all lines at list price."""
    return sum(item.amount for item in items(plan, hours))


def terms(plan: Plan, listed: Number) -> Terms:
    """Discount off the list price; credits up to what is then due; tax on what is left."""
    discount = listed * plan.discount_percent / PERCENT
    due = listed - discount
    spent = _least(plan.credits, due)
    return Terms(discount, spent, (due - spent) * plan.tax_percent / PERCENT)


def billed_amount(plan: Plan, hours: Hours) -> Number:
    """What is paid: list, less discount and credits, and tax."""
    listed = list_amount(plan, hours)
    part = terms(plan, listed)
    return listed - part.discount - part.credits + part.tax


def billed_gpu_hours(plan: Plan, hours: Hours) -> Number:
    """All GPU-hours that are paid for, idle ones included, before what a commitment leaves unused."""
    return sum(part.value for _, part in gpu_time(plan, hours))


def _fallback(extra_rate: Number, held: Number) -> Item:
    """On-demand nodes that stand in for spot ones, for what they cost more."""
    return Item(
        component="rework_spot_fallback",
        description="On-demand nodes in place of spot ones, over the spot price",
        quantity=held,
        unit="GPU-hour",
        unit_price=extra_rate,
        amount=held * extra_rate,
    )


def used_and_over(plan: Plan, held: Commitment, hours: Hours) -> tuple[Number, Number]:
    """GPU-hours of the run that the commitment covers, and those that it does not."""
    occupied = plan.gpu_count + plan.spare_gpus
    inputs = (occupied, held.gpu_count, hours.expected, held.left_hours)
    return charges.used_gpu_hours(*inputs), charges.overflow_gpu_hours(*inputs)


def _commitment_items(plan: Plan, held: Commitment, hours: Hours) -> Iterator[Item]:
    """GPU time is billed at the committed rate above; here what lies beyond costs more, and what is unused."""
    used, over = used_and_over(plan, held, hours)
    rate = run_rate(plan).value
    if held.overflow_rate is not None:
        extra = held.overflow_rate - rate
        yield Item(
            component="commitment_overflow",
            description="Premium over the committed rate, for GPU time beyond the commitment",
            quantity=over,
            unit="GPU-hour",
            unit_price=extra,
            amount=over * extra,
        )
    if held.whole_term:
        unused = charges.unused_gpu_hours(charges.term_gpu_hours(held.gpu_count, held.term_hours), used)
        yield Item(
            component="commitment_unused",
            description="Committed GPU time that this run does not use",
            quantity=unused,
            unit="GPU-hour",
            unit_price=rate,
            amount=unused * rate,
        )


def _storage_items(plan: Plan, hours: Hours) -> Iterator[Item]:
    expected = hours.expected
    for kept in plan.kept:
        months = charges.gb_months(kept.size_gb, expected if kept.hours is None else kept.hours)
        yield _by_month(kept.component, kept.description, months, kept.price_per_gb_month)
    held = plan.kept_checkpoints
    if held is not None:
        months = charges.checkpoint_gb_months(held.size_gb, held.every_hours, expected, held.keep)
        if held.archived:
            copies = _archived_copies(expected // held.every_hours, held.archived)
            months = months + charges.archive_gb_months(held.size_gb, expected, copies)
        yield _by_month("storage_checkpoints", "Checkpoints kept", months, held.price_per_gb_month)


def _archived_copies(written: Number, wanted: int) -> Number:
    """No more are kept for good than are written. One alone is written at the end and costs nothing, as none does."""
    if isinstance(written, Decimal):
        return max(min(written, Decimal(wanted)), Decimal(1))
    return np.maximum(np.minimum(written, wanted), 1)


def _by_month(component: Component, description: str, months: Number, price: Number) -> Item:
    return Item(
        component=component,
        description=description,
        quantity=months,
        unit="GB-month",
        unit_price=price,
        amount=months * price,
    )


def _least(one: Number, other: Number) -> Number:
    """The smaller of two, for arrays too."""
    if isinstance(one, Decimal | int | float) and isinstance(other, Decimal | int | float):
        return min(one, other)
    return np.minimum(one, other)
