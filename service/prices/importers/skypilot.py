"""The CSV of a SkyPilot catalogue, `vms.csv`: an instance a row, on demand and spot, of the one cloud it is about."""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from service.prices.importers.context import Context
from service.prices.importers.csv_table import has_column
from service.prices.importers.flat import FlatReader
from service.prices.importers.rows import Remark
from service.prices.importers.schemas import Mapping
from service.prices.schemas import Rate

COLUMNS = ("AcceleratorName", "AcceleratorCount", "Price", "Region")  # by which the file is known
SOURCE = "SkyPilot catalogue"
ACCELERATOR_ONLY = "the accelerator without a machine"
_GPU_INFO = "GpuInfo"
_TAKEN = {
    "accelerator": "AcceleratorName",
    "gpu_count": "AcceleratorCount",
    "instance_price_per_hour": "Price",
    "spot_instance_price_per_hour": "SpotPrice",
    "instance": "InstanceType",
    "region": "Region",
    "zone": "AvailabilityZone",
}
_MAX_INFO_LENGTH = 2_000
_MIB_PER_GB = 1024  # a part sold as 80 GB has 81,920 MiB, or a little less
_NONE = re.compile(r"\bNone\b")
# Clouds that rent out their own and other people's machines end the instance's name with one of these words.
_WORD = re.compile(r"_(SECURE|COMMUNITY)$")


class SkyPilotReader:
    """Rows of a catalogue to rates. The mapping is fixed; memory comes from the column that describes the GPU."""

    def __init__(self, columns: Sequence[str], context: Context) -> None:
        taken = {field: column for field, column in _TAKEN.items() if has_column(columns, column)}
        self._flat = FlatReader(
            Mapping(columns=taken, constants={"purchase": "on-demand"}), context, default_source=SOURCE
        )
        self._context = context
        self._has_info = has_column(columns, _GPU_INFO)
        self._instance = self._flat.fields.index("instance") if "instance" in taken else None
        self.columns = (*self._flat.columns, _GPU_INFO) if self._has_info else self._flat.columns

    def column_of(self, field: str | None) -> str | None:
        """The file's column for one of our fields."""
        return _GPU_INFO if field == "memory_gb" else self._flat.column_of(field)

    def read(self, cells: Sequence[str], remarks: list[Remark]) -> list[Rate]:
        """The on-demand rate of a row, and its spot rate if it has one."""
        told: dict[str, str] = {}
        if self._has_info:
            memory_gb = memory_of(cells[-1])
            cells = cells[:-1]
            if memory_gb is not None:
                told["memory_gb"] = memory_gb
        instance = "" if self._instance is None else cells[self._instance]
        word = _WORD.search(instance)
        if word:
            told["purchase"] = word[1].lower()
        if not instance:
            told["note"] = ACCELERATOR_ONLY
        rates = self._flat.read(cells, remarks, told)
        if not instance:
            self._context.note("accelerator_only", len(rates))
        return rates


@lru_cache(maxsize=5_000)
def memory_of(info: str) -> str | None:
    """The memory of one GPU in GB, of a description printed by Python or JSON; None where it cannot be told.

    Nothing is evaluated: quotes and None are turned into JSON's, and what then is no JSON says nothing.
    """
    if not info.startswith("{") or len(info) > _MAX_INFO_LENGTH or "\\" in info:
        return None
    text = info if '"' in info else _NONE.sub("null", info.replace("'", '"'))
    try:
        told = msgspec.json.decode(text)
        size_mib = told["Gpus"][0]["MemoryInfo"]["SizeInMiB"]
    except (msgspec.DecodeError, RecursionError, ValueError, KeyError, TypeError, IndexError):
        return None
    if isinstance(size_mib, bool) or not isinstance(size_mib, int | float) or not 0 < size_mib < 10**9:
        return None
    return f"{size_mib / _MIB_PER_GB:.6g}"
