"""The smallest GPU count of an answer: one meaning whatever the count asked with, never above one that fits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from tests.support.asking import a_transformer, ask
from tests.support.explained import explained
from tests.support.formulas import computed

_BATCH = 720_720  # every count below divides it


def memory(gpu_count: int, gpu: str = "h100-sxm-80gb", **work: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(a_transformer(gpu_count, gpu, **work))["memory"]
    return found


def fits(gpu_count: int, **work: Any) -> bool:
    """Refused, or answered with a warning: either is no."""
    try:
        return bool(memory(gpu_count, **work)["fits"])
    except BrokenRule:
        return False


@pytest.mark.parametrize("gpu_count", [512, 280, 96, 48, 24])
def test_it_is_the_same_whatever_the_count_asked_with(gpu_count: int) -> None:
    assert memory(gpu_count, model="llama-3.1-70b")["smallest_gpu_count"] == 24


@pytest.mark.parametrize("work", [{}, {"mfu_percent": 40}, {"hfu_percent": 40, "recompute": "full"}])
def test_it_is_the_same_however_the_hours_are_known(work: dict[str, Any]) -> None:
    assert memory(64, model="llama-3.1-70b", **work)["smallest_gpu_count"] == 24


@pytest.mark.parametrize(
    ("gpu_count", "work", "expected"),
    [
        (1, {"model": "llama-3.1-70b", "training": "qlora"}, 1),
        (8, {"model": "llama-3.1-70b", "training": "qlora"}, 1),
        (3, {"model": "llama-3.1-8b"}, 3),
        (64, {"model": "llama-3.1-8b"}, 3),
        (64, {"model": "llama-3.1-8b", "mfu_percent": 40}, 3),
        (64, {"parameters": 8.03e9, "mfu_percent": 40}, 3),
    ],
)
def test_part_of_a_node_may_be_enough(gpu_count: int, work: dict[str, Any], expected: int) -> None:
    assert memory(gpu_count, **work)["smallest_gpu_count"] == expected


def test_a_run_that_fits_on_part_of_its_last_node_is_not_told_to_fill_it() -> None:
    assert memory(20, parameters=70e9, mfu_percent=40)["smallest_gpu_count"] == 20
    assert memory(64, parameters=70e9, mfu_percent=40)["smallest_gpu_count"] == 24


@pytest.mark.parametrize(
    ("model", "asked", "less", "work"),
    [
        ("llama-3.1-8b", 1024, 1, {}),
        ("llama-3.1-8b", 1024, 1, {"mfu_percent": 40}),
        ("llama-3.1-8b", 1024, 1, {"recompute": "none"}),
        ("llama-3.1-70b", 1024, 8, {}),
        ("llama-3.1-70b", 1024, 8, {"mfu_percent": 40}),
        ("llama-3.1-70b", 1024, 8, {"recompute": "none"}),
        ("llama-3.1-70b", 1024, 8, {"recompute": "none", "mfu_percent": 40}),
        ("llama-3.1-70b", 1024, 8, {"sequence_length": 65_536}),
        ("llama-3.1-70b", 1024, 8, {"sequence_length": 65_536, "mfu_percent": 40}),
        ("llama-3.1-405b", 1024, 8, {"mfu_percent": 40}),
        ("gpt-3-175b", 1024, 8, {}),
        ("mixtral-8x7b", 1024, 8, {}),
        ("deepseek-v3", 1024, 8, {}),
        ("llama-3.1-70b", 128, 8, {"layout": {"sharding": "zero3", "tensor": 8}, "recompute": "full"}),
        ("llama-3.1-8b", 16, 1, {"layout": {"sharding": "zero3"}, "recompute": "full"}),
        ("llama-3.1-8b", 16, 2, {"layout": {"sharding": "zero2", "tensor": 2}, "recompute": "full"}),
        ("llama-3.1-70b", 128, 16, {"layout": {"tensor": 4, "pipeline": 4}, "recompute": "full"}),
    ],
)
def test_it_fits_and_the_next_fewer_does_not(model: str, asked: int, less: int, work: dict[str, Any]) -> None:
    work = {"model": model, "global_batch_sequences": _BATCH, **work}
    smallest = memory(asked, **work)["smallest_gpu_count"]
    assert fits(smallest, **work)
    assert not fits(smallest - less, **work)


@given(
    gpu_count=st.integers(1, 1024),
    model=st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "qwen3-235b-a22b"]),
    work=st.sampled_from([{}, {"recompute": "none"}, {"training": "lora"}, {"precision": "tf32"}]),
    sequence_length=st.sampled_from([512, 4096, 32_768, 131_072, 4095]),
)
def test_it_is_never_above_a_count_that_fits(
    gpu_count: int, model: str, work: dict[str, Any], sequence_length: int
) -> None:
    asked = {"model": model, "mfu_percent": 40, "sequence_length": sequence_length, **work}
    if fits(gpu_count, **asked):
        assert memory(gpu_count, **asked)["smallest_gpu_count"] <= gpu_count
        assert memory(gpu_count + -gpu_count % 8, **asked)["fits"]


@pytest.mark.parametrize(
    ("basis", "gpu_count", "work"),
    [
        ("parameters_only", 64, {"parameters": 70e9, "mfu_percent": 40}),
        ("parameters_only", 20, {"parameters": 70e9, "mfu_percent": 40}),
        ("parameters_only", 18, {"parameters": 75e9, "mfu_percent": 40}),
        ("parameters_only", 8, {"parameters": 7e9, "precision": "tf32"}),
        ("fully_sharded", 64, {"model": "llama-3.1-70b", "mfu_percent": 40}),
        ("fully_sharded", 18, {"model": "llama-3.1-70b", "mfu_percent": 40}),
        ("fully_sharded", 512, {"model": "deepseek-v3"}),
        ("fully_sharded", 64, {"model": "llama-3.1-8b", "precision": "tf32"}),
        ("layout_searched", 64, {"model": "llama-3.1-70b"}),
        ("layout_searched", 1, {"model": "llama-3.1-70b", "training": "qlora"}),
        ("layout_searched", 256, {"model": "llama-3.1-405b", "sequence_length": 131_072}),
        ("layout_given", 64, {"model": "llama-3.1-70b", "layout": {"sharding": "zero3", "tensor": 8}}),
        ("layout_given", 64, {"model": "llama-3.1-8b", "layout": {"sharding": "zero2", "pipeline": 2}}),
        ("layout_given", 64, {"model": "llama-3.1-8b", "layout": {"sharding": "ddp", "tensor": 8}}),
    ],
)
def test_it_is_explained_for_every_basis(basis: str, gpu_count: int, work: dict[str, Any]) -> None:
    answer = explained(a_transformer(gpu_count, **work))
    assert answer["memory"]["basis"] == basis
    (found,) = (one for one in answer["explanations"] if one["field"] == "memory.smallest_gpu_count")
    assert found["result"] == answer["memory"]["smallest_gpu_count"]
    assert computed(found["substituted"]) == found["result"]
