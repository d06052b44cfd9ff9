"""The estimate as a user of FastAPI and pydantic would write it: the same request, formula, notes and answer.

Nothing here is slow on purpose. The handler is `async`, since a plain `def` would go through a thread pool;
the answer is returned as its model, which FastAPI writes with pydantic's own serializer. The look-ups in the
catalogue are the service's: no measured request uses them.
"""

import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from bench.fastapi_models import (
    Assumption,
    Budget,
    BufferRework,
    Cluster,
    Cost,
    CostLine,
    CostVerdict,
    DeadlineVerdict,
    Duration,
    Estimate,
    EstimateRequest,
    FixedAmount,
    FixedScaling,
    GpuHoursWork,
    HourlyPrice,
    InterconnectScaling,
    Note,
    UnitCosts,
    Verdict,
    VerdictStatus,
)
from service.catalog.gpus import get_rentable_gpu
from service.catalog.interconnects import get_interconnect
from service.catalog.schemas import Interconnect
from service.errors import BrokenRule
from service.estimator import MODEL_VERSION
from service.money import MINOR_DIGITS

CLASSIC = "classic calculator's default"
DEFAULT_WORK = GpuHoursWork(kind="gpu_hours", hours=120.0)
DEFAULT_REWORK = BufferRework(kind="buffer", rework_percent=15.0)
DEFAULT_PRICE = HourlyPrice(kind="hourly", amount=Decimal("2.50"))
DEFAULT_STORAGE = FixedAmount(kind="fixed", amount=Decimal(200))
DEFAULT_EGRESS = FixedAmount(kind="fixed", amount=Decimal(150))
DEFAULT_EFFICIENCY_PERCENT = 80.0
HUNDRED = Decimal(100)
FIFTEEN_DIGITS = Context(prec=15, rounding=ROUND_HALF_UP)

app = FastAPI()


@app.post("/v1/estimates")
async def create_estimate(request: EstimateRequest) -> Estimate:
    try:
        return estimate(request)
    except BrokenRule as error:
        raise HTTPException(422, error.detail) from error


def number(value: Decimal) -> float:
    """At most 15 significant digits, as the service answers."""
    return float(FIFTEEN_DIGITS.plus(value))


def estimate(request: EstimateRequest) -> Estimate:
    cluster = request.cluster or Cluster()
    work = request.work or DEFAULT_WORK
    rework = request.rework or DEFAULT_REWORK
    price = request.price or DEFAULT_PRICE
    storage = request.storage or DEFAULT_STORAGE
    egress = request.egress or DEFAULT_EGRESS
    currency = price.currency
    if currency not in MINOR_DIGITS:
        raise HTTPException(422, f"{currency} is no currency with a minor unit")

    link = get_interconnect(request.scaling.preset) if isinstance(request.scaling, InterconnectScaling) else None
    efficiency_percent = scaling_percent(request.scaling, link)
    assumptions = [
        *cluster_assumptions(request, cluster),
        assume("work", request.work, "hours", work.hours),
        assume("work", request.work, "basis", work.basis),
        *scaling_assumptions(request, efficiency_percent, link),
        assume("rework", request.rework, "rework_percent", rework.rework_percent),
        assume("price", request.price, "amount", str(written(price.amount, currency))),
        assume("price", request.price, "per", price.per),
        assume("price", request.price, "currency", currency),
        assume("storage", request.storage, "amount", str(written(storage.amount, currency))),
        assume("egress", request.egress, "amount", str(written(egress.amount, currency))),
    ]

    gpu_count = Decimal(cluster.gpu_count)
    hours = Decimal(str(work.hours))
    efficiency = Decimal(str(efficiency_percent))
    rework_percent = Decimal(str(rework.rework_percent))
    if price.per == "node":
        hourly = price.amount / cluster.gpus_per_node
        assumptions.append(
            Assumption(
                field="price.per_gpu_hour",
                value=str(unit_price(hourly, currency)),
                status="derived",
                source="price.amount / cluster.gpus_per_node",
            )
        )
    else:
        hourly = price.amount
    if work.basis == "total":
        ideal_hours = hours / gpu_count
        assumptions.append(
            Assumption(
                field="work.hours_per_gpu",
                value=number(ideal_hours),
                status="derived",
                source="work.hours / cluster.gpu_count",
            )
        )
    else:
        ideal_hours = hours

    # Multiplied before divided: an early quotient loses a cent now and then.
    ideal_gpu_hours = gpu_count * ideal_hours
    wall_clock = ideal_hours * HUNDRED / efficiency
    expected = ideal_hours * (HUNDRED + rework_percent) / efficiency
    gpu_hours = ideal_gpu_hours * HUNDRED / efficiency
    rework_gpu_hours = ideal_gpu_hours * rework_percent / efficiency
    expected_gpu_hours = gpu_hours + rework_gpu_hours

    compute_amount = money(ideal_gpu_hours * hourly * HUNDRED / efficiency, currency)
    rework_amount = money(ideal_gpu_hours * hourly * rework_percent / efficiency, currency)
    scaling_loss = money(ideal_gpu_hours * hourly * (HUNDRED - efficiency) / efficiency, currency)
    storage_amount = money(storage.amount, currency)
    egress_amount = money(egress.amount, currency)
    total = compute_amount + rework_amount + storage_amount + egress_amount
    per_gpu_hour = unit_price(hourly, currency)
    finish_at = finish(request.start_at, expected)
    return Estimate(
        cost=Cost(
            currency=currency,
            total=total,
            compute=compute_amount,
            rework=rework_amount,
            idle=money(Decimal(0), currency),
            storage=storage_amount,
            egress=egress_amount,
            scaling_loss=scaling_loss,
            non_gpu_percent=number((storage_amount + egress_amount) * HUNDRED / total) if total else None,
            lines=[
                CostLine(
                    component="compute",
                    description="GPU time at the given scaling efficiency",
                    quantity=number(gpu_hours),
                    unit="GPU-hour",
                    unit_price=per_gpu_hour,
                    amount=compute_amount,
                    decision="reserved against on-demand or spot capacity",
                ),
                CostLine(
                    component="rework",
                    description="GPU time paid again after failures",
                    quantity=number(rework_gpu_hours),
                    unit="GPU-hour",
                    unit_price=per_gpu_hour,
                    amount=rework_amount,
                    decision="checkpointing",
                ),
                CostLine(
                    component="storage",
                    description="Storage for the run",
                    quantity=1.0,
                    unit="run",
                    unit_price=written(storage.amount, currency),
                    amount=storage_amount,
                    decision="budget allocation",
                ),
                CostLine(
                    component="egress",
                    description="Data egress and transfer",
                    quantity=1.0,
                    unit="run",
                    unit_price=written(egress.amount, currency),
                    amount=egress_amount,
                    decision="scheduling: where the data and the run live",
                ),
            ],
        ),
        duration=Duration(
            ideal_hours=number(ideal_hours),
            wall_clock_hours=number(wall_clock),
            wall_clock_days=number(wall_clock / 24),
            expected_wall_clock_hours=number(expected),
            expected_wall_clock_days=number(expected / 24),
            finish_at=finish_at,
        ),
        gpu_hours=number(gpu_hours),
        expected_gpu_hours=number(expected_gpu_hours),
        unit_costs=UnitCosts(
            per_gpu_hour=unit_price(total / expected_gpu_hours, currency),
            per_ideal_gpu_hour=unit_price(total / ideal_gpu_hours, currency),
            per_million_tokens=None,
        ),
        verdict=judge(request.budget, request.start_at, total, finish_at, currency),
        assumptions=assumptions,
        notes=[
            *notes_on(cluster, work, price, efficiency, rework_percent, link),
            *unconverted(request, price.currency),
        ],
        model_version=MODEL_VERSION,
    )


def assume(name: str, section: BaseModel | None, field: str, value: Any) -> Assumption:
    given = section is not None and field in section.model_fields_set
    return Assumption(
        field=f"{name}.{field}",
        value=value,
        status="given" if given else "default",
        source="request" if given else CLASSIC,
    )


def cluster_assumptions(request: EstimateRequest, cluster: Cluster) -> list[Assumption]:
    assumptions = []
    if cluster.gpu is not None:
        gpu = get_rentable_gpu(cluster.gpu, cluster.allow_announced)
        assumptions.append(Assumption(field="cluster.gpu", value=gpu.id, status="catalogue", source=gpu.source))
    assumptions.append(assume("cluster", request.cluster, "gpu_count", cluster.gpu_count))
    assumptions.append(assume("cluster", request.cluster, "gpus_per_node", cluster.gpus_per_node))
    return assumptions


def scaling_percent(scaling: FixedScaling | InterconnectScaling | None, link: Interconnect | None) -> float:
    if isinstance(scaling, FixedScaling):
        return scaling.efficiency_percent
    if scaling is None or link is None:
        return DEFAULT_EFFICIENCY_PERCENT
    low, high = link.scaling_efficiency_low_percent, link.scaling_efficiency_high_percent
    return {"low": low, "typical": (low + high) / 2, "high": high}[scaling.level]


def scaling_assumptions(request: EstimateRequest, percent: float, link: Interconnect | None) -> list[Assumption]:
    if not isinstance(request.scaling, InterconnectScaling) or link is None:
        return [assume("scaling", request.scaling, "efficiency_percent", percent)]
    return [
        assume("scaling", request.scaling, "preset", link.id),
        Assumption(
            field="scaling.efficiency_percent",
            value=percent,
            status="catalogue",
            source=f"{request.scaling.level} of the band: {link.source}",
        ),
    ]


def money(amount: Decimal, currency: str) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(-MINOR_DIGITS[currency]), ROUND_HALF_UP)


def unit_price(amount: Decimal, currency: str) -> Decimal:
    return written(amount.quantize(Decimal("0.000001"), ROUND_HALF_UP), currency)


def written(amount: Decimal, currency: str) -> Decimal:
    stripped = amount.normalize()
    if -int(stripped.as_tuple().exponent) > MINOR_DIGITS[currency]:
        return stripped
    return money(stripped, currency)


def finish(start_at: datetime.datetime | None, expected_hours: Decimal) -> datetime.datetime | None:
    if start_at is None:
        return None
    seconds = (expected_hours * 3600).quantize(Decimal(1), ROUND_HALF_UP)
    finish_at = start_at.astimezone(datetime.UTC) + datetime.timedelta(seconds=int(seconds))
    return finish_at.replace(microsecond=0)


def judge(
    budget: Budget | None,
    start_at: datetime.datetime | None,
    total: Decimal,
    finish_at: datetime.datetime | None,
    currency: str,
) -> Verdict | None:
    if budget is None:
        return None
    by_cost: CostVerdict | None = None
    by_deadline: DeadlineVerdict | None = None
    reached: set[VerdictStatus] = set()
    if budget.amount is not None:
        near = total * HUNDRED >= budget.amount * Decimal(str(budget.warn_percent))
        by_cost = CostVerdict(
            status=status(total > budget.amount, near),
            amount=money(budget.amount, currency),
            used_percent=number(total * HUNDRED / budget.amount) if budget.amount else None,
            headroom=money(budget.amount, currency) - total,
        )
        reached.add(by_cost.status)
    if budget.deadline is not None:
        if start_at is None or finish_at is None or budget.deadline <= start_at:
            raise HTTPException(422, "A deadline needs a start_at before it")
        allowed = (budget.deadline - start_at).total_seconds()
        used_percent = (finish_at - start_at).total_seconds() * 100 / allowed
        by_deadline = DeadlineVerdict(
            status=status(finish_at > budget.deadline, used_percent >= budget.warn_percent),
            deadline=budget.deadline.astimezone(datetime.UTC),
            used_percent=used_percent,
            headroom_hours=(budget.deadline - finish_at).total_seconds() / 3600,
        )
        reached.add(by_deadline.status)
    if not reached:
        raise HTTPException(422, "A budget has an amount, a deadline, or both")
    worst: VerdictStatus = "exceeded" if "exceeded" in reached else "warn" if "warn" in reached else "ok"
    return Verdict(status=worst, judged="expected", cost=by_cost, deadline=by_deadline)


def status(exceeded: bool, near: bool) -> VerdictStatus:
    return "exceeded" if exceeded else "warn" if near else "ok"


def notes_on(
    cluster: Cluster,
    work: GpuHoursWork,
    price: HourlyPrice,
    efficiency: Decimal,
    rework_percent: Decimal,
    link: Interconnect | None,
) -> list[Note]:
    notes = []
    if work.basis == "per_gpu":
        notes.append(
            info(
                "basis_per_gpu",
                "The hours were read as hours on each GPU of this cluster, as the classic calculator does. If they "
                "are single-GPU hours of work to be divided among the GPUs, set basis to total.",
            )
        )
    else:
        notes.append(
            info("basis_total", "The hours were read as single-GPU hours in all and divided by the GPU count.")
        )
    if efficiency < 70:
        notes.append(
            warning(
                "scaling_efficiency_low",
                f"Scaling efficiency is {efficiency.normalize():f} %, below 70 %: much of the compute is paid for "
                "waiting. Fewer GPUs, a faster interconnect, gradient accumulation or a better parallel layout usually "
                "cost less.",
            )
        )
    if rework_percent == 0:
        notes.append(
            warning(
                "rework_zero",
                "No rework is planned: any failure, restart or rolled-back step then goes over this figure. Long "
                "runs on many GPUs do fail; 10 to 20 % is a usual buffer.",
            )
        )
    if link is not None:
        notes.extend(network_notes(link, cluster))
    if price.per == "node":
        notes.append(
            info(
                "price_per_node_divided",
                f"The price of {written(price.amount, price.currency)} {price.currency} an hour is a node's; it was "
                f"divided by {cluster.gpus_per_node} GPUs per node.",
            )
        )
        if cluster.gpu_count % cluster.gpus_per_node:
            notes.append(
                warning(
                    "partial_node",
                    f"{cluster.gpu_count} GPUs do not fill whole nodes of {cluster.gpus_per_node}: a provider that "
                    "rents nodes bills the empty places too, and this estimate does not.",
                )
            )
    return notes


def unconverted(request: EstimateRequest, currency: str) -> list[Note]:
    usual = {"storage": (request.storage, "200"), "egress": (request.egress, "150")}
    amounts = [f"{name} {amount}" for name, (section, amount) in usual.items() if section is None]
    if currency == "USD" or not amounts:
        return []
    told = f"The classic calculator's amounts ({', '.join(amounts)}) are USD; nobody gave others, and they were taken "
    return [warning("default_amounts_unconverted", told + f"as {currency}, unconverted. Give them in {currency}.")]


def network_notes(link: Interconnect, cluster: Cluster) -> list[Note]:
    notes = []
    several_nodes = cluster.gpu_count > cluster.gpus_per_node
    if several_nodes and link.gbps_per_node is not None and link.gbps_per_node <= 10:
        notes.append(
            warning(
                "ethernet_10g_multi_node",
                f"{link.name} between several nodes: gradients and activations of a large model do not fit through "
                "it, and the classic band is optimistic. Use at least 100 Gb/s a node, better 200 to 400 Gb/s a GPU.",
            )
        )
    if several_nodes and link.kind == "scale-up":
        notes.append(
            warning(
                "scale_up_preset_multi_node",
                f"{link.name} links GPUs inside a node, but {cluster.gpu_count} GPUs need more than one node: the "
                "network between the nodes decides. Choose a scale-out preset.",
            )
        )
    if link.scaling_efficiency_basis == "assumed":
        notes.append(
            info(
                "interconnect_band_assumed",
                f"The efficiency band of {link.name} is an assumption, not a published measurement. Measure your own "
                "job on two GPU counts before you rely on it.",
            )
        )
    return notes


def info(code: str, message: str) -> Note:
    return Note(code=code, severity="info", message=message)


def warning(code: str, message: str) -> Note:
    return Note(code=code, severity="warning", message=message)
