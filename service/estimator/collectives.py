"""How long GPUs take to exchange activations, weights and gradients, by bandwidth alone.

Latency and congestion are left out: below about 10,000 GPUs they changed nothing in the fit (see `constants`).
Bandwidths are per GPU and in one direction, and the ones reached.
"""

from typing import Literal

Sharding = Literal["ddp", "zero1", "zero2", "zero3"]

# BF16 weights and activations.
BYTES_PER_VALUE = 2
# Without a pipeline, ZeRO-2 can send gradients behind about four fifths of the step: not before the first
# layer's backward pass has made some. Assumed.
ZERO2_WINDOW_SHARE = 0.8


def ring_phase_seconds(size_bytes: float, ranks: int, bytes_per_second: float) -> float:
    """Time of a ring all-gather or reduce-scatter of `size_bytes` in all (Thakur et al. 2005, section 4)."""
    return size_bytes * (ranks - 1) / ranks / bytes_per_second


def ring_all_reduce_seconds(size_bytes: float, ranks: int, bytes_per_second: float) -> float:
    """Time for every rank to hold the sum: reduce-scatter, then all-gather (Thakur et al. 2005, section 4.5)."""
    return 2 * ring_phase_seconds(size_bytes, ranks, bytes_per_second)


def tensor_group_bytes_per_second(link: float, network: float, tensor: int, gpus_per_node: int) -> float:
    """Bandwidth of a tensor-parallel group: the link in a node; beyond it, all of a node's network ports together."""
    return link if tensor <= gpus_per_node else min(link, network * gpus_per_node)


def data_group_bytes_per_second(
    link: float, network: float, tensor: int, data_parallel: int, gpus_per_node: int
) -> float:
    """Bandwidth of a data-parallel group: the link if the group fits in a node, else the ports that it has there.

    Tensor ranks come first within a node (arXiv 2104.04473, section 3.1), so the members of one group in a
    node, each with a port, are what is left of it.
    """
    if tensor * data_parallel <= gpus_per_node:
        return link
    members_in_node = min(max(1, gpus_per_node // tensor), data_parallel)
    return min(link, network * members_in_node)


def tensor_all_reduces_per_layer(full_recompute: bool) -> int:
    """Two forward and two backward (arXiv 1909.08053, section 3); two more where the forward pass is repeated.

    With sequence parallelism each becomes a reduce-scatter and an all-gather, which move as much
    (arXiv 2205.05198, section 4.2.2).
    """
    return 6 if full_recompute else 4


def data_parallel_seconds(
    sharding: Sharding,
    parameters: float,
    gradient_bytes: int,
    ranks: int,
    bytes_per_second: float,
    microbatches: float,
) -> float:
    """Time of a step's exchange of gradients and weights, overlap apart (arXiv 1910.02054, section 7).

    ZeRO-1 and ZeRO-2 reduce-scatter gradients and all-gather weights once a step; ZeRO-3 gathers the weights
    twice, and scatters gradients, for every microbatch.
    """
    gradients_bytes, weights_bytes = gradient_bytes * parameters, BYTES_PER_VALUE * parameters
    if sharding == "ddp":
        return ring_all_reduce_seconds(gradients_bytes, ranks, bytes_per_second)
    scatter = ring_phase_seconds(gradients_bytes, ranks, bytes_per_second)
    gather = ring_phase_seconds(weights_bytes, ranks, bytes_per_second)
    if sharding == "zero3":
        return microbatches * (2 * gather + scatter)
    return scatter + gather


def overlap_window_seconds(
    sharding: Sharding, pipeline: int, microbatch_seconds: float, pipeline_seconds: float
) -> float:
    """The compute behind which that exchange can hide: the last microbatch, or the step where it goes on all along.

    arXiv 1910.02054, section 7 (when each stage communicates); arXiv 2304.11277, section 3.3 (FSDP's overlap).
    """
    if sharding == "zero3":
        return pipeline_seconds
    if sharding == "zero2" and pipeline == 1:
        return ZERO2_WINDOW_SHARE * pipeline_seconds
    return microbatch_seconds


def exposed_seconds(exchange_seconds: float, overlap: float, window_seconds: float) -> float:
    """What is left of an exchange of which the share `overlap` can hide, at most `window_seconds` of it.

    As the overlap windows of Calculon (Isaev et al., SC 2023), with one constant share.
    """
    hideable = overlap * exchange_seconds
    return (1 - overlap) * exchange_seconds + max(0.0, hideable - window_seconds)
