"""How long the kernels of a layer, of the logits and of the optimizer take on one GPU.

Every function takes what one GPU holds: `weights` and `width` are already divided by the tensor-parallel degree,
`tokens` by the context-parallel one. Rates are the ones reached, not the peaks.
"""

from typing import Literal

Recompute = Literal["none", "selective", "full"]

# arXiv 2001.08361, section 2.1: a multiplication and an addition for each weight and token; twice that backward.
FLOPS_PER_WEIGHT = 2
BACKWARD_OVER_FORWARD = 2.0
# Q x K^T and scores x V: two products, each 2 FLOPs per token, position and unit (arXiv 2104.04473, appendix).
ATTENTION_FLOPS = 4
# FlashAttention leaves out the masked half, and its backward pass has five products to the forward pass's two
# (arXiv 2307.08691, section 4.1).
CAUSAL_SHARE = 0.5
FLASH_BACKWARD_OVER_FORWARD = 2.5


def linear_seconds(tokens: float, weights: float, flops_per_second: float) -> float:
    """Forward time of a layer's matrix products with weights (arXiv 2001.08361, section 2.1)."""
    return FLOPS_PER_WEIGHT * tokens * weights / flops_per_second


def flash_attention_seconds(tokens: float, sequence_length: int, width: float, flops_per_second: float) -> float:
    """Forward time of causal attention in a fused kernel (arXiv 2307.08691, section 4.1).

    `width` is heads times head dimension.
    """
    return ATTENTION_FLOPS * CAUSAL_SHARE * tokens * sequence_length * width / flops_per_second


def unfused_attention_seconds(tokens: float, sequence_length: int, width: float, flops_per_second: float) -> float:
    """Forward time of attention's two matrix products, the masked half included (arXiv 2104.04473, appendix)."""
    return ATTENTION_FLOPS * tokens * sequence_length * width / flops_per_second


def softmax_seconds(
    tokens: float, sequence_length: int, heads: float, bytes_per_score: float, bytes_per_second: float
) -> float:
    """Forward time of moving the scores through memory without a fused kernel (arXiv 2205.05198, section 4.1)."""
    return bytes_per_score * tokens * sequence_length * heads / bytes_per_second


def elementwise_seconds(
    tokens: float, hidden: int, bytes_per_unit: float, bytes_per_second: float, tensor: int, sequence_parallel: bool
) -> float:
    """Forward time of norms, activations and residuals, which memory limits.

    Tensor parallelism splits about half of that traffic; sequence parallelism splits the rest too
    (arXiv 2205.05198, section 4.2).
    """
    share = 1 / tensor if sequence_parallel else 0.5 + 0.5 / tensor
    return bytes_per_unit * tokens * hidden / bytes_per_second * share


def logit_product_seconds(tokens: float, hidden: int, vocabulary: float, flops_per_second: float) -> float:
    """Forward and backward time of the product with the vocabulary (arXiv 2104.04473, appendix)."""
    flops_per_weight = FLOPS_PER_WEIGHT * (1 + BACKWARD_OVER_FORWARD)
    return flops_per_weight * tokens * hidden * vocabulary / flops_per_second


def logit_traffic_seconds(tokens: float, vocabulary: float, bytes_per_logit: float, bytes_per_second: float) -> float:
    """Time of moving the logits through memory, forward and backward (`constants.logit_bytes`)."""
    return bytes_per_logit * tokens * vocabulary / bytes_per_second


def recompute_seconds(recompute: Recompute, attention_seconds: float, forward_seconds: float) -> float:
    """Time of what the backward pass computes again: nothing, attention, or the layer (arXiv 2205.05198, section 5)."""
    match recompute:
        case "none":
            return 0.0
        case "selective":
            return attention_seconds
        case "full":
            return forward_seconds


def optimizer_seconds(parameters: float, bytes_per_parameter: float, bytes_per_second: float) -> float:
    """Time of the Adam step over the parameters whose states this GPU holds (arXiv 1910.02054, section 3.1)."""
    return bytes_per_parameter * parameters / bytes_per_second
