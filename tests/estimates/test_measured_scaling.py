"""Scaling fitted to the caller's own measurements: the efficiency, how sure it is, and what is refused."""

from typing import Any

import httpx
import pytest

# MLPerf v5.0, Llama-3.1-405B FP8 on H100 (mlcommons/training_results_v5.0@0fdc28f, eos-dfw_n*): tokens/s per GPU.
MLPERF = {512: 334.5084958626903, 2048: 324.35267727965993}
MEASURED_AT_8192 = 296.4091702449212


def points(per_gpu: dict[int, float]) -> list[dict[str, float]]:
    return [{"gpu_count": n, "tokens_per_second": n * rate} for n, rate in per_gpu.items()]


async def ask(api: httpx.AsyncClient, gpu_count: int, **scaling: Any) -> httpx.Response:
    body = {
        "cluster": {"gpu_count": gpu_count},
        "work": {"kind": "gpu_hours", "hours": 100},
        "scaling": {"kind": "measured", **scaling},
    }
    return await api.post("/v1/estimates", json=body)


def efficiency(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = next(
        item for item in answer.json()["assumptions"] if item["field"] == "scaling.efficiency_percent"
    )
    return found


def codes(answer: httpx.Response) -> set[str]:
    return {note["code"] for note in answer.json()["notes"]}


async def test_two_points_predict_four_times_as_many_gpus(api: httpx.AsyncClient) -> None:
    answer = await ask(api, 8192, points=points(MLPERF))
    said = efficiency(answer)
    # Amdahl through the two points gives 289.228 tokens/s per GPU at 8,192, 2.42 % below what was measured there.
    assert said["value"] == pytest.approx(100 * 289.2283054285447 / 334.5084958626903, rel=1e-9)
    assert said["value"] == pytest.approx(100 * MEASURED_AT_8192 / MLPERF[512], rel=0.025)
    assert said["status"] == "derived"
    hours = answer.json()["duration"]["wall_clock_hours"]
    assert hours == pytest.approx(100 / said["value"] * 100, rel=1e-12)
    assert "scaling_measured" in codes(answer)
    assert "scaling_extrapolated" not in codes(answer)


async def test_at_the_smallest_count_the_hours_are_the_ideal_ones(api: httpx.AsyncClient) -> None:
    answer = await ask(api, 512, points=points(MLPERF))
    assert efficiency(answer)["value"] == pytest.approx(100)
    assert answer.json()["duration"]["wall_clock_hours"] == pytest.approx(100)


async def test_step_times_of_one_batch_say_the_same_as_throughput(api: httpx.AsyncClient) -> None:
    tokens = 4_194_304
    steps = [{"gpu_count": n, "step_seconds": tokens / (n * rate)} for n, rate in MLPERF.items()]
    by_step, by_rate = await ask(api, 4096, points=steps), await ask(api, 4096, points=points(MLPERF))
    assert efficiency(by_step)["value"] == pytest.approx(efficiency(by_rate)["value"], rel=1e-9)


async def test_beyond_eight_times_is_warned(api: httpx.AsyncClient) -> None:
    assert "scaling_extrapolated" not in codes(await ask(api, 16384, points=points(MLPERF)))
    assert "scaling_extrapolated" in codes(await ask(api, 16392, points=points(MLPERF)))


async def test_a_point_far_off_is_left_out_and_named(api: httpx.AsyncClient) -> None:
    per_gpu = {8: 100.0, 16: 99.0, 32: 60.0, 64: 95.5, 128: 92.0}
    answer = await ask(api, 256, points=points(per_gpu))
    assert "scaling_point_excluded" in codes(answer)
    assert any("at 32 GPUs" in note["message"] for note in answer.json()["notes"])


@pytest.mark.parametrize(
    ("gpu_count", "scaling", "pointer"),
    [
        (256, {"points": points({512: 1, 1024: 1})}, "/cluster/gpu_count"),
        (512, {"points": [*points({512: 1}), *points({512: 2})]}, "/scaling/points"),
        (512, {"points": [{"gpu_count": 8}, {"gpu_count": 16}]}, "/scaling/points/0"),
        (512, {"points": [*points({8: 1}), {"gpu_count": 16, "step_seconds": 1}]}, "/scaling/points/1"),
        (
            512,
            {"points": [{"gpu_count": 8, "tokens_per_second": 1, "step_seconds": 1}, *points({16: 1})]},
            "/scaling/points/0",
        ),
        (
            512,
            {"law": "log2", "points": [{"gpu_count": n, "step_seconds": 1} for n in (8, 16)]},
            "/scaling/points/0/step_seconds",
        ),
        (1_000_000, {"points": points({8: 100, 16: 1})}, "/scaling/points"),
    ],
)
async def test_measurements_that_say_nothing_are_refused(
    api: httpx.AsyncClient, gpu_count: int, scaling: dict[str, Any], pointer: str
) -> None:
    answer = await ask(api, gpu_count, **scaling)
    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "/errors/broken-rule"
    assert answer.json()["errors"][0]["pointer"] == pointer


async def test_one_point_is_no_series(api: httpx.AsyncClient) -> None:
    answer = await ask(api, 512, points=points({8: 1}))
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/scaling/points")
