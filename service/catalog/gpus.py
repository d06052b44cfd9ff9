"""The accelerators: the file of them, each by any of its names, and the list that fits a question."""

import re
from functools import cache
from importlib.resources import files
from typing import Literal

from msgspec import toml

from service.catalog.directory import Directory
from service.catalog.names import words_of
from service.catalog.schemas import Accelerator, Precision, Vendor
from service.errors import NotYetAvailable

GpuSort = Literal[
    "name",
    "-name",
    "release_year",
    "-release_year",
    "memory_gb",
    "-memory_gb",
    "memory_bandwidth_gb_s",
    "-memory_bandwidth_gb_s",
    "bf16_tflops",
    "-bf16_tflops",
    "fp8_tflops",
    "-fp8_tflops",
    "tdp_watts",
    "-tdp_watts",
]

_PEAK_FIELDS: dict[Precision, str] = {
    "fp32": "fp32_tflops",
    "tf32": "tf32_tflops",
    "bf16": "bf16_tflops",
    "fp16": "fp16_tflops",
    "fp8": "fp8_tflops",
    "fp4": "fp4_tflops",
    "int8": "int8_tops",
}

# Words that a vendor's parts may be called by. They belong to the row, so that an "AMD H100" is unknown.
_VENDOR_WORDS: dict[Vendor, frozenset[str]] = {
    "nvidia": frozenset({"nvidia", "tesla", "geforce"}),
    "amd": frozenset({"amd", "instinct"}),
    "intel": frozenset({"intel", "habana"}),
    "google": frozenset({"google", "cloud"}),
    "aws": frozenset({"aws", "amazon"}),
    "huawei": frozenset({"huawei"}),
}
_FORM_WORDS = frozenset({"sxm", "pcie", "nvl", "nvl72", "oam"})
_NOISE_WORDS = frozenset({"accelerator", "core", "edition", "generation", "gpu", "tensor"})
# Its torus joins a whole pod: the file says how many chips, and where that was read.
_BUILT_IN_NETWORK = "ICI"
_IN_BRACKETS = re.compile(r"\([^)]*\)")


@cache
def load_gpus() -> tuple[Accelerator, ...]:
    """Every accelerator, in the file's order: by vendor, and within it by age and kind."""
    document = (files("service.catalog") / "data" / "accelerators.toml").read_bytes()
    return toml.decode(document, type=dict[str, tuple[Accelerator, ...]])["accelerator"]


def get_gpu(name: str) -> Accelerator:
    """The accelerator with this id, or the only one that this spelling fits.

    AmbiguousName names all that a generic name fits ("h100"); UnknownName names the nearest. An announced
    part is answered too: see `get_rentable_gpu`.
    """
    return _directory().get(name)


def get_rentable_gpu(name: str, allow_announced: bool = False) -> Accelerator:
    """As `get_gpu`, but NotYetAvailable for a part that is only announced, unless that is asked for."""
    gpu = get_gpu(name)
    if gpu.availability == "announced" and not allow_announced:
        raise NotYetAvailable(
            f"{gpu.name} is announced, and nobody can rent it yet; allow_announced takes it all the same."
        )
    return gpu


def list_gpus(
    *,
    vendor: Vendor | None = None,
    min_memory_gb: float | None = None,
    precision: Precision | None = None,
    q: str | None = None,
    sort: GpuSort | None = None,
) -> tuple[Accelerator, ...]:
    """The accelerators that pass every filter given, by id unless sorted.

    `min_memory_gb` compares usable memory where it is known, else physical; `precision` keeps those with a
    published peak at it; `q` looks for a part of the id, name, architecture or an alias, in any case. Rows
    whose sorted value is unknown come last in both directions; equal ones are ordered by id.
    """
    rows = [
        gpu
        for gpu in load_gpus()
        if (vendor is None or gpu.vendor == vendor)
        and (min_memory_gb is None or memory_for_programs_gb(gpu) >= min_memory_gb)
        and (precision is None or peak_tflops(gpu, precision) is not None)
        and (q is None or _mentions(gpu, q.casefold()))
    ]
    rows.sort(key=lambda gpu: gpu.id)
    return tuple(rows if sort is None else _sorted(rows, sort))


def peak_tflops(gpu: Accelerator, precision: Precision) -> float | None:
    """The dense peak at this precision, in TFLOPS (TOPS for int8); None if none is published."""
    peak: float | None = getattr(gpu, _PEAK_FIELDS[precision])
    return peak


def memory_for_programs_gb(gpu: Accelerator) -> float:
    """Usable memory where it is published, else physical, in decimal GB."""
    return gpu.memory_gb if gpu.usable_memory_gb is None else gpu.usable_memory_gb


def slice_size(gpu: Accelerator) -> int:
    """How many exchange over ICI, the network that is built into TPUs, and not over the data centre's; 1 elsewhere."""
    joined = gpu.scale_up_interconnect is not None and gpu.scale_up_interconnect.startswith(_BUILT_IN_NETWORK)
    return (gpu.scale_up_domain_size or 1) if joined else 1


def _mentions(gpu: Accelerator, part: str) -> bool:
    return any(part in text.casefold() for text in (gpu.id, gpu.name, gpu.architecture, *gpu.aliases))


def _sorted(rows: list[Accelerator], sort: GpuSort) -> list[Accelerator]:
    field = sort.removeprefix("-")

    def value(gpu: Accelerator) -> float | str:
        raw: float | str = getattr(gpu, field)
        return raw.casefold() if isinstance(raw, str) else raw

    known = [gpu for gpu in rows if getattr(gpu, field) is not None]
    unknown = [gpu for gpu in rows if getattr(gpu, field) is None]
    # Python's sort is stable in reverse too, so equal values stay in the order of their ids.
    return sorted(known, key=value, reverse=sort.startswith("-")) + unknown


@cache
def _directory() -> Directory[Accelerator]:
    return Directory(
        "accelerator",
        load_gpus(),
        words_of_row=_row_words,
        common_words=_common_words(),
        noise_words=_NOISE_WORDS,
        name_a_row=_is_a_model,
    )


def _is_a_model(words: frozenset[str]) -> bool:
    """Model names have a digit: "server" fits one row only by chance, and "2" is no name."""
    joined = "".join(words)
    return len(joined) > 1 and any(letter.isdigit() for letter in joined)


def _row_words(gpu: Accelerator) -> frozenset[str]:
    """Every word that may be said of this row.

    Its form factor is added only when its name has none: an "H100 PCIe" is not the H100 NVL, though that is
    a PCIe card as well. What a name has in brackets explains it, and does not name it.
    """
    words = words_of(gpu.id) | words_of(_IN_BRACKETS.sub(" ", gpu.name)) | _VENDOR_WORDS[gpu.vendor]
    words |= {word for word in words_of(gpu.architecture) if word.isalpha()}
    words |= _memory_words(gpu)
    return words if words & _FORM_WORDS else words | (words_of(gpu.form_factor) & _FORM_WORDS)


def _memory_words(gpu: Accelerator) -> frozenset[str]:
    sizes_gb = {gpu.memory_gb, memory_for_programs_gb(gpu)}
    return words_of(gpu.memory_type or "") | {f"{size_gb:g}gb" for size_gb in sizes_gb}


def _common_words() -> frozenset[str]:
    """Words that describe a part and do not name it: vendors, form factors, memory."""
    memory = frozenset().union(*(_memory_words(gpu) for gpu in load_gpus()))
    return memory.union(_FORM_WORDS, *_VENDOR_WORDS.values())
