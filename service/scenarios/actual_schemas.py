"""What was paid, period by period, as it is recorded, read, listed and imported."""

import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.http.paging import DEFAULT_LIMIT, Cursor, Limit
from service.http.text import LINE_PATTERN
from service.money import SignedMoney

MAX_ACTUALS = 5_000  # of one scenario: 13 years of days
_DAY = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
PERIOD_PATTERN = rf"^{_DAY}\.\.{_DAY}$"
PERIOD_LENGTH = 22

GpuHours = Annotated[float, Meta(ge=0, le=1e15, description="Billed, idle ones included; null if not known.")]
Tokens = Annotated[float, Meta(ge=0, le=1e20, description="Trained and kept; null if not known.")]
ProductiveHours = Annotated[
    float, Meta(ge=0, le=1e15, description="Of productive steps, where the plan knows no tokens; null if not known.")
]
Remark = Annotated[str, Meta(max_length=500, pattern=LINE_PATTERN, description="One line, for the record.")]
Outcome = Literal["created", "replaced", "unchanged"]
_StoredAt = Annotated[datetime.datetime, Meta(tz=True, description="UTC, set by the service.")]


class ActualWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """What one period came to. What is left out is not known, and never 0; a refund is negative."""

    amount: Annotated[
        SignedMoney, Meta(description="Paid for this period, in the scenario's currency.", examples=["118250.00"])
    ]
    gpu_hours: GpuHours | None = None
    tokens_done: Tokens | None = None
    productive_gpu_hours: ProductiveHours | None = None
    note: Remark = ""


class Actual(Struct, frozen=True):
    """What was recorded of one period."""

    period_start: datetime.date
    period_end: Annotated[datetime.date, Meta(description="Exclusive: the first day after it (UTC).")]
    currency: str
    amount: Decimal
    gpu_hours: float | None
    tokens_done: float | None
    productive_gpu_hours: float | None
    note: str
    author: Annotated[str, Meta(description="Whose key recorded it.")]
    version: Annotated[int, Meta(ge=1, description="1 when recorded, one more with each change.")]
    etag: Annotated[str, Meta(description="The ETag to send as If-Match.")]
    created_at: _StoredAt
    updated_at: _StoredAt


class ActualPage(Struct, frozen=True):
    """One page of records, the earliest first."""

    items: tuple[Actual, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ActualQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How to list records."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class ActualImportQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of rows whose period has a record that says something else."""

    on_existing: Annotated[
        Literal["refuse", "replace"],
        Meta(description="Refuse the whole file (409, naming the lines), or put the row in the record's place."),
    ] = "refuse"


class ImportedRow(Struct, frozen=True):
    """One row of the file, and what became of it."""

    line: Annotated[int, Meta(description="In the file, the header being line 1.")]
    period_start: datetime.date
    period_end: datetime.date
    outcome: Outcome


class ActualImport(Struct, frozen=True):
    """What an import did: all of it, for otherwise it does nothing."""

    created: int
    replaced: int
    unchanged: int
    rows: tuple[ImportedRow, ...]


class Period(Struct, frozen=True, order=True):
    """From one day to another, which is the first that is not in it."""

    start: datetime.date
    end: datetime.date

    def __str__(self) -> str:
        return f"{self.start.isoformat()}..{self.end.isoformat()}"


class FileRow(Struct, frozen=True):
    """A row of a file as it was read."""

    line: int
    period: Period
    write: ActualWrite
