"""A file's names of accelerators to catalogue ids, each once: by the name, and by the memory and mount beside it."""

import re
from functools import lru_cache
from typing import NamedTuple

from service.catalog.gpus import get_gpu, memory_for_programs_gb
from service.catalog.schemas import Accelerator
from service.errors import AmbiguousName, UnknownName
from service.prices.importers.rows import Reject, shown
from service.prices.importers.schemas import MAX_LISTED, Matched, UnmatchedName

# A vendor's 80 GB is 79.6 GiB to a driver, and 288 GB may be sold as 268.
MEMORY_TOLERANCE = 0.1
_MAX_NAME_LENGTH = 200
_MAX_REMEMBERED = 20_000
_HGX = re.compile(r"\bHGX\b", re.IGNORECASE)  # the board that carries SXM parts
_NVLINK = re.compile(r"[\s-]*\bNVLink\b", re.IGNORECASE)  # a link, not a part: SXM parts and bridged cards both have it
_SXM = re.compile(r"sxm[2-6]?", re.IGNORECASE)
_SLICE = re.compile(
    r"(?:(?:google|cloud)[\s_-]+)*(?:tpu[\s_-]*v?(?P<told>[0-9]+(?:litepod|[a-z])?)|v(?P<bare>[0-9](?:litepod|[a-z])?))"
    r"(?:[\s_-]pod)?[\s_-](?P<size>[0-9]{1,6})",
    re.IGNORECASE,
)
# What the number of an accelerator type counts (Google Cloud TPU documentation, "AcceleratorType", 2026): TensorCores,
# two to a chip, up to v4 and in v5p; chips in v5e and v6e.
_GENERATION = re.compile(r"(?:google[\s_-]+)?(?:cloud[\s_-]+)?tpu[\s_-]*v?([0-9]+[a-z]?)", re.IGNORECASE)
_CORES_PER_CHIP = {"2": 2, "3": 2, "4": 2, "5p": 2, "5e": 1, "5litepod": 1, "6e": 1}


class Match(NamedTuple):
    """What a name means: one id, or all that may be meant; how many chips it stands for if it is that of a slice, and
    how many cores a chip has where that is known."""

    accelerator_id: str | None
    matched: Matched | None
    candidates: tuple[str, ...]
    slice_chips: int | None = None
    cores_per_chip: int | None = None
    memory_differs: str | None = None


class Accelerators:
    """The names of one file, and which of them could not be told."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, float | None, str], Match] = {}
        self._unmatched: dict[str, tuple[Match, int]] = {}

    def match(self, name: str, memory_gb: float | None = None, mount: str = "") -> Match:
        """The only entry that all of this fits, else all that may be meant; Reject for a slice of unknown unit."""
        key = (name, memory_gb, mount)
        found = self._known.get(key)
        if found is None:
            found = _match(name, memory_gb, mount)
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found

    def count(self, name: str, match: Match) -> None:
        """One row more that carries a name which could not be told."""
        known = self._unmatched.get(name)
        if known is not None:
            self._unmatched[name] = (known[0], known[1] + 1)
        elif len(self._unmatched) < MAX_LISTED:
            self._unmatched[name] = (match, 1)

    def unmatched(self) -> tuple[UnmatchedName, ...]:
        """The names that could not be told, the most frequent first."""
        rows = sorted(self._unmatched.items(), key=lambda item: (-item[1][1], item[0]))
        return tuple(
            UnmatchedName(name, match.matched or "unknown", match.candidates, count) for name, (match, count) in rows
        )


@lru_cache(maxsize=_MAX_REMEMBERED)
def meaning_of(name: str) -> Match:
    """What a name means as it stands, an id or not."""
    try:
        fits = (get_gpu(name).id,)
    except AmbiguousName as error:
        return Match(None, "ambiguous", error.candidates)
    except UnknownName as error:
        return Match(None, "unknown", error.candidates)
    return Match(fits[0], None, fits)


def another_id(accelerator_id: str) -> str | None:
    """What is wrong with an id that is only a spelling of the catalogue's; None where nothing is, or nobody knows it.

    A rate is found by the catalogue's own id.
    """
    meant = meaning_of(accelerator_id).accelerator_id
    return None if meant in {None, accelerator_id} else f"{shown(accelerator_id)} is {meant} in the catalogue"


def _match(name: str, memory_gb: float | None, mount: str) -> Match:
    if len(name) > _MAX_NAME_LENGTH:
        raise Reject("invalid", "accelerator", f"{shown(name)} is too long for a name")
    if name.startswith("="):
        raise Reject("formula", "accelerator", f"{shown(name)} is a formula")
    text, chips, cores = _sliced(name)
    fits: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    for attempt in _spellings(text, memory_gb):
        try:
            fits = (get_gpu(attempt).id,)
        except AmbiguousName as error:
            fits = fits or error.candidates
        except UnknownName as error:
            near = near or error.candidates
        if len(fits) == 1:
            break
    if len(fits) > 1:
        fits = _of_memory(fits, memory_gb)
    if len(fits) > 1:
        fits = _of_mount(fits, mount)
    if not fits:
        return Match(None, "unknown", near, chips, cores, None)
    if len(fits) > 1:
        return Match(None, "ambiguous", fits, chips, cores, None)
    cores = cores or _cores_per_chip(fits[0])
    return Match(fits[0], None, fits, chips, cores, _memory_differs(get_gpu(fits[0]), memory_gb))


def _spellings(name: str, memory_gb: float | None) -> tuple[str, ...]:
    """The name, then what it may have meant: without a board or a link, and with its last number as a memory size."""
    plain = _NVLINK.sub("", _HGX.sub("SXM" if not _SXM.search(name) else "", name)).strip()
    attempts = [name, plain]
    if memory_gb is not None:
        size = f"{memory_gb:g}"
        head = plain.removesuffix(size)
        if head != plain and head and not head[-1].isalnum():
            attempts.append(f"{head}{size}GB")
    return tuple(dict.fromkeys(attempts))


def _of_memory(fits: tuple[str, ...], memory_gb: float | None) -> tuple[str, ...]:
    if memory_gb is None:
        return fits
    return tuple(gpu_id for gpu_id in fits if _has_memory(get_gpu(gpu_id), memory_gb)) or fits


def _of_mount(fits: tuple[str, ...], mount: str) -> tuple[str, ...]:
    word = _SXM.sub("sxm", mount.casefold()).strip()
    if not word:
        return fits
    return tuple(gpu_id for gpu_id in fits if word in _SXM.sub("sxm", gpu_id).split("-")) or fits


def _has_memory(gpu: Accelerator, memory_gb: float) -> bool:
    sizes = (gpu.memory_gb, memory_for_programs_gb(gpu))
    return any(abs(memory_gb - size) <= MEMORY_TOLERANCE * size for size in sizes)


def _memory_differs(gpu: Accelerator, memory_gb: float | None) -> str | None:
    if memory_gb is None or memory_gb == 0 or _has_memory(gpu, memory_gb):
        return None
    return f"The file says {memory_gb:g} GB, {gpu.id} has {memory_for_programs_gb(gpu):g}"


def _cores_per_chip(name: str) -> int | None:
    """Cores to a chip of this name; None where it is not known, or the part does not count in cores."""
    generation = _GENERATION.fullmatch(name)
    return _CORES_PER_CHIP.get(generation[1].casefold()) if generation else None


def _sliced(name: str) -> tuple[str, int | None, int | None]:
    """The name of the chip, how many chips a slice of this name has if it is one, and cores to a chip."""
    found = _SLICE.fullmatch(name)
    if found is None:
        return name, None, _cores_per_chip(name)
    generation_name = (found["told"] or found["bare"]).casefold()
    cores = _CORES_PER_CHIP.get(generation_name)
    size = int(found["size"])
    if cores is None:
        raise Reject(
            "slice_of_unknown_unit",
            "accelerator",
            f"{shown(name)} does not say whether {size} counts cores or chips; give the chip's name and a GPU count",
        )
    if size == 0 or size % cores:
        raise Reject("invalid", "accelerator", f"{shown(name)} is no whole number of chips")
    return f"tpu-v{generation_name.replace('litepod', 'e')}", size // cores, cores
