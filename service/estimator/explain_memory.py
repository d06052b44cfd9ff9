"""The formulas of what the fullest accelerator holds: weights, gradients, optimizer, activations, logits, reserve."""

from service.estimator.answers import Memory
from service.estimator.evidence import Trained
from service.estimator.explain_model import layers_text, shape_page
from service.estimator.fewest import ROUNDING_BYTES, Fewest, in_whole_nodes
from service.estimator.formula import Page
from service.estimator.memory import (
    ACTIVATION_BYTES,
    GRADIENT_BYTES,
    NF4_BYTES,
    OVERHEAD_BYTES,
    UNSPLIT_ACTIVATION_BYTES,
    USABLE_SHARE,
    MemoryPlan,
    activation_bytes_per_layer,
    first_stage_layers,
    kept_per_unit,
    last_stage_layers,
    reserve_bytes,
    working_per_unit,
)
from service.estimator.parameters import (
    dense_layer_parameters,
    embedding_parameters,
    expert_parameters,
    layers_parameters,
    moe_layer_parameters,
)
from service.estimator.shapes import ModelShape, dense_layers_of, head_dim_of, kv_heads_of, moe_layers_of
from service.units import PERCENT

_STATES = (
    "2 bytes of weights, 4 (or 2) of gradients, 12 of FP32 master and Adam's moments a parameter (in FP32 4, 4 and 8), "
    "shared out by ZeRO's stage (Rajbhandari et al. 2019, arXiv 1910.02054)"
)
_ACTIVATIONS = "Korthikanti et al. 2022, arXiv 2205.05198, equations 1 to 6; flash attention keeps no scores (Dao 2022)"
_UNIT = "34 of a GPT layer at other widths; three matrices counted the same way, without dropout (arXiv 2205.05198)"
_RESERVE = "3 GB of context and buffers, and a tenth of the memory for fragments; assumed"
_CHECKPOINT = "2 bytes of weights, 4 of FP32 master, 8 of two moments a trained parameter; in FP32 no master"
_STEP = "what the count is a multiple of: whole replicas, and beyond one node whole nodes"
_ROOM = "what is shared over the room that the rest leaves, for the split that needs the fewest"


def memory_pages(trained: Trained, memory: Memory, gpu_count: int, gpus_per_node: int) -> tuple[Page, ...]:
    """Every part, and their sum."""
    whole = _whole(trained, memory)
    if trained.shape is None or trained.memory_plan is None:
        return _by_parameters(trained, memory, gpu_count, gpus_per_node), whole
    shape, plan = trained.shape, trained.memory_plan
    pages = _states(shape, trained, plan, memory), _activations(shape, plan, memory), whole
    if trained.smallest is None or memory.smallest_gpu_count is None:
        return pages
    return *pages, _smallest(trained.smallest, memory, memory.smallest_gpu_count, gpu_count)


def _whole(trained: Trained, memory: Memory) -> Page:
    page = Page()
    parts = [
        ("w", memory.weights_bytes, "weights"),
        ("g", memory.gradients_bytes, "gradients"),
        ("o", memory.optimizer_bytes, "optimizer"),
        ("a", memory.activations_bytes, "activations"),
        ("l", memory.logits_bytes, "logits"),
        ("r", memory.reserve_bytes, "reserve"),
    ]
    known = [(symbol, value, meaning) for symbol, value, meaning in parts if value is not None]
    for symbol, value, meaning in known:
        page.let(symbol, value, "B", meaning)
    page.let("Q", memory.capacity_bytes, "B", "usable memory of one accelerator")
    page.let("T", memory.total_bytes, "B", "all of it")
    page.let("N", trained.parameters if trained.training == "full" else trained.lora_parameters, "parameter", "trained")
    reserve = f"ceil({OVERHEAD_BYTES:g} + (1 - {USABLE_SHARE:g}) * Q)".replace("+09", "9")
    page.write("memory.reserve_bytes", "Reserve", reserve, memory.reserve_bytes, "B", _RESERVE)
    total = " + ".join(symbol for symbol, _, _ in known)
    page.write(
        "memory.total_bytes", "What one accelerator holds", total, memory.total_bytes, "B", "the sum of its parts"
    )
    page.write(
        "memory.used_percent", "Share of its memory", f"{PERCENT} * T / Q", memory.used_percent, "%", "by definition"
    )
    if memory.checkpoint_bytes:
        name, formula = "A checkpoint to resume from", f"{trained.numbers.checkpoint} * N"
        page.write("memory.checkpoint_bytes", name, formula, memory.checkpoint_bytes, "B", _CHECKPOINT)
    return page


def _by_parameters(trained: Trained, memory: Memory, gpu_count: int, gpus_per_node: int) -> Page:
    """Everything shared out over all accelerators."""
    page = Page()
    full = trained.training == "full"
    page.let("N", trained.parameters, "parameter", "parameters")
    page.let("n", gpu_count, "GPU", "accelerators")
    weight = NF4_BYTES if trained.training == "qlora" else trained.numbers.weight
    gradient, optimizer = (GRADIENT_BYTES, trained.numbers.optimizer) if full else (0, 0)
    for symbol, size, field, result in (
        ("w", weight, "weights", memory.weights_bytes),
        ("g", gradient, "gradients", memory.gradients_bytes),
        ("o", optimizer, "optimizer", memory.optimizer_bytes),
    ):
        page.let(symbol, size, "B", f"of {field}, a parameter")
        page.write(f"memory.{field}_bytes", field.capitalize(), f"ceil(N * {symbol} / n)", result, "B", _STATES)
    page.let("Q", memory.capacity_bytes, "B", "usable memory of one accelerator")
    page.let("r", reserve_bytes(memory.capacity_bytes), "B", "reserve")
    if memory.smallest_gpu_count is not None:
        room = memory.capacity_bytes - reserve_bytes(memory.capacity_bytes)
        _, step = in_whole_nodes(trained.parameters * (weight + gradient + optimizer) / room, gpus_per_node)
        page.let("k", step, "GPU", _STEP)
        formula = "ceil(max(1, N * (w + g + o) / (Q - r)) / k) * k"
        _write_smallest(page, formula, memory, memory.smallest_gpu_count, _STATES)
    return page


def _smallest(fewest: Fewest, memory: Memory, smallest: int, gpu_count: int) -> Page:
    """What all share over the room that the rest leaves."""
    page, layout = Page(), fewest.plan.layout
    split = f"tensor {layout.tensor}, pipeline {layout.pipeline}, context {layout.context}, expert {fewest.plan.expert}"
    split = f"{split}, {layout.sharding}, recompute {layout.recompute}"
    page.let("S", fewest.need.shared_bytes, "B", f"that the accelerators share in all, with {split}")
    page.let(
        "u", fewest.need.own_bytes, "B", "that each holds of its own: states that are not shared, activations, logits"
    )
    page.let("Q", memory.capacity_bytes, "B", "usable memory of one accelerator")
    page.let("r", memory.reserve_bytes, "B", "reserve")
    page.let("z", ROUNDING_BYTES, "B", "by which three parts are rounded up at most")
    page.let("k", fewest.step, "GPU", _STEP)
    page.let("n", gpu_count, "GPU", "accelerators")
    _write_smallest(page, "ceil(max(1, S / (Q - r - z - u)) / k) * k", memory, smallest, _ROOM)
    return page


def _write_smallest(page: Page, formula: str, memory: Memory, smallest: int, source: str) -> None:
    if memory.fits:
        formula = f"min(n, {formula})"
    page.write("memory.smallest_gpu_count", "The fewest accelerators", formula, smallest, "GPU", source)


def _states(shape: ModelShape, trained: Trained, plan: MemoryPlan, memory: Memory) -> Page:
    page, layout = shape_page(shape), plan.layout
    sharding, full = layout.sharding, trained.training == "full"
    layer_bytes = NF4_BYTES if trained.training == "qlora" else plan.numbers.weight
    experts = expert_parameters(shape)
    layers = [dense_layer_parameters(shape)] if dense_layers_of(shape) else []
    routed = 0
    if shape.moe is not None:
        without = moe_layer_parameters(shape, 0)
        routed = moe_layer_parameters(shape, shape.moe.experts) - without
        layers.append(without + routed // plan.expert)
    for symbol, value, unit, meaning in (
        ("t", layout.tensor, "1", "tensor degree"),
        ("p", layout.pipeline, "1", "pipeline stages"),
        ("r", plan.data * layout.context, "1", "replicas, context degree included"),
        ("x", plan.expert, "1", "expert degree"),
        ("q", layer_bytes, "B", "of a weight of a layer"),
        ("z", layout.gradient_bytes, "B", "of a gradient"),
        ("Nl", layers_parameters(shape) - experts, "parameter", "in layers, routed experts apart"),
        ("Ne", embedding_parameters(shape), "parameter", "in embeddings"),
        ("Nx", experts, "parameter", "in routed experts"),
        ("Nw", max(layers), "parameter", "of the largest layer, gathered for its turn"),
        ("A", trained.lora_parameters, "parameter", "parameters of the adapters"),
        ("N", trained.parameters, "parameter", "parameters"),
    ):
        page.let(symbol, value, unit, meaning)
    page.write(
        None,
        "Parameters in layers, every expert counted",
        layers_text(shape, "X"),
        layers_parameters(shape),
        "parameter",
        "matrices only",
    )
    others = f"q * Nl + {plan.numbers.weight} * Ne"
    unsplit = f"({others} + q * Nx / x) / (t * p)" if experts else f"({others}) / (t * p)"
    weights = unsplit
    if sharding == "zero3":
        shard = f"({others} + q * Nx) / (t * p * r)" if experts else f"({others}) / (t * p * r)"
        weights = f"min({unsplit}, {shard} + 2 * q * Nw / t)"
    here = "A" if not full else "N - Nx + Nx / x" if experts else "N"
    in_all = "A" if not full else "N"

    def shared_out(by: frozenset[str]) -> str:
        return f"({in_all} / (t * p * r))" if sharding in by else f"(({here}) / (t * p))"

    if not full:
        weights += f" + {plan.numbers.weight} * {shared_out(frozenset({'zero3'}))}"
    gradients = f"z * {shared_out(frozenset({'zero2', 'zero3'}))}"
    optimizer = f"{plan.numbers.optimizer} * {shared_out(frozenset({'zero1', 'zero2', 'zero3'}))}"
    source = f"{_STATES}: {sharding}"
    page.write("memory.weights_bytes", "Weights", f"ceil({weights})", memory.weights_bytes, "B", source)
    page.write("memory.gradients_bytes", "Gradients", f"ceil({gradients})", memory.gradients_bytes, "B", source)
    page.write("memory.optimizer_bytes", "Optimizer", f"ceil({optimizer})", memory.optimizer_bytes, "B", source)
    return page


def _activations(shape: ModelShape, plan: MemoryPlan, memory: Memory) -> Page:
    """Of a layer, and of the stage that holds the most."""
    page, layout = Page(), plan.layout
    assert memory.activations_bytes is not None  # a shape says them
    assert memory.logits_bytes is not None
    stage = layout.pipeline == 1 or memory.logits_bytes == 0
    for symbol, value, unit, meaning in (
        ("s", plan.sequence_length, "token", "sequence length"),
        ("b", layout.microbatch, "sequence", "microbatch"),
        ("x", layout.context, "1", "context degree"),
        ("h", shape.hidden, "1", "hidden width"),
        ("a", shape.heads, "head", "query heads"),
        ("t", layout.tensor, "1", "tensor degree"),
        ("p", layout.pipeline, "1", "pipeline stages"),
        ("v", layout.interleave, "1", "chunks of layers in a stage"),
        ("L", shape.layers, "layer", "layers"),
        ("V", shape.vocabulary, "token", "vocabulary"),
    ):
        page.let(symbol, value, unit, meaning)
    unit_bytes, working = _units(page, shape)
    page.let("u", unit_bytes, "B", "of a token and hidden unit in a layer")
    kept = _layer(page, plan, shape, unit_bytes, layout.recompute)
    page.let("K", kept, "B", "kept of a layer")
    layers, formula = _held_layers(shape, plan, first=stage)
    name = "Layers' worth on the " + ("first" if stage else "last") + " stage"
    page.write(None, name, formula, layers, "layer", "1F1B: arXiv 2205.05198, section 4.2.3; arXiv 2104.04473, 2.2")
    page.let("l", layers, "layer", "layers' worth of activations")
    formula = "l * K"
    if layout.recompute == "full":
        at_work_bytes = working_per_unit(shape)
        page.write(None, "Activation bytes of the layer at work", working, at_work_bytes, "B", _UNIT)
        page.let("u", at_work_bytes, "B", "of a token and hidden unit in the layer at work")
        at_work = _layer(page, plan, shape, at_work_bytes, "none")
        page.let("Y", at_work, "B", "of the layer at work")
        formula = "l * K + Y"
    page.write(
        "memory.activations_bytes", "Activations", f"ceil({formula})", memory.activations_bytes, "B", _ACTIVATIONS
    )
    if memory.logits_bytes:
        source = "logits and their gradient in FP32, on the last stage"
        page.write(
            "memory.logits_bytes", "Logits", "ceil(2 * 4 * s * (b / x) * V / t)", memory.logits_bytes, "B", source
        )
    return page


def _units(page: Page, shape: ModelShape) -> tuple[float, str]:
    """What the units of a layer are made of; the bytes kept of one, and the formula of those of the layer at work."""
    page.let("f", shape.ffn_hidden, "1", "inner width of a feed-forward block")
    page.let("d", head_dim_of(shape), "1", "width of a head")
    page.let("kv", kv_heads_of(shape), "head", "key and value heads")
    three = shape.ffn_matrices == 3
    least = "8 + (4 * (a * d + kv * d) + 6 * {0}) / h" if three else "18 + 4 * {0} / h"
    working = "18 + 8 * {0} / h" if three else "18 + 4 * {0} / h"
    kept, at_work = (_over_layers(page, shape, formula) for formula in (least, working))
    average = kept_per_unit(shape)
    page.write(None, "Activation bytes kept of a token and hidden unit", kept, average, "B", _UNIT)
    return average, at_work


def _over_layers(page: Page, shape: ModelShape, formula: str) -> str:
    """The formula of one block's width, averaged over layers with and without experts."""
    if shape.moe is None:
        return formula.format("f")
    page.let("g", shape.moe.expert_ffn_hidden, "1", "inner width of an expert")
    page.let("k", shape.moe.experts_per_token, "expert", "routed experts that a token passes through")
    page.let("S", shape.moe.shared_experts, "expert", "experts that every token passes through")
    page.let("Ld", dense_layers_of(shape), "layer", "layers without experts")
    page.let("Lx", moe_layers_of(shape), "layer", "layers with experts")
    mixed = formula.format("g * (k + S)")
    return f"(Ld * ({formula.format('f')}) + Lx * ({mixed} + 2 * k)) / L"


def _layer(page: Page, plan: MemoryPlan, shape: ModelShape, unit_bytes: float, recompute: str) -> float:
    """What one layer keeps, with this much recompute."""
    layout = plan.layout
    mode = "selective" if layout.flash_attention and recompute == "none" else recompute
    units = "s * (b / x) * h" + (" * 2" if plan.numbers.activation > ACTIVATION_BYTES else "")
    core = "" if mode == "selective" else " + 5 * a * s / h"
    if mode == "full":
        formula = f"2 * {units}" + (" / t" if layout.sequence_parallel else "")
    elif layout.sequence_parallel:
        formula = f"{units} * (u{core}) / t"
    else:
        least = UNSPLIT_ACTIVATION_BYTES
        formula = f"{units} * ({least} + (u - {least}{core}) / t)"
    wider = plan.numbers.activation / ACTIVATION_BYTES
    kept = wider * activation_bytes_per_layer(
        plan.sequence_length,
        layout.microbatch / layout.context,
        shape.hidden,
        shape.heads,
        layout.tensor,
        layout.sequence_parallel,
        "full" if mode == "full" else "selective" if mode == "selective" else "none",
        unit_bytes,
    )
    page.write(None, f"What a layer keeps, recompute {recompute}", formula, kept, "B", _ACTIVATIONS)
    return float(kept)


def _held_layers(shape: ModelShape, plan: MemoryPlan, *, first: bool) -> tuple[float, str]:
    layout = plan.layout
    if layout.pipeline == 1:
        return float(shape.layers), "L"
    if not first:
        layers = last_stage_layers(shape.layers, layout.pipeline, layout.interleave)
        return float(layers), "L * ((v - 1) * p + 1) / (p * v)"
    layers = first_stage_layers(shape.layers, layout.pipeline, layout.interleave)
    return float(layers), "L * (1 + (p - 1) / (p * v))" if layout.interleave > 1 else "L"
