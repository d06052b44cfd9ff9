"""Laws of the catalogue's data, over every row, and the figures that are easiest to get wrong."""

import re
from itertools import pairwise

import pytest

from service.catalog.gpus import get_gpu, load_gpus, memory_for_programs_gb, peak_tflops
from service.catalog.interconnects import get_interconnect, load_interconnects
from service.catalog.schemas import Accelerator, Interconnect, Precision
from service.errors import UnknownName

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FROM_SLOW_TO_FAST: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp8", "fp4")

every_gpu = pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
every_interconnect = pytest.mark.parametrize("link", load_interconnects(), ids=lambda link: link.id)


def figures(row: Accelerator | Interconnect) -> dict[str, float]:
    values = {field: getattr(row, field) for field in row.__struct_fields__}
    return {field: value for field, value in values.items() if isinstance(value, int | float)}


def test_there_are_56_accelerators_and_33_interconnects() -> None:
    assert (len(load_gpus()), len(load_interconnects())) == (56, 33)


@pytest.mark.parametrize("rows", [load_gpus(), load_interconnects()], ids=["gpus", "interconnects"])
def test_ids_are_unique(rows: tuple[Accelerator, ...] | tuple[Interconnect, ...]) -> None:
    assert len({row.id for row in rows}) == len(rows)


@pytest.mark.parametrize("row", [*load_gpus(), *load_interconnects()], ids=lambda row: row.id)
def test_a_row_has_a_slug_a_source_and_no_figure_of_zero(row: Accelerator | Interconnect) -> None:
    assert SLUG.fullmatch(row.id)
    assert row.source.strip()
    assert row.name.strip()
    assert all(value > 0 for value in figures(row).values())


@every_gpu
def test_a_lower_precision_is_never_slower(gpu: Accelerator) -> None:
    peaks = [peak_tflops(gpu, precision) for precision in FROM_SLOW_TO_FAST]
    known = [peak for peak in peaks if peak is not None]
    assert all(slower <= faster for slower, faster in pairwise(known))


@every_gpu
def test_every_accelerator_can_train_in_16_bits(gpu: Accelerator) -> None:
    assert gpu.bf16_tflops is not None or gpu.fp16_tflops is not None


@every_gpu
def test_usable_memory_is_within_physical_memory(gpu: Accelerator) -> None:
    assert 0 < memory_for_programs_gb(gpu) <= gpu.memory_gb


@every_gpu
def test_what_is_doubtful_is_a_field_with_a_value(gpu: Accelerator) -> None:
    assert len(set(gpu.doubtful)) == len(gpu.doubtful)
    assert all(getattr(gpu, field) is not None for field in gpu.doubtful)


@every_gpu
def test_what_is_not_wholly_verified_says_which_figures_and_why(gpu: Accelerator) -> None:
    if gpu.verified != "yes":
        assert gpu.doubtful
    if gpu.doubtful:
        assert gpu.notes


@every_gpu
def test_what_is_announced_is_not_verified(gpu: Accelerator) -> None:
    assert (gpu.availability == "announced") == (gpu.verified == "no")


def test_three_parts_are_announced() -> None:
    announced = {gpu.id for gpu in load_gpus() if gpu.availability == "announced"}
    assert announced == {"vr200-288gb", "mi455x-432gb", "ascend-950dt"}


@pytest.mark.parametrize(
    ("name", "precision", "tflops"),
    [
        ("h100-sxm-80gb", "bf16", 989.4),
        ("h100-sxm-80gb", "fp8", 1978.9),
        ("h100-nvl-94gb", "bf16", 835),
        ("h200-sxm-141gb", "bf16", 989.4),
        ("a100-sxm-80gb", "bf16", 312),
        ("a10g-24gb", "bf16", 70),
        ("l40s-48gb", "bf16", 362.05),
        ("rtx-4090-24gb", "bf16", 165.2),
        ("b200-sxm-180gb", "bf16", 2250),
        ("mi250x-128gb", "bf16", 383),
        ("h20-sxm-96gb", "bf16", 148),
        ("gaudi3-128gb", "bf16", 1677),
    ],
)
def test_a_peak_is_dense_and_of_one_device(name: str, precision: Precision, tflops: float) -> None:
    assert peak_tflops(get_gpu(name), precision) == tflops


@pytest.mark.parametrize(
    ("name", "physical_gb", "usable_gb"),
    [
        ("b200-sxm-180gb", 192, 180),
        ("gb200-186gb", 192, 186),
        ("gh200-144gb", 144, 141),
        ("b300-sxm-288gb", 288, 262),
        ("gb300-288gb", 288, 278),
        ("h100-sxm-80gb", 80, None),
    ],
)
def test_physical_and_usable_memory_are_kept_apart(name: str, physical_gb: float, usable_gb: float | None) -> None:
    gpu = get_gpu(name)
    assert (gpu.memory_gb, gpu.usable_memory_gb) == (physical_gb, usable_gb)


def test_a_figure_that_is_not_published_is_null() -> None:
    assert get_gpu("v100-sxm2-16gb").bf16_tflops is None
    assert get_gpu("a100-sxm-80gb").fp8_tflops is None
    assert get_gpu("ascend-950dt").memory_type is None


def test_contested_figures_are_marked() -> None:
    assert {"usable_memory_gb", "fp4_tflops", "tdp_watts"} == set(get_gpu("b300-sxm-288gb").doubtful)
    assert "bf16_tflops" in get_gpu("b100-sxm-192gb").doubtful
    assert get_gpu("h100-sxm-80gb").doubtful == ()


@every_interconnect
def test_scaling_efficiency_is_a_range_of_percents(link: Interconnect) -> None:
    assert 1 <= link.scaling_efficiency_low_percent <= link.scaling_efficiency_high_percent <= 100


@every_interconnect
def test_scaling_efficiency_is_in_whole_percents(link: Interconnect) -> None:
    assert link.scaling_efficiency_low_percent.is_integer()
    assert link.scaling_efficiency_high_percent.is_integer()


@pytest.mark.parametrize(
    ("id", "low_percent", "high_percent"),
    [("ib-ndr-400", 85, 95), ("eth-10-tcp", 50, 70), ("eth-50-tcp", 2, 50), ("nvlink4", 95, 99)],
)
def test_an_interconnect_is_found_by_its_id(id: str, low_percent: float, high_percent: float) -> None:
    link = get_interconnect(id)
    assert link.scaling_efficiency_low_percent == low_percent
    assert link.scaling_efficiency_high_percent == high_percent


def test_only_the_classic_ethernet_row_rests_on_the_classic_calculator_alone() -> None:
    classic = [link.id for link in load_interconnects() if link.scaling_efficiency_basis == "classic calculator"]
    assert classic == ["eth-10-tcp"]


@pytest.mark.parametrize(
    ("id", "expected"), [("ib-ndr", "ib-ndr-400"), ("NVLINK4", "nvlink4"), ("infiniband", "ib-ndr-400")]
)
def test_an_unknown_interconnect_names_the_nearest(id: str, expected: str) -> None:
    with pytest.raises(UnknownName) as caught:
        get_interconnect(id)
    assert expected in caught.value.candidates
    assert len(caught.value.candidates) <= 5
