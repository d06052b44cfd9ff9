"""What an estimate says: cost lines, hours, assumptions with their origin, coded notes, a verdict.

None of these can be part of a cycle, so the garbage collector need not look at them (`gc=False`).
"""

import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimator.answers import (
    BreakEven,
    CommitmentUse,
    EnergyUse,
    Explanation,
    Memory,
    OwnedCost,
    Performance,
    PricesUsed,
    Reliability,
    Risk,
)

Status = Literal["given", "default", "catalogue", "derived"]
Component = Literal[
    "compute",
    "overhead",
    "rework",
    "rework_checkpoints",
    "rework_hardware",
    "rework_spot",
    "rework_spot_wait",
    "rework_spot_fallback",
    "rework_instability",
    "rework_people",
    "idle_setup",
    "idle_spares",
    "commitment_overflow",
    "commitment_unused",
    "storage",
    "storage_checkpoints",
    "storage_filesystem",
    "egress",
    "discount",
    "credits",
    "tax",
    "contingency",
]
Judged = Literal["expected", "quantile"]
VerdictStatus = Literal["ok", "warn", "exceeded"]
Amount = Annotated[Decimal, Meta(description="An amount in `currency`, rounded to its minor unit.")]


class CostLine(Struct, frozen=True, gc=False):
    """One line of the bill, and the decision that it serves."""

    component: Component
    description: str
    quantity: float
    unit: str
    unit_price: Annotated[Decimal, Meta(description="With its own digits, at most six.")]
    amount: Amount
    decision: Annotated[str, Meta(description="The decision that this line serves.")]


class Cost(Struct, frozen=True, gc=False):
    """The cost in lines and totals; `total` is the sum of the rounded lines."""

    currency: str
    total: Amount
    compute: Amount
    rework: Amount
    idle: Amount
    storage: Amount
    egress: Amount
    scaling_loss: Annotated[
        Decimal | None,
        Meta(
            description="The part of `compute` that pays for waiting: none at 100 % efficiency, null where a given "
            "utilisation holds it and nobody can tell."
        ),
    ]
    non_gpu_percent: Annotated[
        float | None, Meta(description="The share of the list total that is not GPU time; null if that is 0.")
    ]
    lines: tuple[CostLine, ...]
    overhead: Annotated[
        Amount | UnsetType, Meta(description="Evaluation, ramp-up and hangs, where a step's throughput was priced.")
    ] = UNSET
    list_total: Annotated[
        Amount | UnsetType,
        Meta(description="Before discount, credits, tax and contingency, where one of them applies."),
    ] = UNSET
    net_total: Annotated[Amount | UnsetType, Meta(description="After discount and credits, before tax.")] = UNSET
    expected_total: Annotated[
        Amount | UnsetType, Meta(description="`total` without the contingency line, where there is one.")
    ] = UNSET


class Duration(Struct, frozen=True, gc=False):
    """How long the run takes: as if nothing failed, and with rework included."""

    ideal_hours: float
    wall_clock_hours: float
    wall_clock_days: float
    expected_wall_clock_hours: float
    expected_wall_clock_days: float
    finish_at: Annotated[
        Annotated[datetime.datetime, Meta(tz=True)] | None,
        Meta(description="`start_at` plus the expected wall clock, rounded to the second; null without `start_at`."),
    ]
    overhead_hours: Annotated[
        float | UnsetType, Meta(description="Part of the wall clock: evaluation, ramp-up and hangs.")
    ] = UNSET
    rework_hours: Annotated[float | UnsetType, Meta(description="Part of the expected wall clock.")] = UNSET
    setup_hours: Annotated[
        float | UnsetType, Meta(description="Part of the expected wall clock: from provisioning to the first step.")
    ] = UNSET


class UnitCosts(Struct, frozen=True, gc=False):
    """The total, spread over what was bought. Null where the quantity is not known."""

    per_gpu_hour: Annotated[Decimal, Meta(description="Total over billed GPU-hours, rework included.")]
    per_ideal_gpu_hour: Annotated[Decimal, Meta(description="Total over the hours that did productive work.")]
    per_million_tokens: Decimal | None


class Assumption(Struct, frozen=True, gc=False):
    """One input or intermediate figure, and where it came from."""

    field: str
    value: str | int | float | None
    status: Status
    source: str


class Note(Struct, frozen=True, gc=False):
    """Something worth knowing about this estimate; `code` is stable, `message` is not."""

    code: str
    severity: Literal["info", "warning"]
    message: str


class CostVerdict(Struct, frozen=True, gc=False):
    """The expected cost against the budget's amount."""

    status: VerdictStatus
    amount: Decimal
    used_percent: float | None
    headroom: Annotated[Decimal, Meta(description="What is left; negative when the budget is exceeded.")]


class DeadlineVerdict(Struct, frozen=True, gc=False):
    """The expected finish against the budget's deadline."""

    status: VerdictStatus
    deadline: Annotated[datetime.datetime, Meta(tz=True)]
    used_percent: float
    headroom_hours: Annotated[float, Meta(description="What is left; negative when the deadline is missed.")]


class Verdict(Struct, frozen=True, gc=False):
    """The worse of what was judged, and on which figure it was judged."""

    status: VerdictStatus
    judged: Annotated[
        Judged,
        Meta(description="Expected cost and finish, or the quantile that `budget.confidence_percent` asks for."),
    ]
    cost: CostVerdict | None
    deadline: DeadlineVerdict | None


class Estimate(Struct, frozen=True, gc=False):
    """What the run will cost and when it will end. An estimate is not a quote."""

    cost: Cost
    duration: Duration
    gpu_hours: Annotated[float, Meta(description="Accelerators times wall-clock hours, without rework.")]
    expected_gpu_hours: Annotated[float, Meta(description="Billed GPU-hours, rework included.")]
    unit_costs: UnitCosts
    verdict: Verdict | None
    assumptions: tuple[Assumption, ...]
    notes: tuple[Note, ...]
    model_version: str
    performance: Performance | UnsetType = UNSET
    memory: Memory | UnsetType = UNSET
    reliability: Reliability | UnsetType = UNSET
    risk: Risk | UnsetType = UNSET
    commitment: CommitmentUse | UnsetType = UNSET
    owned: OwnedCost | UnsetType = UNSET
    energy: EnergyUse | UnsetType = UNSET
    break_evens: tuple[BreakEven, ...] | UnsetType = UNSET
    prices: PricesUsed | UnsetType = UNSET
    explanations: tuple[Explanation, ...] | UnsetType = UNSET
