"""The estimate request: what the estimator's sections lack because a request has names, not facts."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimator.inputs import (
    DEFAULT_CURRENCY,
    DEFAULT_EFFICIENCY_PERCENT,
    DEFAULT_EGRESS,
    DEFAULT_GPU_COUNT,
    DEFAULT_GPUS_PER_NODE,
    DEFAULT_IDEAL_HOURS,
    DEFAULT_PRICE_PER_GPU_HOUR,
    DEFAULT_REWORK_PERCENT,
    DEFAULT_STORAGE,
    Budget,
    BufferRework,
    EfficiencyPercent,
    FixedEgress,
    FixedScaling,
    FixedStorage,
    GpuCount,
    GpuHoursWork,
    GpusPerNode,
    HourlyPrice,
    Hours,
    Instant,
    ReworkPercent,
)
from service.money import Money

GPU_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ()/+._-]{0,99}$"
GpuName = Annotated[
    str,
    Meta(
        pattern=GPU_NAME_PATTERN,
        max_length=100,
        description="Catalogue id (`GET /v1/gpus`) or a well-known spelling of one accelerator.",
        examples=["h100-sxm-80gb", "A100-SXM4-80GB"],
    ),
]
PresetName = Annotated[
    str,
    Meta(
        pattern="^[ -~]+$",
        max_length=100,
        description="Interconnect id (`GET /v1/interconnects`).",
        examples=["ib-ndr-400", "eth-10-tcp"],
    ),
]


class Cluster(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What the run occupies. The accelerator is named for the record; the classic estimate prices by hours."""

    gpu: GpuName | None = None
    gpu_count: Annotated[GpuCount | UnsetType, Meta(extra_json_schema={"default": DEFAULT_GPU_COUNT})] = UNSET
    gpus_per_node: Annotated[GpusPerNode | UnsetType, Meta(extra_json_schema={"default": DEFAULT_GPUS_PER_NODE})] = (
        UNSET
    )
    allow_announced: Annotated[
        bool, Meta(description="Accept a part that is announced and that nobody can rent yet.")
    ] = False


class InterconnectScaling(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="interconnect", tag_field="kind"
):
    """A scaling efficiency read from the interconnect's band: its low or high end, or the midpoint."""

    preset: PresetName
    level: Annotated[Literal["low", "typical", "high"], Meta(description="`typical` is the midpoint.")] = "typical"


class ScalingPoint(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One measurement of the whole job: its throughput, or at one global batch the time of a step."""

    gpu_count: GpuCount
    tokens_per_second: (
        Annotated[float, Meta(ge=1e-9, le=1e15, description="Tokens a second of the whole job.")] | UnsetType
    ) = UNSET
    step_seconds: (
        Annotated[float, Meta(ge=1e-6, le=1e9, description="Seconds a step, the same global batch at every point.")]
        | UnsetType
    ) = UNSET


class MeasuredScaling(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="measured", tag_field="kind"):
    """A scaling efficiency fitted to your own measurements of one job, with the same software and layout. It is
    the throughput per accelerator at `gpu_count`, in percent of that at the smallest measured count: the ideal hours
    are hours at that count's throughput."""

    points: Annotated[
        tuple[ScalingPoint, ...],
        Meta(min_length=2, max_length=100, description="At two different counts at least."),
    ]
    law: Annotated[
        Literal["amdahl", "log2"],
        Meta(description="`amdahl` for one global batch at every point, `log2` where the batch grows with the count."),
    ] = "amdahl"


Scaling = FixedScaling | InterconnectScaling | MeasuredScaling


class EstimateRequest(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What to estimate. Every section is optional: `{}` is the classic calculator with its defaults, and
    answers 27,950.00 USD. Inside a section that is given, `kind` is required where the section has kinds."""

    cluster: Cluster | UnsetType = UNSET
    work: GpuHoursWork | UnsetType = UNSET
    scaling: Scaling | UnsetType = UNSET
    rework: BufferRework | UnsetType = UNSET
    price: HourlyPrice | UnsetType = UNSET
    storage: FixedStorage | UnsetType = UNSET
    egress: FixedEgress | UnsetType = UNSET
    start_at: Annotated[Instant | None, Meta(description="When the run starts.")] = None
    budget: Budget | None = None


class ClassicQuery(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The seven fields of the classic calculator, as query parameters."""

    gpu_count: Annotated[GpuCount | UnsetType, Meta(extra_json_schema={"default": DEFAULT_GPU_COUNT})] = UNSET
    ideal_gpu_hours: Annotated[
        Hours | UnsetType,
        Meta(
            description="Ideal hours on each GPU, at perfect scaling: the classic reading.",
            extra_json_schema={"default": DEFAULT_IDEAL_HOURS},
        ),
    ] = UNSET
    gpu_cost_per_hour: Annotated[
        Money | UnsetType,
        Meta(
            description=f"Price of one GPU-hour in {DEFAULT_CURRENCY}.",
            extra_json_schema={"default": str(DEFAULT_PRICE_PER_GPU_HOUR)},
        ),
    ] = UNSET
    scaling_efficiency_percent: Annotated[
        EfficiencyPercent | UnsetType, Meta(extra_json_schema={"default": DEFAULT_EFFICIENCY_PERCENT})
    ] = UNSET
    failed_run_rework_percent: Annotated[
        ReworkPercent | UnsetType, Meta(extra_json_schema={"default": DEFAULT_REWORK_PERCENT})
    ] = UNSET
    storage_cost: Annotated[
        Money | UnsetType,
        Meta(description="Storage for the run.", extra_json_schema={"default": str(DEFAULT_STORAGE)}),
    ] = UNSET
    egress_cost: Annotated[
        Money | UnsetType,
        Meta(description="Data egress for the run.", extra_json_schema={"default": str(DEFAULT_EGRESS)}),
    ] = UNSET
