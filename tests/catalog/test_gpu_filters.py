"""Which accelerators a list has, and in which order."""

from typing import get_args

import pytest

from service.catalog.gpus import GpuSort, list_gpus, load_gpus, memory_for_programs_gb, peak_tflops
from service.catalog.schemas import Accelerator, Precision, Vendor

every_sort = pytest.mark.parametrize("sort", get_args(GpuSort))


def ids(rows: tuple[Accelerator, ...]) -> list[str]:
    return [gpu.id for gpu in rows]


def test_without_a_question_every_row_is_listed_by_id() -> None:
    assert ids(list_gpus()) == sorted(gpu.id for gpu in load_gpus())


@pytest.mark.parametrize("vendor", get_args(Vendor))
def test_a_vendor_has_only_its_own_rows(vendor: Vendor) -> None:
    assert {gpu.vendor for gpu in list_gpus(vendor=vendor)} == {vendor}


def test_vendors_share_the_catalogue_among_them() -> None:
    assert sum(len(list_gpus(vendor=vendor)) for vendor in get_args(Vendor)) == len(load_gpus())


def test_minimum_memory_is_compared_with_what_programs_can_use() -> None:
    assert "b200-sxm-180gb" in ids(list_gpus(min_memory_gb=180))
    assert "b200-sxm-180gb" not in ids(list_gpus(min_memory_gb=181))
    assert "mi300x-192gb" in ids(list_gpus(min_memory_gb=192))


@pytest.mark.parametrize("min_memory_gb", [0, 24, 80, 141, 288, 1000])
def test_minimum_memory_keeps_exactly_the_rows_that_have_it(min_memory_gb: float) -> None:
    expected = [gpu.id for gpu in list_gpus() if memory_for_programs_gb(gpu) >= min_memory_gb]
    assert ids(list_gpus(min_memory_gb=min_memory_gb)) == expected


@pytest.mark.parametrize("precision", get_args(Precision))
def test_a_precision_keeps_exactly_the_rows_with_a_published_peak(precision: Precision) -> None:
    expected = [gpu.id for gpu in list_gpus() if peak_tflops(gpu, precision) is not None]
    assert ids(list_gpus(precision=precision)) == expected
    assert expected


def test_the_ampere_generation_has_no_fp8() -> None:
    assert list_gpus(precision="fp8", q="ampere") == ()


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("MI3", "mi300x-192gb"),
        ("hopper", "h20-sxm-96gb"),
        ("trn1", "trainium1"),
        ("GeForce", "rtx-4090-24gb"),
    ],
)
def test_a_text_is_found_in_id_name_architecture_and_aliases(q: str, expected: str) -> None:
    assert expected in ids(list_gpus(q=q))


@pytest.mark.parametrize("q", ["%", "_", ".*", "no such thing"])
def test_a_text_has_no_wildcards(q: str) -> None:
    assert list_gpus(q=q) == ()


def test_filters_are_joined_by_and() -> None:
    both = list_gpus(vendor="nvidia", min_memory_gb=100, precision="fp4")
    assert both
    assert all(gpu.vendor == "nvidia" and gpu.memory_gb >= 100 and gpu.fp4_tflops for gpu in both)


@every_sort
def test_a_sort_loses_no_row(sort: GpuSort) -> None:
    assert sorted(ids(list_gpus(sort=sort))) == ids(list_gpus())


@every_sort
def test_a_sort_orders_what_is_known_and_puts_the_unknown_last(sort: GpuSort) -> None:
    values = [getattr(gpu, sort.removeprefix("-")) for gpu in list_gpus(sort=sort)]
    known = [value for value in values if value is not None]
    assert values == known + [None] * (len(values) - len(known))
    folded = [value.casefold() if isinstance(value, str) else value for value in known]
    assert folded == sorted(folded, reverse=sort.startswith("-"))


@pytest.mark.parametrize("sort", ["fp8_tflops", "-fp8_tflops", "tdp_watts", "-tdp_watts"])
def test_some_value_is_unknown_and_last_in_both_directions(sort: GpuSort) -> None:
    assert getattr(list_gpus(sort=sort)[-1], sort.removeprefix("-")) is None


@every_sort
def test_equal_rows_are_ordered_by_id(sort: GpuSort) -> None:
    groups: dict[object, list[str]] = {}
    for gpu in list_gpus(sort=sort):
        groups.setdefault(getattr(gpu, sort.removeprefix("-")), []).append(gpu.id)
    assert all(group == sorted(group) for group in groups.values())
