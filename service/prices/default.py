"""The price table that comes with the release: list prices as they were read, and what is known to be missing."""

import csv
import datetime
from functools import cache
from importlib.resources import files

import msgspec

from service.http.diagnosis import read_custom
from service.prices.contents import store_released
from service.prices.schemas import Rate
from service.prices.store import RELEASED_NAME
from service.prices.table_schemas import Revision, RevisionWrite
from service.storage.database import create_engine

CURRENCY = "USD"
DESCRIPTION = (
    "Public list prices of accelerators, object storage and egress, before tax and discounts, each with its source and "
    "the day on which it was read. It comes with the release and cannot be changed."
)
GAPS = (
    "Reserved and committed prices: none of the sources lists them; take them from your contract.",
    "European and Asian regions: the hyperscalers' prices are of regions in the United States.",
    "Spot prices of AWS and Google Cloud: they move by the hour, and no dated reading was found.",
    "What providers sell only on request: B300, GB200 and GB300 on demand at most of them.",
    "Private and CDN routes of egress, and shared file systems of AWS, Azure, Google Cloud and Oracle.",
)
_FILES = ("accelerator_rates.csv", "storage_egress_rates.csv")


@cache
def load_default_rates() -> tuple[Rate, ...]:
    """Every rate of the release's files."""
    return tuple(
        msgspec.convert({name: cell for name, cell in row.items() if cell}, Rate, strict=False, dec_hook=read_custom)
        for name in _FILES
        for row in csv.DictReader((files("service.prices") / "data" / name).read_text("utf-8").splitlines())
    )


def default_as_of() -> datetime.date:
    """The last day on which one of them was read."""
    return max(rate.seen_on for rate in load_default_rates() if rate.seen_on is not None)


async def seed_default_table(url: str) -> tuple[Revision, bool]:
    """Bring the table in a migrated database to this release's prices; nothing changes where it has them."""
    engine = create_engine(url, pool_size=1)
    write = RevisionWrite(
        rates=load_default_rates(),
        author="traincost",
        note="List prices of the release",
        source="Public price pages and lists; each rate names its own",
        licence="Facts from public prices; each rate names its source",
        as_of=default_as_of(),
    )
    try:
        async with engine.begin() as connection:
            return await store_released(connection, RELEASED_NAME, CURRENCY, DESCRIPTION, GAPS, write)
    finally:
        await engine.dispose()
