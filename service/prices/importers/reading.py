"""The one door: the bytes of a price file to rates and a report, whatever made the file."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from service.errors import BrokenRule
from service.prices.importers import own_csv, rental_json, skypilot
from service.prices.importers.collect import Collector
from service.prices.importers.context import Context
from service.prices.importers.csv_table import CsvTable, encoding_of, has_column
from service.prices.importers.flat import FIELDS, FlatReader
from service.prices.importers.json_table import JsonTable, members_of, scalar_of
from service.prices.importers.rows import Remark, Row, RowProblem, Table
from service.prices.importers.schemas import (
    MAX_BYTES,
    MAX_ROWS,
    ImportOptions,
    ImportOutcome,
    ImportReport,
    KnownFormat,
    Mapping,
    RowCounts,
)
from service.prices.schemas import Rate

Progress = Callable[[int], None]
_ROWS_A_STEP = 2_000
_MAX_UNUSED = 100


def is_own_header(format_: KnownFormat, rows: RowCounts) -> bool:
    """That a file is what the export of a table without rates is."""
    return format_ == "own_csv" and rows.total == 0


class Reader(Protocol):
    """Cells of the columns that it wants to rates."""

    columns: tuple[str, ...]

    def column_of(self, field: str | None) -> str | None: ...
    def read(self, cells: Sequence[str], remarks: list[Remark]) -> list[Rate]: ...


class _Opened(NamedTuple):
    format: KnownFormat
    table: Table
    mapping: Mapping | None


def read_rates(data: bytes, options: ImportOptions, progress: Progress | None = None) -> ImportOutcome:
    """Every row of the file to rates, or to a line of the report; BrokenRule where the file as a whole is no table.

    `progress` is told how many of the bytes have been read. Same bytes and options, same answer.
    """
    if len(data) > MAX_BYTES:
        raise BrokenRule.at("", f"The file has {len(data):,} bytes; at most {MAX_BYTES:,} can be read at once")
    if options.mapping is not None and options.format not in {"auto", "flat"}:
        told = f"A mapping is for a flat table, and the format asked for is {options.format}: leave out one of the two"
        raise BrokenRule.at("mapping", told, "query")
    opened = _open(data, options)
    context = Context(options, opened.table)
    reader = _reader(opened, context)
    collector = Collector(context, reader.column_of, keep_all=opened.format == "own_csv")
    for line, cells in _counted(opened, reader.columns, progress):
        if isinstance(cells, RowProblem):
            collector.problem(line, cells)
            continue
        remarks: list[Remark] = []
        context.unmatched = None
        try:
            rates = reader.read(cells, remarks)
        except RowProblem as problem:
            collector.problem(line, problem)
        else:
            collector.take(line, rates, remarks)
    collector.finish()
    if progress is not None:
        progress(len(data))
    return _outcome(opened, reader, context, collector)


def _open(data: bytes, options: ImportOptions) -> _Opened:
    """The table, and what it is: as the options say, else by its first character and its columns."""
    encoding = encoding_of(data, options.encoding)
    start = data[:200].decode(encoding, errors="ignore").lstrip()[:1]
    if options.format in {"auto", "flat", "rental_json"} and start in {"{", "["}:
        return _open_json(data, encoding, options)
    if options.format == "rental_json":
        raise BrokenRule.at("", "The file is no JSON")
    scalar = scalar_of(data)
    if scalar is not None and options.format in {"auto", "flat"}:
        raise BrokenRule.at("", f"The file is JSON, but {scalar}: a flat table is an array of objects")
    table = CsvTable(data, encoding, options.delimiter)
    return _Opened(_csv_format(table, options), table, options.mapping)


def _open_json(data: bytes, encoding: str, options: ImportOptions) -> _Opened:
    members = members_of(data, encoding)
    if members is None:
        if options.format == "rental_json":
            raise BrokenRule.at("", f"The file is an array, not an object with {rental_json.MEMBER!r}")
        table = JsonTable(data, encoding)
        if table.is_empty:
            raise BrokenRule.at("", "The array is empty: there is nothing to read")
        return _Opened("flat", table, options.mapping)
    if rental_json.MEMBER not in members or options.format == "flat" or options.mapping is not None:
        raise BrokenRule.at("", "The file is a JSON object; a flat table is an array of objects")
    offers = JsonTable(data, encoding, rental_json.MEMBER)
    if not offers.is_empty:
        offers.require(column for column in rental_json.REQUIRED if column != "provider" or options.provider is None)
    return _Opened("rental_json", offers, None)


def _csv_format(table: CsvTable, options: ImportOptions) -> KnownFormat:
    if options.format != "auto":
        return options.format
    if options.mapping is None:
        if all(column in table.columns for column in own_csv.TELLING) and "accelerator" not in table.columns:
            return "own_csv"
        if all(has_column(table.columns, column) for column in skypilot.COLUMNS):
            return "skypilot_csv"
    return "flat"


def _reader(opened: _Opened, context: Context) -> Reader:
    if opened.format == "own_csv":
        return own_csv.OwnReader(opened.table.columns, context)
    if opened.format == "skypilot_csv":
        return skypilot.SkyPilotReader(opened.table.columns, context)
    if opened.format == "rental_json":
        return FlatReader(rental_json.MAPPING, context, default_source=rental_json.SOURCE)
    return FlatReader(_mapping(opened.mapping, opened.table), context)


def _mapping(mapping: Mapping | None, table: Table) -> Mapping:
    """The mapping asked for; without one, columns that are called as our fields are."""
    if mapping is not None and mapping.columns:
        if isinstance(table, JsonTable):
            table.require(mapping.columns.values())
        return mapping
    columns = {column: column for column in dict.fromkeys(table.columns) if column in FIELDS}
    return Mapping(
        columns=columns,
        constants=mapping.constants if mapping else {},
        values=mapping.values if mapping else {},
    )


def _counted(opened: _Opened, columns: Sequence[str], progress: Progress | None) -> Iterator[Row]:
    """The rows, not too many, with word of them on the way. In our own file a space is part of a text."""
    table = opened.table
    for number, row in enumerate(table.rows(columns, strip=opened.format != "own_csv"), 1):
        if number > MAX_ROWS:
            raise BrokenRule.at("", f"The file has more than {MAX_ROWS:,} rows; split it")
        if progress is not None and number % _ROWS_A_STEP == 0:
            progress(table.position())
        yield row


def _outcome(opened: _Opened, reader: Reader, context: Context, collector: Collector) -> ImportOutcome:
    rows, rates = collector.row_counts(), collector.rate_counts()
    context.note("rows_over_lines", opened.table.spanning)
    context.note("no_rate", int(not rates.total))
    refused = (rows.rejected > 0 and context.options.on_error == "reject") or not (
        rates.total or is_own_header(opened.format, rows)
    )
    used = {column.casefold() for column in reader.columns}
    unused = [column for column in opened.table.columns if column.casefold() not in used]
    report = ImportReport(
        format=opened.format,
        encoding=opened.table.encoding.removesuffix("-sig"),
        delimiter=opened.table.delimiter,
        decimal_mark=context.mark,
        refused=refused,
        rows=rows,
        rates=rates,
        skipped=tuple(collector.skipped),
        rejected=tuple(collector.rejected),
        suspicious=tuple(collector.suspicious),
        unmatched=context.accelerators.unmatched(),
        unused_columns=tuple(unused[:_MAX_UNUSED]),
        notes=context.notes(),
    )
    return ImportOutcome([] if refused else collector.rates, report)
