"""The shape of a transformer: what it is made of, and when such a thing cannot be."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.errors import BrokenRule, Fault

Layers = Annotated[int, Meta(ge=1, le=1000, description="Transformer layers.", examples=[32, 80])]
Hidden = Annotated[int, Meta(ge=1, le=1_000_000, description="Width of the residual stream.", examples=[4096, 8192])]
Heads = Annotated[int, Meta(ge=1, le=100_000, description="Query heads of a layer.", examples=[32, 64])]
FfnHidden = Annotated[
    int,
    Meta(
        ge=1,
        le=10_000_000,
        description="Inner width of a dense feed-forward block; unused where every layer has experts.",
        examples=[14336, 28672],
    ),
]
FfnMatrices = Annotated[
    Literal[2, 3], Meta(description="Matrices of a feed-forward block: 2 (GELU, ReLU) or 3 (SwiGLU, GeGLU).")
]
Vocabulary = Annotated[
    int, Meta(ge=1, le=10_000_000, description="Tokens in the vocabulary, with padding.", examples=[32000, 128256])
]


class MixtureOfExperts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Experts in place of the feed-forward block, in every layer but the first `dense_layers`."""

    experts: Annotated[int, Meta(ge=1, le=100_000, description="Routed experts of a layer.", examples=[8, 256])]
    experts_per_token: Annotated[
        int, Meta(ge=1, le=100_000, description="Routed experts that one token passes through.", examples=[2, 8])
    ]
    shared_experts: Annotated[
        int, Meta(ge=0, le=1000, description="Experts of a layer that every token passes through.")
    ] = 0
    expert_ffn_hidden: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Inner width of one expert.", examples=[2048, 14336])
    ]
    dense_layers: Annotated[
        int, Meta(ge=0, le=1000, description="Leading layers that have a dense feed-forward block instead.")
    ] = 0


class ModelShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a decoder-only transformer is made of. Biases, norms and position tables are left out: together
    they are well under 1 % of the parameters."""

    layers: Layers
    hidden: Hidden
    heads: Heads
    kv_heads: (
        Annotated[int, Meta(ge=1, le=100_000, description="Key and value heads of a layer; null: as many as heads.")]
        | None
    ) = None
    head_dim: (
        Annotated[
            int, Meta(ge=1, le=100_000, description="Width of one head; null: hidden divided by heads.", examples=[128])
        ]
        | None
    ) = None
    ffn_hidden: FfnHidden
    ffn_matrices: FfnMatrices = 3
    vocabulary: Vocabulary
    tied_embeddings: Annotated[bool, Meta(description="Whether input and output share one embedding matrix.")] = False
    moe: Annotated[
        MixtureOfExperts | None, Meta(description="The experts of a mixture of experts; null: a dense model.")
    ] = None
    attention_parameters_per_layer: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=10**13,
                description="Parameters of one layer's attention projections, where heads do not say it "
                "(multi-head latent attention); null: by heads and head_dim.",
            ),
        ]
        | None
    ) = None


def kv_heads_of(shape: ModelShape) -> int:
    """Key and value heads: as given, else one for every query head."""
    return shape.heads if shape.kv_heads is None else shape.kv_heads


def head_dim_of(shape: ModelShape) -> int:
    """Width of one head: as given, else hidden shared out among the heads."""
    return shape.hidden // shape.heads if shape.head_dim is None else shape.head_dim


def moe_layers_of(shape: ModelShape) -> int:
    """Layers that have experts; 0 in a dense model."""
    return 0 if shape.moe is None else shape.layers - shape.moe.dense_layers


def dense_layers_of(shape: ModelShape) -> int:
    """Layers that have a dense feed-forward block."""
    return shape.layers - moe_layers_of(shape)


def check_shape(shape: ModelShape, pointer: str = "/work/shape") -> None:
    """BrokenRule with every fault of a shape that cannot be, each at its own field under `pointer`."""
    faults = tuple(Fault("body", pointer + field, message) for field, message in _faults(shape))
    if faults:
        raise BrokenRule(" ".join(f"{fault.message}." for fault in faults), faults)


def _faults(shape: ModelShape) -> list[tuple[str, str]]:
    faults = []
    kv_heads = kv_heads_of(shape)
    if shape.heads % kv_heads:
        largest = max(fit for fit in range(1, min(kv_heads, shape.heads) + 1) if shape.heads % fit == 0)
        faults.append(("/kv_heads", f"{kv_heads} does not divide the {shape.heads} heads; {largest} would"))
    if shape.head_dim is None and shape.hidden % shape.heads:
        message = f"hidden ({shape.hidden}) is no multiple of heads ({shape.heads}): give head_dim"
        faults.append(("/head_dim", message))
    if shape.moe is not None:
        faults.extend(_moe_faults(shape.moe, shape.layers))
    return faults


def _moe_faults(moe: MixtureOfExperts, layers: int) -> list[tuple[str, str]]:
    faults = []
    if moe.experts_per_token > moe.experts:
        message = f"A token cannot pass through {moe.experts_per_token} of {moe.experts} experts"
        faults.append(("/moe/experts_per_token", message))
    if moe.dense_layers >= layers:
        message = f"Of {layers} layers at most {layers - 1} can be dense: the others have the experts"
        faults.append(("/moe/dense_layers", message))
    return faults
