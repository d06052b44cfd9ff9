"""Which accelerator a name means, when it means several, and when none."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.catalog.gpus import get_gpu, get_rentable_gpu, load_gpus
from service.catalog.names import one_spelling, words_of
from service.catalog.schemas import Accelerator
from service.errors import AmbiguousName, NotYetAvailable, UnknownName

every_gpu = pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
PIECES = [
    "nvidia",
    "amd",
    "h100",
    "H200",
    "a100",
    "sxm5",
    "pcie",
    "80",
    "GB",
    "hbm3",
    "rtx",
    "6000",
    "tpu",
    "v5",
    " ",
    "-",
]


def spellings(gpu: Accelerator) -> tuple[str, ...]:
    return (gpu.id, gpu.name, *gpu.aliases)


@every_gpu
def test_every_spelling_of_a_row_means_that_row(gpu: Accelerator) -> None:
    assert {get_gpu(text).id for text in spellings(gpu)} == {gpu.id}


@every_gpu
def test_case_and_separators_do_not_matter(gpu: Accelerator) -> None:
    for text in spellings(gpu):
        assert get_gpu(text.upper()).id == gpu.id
        assert get_gpu(f" {text.lower().replace(' ', '_')} ").id == gpu.id


@every_gpu
def test_an_id_with_its_vendor_before_it_means_that_row(gpu: Accelerator) -> None:
    assert get_gpu(f"{gpu.vendor} {gpu.id}").id == gpu.id


def test_no_spelling_is_shared_by_two_rows() -> None:
    owners: dict[str, set[str]] = {}
    for gpu in load_gpus():
        for text in spellings(gpu):
            owners.setdefault(one_spelling(text), set()).add(gpu.id)
    assert {text: ids for text, ids in owners.items() if len(ids) > 1} == {}


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("H100 SXM", "h100-sxm-80gb"),
        ("H100SXM5-80GB", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("H100 SXM 80 GiB", "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("a100 80g pci-e", "a100-pcie-80gb"),
        ("H200 SXM5", "h200-sxm-141gb"),
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA H200 NVL", "h200-nvl-141gb"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("GH200 144 GB", "gh200-144gb"),
        ("b200", "b200-sxm-180gb"),
        ("NVIDIA B200", "b200-sxm-180gb"),
        ("B200 192GB", "b200-sxm-180gb"),
        ("B200 180GB", "b200-sxm-180gb"),
        ("GB200 NVL72", "gb200-186gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("Tesla V100-PCIE-16GB", "v100-pcie-16gb"),
        ("Tesla T4", "t4-16gb"),
        ("L4", "l4-24gb"),
        ("L40S", "l40s-48gb"),
        ("NVIDIA A10G", "a10g-24gb"),
        ("a10", "a10-24gb"),
        ("RTX4090", "rtx-4090-24gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090-24gb"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-48gb"),
        ("MI300X", "mi300x-192gb"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
        ("AMD Instinct MI300X OAM", "mi300x-192gb"),
        ("Intel Gaudi 3", "gaudi3-128gb"),
        ("TPU v5p", "tpu-v5p"),
        ("Cloud TPU v5e", "tpu-v5e"),
        ("trn2", "trainium2"),
        ("AWS Trainium 2", "trainium2"),
    ],
)
def test_a_well_known_spelling_resolves(name: str, id: str) -> None:
    assert get_gpu(name).id == id


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("h100", ("h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm-80gb")),
        ("NVIDIA H100", ("h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm-80gb")),
        ("H100 80GB", ("h100-pcie-80gb", "h100-sxm-80gb")),
        ("h200", ("h200-nvl-141gb", "h200-sxm-141gb")),
        ("a100", ("a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb")),
        ("A100 SXM4", ("a100-sxm-40gb", "a100-sxm-80gb")),
        ("A100 40 GB", ("a100-pcie-40gb", "a100-sxm-40gb")),
        ("v100", ("v100-pcie-16gb", "v100-sxm2-16gb", "v100-sxm2-32gb")),
        ("GH200", ("gh200-144gb", "gh200-96gb")),
        ("RTX 6000", ("rtx-6000-ada-48gb", "rtx-pro-6000-bw-server-96gb", "rtx-pro-6000-bw-ws-96gb")),
        ("tpu", ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x")),
        ("Grace Hopper", ("gh200-144gb", "gh200-96gb")),
    ],
)
def test_a_generic_name_is_ambiguous(name: str, candidates: tuple[str, ...]) -> None:
    with pytest.raises(AmbiguousName) as caught:
        get_gpu(name)
    assert caught.value.candidates == candidates


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("h100-smx-80gb", "h100-sxm-80gb"),
        ("h1000", "h100-sxm-80gb"),
        ("V100S", "v100-pcie-16gb"),
        ("MI250", "mi250x-128gb"),
        ("RTX 4090 Laptop GPU", "rtx-4090-24gb"),
        ("H20-3e", "h20-sxm-96gb"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-16gb"),
        ("Trainium", "trainium1"),
        ("TPU v5", "tpu-v5p"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownName) as caught:
        get_gpu(name)
    assert nearest in caught.value.candidates
    assert len(caught.value.candidates) <= 5


@pytest.mark.parametrize("name", ["", " ", "80GB", "sxm", "NVIDIA", "GPU", "server", "2", "no such thing"])
def test_words_that_name_no_model_are_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        get_gpu(name)


@pytest.mark.parametrize("name", ["AMD H100 SXM", "NVIDIA MI300X", "H100 SXM 64GB", "H100 96GB"])
def test_a_name_that_contradicts_itself_is_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        get_gpu(name)


def test_nothing_alike_means_no_candidates() -> None:
    with pytest.raises(UnknownName) as caught:
        get_gpu("zzzz")
    assert caught.value.candidates == ()


def test_an_announced_part_is_refused_unless_asked_for() -> None:
    with pytest.raises(NotYetAvailable):
        get_rentable_gpu("VR200")
    assert get_rentable_gpu("VR200", allow_announced=True) is get_gpu("vr200-288gb")
    assert get_rentable_gpu("h100-sxm-80gb") is get_gpu("h100-sxm-80gb")


@pytest.mark.parametrize("text", ["80GB", "80 GB", "80G", "80GiB", "80-gb"])
def test_a_capacity_is_one_word_however_written(text: str) -> None:
    assert words_of(text) == {"80gb"}


def test_the_g_of_a_model_is_no_capacity() -> None:
    assert words_of("A10G") == {"a10g"}


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example("\ud800")
@example("h100\x00")
@example("h100 " * 10_000)
def test_any_text_resolves_or_is_refused_and_nothing_else(name: str) -> None:
    try:
        gpu = get_gpu(name)
    except AmbiguousName as error:
        assert len(error.candidates) > 1
    except UnknownName as error:
        assert len(error.candidates) <= 5
    else:
        assert gpu in load_gpus()
