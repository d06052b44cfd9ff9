"""The formulas of one step of the analytic model: its microbatches, and the seconds of each part."""

from service.estimator import collectives, compute, pipeline
from service.estimator.answers import StepTime
from service.estimator.constants import SHIPPED
from service.estimator.evidence import Modelled
from service.estimator.formula import Page
from service.estimator.parallelism import (
    data_parallel,
    layer_weights,
    microbatches,
    parameters_per_rank,
    tokens_per_microbatch,
)
from service.units import PERCENT

_AT = "performance.step"
_LINEAR = "two operations a weight and token, twice that backward (arXiv 2001.08361, section 2.1)"
_FLASH = "causal half only; five products backward for two forward (FlashAttention-2, arXiv 2307.08691, section 4.1)"
_UNFUSED = "two products, the masked half included (arXiv 2104.04473, appendix); scores moved (arXiv 2205.05198, 4.1)"
_ELEMENTWISE = (
    "memory traffic of norms, activations and residuals (arXiv 2205.05198, section 4.2; service.estimator.constants)"
)
_LOGITS = "product with the vocabulary (arXiv 2104.04473, appendix), and the loss's memory traffic"
_BUBBLE = "arXiv 2104.04473, section 2.2.2"
_RING = "ring collectives by bandwidth alone (Thakur et al. 2005, section 4)"
_ZERO = "arXiv 1910.02054, section 7; what hides behind compute does not count, as in Calculon (Isaev et al., SC 2023)"


def step_pages(modelled: Modelled, step: StepTime, gpu_count: int) -> tuple[Page, ...]:
    """Every part of the step, and the step as their sum."""
    return (
        _microbatch_page(modelled, gpu_count),
        _compute_page(modelled, step, gpu_count),
        _exchange_page(modelled, step, gpu_count),
        _replicas_page(modelled, step, gpu_count),
        _whole_page(step),
    )


def _microbatch_page(modelled: Modelled, gpu_count: int) -> Page:
    page, layout, workload = Page(), modelled.layout, modelled.workload
    page.let("n", gpu_count, "GPU", "accelerators")
    page.let("t", layout.tensor, "1", "tensor degree")
    page.let("p", layout.pipeline, "1", "pipeline stages")
    page.let("x", layout.context, "1", "context degree")
    page.let("B", workload.global_batch_sequences, "sequence", "global batch")
    page.let("b", layout.microbatch, "sequence", "microbatch")
    page.let("r", data_parallel(layout, gpu_count), "1", "replicas")
    replicas = "n / (t * p * x)"
    page.write(
        "performance.layout.data", "Replicas", replicas, data_parallel(layout, gpu_count), "1", "arXiv 2104.04473, 3"
    )
    count = microbatches(workload, layout, gpu_count)
    page.write(None, "Microbatches of a replica", "max(1, B / (r * b))", count, "1", "arXiv 2104.04473, section 3")
    return page


def _compute_page(modelled: Modelled, step: StepTime, gpu_count: int) -> Page:
    """Kernels of a layer forward, and how often each runs: forward, backward, and again."""
    page, layout, workload, machine = Page(), modelled.layout, modelled.workload, modelled.machine
    tokens = tokens_per_microbatch(workload, layout)
    memory = machine.memory_bytes_per_second * SHIPPED.memory_efficiency
    gemm = machine.peak_flops_per_second * machine.gemm_efficiency
    unit_bytes = SHIPPED.fused_elementwise_bytes if layout.fused else SHIPPED.eager_elementwise_bytes
    for symbol, value, unit, meaning in (
        ("T", tokens, "token", "tokens of a microbatch that one accelerator sees"),
        ("W", layer_weights(workload), "parameter", "weights of a layer"),
        ("t", layout.tensor, "1", "tensor degree"),
        ("P", machine.peak_flops_per_second, "FLOP/s", "dense BF16 peak of one accelerator"),
        ("g", machine.gemm_efficiency, "1", "share of the peak that matrix products reach"),
        ("q", machine.attention_efficiency, "1", "share of the peak that fused attention reaches"),
        ("M", machine.memory_bytes_per_second, "B/s", "memory bandwidth"),
        ("y", SHIPPED.memory_efficiency, "1", "share of the memory's bandwidth that is reached"),
        ("s", workload.sequence_length, "token", "sequence length"),
        ("a", workload.heads, "head", "query heads"),
        ("d", workload.head_dim, "1", "width of a head"),
        ("h", workload.hidden, "1", "hidden width"),
        ("V", workload.vocabulary, "token", "vocabulary"),
        ("u", unit_bytes, "B", "memory traffic of a token and hidden unit"),
        ("l", SHIPPED.logit_bytes, "B", "memory traffic of a logit"),
        ("o", SHIPPED.softmax_bytes, "B", "memory traffic of an attention score"),
        ("L", workload.layers, "layer", "layers"),
        ("p", layout.pipeline, "1", "pipeline stages"),
        ("m", microbatches(workload, layout, gpu_count), "1", "microbatches of a replica"),
    ):
        page.let(symbol, value, unit, meaning)
    linear = compute.linear_seconds(tokens, layer_weights(workload) / layout.tensor, gemm)
    width = workload.heads / layout.tensor * workload.head_dim
    heads = workload.heads / layout.tensor
    if layout.flash_attention:
        rate = machine.peak_flops_per_second * machine.attention_efficiency
        attention = compute.flash_attention_seconds(tokens, workload.sequence_length, width, rate)
        attention_text, attention_source = "4 * 0.5 * T * s * a * d / (t * P * q)", _FLASH
        backward = compute.FLASH_BACKWARD_OVER_FORWARD
    else:
        attention = compute.unfused_attention_seconds(tokens, workload.sequence_length, width, gemm)
        attention += compute.softmax_seconds(tokens, workload.sequence_length, heads, SHIPPED.softmax_bytes, memory)
        attention_text = "4 * T * s * a * d / (t * P * g) + o * T * s * a / (t * M * y)"
        attention_source, backward = _UNFUSED, compute.BACKWARD_OVER_FORWARD
    split = layout.sequence_parallel
    elementwise = compute.elementwise_seconds(tokens, workload.hidden, unit_bytes, memory, layout.tensor, split)
    share = "1 / t" if split else "(0.5 + 0.5 / t)"
    vocabulary = workload.vocabulary / layout.tensor
    logits = compute.logit_product_seconds(tokens, workload.hidden, vocabulary, gemm)
    logits += compute.logit_traffic_seconds(tokens, vocabulary, SHIPPED.logit_bytes, memory)
    logits_text = "6 * T * h * V / (t * P * g) + l * T * V / (t * M * y)"
    page.write(None, "A layer's matrix products, forward", "2 * T * W / (t * P * g)", linear, "s", _LINEAR)
    page.write(None, "A layer's attention, forward", attention_text, attention, "s", attention_source)
    page.write(
        None, "A layer's elementwise kernels, forward", f"u * T * h / (M * y) * {share}", elementwise, "s", _ELEMENTWISE
    )
    page.write(None, "Logits and loss, forward and backward", logits_text, logits, "s", _LOGITS)
    page.let("F", linear, "s", "a layer's matrix products, forward")
    page.let("A", attention, "s", "a layer's attention, forward")
    page.let("E", elementwise, "s", "a layer's elementwise kernels, forward")
    page.let("Z", logits, "s", "logits and loss, forward and backward")
    times = 1 + compute.BACKWARD_OVER_FORWARD + (layout.recompute == "full")
    attention_times = 1 + backward + (layout.recompute != "none")
    page.write(
        f"{_AT}.compute_seconds",
        f"Compute of a step, recompute {layout.recompute}",
        f"m * (L / p * ({times:g} * (F + E) + {attention_times:g} * A) + Z / p)",
        step.compute_seconds,
        "s",
        "forward, twice that backward, and what is computed again (arXiv 2205.05198, section 5)",
    )
    page.let("N", parameters_per_rank(workload, layout), "parameter", "parameters of one tensor and pipeline rank")
    page.let("w", 1 if layout.sharding == "ddp" else data_parallel(layout, gpu_count), "1", "shards of their states")
    page.let("z", SHIPPED.optimizer_bytes, "B", "memory traffic of Adam, a parameter")
    page.write(
        f"{_AT}.optimizer_seconds",
        "Optimizer of a step",
        "z * N / w / (M * y)",
        step.optimizer_seconds,
        "s",
        "arXiv 1910.02054, section 3.1",
    )
    return page


def _exchange_page(modelled: Modelled, step: StepTime, gpu_count: int) -> Page:
    """Within a replica: tensor ranks, stages, and the bubble."""
    page, layout, workload, machine = Page(), modelled.layout, modelled.workload, modelled.machine
    link, network = _reached(modelled)
    rate = collectives.tensor_group_bytes_per_second(link, network, layout.tensor, machine.gpus_per_node)
    for symbol, value, unit, meaning in (
        ("m", microbatches(workload, layout, gpu_count), "1", "microbatches of a replica"),
        ("L", workload.layers, "layer", "layers"),
        ("p", layout.pipeline, "1", "pipeline stages"),
        ("v", layout.interleave, "1", "chunks of layers in a stage"),
        ("t", layout.tensor, "1", "tensor degree"),
        ("c", collectives.tensor_all_reduces_per_layer(layout.recompute == "full"), "1", "all-reduces of a layer"),
        ("T", tokens_per_microbatch(workload, layout), "token", "tokens of a microbatch that one accelerator sees"),
        ("h", workload.hidden, "1", "hidden width"),
        ("R", rate, "B/s", "bandwidth that the tensor group reaches"),
        ("S", min(link, network), "B/s", "bandwidth that stages reach"),
        ("o", SHIPPED.tensor_overlap if layout.tensor_overlap else 0.0, "1", "share that overlap hides"),
        ("C", step.compute_seconds, "s", "compute of a step"),
        ("X", step.tensor_communication_seconds, "s", "exchange of tensor ranks in a step"),
        ("Y", step.pipeline_communication_seconds, "s", "exchange of stages in a step"),
    ):
        page.let(symbol, value, unit, meaning)
    page.write(
        f"{_AT}.tensor_communication_seconds",
        "Exchange of tensor ranks that shows",
        "m * L / p * c * 2 * (2 * T * h) * (t - 1) / t / R * (1 - o)",
        step.tensor_communication_seconds,
        "s",
        f"{_RING}; two all-reduces forward and two backward (arXiv 1909.08053, section 3)",
    )
    if layout.pipeline > 1:
        split = " / t" if layout.sequence_parallel else ""
        page.write(
            f"{_AT}.pipeline_communication_seconds",
            "Exchange of stages that shows",
            f"m * 2 * v * (2 * T * h{split}) / S * (1 - o)",
            step.pipeline_communication_seconds,
            "s",
            f"{_BUBBLE}: activations on and gradients back, once a chunk",
        )
    page.write(
        f"{_AT}.bubble_seconds",
        "Pipeline bubble",
        "(C + X + Y) * (p - 1) / (v * m)",
        step.bubble_seconds,
        "s",
        f"(p - 1) / (v * m) of the time of all microbatches ({_BUBBLE})",
    )
    return page


def _replicas_page(modelled: Modelled, step: StepTime, gpu_count: int) -> Page:
    """Between replicas: gradients and weights."""
    page, layout, workload, machine = Page(), modelled.layout, modelled.workload, modelled.machine
    ranks, count = data_parallel(layout, gpu_count), microbatches(workload, layout, gpu_count)
    link, network = _reached(modelled)
    rate = collectives.data_group_bytes_per_second(link, network, layout.tensor, ranks, machine.gpus_per_node)
    held = parameters_per_rank(workload, layout)
    exchange = collectives.data_parallel_seconds(layout.sharding, held, layout.gradient_bytes, ranks, rate, count)
    one = (step.compute_seconds + step.tensor_communication_seconds + step.pipeline_communication_seconds) / count
    every = pipeline.pipeline_seconds(layout.pipeline, layout.interleave, count, one)
    for symbol, value, unit, meaning in (
        ("G", layout.gradient_bytes, "B", "of a gradient"),
        ("N", held, "parameter", "parameters of one tensor and pipeline rank"),
        ("r", ranks, "1", "replicas"),
        ("R", rate, "B/s", "bandwidth that the group of replicas reaches"),
        ("m", count, "1", "microbatches of a replica"),
        ("D", exchange, "s", "exchange of replicas in a step"),
        ("o", SHIPPED.data_overlap if layout.data_overlap else 0.0, "1", "share of it that can hide behind compute"),
        (
            "w",
            collectives.overlap_window_seconds(layout.sharding, layout.pipeline, one, every),
            "s",
            "compute behind which it can hide",
        ),
    ):
        page.let(symbol, value, unit, meaning)
    moved = {"ddp": "2 * G * N", "zero3": "m * (2 * 2 + G) * N"}.get(layout.sharding, "(G + 2) * N")
    page.write(
        None,
        f"Exchange of replicas, {layout.sharding}",
        f"{moved} * (r - 1) / r / R",
        exchange,
        "s",
        f"{_RING}; what each stage of ZeRO moves: arXiv 1910.02054, section 7",
    )
    page.write(
        f"{_AT}.exposed_data_parallel_seconds",
        "Exchange of replicas that shows",
        "(1 - o) * D + max(0, o * D - w)",
        step.exposed_data_parallel_seconds,
        "s",
        _ZERO,
    )
    return page


def _whole_page(step: StepTime) -> Page:
    page = Page()
    page.let("C", step.compute_seconds, "s", "compute")
    page.let("X", step.tensor_communication_seconds, "s", "exchange of tensor ranks")
    page.let("Y", step.pipeline_communication_seconds, "s", "exchange of stages")
    page.let("b", step.bubble_seconds, "s", "bubble")
    page.let("D", step.exposed_data_parallel_seconds, "s", "exchange of replicas that shows")
    page.let("O", step.optimizer_seconds, "s", "optimizer")
    page.let("T", step.total_seconds, "s", "seconds of a step")
    parts = "C + X + Y + b + D + O"
    page.write(f"{_AT}.total_seconds", "Seconds of a step", parts, step.total_seconds, "s", "the sum of its parts")
    page.write(
        f"{_AT}.waiting_percent",
        "Share of a step in which nothing is computed",
        f"max(0, {PERCENT} * (1 - (C + O) / T))",
        step.waiting_percent,
        "%",
        "what is neither compute nor optimizer",
    )
    return page


def _reached(modelled: Modelled) -> tuple[float, float]:
    """What collectives reach on the link in a node, and on the network between nodes."""
    machine = modelled.machine
    return (
        machine.link_bytes_per_second * SHIPPED.link_efficiency,
        machine.network_bytes_per_second * SHIPPED.network_efficiency,
    )
