"""What is usual where the step model has no say: how sure that is, small models, and slow networks."""

from typing import Any

import pytest

from service.estimator.utilisation import PRIOR_MFU, REGIME_SIGMAS, family_prior
from tests.support.asking import a_transformer, ask, codes


def on(interconnect: str, body: dict[str, Any]) -> dict[str, Any]:
    return body | {"cluster": body["cluster"] | {"interconnect": interconnect}}


def performance(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = ask(body)["performance"]
    return found


def message(answer: dict[str, Any], code: str) -> str:
    return next(str(note["message"]) for note in answer["notes"] if note["code"] == code)


# ------------------------------------------------------------------------------------------- how sure


def test_the_size_alone_says_no_more_than_the_model_by_its_name() -> None:
    by_size, by_name = (
        performance(a_transformer(512, **subject)) for subject in ({"parameters": 70e9}, {"model": "llama-3.1-70b"})
    )
    assert by_size["spread"]["sigma_ln"] == pytest.approx(family_prior("a100").sigma_ln)
    assert by_size["spread"]["sigma_ln"] > 0.9 * by_name["spread"]["sigma_ln"]
    assert by_size["step_mfu_percent"] == pytest.approx(42)


@pytest.mark.parametrize(
    ("gpu_count", "gpu", "told"),
    [
        (512, "h100-sxm-80gb", "18 rows of 2 sources"),
        (8, "h100-sxm-80gb", "no published rows"),
        (512, "a100-sxm-80gb", "137 rows of 7 sources"),
        (8, "a100-sxm-80gb", "all but two of one source"),
        (512, "tpu-v5p", "no published rows of the family"),
    ],
)
def test_the_source_of_the_spread_says_what_it_rests_on(gpu_count: int, gpu: str, told: str) -> None:
    body = a_transformer(gpu_count, gpu, parameters=7e9) | {"uncertainty": {"samples": 1000}}
    assert told in performance(body)["spread"]["source"]


@pytest.mark.parametrize("gpu_count", [128, 8192])
def test_a_model_smaller_than_all_that_were_read_is_warned_of_and_less_sure(gpu_count: int) -> None:
    answer = ask(a_transformer(gpu_count, parameters=450e6))
    found = answer["performance"]
    assert found["regimes"] == ["small_model"]
    assert "6.5B parameters" in message(answer, "regime_unvalidated")
    usual = family_prior("h100").sigma_ln
    assert found["spread"]["sigma_ln"] == pytest.approx((usual**2 + REGIME_SIGMAS["small_model"] ** 2) ** 0.5)


def test_a_small_model_whose_step_is_modelled_is_no_regime() -> None:
    assert performance(a_transformer(64, model="pythia-1b"))["regimes"] == []


def test_of_experts_only_those_at_work_make_a_model_small() -> None:
    few, many = (
        performance(a_transformer(512, parameters=50e9, active_parameters=active))["regimes"] for active in (3e9, 7e9)
    )
    assert ("small_model" in few, "small_model" in many) == (True, False)


# ------------------------------------------------------------------------------------------- slow networks


@pytest.mark.parametrize("interconnect", ["eth-10-tcp", "eth-25-roce", "eth-100-tcp"])
def test_a_slow_network_takes_from_the_size_about_what_it_takes_from_the_model(interconnect: str) -> None:
    by_size, by_name = (
        performance(on(interconnect, a_transformer(512, **subject)))
        for subject in ({"parameters": 70e9}, {"model": "llama-3.1-70b"})
    )
    assert by_size["step_mfu_percent"] == pytest.approx(by_name["step_mfu_percent"], rel=0.25)
    assert by_size["regimes"] == ["slow_network"]


def test_what_the_network_left_is_said_with_its_rule() -> None:
    answer = ask(on("eth-10-tcp", a_transformer(512, parameters=70e9)))
    told = message(answer, "usual_less_network")
    left = answer["performance"]["step_mfu_percent"] / (100 * PRIOR_MFU["h100"][1])
    assert told.startswith(f"{100 * left:.3g} % of what is usual")
    assert "1.25 instead of 400 Gb/s" in told
    assert "N = 12 L h^2" in told
    assert "experts" not in told


def test_a_slower_network_never_leaves_more() -> None:
    names = ("eth-10-tcp", "eth-25-roce", "eth-100-tcp", "ib-ndr-400")
    reached = [performance(on(name, a_transformer(512, parameters=70e9)))["step_mfu_percent"] for name in names]
    assert reached == sorted(reached)
    assert reached[-1] == pytest.approx(42)


def test_of_experts_the_loss_is_at_least_that_of_a_dense_model() -> None:
    fast = performance(a_transformer(2048, model="deepseek-v3"))
    answer = ask(on("eth-10-tcp", a_transformer(2048, model="deepseek-v3")))
    assert answer["performance"]["step_mfu_percent"] < 0.2 * fast["step_mfu_percent"]
    assert "at least" in message(answer, "usual_less_network")


def test_where_nobody_can_say_what_the_network_takes_that_is_warned_of_and_widens() -> None:
    answer = ask(on("eth-10-tcp", a_transformer(512, "h100-pcie-80gb", parameters=70e9)))
    found = answer["performance"]
    assert found["regimes"][-1] == "network_unmodelled"
    assert "many times" in message(answer, "network_unmodelled")
    assert found["spread"]["p10_percent"] < 35


def test_the_network_that_an_accelerator_is_sold_with_takes_nothing_more() -> None:
    answer = ask(a_transformer(64, "v100-sxm2-32gb", precision="fp16", parameters=7e9))
    assert "slow_network" in answer["performance"]["regimes"]
    assert "network_unmodelled" not in answer["performance"]["regimes"]
    assert answer["performance"]["step_mfu_percent"] == pytest.approx(40)


def test_within_a_node_the_network_takes_nothing() -> None:
    assert performance(on("eth-10-tcp", a_transformer(8, parameters=7e9)))["step_mfu_percent"] == pytest.approx(40)


# ------------------------------------------------------------------------------------------- built-in networks


@pytest.mark.parametrize(
    ("gpu", "gpu_count", "slow"), [("tpu-v5p", 64, False), ("tpu-v5p", 8960, False), ("tpu-v5p", 9216, True)]
)
def test_one_slice_of_tpus_does_not_train_over_the_data_centre_network(gpu: str, gpu_count: int, slow: bool) -> None:
    answer = ask(a_transformer(gpu_count, gpu, parameters=70e9))
    assert ("slow_network" in answer["performance"]["regimes"]) == slow
    assert ("network_slow" in codes(answer)) == slow
