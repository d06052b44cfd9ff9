"""Small price files of every shape, and the shortest way to read one."""

import json
from collections.abc import Iterable
from collections.abc import Mapping as Table
from typing import Any

from service.prices.importers.reading import read_rates
from service.prices.importers.schemas import ImportOptions, ImportOutcome, ImportReport, Mapping
from service.prices.schemas import GpuRate

SKYPILOT_HEADER = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone"
)
FLAT = Mapping(
    columns={
        "accelerator": "gpu",
        "provider": "who",
        "region": "where",
        "purchase": "how",
        "price_per_gpu_hour": "usd",
        "gpu_count": "n",
    }
)
FLAT_HEADER = "gpu,who,where,how,usd,n"


def read(text: str | bytes, **options: Any) -> ImportOutcome:
    """A file read with these options."""
    data = text.encode() if isinstance(text, str) else text
    return read_rates(data, ImportOptions(**options))


def skypilot(*rows: str, **options: Any) -> ImportOutcome:
    """Rows under the header of a SkyPilot catalogue."""
    return read("\n".join([SKYPILOT_HEADER, *rows]), **{"provider": "acme", **options})


def flat(*rows: str, header: str = FLAT_HEADER, **options: Any) -> ImportOutcome:
    """Rows of a table that the mapping FLAT fits."""
    return read("\n".join([header, *rows]), **{"mapping": FLAT, **options})


def rental(*offers: Table[str, Any]) -> ImportOutcome:
    """Offers in the document of a price index."""
    usual = {
        "provider": "acme",
        "kind": "on-demand",
        "source_url": "https://prices.test",
        "fetched_at": "2026-08-22T06:21:49Z",
    }
    return read(json.dumps({"date": "2026-08-22", "offers": [{**usual, **offer} for offer in offers]}))


def gpu_rates(outcome: ImportOutcome) -> list[GpuRate]:
    return [rate for rate in outcome.rates if isinstance(rate, GpuRate)]


def only(outcome: ImportOutcome) -> GpuRate:
    """The only rate."""
    assert outcome.report.rejected == ()
    (rate,) = gpu_rates(outcome)
    return rate


def fault(outcome: ImportOutcome) -> tuple[str, str | None]:
    """The code and field of the only rejected row."""
    (rejected,) = outcome.report.rejected
    return rejected.code, rejected.field


def codes(outcome: ImportOutcome, part: str = "suspicious") -> list[tuple[int, str]]:
    """Line and code of each entry of one list of the report."""
    return [(entry.line, entry.code) for entry in getattr(outcome.report, part)]


def notes(outcome: ImportOutcome) -> dict[str, int]:
    return {note.code: note.count for note in outcome.report.notes}


def assert_adds_up(report: ImportReport, rows: int | None = None) -> None:
    """Every row is in exactly one of the three."""
    counts = report.rows
    assert counts.accepted + counts.skipped + counts.rejected == counts.total
    assert rows is None or counts.total == rows
    rates = report.rates
    assert rates.accelerator + rates.storage + rates.egress == rates.total


def prices(outcome: ImportOutcome) -> list[str | None]:
    """Each rate's price, as it is written."""
    return [None if rate.price_per_gpu_hour is None else str(rate.price_per_gpu_hour) for rate in gpu_rates(outcome)]


def lines(header: str, rows: Iterable[str], end: str = "\n") -> str:
    return end.join([header, *rows]) + end
