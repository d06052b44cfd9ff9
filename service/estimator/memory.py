"""What one GPU must hold, by part.

Bytes are counted on the fullest GPU. Decimal units: a GPU of 80 GB has 80e9 bytes. The formulas below are generic over
single numbers and NumPy arrays; what starts from a plan is for single plans.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from service.estimator.collectives import Sharding
from service.estimator.compute import Recompute
from service.estimator.cost import Number
from service.estimator.flops import Training
from service.estimator.parallelism import Layout
from service.estimator.parameters import (
    dense_layer_parameters,
    embedding_parameters,
    expert_parameters,
    layers_parameters,
    moe_layer_parameters,
    total_parameters,
)
from service.estimator.shapes import ModelShape, dense_layers_of, head_dim_of, kv_heads_of, moe_layers_of

# Bytes a parameter (Rajbhandari et al. 2019, arXiv 1910.02054; stas00/ml-engineering training/performance README):
# BF16 weights, FP32 gradients (2 if they stay BF16), FP32 master weights with Adam's two moments. Together 18 or 16.
WEIGHT_BYTES = 2
GRADIENT_BYTES = 4
BF16_GRADIENT_BYTES = 2
OPTIMIZER_BYTES = 12
# What a checkpoint keeps of them: weights, master weights, two moments.
CHECKPOINT_BYTES = 14
# What minimum figures count on: 2 + 2 + 12.
MINIMUM_STATE_BYTES = 16

# NF4 with double quantization: 4 bits and 0.127 bits of constants a parameter (QLoRA, Dettmers et al. 2023,
# arXiv 2305.14314, section 3).
NF4_BYTES = (4 + 0.127) / 8

# Activations of a GPT layer in bytes a token and hidden unit (Korthikanti et al. 2022, arXiv 2205.05198, equations
# 1 to 6): 34 in all, of which tensor parallelism alone cannot split 10.
GPT_ACTIVATION_BYTES = 34
UNSPLIT_ACTIVATION_BYTES = 10
# Of one number, in these equations.
ACTIVATION_BYTES = 2

# The CUDA context, NCCL's buffers and workspaces; and the share of memory that fragments are allowed. Assumed.
OVERHEAD_BYTES = 3e9
USABLE_SHARE = 0.9

UNSHARDED_LAYERS = 2  # the layer at work and the one fetched ahead of it, under ZeRO-3
SPLIT_PARTS: dict[Sharding, frozenset[str]] = {
    "ddp": frozenset(),
    "zero1": frozenset({"optimizer"}),
    "zero2": frozenset({"optimizer", "gradients"}),
    "zero3": frozenset({"optimizer", "gradients", "weights"}),
}


class NumberFormat(Struct, frozen=True):
    """Bytes of a weight, of what the optimizer keeps of a parameter, and of an activation."""

    weight: int
    optimizer: int
    activation: int

    @property
    def checkpoint(self) -> int:
        """What a checkpoint keeps of a parameter: its weight, and all that the optimizer has."""
        return self.weight + self.optimizer


# 16-bit weights and activations with an FP32 master copy. FP8 and FP4 are of what matrix products read: weights stay in
# 16 bits, and so do most activations (NVIDIA Transformer Engine, "Introduction to low precision training"), so that
# they are counted the same.
MIXED_PRECISION = NumberFormat(WEIGHT_BYTES, OPTIMIZER_BYTES, ACTIVATION_BYTES)
# FP32, and TF32, which rounds nothing but what a matrix product reads: weights 4, gradients 4, two moments 8, and no
# master copy beside them (stas00/ml-engineering training/performance README); every number kept is twice as long.
SINGLE_PRECISION = NumberFormat(4, 8, 4)


class MemoryPlan(Struct, frozen=True, kw_only=True):
    """How a model is trained and laid out, as far as memory depends on it.

    `data` replicas of the layout's `context * tensor * pipeline` GPUs each. What ZeRO splits, it splits over data
    and context together, as Megatron-Core and FSDP2 do. `expert` is the degree over which routed experts are
    shared out, within data and context: it divides their product.
    """

    layout: Layout
    data: int
    sequence_length: int
    expert: int = 1
    training: Training = "full"
    lora_parameters: int = 0
    numbers: NumberFormat = MIXED_PRECISION


class GpuMemory(Struct, frozen=True):
    """Bytes on the fullest GPU, each part rounded up; the total is their sum."""

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    logits_bytes: int
    reserve_bytes: int
    total_bytes: int


# ------------------------------------------------------------------------------------------- states


def state_bytes(
    parameters: Number,
    tensor: Number,
    pipeline: Number,
    data: Number,
    sharding: Sharding,
    gradient_bytes_per_parameter: Number = GRADIENT_BYTES,
) -> Number:
    """Weights, gradients and optimizer on one GPU, with N_r = N/(t*p): 18*N_r; 6*N_r + 12*N_r/d; 2*N_r +
    16*N_r/d; 18*N_r/d (ZeRO stages 0 to 3, Rajbhandari et al. 2019)."""
    on_rank = parameters / (tensor * pipeline)
    parts = {"weights": WEIGHT_BYTES, "gradients": gradient_bytes_per_parameter, "optimizer": OPTIMIZER_BYTES}
    split = SPLIT_PARTS[sharding]
    return sum(size * on_rank / (data if part in split else 1) for part, size in parts.items())


def checkpoint_bytes(parameters: Number, bytes_per_parameter: Number = CHECKPOINT_BYTES) -> Number:
    """A checkpoint to resume from: 14 bytes a parameter (weights, FP32 master, two moments); 2 for the weights
    alone. Adapters: their own parameters only."""
    return bytes_per_parameter * parameters


# ------------------------------------------------------------------------------------------- activations


def activation_bytes_per_layer(
    sequence_length: Number,
    micro_batch: Number,
    hidden: Number,
    heads: Number,
    tensor: Number = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = "none",
    per_unit: Number = GPT_ACTIVATION_BYTES,
) -> Number:
    """What one layer keeps for the backward pass (Korthikanti et al. 2022, equations 1 to 6): s*b*h times
    10 + (24 + 5*a*s/h)/t; all of it over t with sequence parallelism; without 5*a*s/h if selective; 2 if full.

    `per_unit` stands for the 34 of a GPT layer; its part beyond 10 splits over t. A context-parallel degree
    divides `micro_batch`, not `sequence_length`, for each query still meets every key. Two bytes a number.
    """
    units = sequence_length * micro_batch * hidden
    if recompute == "full":
        return 2 * units / (tensor if sequence_parallel else 1)
    core = 0 if recompute == "selective" else 5 * heads * sequence_length / hidden
    if sequence_parallel:
        return units * (per_unit + core) / tensor
    return units * (UNSPLIT_ACTIVATION_BYTES + (per_unit - UNSPLIT_ACTIVATION_BYTES + core) / tensor)


def activation_bytes_per_unit(hidden: Number, ffn_hidden: Number, ffn_matrices: int) -> Number:
    """The 34 of Korthikanti et al. for other widths: 18 + 4*f/h with two matrices, which is 34 at f = 4*h;
    18 + 8*f/h with three (SwiGLU), an upper bound, taken for the layer at work, whose gradients are there too."""
    return 18 + (4 if ffn_matrices == 2 else 8) * ffn_hidden / hidden


def kept_bytes_per_unit(
    hidden: Number, query_width: Number, key_value_width: Number, ffn_hidden: Number, ffn_matrices: int
) -> Number:
    """What a layer keeps a token and hidden unit where scores are not kept. Two matrices: as above. Three (SwiGLU): two
    bytes for each tensor that its backward pass reads, without dropout and with fewer keys and values: inputs of both
    norms, of the projections and of the block (8); query and attention output (4*a*d/h); key and value (4*kv*d/h);
    gate, up and their product (6*f/h). Counted as Korthikanti et al. 2022 count a GPT's, section 4.1."""
    if ffn_matrices == 2:
        return activation_bytes_per_unit(hidden, ffn_hidden, ffn_matrices)
    return 8 + (4 * (query_width + key_value_width) + 6 * ffn_hidden) / hidden


def first_stage_layers(layers: Number, pipeline: Number, interleave: Number) -> Number:
    """Layers' worth of activations on the first pipeline stage under 1F1B: L, for its L/p layers keep p
    microbatches; times 1 + (p - 1)/(p*v) if interleaved v-fold (Korthikanti et al. 2022, section 4.2.3)."""
    return layers * (1 + (pipeline - 1) / (pipeline * interleave)) if interleave > 1 else layers


def last_stage_layers(layers: Number, pipeline: Number, interleave: Number) -> Number:
    """The same on the last stage, which keeps (v - 1)*p + 1 chunks of L/(p*v) layers (Narayanan et al. 2021,
    arXiv 2104.04473, section 2.2, the interleaved schedule; one microbatch if v = 1)."""
    return layers * ((interleave - 1) * pipeline + 1) / (pipeline * interleave)


def logits_bytes(sequence_length: Number, micro_batch: Number, vocabulary: Number, tensor: Number = 1) -> Number:
    """The logits of one microbatch and their gradient, both FP32: 2 * 4*s*b*V/t, on the last stage."""
    return 2 * 4 * sequence_length * micro_batch * vocabulary / tensor


# ------------------------------------------------------------------------------------------- one GPU


def memory_per_gpu(shape: ModelShape, plan: MemoryPlan, capacity_bytes: float) -> GpuMemory:
    """What the fullest GPU holds, by part; the reserve is 3 GB and a tenth of its capacity."""
    weights, gradients, optimizer = (math.ceil(part) for part in _states(shape, plan))
    activations, logits = (math.ceil(part) for part in activations_and_logits(shape, plan))
    reserve = math.ceil(reserve_bytes(capacity_bytes))
    return GpuMemory(
        weights_bytes=weights,
        gradients_bytes=gradients,
        optimizer_bytes=optimizer,
        activations_bytes=activations,
        logits_bytes=logits,
        reserve_bytes=reserve,
        total_bytes=weights + gradients + optimizer + activations + logits + reserve,
    )


def reserve_bytes(capacity_bytes: Number) -> Number:
    """What no tensor can have: 3 GB of context and buffers, and a tenth of the memory for fragments (assumed)."""
    return OVERHEAD_BYTES + (1 - USABLE_SHARE) * capacity_bytes


def fits(memory: GpuMemory, capacity_bytes: float) -> bool:
    """Whether it all fits, the reserve included."""
    return memory.total_bytes <= capacity_bytes


def _states(shape: ModelShape, plan: MemoryPlan) -> tuple[float, float, float]:
    """Weights, gradients and optimizer on one GPU."""
    split = SPLIT_PARTS[plan.layout.sharding]
    trained, trained_here = trained_parameters(shape, plan)
    shards = model_parallel(plan) * plan.data * plan.layout.context

    def held(part: str, bytes_per_parameter: float) -> float:
        return bytes_per_parameter * (trained / shards if part in split else trained_here)

    weights = _weights(shape, plan)
    if plan.training != "full":
        weights += held("weights", plan.numbers.weight)  # of the adapters; all others are frozen
    return weights, held("gradients", plan.layout.gradient_bytes), held("optimizer", plan.numbers.optimizer)


def model_parallel(plan: MemoryPlan) -> int:
    """GPUs over which one copy of the model is split, before any sharding."""
    return plan.layout.tensor * plan.layout.pipeline


def trained_parameters(shape: ModelShape, plan: MemoryPlan) -> tuple[float, float]:
    """Parameters that are trained: in all, and on one GPU where ZeRO splits nothing."""
    if plan.training != "full":
        return plan.lora_parameters, plan.lora_parameters / model_parallel(plan)
    total, experts = total_parameters(shape), expert_parameters(shape)
    return total, (total - experts + experts / plan.expert) / model_parallel(plan)


def weights_held(shape: ModelShape, plan: MemoryPlan) -> tuple[float, float, float]:
    """The model's weights in bytes: on one GPU where ZeRO splits none, in all, and of two whole layers, which ZeRO-3
    gathers beside its shard."""
    layer_bytes = NF4_BYTES if plan.training == "qlora" else plan.numbers.weight
    experts = expert_parameters(shape)
    others = layer_bytes * (layers_parameters(shape) - experts) + plan.numbers.weight * embedding_parameters(shape)
    unsplit = (others + layer_bytes * experts / plan.expert) / model_parallel(plan)
    gathered = UNSHARDED_LAYERS * layer_bytes * _largest_layer_parameters(shape, plan.expert) / plan.layout.tensor
    return unsplit, others + layer_bytes * experts, gathered


def _weights(shape: ModelShape, plan: MemoryPlan) -> float:
    """The model's weights on one GPU; under ZeRO-3 its shard and two whole layers, never more than all."""
    unsplit, in_all, gathered = weights_held(shape, plan)
    if plan.layout.sharding != "zero3":
        return unsplit
    return min(unsplit, in_all / (model_parallel(plan) * plan.data * plan.layout.context) + gathered)


@lru_cache(256)
def _largest_layer_parameters(shape: ModelShape, expert: int) -> float:
    """Of one layer, with the routed experts of one expert-parallel rank."""
    sizes: list[float] = []
    if dense_layers_of(shape):
        sizes.append(dense_layer_parameters(shape))
    if shape.moe is not None:
        without = moe_layer_parameters(shape, 0)
        sizes.append(without + (moe_layer_parameters(shape, shape.moe.experts) - without) / expert)
    return max(sizes)


def activations_and_logits(shape: ModelShape, plan: MemoryPlan) -> tuple[float, float]:
    """On the stage that holds more of both: the first, or the last, which alone has logits."""
    layout = plan.layout
    share = layout.microbatch / layout.context
    logits = logits_bytes(plan.sequence_length, share, shape.vocabulary, layout.tensor)
    if layout.pipeline == 1:
        return _activations(shape, plan, shape.layers), logits
    first = _activations(shape, plan, first_stage_layers(shape.layers, layout.pipeline, layout.interleave))
    last = _activations(shape, plan, last_stage_layers(shape.layers, layout.pipeline, layout.interleave))
    return (first, 0.0) if first >= last + logits else (last, logits)


def _activations(shape: ModelShape, plan: MemoryPlan, layers: float) -> float:
    """Of this many average layers; with full recompute their inputs, and one layer at work."""
    recompute = plan.layout.recompute
    at_work = _layer_activations(shape, plan, "none", working_per_unit(shape)) if recompute == "full" else 0.0
    return layers * _layer_activations(shape, plan, recompute, kept_per_unit(shape)) + at_work


def _layer_activations(shape: ModelShape, plan: MemoryPlan, recompute: Recompute, per_unit: float) -> float:
    """Flash attention keeps no scores, as selective recompute does not (Dao et al. 2022, arXiv 2205.14135)."""
    layout = plan.layout
    kept: float = activation_bytes_per_layer(
        plan.sequence_length,
        layout.microbatch / layout.context,
        shape.hidden,
        shape.heads,
        layout.tensor,
        layout.sequence_parallel,
        "selective" if layout.flash_attention and recompute == "none" else recompute,
        per_unit,
    )
    return kept * plan.numbers.activation / ACTIVATION_BYTES


@lru_cache(256)
def kept_per_unit(shape: ModelShape) -> float:
    """Bytes kept a token and hidden unit, over all layers on average."""
    widths = shape.hidden, shape.heads * head_dim_of(shape), kv_heads_of(shape) * head_dim_of(shape)
    return _over_layers(shape, lambda width: float(kept_bytes_per_unit(*widths, width, shape.ffn_matrices)))


@lru_cache(256)
def working_per_unit(shape: ModelShape) -> float:
    """The same of the layer at work."""
    return _over_layers(shape, lambda width: float(activation_bytes_per_unit(shape.hidden, width, shape.ffn_matrices)))


def _over_layers(shape: ModelShape, per_unit: Callable[[int], float]) -> float:
    """The average of dense layers and those with experts, which count as one block as wide as those that a token
    passes through, with a copy of its input for each routed one (assumed)."""
    if shape.moe is None:
        return per_unit(shape.ffn_hidden)
    width = shape.moe.expert_ffn_hidden * (shape.moe.experts_per_token + shape.moe.shared_experts)
    mixed = per_unit(width) + 2 * shape.moe.experts_per_token
    return (dense_layers_of(shape) * per_unit(shape.ffn_hidden) + moe_layers_of(shape) * mixed) / shape.layers
