"""Facts of a run to an estimate: the formula's parts, rounded once each, and what to say about them."""

import datetime
from decimal import ROUND_HALF_UP, Decimal

from service.errors import BrokenRule, Fault
from service.estimator import MODEL_VERSION, cost
from service.estimator.inputs import Run
from service.estimator.notes import notes_on
from service.estimator.results import Assumption, Cost, CostLine, Duration, Estimate, UnitCosts
from service.estimator.verdict import judge
from service.money import MAX_INTEGER_DIGITS, exact_arithmetic, nothing, number, to_minor_unit, unit_price
from service.units import HOURS_PER_DAY, PERCENT

_ONE = Decimal(1)
_MICROSECONDS_PER_HOUR = 3_600_000_000
_HALF_A_SECOND = 500_000
_LAST_SECOND = datetime.datetime.max.replace(microsecond=0, tzinfo=datetime.UTC)
_LIMIT = Decimal(10) ** MAX_INTEGER_DIGITS


def estimate(run: Run) -> Estimate:
    """The estimate of one run; BrokenRule where the facts contradict each other."""
    with exact_arithmetic():
        return _estimate(run)


def _estimate(run: Run) -> Estimate:
    gpu_count = Decimal(run.gpu_count)
    hours_divisor = gpu_count if run.basis == "total" else _ONE
    price_divisor = Decimal(run.gpus_per_node) if run.priced_per == "node" else _ONE
    efficiency, rework = run.efficiency_percent, run.rework_percent

    wall_clock = cost.wall_clock_hours(run.hours, efficiency, hours_divisor)
    expected = cost.expected_wall_clock_hours(run.hours, efficiency, rework, hours_divisor)
    gpu_hours = cost.gpu_hours(gpu_count, run.hours, efficiency, hours_divisor)
    rework_gpu_hours = cost.rework_gpu_hours(gpu_count, run.hours, efficiency, rework, hours_divisor)
    expected_gpu_hours = gpu_hours + rework_gpu_hours

    shown_gpu_hours = number(gpu_hours)
    bill = _bill(
        run, gpu_count, hours_divisor * price_divisor, price_divisor, shown_gpu_hours, number(rework_gpu_hours)
    )
    finish_at = None if run.start_at is None else finish_after(run.start_at, expected)
    ideal_hours = run.hours / hours_divisor
    return Estimate(  # in the order of its fields
        bill,
        Duration(
            number(ideal_hours),
            number(wall_clock),
            number(wall_clock / HOURS_PER_DAY),
            number(expected),
            number(expected / HOURS_PER_DAY),
            None if finish_at is None else to_the_second(finish_at, run.start_at),
        ),
        shown_gpu_hours,
        number(expected_gpu_hours),
        UnitCosts(
            per_gpu_hour=unit_price(bill.total / expected_gpu_hours, run.currency),
            per_ideal_gpu_hour=unit_price(bill.total / (gpu_count * ideal_hours), run.currency),
            per_million_tokens=None,
        ),
        None if run.budget is None else judge(run.budget, run.currency, run.start_at, bill.total, finish_at),
        run.assumptions + _derived(run, price_divisor),
        notes_on(run),
        MODEL_VERSION,
    )


def _bill(
    run: Run,
    gpu_count: Decimal,
    divisor: Decimal,
    price_divisor: Decimal,
    gpu_hours: float,
    rework_gpu_hours: float,
) -> Cost:
    """Each line rounded half-up from unrounded quantities; the total is the sum of the lines."""
    currency = run.currency
    efficiency = run.efficiency_percent
    compute = to_minor_unit(cost.compute_cost(gpu_count, run.hours, run.price, efficiency, divisor), currency)
    rework = to_minor_unit(
        cost.rework_cost(gpu_count, run.hours, run.price, efficiency, run.rework_percent, divisor), currency
    )
    loss = to_minor_unit(cost.scaling_loss(gpu_count, run.hours, run.price, efficiency, divisor), currency)
    storage = to_minor_unit(run.storage, currency)
    egress = to_minor_unit(run.egress, currency)
    total = compute + rework + storage + egress
    if total >= _LIMIT:
        told = f"GPUs, hours and price together cost more than {MAX_INTEGER_DIGITS} integer digits hold"
        fields = ("/cluster/gpu_count", "/work/hours", "/price/amount")
        raise BrokenRule(told + ".", tuple(Fault("body", field, told) for field in fields))
    per_gpu_hour = unit_price(run.price / price_divisor, currency)
    return Cost(  # in the order of its fields
        currency,
        total,
        compute,
        rework,
        nothing(currency),
        storage,
        egress,
        loss,
        number((storage + egress) * PERCENT / total) if total else None,
        (
            CostLine(
                "compute",
                "GPU time at the given scaling efficiency",
                gpu_hours,
                "GPU-hour",
                per_gpu_hour,
                compute,
                "reserved against on-demand or spot capacity",
            ),
            CostLine(
                "rework",
                "GPU time paid again after failures",
                rework_gpu_hours,
                "GPU-hour",
                per_gpu_hour,
                rework,
                "checkpointing",
            ),
            CostLine(
                "storage",
                "Storage for the run",
                1.0,
                "run",
                run.storage,
                storage,
                "budget allocation",
            ),
            CostLine(
                "egress",
                "Data egress and transfer",
                1.0,
                "run",
                run.egress,
                egress,
                "scheduling: where the data and the run live",
            ),
        ),
    )


def finish_after(start_at: datetime.datetime, expected_hours: Decimal) -> datetime.datetime:
    """Start plus expected wall clock, to the microsecond."""
    microseconds = (expected_hours * _MICROSECONDS_PER_HOUR).quantize(_ONE, ROUND_HALF_UP)
    try:
        return start_at + datetime.timedelta(microseconds=int(microseconds))
    except OverflowError:
        raise BrokenRule.at(
            "/start_at", "The run would end after the year 9999, which no calendar here can hold"
        ) from None


def to_the_second(finish_at: datetime.datetime, start_at: datetime.datetime | None) -> datetime.datetime:
    """The finish as it is shown: rounded half up, and never before the start. Verdicts use the unrounded one."""
    whole = finish_at.replace(microsecond=0)
    if finish_at.microsecond >= _HALF_A_SECOND and whole < _LAST_SECOND:
        whole += datetime.timedelta(seconds=1)
    return whole if start_at is None else max(whole, start_at)


def _derived(run: Run, price_divisor: Decimal) -> tuple[Assumption, ...]:
    if run.priced_per == "gpu" and run.basis == "per_gpu":
        return ()
    derived = []
    if run.priced_per == "node":
        per_gpu = unit_price(run.price / price_divisor, run.currency)
        derived.append(
            Assumption("price.per_gpu_hour", str(per_gpu), "derived", "price.amount / cluster.gpus_per_node")
        )
    if run.basis == "total":
        per_gpu_hours = number(run.hours / run.gpu_count)
        derived.append(Assumption("work.hours_per_gpu", per_gpu_hours, "derived", "work.hours / cluster.gpu_count"))
    return tuple(derived)
