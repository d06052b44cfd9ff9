"""The shapes of the catalogue's rows, as they are read from its files and as they go on the wire."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Vendor = Literal["nvidia", "amd", "intel", "google", "aws", "huawei"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
Availability = Literal["shipping", "announced"]
Verified = Literal["yes", "partial", "no"]
InterconnectKind = Literal["scale-up", "scale-out", "scale-up+out"]
EfficiencyBasis = Literal["published or derived", "assumed", "classic calculator"]

Slug = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
Text = Annotated[str, Meta(min_length=1)]


class Accelerator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU or another accelerator: dense peaks, memory, links, and where the figures were read.

    One row is what one device costs an hour: a card, a package of two dies, or one GPU of a superchip. A
    figure that is not published is null, never 0.
    """

    id: Annotated[Slug, Meta(description="The name of this row, for use in requests.")]
    vendor: Annotated[Vendor, Meta(description="Who makes it.")]
    name: Annotated[Text, Meta(description="What its vendor calls it.")]
    architecture: Annotated[Text, Meta(description="The generation of the design.")]
    release_year: Annotated[int, Meta(ge=2000, description="The year in which it came, or will come.")]
    form_factor: Annotated[Text, Meta(description="How it is mounted, or that only a cloud has it.")]
    memory_gb: Annotated[float, Meta(gt=0, description="Physical memory, in decimal GB.")]
    usable_memory_gb: Annotated[
        float | None,
        Meta(description="Memory that a program can use, in decimal GB; null where it is not published."),
    ] = None
    memory_type: Annotated[str | None, Meta(description="The kind of memory; null if undisclosed.")] = None
    memory_bandwidth_gb_s: Annotated[float, Meta(gt=0, description="Memory bandwidth, in GB/s.")]
    fp32_tflops: Annotated[float | None, Meta(description="Dense FP32 peak, in TFLOPS.")] = None
    tf32_tflops: Annotated[float | None, Meta(description="Dense TF32 peak, in TFLOPS.")] = None
    bf16_tflops: Annotated[float | None, Meta(description="Dense BF16 peak, in TFLOPS.")] = None
    fp16_tflops: Annotated[float | None, Meta(description="Dense FP16 peak, in TFLOPS.")] = None
    fp8_tflops: Annotated[float | None, Meta(description="Dense FP8 peak, in TFLOPS.")] = None
    fp4_tflops: Annotated[float | None, Meta(description="Dense FP4 peak, in TFLOPS.")] = None
    int8_tops: Annotated[float | None, Meta(description="Dense INT8 peak, in TOPS.")] = None
    scale_up_interconnect: Annotated[str | None, Meta(description="The link within a node or rack.")] = None
    scale_up_gb_s_bidirectional: Annotated[
        float | None, Meta(description="Speed of that link per device, both directions together, in GB/s.")
    ] = None
    scale_up_domain_size: Annotated[int | None, Meta(description="How many devices that link joins; 1 means none.")] = (
        None
    )
    scale_out_gbps_per_gpu: Annotated[
        float | None, Meta(description="Usual network between nodes, per device and direction, in Gbps.")
    ] = None
    tdp_watts: Annotated[float | None, Meta(description="Thermal design power, in watts.")] = None
    availability: Annotated[
        Availability,
        Meta(description="Whether it ships; what is only announced is refused unless asked for."),
    ]
    verified: Annotated[
        Verified,
        Meta(description="Whether memory, bandwidth, main peak and TDP were read in a source: all, most, none."),
    ]
    doubtful: Annotated[
        tuple[str, ...],
        Meta(description="Fields whose value is unsourced, derived, assumed, or contested between sources."),
    ] = ()
    notes: Annotated[str | None, Meta(description="What to know of these figures.")] = None
    source: Annotated[Text, Meta(description="Where the figures were read.")]
    aliases: Annotated[tuple[str, ...], Meta(description="Well-known spellings; each means exactly this row.")] = ()


class Interconnect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link between accelerators: nominal speed, and how well training usually scales over it.

    A figure that is not published is null, never 0.
    """

    id: Annotated[Slug, Meta(description="The name of this row, for use in requests.")]
    name: Annotated[Text, Meta(description="What it is called, and where it is found.")]
    kind: Annotated[InterconnectKind, Meta(description="Within a node or rack, between nodes, or both.")]
    gbps_per_gpu_unidirectional: Annotated[
        float, Meta(gt=0, description="Speed per accelerator in one direction, in Gbps.")
    ]
    gb_s_per_gpu_bidirectional: Annotated[
        float, Meta(gt=0, description="Speed per accelerator, both directions together, in GB/s.")
    ]
    gbps_per_node: Annotated[float | None, Meta(description="Speed per node in one direction, in Gbps.")] = None
    typical_gpus_per_node: Annotated[
        int, Meta(ge=1, description="Accelerators that usually share the node or the domain.")
    ]
    latency_us: Annotated[float | None, Meta(description="Latency of one hop, in microseconds.")] = None
    scaling_efficiency_low_percent: Annotated[
        float, Meta(ge=1, le=100, description="The low end of the usual scaling, in percent of linear.")
    ]
    scaling_efficiency_high_percent: Annotated[
        float, Meta(ge=1, le=100, description="The high end of the usual scaling, in percent of linear.")
    ]
    scaling_efficiency_basis: Annotated[EfficiencyBasis, Meta(description="What that range rests on.")]
    verified: Annotated[Verified, Meta(description="Whether the figures were read in a source: all, some, none.")]
    notes: Annotated[str | None, Meta(description="What to know of these figures.")] = None
    source: Annotated[Text, Meta(description="Where the range, and whatever else is cited, was read.")]
