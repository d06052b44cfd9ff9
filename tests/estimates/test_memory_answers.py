"""What one GPU holds, by part; what fits, the fewest GPUs that do, and why not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import a_transformer, ask, codes, refused, said

PARTS = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes", "logits_bytes", "reserve_bytes")
STATES = PARTS[:3]
LLAMA_8B = 8_029_995_008


def memory(*args: Any, **work: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(a_transformer(*args, **work))["memory"]
    return found


def states(found: dict[str, Any]) -> float:
    return float(sum(found[part] for part in STATES))


# ------------------------------------------------------------------------------------------- by part


@pytest.mark.parametrize(
    "work", [{"layout": {"tensor": 2}}, {}, {"mfu_percent": 40}, {"model": "mixtral-8x7b"}, {"training": "qlora"}]
)
def test_the_parts_are_the_whole(work: dict[str, Any]) -> None:
    found = memory(64, **work)
    assert sum(found[part] for part in PARTS) == found["total_bytes"]
    assert found["used_percent"] == pytest.approx(100 * found["total_bytes"] / found["capacity_bytes"])
    assert found["fits"] == (found["total_bytes"] <= found["capacity_bytes"])


def test_mixed_precision_takes_18_bytes_a_parameter() -> None:
    found = memory(8, layout={"sharding": "ddp", "tensor": 8}, recompute="full")
    assert states(found) == pytest.approx(18 * LLAMA_8B / 8, rel=1e-9)
    assert memory(8, layout={"sharding": "ddp", "tensor": 8, "gradient_bytes": 2}, recompute="full")[
        "gradients_bytes"
    ] == pytest.approx(2 * LLAMA_8B / 8, rel=1e-9)


def test_a_checkpoint_takes_14_bytes_a_parameter() -> None:
    # BLOOM's, 176B parameters, are 2.3 TB each.
    assert memory(384, model="bloom-176b")["checkpoint_bytes"] == pytest.approx(2.3e12 * 1.07, rel=0.01)
    assert memory(512, parameters=176e9)["checkpoint_bytes"] == pytest.approx(14 * 176e9)


def test_activations_are_those_of_korthikanti() -> None:
    # A GPT layer, all recompute off and the scores in memory, tensor 8 without sequence parallelism: eq. 2, s b h
    # (10 + 24/t + 5 a s/(h t)).
    shape = {
        "layers": 48,
        "hidden": 6144,
        "heads": 64,
        "ffn_hidden": 24576,
        "ffn_matrices": 2,
        "vocabulary": 51200,
    }
    layout = {"tensor": 8, "microbatch": 4, "flash_attention": False, "sequence_parallel": False, "sharding": "ddp"}
    work = {"shape": shape, "sequence_length": 2048, "global_batch_sequences": 4, "layout": layout}
    found = memory(8, "a100-sxm-80gb", **work)
    assert found["activations_bytes"] == pytest.approx(59.25 * 2**30)
    both = {**work, "recompute": "selective", "layout": layout | {"sequence_parallel": True}}
    assert memory(8, "a100-sxm-80gb", **both)["activations_bytes"] == pytest.approx(9.5625 * 2**30)


def test_without_a_shape_activations_are_unknown_and_not_zero() -> None:
    found = memory(64, parameters=70e9)
    assert found["basis"] == "parameters_only"
    assert (found["activations_bytes"], found["logits_bytes"], found["recompute"]) == (None, None, None)
    assert states(found) == pytest.approx(18 * 70e9 / 64)


def test_which_split_was_counted_is_said() -> None:
    assert memory(64, layout={"tensor": 2})["basis"] == "layout_given"
    assert memory(64)["basis"] == "layout_searched"
    assert memory(64, mfu_percent=40)["basis"] == "fully_sharded"


@given(
    count=st.sampled_from([8, 64, 512]),
    model=st.sampled_from(["llama-3-8b", "olmo-2-13b"]),
    tensor=st.sampled_from([1, 2, 4]),
)
def test_each_stage_of_sharding_holds_no_more_than_the_one_before(count: int, model: str, tensor: int) -> None:
    held = []
    for sharding in ("zero1", "zero2", "zero3"):
        layout = {"tensor": tensor, "sharding": sharding}
        held.append(memory(count, "h200-sxm-141gb", model=model, layout=layout, recompute="full")["total_bytes"])
    assert held == sorted(held, reverse=True)


@given(count=st.sampled_from([64, 128, 512, 2048]), tensor=st.sampled_from([1, 2, 4]))
def test_more_recompute_holds_no_more(count: int, tensor: int) -> None:
    layout = {"tensor": tensor, "sharding": "zero3", "flash_attention": False}
    held = [
        memory(count, layout=layout, recompute=mode, sequence_length=2048)["activations_bytes"]
        for mode in ("none", "selective", "full")
    ]
    assert held == sorted(held, reverse=True)


@given(st.sampled_from(["llama-3-8b", "llama-3-70b", "mixtral-8x7b", "qwen3-235b-a22b"]), st.integers(7, 12))
def test_twice_the_gpus_never_hold_more_when_all_is_shared_out(model: str, power: int) -> None:
    one, two = (memory(count, model=model, mfu_percent=30, recompute="full") for count in (2**power, 2 ** (power + 1)))
    assert states(two) <= states(one)


# ------------------------------------------------------------------------------------------- what fits


def test_what_the_search_finds_fits() -> None:
    for model, count in (("llama-3-8b", 8), ("llama-3-70b", 64), ("llama-3.1-405b", 512), ("gpt-3-175b", 64)):
        assert memory(count, model=model)["fits"]


def test_the_smallest_count_fits_and_a_node_less_does_not() -> None:
    layout = {"sharding": "zero3", "tensor": 8}
    work = {"model": "llama-3-70b", "layout": layout, "recompute": "full", "global_batch_sequences": 720720}
    smallest = memory(64, **work)["smallest_gpu_count"]
    assert memory(smallest, **work)["fits"]
    less = smallest - 8
    assert not memory(less, **work)["fits"]


def test_a_layout_that_seems_not_to_fit_is_told_why_and_what_would() -> None:
    layout = {"tensor": 8, "pipeline": 16, "interleave": 8, "sharding": "zero2"}
    answer = ask(a_transformer(16384, model="llama-3.1-405b", global_batch_sequences=2048, layout=layout))
    assert not answer["memory"]["fits"]
    assert "more recompute or sharding zero3" in answer["memory"]["reason"]
    assert "memory_does_not_fit" in codes(answer)
    assert answer["memory"]["smallest_gpu_count"] is None


def test_memory_follows_the_accelerator() -> None:
    layout = {"sharding": "zero3"}
    small = memory(8, model="olmo-2-13b", layout=layout, recompute="selective", sequence_length=2048)
    large = memory(8, "h200-sxm-141gb", model="olmo-2-13b", layout=layout, recompute="selective", sequence_length=2048)
    assert (small["capacity_bytes"], large["capacity_bytes"]) == (80e9, 141e9)
    assert large["smallest_gpu_count"] <= small["smallest_gpu_count"]


def test_experts_are_shared_out_where_they_must_be_and_that_is_said() -> None:
    # DeepSeek-V3: two whole layers of 256 experts are 46 GB; with the experts shared out it all fits on 512 GPUs.
    answer = ask(a_transformer(512, model="deepseek-v3", recompute="full"))
    assert answer["memory"]["fits"]
    assert said(answer, "work.layout.expert")["value"] > 1


def test_given_experts_degrees_hold_less() -> None:
    one, many = (
        memory(256, model="mixtral-8x7b", layout={"tensor": 4, "expert": expert}, recompute="full") for expert in (1, 8)
    )
    assert many["weights_bytes"] < one["weights_bytes"]


# ------------------------------------------------------------------------------------------- what cannot fit


@pytest.mark.parametrize(
    ("gpu", "gpu_count", "work"),
    [
        ("h100-sxm-80gb", 8, {"model": "llama-3-70b"}),
        ("h100-sxm-80gb", 8, {"model": "llama-3.1-405b"}),
        ("h100-sxm-80gb", 64, {"model": "mt-nlg-530b"}),
        ("a100-sxm-40gb", 8, {"model": "gpt-3-175b"}),
        ("h100-sxm-80gb", 8, {"model": "llama-3-70b", "global_batch_sequences": 1024}),
        ("h100-sxm-80gb", 8, {"model": "llama-3-70b", "recompute": "none"}),
        ("h100-sxm-80gb", 8, {"parameters": 70e9}),
        ("h100-sxm-80gb", 64, {"model": "llama-3.1-405b", "mfu_percent": 40}),
        ("h100-sxm-80gb", 64, {"model": "deepseek-v3"}),
        ("tpu-v5e", 8, {"model": "llama-3-8b"}),
    ],
)
def test_a_model_too_large_is_refused_with_a_count_that_is_then_answered(
    gpu: str, gpu_count: int, work: dict[str, Any]
) -> None:
    fault = refused(a_transformer(gpu_count, gpu, **work))
    assert fault.pointer == "/cluster/gpu_count"
    words = fault.message.split()
    would = int(words[len(words) - 1 - words[::-1].index("GPUs") - 1])
    assert would > gpu_count
    assert ask(a_transformer(would, gpu, **work))["memory"] is not None


def test_a_layout_whose_states_alone_are_too_much_is_refused_with_what_would_work() -> None:
    fault = refused(a_transformer(512, model="llama-3.1-405b", layout={"tensor": 8, "sharding": "ddp"}))
    assert fault.pointer == "/work/layout"
    assert "sharding zero3" in fault.message
    assert "would" in fault.message


def test_a_sequence_that_no_gpu_can_hold_is_not_promised_more_gpus() -> None:
    fault = refused(a_transformer(64, sequence_length=100_000_000))
    assert fault.pointer == "/cluster/gpu_count"
    assert "a shorter sequence" in fault.message


def test_without_reserve_it_does_not_fit_and_says_how_many_would() -> None:
    answer = ask(a_transformer(18, parameters=79e9))
    assert not answer["memory"]["fits"]
    assert "24 GPUs would" in answer["memory"]["reason"]
    assert ask(a_transformer(24, parameters=79e9))["memory"]["fits"]
