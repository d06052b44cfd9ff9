"""The estimate's request and answer as pydantic models, field by field those of the service."""

import datetime
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Money = Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=6)]
Basis = Literal["per_gpu", "total"]
PricedPer = Literal["gpu", "node"]
Status = Literal["given", "default", "catalogue", "derived"]
VerdictStatus = Literal["ok", "warn", "exceeded"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cluster(Section):
    gpu: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ()/+._-]{0,99}$")
    gpu_count: int = Field(default=64, ge=1, le=1_000_000)
    gpus_per_node: int = Field(default=8, ge=1, le=1024)
    allow_announced: bool = False


class GpuHoursWork(Section):
    kind: Literal["gpu_hours"]
    hours: float = Field(gt=0, le=1e9)
    basis: Basis = "per_gpu"


class FixedScaling(Section):
    kind: Literal["fixed"]
    efficiency_percent: float = Field(ge=1, le=100)


class InterconnectScaling(Section):
    kind: Literal["interconnect"]
    preset: str = Field(max_length=100, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    level: Literal["low", "typical", "high"] = "typical"


class BufferRework(Section):
    kind: Literal["buffer"]
    rework_percent: float = Field(ge=0, le=10_000)


class HourlyPrice(Section):
    kind: Literal["hourly"]
    amount: Money
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")
    per: PricedPer = "gpu"


class FixedAmount(Section):
    kind: Literal["fixed"]
    amount: Money


class Budget(Section):
    amount: Money | None = None
    deadline: AwareDatetime | None = None
    warn_percent: float = Field(default=90.0, gt=0, le=100)


class EstimateRequest(Section):
    cluster: Cluster | None = None
    work: GpuHoursWork | None = None
    scaling: Annotated[FixedScaling | InterconnectScaling, Field(discriminator="kind")] | None = None
    rework: BufferRework | None = None
    price: HourlyPrice | None = None
    storage: FixedAmount | None = None
    egress: FixedAmount | None = None
    start_at: AwareDatetime | None = None
    budget: Budget | None = None


class CostLine(BaseModel):
    component: Literal["compute", "rework", "storage", "egress"]
    description: str
    quantity: float
    unit: str
    unit_price: Decimal
    amount: Decimal
    decision: str


class Cost(BaseModel):
    currency: str
    total: Decimal
    compute: Decimal
    rework: Decimal
    idle: Decimal
    storage: Decimal
    egress: Decimal
    scaling_loss: Decimal
    non_gpu_percent: float | None
    lines: list[CostLine]


class Duration(BaseModel):
    ideal_hours: float
    wall_clock_hours: float
    wall_clock_days: float
    expected_wall_clock_hours: float
    expected_wall_clock_days: float
    finish_at: datetime.datetime | None


class UnitCosts(BaseModel):
    per_gpu_hour: Decimal
    per_ideal_gpu_hour: Decimal
    per_million_tokens: Decimal | None


class Assumption(BaseModel):
    field: str
    value: str | int | float | None
    status: Status
    source: str


class Note(BaseModel):
    code: str
    severity: Literal["info", "warning"]
    message: str


class CostVerdict(BaseModel):
    status: VerdictStatus
    amount: Decimal
    used_percent: float | None
    headroom: Decimal


class DeadlineVerdict(BaseModel):
    status: VerdictStatus
    deadline: datetime.datetime
    used_percent: float
    headroom_hours: float


class Verdict(BaseModel):
    status: VerdictStatus
    judged: Literal["expected"]
    cost: CostVerdict | None
    deadline: DeadlineVerdict | None


class Estimate(BaseModel):
    cost: Cost
    duration: Duration
    gpu_hours: float
    expected_gpu_hours: float
    unit_costs: UnitCosts
    verdict: Verdict | None
    assumptions: list[Assumption]
    notes: list[Note]
    model_version: str
