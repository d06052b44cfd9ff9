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
    answer = ask(a_transformer(18, parameters=75e9))
    assert not answer["memory"]["fits"]
    assert "24 GPUs would" in answer["memory"]["reason"]
    assert ask(a_transformer(24, parameters=75e9))["memory"]["fits"]


@pytest.mark.parametrize(
    ("pointer", "work"),
    [
        ("/cluster/gpu_count", {"parameters": 70e9, "mfu_percent": 40}),
        ("/cluster/gpu_count", {"model": "llama-3.1-70b", "mfu_percent": 40}),
        ("/work/layout", {"model": "llama-3.1-70b", "layout": {"sharding": "zero3", "tensor": 8}, "recompute": "full"}),
    ],
)
def test_states_that_leave_no_room_for_the_context_of_a_program_are_refused(pointer: str, work: dict[str, Any]) -> None:
    # 78.8 to 80 GB of 80: however little activations take, the 3 GB of a CUDA context and NCCL do not fit beside them.
    fault = refused(a_transformer(16, **work))
    assert fault.pointer == pointer
    assert "24 GPUs" in fault.message


@pytest.mark.parametrize("sharding", ["ddp", "zero1", "zero3"])
def test_states_that_are_too_much_are_not_said_to_need_more_recompute(sharding: str) -> None:
    fault = refused(a_transformer(8, model="llama-3.1-70b", layout={"sharding": sharding, "microbatch": 4}))
    assert "Weights, gradients and optimizer" in fault.message
    assert "recompute" not in fault.message
    assert "microbatch" not in fault.message
    assert ("sharding zero3" in fault.message) == (sharding != "zero3")


# ------------------------------------------------------------------------------------------- precision


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_wide_activations_take_twice_as_much_and_states_have_no_master_copy(precision: str, recompute: str) -> None:
    work = {"mfu_percent": 30, "layout": {"tensor": 8, "pipeline": 2}, "recompute": recompute}
    narrow, wide = memory(64, **work), memory(64, precision=precision, **work)
    assert wide["activations_bytes"] == pytest.approx(2 * narrow["activations_bytes"], rel=1e-9)
    assert wide["logits_bytes"] == narrow["logits_bytes"]
    assert wide["weights_bytes"] == pytest.approx(2 * narrow["weights_bytes"], rel=1e-9)
    assert wide["optimizer_bytes"] == pytest.approx(narrow["optimizer_bytes"] * 8 / 12, rel=1e-9)
    assert wide["gradients_bytes"] == narrow["gradients_bytes"]
    assert wide["checkpoint_bytes"] == pytest.approx(12 * LLAMA_8B)


def test_wide_states_by_parameters_take_16_bytes() -> None:
    assert states(memory(64, parameters=8e9, precision="fp32")) == pytest.approx(16 * 8e9 / 64)


@pytest.mark.parametrize("precision", ["fp16", "fp8"])
def test_narrower_products_take_the_memory_of_bf16(precision: str) -> None:
    assert memory(64, mfu_percent=30, precision=precision) == memory(64, mfu_percent=30)


# ------------------------------------------------------------------------------------------- long sequences

LONG: dict[str, Any] = {"model": "llama-3.1-405b", "sequence_length": 131_072, "recompute": "full"}


@pytest.mark.parametrize("gpu_count", [256, 1024, 16384])
def test_a_search_splits_sequences_where_nothing_fits_without_and_says_so(gpu_count: int) -> None:
    answer = ask(a_transformer(gpu_count, **LONG))
    assert answer["memory"]["fits"]
    assert answer["performance"]["layout"]["context"] > 1
    assert "context_parallel_searched" in codes(answer)


def test_a_search_leaves_sequences_whole_where_they_fit() -> None:
    answer = ask(a_transformer(1024, model="llama-3.1-405b"))
    assert answer["performance"]["layout"]["context"] == 1
    assert "context_parallel_searched" not in codes(answer)


def test_a_given_mfu_splits_them_as_well() -> None:
    answer = ask(a_transformer(256, mfu_percent=35, **LONG))
    assert answer["memory"]["fits"]
    assert said(answer, "work.layout.context")["value"] > 1


def test_a_sequence_that_nothing_splits_is_told_of_context_degrees() -> None:
    fault = refused(a_transformer(1024, model="llama-3.1-405b", sequence_length=131_071))
    assert "context degree in `layout`" in fault.message
