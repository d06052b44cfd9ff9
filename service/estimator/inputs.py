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
Purchase = Literal["on_demand", "spot", "reserved"]


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


class GpuHoursWork(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="gpu_hours", tag_field="kind"):
    """Work given in hours. `basis` says whose: `per_gpu` (the classic reading, hours on each accelerator of
    this cluster) or `total` (single-accelerator hours, divided by the count)."""

    hours: Hours
    basis: Annotated[Basis | UnsetType, _default("per_gpu")] = UNSET


class FixedScaling(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="fixed", tag_field="kind"):
    """A scaling efficiency that the caller knows."""

    efficiency_percent: EfficiencyPercent


class BufferRework(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="buffer", tag_field="kind"):
    """Rework as a typed percentage of compute."""

    rework_percent: ReworkPercent


class PriceTerms(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """What turns list into net and gross, whatever the price is; nothing unless given."""

    discount_percent: (
        Annotated[float, Meta(ge=0, le=100, description="Off the list price of everything billed.", examples=[12.5])]
        | UnsetType
    ) = UNSET
    credits: (
        Annotated[
            Money, Meta(description="Credits that are spent on this run, at most what is due.", examples=["5000"])
        ]
        | UnsetType
    ) = UNSET
    tax_percent: (
        Annotated[
            float, Meta(ge=0, le=100, description="Tax on what is due after discount and credits.", examples=[19.0])
        ]
        | UnsetType
    ) = UNSET


class AlternativePrices(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """What the same capacity costs otherwise, in the price's currency and of what `per` says."""

    on_demand: Annotated[Money, Meta(description="On demand, an hour.", examples=["3.29"])] | UnsetType = UNSET
    spot: Annotated[Money, Meta(description="Spot, an hour.", examples=["1.15"])] | UnsetType = UNSET
    reserved: Annotated[Money, Meta(description="Reserved, an hour of the term.", examples=["2.10"])] | UnsetType = (
        UNSET
    )


class HourlyPrice(PriceTerms, frozen=True, gc=False, forbid_unknown_fields=True, tag="hourly", tag_field="kind"):
    """A price an hour, for one accelerator or for a whole node."""

    amount: Annotated[Money, Meta(description="Price an hour, of what `per` says.", examples=["2.50"])]
    currency: Annotated[Currency | UnsetType, _default(DEFAULT_CURRENCY)] = UNSET
    per: Annotated[PricedPer | UnsetType, _default("gpu")] = UNSET
    purchase: Annotated[
        Purchase | UnsetType, Meta(description="How the capacity is bought; which of `alternatives` this price is.")
    ] = UNSET
    alternatives: Annotated[
        AlternativePrices | UnsetType, Meta(description="Other offers of the same capacity, for the break-evens.")
    ] = UNSET


class FixedStorage(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="fixed", tag_field="kind"):
    """Storage as one amount for the run, in the price's currency."""

    amount: Annotated[Money, Meta(description="Storage for the whole run.", examples=["200.00"])]


class FixedEgress(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="fixed", tag_field="kind"):
    """Data egress as one amount for the run, in the price's currency."""

    amount: Annotated[Money, Meta(description="Egress and transfer for the whole run.", examples=["150.00"])]


class Budget(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What the run may cost and when it must be over: at least one of the two."""

    amount: Annotated[Money | None, Meta(description="The most it may cost, in the price's currency.")] = None
    deadline: Annotated[Instant | None, Meta(description="When it must be over; needs `start_at`.")] = None
    warn_percent: Annotated[
        float,
        Meta(gt=0, le=100, description="Share of the amount or of the time from which the verdict is `warn`."),
    ] = DEFAULT_WARN_PERCENT
    confidence_percent: (
        Annotated[
            float,
            Meta(
                ge=50,
                le=99,
                description="Budget up to this quantile of the cost: a contingency line makes up the difference to "
                "the expected cost, and the verdict judges the quantile. Simulates with the default `uncertainty` "
                "where none is given.",
                examples=[80.0],
            ),
        ]
        | UnsetType
    ) = UNSET


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
    band_low_percent: float
    band_high_percent: float


class MeasuredEfficiency(Struct, frozen=True, gc=False):
    """How the efficiency was fitted: from which counts, how sure it is (80 % interval), and what was left out."""

    base_gpu_count: int
    largest_gpu_count: int
    low_percent: float
    high_percent: float
    extrapolation: float
    beyond_validity: bool
    excluded_gpu_count: int | None
