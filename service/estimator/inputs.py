"""What a run is made of, as the estimator takes it: facts, with every name already looked up.

The sections with a `kind` go on the wire as they are; what a request says by name (an accelerator, an
interconnect) becomes a fact in `service.estimates`.
"""

import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimator.results import Assumption
from service.money import CurrencyCode, Money

DEFAULT_GPU_COUNT = 64
DEFAULT_GPUS_PER_NODE = 8
DEFAULT_IDEAL_HOURS = 120.0
DEFAULT_EFFICIENCY_PERCENT = 80.0
DEFAULT_REWORK_PERCENT = 15.0
DEFAULT_PRICE_PER_GPU_HOUR = Money("2.50")
DEFAULT_STORAGE = Money("200")
DEFAULT_EGRESS = Money("150")
DEFAULT_CURRENCY = "USD"
DEFAULT_WARN_PERCENT = 90.0

Basis = Literal["per_gpu", "total"]
PricedPer = Literal["gpu", "node"]


def _default(value: Any) -> Meta:
    """Shows a default in the schema where the code must still tell `given` from `default`."""
    return Meta(extra_json_schema={"default": value})


GpuCount = Annotated[int, Meta(ge=1, le=1_000_000, description="Accelerators in the run.", examples=[64, 512])]
GpusPerNode = Annotated[int, Meta(ge=1, le=1024, description="Accelerators in one node.", examples=[8])]
Hours = Annotated[
    float,
    Meta(ge=0.000001, le=1e9, description="Hours of work at perfect scaling; see `basis`.", examples=[120.0]),
]
EfficiencyPercent = Annotated[
    float,
    Meta(
        ge=1,
        le=100,
        description="Scaling efficiency: the share of wall-clock time that does productive work.",
        examples=[80.0],
    ),
]
ReworkPercent = Annotated[
    float,
    Meta(
        ge=0,
        le=10_000,
        description="Compute paid again after failures, in percent of the compute itself.",
        examples=[15.0],
    ),
]
Instant = Annotated[
    datetime.datetime,
    Meta(tz=True, description="RFC 3339 with an offset.", examples=["2027-01-04T09:00:00Z"]),
]
Currency = Annotated[
    CurrencyCode,
    Meta(description="ISO 4217 code of a currency that has a minor unit.", examples=["USD", "EUR"]),
]


class GpuHoursWork(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Work given in hours. `basis` says whose: `per_gpu` (the classic reading, hours on each accelerator of
    this cluster) or `total` (single-accelerator hours, divided by the count)."""

    kind: Literal["gpu_hours"]
    hours: Hours
    basis: Annotated[Basis | UnsetType, _default("per_gpu")] = UNSET


class FixedScaling(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="fixed", tag_field="kind"):
    """A scaling efficiency that the caller knows."""

    efficiency_percent: EfficiencyPercent


class BufferRework(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Rework as a typed percentage of compute."""

    kind: Literal["buffer"]
    rework_percent: ReworkPercent


class HourlyPrice(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A price an hour, for one accelerator or for a whole node."""

    kind: Literal["hourly"]
    amount: Annotated[Money, Meta(description="Price an hour, of what `per` says.", examples=["2.50"])]
    currency: Annotated[Currency | UnsetType, _default(DEFAULT_CURRENCY)] = UNSET
    per: Annotated[PricedPer | UnsetType, _default("gpu")] = UNSET


class FixedStorage(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Storage as one amount for the run, in the price's currency."""

    kind: Literal["fixed"]
    amount: Annotated[Money, Meta(description="Storage for the whole run.", examples=["200.00"])]


class FixedEgress(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Data egress as one amount for the run, in the price's currency."""

    kind: Literal["fixed"]
    amount: Annotated[Money, Meta(description="Egress and transfer for the whole run.", examples=["150.00"])]


class Budget(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What the run may cost and when it must be over: at least one of the two."""

    amount: Annotated[Money | None, Meta(description="The most it may cost, in the price's currency.")] = None
    deadline: Annotated[Instant | None, Meta(description="When it must be over; needs `start_at`.")] = None
    warn_percent: Annotated[
        float,
        Meta(gt=0, le=100, description="Share of the amount or of the time from which the verdict is `warn`."),
    ] = DEFAULT_WARN_PERCENT


class Run(Struct, frozen=True, gc=False):
    """All the facts of one run. Percents and hours are exact decimals; money is in `currency`, storage and egress
    as `service.money.written` writes them."""

    gpu_count: int
    gpus_per_node: int
    hours: Decimal
    basis: Basis
    efficiency_percent: Decimal
    network: "Network | None"
    measured: "MeasuredEfficiency | None"
    rework_percent: Decimal
    price: Decimal
    priced_per: PricedPer
    currency: str
    storage: Decimal
    egress: Decimal
    start_at: datetime.datetime | None
    budget: Budget | None
    assumptions: tuple[Assumption, ...]


class Network(Struct, frozen=True, gc=False):
    """The interconnect whose efficiency band was used: what the notes need to know of it."""

    id: str
    name: str
    kind: str
    node_gbps: float | None
    band_basis: str


class MeasuredEfficiency(Struct, frozen=True, gc=False):
    """How the efficiency was fitted: from which counts, how sure it is (80 % interval), and what was left out."""

    base_gpu_count: int
    largest_gpu_count: int
    low_percent: float
    high_percent: float
    extrapolation: float
    beyond_validity: bool
    excluded_gpu_count: int | None
