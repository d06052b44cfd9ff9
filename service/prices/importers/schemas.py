"""What an import is asked for and what it answers: options, a column mapping, and the report on every row."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.money import CurrencyCode
from service.prices.schemas import Confidence, Day, Rate, ShortLine, SourceText

MAX_BYTES = 20_000_000
MAX_ROWS = 200_000
MAX_LISTED = 1_000  # entries of each list in a report; its counts stay exact
MAX_MAPPED_VALUES = 1_000

Format = Literal["auto", "own_csv", "skypilot_csv", "rental_json", "flat"]
KnownFormat = Literal["own_csv", "skypilot_csv", "rental_json", "flat"]
Encoding = Literal["auto", "utf-8", "utf-16", "windows-1252"]
DecimalMark = Literal["auto", "point", "comma"]
Delimiter = Literal["auto", "comma", "semicolon", "tab", "pipe"]
OnError = Literal["reject", "skip"]
Matched = Literal["ambiguous", "unknown", "without_id"]

_Cell = Annotated[str, Meta(max_length=500)]


class Mapping(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which column of a flat table is which field of ours. docs/imports.md lists the fields."""

    columns: Annotated[
        dict[str, Annotated[str, Meta(min_length=1, max_length=500)]],
        Meta(description="Our field to their column.", examples=[{"accelerator": "gpu_model"}]),
    ] = {}
    constants: Annotated[
        dict[str, _Cell],
        Meta(
            description="Our field to a text that holds where the column is absent or blank.",
            examples=[{"provider": "acme"}],
        ),
    ] = {}
    values: Annotated[
        dict[str, Annotated[dict[str, _Cell], Meta(max_length=MAX_MAPPED_VALUES)]],
        Meta(
            description="Our field to what their texts mean in it; other texts stay as they are.",
            examples=[{"purchase": {"prototyping": "on_demand"}}],
        ),
    ] = {}


class ImportOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a file is to be read. What is `auto` is found out from the file, and the report says what was found."""

    format: Annotated[Format, Meta(description="What the file is.")] = "auto"
    mapping: Annotated[Mapping | None, Meta(description="For a flat table: its columns.")] = None
    on_error: Annotated[
        OnError, Meta(description="What a rejected row does: nothing at all is taken, or only that row is left out.")
    ] = "reject"
    provider: Annotated[ShortLine | None, Meta(description="Who rents out, where the file does not say.")] = None
    source: Annotated[SourceText | None, Meta(description="Where the file is from, where its rows do not say.")] = None
    currency: Annotated[
        CurrencyCode, Meta(description="The currency of the prices; a row in another one is rejected.")
    ] = "USD"
    confidence: Annotated[Confidence, Meta(description="How far the file is relied on, where it does not say.")] = (
        "medium"
    )
    valid_from: Annotated[Day | None, Meta(description="First day of every rate, where the file does not say.")] = None
    valid_to: Annotated[Day | None, Meta(description="The day every rate ends, where the file does not say.")] = None
    seen_on: Annotated[Day | None, Meta(description="When the prices were read, where the file does not say.")] = None
    as_of: Annotated[
        Day | None,
        Meta(
            description="The day of the file: its `seen_on` if that is absent, but for our own, which stays as it is."
        ),
    ] = None
    free_is_real: Annotated[
        bool, Meta(description="An accelerator at 0 is free, and not one whose price is unknown.")
    ] = False
    encoding: Annotated[Encoding, Meta(description="The encoding of the text.")] = "auto"
    delimiter: Annotated[Delimiter, Meta(description="What separates the cells of a CSV.")] = "auto"
    decimal_mark: Annotated[DecimalMark, Meta(description="What separates whole units from fractions.")] = "auto"


class RowFault(Struct, frozen=True):
    """A row that gave no rate, or gave a doubtful one, and why."""

    line: Annotated[int, Meta(description="Line of the file, from 1; in a JSON array the item, from 1.")]
    code: Annotated[str, Meta(description="What is the matter; stable.")]
    field: Annotated[str | None, Meta(description="Our field that is to blame; null where the row as a whole is.")]
    column: Annotated[str | None, Meta(description="The file's column for it; null without one.")]
    reason: Annotated[str, Meta(description="What is the matter, in words.")]


class UnmatchedName(Struct, frozen=True):
    """An accelerator's name by which its rates are kept: no catalogue id finds them."""

    name: str
    matched: Annotated[
        Matched,
        Meta(
            description="Whether several entries fit (`ambiguous`), none (`unknown`), or one whose id a row of our own "
            "format does not give (`without_id`)."
        ),
    ]
    candidates: Annotated[
        tuple[str, ...], Meta(description="The ids that fit; the nearest, best first, where it is unknown.")
    ]
    rows: Annotated[int, Meta(description="Rows that carry the name.")]


class ImportNote(Struct, frozen=True):
    """Something to know of the file as a whole."""

    code: str
    message: str
    count: int


class RowCounts(Struct, frozen=True):
    """Every row of the file, once: total is accepted plus skipped plus rejected."""

    total: int
    accepted: Annotated[int, Meta(description="Gave at least one rate.")]
    skipped: Annotated[int, Meta(description="Well formed, and nothing to take: CPU only, a repetition, empty.")]
    rejected: Annotated[int, Meta(description="Cannot be read.")]
    ambiguous: Annotated[int, Meta(description="Of the accepted: the accelerator's name fits several entries.")]
    unknown: Annotated[int, Meta(description="Of the accepted: the accelerator's name fits no entry.")]
    suspicious: Annotated[int, Meta(description="Rows with at least one doubt, whatever became of them.")]


class RateCounts(Struct, frozen=True):
    """The rates that the accepted rows gave; a row with an on-demand and a spot price gives two."""

    total: int
    accelerator: int
    storage: int
    egress: int
    unknown_price: Annotated[int, Meta(description="Of the accelerators': without a price, with a reason.")]


class ImportReport(Struct, frozen=True):
    """What became of every row. Lists hold at most 1,000 entries; the counts are exact."""

    format: KnownFormat
    encoding: str
    delimiter: Annotated[str | None, Meta(description="Between the cells; null for JSON.")]
    decimal_mark: Literal["point", "comma"]
    refused: Annotated[bool, Meta(description="That nothing is taken: a row was rejected, or no row gives a rate.")]
    rows: RowCounts
    rates: RateCounts
    skipped: tuple[RowFault, ...]
    rejected: tuple[RowFault, ...]
    suspicious: tuple[RowFault, ...]
    unmatched: tuple[UnmatchedName, ...]
    unused_columns: tuple[str, ...]
    notes: tuple[ImportNote, ...]


class ImportOutcome(Struct, frozen=True):
    """The rates in the file's order, and the report; no rates where the report says refused."""

    rates: list[Rate]
    report: ImportReport
