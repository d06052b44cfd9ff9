"""Layouts: what each GPU holds, and that an impossible one is refused where it is wrong, with what would work."""

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.errors import BrokenRule, Fault
from service.estimator.parallelism import (
    Layout,
    Workload,
    check_layout,
    data_parallel,
    divisors,
    layer_weights,
    microbatches,
    nearest_of,
    parameters_per_rank,
    splits_evenly,
    tokens_per_microbatch,
)
from tests.support.layouts import (
    BLOOM_176B,
    BLOOM_176B_LAYOUT,
    GPT3_175B,
    GPT3_175B_LAYOUT,
    GPT_7_5B,
    GPT_7_5B_LAYOUT,
    LLAMA3_70B,
    LLAMA3_405B,
    LLAMA3_405B_LAYOUT,
    MEGATRON_177B,
    MEGATRON_177B_LAYOUT,
    MPT_7B,
    MPT_7B_LAYOUT,
    a_workload,
)

WITH_ENDS = "nor do 10, where the embedding and the loss count as a layer each"


def faults_of(workload: Workload, layout: Layout, gpu_count: int) -> tuple[Fault, ...]:
    try:
        check_layout(workload, layout, gpu_count)
    except BrokenRule as refused:
        assert refused.detail == refused.faults[0].message
        return refused.faults
    return ()


@pytest.mark.parametrize(
    ("workload", "layout", "gpu_count"),
    [
        (GPT3_175B, GPT3_175B_LAYOUT, 1024),
        (MEGATRON_177B, MEGATRON_177B_LAYOUT, 4608),
        (MPT_7B, MPT_7B_LAYOUT, 128),
        (LLAMA3_405B, LLAMA3_405B_LAYOUT, 16384),  # 126 layers in 16 stages of 8 chunks
        (GPT_7_5B, GPT_7_5B_LAYOUT, 128),
        (BLOOM_176B, BLOOM_176B_LAYOUT, 384),  # 70 layers in 12 stages
    ],
)
def test_published_layouts_can_be(workload: Workload, layout: Layout, gpu_count: int) -> None:
    check_layout(workload, layout, gpu_count)


# The small model has 8 heads, 4 key-value heads, 8 layers, 4,096 in the feed-forward layer, 2,048 tokens, 64
# sequences in the batch.
@pytest.mark.parametrize(
    ("layout", "gpu_count", "pointer", "message"),
    [
        (
            {"tensor": 3},
            48,
            "/work/layout/tensor",
            "A tensor degree of 3 does not split 8 heads with 4 key-value heads; 2 or 4 would",
        ),
        (
            {"tensor": 16},
            64,
            "/work/layout/tensor",
            "A tensor degree of 16 does not split 8 heads with 4 key-value heads; 8 would",
        ),
        (
            {"pipeline": 3},
            48,
            "/work/layout/pipeline",
            f"8 layers do not make 3 equal stages, {WITH_ENDS}; 2 or 4 would",
        ),
        (
            {"pipeline": 16},
            64,
            "/work/layout/pipeline",
            f"8 layers do not make 16 equal stages, {WITH_ENDS}; 10 would",
        ),
        (
            {"interleave": 2},
            64,
            "/work/layout/interleave",
            "Interleaving needs more than one pipeline stage; 1 would work",
        ),
        (
            {"pipeline": 2, "interleave": 3},
            64,
            "/work/layout/interleave",
            f"8 layers do not make 2 stages of 3 equal chunks, {WITH_ENDS}; 2 or 4 would",
        ),
        (
            {"pipeline": 2, "interleave": 6},
            64,
            "/work/layout/interleave",
            f"8 layers do not make 2 stages of 6 equal chunks, {WITH_ENDS}; 5 would",
        ),
        (
            {"context": 3},
            48,
            "/work/layout/context",
            "A context degree of 3 does not split 2048 tokens; 2 or 4 would",
        ),
        (
            {"tensor": 8},
            60,
            "/cluster/gpu_count",
            "60 GPUs do not make whole replicas of 8 (tensor x pipeline x context); 32 or 64 would",
        ),
        (
            {"tensor": 8},
            4,
            "/cluster/gpu_count",
            "4 GPUs do not make whole replicas of 8 (tensor x pipeline x context); 8 would",
        ),
        (
            {"tensor": 2, "pipeline": 2, "context": 2},
            1024,
            "/cluster/gpu_count",
            "1024 GPUs make 128 replicas, more than the batch has sequences (64); 512 GPUs would work, "
            "or a batch of 128",
        ),
        (
            {},
            48,
            "/cluster/gpu_count",
            "A batch of 64 sequences does not make equal parts for 48 replicas; 32 or 64 GPUs would, or a batch of 48",
        ),
        (
            {"microbatch": 3},
            8,
            "/work/layout/microbatch",
            "A microbatch of 3 does not divide the 8 sequences of a replica; 2 or 4 would",
        ),
        (
            {"microbatch": 16},
            8,
            "/work/layout/microbatch",
            "A microbatch of 16 does not divide the 8 sequences of a replica; 8 would",
        ),
    ],
)
def test_an_impossible_layout_says_what_would_work(
    layout: dict[str, Any], gpu_count: int, pointer: str, message: str
) -> None:
    assert faults_of(a_workload(), Layout(**layout), gpu_count) == (Fault("body", pointer, message),)


def test_a_tensor_degree_must_split_the_feed_forward_layer() -> None:
    (fault,) = faults_of(a_workload(ffn_hidden=4098), Layout(tensor=4), 16)
    assert fault.pointer == "/work/layout/tensor"
    assert fault.message == "A tensor degree of 4 does not split a feed-forward width of 4098; 2 would"


def test_key_value_heads_may_be_repeated_and_not_cut() -> None:
    assert faults_of(a_workload(), Layout(tensor=8), 8) == ()
    assert faults_of(a_workload(heads=12, kv_heads=4), Layout(tensor=4), 8) == ()
    (fault,) = faults_of(a_workload(heads=12, kv_heads=4, ffn_hidden=3072), Layout(tensor=6), 6)
    assert fault.message == "A tensor degree of 6 does not split 12 heads with 4 key-value heads; 4 or 12 would"


def test_every_reason_is_told_at_its_field() -> None:
    faults = faults_of(a_workload(), Layout(tensor=3, pipeline=3, context=3), 64)
    assert [fault.pointer for fault in faults] == [
        "/work/layout/tensor",
        "/work/layout/pipeline",
        "/work/layout/context",
        "/cluster/gpu_count",
    ]


def test_faults_are_placed_where_the_layout_stands() -> None:
    with pytest.raises(BrokenRule) as refused:
        check_layout(a_workload(), Layout(tensor=3), 48, at="/scaling/layout")
    assert refused.value.faults[0].pointer == "/scaling/layout/tensor"


@given(st.integers(1, 5000), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.integers(1, 600))
def test_the_gpu_counts_that_are_named_do_work(gpu_count: int, tensor: int, pipeline: int, batch: int) -> None:
    workload, layout = a_workload(global_batch_sequences=batch), Layout(tensor=tensor, pipeline=pipeline)
    faults = faults_of(workload, layout, gpu_count)
    assume(faults)
    (fault,) = faults
    assert fault.pointer == "/cluster/gpu_count"
    _, _, what_works = fault.message.partition("; ")
    counts = [int(count) for count in re.findall(r"\d+", what_works.partition(", or a batch")[0])]
    assert counts
    for count in counts:
        check_layout(workload, layout, count)
    named_batch = re.search(r"or a batch of (\d+)", what_works)
    if named_batch:
        check_layout(a_workload(global_batch_sequences=int(named_batch[1])), layout, gpu_count)


@pytest.mark.parametrize(
    ("layers", "pieces", "expected"),
    [
        (80, 16, True),
        (80, 6, False),
        (70, 12, True),
        (126, 128, True),
        (126, 129, False),
        (126, 256, False),
        (1, 3, True),
    ],
)
def test_the_embedding_and_the_loss_may_count_as_layers(layers: int, pieces: int, expected: bool) -> None:
    assert splits_evenly(layers, pieces) is expected


@pytest.mark.parametrize("number", range(1, 101))
def test_divisors_are_all_that_divide(number: int) -> None:
    assert divisors(number) == tuple(divisor for divisor in range(1, number + 1) if number % divisor == 0)


def test_the_nearest_below_and_above_are_named() -> None:
    assert nearest_of((1, 2, 4, 8), 3) == "2 or 4"
    assert nearest_of((1, 2, 4, 8), 9) == "8"
    assert nearest_of((8, 4), 3) == "4"


def test_llama_3_70b_has_its_published_parameters() -> None:
    # 70.6 billion (meta-llama/Llama-3.1-70B model card); two vocabulary matrices, and norms left out.
    vocabulary = LLAMA3_70B.vocabulary * LLAMA3_70B.hidden
    assert layer_weights(LLAMA3_70B) == 855_638_016
    assert LLAMA3_70B.layers * layer_weights(LLAMA3_70B) + 2 * vocabulary == pytest.approx(70.6e9, rel=1e-3)


def test_a_rank_holds_its_share_of_the_layers_and_of_one_vocabulary_matrix() -> None:
    layout = Layout(tensor=8, pipeline=4)
    assert parameters_per_rank(LLAMA3_70B, layout) == pytest.approx((80 * 855_638_016 + 128_256 * 8192) / 32)


def test_head_width_need_not_be_hidden_over_heads() -> None:
    wide, narrow = a_workload(head_dim=256), a_workload(head_dim=128)
    assert layer_weights(wide) - layer_weights(narrow) == 2 * 1024 * 128 * (8 + 4)


def test_replicas_are_what_the_degrees_leave() -> None:
    layout = Layout(tensor=4, pipeline=2, context=2, microbatch=2)
    workload = a_workload(global_batch_sequences=64)
    assert data_parallel(layout, 64) == 4
    assert microbatches(workload, layout, 64) == 8
    assert tokens_per_microbatch(workload, layout) == 2048


def test_there_is_at_least_one_microbatch() -> None:
    assert microbatches(a_workload(global_batch_sequences=2), Layout(microbatch=4), 2) == 1
