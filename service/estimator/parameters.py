"""How many parameters a shape has: in all, at work on one token, and in adapters beside them.

Matrices only. The letters here and in the neighbouring files: L layers of
W = h*a*d + 2*h*kv*d + a*d*h + k*h*f parameters (h hidden, a heads, kv key/value heads, d head width, f inner
width, k matrices of the feed-forward block) and one or two embedding matrices of V*h.
"""

from functools import lru_cache
from typing import Literal

from service.errors import BrokenRule
from service.estimator.shapes import (
    ModelShape,
    dense_layers_of,
    head_dim_of,
    kv_heads_of,
    moe_layers_of,
)

LoraTarget = Literal["query", "key", "value", "output", "gate", "up", "down"]

_SHAPES_KEPT = 256  # an estimate asks the same of one shape many times


def attention_parameters(shape: ModelShape) -> int:
    """One layer's query, key, value and output matrices: h*a*d + 2*h*kv*d + a*d*h (Ainslie et al. 2023 for kv)."""
    if shape.attention_parameters_per_layer is not None:
        return shape.attention_parameters_per_layer
    return 2 * shape.hidden * head_dim_of(shape) * (shape.heads + kv_heads_of(shape))


def ffn_parameters(hidden: int, ffn_hidden: int, matrices: int) -> int:
    """One feed-forward block, or one expert: k*h*f (Shazeer 2020, for the third matrix)."""
    return matrices * hidden * ffn_hidden


@lru_cache(_SHAPES_KEPT)
def expert_parameters(shape: ModelShape) -> int:
    """All routed experts of all layers: what expert parallelism shares out; 0 in a dense model."""
    if shape.moe is None:
        return 0
    one = ffn_parameters(shape.hidden, shape.moe.expert_ffn_hidden, shape.ffn_matrices)
    return moe_layers_of(shape) * shape.moe.experts * one


def dense_layer_parameters(shape: ModelShape) -> int:
    """One layer with a dense feed-forward block: W."""
    return attention_parameters(shape) + ffn_parameters(shape.hidden, shape.ffn_hidden, shape.ffn_matrices)


def moe_layer_parameters(shape: ModelShape, routed_experts: int) -> int:
    """One layer with this many routed experts, the shared ones, and the router of h*E (DeepSeek-V3 report,
    arXiv 2412.19437, section 2.1)."""
    if shape.moe is None:
        return 0
    one = ffn_parameters(shape.hidden, shape.moe.expert_ffn_hidden, shape.ffn_matrices)
    router = shape.hidden * shape.moe.experts
    return attention_parameters(shape) + one * (routed_experts + shape.moe.shared_experts) + router


@lru_cache(_SHAPES_KEPT)
def layers_parameters(shape: ModelShape) -> int:
    """All layers, every expert counted."""
    return _layers(shape, 0 if shape.moe is None else shape.moe.experts)


@lru_cache(_SHAPES_KEPT)
def active_layers_parameters(shape: ModelShape) -> int:
    """All layers, of the experts only those that one token passes through."""
    return _layers(shape, 0 if shape.moe is None else shape.moe.experts_per_token)


@lru_cache(_SHAPES_KEPT)
def embedding_parameters(shape: ModelShape) -> int:
    """The embedding matrices: V*h, once if tied, else twice."""
    return (1 if shape.tied_embeddings else 2) * shape.vocabulary * shape.hidden


def total_parameters(shape: ModelShape) -> int:
    """Every parameter that is stored: for memory and checkpoints."""
    return layers_parameters(shape) + embedding_parameters(shape)


def active_parameters(shape: ModelShape) -> int:
    """Parameters that multiply one token: for FLOPs. The output matrix counts once, and looking up the input
    embedding is no multiplication, so that an untied dense model has V*h fewer than in all."""
    return active_layers_parameters(shape) + shape.vocabulary * shape.hidden


def lora_targets(shape: ModelShape) -> tuple[LoraTarget, ...]:
    """Every matrix of this shape that can have an adapter (QLoRA, Dettmers et al. 2023: all linear layers)."""
    return tuple(_adapted(shape, shape.ffn_hidden))


def check_lora_targets(shape: ModelShape, targets: tuple[LoraTarget, ...], pointer: str = "/work/lora/targets") -> None:
    """BrokenRule if a target is not in this shape: a gate where there are two matrices, or a single attention
    matrix where only their sum is known."""
    known = lora_targets(shape)
    missing = [target for target in targets if target not in known]
    if missing:
        detail = f"This shape has no {', '.join(missing)} to adapt; it has {', '.join(known)}"
        raise BrokenRule.at(pointer, detail)


def lora_parameters(shape: ModelShape, rank: int, targets: tuple[LoraTarget, ...]) -> int:
    """Parameters of the adapters, r*(in + out) for each matrix (Hu et al. 2021), every expert's included.

    A target that the shape does not have adds nothing: see `check_lora_targets`.
    """
    return _lora(shape, rank, targets, 0 if shape.moe is None else shape.moe.experts)


def active_lora_parameters(shape: ModelShape, rank: int, targets: tuple[LoraTarget, ...]) -> int:
    """Parameters of the adapters that one token passes through: for FLOPs."""
    return _lora(shape, rank, targets, 0 if shape.moe is None else shape.moe.experts_per_token)


def _layers(shape: ModelShape, routed_experts: int) -> int:
    dense = dense_layers_of(shape) * dense_layer_parameters(shape)
    return dense + moe_layers_of(shape) * moe_layer_parameters(shape, routed_experts)


def _lora(shape: ModelShape, rank: int, targets: tuple[LoraTarget, ...], routed_experts: int) -> int:
    in_dense = _sides(shape, targets, shape.ffn_hidden)
    sides = dense_layers_of(shape) * (in_dense["attention"] + in_dense["ffn"])
    if shape.moe is not None:
        in_expert = _sides(shape, targets, shape.moe.expert_ffn_hidden)
        experts = routed_experts + shape.moe.shared_experts
        sides += moe_layers_of(shape) * (in_expert["attention"] + experts * in_expert["ffn"])
    return rank * sides


def _sides(shape: ModelShape, targets: tuple[LoraTarget, ...], ffn_hidden: int) -> dict[str, int]:
    """Sum of inputs and outputs of the targeted matrices of one layer, and of one feed-forward block."""
    sums = {"attention": 0, "ffn": 0}
    for target, sides in _adapted(shape, ffn_hidden).items():
        if target in targets:
            sums["ffn" if target in {"gate", "up", "down"} else "attention"] += sides
    return sums


def _adapted(shape: ModelShape, ffn_hidden: int) -> dict[LoraTarget, int]:
    """Inputs plus outputs of each matrix that is known by itself."""
    ffn = shape.hidden + ffn_hidden
    sides: dict[LoraTarget, int] = {}
    if shape.attention_parameters_per_layer is None:
        query = shape.hidden + shape.heads * head_dim_of(shape)
        key = shape.hidden + kv_heads_of(shape) * head_dim_of(shape)
        sides |= {"query": query, "key": key, "value": key, "output": query}
    if shape.ffn_matrices == 3:
        sides["gate"] = ffn
    return sides | {"up": ffn, "down": ffn}
