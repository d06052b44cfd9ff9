"""Work of kind throughput, and scaling by a measured share of communication."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import ask, codes, refused, said


def a_throughput(gpu_count: int = 512, scaling: dict[str, Any] | None = None, **work: Any) -> dict[str, Any]:
    """A trillion tokens at 2,000 a second for each of 512."""
    body = {
        "cluster": {"gpu_count": gpu_count},
        "work": {"kind": "throughput", "tokens": 1e12, "tokens_per_second": 2000, "per": "gpu", **work},
    }
    return body if scaling is None else body | {"scaling": scaling}


def communication(**scaling: Any) -> dict[str, Any]:
    return {"kind": "communication", "share_percent": 8, **scaling}


def hours(body: dict[str, Any]) -> float:
    """Productive hours."""
    duration = ask(body)["duration"]
    return float(duration["wall_clock_hours"] - duration["overhead_hours"])


def test_hours_are_tokens_over_tokens_a_second() -> None:
    answer = ask(a_throughput())
    assert answer["duration"]["ideal_hours"] == pytest.approx(1e12 / (512 * 2000) / 3600)
    assert answer["duration"]["overhead_hours"] == pytest.approx(0.1 * answer["duration"]["ideal_hours"])
    assert answer["performance"]["method"] == "throughput_given"


def test_of_one_or_of_all_is_the_same_rate() -> None:
    one, all_of_them = a_throughput(), a_throughput(tokens_per_second=512 * 2000, per="cluster")
    assert hours(one) == pytest.approx(hours(all_of_them))


def test_nothing_is_said_of_flops_that_nobody_counted() -> None:
    found = ask(a_throughput())["performance"]
    assert found["model_flops"] is None
    assert found["step_mfu_percent"] is None
    assert found["billed_mfu_percent"] is None
    assert "memory" not in ask(a_throughput())


def test_epochs_multiply_the_tokens() -> None:
    assert hours(a_throughput(epochs=3)) == pytest.approx(3 * hours(a_throughput()))
    assert "epochs_repeated" in codes(ask(a_throughput(epochs=5)))


def test_a_million_tokens_have_a_price() -> None:
    answer = ask(a_throughput())
    total = float(answer["cost"]["total"])
    assert float(answer["unit_costs"]["per_million_tokens"]) == pytest.approx(total / 1e6, rel=1e-3)


def test_the_rate_of_another_count_is_taken_as_it_is_and_that_is_warned_of() -> None:
    body = a_throughput(1024, tokens_per_second=1.0e6, per="cluster", measured_gpu_count=512)
    assert hours(body) == pytest.approx(1e12 / 2.0e6 / 3600)
    assert "throughput_taken_linear" in codes(ask(body))
    assert "throughput_taken_linear" not in codes(ask(a_throughput(1024)))


# ------------------------------------------------------------------------------------------- with scaling


def test_a_percent_scales_the_rate_of_a_smaller_measurement() -> None:
    scaling = {"kind": "fixed", "efficiency_percent": 90}
    body = a_throughput(1024, scaling, measured_gpu_count=512)
    assert hours(body) == pytest.approx(hours(a_throughput(1024)) / 0.9)
    assert not codes(ask(body)) & {"throughput_with_scaling", "throughput_taken_linear"}


@pytest.mark.parametrize(
    "scaling",
    [
        {"kind": "fixed", "efficiency_percent": 90},
        {"kind": "interconnect", "preset": "ib-ndr-400"},
        communication(),
    ],
)
def test_scaling_a_rate_of_this_very_count_counts_twice_and_is_warned_of(scaling: dict[str, Any]) -> None:
    assert "throughput_with_scaling" in codes(ask(a_throughput(scaling=scaling)))


def test_a_law_says_what_is_left_between_the_two_counts() -> None:
    points = [{"gpu_count": 64, "tokens_per_second": 64 * 1000}, {"gpu_count": 512, "tokens_per_second": 512 * 900}]
    body = a_throughput(
        2048,
        {"kind": "measured", "points": points},
        tokens_per_second=900,
        measured_gpu_count=512,
    )
    # y = n / X is linear in n: 1/1000 at 64, 1/900 at 512, so 1/675 at 2048; against 1/900 that is 75 %.
    at_2048 = 1 / 1000 + (1 / 900 - 1 / 1000) * (2048 - 64) / (512 - 64)
    assert hours(body) == pytest.approx(1e12 * at_2048 / 2048 / 3600, rel=1e-6)


def test_fewer_gpus_than_measured_lose_less() -> None:
    body = a_throughput(64, communication(gpu_count=512), measured_gpu_count=512)
    assert hours(body) < hours(a_throughput(64, measured_gpu_count=512))


# ------------------------------------------------------------------------------------------- communication


def test_exposed_communication_of_a_profile_is_amdahls_law() -> None:
    # 8 % of the step on 64; on 512 with the same batch it is 8 x 8 beside 92: 92 / (92 + 64) = 58.97 %.
    body = {
        "cluster": {"gpu_count": 512},
        "work": {"kind": "gpu_hours", "hours": 100},
        "scaling": communication(gpu_count=64),
    }
    answer = ask(body)
    efficiency = said(answer, "scaling.efficiency_percent")
    assert efficiency["value"] == pytest.approx(100 * 92 / 156)
    assert "Amdahl" in efficiency["source"]
    assert answer["duration"]["wall_clock_hours"] == pytest.approx(100 * 156 / 92)


def test_where_the_batch_grows_the_share_stays() -> None:
    body = {"cluster": {"gpu_count": 512}, "scaling": communication(gpu_count=64, batch="grows")}
    assert said(ask(body), "scaling.efficiency_percent")["value"] == pytest.approx(92)


def test_a_profile_of_this_count_is_its_share() -> None:
    assert said(ask({"scaling": communication()}), "scaling.efficiency_percent")["value"] == pytest.approx(92)


def test_a_profile_of_a_much_smaller_run_is_warned_of() -> None:
    def asked(gpu_count: int) -> set[str]:
        return codes(ask({"cluster": {"gpu_count": gpu_count}, "scaling": communication(gpu_count=64)}))

    assert "communication_extrapolated" not in asked(512)
    assert "communication_extrapolated" in asked(513)


def test_a_share_that_leaves_nothing_is_refused() -> None:
    body = {"cluster": {"gpu_count": 1_000_000}, "scaling": communication(gpu_count=8)}
    assert refused(body).pointer == "/scaling/share_percent"


def test_communication_beside_a_throughput_is_counted_from_where_that_was_measured() -> None:
    # Both on 64: the rate there holds the 8 % already, so that 512 keep 1 / (0.92 + 0.64) of it.
    body = a_throughput(512, communication(gpu_count=64), measured_gpu_count=64)
    assert hours(body) == pytest.approx(hours(a_throughput(512)) * (0.92 + 0.64))


@given(share=st.floats(0, 50), count=st.integers(64, 512))
def test_a_larger_share_never_takes_less_time(share: float, count: int) -> None:
    less, more = (
        hours(a_throughput(count, communication(share_percent=percent, gpu_count=64), measured_gpu_count=64))
        for percent in (share / 2, share)
    )
    assert less <= more * (1 + 1e-12)


@given(tokens=st.floats(1e6, 1e15), rate=st.floats(1, 1e5), count=st.integers(1, 10_000))
def test_tokens_a_second_times_the_hours_are_the_tokens(tokens: float, rate: float, count: int) -> None:
    body = a_throughput(count, tokens=tokens, tokens_per_second=rate)
    done = ask(body)["performance"]["tokens_per_second"] * 3600 * hours(body)
    assert done == pytest.approx(tokens, rel=1e-9)


async def test_over_http_what_a_rate_is_of_must_be_said(api: httpx.AsyncClient) -> None:
    body = a_throughput()
    assert (await api.post("/v1/estimates", json=body)).status_code == 200
    del body["work"]["per"]
    answer = await api.post("/v1/estimates", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/work/per")
