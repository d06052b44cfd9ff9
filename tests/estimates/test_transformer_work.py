"""Work of kind transformer: what is trained, on how many tokens, the FLOPs that it takes and the hours that follow."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.models import load_models
from tests.support.asking import a_transformer, answer_bytes, ask, codes, refused, said

H100_FLOPS = 989.4e12
LLAMA_8B = {
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "ffn_hidden": 14336,
    "vocabulary": 128256,
}
COUNTS = st.sampled_from([8, 64, 512, 2048])


def performance(**work: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(a_transformer(**work))["performance"]
    return found


# ------------------------------------------------------------------------------------------- the subject


def test_parameters_and_tokens_alone_are_6nd() -> None:
    found = performance(parameters=70e9, tokens=2e12, mfu_percent=40)
    assert found["flops_basis"] == "6nd"
    assert found["attention"] == "none"
    assert found["model_flops"] == pytest.approx(8.4e23)


def test_a_billed_figure_by_parameters_matches_the_model_card_of_llama_2_70b() -> None:
    # 1,720,320 A100 hours for 2T tokens are 42.84 % of the BF16 peak by 6ND (meta-llama/llama MODEL_CARD).
    body = a_transformer(2048, "a100-sxm-80gb", parameters=69e9, tokens=2e12, mfu_percent=42.84, mfu_kind="billed")
    assert ask(body)["gpu_hours"] == pytest.approx(1_720_320, rel=0.002)


def test_active_parameters_do_the_work_and_all_are_held() -> None:
    answer = ask(a_transformer(2048, parameters=671e9, active_parameters=37e9, tokens=14.8e12, mfu_percent=35))
    assert answer["performance"]["model_flops"] == pytest.approx(3.2856e24)
    assert answer["memory"]["checkpoint_bytes"] == pytest.approx(14 * 671e9)


def test_a_named_model_brings_its_shape_its_tokens_and_its_sequence() -> None:
    body = a_transformer(16384, model="llama-3.1-405b", mfu_percent=40)
    del body["work"]["tokens"]
    answer = ask(body)
    assert said(answer, "work.model")["value"] == "llama-3-1-405b"
    assert answer["performance"]["parameters"] == 405_849_243_648
    assert answer["performance"]["trained_tokens"] == 15.6e12
    assert said(answer, "work.tokens")["status"] == "catalogue"
    assert answer["performance"]["flops_per_token"] == 2_625_424_588_800
    assert answer["performance"]["flops_basis"] == "shape"


def test_a_shape_says_the_same_as_the_model_that_has_it() -> None:
    by_shape = performance(shape=LLAMA_8B, sequence_length=8192, mfu_percent=40)
    assert by_shape["parameters"] == 8_029_995_008
    assert by_shape == performance(model="llama-3-8b", mfu_percent=40)


@pytest.mark.parametrize(
    ("model", "attention", "flops"),
    [
        ("llama-3-8b", "full", 57_912_852_480),
        ("llama-3-8b", "causal", 51_470_401_536),
        ("llama-3-70b", "full", 481_434_796_032),
        ("llama-3-70b", "causal", 449_222_541_312),
    ],
)
def test_flops_of_a_token_are_those_published_for_each_convention(model: str, attention: str, flops: float) -> None:
    found = performance(model=model, attention=attention, sequence_length=8192, mfu_percent=40)
    assert (found["attention"], found["flops_per_token"]) == (attention, flops)


def test_of_a_mixture_only_the_experts_of_a_token_count() -> None:
    found = performance(model="deepseek-v3", gpu_count=2048)
    assert found["active_parameters"] == 36_624_596_992
    assert found["parameters"] == 671_025_397_760


def test_palm_reached_its_published_mfu() -> None:
    # 238,300 tokens a second on 6144 TPU v4 are 45.7 % by 6ND (PaLM, App. B; 46.2 % with attention).
    found = performance(gpu="tpu-v4", gpu_count=6144, parameters=540.35e9, mfu_percent=45.72635120738636)
    assert found["tokens_per_second"] == pytest.approx(238_300, rel=1e-4)


# ------------------------------------------------------------------------------------------- kinds of training


def test_lora_takes_the_flops_of_nvidias_table() -> None:
    # Llama 3 70B on packed sequences of 4096: 278.1 GFLOP a token with adapters, 433.5 in full (Megatron-Bridge).
    full = performance(model="llama-3-70b", sequence_length=4096, attention="causal", mfu_percent=40)
    lora = performance(model="llama-3-70b", sequence_length=4096, attention="causal", mfu_percent=40, training="lora")
    assert full["flops_per_token"] == 433_116_413_952
    # The frozen matrices take two thirds, attention as much as before, and the adapters their own.
    attention = 12 * 80 * 8192 * 4096 * 0.5
    frozen = 4 * (433_116_413_952 - attention) / 6
    adapters = lora["flops_per_token"] - frozen - attention
    assert frozen == 278_006_857_728
    assert 0 < adapters < 0.01 * frozen


def test_adapters_have_small_states_and_checkpoints() -> None:
    full, lora, qlora = (
        ask(a_transformer(64, model="llama-3-70b", training=training, mfu_percent=30))["memory"]
        for training in ("full", "lora", "qlora")
    )
    assert qlora["weights_bytes"] < lora["weights_bytes"]
    assert lora["optimizer_bytes"] < 0.01 * full["optimizer_bytes"]
    assert lora["checkpoint_bytes"] < 0.01 * full["checkpoint_bytes"]


def test_adapters_without_a_shape_are_two_thirds_of_6nd_and_their_size_is_unknown() -> None:
    answer = ask(a_transformer(parameters=7e9, training="lora", mfu_percent=40))
    assert answer["performance"]["flops_per_token"] == pytest.approx(4 * 7e9)
    assert answer["memory"]["checkpoint_bytes"] is None
    assert "lora_without_shape" in codes(answer)


def test_a_higher_rank_has_more_to_compute_and_to_keep() -> None:
    low, high = (
        ask(a_transformer(training="lora", lora={"rank": rank, "targets": ["query", "value"]}, mfu_percent=40))
        for rank in (8, 64)
    )
    assert high["performance"]["flops_per_token"] > low["performance"]["flops_per_token"]
    assert high["memory"]["checkpoint_bytes"] == 8 * low["memory"]["checkpoint_bytes"]
    assert said(low, "work.lora.targets")["value"] == "query, value"


# ------------------------------------------------------------------------------------------- tokens and hours


def test_epochs_multiply_the_tokens() -> None:
    once, thrice = performance(tokens=1e12, mfu_percent=40), performance(tokens=1e12, epochs=3, mfu_percent=40)
    assert thrice["model_flops"] == pytest.approx(3 * once["model_flops"])
    assert "epochs_repeated" not in codes(ask(a_transformer(epochs=4, mfu_percent=40)))
    assert "epochs_repeated" in codes(ask(a_transformer(epochs=5, mfu_percent=40)))
    assert "epochs_many" in codes(ask(a_transformer(epochs=17, mfu_percent=40)))


def test_hours_are_flops_over_what_the_gpus_do() -> None:
    answer = ask(a_transformer(512, parameters=70e9, tokens=2e12, mfu_percent=40))
    hours = 6 * 70e9 * 2e12 / (512 * H100_FLOPS * 0.40) / 3600
    assert answer["duration"]["ideal_hours"] == pytest.approx(hours, rel=1e-12)
    assert answer["duration"]["wall_clock_hours"] == pytest.approx(1.1 * hours, rel=1e-12)


def test_compute_optimal_is_besiroglus_refit() -> None:
    # C = 1e24: 95.86B parameters on 1.7386T tokens, 18.14 for each (Besiroglu et al. 2024).
    answer = ask(a_transformer(512, parameters=70e9, tokens=1e24 / 6 / 70e9, mfu_percent=40))
    best = answer["performance"]["compute_optimal"]
    assert best["parameters"] == pytest.approx(95_860_654_045.68, rel=1e-9)
    assert best["tokens"] == pytest.approx(1_738_634_774_881, rel=1e-9)
    assert best["tokens_per_parameter"] == pytest.approx(18.1371, abs=1e-4)
    assert best["loss"] == pytest.approx(1.9597124025641461, rel=1e-9)
    assert best["run_loss"] >= best["loss"]
    assert "compute_optimal" in codes(answer)


@pytest.mark.parametrize("work", [{"training": "lora"}, {"model": "mixtral-8x7b"}])
def test_nothing_is_compute_optimal_of_adapters_and_experts(work: dict[str, Any]) -> None:
    answer = ask(a_transformer(mfu_percent=20, **work))
    assert answer["performance"]["compute_optimal"] is None
    assert "compute_optimal" not in codes(answer)


@given(tokens=st.floats(1e9, 1e14), times=st.floats(1.0, 50.0), count=COUNTS)
def test_hours_scale_with_tokens(tokens: float, times: float, count: int) -> None:
    one, more = (ask(a_transformer(count, tokens=amount)) for amount in (tokens, tokens * times))
    expected = one["duration"]["ideal_hours"] * times
    assert more["duration"]["ideal_hours"] == pytest.approx(expected, rel=1e-9)


@given(low=st.floats(1, 100), high=st.floats(1, 100))
def test_a_higher_mfu_never_takes_longer(low: float, high: float) -> None:
    slow, fast = (ask(a_transformer(mfu_percent=mfu))["duration"]["ideal_hours"] for mfu in sorted((low, high)))
    assert fast <= slow


@given(
    count=COUNTS,
    work=st.sampled_from(
        [
            {},
            {"mfu_percent": 37.5},
            {"precision": "fp8"},
            {"training": "qlora"},
            {"parameters": 7e9},
            {"recompute": "full"},
        ]
    ),
)
def test_tokens_a_second_times_the_productive_hours_are_the_tokens(count: int, work: dict[str, Any]) -> None:
    answer = ask(a_transformer(count, **work))
    done = answer["performance"]["tokens_per_second"] * 3600 * answer["duration"]["ideal_hours"]
    assert done == pytest.approx(answer["performance"]["trained_tokens"], rel=1e-9)


def test_counting_less_of_the_attention_makes_the_same_mfu_faster() -> None:
    full, causal = (
        ask(a_transformer(mfu_percent=40, attention=kind))["duration"]["ideal_hours"] for kind in ("full", "causal")
    )
    assert causal / full == pytest.approx(51_470_401_536 / 57_912_852_480)


def test_the_convention_is_shown_and_does_not_move_a_prediction() -> None:
    full, causal = (ask(a_transformer(attention=kind)) for kind in ("full", "causal"))
    assert full["duration"] == causal["duration"]
    assert full["performance"]["step_mfu_percent"] > causal["performance"]["step_mfu_percent"]


@pytest.mark.parametrize("model", [model.id for model in load_models()])
@pytest.mark.parametrize("gpu_count", [512, 2048])
def test_every_named_model_is_answered(model: str, gpu_count: int) -> None:
    found = performance(model=model, gpu_count=gpu_count)
    assert 0 < found["step_mfu_percent"] < 60


def test_the_same_request_gets_the_same_bytes() -> None:
    body = a_transformer(500, model="llama-3-70b", precision="fp8")
    assert answer_bytes(body) == answer_bytes(body)


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("work", "pointer", "told"),
    [
        ({"model": "llama-3-8b", "parameters": 7e9}, "/work/parameters", "exactly one of model, shape and parameters"),
        ({"active_parameters": 7e9}, "/work/active_parameters", "go with parameters"),
        ({"parameters": 7e9, "active_parameters": 8e9}, "/work/active_parameters", "No more can be active"),
        ({"lora": {"rank": 8}}, "/work/lora", "lora or qlora"),
        ({"shape": LLAMA_8B | {"kv_heads": 5}}, "/work/shape/kv_heads", "4 would"),
        ({"shape": LLAMA_8B | {"heads": 24, "head_dim": None}}, "/work/shape/head_dim", "give head_dim"),
        (
            {"shape": LLAMA_8B | {"ffn_matrices": 2}, "training": "lora", "lora": {"targets": ["gate"]}},
            "/work/lora/targets",
            "it has query, key, value, output, up, down",
        ),
        ({"model": "llama-9"}, "/work/model", "llama"),
    ],
)
def test_what_is_trained_must_be_said_once(work: dict[str, Any], pointer: str, told: str) -> None:
    fault = refused(a_transformer(**work))
    assert fault.pointer == pointer
    assert told in fault.message


def test_tokens_that_nobody_published_are_asked_for() -> None:
    body = a_transformer(model="mixtral-8x7b")
    del body["work"]["tokens"]
    assert refused(body).pointer == "/work/tokens"


def test_a_transformer_needs_an_accelerator() -> None:
    body = a_transformer()
    del body["cluster"]["gpu"]
    fault = refused(body)
    assert fault.pointer == "/cluster/gpu"
    assert "custom_gpu" in fault.message


async def test_over_http_it_is_the_same_answer(api: httpx.AsyncClient) -> None:
    body = a_transformer(512, model="llama-3-70b")
    answer = await api.post("/v1/estimates", json=body)
    assert (answer.status_code, answer.content) == (200, answer_bytes(body))


async def test_over_http_a_fault_is_a_problem_with_its_pointer(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/estimates", json=a_transformer(active_parameters=7e9))
    assert (answer.status_code, answer.json()["type"]) == (422, "/errors/broken-rule")
    assert answer.json()["errors"][0]["pointer"] == "/work/active_parameters"
