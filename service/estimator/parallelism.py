"""How a model is split over GPUs, what each then holds, and which splits there cannot be."""

from collections.abc import Collection, Iterator
from functools import lru_cache
from math import isqrt
from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.errors import BrokenRule, Fault
from service.estimator.collectives import Sharding
from service.estimator.compute import Recompute
from service.estimator.shapes import ModelShape, head_dim_of, kv_heads_of

# A batch that nobody gave: about 4M tokens, as most runs of 2023 and 2024 had; assumed.
ASSUMED_BATCH_TOKENS = 4_194_304
# It grows with the count beyond 4096 GPUs: published steps of many GPUs have about as many tokens for each (Llama 3
# 405B 16M on 16,384, arXiv 2407.21783; MegaScale 12.6M on 12,288, arXiv 2402.15627; the Megatron-LM README 4.7M on
# 4,608).
_ASSUMED_TOKENS_PER_GPU = 1024
LEAST_BATCH_PARTS = 4
# No published run splits a layer over more, whatever its node.
MOST_TENSOR = 16
# As many pieces of a sequence as a search tries; Llama 3 405B had 16 of 131,072 tokens (arXiv 2407.21783, table 4).
MOST_CONTEXT = 64

Degree = Annotated[int, Meta(ge=1, le=1_000_000)]


class Workload(Struct, frozen=True, kw_only=True):
    """A dense transformer and its batch, in the numbers that a step takes."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    ffn_matrices: int
    vocabulary: int
    sequence_length: int
    global_batch_sequences: int


def workload_of(shape: ModelShape, sequence_length: int, global_batch_sequences: int) -> Workload:
    """A shape and its batch as what a step takes. Where every layer has experts, the width is that of one."""
    width = shape.ffn_hidden if shape.moe is None or shape.moe.dense_layers else shape.moe.expert_ffn_hidden
    return Workload(
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=kv_heads_of(shape),
        head_dim=head_dim_of(shape),
        ffn_hidden=width,
        ffn_matrices=shape.ffn_matrices,
        vocabulary=shape.vocabulary,
        sequence_length=sequence_length,
        global_batch_sequences=global_batch_sequences,
    )


def usual_batch_sequences(sequence_length: int, gpu_count: int) -> float:
    """The sequences of a batch that nobody gave, still to be put into equal parts."""
    return max(ASSUMED_BATCH_TOKENS, _ASSUMED_TOKENS_PER_GPU * gpu_count) / sequence_length


def divisible_batch(sequences: float, gpu_count: int) -> int:
    """About so many sequences, in equal parts for as many of the GPUs as can have some (four each, or more)."""
    twos = gpu_count & -gpu_count
    odd = gpu_count // twos
    while twos > 1 and odd * twos * LEAST_BATCH_PARTS > sequences:
        twos //= 2
    return odd * twos * max(1, round(sequences / (odd * twos)))


class Layout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the work is split and what overlaps. The data-parallel degree is what the GPU count leaves."""

    tensor: Annotated[Degree, Meta(description="Tensor-parallel degree.", examples=[8])] = 1
    pipeline: Annotated[Degree, Meta(description="Pipeline stages.", examples=[16])] = 1
    interleave: Annotated[Degree, Meta(description="Chunks of layers in each stage; 1 is plain 1F1B.")] = 1
    context: Annotated[Degree, Meta(description="Context-parallel degree.")] = 1
    microbatch: Annotated[Degree, Meta(description="Sequences in one microbatch of one replica.")] = 1
    sharding: Annotated[
        Sharding, Meta(description="What replicas share: nothing, optimizer states, gradients too, weights too (FSDP).")
    ] = "zero1"
    sequence_parallel: Annotated[bool, Meta(description="Norms are split over the tensor ranks too.")] = False
    recompute: Annotated[Recompute, Meta(description="Activations that are computed again in the backward pass.")] = (
        "none"
    )
    flash_attention: Annotated[bool, Meta(description="Attention in one fused kernel.")] = True
    tensor_overlap: Annotated[bool, Meta(description="Tensor and pipeline exchange overlaps with compute.")] = False
    data_overlap: Annotated[bool, Meta(description="Gradient exchange overlaps with compute.")] = True
    gradient_bytes: Annotated[Literal[2, 4], Meta(description="Bytes of one gradient when it is reduced.")] = 4
    fused: Annotated[bool, Meta(description="Fused or compiled elementwise kernels, not eager ones.")] = True


def data_parallel(layout: Layout, gpu_count: int) -> int:
    """Replicas of the model: what the GPU count leaves (arXiv 2104.04473, section 3)."""
    return gpu_count // (layout.tensor * layout.pipeline * layout.context)


def microbatches(workload: Workload, layout: Layout, gpu_count: int) -> float:
    """Microbatches of a replica in one step, at least one (arXiv 2104.04473, section 3)."""
    return max(1.0, workload.global_batch_sequences / (data_parallel(layout, gpu_count) * layout.microbatch))


def tokens_per_microbatch(workload: Workload, layout: Layout) -> float:
    """Tokens of one microbatch that one GPU sees."""
    return layout.microbatch * workload.sequence_length / layout.context


def layer_weights(workload: Workload) -> int:
    """Weights of a layer's matrices: query and output, key and value, feed-forward (arXiv 2104.04473, section 3)."""
    query_and_output = 2 * workload.hidden * workload.heads * workload.head_dim
    key_and_value = 2 * workload.hidden * workload.kv_heads * workload.head_dim
    feed_forward = workload.ffn_matrices * workload.hidden * workload.ffn_hidden
    return query_and_output + key_and_value + feed_forward


def parameters_per_rank(workload: Workload, layout: Layout) -> float:
    """Parameters of one tensor and pipeline rank, before sharding; one vocabulary matrix, spread over the stages."""
    weights = workload.layers * layer_weights(workload) + workload.vocabulary * workload.hidden
    return weights / (layout.tensor * layout.pipeline)


def splits_evenly(layers: int, pieces: int) -> bool:
    """Whether layers make equal pieces, with the embedding and the loss counted as a layer each, or not at all.

    BLOOM has 70 layers in 12 stages (bigscience 176B chronicles), Llama 3 405B has 126 in 16 stages of 8
    chunks, the first and the last with one layer less (arXiv 2407.21783, section 3.3.2).
    """
    return layers % pieces == 0 or (layers + 2) % pieces == 0


@lru_cache(64)
def even_pieces(layers: int) -> tuple[int, ...]:
    """Into how many equal pieces they split, ascending."""
    return tuple(pieces for pieces in range(1, layers + 3) if splits_evenly(layers, pieces))


def context_degrees(sequence_length: int) -> tuple[int, ...]:
    """Powers of two that split a sequence, ascending."""
    powers = (2**power for power in range(MOST_CONTEXT.bit_length()))
    return tuple(degree for degree in powers if sequence_length % degree == 0)


def check_layout(workload: Workload, layout: Layout, gpu_count: int, at: str = "/work/layout") -> None:
    """BrokenRule with every reason why this layout cannot be, each at its field; `at` is where the layout stands."""
    faults = (
        *_tensor_faults(workload, layout, f"{at}/tensor"),
        *_stage_faults(workload, layout, at),
        *_context_faults(workload, layout, f"{at}/context"),
        *_count_faults(workload, layout, gpu_count, at),
    )
    if faults:
        raise BrokenRule(faults[0].message, faults)


def divisors(number: int) -> tuple[int, ...]:
    """Every divisor, ascending."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    large = [number // divisor for divisor in reversed(small)]
    return tuple(small + (large[1:] if small[-1] == large[0] else large))


def fits_heads(workload: Workload, tensor: int) -> bool:
    """Whether each tensor rank gets whole heads; key-value heads may be repeated (Megatron-LM, `arguments.py`)."""
    kv_heads = workload.kv_heads
    return workload.heads % tensor == 0 and (kv_heads % tensor == 0 or tensor % kv_heads == 0)


def fits_width(workload: Workload, tensor: int) -> bool:
    """Whether each tensor rank gets the same part of the feed-forward layer (arXiv 1909.08053, section 3)."""
    return workload.ffn_hidden % tensor == 0


def _tensor_faults(workload: Workload, layout: Layout, pointer: str) -> Iterator[Fault]:
    tensor = layout.tensor
    if fits_heads(workload, tensor) and fits_width(workload, tensor):
        return
    what_works = tuple(
        degree for degree in divisors(workload.heads) if fits_heads(workload, degree) and fits_width(workload, degree)
    )
    if not fits_heads(workload, tensor):
        heads = f"{workload.heads} heads with {workload.kv_heads} key-value heads"
        yield Fault(
            "body",
            pointer,
            f"A tensor degree of {tensor} does not split {heads}; {nearest_of(what_works, tensor)} would",
        )
    else:
        width = f"a feed-forward width of {workload.ffn_hidden}"
        yield Fault(
            "body",
            pointer,
            f"A tensor degree of {tensor} does not split {width}; {nearest_of(what_works, tensor)} would",
        )


def _stage_faults(workload: Workload, layout: Layout, at: str) -> Iterator[Fault]:
    layers, pipeline, interleave = workload.layers, layout.pipeline, layout.interleave
    if not splits_evenly(layers, pipeline):
        yield Fault(
            "body",
            f"{at}/pipeline",
            f"{layers} layers do not make {pipeline} equal stages, {_with_ends(layers)}; "
            f"{nearest_of(even_pieces(layers), pipeline)} would",
        )
    elif interleave > 1 and pipeline == 1:
        yield Fault("body", f"{at}/interleave", "Interleaving needs more than one pipeline stage; 1 would work")
    elif not splits_evenly(layers, pipeline * interleave):
        what_works = tuple(chunks for chunks in range(1, layers + 3) if splits_evenly(layers, pipeline * chunks))
        yield Fault(
            "body",
            f"{at}/interleave",
            f"{layers} layers do not make {pipeline} stages of {interleave} equal chunks, {_with_ends(layers)}; "
            f"{nearest_of(what_works, interleave)} would",
        )


def _with_ends(layers: int) -> str:
    """The other number of layers that was tried."""
    return f"nor do {layers + 2}, where the embedding and the loss count as a layer each"


def _context_faults(workload: Workload, layout: Layout, pointer: str) -> Iterator[Fault]:
    length, context = workload.sequence_length, layout.context
    if length % context:
        what_works = nearest_of(divisors(length), context)
        yield Fault(
            "body", pointer, f"A context degree of {context} does not split {length} tokens; {what_works} would"
        )


def _count_faults(workload: Workload, layout: Layout, gpu_count: int, at: str) -> Iterator[Fault]:
    """The GPU count against the degrees, then the replicas against the batch, then the microbatch."""
    replica = layout.tensor * layout.pipeline * layout.context
    batch, replicas = workload.global_batch_sequences, data_parallel(layout, gpu_count)
    if gpu_count % replica == 0 and batch % (replicas * layout.microbatch) == 0:
        return
    what_works = nearest_of([count * replica for count in divisors(batch)], gpu_count)
    if gpu_count % replica:
        message = (
            f"{gpu_count} GPUs do not make whole replicas of {replica} (tensor x pipeline x context); "
            f"{what_works} would"
        )
    elif replicas > batch:
        message = (
            f"{gpu_count} GPUs make {replicas} replicas, more than the batch has sequences ({batch}); {what_works} "
            f"GPUs would work, or a batch of {replicas}"
        )
    elif batch % replicas:
        message = (
            f"A batch of {batch} sequences does not make equal parts for {replicas} replicas; {what_works} GPUs "
            f"would, or a batch of {batch // replicas * replicas}"
        )
    elif (batch // replicas) % layout.microbatch:
        sequences = batch // replicas
        yield Fault(
            "body",
            f"{at}/microbatch",
            f"A microbatch of {layout.microbatch} does not divide the {sequences} sequences of a replica; "
            f"{nearest_of(divisors(sequences), layout.microbatch)} would",
        )
        return
    else:
        return
    yield Fault("body", "/cluster/gpu_count", message)


def nearest_of(possible: Collection[int], wanted: int) -> str:
    """The nearest possible numbers below and above the one that is not, in words."""
    below = max((number for number in possible if number < wanted), default=None)
    above = min((number for number in possible if number > wanted), default=None)
    return " or ".join(str(number) for number in (below, above) if number is not None)
