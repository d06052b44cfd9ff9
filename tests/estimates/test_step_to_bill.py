"""From a step to a bill, MFU against HFU, and what is counted twice: each said once, by a note or a refusal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from tests.support.asking import a_transformer, ask, codes, refused, said


def performance(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = ask(body)["performance"]
    return found


def test_a_step_mfu_takes_overhead_and_rework_once_each() -> None:
    answer = ask(a_transformer(512, mfu_percent=40))
    hours = answer["duration"]
    assert said(answer, "work.mfu_kind")["status"] == "default"
    assert hours["overhead_hours"] == pytest.approx(0.10 * hours["ideal_hours"])
    assert hours["rework_hours"] == pytest.approx(0.15 * 1.10 * hours["ideal_hours"])
    billed = answer["performance"]["billed_mfu_percent"]
    assert billed == pytest.approx(40 / 1.10 / 1.15)


def test_the_usual_overheads_are_the_published_gap_between_step_and_bill() -> None:
    found = performance(a_transformer(512, mfu_percent=40))
    assert 0.75 <= found["billed_mfu_percent"] / found["step_mfu_percent"] <= 0.95


def test_a_billed_mfu_takes_neither_overhead_nor_rework() -> None:
    answer = ask(a_transformer(512, mfu_percent=40, mfu_kind="billed"))
    hours = answer["duration"]
    assert hours["ideal_hours"] == hours["wall_clock_hours"] == hours["expected_wall_clock_hours"]
    assert answer["performance"]["billed_mfu_percent"] == 40
    assert answer["performance"]["step_mfu_percent"] is None
    assert not {code for code in codes(answer) if code.startswith("billed_mfu_with")}


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("billed_mfu_with_rework", a_transformer(mfu_percent=40, mfu_kind="billed") | {"rework": {"kind": "failures"}}),
        (
            "billed_mfu_with_rework",
            a_transformer(mfu_percent=40, mfu_kind="billed") | {"rework": {"kind": "buffer", "rework_percent": 10}},
        ),
        ("billed_mfu_with_overhead", a_transformer(mfu_percent=40, mfu_kind="billed", overhead_percent=5)),
        ("billed_mfu_with_idle", a_transformer(mfu_percent=40, mfu_kind="billed") | {"idle": {"setup_hours": 4}}),
        ("mfu_with_scaling", a_transformer(mfu_percent=40) | {"scaling": {"kind": "fixed", "efficiency_percent": 80}}),
        ("mfu_with_scaling", a_transformer() | {"scaling": {"kind": "interconnect", "preset": "ib-ndr-400"}}),
        ("mfu_with_scaling", a_transformer() | {"scaling": {"kind": "communication", "share_percent": 8}}),
        ("mfu_high", a_transformer(mfu_percent=60.1)),
        ("full_recompute", a_transformer(mfu_percent=40, recompute="full")),
        (
            "network_slow",
            a_transformer() | {"cluster": {"gpu": "H100 SXM", "gpu_count": 64, "interconnect": "eth-10-tcp"}},
        ),
        ("tensor_parallel_across_nodes", a_transformer(layout={"tensor": 16})),
        ("newer_gpu_break_even", a_transformer(gpu="b200-sxm-180gb")),
        ("global_batch_assumed", a_transformer()),
        (
            "sparse_peak",
            a_transformer()
            | {"cluster": {"gpu_count": 64, "custom_gpu": {"name": "X", "memory_gb": 80, "peak_tflops": 1978.9}}},
        ),
    ],
)
def test_each_doubt_is_a_note_of_its_own(code: str, body: dict[str, Any]) -> None:
    assert code in codes(ask(body))


def test_sixty_percent_is_not_yet_too_much() -> None:
    assert "mfu_high" not in codes(ask(a_transformer(mfu_percent=60)))


def test_a_dense_peak_is_not_taken_for_a_sparse_one() -> None:
    body = a_transformer()
    body["cluster"] = {"gpu_count": 64, "custom_gpu": {"name": "A100", "memory_gb": 80, "peak_tflops": 312}}
    assert "sparse_peak" not in codes(ask(body))


# ------------------------------------------------------------------------------------------- MFU and HFU


def test_hfu_is_mfu_and_what_is_recomputed() -> None:
    # Korthikanti et al. 2022: full recompute is 4/3 on layers, and none on logits.
    found = performance(a_transformer(512, model="llama-3-70b", hfu_percent=50, recompute="full"))
    assert found["step_hfu_percent"] == pytest.approx(50)
    assert 50 / (4 / 3) < found["step_mfu_percent"] < 50 / 1.31


def test_without_recompute_hfu_is_mfu() -> None:
    found = performance(a_transformer(hfu_percent=40, recompute="none"))
    assert found["step_mfu_percent"] == pytest.approx(found["step_hfu_percent"])


def test_hfu_is_not_known_where_nobody_says_what_is_recomputed() -> None:
    assert performance(a_transformer(mfu_percent=40))["step_hfu_percent"] is None
    fault = refused(a_transformer(hfu_percent=40))
    assert fault.pointer == "/work/recompute"
    assert "say what" in fault.message


def test_a_utilisation_beyond_the_hardware_is_refused_with_the_most_that_can_be() -> None:
    fault = refused(a_transformer(parameters=7e9, mfu_percent=80, recompute="full"))
    assert fault.pointer == "/work/mfu_percent"
    assert "an MFU of 75 %, would work" in fault.message
    most = performance(a_transformer(parameters=7e9, mfu_percent=75, recompute="full"))
    assert most["step_hfu_percent"] == pytest.approx(100)
    assert ask(a_transformer(mfu_percent=100))["performance"]["step_mfu_percent"] == 100


@given(
    mfu=st.floats(0.01, 100),
    recompute=st.sampled_from(["none", "selective", "full"]),
    attention=st.sampled_from(["full", "causal"]),
    length=st.sampled_from([512, 8192, 131_072]),
)
def test_mfu_is_never_above_hfu_nor_hfu_above_the_hardware(
    mfu: float, recompute: str, attention: str, length: int
) -> None:
    body = a_transformer(512, mfu_percent=mfu, recompute=recompute, attention=attention, sequence_length=length)
    try:
        found = performance(body)
    except BrokenRule as error:
        assert error.faults[0].pointer == "/work/mfu_percent"
        assert mfu > 60
    else:
        assert found["step_mfu_percent"] <= found["step_hfu_percent"] <= 100


# ------------------------------------------------------------------------------------------- scaling of a utilisation


def test_the_mfu_of_a_smaller_cluster_is_carried_by_the_step_model() -> None:
    scaling = {"scaling": {"kind": "model", "base_gpu_count": 64}}
    answer = ask(a_transformer(512, model="llama-3-70b", mfu_percent=40) | scaling)
    efficiency = said(answer, "scaling.efficiency_percent")["value"]
    assert 80 < efficiency < 100
    assert answer["performance"]["step_mfu_percent"] == pytest.approx(0.40 * efficiency)
    assert "mfu_with_scaling" not in codes(answer)
    same = ask(a_transformer(64, model="llama-3-70b", mfu_percent=40) | scaling)
    assert said(same, "scaling.efficiency_percent")["value"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("body", "scaling", "pointer"),
    [
        (a_transformer(mfu_percent=40), {}, "/scaling"),
        (a_transformer(), {"base_gpu_count": 8}, "/scaling/base_gpu_count"),
        (a_transformer(parameters=7e9), {}, "/scaling"),
        (a_transformer(gpu="tpu-v5p"), {}, "/scaling"),
        (a_transformer(parameters=7e9, mfu_percent=40), {"base_gpu_count": 8}, "/scaling"),
        ({"work": {"kind": "gpu_hours", "hours": 10}}, {}, "/scaling"),
    ],
)
def test_the_model_is_refused_where_it_has_nothing_to_say(
    body: dict[str, Any], scaling: dict[str, Any], pointer: str
) -> None:
    assert refused(body | {"scaling": {"kind": "model", **scaling}}).pointer == pointer
