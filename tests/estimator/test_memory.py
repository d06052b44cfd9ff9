"""Bytes on one GPU against published figures, each with its table; the fewest GPUs; and laws of both."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.collectives import Sharding
from service.estimator.fewest import in_whole_nodes, minimum_fsdp_gpu_count, minimum_gpu_count
from service.estimator.memory import (
    BF16_GRADIENT_BYTES,
    NF4_BYTES,
    WEIGHT_BYTES,
    GpuMemory,
    MemoryPlan,
    activation_bytes_per_layer,
    activation_bytes_per_unit,
    checkpoint_bytes,
    first_stage_layers,
    fits,
    kept_bytes_per_unit,
    last_stage_layers,
    logits_bytes,
    memory_per_gpu,
    reserve_bytes,
    state_bytes,
)
from service.estimator.parallelism import Layout
from service.estimator.parameters import lora_parameters, lora_targets, total_parameters
from service.estimator.shapes import MixtureOfExperts, ModelShape

EXACT = 1e-9
GIB = 2**30
HBM = 80e9

LLAMA_3_8B = ModelShape(layers=32, hidden=4096, heads=32, kv_heads=8, ffn_hidden=14336, vocabulary=128256)
LLAMA_3_70B = ModelShape(layers=80, hidden=8192, heads=64, kv_heads=8, ffn_hidden=28672, vocabulary=128256)
LLAMA_1_65B = ModelShape(layers=80, hidden=8192, heads=64, ffn_hidden=22016, vocabulary=32000)
MIXTRAL = ModelShape(
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn_hidden=14336,
    vocabulary=32000,
    moe=MixtureOfExperts(experts=8, experts_per_token=2, expert_ffn_hidden=14336),
)
SHARDINGS: tuple[Sharding, ...] = ("ddp", "zero1", "zero2", "zero3")


def a_plan(*, data: int = 8, sequence_length: int = 4096, **fields: Any) -> MemoryPlan:
    """A plan; what a layout has goes to its layout, the rest to the plan."""
    of_layout = {key: value for key, value in fields.items() if key in Layout.__struct_fields__}
    of_plan = {key: value for key, value in fields.items() if key not in of_layout}
    return MemoryPlan(layout=Layout(**of_layout), data=data, sequence_length=sequence_length, **of_plan)


def on_80_gb(shape: ModelShape, plan: MemoryPlan) -> GpuMemory:
    return memory_per_gpu(shape, plan, HBM)


@st.composite
def plans(draw: st.DrawFn) -> MemoryPlan:
    """Plans for any of the shapes above; the expert degree divides the replicas."""
    expert = draw(st.sampled_from([1, 2, 4]))
    return a_plan(
        data=expert * draw(st.integers(1, 64)),
        sequence_length=draw(st.sampled_from([512, 4096, 131072])),
        tensor=draw(st.sampled_from([1, 2, 8])),
        pipeline=draw(st.sampled_from([1, 2, 8])),
        interleave=draw(st.sampled_from([1, 2])),
        context=draw(st.sampled_from([1, 2])),
        microbatch=draw(st.integers(1, 8)),
        sharding=draw(st.sampled_from(SHARDINGS)),
        sequence_parallel=draw(st.booleans()),
        flash_attention=draw(st.booleans()),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        gradient_bytes=draw(st.sampled_from([2, 4])),
        expert=expert,
        training=draw(st.sampled_from(["full", "lora", "qlora"])),
        lora_parameters=draw(st.integers(1, 10**9)),
    )


shapes = st.sampled_from([LLAMA_3_8B, LLAMA_3_70B, MIXTRAL])


# ------------------------------------------------------------------------------------------- published


@pytest.mark.parametrize(
    ("sizes", "parameters", "state_gib", "none_gib", "selective_gib", "published_state_gib"),
    [
        ((48, 6144, 64, 8, 1, 1, 4), 22.0e9, 46.10046744346619, 59.25, 9.5625, 45.5625),
        ((96, 12288, 96, 8, 8, 3, 1), 174.6e9, 45.73375917971134, 66.84375, 12.3515625, 45.5625),
        ((105, 20480, 128, 8, 35, 3, 1), 529.6e9, 31.707542283194407, 114.0234375, 23.076171875, 31.640625),
        ((128, 25600, 160, 8, 64, 1, 1), 1008.0e9, 33.00374373793602, 131.25, 26.5625, 32.958984375),
    ],
    ids=["22B", "175B", "530B", "1T"],
)
def test_korthikanti_2022_figure_1(
    sizes: tuple[int, ...],
    parameters: float,
    state_gib: float,
    none_gib: float,
    selective_gib: float,
    published_state_gib: float,
) -> None:
    """As digitised in calculon-ai/calculon validation.py, s = 2,048: activations are met exactly, states within
    1.3 % (the parameters of the figure are rounded)."""
    layers, hidden, heads, tensor, pipeline, interleave, batch = sizes
    states = state_bytes(parameters, tensor, pipeline, 1, "ddp") / GIB
    assert states == pytest.approx(state_gib, rel=EXACT)
    assert states == pytest.approx(published_state_gib, rel=0.013)
    stored = first_stage_layers(layers, pipeline, interleave)
    none = activation_bytes_per_layer(2048, batch, hidden, heads, tensor) * stored / GIB
    selective = activation_bytes_per_layer(2048, batch, hidden, heads, tensor, True, "selective") * stored / GIB
    assert none == pytest.approx(none_gib, rel=EXACT)
    assert selective == pytest.approx(selective_gib, rel=EXACT)


def test_korthikanti_2022_equations() -> None:
    s, b, h, a, t = 2048, 4, 6144, 64, 8
    units = s * b * h
    core = 5 * a * s / h
    assert activation_bytes_per_layer(s, b, h, a) == pytest.approx(units * (34 + core), rel=EXACT)  # 1
    assert activation_bytes_per_layer(s, b, h, a, t) == pytest.approx(units * (10 + (24 + core) / t), rel=EXACT)  # 2
    assert activation_bytes_per_layer(s, b, h, a, t, True) == pytest.approx(units * (34 + core) / t, rel=EXACT)  # 4
    assert activation_bytes_per_layer(s, b, h, a, t, True, "selective") == pytest.approx(units * 34 / t, rel=EXACT)  # 6
    assert activation_bytes_per_layer(s, b, h, a, t, False, "full") == 2 * units
    assert activation_bytes_per_unit(h, 4 * h, 2) == 34


def test_a_swiglu_layer_keeps_what_its_backward_pass_reads() -> None:
    h, f, kv = 16_384, 53_248, 8 * 128  # Llama 3.1 405B
    norms_and_inputs, query_and_output, key_and_value, block = 8 * h, 2 * 2 * h, 2 * 2 * kv, (2 + 2 + 2) * f
    counted = norms_and_inputs + query_and_output + key_and_value + block
    assert kept_bytes_per_unit(h, h, kv, f, 3) * h == pytest.approx(counted, rel=EXACT)
    assert kept_bytes_per_unit(h, h, h, 4 * h, 2) == 34


def test_torchtitan_fsdp_saves_what_it_splits() -> None:
    """torchtitan, Llama 3 8B, FSDP over 8 and over 128 GPUs: 15.0 to 15.4 GiB apart, within 10 %."""
    saved = state_bytes(8.03e9, 1, 1, 8, "zero3", BF16_GRADIENT_BYTES) - state_bytes(
        8.03e9, 1, 1, 128, "zero3", BF16_GRADIENT_BYTES
    )
    assert saved / GIB == pytest.approx(14.02, abs=0.01)
    assert saved / GIB == pytest.approx(15.2, rel=0.1)


@pytest.mark.parametrize(("sharding", "bytes_each"), [("ddp", 18), ("zero1", 7.5), ("zero2", 4), ("zero3", 2.25)])
def test_zero_stages_split_the_optimizer_then_gradients_then_weights(sharding: Any, bytes_each: float) -> None:
    assert state_bytes(1000, 1, 1, 8, sharding) == 1000 * bytes_each


@pytest.mark.parametrize(
    ("parameters", "state_gib", "gpus"),
    [(8.03e9, 119.65632438659668, 2), (70.55e9, 1051.2769222259521, 16), (405.85e9, 6047.636270523071, 91)],
)
def test_states_alone_on_80_gb(parameters: float, state_gib: float, gpus: int) -> None:
    assert state_bytes(parameters, 1, 1, 1, "ddp", BF16_GRADIENT_BYTES) / GIB == pytest.approx(state_gib, rel=EXACT)
    assert minimum_fsdp_gpu_count(parameters, HBM, overhead_bytes=0) == gpus


def test_the_minimum_for_70b_with_full_recompute() -> None:
    """One sequence of 4,096: 80 layers' inputs, one layer at work, logits."""
    memory = on_80_gb(LLAMA_3_70B, a_plan(sharding="zero3", recompute="full"))
    activations = memory.activations_bytes + memory.logits_bytes
    assert activations == 11_114_905_600
    assert minimum_fsdp_gpu_count(70.55e9, HBM, activations) == 20
    assert in_whole_nodes(20, 8) == (24, 8)


def test_the_plan_itself_needs_two_layers_more_and_still_24() -> None:
    plan = a_plan(sharding="zero3", recompute="full", gradient_bytes=2)
    assert minimum_gpu_count(LLAMA_3_70B, plan, HBM, 8) == 24


def test_checkpoint_sizes() -> None:
    assert checkpoint_bytes(176e9) / GIB == pytest.approx(2294.778823852539, rel=EXACT)  # BLOOM: published 2.3 TB
    assert checkpoint_bytes(405.85e9) / 1e12 == pytest.approx(5.6819, rel=EXACT)
    assert checkpoint_bytes(8_030_261_248, WEIGHT_BYTES) == 16_060_522_496  # the released weights of Llama 3 8B


# ------------------------------------------------------------------------------------------- fine-tuning


def test_adapters_leave_the_weights_and_little_else() -> None:
    adapters = lora_parameters(LLAMA_3_8B, 16, lora_targets(LLAMA_3_8B))
    full = on_80_gb(LLAMA_3_8B, a_plan(data=1, sharding="ddp"))
    lora = on_80_gb(LLAMA_3_8B, a_plan(data=1, sharding="ddp", training="lora", lora_parameters=adapters))
    assert full.weights_bytes == 2 * total_parameters(LLAMA_3_8B)
    assert lora.weights_bytes == full.weights_bytes + 2 * adapters
    assert lora.gradients_bytes + lora.optimizer_bytes == 16 * adapters
    assert not fits(full, HBM)


def test_qlora_2023_a_65b_model_fits_48_gb() -> None:
    """QLoRA (arXiv 2305.14314), abstract: "finetune a 65B parameter model on a single 48GB GPU"."""
    adapters = lora_parameters(LLAMA_1_65B, 64, lora_targets(LLAMA_1_65B))
    plan = a_plan(
        data=1, sequence_length=512, sharding="ddp", recompute="full", training="qlora", lora_parameters=adapters,
        gradient_bytes=2,
    )  # fmt: skip
    memory = memory_per_gpu(LLAMA_1_65B, plan, 48e9)
    assert memory.weights_bytes < 0.28 * 2 * total_parameters(LLAMA_1_65B)
    assert pytest.approx(0.515875) == NF4_BYTES
    in_use = memory.total_bytes - memory.reserve_bytes
    assert in_use < 48 * GIB


# ------------------------------------------------------------------------------------------- layouts


def test_the_last_stage_counts_where_logits_outweigh_the_first() -> None:
    short = msgspec.structs.replace(LLAMA_3_8B, layers=2)
    memory = on_80_gb(short, a_plan(pipeline=2))
    assert memory.logits_bytes == logits_bytes(4096, 1, 128256)
    deep = on_80_gb(LLAMA_3_70B, a_plan(pipeline=8))
    assert deep.logits_bytes == 0


def test_stages_without_a_pipeline_hold_every_layer() -> None:
    assert first_stage_layers(80, 1, 1) == last_stage_layers(80, 1, 1) == 80
    assert first_stage_layers(96, 8, 3) == pytest.approx(96 * (1 + 7 / 24), rel=EXACT)
    assert last_stage_layers(96, 8, 1) == 12


def test_flash_attention_keeps_no_scores() -> None:
    eager = on_80_gb(LLAMA_3_8B, a_plan(flash_attention=False))
    selective = on_80_gb(LLAMA_3_8B, a_plan(flash_attention=False, recompute="selective"))
    assert on_80_gb(LLAMA_3_8B, a_plan()) == selective
    assert selective.activations_bytes < eager.activations_bytes


def test_experts_are_shared_out() -> None:
    together = on_80_gb(MIXTRAL, a_plan(sharding="zero1"))
    apart = on_80_gb(MIXTRAL, a_plan(sharding="zero1", expert=8))
    experts = 32 * 8 * 3 * 4096 * 14336
    assert together.weights_bytes - apart.weights_bytes == 2 * experts * 7 / 8
    assert together.optimizer_bytes == apart.optimizer_bytes


def test_more_gpus_do_not_help_what_is_not_split() -> None:
    assert minimum_gpu_count(LLAMA_3_70B, a_plan(sharding="ddp"), HBM, 8) is None
    assert minimum_fsdp_gpu_count(8e9, HBM, activation_bytes=HBM) is None


@given(shapes, plans(), st.sampled_from([1, 8]), st.sampled_from([24e9, 80e9, 288e9]))
def test_the_fewest_gpus_fit_and_one_step_fewer_do_not(
    shape: ModelShape, plan: MemoryPlan, per_node: int, capacity: float
) -> None:
    layout = plan.layout
    replica = layout.tensor * layout.pipeline * layout.context
    unit = math.lcm(replica, layout.tensor * layout.pipeline * plan.expert)
    step = math.lcm(unit, per_node)
    count = minimum_gpu_count(shape, plan, capacity, per_node, 100_000)

    def fit_on(gpus: int) -> bool:
        laid_out = msgspec.structs.replace(plan, data=gpus // replica)
        return fits(memory_per_gpu(shape, laid_out, capacity), capacity)

    if count is None:
        assert not fit_on(100_000 // step * step)
    else:
        assert fit_on(count)
        if count <= per_node:
            assert count % unit == 0
            assert count == unit or not fit_on(count - unit)
        else:
            assert count % step == 0
            below = count - step or per_node // unit * unit
            assert not below or not fit_on(below)


# ------------------------------------------------------------------------------------------- laws


@given(shapes, plans())
def test_memory_falls_with_the_sharding_stage(shape: ModelShape, plan: MemoryPlan) -> None:
    totals = [
        on_80_gb(
            shape, msgspec.structs.replace(plan, layout=msgspec.structs.replace(plan.layout, sharding=sharding))
        ).total_bytes
        for sharding in SHARDINGS
    ]
    assert totals == sorted(totals, reverse=True)


@given(shapes, plans())
def test_the_total_is_the_sum_of_its_parts_and_none_is_negative(shape: ModelShape, plan: MemoryPlan) -> None:
    memory = on_80_gb(shape, plan)
    parts = [getattr(memory, field) for field in memory.__struct_fields__ if field != "total_bytes"]
    assert sum(parts) == memory.total_bytes
    assert min(parts) >= 0


@given(shapes, plans(), st.integers(1, 8))
def test_more_replicas_never_need_more(shape: ModelShape, plan: MemoryPlan, factor: int) -> None:
    larger = msgspec.structs.replace(plan, data=plan.data * factor)
    assert on_80_gb(shape, larger).total_bytes <= on_80_gb(shape, plan).total_bytes


@given(shapes, plans(), st.sampled_from(["tensor", "context"]))
def test_a_wider_split_never_needs_more(shape: ModelShape, plan: MemoryPlan, degree: str) -> None:
    wider = msgspec.structs.replace(plan.layout, **{degree: 2 * getattr(plan.layout, degree)})
    assert on_80_gb(shape, msgspec.structs.replace(plan, layout=wider)).total_bytes <= on_80_gb(shape, plan).total_bytes


@given(shapes, plans())
def test_more_recompute_never_needs_more(shape: ModelShape, plan: MemoryPlan) -> None:
    totals = [
        on_80_gb(
            shape, msgspec.structs.replace(plan, layout=msgspec.structs.replace(plan.layout, recompute=recompute))
        ).total_bytes
        for recompute in ("none", "selective", "full")
    ]
    assert totals[0] >= totals[1]
    if plan.layout.flash_attention:
        assert totals[1] >= totals[2]


@given(shapes, plans(), st.integers(2, 4))
def test_a_larger_batch_never_needs_less(shape: ModelShape, plan: MemoryPlan, factor: int) -> None:
    larger = msgspec.structs.replace(plan.layout, microbatch=factor * plan.layout.microbatch)
    assert on_80_gb(shape, msgspec.structs.replace(plan, layout=larger)).total_bytes > on_80_gb(shape, plan).total_bytes


@given(st.floats(1e9, 1e12))
def test_the_reserve_leaves_nine_tenths_but_3_gb(capacity: float) -> None:
    assert capacity - reserve_bytes(capacity) == pytest.approx(0.9 * capacity - 3e9, rel=EXACT, abs=1)


def test_the_formulas_are_the_same_for_arrays() -> None:
    counts = np.array([1.0, 8.0, 64.0])
    for sharding in SHARDINGS[1:]:
        one_by_one = [state_bytes(8e9, 1, 1, count, sharding) for count in counts.tolist()]
        assert state_bytes(8e9, 1, 1, counts, sharding) == pytest.approx(one_by_one, rel=EXACT)
