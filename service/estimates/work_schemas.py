"""The work of a request where it is no number of hours: a transformer to be trained, or a measured throughput."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimator.collectives import Sharding
from service.estimator.compute import Recompute
from service.estimator.flops import Training
from service.estimator.parallelism import Degree
from service.estimator.parameters import LoraTarget
from service.estimator.shapes import ModelShape

TrainingPrecision = Literal["bf16", "fp16", "fp8", "fp4", "tf32", "fp32"]
MfuKind = Literal["step", "billed"]
Attention = Literal["full", "causal"]

DEFAULT_OVERHEAD_PERCENT = 10.0
DEFAULT_SEQUENCE_LENGTH = 4096
DEFAULT_LORA_RANK = 16

ModelName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ()/+._-]{0,99}$",
        max_length=100,
        description="Catalogue id (`GET /v1/models`) or a well-known spelling of one model.",
        examples=["llama-3.1-405b", "deepseek-v3"],
    ),
]
Tokens = Annotated[float, Meta(ge=1, le=1e17, description="Tokens of one epoch.", examples=[2000000000000])]
Epochs = Annotated[float, Meta(ge=0.001, le=1000, description="Passes over the tokens.", examples=[1.0, 3.0])]
Percent = Annotated[float, Meta(ge=0.01, le=100)]
OverheadPercent = Annotated[
    float,
    Meta(
        ge=0,
        le=1000,
        description="Evaluation, ramp-up and hangs, in percent of the productive hours: what a step does not show and "
        "a bill does. Billed utilisation already holds it.",
        examples=[10.0],
    ),
]
SequenceLength = Annotated[int, Meta(ge=1, le=100_000_000, description="Tokens in a sequence.", examples=[8192])]
BatchSequences = Annotated[
    int, Meta(ge=1, le=100_000_000, description="Sequences in one step of all replicas together.", examples=[2048])
]


class ParallelLayout(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """How the model is split over the accelerators, if it is known. Replicas are what the GPU count leaves. What is
    not said is what Megatron-Core and FSDP do by themselves."""

    tensor: Annotated[Degree, Meta(description="Tensor-parallel degree.", examples=[8])] = 1
    pipeline: Annotated[Degree, Meta(description="Pipeline stages.", examples=[16])] = 1
    interleave: Annotated[Degree, Meta(description="Chunks of layers in each stage; 1 is plain 1F1B.")] = 1
    context: Annotated[Degree, Meta(description="Context-parallel degree.")] = 1
    expert: Annotated[Degree, Meta(description="Expert-parallel degree, within the replicas.")] = 1
    microbatch: Annotated[Degree, Meta(description="Sequences in one microbatch of one replica.")] = 1
    sharding: Annotated[
        Sharding, Meta(description="What replicas share: nothing, optimizer states, gradients too, weights too (FSDP).")
    ] = "zero1"
    sequence_parallel: Annotated[
        bool | UnsetType, Meta(description="Norms are split over the tensor ranks too; by default if there are any.")
    ] = UNSET
    flash_attention: Annotated[bool, Meta(description="Attention in one fused kernel.")] = True
    tensor_overlap: Annotated[bool, Meta(description="Tensor and pipeline exchange overlaps with compute.")] = False
    data_overlap: Annotated[bool, Meta(description="Gradient exchange overlaps with compute.")] = True
    gradient_bytes: Annotated[Literal[2, 4], Meta(description="Bytes of one gradient when it is reduced.")] = 4
    fused: Annotated[bool, Meta(description="Fused or compiled elementwise kernels, not eager ones.")] = True


class Lora(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Adapters beside frozen weights."""

    rank: Annotated[int, Meta(ge=1, le=65_536, description="Rank of every adapter.", examples=[16])] = DEFAULT_LORA_RANK
    targets: (
        Annotated[
            tuple[LoraTarget, ...],
            Meta(min_length=1, max_length=7, description="Matrices that have one; by default every one of a layer."),
        ]
        | UnsetType
    ) = UNSET


class TransformerWork(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="transformer", tag_field="kind"
):
    """Train a transformer: `model`, `shape` or `parameters` say which, and how many FLOPs a token takes.

    With `mfu_percent` (or `hfu_percent`) the hours follow from it; without, they are predicted: from measured points
    in `scaling`, else by the step model with the layout given or the fastest that fits, else by what is usual for the
    accelerator's family. The answer says which, and how far it may be off.
    """

    model: ModelName | UnsetType = UNSET
    shape: Annotated[ModelShape | UnsetType, Meta(description="Its shape, where it is no model of the catalogue.")] = (
        UNSET
    )
    parameters: (
        Annotated[
            float,
            Meta(ge=1e3, le=1e16, description="Parameters alone: FLOPs are then 6ND.", examples=[70000000000]),
        ]
        | UnsetType
    ) = UNSET
    active_parameters: (
        Annotated[
            float,
            Meta(ge=1e3, le=1e16, description="Of `parameters`, those at work on one token (mixture of experts)."),
        ]
        | UnsetType
    ) = UNSET
    tokens: Tokens | UnsetType = UNSET
    epochs: Annotated[Epochs | UnsetType, Meta(extra_json_schema={"default": 1.0})] = UNSET
    sequence_length: SequenceLength | UnsetType = UNSET
    global_batch_sequences: BatchSequences | UnsetType = UNSET
    precision: Annotated[
        TrainingPrecision,
        Meta(description="Of the matrix products; peak and utilisation are of this precision."),
    ] = "bf16"
    mfu_percent: (
        Annotated[
            Percent,
            Meta(
                description="Model FLOPs utilisation of the dense peak at this precision. Not what nvidia-smi calls "
                "utilisation.",
                examples=[40.0],
            ),
        ]
        | UnsetType
    ) = UNSET
    mfu_kind: Annotated[
        MfuKind | UnsetType,
        Meta(
            extra_json_schema={"default": "step"},
            description="`step`: of a training step or a benchmark; overhead, rework and idle hours are "
            "added. `billed`: of the whole bill, which holds them all.",
        ),
    ] = UNSET
    hfu_percent: (
        Annotated[Percent, Meta(description="Hardware FLOPs utilisation of a step, recomputed FLOPs included.")]
        | UnsetType
    ) = UNSET
    attention: Annotated[
        Attention | UnsetType,
        Meta(
            extra_json_schema={"default": "full"},
            description="How much of the attention matrix the given MFU counts: all of it (PaLM, Megatron-LM, Llama 3) "
            "or only what a causal mask leaves. FLOPs from `parameters` alone count none.",
        ),
    ] = UNSET
    recompute: Annotated[
        Recompute | UnsetType,
        Meta(
            description="Activations computed again in the backward pass: none, the attention core (selective) or "
            "whole layers (full, a third more FLOPs). Left out, a searched layout recomputes as little as fits."
        ),
    ] = UNSET
    layout: ParallelLayout | UnsetType = UNSET
    training: Annotated[
        Training, Meta(description="All weights, or adapters beside frozen ones (QLoRA: in 4 bits).")
    ] = "full"
    lora: Lora | UnsetType = UNSET
    overhead_percent: Annotated[
        OverheadPercent | UnsetType, Meta(extra_json_schema={"default": DEFAULT_OVERHEAD_PERCENT})
    ] = UNSET


class ThroughputWork(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="throughput", tag_field="kind"
):
    """Train as fast as was measured: tokens over tokens a second."""

    tokens: Tokens
    epochs: Epochs = 1.0
    tokens_per_second: Annotated[float, Meta(ge=1e-6, le=1e15, description="As measured, of what `per` says.")]
    per: Annotated[
        Literal["gpu", "cluster"],
        Meta(description="Of one accelerator, or of all of them together."),
    ]
    measured_gpu_count: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=1_000_000,
                description="Accelerators of the measurement; by default those of this cluster. At another count the "
                "rate of one is taken to be the same unless `scaling` says how it falls.",
            ),
        ]
        | UnsetType
    ) = UNSET
    overhead_percent: Annotated[
        OverheadPercent | UnsetType, Meta(extra_json_schema={"default": DEFAULT_OVERHEAD_PERCENT})
    ] = UNSET
