"""The estimate request: what the estimator's sections lack because a request has names, not facts."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimates.bill_schemas import (
    CommitmentPrice,
    Energy,
    Exchange,
    Idle,
    MeteredEgress,
    MeteredStorage,
    OwnedPrice,
    TablePrice,
)
from service.estimates.rework_schemas import FailuresRework
from service.estimates.risk_schemas import Uncertainty
from service.estimates.work_schemas import ThroughputWork, TransformerWork
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

Law = Literal["amdahl", "log2"]
DEFAULT_LAW: Law = "amdahl"
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


class CustomGpu(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """An accelerator that the catalogue does not have. What is left out is unknown, and what needs it says so. Without
    an MFU the hours are those of the step model if bandwidth, link, network and `gemm_efficiency_percent` are all
    given, else what is usual (`performance.method` says which)."""

    name: Annotated[
        str, Meta(pattern=GPU_NAME_PATTERN, max_length=100, description="What it is called.", examples=["X1 128GB"])
    ]
    memory_gb: Annotated[float, Meta(ge=0.1, le=100_000, description="Usable memory, decimal GB.", examples=[128.0])]
    peak_tflops: Annotated[
        float, Meta(ge=0.1, le=1e7, description="Dense peak at the precision of the work.", examples=[1200.0])
    ]
    memory_bandwidth_gb_s: (
        Annotated[
            float, Meta(ge=1, le=1e6, description="Memory bandwidth, GB/s: for the step model.", examples=[4800.0])
        ]
        | UnsetType
    ) = UNSET
    link_gb_s: (
        Annotated[
            float,
            Meta(
                ge=0.1,
                le=1e6,
                description="Link within a node, one direction, GB/s: for the step model.",
                examples=[450.0],
            ),
        ]
        | UnsetType
    ) = UNSET
    network_gbps: (
        Annotated[
            float,
            Meta(
                ge=0.1,
                le=1e6,
                description="Network between nodes, one direction, Gb/s per device: for the step model, and to warn of "
                "a slow one. `cluster.interconnect` goes before it.",
            ),
        ]
        | UnsetType
    ) = UNSET
    gemm_efficiency_percent: (
        Annotated[
            float,
            Meta(
                ge=1,
                le=100,
                description="What a benchmark's fastest matrix product reaches of the dense 16-bit peak (MAMF; 80 on "
                "an H100). The step model takes 0.8 of it, and attention as on the H100; both are assumed, and "
                "widen the spread.",
                examples=[75.0],
            ),
        ]
        | UnsetType
    ) = UNSET
    tdp_watts: Annotated[float, Meta(ge=1, le=100_000, description="Power limit.")] | UnsetType = UNSET


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
    custom_gpu: Annotated[
        CustomGpu | UnsetType, Meta(description="Figures of your own for an accelerator, instead of `gpu`.")
    ] = UNSET
    interconnect: Annotated[
        PresetName | UnsetType,
        Meta(description="The network between nodes; by default the one that the accelerator usually has."),
    ] = UNSET


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
        Meta(
            min_length=1,
            max_length=100,
            description="At two different counts at least; one is enough for a transformer whose shape is known.",
        ),
    ]
    law: Annotated[
        Law | UnsetType,
        Meta(
            extra_json_schema={"default": DEFAULT_LAW},
            description="`amdahl` for one global batch at every point, `log2` where the batch grows with the count.",
        ),
    ] = UNSET

    @property
    def chosen_law(self) -> Law:
        """The one given, else the default."""
        return DEFAULT_LAW if self.law is UNSET else self.law


class CommunicationScaling(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="communication", tag_field="kind"
):
    """A scaling efficiency from the share of a step that a small profiling run spent on exchange that shows. With one
    global batch it stays as long while the work of each accelerator shrinks (Amdahl); where the batch grows with the
    count, the share stays. An MFU or HFU of the work is taken to be that of the profiling run where `gpu_count` is not
    that of this cluster, as is a throughput with its `measured_gpu_count`: the efficiency is then relative to it."""

    share_percent: Annotated[
        float, Meta(ge=0, le=99, description="Exposed communication, percent of the step.", examples=[8.0])
    ]
    gpu_count: Annotated[
        GpuCount | UnsetType,
        Meta(
            description="Accelerators of the profiling run; by default those of this cluster. A given `mfu_percent` or "
            "`hfu_percent` belongs to this count."
        ),
    ] = UNSET
    batch: Annotated[
        Literal["fixed", "grows"], Meta(description="Whether the global batch is the same at both counts.")
    ] = "fixed"


class ModelScaling(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="model", tag_field="kind"):
    """A scaling efficiency from the analytic step model, for a transformer whose shape is known. Without
    `base_gpu_count` the model predicts the throughput itself; with it, the work's utilisation is taken to be that of
    the smaller cluster, and the model says what is left of it on this one."""

    base_gpu_count: Annotated[
        GpuCount | UnsetType, Meta(description="Accelerators at which the utilisation was measured.")
    ] = UNSET


ClassicScaling = FixedScaling | InterconnectScaling | MeasuredScaling
Scaling = FixedScaling | InterconnectScaling | MeasuredScaling | CommunicationScaling | ModelScaling
Work = GpuHoursWork | TransformerWork | ThroughputWork
Rework = BufferRework | FailuresRework
Price = HourlyPrice | CommitmentPrice | OwnedPrice | TablePrice
Storage = FixedStorage | MeteredStorage
Egress = FixedEgress | MeteredEgress


class EstimateRequest(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What to estimate. Every section is optional: `{}` is the classic calculator with its defaults, and
    answers 27,950.00 USD. Inside a section that is given, `kind` is required where the section has kinds."""

    cluster: Cluster | UnsetType = UNSET
    work: Work | UnsetType = UNSET
    scaling: Scaling | UnsetType = UNSET
    rework: Rework | UnsetType = UNSET
    price: Price | UnsetType = UNSET
    storage: Storage | UnsetType = UNSET
    egress: Egress | UnsetType = UNSET
    start_at: Annotated[Instant | None, Meta(description="When the run starts.")] = None
    budget: Budget | None = None
    idle: Idle | UnsetType = UNSET
    energy: Energy | UnsetType = UNSET
    uncertainty: Uncertainty | UnsetType = UNSET
    exchange: Exchange | UnsetType = UNSET


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
