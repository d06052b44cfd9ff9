"""Combinations that cannot be: each is refused at its field, and told what would work, which then does."""

import re
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from tests.support.asking import a_transformer, answer_bytes, ask, refused

LAYOUT = {"tensor": 8, "pipeline": 4}


def a_layout(gpu_count: int = 512, batch: int = 1024, **layout: Any) -> dict[str, Any]:
    """Llama 3 70B (64 heads, 8 of keys and values, 80 layers) on this layout."""
    return a_transformer(gpu_count, model="llama-3-70b", global_batch_sequences=batch, layout=LAYOUT | layout)


def changed(body: dict[str, Any], pointer: str, value: int) -> dict[str, Any]:
    """The same body with another value at a pointer."""
    first, *rest = pointer.strip("/").split("/")
    if not rest:
        return body | {first: value}
    return body | {first: changed(body.get(first, {}), "/".join(rest), value)}


# ------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize(
    ("body", "pointer", "told"),
    [
        (a_layout(tensor=3, pipeline=1, gpu_count=768), "/work/layout/tensor", "2 or 4 would"),
        (a_layout(tensor=128, pipeline=1), "/work/layout/tensor", "64 would"),
        (a_layout(pipeline=7, gpu_count=448), "/work/layout/pipeline", "5 or 8 would"),
        (a_layout(interleave=3), "/work/layout/interleave", "2 or 4 would"),
        (a_layout(pipeline=1, interleave=2), "/work/layout/interleave", "1 would work"),
        (a_layout(context=3, gpu_count=768), "/work/layout/context", "2 or 4 would"),
        (a_layout(microbatch=5), "/work/layout/microbatch", "4 or 8 would"),
        (a_layout(gpu_count=500), "/cluster/gpu_count", "do not make whole replicas of 32"),
        (a_layout(batch=8), "/cluster/gpu_count", "more than the batch has sequences"),
        (a_layout(batch=1000), "/cluster/gpu_count", "does not make equal parts"),
        (a_layout(expert=2), "/work/layout/expert", "1 would work"),
        (a_transformer(model="mixtral-8x7b", layout={"expert": 3}), "/work/layout/expert", "2 or 4 would"),
        (a_transformer(12, model="mixtral-8x7b", layout={"expert": 8}), "/work/layout/expert", "4 would"),
        (a_transformer(parameters=7e9, layout={"tensor": 2}), "/work/layout", "give shape or model"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_at_its_field(body: dict[str, Any], pointer: str, told: str) -> None:
    fault = refused(body)
    assert fault.pointer == pointer
    assert told in fault.message


@pytest.mark.parametrize(
    "others",
    [
        {"mfu_percent": 40},
        {"hfu_percent": 40, "recompute": "none"},
        {"precision": "tf32"},
        {"model": "mixtral-8x7b"},
        {"training": "lora"},
    ],
)
@pytest.mark.parametrize("layout", [{"tensor": 3}, {"tensor": 1024}, {"context": 1_000_000}, {"pipeline": 1000}])
def test_an_impossible_layout_is_refused_whatever_the_hours_rest_on(
    others: dict[str, Any], layout: dict[str, Any]
) -> None:
    fault = refused(a_transformer(64, **{"model": "llama-3-70b", **others}, layout=layout))
    assert fault.pointer.startswith(("/work/layout/", "/cluster/gpu_count"))


@given(
    field=st.sampled_from(["tensor", "pipeline", "interleave", "context", "microbatch"]),
    value=st.integers(2, 200),
    count=st.sampled_from([128, 512, 1536]),
)
def test_what_is_said_to_work_removes_the_fault(field: str, value: int, count: int) -> None:
    body = a_layout(count, 3072, **{field: value})
    try:
        answer_bytes(body)
    except BrokenRule as error:
        fault = error.faults[0]
        if fault.pointer.startswith("/work/layout/"):
            for number in re.findall(r"\d+", fault.message.rpartition(";")[2]):
                assert fault.pointer not in _pointers(changed(body, fault.pointer, int(number)))


def _pointers(body: dict[str, Any]) -> set[str]:
    try:
        answer_bytes(body)
    except BrokenRule as error:
        return {fault.pointer for fault in error.faults}
    return set()


# ------------------------------------------------------------------------------------------- counts and batches


def test_more_gpus_than_the_batch_allows_are_refused_with_a_count_that_works() -> None:
    body = a_transformer(1000, model="llama-3-8b", global_batch_sequences=64)
    fault = refused(body)
    assert fault.pointer == "/cluster/gpu_count"
    below, above = re.findall(r"(\d+) or (\d+) would work", fault.message)[0]
    for count in (int(below), int(above)):
        assert ask(changed(body, "/cluster/gpu_count", count))["performance"]["method"] == "layout_searched"


def test_a_batch_of_one_sequence_is_one_replica() -> None:
    found = ask(a_transformer(8, global_batch_sequences=1))["performance"]["layout"]
    assert (found["data"], found["microbatch"]) == (1, 1)


@pytest.mark.parametrize("gpu_count", [1, 7, 12, 100, 500, 1000, 4095, 1_000_000])
def test_odd_counts_are_answered_where_no_batch_is_given(gpu_count: int) -> None:
    found = ask(a_transformer(gpu_count, model="tinyllama-1.1b"))["performance"]
    layout = found["layout"]
    used = layout["data"] * layout["tensor"] * layout["pipeline"] * layout["context"]
    assert used == gpu_count
    assert layout["global_batch_sequences"] % layout["data"] == 0


@given(count=st.integers(1, 20_000), gpu=st.sampled_from(["h100-sxm-80gb", "a100-sxm-40gb", "mi300x-192gb"]))
def test_every_count_is_answered_for_a_model_that_fits_anywhere(count: int, gpu: str) -> None:
    assert ask(a_transformer(count, gpu, model="pythia-1b"))["memory"]["fits"]


@pytest.mark.parametrize("model", ["pythia-1b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "gpt-3-175b"])
def test_twice_the_gpus_never_take_longer_where_the_batch_is_left_to_the_service(model: str) -> None:
    hours = [ask(a_transformer(2**power, model=model))["duration"]["ideal_hours"] for power in range(9, 15)]
    assert hours == sorted(hours, reverse=True)


def test_the_batch_that_nobody_gave_grows_with_many_gpus() -> None:
    few, many = (
        ask(a_transformer(count, model="llama-3.1-405b"))["performance"]["layout"]["global_batch_sequences"] * 8192
        for count in (1024, 16384)
    )
    assert few == pytest.approx(4.2e6, rel=0.01)
    assert many == pytest.approx(16.8e6, rel=0.01)  # as Llama 3 405B had on as many


# ------------------------------------------------------------------------------------------- the accelerator


@pytest.mark.parametrize(
    ("cluster", "pointer", "told"),
    [
        ({"gpu": "H100"}, "/cluster/gpu", "h100-sxm-80gb"),
        ({"gpu": "X9000"}, "/cluster/gpu", ""),
        ({"gpu": "H100 SXM", "interconnect": "ib-ndr-9000"}, "/cluster/interconnect", "ib-ndr-400"),
        ({"gpu": "H100 SXM", "interconnect": "nvlink4"}, "/cluster/interconnect", "between nodes"),
        (
            {"gpu": "H100 SXM", "custom_gpu": {"name": "X", "memory_gb": 80, "peak_tflops": 1000}},
            "/cluster/custom_gpu",
            "not both",
        ),
        ({}, "/cluster/gpu", "custom_gpu"),
    ],
)
def test_an_accelerator_or_network_that_is_none_is_refused(cluster: dict[str, Any], pointer: str, told: str) -> None:
    fault = refused(a_transformer() | {"cluster": cluster})
    assert fault.pointer == pointer
    assert told in fault.message


@pytest.mark.parametrize("work", [{"kind": "gpu_hours", "hours": 10}, {"kind": "throughput"}])
def test_a_network_that_is_none_is_refused_where_hours_do_not_need_it_too(work: dict[str, Any]) -> None:
    if work["kind"] == "throughput":
        work = work | {"tokens": 1e9, "tokens_per_second": 1e5, "per": "cluster"}
    fault = refused({"work": work, "cluster": {"interconnect": "ib-ndr-9000"}})
    assert fault.pointer == "/cluster/interconnect"


def test_a_peak_that_nobody_publishes_is_refused_with_those_that_are_known() -> None:
    fault = refused(a_transformer(gpu="a100-sxm-80gb", precision="fp8"))
    assert fault.pointer == "/work/precision"
    assert "known: bf16, fp16, tf32, fp32" in fault.message


# ------------------------------------------------------------------------------------------- extremes


@pytest.mark.parametrize(
    "work",
    [
        {"tokens": 1},
        {"tokens": 1, "epochs": 0.001},
        {"sequence_length": 1},
        {"sequence_length": 1_000_000, "recompute": "full", "layout": {"tensor": 8, "context": 8, "sharding": "zero3"}},
        {"shape": {"layers": 1, "hidden": 1, "heads": 1, "ffn_hidden": 1, "vocabulary": 1}},
        {"shape": {"layers": 1000, "hidden": 64, "heads": 1, "head_dim": 63, "ffn_hidden": 1, "vocabulary": 7}},
        {"shape": {"layers": 7, "hidden": 100, "heads": 10, "kv_heads": 5, "ffn_hidden": 11, "vocabulary": 3}},
        {"parameters": 1e3, "active_parameters": 1e3},
        {"global_batch_sequences": 73_513_440},
        {"mfu_percent": 0.01, "tokens": 1e6, "overhead_percent": 1000},
        {"training": "lora", "lora": {"rank": 65_536}},
    ],
)
@pytest.mark.parametrize("gpus_per_node", [1, 8, 1024])
def test_extremes_are_answered(work: dict[str, Any], gpus_per_node: int) -> None:
    body = a_transformer(64, **work)
    body["cluster"]["gpus_per_node"] = gpus_per_node
    assert ask(body)["performance"]["tokens_per_second"] > 0


def test_a_projection_that_heads_do_not_say_is_left_to_the_prior() -> None:
    shape = {
        "layers": 61,
        "hidden": 7168,
        "heads": 128,
        "head_dim": 128,
        "ffn_hidden": 18432,
        "vocabulary": 129280,
        "attention_parameters_per_layer": 187_105_280,
    }
    assert ask(a_transformer(512, shape=shape))["performance"]["method"] == "family_prior"


async def test_over_http_every_fault_of_a_layout_is_named(api: httpx.AsyncClient) -> None:
    body = a_layout(tensor=3, pipeline=7, gpu_count=500)
    answer = await api.post("/v1/estimates", json=body)
    assert answer.status_code == 422
    pointers = {error["pointer"] for error in answer.json()["errors"]}
    assert pointers == {"/work/layout/tensor", "/work/layout/pipeline", "/cluster/gpu_count"}
