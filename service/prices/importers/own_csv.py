"""Our own CSV of rates: what is written is read back exactly, and no spreadsheet takes a cell of it for a formula."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from service.errors import BrokenRule
from service.money import Money
from service.prices.importers.context import Context
from service.prices.importers.fields import TextField
from service.prices.importers.names import another_id, meaning_of
from service.prices.importers.numbers import as_money, read_day
from service.prices.importers.rows import Reject, Remark, shown
from service.prices.importers.schemas import ImportOptions
from service.prices.rules import broken_rule
from service.prices.schemas import EgressRate, GpuRate, Rate, StorageRate

KIND = "kind"
_KINDS: dict[str, type[GpuRate] | type[StorageRate] | type[EgressRate]] = {
    str(kind.__struct_config__.tag): kind for kind in (GpuRate, StorageRate, EgressRate)
}
_ACCELERATOR = str(GpuRate.__struct_config__.tag)
_FIELDS = {kind: msgspec.structs.fields(struct) for kind, struct in _KINDS.items()}
COLUMNS = (KIND, *dict.fromkeys(part.encode_name for parts in _FIELDS.values() for part in parts))
# By these the file is known; others may be left out where their kind of rate is not in the file.
TELLING = (KIND, "provider", "source")
_MONEY = frozenset({"upfront", "price_per_gpu_hour", "instance_price_per_hour", "price_per_gb_month", "price_per_gb"})
_NUMBERS = frozenset({"term_months", "gpu_count", "tier_from_gb", "tier_to_gb"})
_DAYS = frozenset({"valid_from", "valid_to", "seen_on"})
_ACTIVE = frozenset(
    "=+-@\t\r\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
)
_GUARD = "'"
_RATES_A_BLOCK = 500


def write_rates(rates: Iterable[Rate], *, with_header: bool = True) -> Iterator[bytes]:
    """The file, in blocks: UTF-8, commas, CRLF, a header, one rate a row. Without a header it is a further part."""
    text = io.StringIO()
    writer = csv.writer(text)
    if with_header:
        writer.writerow(COLUMNS)
    for number, rate in enumerate(rates, 1):
        kind = str(rate.__struct_config__.tag)
        writer.writerow([kind, *(_cell(getattr(rate, column, None)) for column in COLUMNS[1:])])
        if number % _RATES_A_BLOCK == 0:
            yield _taken(text)
    yield _taken(text)


def guarded(text: str) -> str:
    """A text as a cell: behind an apostrophe if a spreadsheet might calculate it, or if it could be misread."""
    start = text.lstrip()[:1]
    return f"{_GUARD}{text}" if not start or start in _ACTIVE or text.startswith(_GUARD) else text


class OwnReader:
    """Rows of our own file to rates, field by field as their schema says."""

    def __init__(self, columns: Sequence[str], context: Context) -> None:
        ours = set(COLUMNS)
        self.columns = tuple(dict.fromkeys(column for column in columns if column in ours))
        if KIND not in self.columns:
            raise BrokenRule.at("", f"The file has no column {KIND!r}, which our own files have")
        self._place = self.columns.index(KIND)
        self._context = context
        self._readers = {kind: self._readers_of(kind) for kind in _KINDS}
        self._absent = _absent_values(context.options)

    def column_of(self, field: str | None) -> str | None:
        """The file's column of a field, which has its name."""
        return field if field in self.columns else None

    def read(self, cells: Sequence[str], remarks: list[Remark]) -> list[Rate]:
        """The rate of a row; Reject."""
        kind = cells[self._place].strip()
        struct = _KINDS.get(kind)
        if struct is None:
            raise Reject("unknown_word", KIND, f"{shown(kind)} is none of {', '.join(_KINDS)}")
        values = {}
        readers = self._readers[kind]
        for column, cell in zip(self.columns, cells, strict=True):
            if cell and column != KIND:
                read = readers.get(column)
                if read is None:
                    raise Reject("not_of_kind", column, f"A rate of kind {kind} has no {column}")
                value = read(cell)
                if value is not None:
                    values[column] = value
        for column, value in self._absent.items():
            values.setdefault(column, value)
        for part in _FIELDS[kind]:
            if part.required and part.encode_name not in values:
                raise Reject("missing", part.encode_name, f"{part.encode_name} is missing")
        doubtful = kind == _ACCELERATOR and self._is_doubtful(values, remarks)
        values.setdefault("confidence", "low" if doubtful else self._context.options.confidence)
        rate: Rate = struct(**values)
        broken = broken_rule(rate)
        if broken is not None:
            raise Reject("broken_rule", *broken)
        return [rate]

    def _is_doubtful(self, values: Mapping[str, Any], remarks: list[Remark]) -> bool:
        """Notes a name that no id finds, and remarks on an implausible price; Reject where an id is only a spelling."""
        accelerator_id, name = values.get("accelerator_id"), values.get("accelerator_name")
        told = None if accelerator_id is None else another_id(accelerator_id)
        if told is not None:
            raise Reject("another_id", "accelerator_id", told)
        match = meaning_of(accelerator_id or name or "")
        if match.matched is not None:
            self._context.unmatched = (accelerator_id or name or "", match)
        elif accelerator_id is None:
            self._context.unmatched = (name or "", match._replace(matched="without_id"))
        price = values.get("price_per_gpu_hour")
        doubt = price and self._context.doubt(match, price, "price_per_gpu_hour", "kept as the file has it")
        if doubt:
            remarks.append(doubt)
        return bool(doubt)

    def _readers_of(self, kind: str) -> dict[str, Callable[[str], Any]]:
        return {part.encode_name: self._reader_of(kind, part.encode_name) for part in _FIELDS[kind]}

    def _reader_of(self, kind: str, field: str) -> Callable[[str], Any]:
        if field in _MONEY:
            return lambda text: self._money(text.strip(), field)
        if field in _NUMBERS:
            check = _FIELDS[kind]
            part = next(part for part in check if part.encode_name == field)
            return lambda text: self._number(text.strip(), field, part.type)
        if field in _DAYS:
            return lambda text: read_day(text.strip(), field)
        if field == "free":
            return lambda text: _boolean(text.strip(), field)
        bare, behind_guard = TextField(_KINDS[kind], field), TextField(_KINDS[kind], field, guarded=True)
        return lambda cell: behind_guard(cell[1:]) if cell.startswith(_GUARD) else bare(cell)

    def _money(self, text: str, field: str) -> Money | None:
        amount = self._context.numbers.price(text, field)
        if amount is None:
            return None
        money = as_money(amount, field)
        if money != amount:
            self._context.note("rounded")
        return money

    def _number(self, text: str, field: str, kind: Any) -> Any:
        value = self._context.numbers.count(text, field)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise Reject("invalid", field, f"{shown(text)}: {error}") from None


def _absent_values(options: ImportOptions) -> dict[str, Any]:
    """What holds for a rate that does not say so itself."""
    told = {
        "provider": None if options.provider is None else options.provider.lower(),
        "source": options.source,
        "valid_from": options.valid_from,
        "valid_to": options.valid_to,
        "seen_on": options.seen_on,
    }
    return {field: value for field, value in told.items() if value is not None}


def _boolean(text: str, field: str) -> bool:
    if text.casefold() not in {"true", "false"}:
        raise Reject("unknown_word", field, f"{shown(text)} is neither true nor false")
    return text.casefold() == "true"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return guarded(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Money):
        return format(value, "f")
    if isinstance(value, float):
        return format(value, "g") if value.is_integer() and abs(value) < 10**6 else repr(value)
    return str(value)


def _taken(text: io.StringIO) -> bytes:
    block = text.getvalue().encode()
    text.seek(0)
    text.truncate()
    return block
