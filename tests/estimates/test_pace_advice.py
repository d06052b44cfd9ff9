"""Advice on the pace of a request: waiting, utilisation, networks, profiles, figures of one's own."""

from typing import Any

import pytest

from service.errors import BrokenRule
from tests.support.asking import a_transformer, ask, codes, refused, said

X1: dict[str, Any] = {
    "name": "X1",
    "memory_gb": 128,
    "peak_tflops": 1200,
    "memory_bandwidth_gb_s": 4800,
    "link_gb_s": 450,
    "network_gbps": 400,
}


def message(answer: dict[str, Any], code: str) -> str:
    return next(str(note["message"]) for note in answer["notes"] if note["code"] == code)


def spread_of(answer: dict[str, Any], name: str) -> str:
    return next(str(share["spread"]) for share in answer["risk"]["variance_shares"] if share["input"] == name)


def communication(share_percent: float, gpu_count: int | None = None, **scaling: Any) -> dict[str, Any]:
    base = {} if gpu_count is None else {"gpu_count": gpu_count}
    return {"scaling": {"kind": "communication", "share_percent": share_percent, **base, **scaling}}


# ------------------------------------------------------------------------------------------- waiting


def test_too_many_gpus_for_the_batch_are_told_what_would_help_and_it_does() -> None:
    answer = ask(a_transformer(512, model="llama-3.1-70b", global_batch_sequences=8))
    assert answer["performance"]["step"]["waiting_percent"] > 90
    told = message(answer, "waiting_high")
    assert "a batch of 128 sequences" in told
    better = ask(a_transformer(512, model="llama-3.1-70b", global_batch_sequences=128))
    assert better["performance"]["step"]["waiting_percent"] <= 30
    assert "waiting_high" not in codes(better)


def test_a_batch_larger_than_any_published_one_is_no_advice() -> None:
    body = a_transformer(512, model="llama-3.1-70b")
    body["cluster"]["interconnect"] = "eth-10-tcp"
    told = message(ask(body), "waiting_high")
    assert "that were tried, a few of each, none brings it below 30 %; a faster network may" in told
    assert "with a batch" not in told


def test_a_layout_given_is_kept_while_a_better_batch_is_looked_for() -> None:
    layout = {"tensor": 8, "pipeline": 16}
    answer = ask(a_transformer(512, model="llama-3.1-70b", global_batch_sequences=8, layout=layout))
    assert "with a batch of" in message(answer, "waiting_high")


def test_a_usual_run_is_not_warned_of_waiting() -> None:
    assert "waiting_high" not in codes(ask(a_transformer(512, model="llama-3.1-70b")))


def test_where_no_layout_divides_a_batch_is_offered_too_and_works() -> None:
    fault = refused(a_transformer(512, model="llama-3.1-70b", global_batch_sequences=1))
    assert fault.pointer == "/cluster/gpu_count"
    assert "or a batch of 512 sequences" in fault.message
    better = ask(a_transformer(512, model="llama-3.1-70b", global_batch_sequences=512))
    assert better["performance"]["step"]["waiting_percent"] <= 30


# ------------------------------------------------------------------------------------------- utilisation


@pytest.mark.parametrize(
    "body",
    [
        a_transformer(64, mfu_percent=70),
        a_transformer(64, hfu_percent=65, recompute="none"),
        a_transformer(64)
        | {"scaling": {"kind": "measured", "points": [{"gpu_count": 64, "tokens_per_second": 864_000}]}},
    ],
    ids=["typed", "by its HFU", "by a measurement"],
)
def test_a_utilisation_that_nobody_reaches_is_questioned_however_it_came_about(body: dict[str, Any]) -> None:
    answer = ask(body)
    assert f"{answer['performance']['step_mfu_percent']:.4g} % is more" in message(answer, "mfu_high")


def test_a_usual_utilisation_is_not_questioned() -> None:
    assert "mfu_high" not in codes(ask(a_transformer(64, hfu_percent=65, recompute="full")))
    assert "mfu_high" not in codes(ask(a_transformer(64, mfu_percent=60)))


# ------------------------------------------------------------------------------------------- a profile


def test_an_mfu_belongs_to_the_profile_that_communication_was_measured_in() -> None:
    answer = ask(a_transformer(512, mfu_percent=40) | communication(8, 64))
    # (0.92 / (0.92 + 0.08 * 8)) / 0.92 = 64.10 %: what 64 GPUs lose is in their MFU.
    assert answer["performance"]["step_mfu_percent"] == pytest.approx(40 / 1.56)
    assert said(answer, "scaling.efficiency_percent")["value"] == pytest.approx(100 / 1.56)
    assert "mfu_of_the_profile" in codes(answer)
    assert "mfu_with_scaling" not in codes(answer)


def test_it_is_what_a_throughput_of_that_profile_says() -> None:
    by_mfu = ask(a_transformer(512, mfu_percent=40) | communication(8, 64))
    rate = ask(a_transformer(64, mfu_percent=40))["performance"]["tokens_per_second"]
    work = {"kind": "throughput", "tokens": 1e12, "tokens_per_second": rate, "per": "cluster", "measured_gpu_count": 64}
    by_rate = ask({"cluster": {"gpu_count": 512}, "work": work} | communication(8, 64))
    assert by_mfu["duration"]["wall_clock_hours"] == pytest.approx(by_rate["duration"]["wall_clock_hours"])


def test_fewer_gpus_than_those_of_the_profile_are_better_used() -> None:
    answer = ask(a_transformer(64, mfu_percent=40) | communication(8, 512))
    assert answer["performance"]["step_mfu_percent"] == pytest.approx(40 / (0.92 + 0.08 / 8))


def test_where_the_batch_grows_the_mfu_of_the_profile_stays() -> None:
    answer = ask(a_transformer(512, mfu_percent=40) | communication(8, 64, batch="grows"))
    assert answer["performance"]["step_mfu_percent"] == pytest.approx(40)


@pytest.mark.parametrize(
    "body",
    [
        a_transformer(64, mfu_percent=40) | communication(8),
        a_transformer(64, mfu_percent=40) | communication(8, 64),
        a_transformer(512, parameters=70e9) | communication(8, 64),
    ],
    ids=["no count", "this count", "predicted for this cluster"],
)
def test_a_utilisation_of_this_cluster_still_counts_communication_twice(body: dict[str, Any]) -> None:
    told = message(ask(body), "mfu_with_scaling")
    assert "kind communication" in told


# ------------------------------------------------------------------------------------------- networks


HOURS: dict[str, Any] = {"kind": "gpu_hours", "hours": 100}
RATE: dict[str, Any] = {"kind": "throughput", "tokens": 1e12, "tokens_per_second": 1e4, "per": "gpu"}


@pytest.mark.parametrize("work", [HOURS, RATE], ids=["hours", "throughput"])
def test_a_slow_network_is_advised_against_where_hours_do_not_depend_on_it(work: dict[str, Any]) -> None:
    cluster = {"gpu_count": 64, "interconnect": "eth-10-tcp"}
    answer = ask({"cluster": cluster, "work": work})
    assert {"ethernet_10g_multi_node", "network_slow", "interconnect_for_the_record"} <= codes(answer)
    plain = ask({"cluster": {"gpu_count": 64}, "work": work})
    assert answer["cost"] == plain["cost"]


@pytest.mark.parametrize("work", [HOURS, RATE], ids=["hours", "throughput"])
def test_a_network_is_recorded_once(work: dict[str, Any]) -> None:
    answer = ask({"cluster": {"gpu_count": 64, "interconnect": "eth-10-tcp"}, "work": work})
    told = [item["source"] for item in answer["assumptions"] if item["field"] == "cluster.interconnect"]
    assert told == ["request"]


def test_within_a_node_and_on_a_fast_network_there_is_nothing_to_advise() -> None:
    for cluster in ({"gpu_count": 8, "interconnect": "eth-10-tcp"}, {"gpu_count": 64, "interconnect": "ib-ndr-400"}):
        found = codes(ask({"cluster": cluster, "work": HOURS}))
        assert not {"ethernet_10g_multi_node", "network_slow"} & found


def test_a_network_named_twice_is_advised_against_once() -> None:
    answer = ask(
        {
            "cluster": {"gpu_count": 64, "interconnect": "eth-10-tcp"},
            "work": HOURS,
            "scaling": {"kind": "interconnect", "preset": "eth-10-tcp"},
        }
    )
    told = [note["code"] for note in answer["notes"]]
    assert told.count("ethernet_10g_multi_node") == 1
    assert "interconnect_for_the_record" not in told


# ------------------------------------------------------------------------------------------- figures of one's own


def test_with_what_its_kernels_reach_an_accelerator_of_ones_own_has_a_step() -> None:
    body = a_transformer()
    body["cluster"] = {"gpu_count": 64, "custom_gpu": X1 | {"gemm_efficiency_percent": 75}}
    answer = ask(body)
    found = answer["performance"]
    assert found["method"] == "layout_searched"
    assert found["regimes"] == ["accelerator_unvalidated"]
    assert "figures_unknown" not in codes(answer)
    assert said(answer, "cluster.custom_gpu.gemm_efficiency_percent")["status"] == "given"


def test_every_figure_of_it_changes_the_hours() -> None:
    known = X1 | {"gemm_efficiency_percent": 75}
    worse = {"memory_bandwidth_gb_s": 1200, "link_gb_s": 20, "network_gbps": 100, "gemm_efficiency_percent": 50}

    def rate(figures: dict[str, Any]) -> float:
        body = a_transformer(model="llama-3-70b", global_batch_sequences=256)
        body["cluster"] = {"gpu_count": 64, "custom_gpu": figures}
        found: float = ask(body)["performance"]["tokens_per_second"]
        return found

    for field, value in worse.items():
        assert rate(known | {field: value}) < rate(known), field


def test_a_part_with_the_h100s_figures_is_as_fast_as_the_h100() -> None:
    figures = {
        "name": "Mine",
        "memory_gb": 80,
        "peak_tflops": 989.4,
        "memory_bandwidth_gb_s": 3350,
        "link_gb_s": 450,
        "network_gbps": 400,
        "gemm_efficiency_percent": 100 * 0.62 / 0.8,
    }
    body = a_transformer()
    body["cluster"] = {"gpu_count": 64, "custom_gpu": figures}
    own, h100 = (ask(asked)["performance"]["tokens_per_second"] for asked in (body, a_transformer()))
    assert own == pytest.approx(h100, rel=1e-6)


def test_without_it_the_answer_says_that_the_other_figures_do_nothing_and_which_field_is_missing() -> None:
    body = a_transformer()
    body["cluster"] = {"gpu_count": 64, "custom_gpu": X1}
    told = message(ask(body), "figures_unknown")
    assert "do not change the hours" in told
    assert "gemm_efficiency_percent" in told


# ------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize(("given", "status"), [({}, "default"), ({"law": "amdahl"}, "given")])
@pytest.mark.parametrize("work", [HOURS, a_transformer()["work"]], ids=["hours", "transformer"])
def test_a_law_that_nobody_chose_is_a_default(work: dict[str, Any], given: dict[str, str], status: str) -> None:
    points = [{"gpu_count": 64, "tokens_per_second": 640_000}, {"gpu_count": 128, "tokens_per_second": 1_260_000}]
    body = a_transformer(256) | {"work": work, "scaling": {"kind": "measured", "points": points, **given}}
    told = said(ask(body), "scaling.law")
    assert (told["value"], told["status"]) == ("amdahl", status)


def test_a_gain_beyond_the_peak_is_refused_with_an_mfu_of_the_profile_that_would_work() -> None:
    body = a_transformer(8, mfu_percent=60) | communication(50, 512)
    with pytest.raises(BrokenRule, match=r"an MFU of 50\.\d+ %, would work") as raised:
        ask(body)
    assert raised.value.faults[0].pointer == "/work/mfu_percent"
    assert ask(a_transformer(8, mfu_percent=50) | communication(50, 512))["performance"]["step_mfu_percent"] < 100


@pytest.mark.parametrize(
    "work",
    [
        {"kind": "gpu_hours", "hours": 120},
        {"kind": "throughput", "tokens": 1e9, "tokens_per_second": 1e6, "per": "cluster"},
    ],
)
def test_a_network_beside_one_slice_slows_no_hours_that_were_given(work: dict[str, Any]) -> None:
    cluster = {"gpu": "tpu-v5p", "gpu_count": 64, "interconnect": "eth-25-roce"}
    assert "network_slow" not in codes(ask({"cluster": cluster, "work": work}))
    assert "network_slow" in codes(ask({"cluster": {**cluster, "gpu": "h100-sxm-80gb"}, "work": work}))


def test_a_network_that_one_node_does_not_use_widens_no_spread() -> None:
    body = a_transformer(8, mfu_percent=40) | {
        "scaling": {"kind": "model", "base_gpu_count": 4},
        "uncertainty": {"seed": 1},
    }
    slow = {**body, "cluster": {**body["cluster"], "interconnect": "eth-10-tcp"}}
    assert spread_of(ask(slow), "scaling") == spread_of(ask(body), "scaling")


def test_a_mean_of_days_that_cannot_be_said_names_what_spreads_the_days() -> None:
    answer = ask(
        {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
            "work": {"kind": "gpu_hours", "hours": 1000},
            "price": {"kind": "hourly", "amount": "0"},
            "storage": {"kind": "fixed", "amount": "0"},
            "egress": {"kind": "fixed", "amount": "0"},
            "rework": {"kind": "failures", "preset": "hyperscale_automated"},
            "uncertainty": {"seed": 1, "spreads": {"failure_rate": {"kind": "lognormal", "sigma": 3}}},
        }
    )
    assert answer["risk"]["mean_days"] is None
    assert "by failure_rate most of all" in message(answer, "risk_mean_unsaid")
