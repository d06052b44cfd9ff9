"""One training step: the seconds that each part of it takes, and the tokens per second that they make.

The analytic model: kernels at a share of their peaks, recompute, memory traffic, exchange by bandwidth alone,
the pipeline's bubble. It was checked on dense transformers on A100 and H100, tensor parallelism within a node,
at least 100 Gb/s for each GPU, sequences up to 32k; it knows no exchange between experts, and none within
context-parallel groups.
"""

from functools import lru_cache

from msgspec import Struct

from service.estimator import collectives, compute, pipeline
from service.estimator.constants import SHIPPED, StepConstants
from service.estimator.parallelism import (
    Layout,
    Workload,
    data_parallel,
    layer_weights,
    microbatches,
    parameters_per_rank,
    tokens_per_microbatch,
)


class Machine(Struct, frozen=True, kw_only=True):
    """One GPU and its links, each per GPU and in one direction; nothing in it may be unknown."""

    peak_flops_per_second: float
    memory_bytes_per_second: float
    link_bytes_per_second: float
    network_bytes_per_second: float
    gpus_per_node: int
    gemm_efficiency: float
    attention_efficiency: float


class Microbatch(Struct, frozen=True):
    """What one microbatch costs a stage. Forward and backward, with what is computed again."""

    compute_seconds: float
    tensor_communication_seconds: float
    pipeline_communication_seconds: float
    total_seconds: float


class StepSeconds(Struct, frozen=True):
    """One optimizer step by part; the total is their sum."""

    compute_seconds: float
    tensor_communication_seconds: float
    pipeline_communication_seconds: float
    bubble_seconds: float
    exposed_data_parallel_seconds: float
    optimizer_seconds: float
    total_seconds: float


@lru_cache(1024)
def step_seconds(
    workload: Workload, machine: Machine, layout: Layout, gpu_count: int, constants: StepConstants = SHIPPED
) -> StepSeconds:
    """One step of a layout that `check_layout` has passed."""
    microbatch = microbatch_seconds(workload, machine, layout, constants)
    return whole_step_seconds(microbatch, workload, machine, layout, gpu_count, constants)


def microbatch_seconds(
    workload: Workload, machine: Machine, layout: Layout, constants: StepConstants = SHIPPED
) -> Microbatch:
    """One microbatch through one stage; the logits spread over the stages, as in the fit."""
    return handed_on(stage_seconds(workload, machine, layout, constants), workload, machine, layout, constants)


def stage_seconds(
    workload: Workload, machine: Machine, layout: Layout, constants: StepConstants = SHIPPED
) -> tuple[float, float]:
    """Compute and tensor exchange of one microbatch in one stage, however many chunks the stage has."""
    layers = workload.layers / layout.pipeline
    compute_seconds = layers * _layer_compute_seconds(workload, machine, layout, constants)
    compute_seconds += _logit_seconds(workload, machine, layout, constants) / layout.pipeline
    return compute_seconds, layers * _layer_exchange_seconds(workload, machine, layout, constants)


def handed_on(
    stage: tuple[float, float],
    workload: Workload,
    machine: Machine,
    layout: Layout,
    constants: StepConstants = SHIPPED,
) -> Microbatch:
    """The same with the exchange between stages, once for every chunk."""
    compute_seconds, tensor_seconds = stage
    transfer_seconds = _transfer_seconds(workload, machine, layout, constants)
    return Microbatch(
        compute_seconds=compute_seconds,
        tensor_communication_seconds=tensor_seconds,
        pipeline_communication_seconds=transfer_seconds,
        total_seconds=compute_seconds + tensor_seconds + transfer_seconds,
    )


def whole_step_seconds(
    microbatch: Microbatch,
    workload: Workload,
    machine: Machine,
    layout: Layout,
    gpu_count: int,
    constants: StepConstants = SHIPPED,
) -> StepSeconds:
    """All microbatches, the bubble, the exchange between replicas that shows, and the optimizer."""
    count = microbatches(workload, layout, gpu_count)
    parts = {
        "compute_seconds": microbatch.compute_seconds * count,
        "tensor_communication_seconds": microbatch.tensor_communication_seconds * count,
        "pipeline_communication_seconds": microbatch.pipeline_communication_seconds * count,
        "bubble_seconds": pipeline.bubble_seconds(layout.pipeline, layout.interleave, microbatch.total_seconds),
        "exposed_data_parallel_seconds": _exposed_seconds(microbatch, workload, machine, layout, gpu_count, constants),
        "optimizer_seconds": _optimizer_seconds(workload, machine, layout, gpu_count, constants),
    }
    return StepSeconds(**parts, total_seconds=sum(parts.values()))


def tokens_per_second_per_gpu(workload: Workload, seconds: float, gpu_count: int) -> float:
    """Tokens of the batch over the step's seconds and the GPUs."""
    return workload.global_batch_sequences * workload.sequence_length / seconds / gpu_count


def _layer_compute_seconds(workload: Workload, machine: Machine, layout: Layout, constants: StepConstants) -> float:
    """One layer forward, backward, and what is computed again."""
    tokens = tokens_per_microbatch(workload, layout)
    memory = _memory_bytes_per_second(machine, constants)
    gemm = machine.peak_flops_per_second * machine.gemm_efficiency
    linear = compute.linear_seconds(tokens, layer_weights(workload) / layout.tensor, gemm)
    attention, attention_backward = _attention_seconds(workload, machine, layout, constants)
    elementwise = compute.elementwise_seconds(
        tokens,
        workload.hidden,
        constants.fused_elementwise_bytes if layout.fused else constants.eager_elementwise_bytes,
        memory,
        layout.tensor,
        layout.sequence_parallel,
    )
    forward = linear + attention + elementwise
    backward = compute.BACKWARD_OVER_FORWARD * (linear + elementwise) + attention_backward
    return forward + backward + compute.recompute_seconds(layout.recompute, attention, forward)


def _attention_seconds(
    workload: Workload, machine: Machine, layout: Layout, constants: StepConstants
) -> tuple[float, float]:
    """Attention of one layer, forward and backward."""
    tokens, length = tokens_per_microbatch(workload, layout), workload.sequence_length
    heads = workload.heads / layout.tensor
    width = heads * workload.head_dim
    if layout.flash_attention:
        rate = machine.peak_flops_per_second * machine.attention_efficiency
        forward = compute.flash_attention_seconds(tokens, length, width, rate)
        return forward, compute.FLASH_BACKWARD_OVER_FORWARD * forward
    gemm = machine.peak_flops_per_second * machine.gemm_efficiency
    forward = compute.unfused_attention_seconds(tokens, length, width, gemm)
    memory = _memory_bytes_per_second(machine, constants)
    forward += compute.softmax_seconds(tokens, length, heads, constants.softmax_bytes, memory)
    return forward, compute.BACKWARD_OVER_FORWARD * forward


def _logit_seconds(workload: Workload, machine: Machine, layout: Layout, constants: StepConstants) -> float:
    """The product with the vocabulary and the loss, forward and backward."""
    tokens, vocabulary = tokens_per_microbatch(workload, layout), workload.vocabulary / layout.tensor
    gemm = machine.peak_flops_per_second * machine.gemm_efficiency
    memory = _memory_bytes_per_second(machine, constants)
    product = compute.logit_product_seconds(tokens, workload.hidden, vocabulary, gemm)
    return product + compute.logit_traffic_seconds(tokens, vocabulary, constants.logit_bytes, memory)


def _layer_exchange_seconds(workload: Workload, machine: Machine, layout: Layout, constants: StepConstants) -> float:
    """The tensor-parallel all-reduces of one layer that overlap does not hide."""
    link, network = _reached_bytes_per_second(machine, constants)
    rate = collectives.tensor_group_bytes_per_second(link, network, layout.tensor, machine.gpus_per_node)
    size_bytes = collectives.BYTES_PER_VALUE * tokens_per_microbatch(workload, layout) * workload.hidden
    count = collectives.tensor_all_reduces_per_layer(layout.recompute == "full")
    return count * collectives.ring_all_reduce_seconds(size_bytes, layout.tensor, rate) * _shown(layout, constants)


def _transfer_seconds(workload: Workload, machine: Machine, layout: Layout, constants: StepConstants) -> float:
    """The exchange between pipeline stages that overlap does not hide; the slowest pair of stages counts."""
    if layout.pipeline == 1:
        return 0.0
    transfer = pipeline.stage_transfer_seconds(
        tokens_per_microbatch(workload, layout),
        workload.hidden,
        layout.interleave,
        layout.tensor,
        layout.sequence_parallel,
        min(_reached_bytes_per_second(machine, constants)),
    )
    return transfer * _shown(layout, constants)


def _exposed_seconds(
    microbatch: Microbatch,
    workload: Workload,
    machine: Machine,
    layout: Layout,
    gpu_count: int,
    constants: StepConstants,
) -> float:
    """The exchange between replicas that does not hide behind compute."""
    ranks, count = data_parallel(layout, gpu_count), microbatches(workload, layout, gpu_count)
    link, network = _reached_bytes_per_second(machine, constants)
    exchange = collectives.data_parallel_seconds(
        layout.sharding,
        parameters_per_rank(workload, layout),
        layout.gradient_bytes,
        ranks,
        collectives.data_group_bytes_per_second(link, network, layout.tensor, ranks, machine.gpus_per_node),
        count,
    )
    all_microbatches = pipeline.pipeline_seconds(layout.pipeline, layout.interleave, count, microbatch.total_seconds)
    window = collectives.overlap_window_seconds(
        layout.sharding, layout.pipeline, microbatch.total_seconds, all_microbatches
    )
    overlap = constants.data_overlap if layout.data_overlap else 0.0
    return collectives.exposed_seconds(exchange, overlap, window)


def _optimizer_seconds(
    workload: Workload, machine: Machine, layout: Layout, gpu_count: int, constants: StepConstants
) -> float:
    """The update of the parameters whose states one GPU holds."""
    shards = 1 if layout.sharding == "ddp" else data_parallel(layout, gpu_count)
    held = parameters_per_rank(workload, layout) / shards
    return compute.optimizer_seconds(held, constants.optimizer_bytes, _memory_bytes_per_second(machine, constants))


def _memory_bytes_per_second(machine: Machine, constants: StepConstants) -> float:
    return machine.memory_bytes_per_second * constants.memory_efficiency


def _reached_bytes_per_second(machine: Machine, constants: StepConstants) -> tuple[float, float]:
    """What collectives reach on the link in a node, and on the network between nodes."""
    return (
        machine.link_bytes_per_second * constants.link_efficiency,
        machine.network_bytes_per_second * constants.network_efficiency,
    )


def _shown(layout: Layout, constants: StepConstants) -> float:
    """The share of the exchange within a replica that overlap leaves."""
    return 1 - constants.tensor_overlap if layout.tensor_overlap else 1.0
