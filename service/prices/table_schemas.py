"""What price tables look like from outside: written, read, listed, imported, compared, looked up."""

import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from service.estimator.results import Note
from service.http.paging import DEFAULT_LIMIT, Cursor, Limit
from service.http.text import LINE_PATTERN, TEXT_PATTERN
from service.money import CurrencyCode
from service.prices.importers.schemas import (
    DecimalMark,
    Delimiter,
    Encoding,
    Format,
    ImportReport,
    OnError,
)
from service.prices.schemas import (
    MAX_GPUS_OF_OFFER,
    MAX_RATES,
    MAX_TERM_MONTHS,
    Confidence,
    Country,
    Day,
    GpuRate,
    Purchase,
    Rate,
)

Description = Annotated[
    str, Meta(max_length=2000, pattern=TEXT_PATTERN, description="Free text; no control characters but \\n, \\t.")
]
RevisionText = Annotated[str, Meta(max_length=2000, pattern=TEXT_PATTERN)]
StoredAt = Annotated[datetime.datetime, Meta(tz=True, description="UTC, set by the service.")]
RevisionNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]
RateKind = Literal["accelerator", "storage", "egress"]
Change = Literal["added", "removed", "changed"]
QueryLine = Annotated[str, Meta(min_length=1, max_length=100, pattern=LINE_PATTERN)]
ImportLine = Annotated[str, Meta(min_length=1, max_length=500, pattern=LINE_PATTERN)]
TableSort = Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"]


class PriceTableWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A price table as it is saved by PUT; its rates come in revisions."""

    currency: Annotated[CurrencyCode, Meta(description="Of every price in it; fixed once it has a revision.")]
    description: Description = ""


class PriceTablePatch(Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON merge patch (RFC 7396) of the descriptive field: null empties it."""

    description: Description | None | UnsetType = UNSET


class RevisionWrite(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All rates of a table, as they stand from now on, and where they come from."""

    rates: Annotated[tuple[Rate, ...], Meta(max_length=MAX_RATES, description="All of them: what is absent is gone.")]
    author: Annotated[RevisionText, Meta(description="Who answers for it.", examples=["finance"])] = ""
    note: Annotated[RevisionText, Meta(description="Why it was made.")] = ""
    source: Annotated[RevisionText, Meta(description="Where the rates as a whole were read.")] = ""
    licence: Annotated[RevisionText, Meta(description="Under which terms.", examples=["CC-BY-4.0"])] = ""
    as_of: Annotated[
        Day | None, Meta(description="The day for which the rates were read.", examples=["2026-11-30"])
    ] = None


class Revision(Struct, frozen=True):
    """One state of a table's rates, which never changes."""

    id: Annotated[int, Meta(ge=1, description="Good for ever, whatever becomes of the table.")]
    table: str
    currency: str
    number: Annotated[int, Meta(ge=1, description="1 for the table's first, one more with each.")]
    author: str
    note: str
    source: str
    licence: str
    as_of: Annotated[
        datetime.date | None, Meta(description="The day for which the rates were read; null if nobody says.")
    ]
    content_hash: Annotated[str, Meta(description="SHA-256 of the rates: the same for the same rates in any order.")]
    rate_count: int
    created_at: StoredAt


class RevisionPage(Struct, frozen=True):
    """One page of a table's revisions, the newest first."""

    items: tuple[Revision, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class PriceTable(Struct, frozen=True):
    """A named price table and its newest revision."""

    name: str
    currency: str
    description: str
    read_only: Annotated[bool, Meta(description="It comes with the release and cannot be changed.")]
    gaps: Annotated[tuple[str, ...], Meta(description="What it is known not to know.")]
    latest: Annotated[Revision | None, Meta(description="The newest revision; null before the first.")]
    version: Annotated[int, Meta(ge=1, description="1 when created, one more with each change.")]
    created_at: StoredAt
    updated_at: StoredAt


class PriceTableSummary(Struct, frozen=True):
    """A price table in a list."""

    name: str
    currency: str
    description: str
    read_only: bool
    latest_revision: Annotated[int | None, Meta(description="The newest revision's number; null before the first.")]
    version: int
    etag: Annotated[str, Meta(description="The ETag to send as If-Match.")]
    created_at: StoredAt
    updated_at: StoredAt


class PriceTablePage(Struct, frozen=True):
    """One page of price tables."""

    items: tuple[PriceTableSummary, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class PriceTableQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How to list price tables."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET
    sort: Annotated[TableSort, Meta(description="A leading - reverses.")] = "name"
    q: Annotated[QueryLine | UnsetType, Meta(description="Part of a name, in any case.")] = UNSET


class RevisionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How to list revisions."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


KindFilter = Annotated[RateKind | UnsetType, Meta(description="Only of accelerators, storage or egress.")]
GpuFilter = Annotated[
    QueryLine | UnsetType,
    Meta(description="Catalogue id, or a name: a generic one finds every accelerator that it fits."),
]
ProviderFilter = Annotated[QueryLine | UnsetType, Meta(description="Only this provider's, in any case.")]
RegionFilter = Annotated[QueryLine | UnsetType, Meta(description="Only of this region, in any case.")]
PurchaseFilter = Annotated[Purchase | UnsetType, Meta(description="Only bought this way.")]
CountFilter = Annotated[
    Annotated[float, Meta(gt=0, le=MAX_GPUS_OF_OFFER)] | UnsetType,
    Meta(description="Only offers of exactly so many GPUs."),
]


class RateQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which rates of a table."""

    kind: KindFilter = UNSET
    gpu: GpuFilter = UNSET
    provider: ProviderFilter = UNSET
    region: RegionFilter = UNSET
    purchase: PurchaseFilter = UNSET
    gpu_count: CountFilter = UNSET
    as_of: Annotated[Day | UnsetType, Meta(description="Only what holds on this day; all dates if absent.")] = UNSET
    revision: Annotated[RevisionNumber | UnsetType, Meta(description="The newest if absent.")] = UNSET
    q: Annotated[
        QueryLine | UnsetType, Meta(description="Part of a GPU's, provider's, region's or instance's name.")
    ] = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class RatePage(Struct, frozen=True):
    """One page of a revision's rates: by offer, and of one offer the newest first."""

    table: str
    currency: str
    revision: int
    revision_id: int
    as_of: Annotated[datetime.date | None, Meta(description="The day asked for; null for all dates.")]
    items: tuple[Rate, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ChoiceQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be priced."""

    gpu: Annotated[QueryLine, Meta(description="Catalogue id, or a well-known spelling of one.")]
    gpu_count: Annotated[int, Meta(ge=1, le=MAX_GPUS_OF_OFFER, description="GPUs of the run.")] = 8
    gpus_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | UnsetType,
        Meta(
            description="GPUs of a node: smaller offers do not make a cluster. By the accelerator if absent, mostly 8."
        ),
    ] = UNSET
    purchase: Annotated[Purchase, Meta(description="How it is bought; marketplace only if asked for.")] = "on_demand"
    term_months: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_TERM_MONTHS)] | UnsetType,
        Meta(description="Only commitments of this length."),
    ] = UNSET
    provider: ProviderFilter = UNSET
    region: Annotated[
        QueryLine | UnsetType, Meta(description="Only of this region, or without one; the former goes first.")
    ] = UNSET
    country: Annotated[Country | UnsetType, Meta(description="Only under this jurisdiction, ISO 3166 alpha-2.")] = UNSET
    as_of: Annotated[Day | UnsetType, Meta(description="The day; today in UTC if absent.")] = UNSET
    revision: Annotated[RevisionNumber | UnsetType, Meta(description="The newest if absent.")] = UNSET


class RateChoice(Struct, frozen=True):
    """The one rate that answers, and what it was better than."""

    table: str
    currency: str
    revision: int
    revision_id: int
    as_of: datetime.date
    rate: GpuRate
    age_days: Annotated[
        int | None,
        Meta(description="Days since it was read, else since it began or its revision's date; null if unknown."),
    ]
    candidate_count: Annotated[int, Meta(description="Rates that fit the question, this one included.")]
    beaten: Annotated[tuple[GpuRate, ...], Meta(description="The next best, at most ten.")]
    notes: tuple[Note, ...]


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Of which rates."""

    kind: KindFilter = UNSET
    gpu: GpuFilter = UNSET
    provider: ProviderFilter = UNSET
    region: RegionFilter = UNSET
    purchase: PurchaseFilter = UNSET
    gpu_count: CountFilter = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class HistoryRow(Struct, frozen=True):
    """A rate as one revision had it."""

    revision: int
    revision_id: int
    revision_as_of: datetime.date | None
    created_at: StoredAt
    rate: Rate


class HistoryPage(Struct, frozen=True):
    """One page of rates over the revisions, the newest revision first."""

    table: str
    currency: str
    items: tuple[HistoryRow, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ComparisonQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which two revisions."""

    from_: Annotated[RevisionNumber | UnsetType, Meta(description="The older; the one before `to` if absent.")] = field(
        name="from", default=UNSET
    )
    to: Annotated[RevisionNumber | UnsetType, Meta(description="The newer; the newest if absent.")] = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class RateChange(Struct, frozen=True):
    """What became of one rate."""

    change: Change
    before: Rate | None
    after: Rate | None
    fields: Annotated[tuple[str, ...], Meta(description="What differs; empty unless changed.")]
    percent: Annotated[
        float | None, Meta(description="The price's change, in percent of the old one; null without two prices.")
    ]


class Comparison(Struct, frozen=True):
    """What changed between two revisions: a page of it, and how much in all."""

    table: str
    currency: str
    from_revision: int
    to_revision: int
    added: int
    removed: int
    changed: int
    items: tuple[RateChange, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ImportAnswer(Struct, frozen=True):
    """What became of a file."""

    created: Annotated[bool, Meta(description="Whether there is a new revision: not if dry, or if nothing changed.")]
    dry_run: bool
    revision: Annotated[Revision | None, Meta(description="The revision that holds these rates; null if dry.")]
    report: ImportReport


class ImportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a file is to be read, and what to write beside its revision."""

    dry_run: Annotated[bool, Meta(description="Only read and report; nothing is stored.")] = False
    on_error: Annotated[
        OnError, Meta(description="What a rejected row does: nothing at all is taken, or only that row is left out.")
    ] = "reject"
    format: Annotated[Format, Meta(description="What the file is; found out if auto.")] = "auto"
    mapping: Annotated[
        Annotated[str, Meta(min_length=2, max_length=8000, pattern=LINE_PATTERN)] | UnsetType,
        Meta(
            description="For a flat table: which of its columns is which of our fields, as a JSON object with "
            "`columns`, `constants` and `values`.",
            examples=['{"columns": {"accelerator": "gpu_model", "price_per_gpu_hour": "usd"}}'],
        ),
    ] = UNSET
    provider: Annotated[QueryLine | UnsetType, Meta(description="Who rents out, where the file does not say.")] = UNSET
    confidence: Annotated[Confidence, Meta(description="How far the file is relied on, where it does not say.")] = (
        "medium"
    )
    seen_on: Annotated[
        Day | UnsetType,
        Meta(
            description="When the prices were read, where the file does not say; `as_of` if absent, but for our own "
            "format, whose rates that does not change."
        ),
    ] = UNSET
    valid_from: Annotated[Day | UnsetType, Meta(description="First day of every rate that has none.")] = UNSET
    valid_to: Annotated[Day | UnsetType, Meta(description="The day every rate ends that has none.")] = UNSET
    free_is_real: Annotated[
        bool, Meta(description="An accelerator at 0 is free, and not one whose price is unknown.")
    ] = False
    encoding: Annotated[Encoding, Meta(description="The encoding of the text.")] = "auto"
    delimiter: Annotated[Delimiter, Meta(description="What separates the cells of a CSV.")] = "auto"
    decimal_mark: Annotated[DecimalMark, Meta(description="What separates whole units from fractions.")] = "auto"
    author: Annotated[ImportLine | UnsetType, Meta(description="Who answers for the revision.")] = UNSET
    note: Annotated[ImportLine | UnsetType, Meta(description="Why it was made.")] = UNSET
    source: Annotated[ImportLine | UnsetType, Meta(description="Where the file is from; also of rows without one.")] = (
        UNSET
    )
    licence: Annotated[ImportLine | UnsetType, Meta(description="Under which terms.")] = UNSET
    as_of: Annotated[Day | UnsetType, Meta(description="The day for which the prices were read.")] = UNSET
