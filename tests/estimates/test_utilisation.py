"""Which way the throughput is found, and how sure that is."""

from typing import Any

import httpx
import pytest

from service.catalog.gpus import load_gpus, peak_tflops
from service.errors import BrokenRule
from service.estimator.constants import SEARCHED_THROUGHPUT_FACTOR, SIGMA_LN_ONE_POINT
from service.estimator.utilisation import LOW_PRECISION_FACTOR, MOE_FACTOR, MOE_RACK_SCALE_FACTOR, PRIOR_MFU
from tests.support.asking import a_transformer, ask, codes, refused

# Llama 3 405B as trained: arXiv 2407.21783, table 4 and section 3.3.2.
LLAMA_405B: dict[str, Any] = {
    "model": "llama-3.1-405b",
    "sequence_length": 8192,
    "global_batch_sequences": 2048,
    "layout": {"tensor": 8, "pipeline": 16, "interleave": 8, "sharding": "zero2"},
}
SHAPE_CODES = ("bf16", "fp16", "fp8", "fp4", "tf32", "fp32")


def point(gpu_count: int, tokens_per_second: float) -> dict[str, float]:
    return {"gpu_count": gpu_count, "tokens_per_second": tokens_per_second}


def measured(*points: dict[str, float], **scaling: Any) -> dict[str, Any]:
    return {"scaling": {"kind": "measured", "points": list(points), **scaling}}


def performance(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = ask(body)["performance"]
    return found


def method(body: dict[str, Any]) -> str:
    """The method, which a note of its own code names too."""
    answer = ask(body)
    found: str = answer["performance"]["method"]
    assert f"throughput_{found}" in codes(answer)
    return found


# ------------------------------------------------------------------------------------------- which method


def test_each_way_is_taken_in_its_turn_and_named() -> None:
    two = measured(point(256, 250_000), point(512, 480_000))
    one = measured(point(256, 250_000))
    body = a_transformer(1024, model="llama-3-70b")
    with_layout = a_transformer(1024, model="llama-3-70b", layout={"tensor": 8, "pipeline": 4})
    assert method(a_transformer(1024, mfu_percent=40)) == "mfu_given"
    assert method(a_transformer(1024, hfu_percent=45, recompute="full")) == "hfu_given"
    assert method(with_layout | two) == "measured_points"
    assert method(with_layout | one) == "one_point"
    assert method(with_layout) == "layout_given"
    assert method(body) == "layout_searched"
    assert method(a_transformer(1024, parameters=70e9)) == "family_prior"


def test_a_layout_given_reaches_what_llama_3_405b_reached() -> None:
    found = performance(a_transformer(16384, **LLAMA_405B))
    # 400.798 by the model; the paper says 400 TFLOPS and 41 %.
    assert found["achieved_tflops_per_gpu"] == pytest.approx(400.798, abs=1e-3)
    assert found["step_mfu_percent"] == pytest.approx(41, abs=0.6)
    assert found["step"]["total_seconds"] == pytest.approx(6.707703638347396, rel=1e-9)
    assert found["step"]["bubble_seconds"] == pytest.approx(0.6863414486275684, rel=1e-9)
    assert found["tokens_per_second_per_gpu"] == pytest.approx(152.6602925844659, rel=1e-9)
    assert found["layout"]["given"]
    assert found["layout"]["data"] == 128


def test_the_parts_of_a_step_are_its_whole() -> None:
    step = performance(a_transformer(16384, **LLAMA_405B))["step"]
    parts = sum(seconds for part, seconds in step.items() if part not in ("total_seconds", "waiting_percent"))
    assert parts == pytest.approx(step["total_seconds"])
    working = step["compute_seconds"] + step["optimizer_seconds"]
    assert step["waiting_percent"] == pytest.approx(100 * (1 - working / step["total_seconds"]))


def test_a_searched_layout_is_held_to_be_a_tenth_slower_than_the_model_says() -> None:
    found = performance(a_transformer(512, model="llama-3-70b"))
    layout = found["layout"]
    assert not layout["given"]
    modelled = layout["global_batch_sequences"] * 8192 / found["step"]["total_seconds"]
    assert found["tokens_per_second"] == pytest.approx(SEARCHED_THROUGHPUT_FACTOR * modelled)


def test_the_layout_found_gives_the_same_step_when_it_is_given() -> None:
    found = performance(a_transformer(512, model="llama-3-70b"))
    layout = {
        field: found["layout"][field]
        for field in ("tensor", "pipeline", "interleave", "context", "microbatch", "sharding")
    }
    batch, recompute = found["layout"]["global_batch_sequences"], found["layout"]["recompute"]
    body = a_transformer(512, model="llama-3-70b", layout=layout, global_batch_sequences=batch, recompute=recompute)
    assert performance(body)["step"] == found["step"]


def test_two_points_are_a_law_through_them() -> None:
    # MLPerf v5.0, Llama 3.1 405B FP8: 334.508 tokens/s per GPU on 512 and 324.353 on 2048 make 289.228 on 8192.
    points = measured(point(512, 512 * 334.5084958626903), point(2048, 2048 * 324.35267727965993))
    answer = ask(a_transformer(8192, model="llama-3.1-405b", precision="fp8") | points)
    assert answer["performance"]["tokens_per_second_per_gpu"] == pytest.approx(289.2283054285447, rel=1e-9)
    spread = answer["performance"]["spread"]
    assert spread["p10_percent"] < 100 < spread["p90_percent"]


def test_a_measurement_that_the_others_contradict_is_left_out_and_named() -> None:
    points = [
        point(count, count * rate) for count, rate in ((64, 900), (128, 895), (256, 500), (512, 880), (1024, 870))
    ]
    answer = ask(a_transformer(1024, model="llama-3-70b") | measured(*points))
    assert "scaling_point_excluded" in codes(answer)
    assert answer["performance"]["tokens_per_second_per_gpu"] == pytest.approx(870, rel=0.01)


def test_far_beyond_the_points_is_warned_of() -> None:
    points = measured(point(8, 8000), point(16, 15_900))
    assert "scaling_extrapolated" not in codes(ask(a_transformer(128) | points))
    assert "scaling_extrapolated" in codes(ask(a_transformer(136) | points))
    one = measured(point(8, 8000))
    assert "scaling_extrapolated" not in codes(ask(a_transformer(384) | one))
    assert "scaling_extrapolated" in codes(ask(a_transformer(512) | one))


def test_one_point_moves_the_model_and_keeps_its_shape() -> None:
    # Llama 3: 430 TFLOPS on 8,192 GPUs and 400 on 16,384 (table 4), at half the tokens for each GPU.
    per_token = 2_625_424_588_800
    body = a_transformer(16384, **LLAMA_405B) | measured(point(8192, 8192 * 430e12 / per_token))
    found = performance(body)
    assert found["achieved_tflops_per_gpu"] == pytest.approx(400, rel=0.03)
    assert found["spread"]["sigma_ln"] == pytest.approx(SIGMA_LN_ONE_POINT)


def test_one_point_at_this_very_count_is_the_rate_whatever_is_trained() -> None:
    found = performance(a_transformer(2048, model="deepseek-v3") | measured(point(2048, 2e6)))
    assert (found["method"], found["tokens_per_second"]) == ("one_point", 2e6)


def test_a_batch_that_grows_keeps_more_of_the_rate_than_a_fixed_one() -> None:
    body = a_transformer(2048, model="llama-3-8b", global_batch_sequences=2048, layout={"sharding": "zero3"})
    one = point(256, 256 * 6000)
    fixed, grows = (performance(body | measured(one, law=law))["tokens_per_second"] for law in ("amdahl", "log2"))
    assert fixed < grows


def test_times_of_a_step_say_the_same_as_throughput() -> None:
    rates = (256 * 6000.0, 512 * 5900.0)
    by_rate = measured(*(point(count, rate) for count, rate in zip((256, 512), rates, strict=True)))
    times = [1024 * 8192 / rate for rate in rates]
    by_time = measured(*({"gpu_count": n, "step_seconds": time} for n, time in zip((256, 512), times, strict=True)))
    one, other = (performance(a_transformer(1024, global_batch_sequences=1024) | by) for by in (by_rate, by_time))
    assert one["tokens_per_second"] == pytest.approx(other["tokens_per_second"], rel=1e-9)
    fault = refused(a_transformer(1024) | by_time)
    assert fault.pointer == "/work/global_batch_sequences"


# ------------------------------------------------------------------------------------------- the prior


def test_the_prior_is_the_usual_mfu_of_the_family() -> None:
    found = performance(a_transformer(64, parameters=7e9))
    assert found["step_mfu_percent"] == pytest.approx(100 * PRIOR_MFU["h100"][1])


def test_the_step_model_and_the_prior_agree_on_a_usual_run() -> None:
    by_model, by_prior = (
        performance(a_transformer(512, **subject))["step_mfu_percent"]
        for subject in ({"model": "llama-3-70b"}, {"parameters": 70e9})
    )
    assert by_model == pytest.approx(by_prior, rel=0.25)


@pytest.mark.parametrize(
    ("gpu", "factor"),
    [("h100-sxm-80gb", MOE_FACTOR), ("b200-sxm-180gb", MOE_FACTOR), ("gb200-186gb", MOE_RACK_SCALE_FACTOR)],
)
def test_experts_keep_a_part_of_the_mfu_more_where_one_link_joins_a_rack(gpu: str, factor: float) -> None:
    dense, experts = (
        performance(a_transformer(64, gpu, **subject))["step_mfu_percent"]
        for subject in ({"parameters": 47e9}, {"parameters": 47e9, "active_parameters": 13e9})
    )
    assert experts / dense == pytest.approx(factor)


@pytest.mark.parametrize("subject", [{"model": "llama-3-8b"}, {"parameters": 8e9}])
def test_fp8_gains_what_was_published(subject: dict[str, Any]) -> None:
    bf16, fp8 = (
        performance(a_transformer(64, precision=precision, **subject))["tokens_per_second"]
        for precision in ("bf16", "fp8")
    )
    assert fp8 / bf16 == pytest.approx(LOW_PRECISION_FACTOR)


@pytest.mark.parametrize("gpu", ["gaudi3-128gb", "tpu-v6e"])
def test_fp8_gains_nothing_where_its_peak_is_no_higher(gpu: str) -> None:
    body = a_transformer(64, gpu, parameters=8e9)
    bf16, fp8 = (performance(body | {"work": body["work"] | {"precision": code}}) for code in ("bf16", "fp8"))
    assert fp8["tokens_per_second"] <= LOW_PRECISION_FACTOR * bf16["tokens_per_second"]
    gain = fp8["peak_tflops_per_gpu"] / bf16["peak_tflops_per_gpu"]
    assert fp8["tokens_per_second"] / bf16["tokens_per_second"] == pytest.approx(min(gain, LOW_PRECISION_FACTOR))


@pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
@pytest.mark.parametrize("subject", [{"model": "llama-3-8b"}, {"parameters": 8e9}], ids=["shape", "parameters"])
def test_every_accelerator_is_answered_in_every_precision_or_names_those_it_has(
    gpu: Any, subject: dict[str, Any]
) -> None:
    for precision in SHAPE_CODES:
        body = a_transformer(64, gpu.id, precision=precision, **subject)
        body["cluster"]["allow_announced"] = True
        peak = peak_tflops(gpu, precision)  # type: ignore[arg-type]
        try:
            found = performance(body)
        except BrokenRule as error:
            assert (peak, error.faults[0].pointer) == (None, "/work/precision")
            assert all(code in error.faults[0].message for code in SHAPE_CODES if peak_tflops(gpu, code))  # type: ignore[arg-type]
        else:
            assert found["peak_tflops_per_gpu"] == peak
            assert 0 < found["step_mfu_percent"] < 100
            fitted = gpu.id in ("a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm-80gb")
            assert ("accelerator_unvalidated" in found["regimes"]) != fitted


# ------------------------------------------------------------------------------------------- regimes and spread


@pytest.mark.parametrize(
    ("regime", "work", "gpu", "cluster"),
    [
        ("accelerator_unvalidated", {}, "b200-sxm-180gb", {}),
        ("accelerator_unvalidated", {}, "mi300x-192gb", {}),
        ("accelerator_unvalidated", {}, "tpu-v5p", {}),
        ("low_precision", {"precision": "fp8"}, "h100-sxm-80gb", {}),
        ("wide_precision", {"precision": "tf32", "parameters": 8e9}, "h100-sxm-80gb", {}),
        ("mixture_of_experts", {"model": "mixtral-8x7b"}, "h100-sxm-80gb", {}),
        ("slow_network", {}, "h100-sxm-80gb", {"interconnect": "eth-10-tcp"}),
        ("long_sequence", {"sequence_length": 65_536, "recompute": "full"}, "h100-sxm-80gb", {}),
        ("context_parallel", {"layout": {"tensor": 2, "context": 2}}, "h100-sxm-80gb", {}),
        ("adapters", {"training": "lora"}, "h100-sxm-80gb", {}),
        ("quantized_adapters", {"training": "qlora"}, "h100-sxm-80gb", {}),
    ],
)
def test_what_no_table_covers_is_named_noted_and_widens_the_spread(
    regime: str, work: dict[str, Any], gpu: str, cluster: dict[str, Any]
) -> None:
    by_prior = "parameters" in work or "model" in work
    plain: dict[str, Any] = {"parameters": 8e9} if by_prior else {"layout": {"tensor": 2}} if "layout" in work else {}
    usual = performance(a_transformer(64, **plain))
    body = a_transformer(64, gpu, **work)
    body["cluster"] |= cluster
    answer = ask(body)
    found = answer["performance"]
    assert regime in found["regimes"]
    assert "regime_unvalidated" in codes(answer)
    assert found["spread"]["sigma_ln"] > usual["spread"]["sigma_ln"]
    assert usual["regimes"] == []


def test_more_regimes_are_a_wider_spread() -> None:
    one, two = (
        performance(a_transformer(64, gpu, precision="fp8"))["spread"] for gpu in ("h100-sxm-80gb", "b200-sxm-180gb")
    )
    assert two["sigma_ln"] > one["sigma_ln"]
    assert two["p10_percent"] < one["p10_percent"] < one["p90_percent"] < two["p90_percent"]


def test_a_slow_network_is_none_within_one_node() -> None:
    body = a_transformer(8)
    body["cluster"]["interconnect"] = "eth-10-tcp"
    answer = ask(body)
    assert answer["performance"]["regimes"] == []
    assert "network_slow" not in codes(answer)


def test_what_is_unknown_of_an_accelerator_is_named_and_the_prior_taken() -> None:
    body = a_transformer()
    body["cluster"] = {"gpu_count": 64, "custom_gpu": {"name": "X1", "memory_gb": 128, "peak_tflops": 1200}}
    answer = ask(body)
    assert answer["performance"]["method"] == "family_prior"
    told = next(note["message"] for note in answer["notes"] if note["code"] == "figures_unknown")
    assert "memory bandwidth" in told
    assert "what its kernels reach" in told


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (a_transformer(mfu_percent=40, hfu_percent=45), "/work/hfu_percent"),
        (a_transformer(mfu_kind="billed"), "/work/mfu_kind"),
        (a_transformer(mfu_percent=40) | measured(point(8, 1e5)), "/scaling/points"),
        (a_transformer(64, model="mixtral-8x7b") | measured(point(32, 1e5)), "/scaling/points"),
        (a_transformer(64) | measured(point(32, 1e12)), "/scaling/points"),
        (a_transformer(8) | measured(point(16, 1e5), point(32, 2e5)), "/cluster/gpu_count"),
    ],
)
def test_what_contradicts_itself_is_refused(body: dict[str, Any], pointer: str) -> None:
    assert refused(body).pointer == pointer


async def test_over_http_the_method_and_its_spread_are_in_the_answer(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/estimates", json=a_transformer(512, model="deepseek-v3"))
    found = answer.json()["performance"]
    assert found["method"] == "family_prior"
    assert found["regimes"] == ["mixture_of_experts"]
    assert found["spread"]["p10_percent"] < 100 < found["spread"]["p90_percent"]
