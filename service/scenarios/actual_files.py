"""A CSV file of what was paid, read row by row: all faults named by their lines, or every row."""

import csv
import datetime
import io
import math
import re

from service.errors import BrokenRule, Fault
from service.http.text import forbidden_in
from service.money import SignedMoney, read_signed_money
from service.scenarios.actual_schemas import MAX_ACTUALS, ActualWrite, FileRow, Period

REQUIRED = ("period_start", "period_end", "amount")
COLUMNS = (*REQUIRED, "gpu_hours", "tokens_done", "productive_gpu_hours", "note")
_LARGEST = {"gpu_hours": 1e15, "tokens_done": 1e20, "productive_gpu_hours": 1e15}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?([eE][+]?[0-9]{1,3})?", re.ASCII)
_MAX_FAULTS = 20
_MAX_NOTE = 500
_MAX_QUOTED = 80


def read_file(body: bytes) -> tuple[FileRow, ...]:
    """Every row; BrokenRule names the lines (as /{line}/{column}) of what cannot be read."""
    reader = csv.reader(io.StringIO(_text(body), newline=""), strict=True)
    rows: list[FileRow] = []
    faults: list[Fault] = []
    columns: tuple[str, ...] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if columns is None:
                columns = _columns(cells, reader.line_num)
                continue
            read = _row(columns, cells, reader.line_num)
            if isinstance(read, FileRow):
                rows.append(read)
            else:
                faults += read
            if len(rows) > MAX_ACTUALS:
                raise _refused([_fault(reader.line_num, None, f"A file has at most {MAX_ACTUALS:,} rows")])
            if len(faults) >= _MAX_FAULTS:
                break
    except csv.Error as error:
        raise _refused([_fault(reader.line_num, None, f"It is no CSV: {error}")]) from None
    if not faults and not rows:
        raise _refused([_fault(1, None, f"There is no row: the columns are {', '.join(COLUMNS)}")])
    if faults:
        raise _refused(faults[:_MAX_FAULTS])
    return tuple(rows)


def period_of(start: str, end: str) -> Period:
    """Two days as they are written; ValueError says what is wrong."""
    period = Period(_day(start), _day(end))
    if period.end <= period.start:
        raise ValueError("A period ends after the day on which it begins: its end is the first day after it")
    return period


def _text(body: bytes) -> str:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise _refused([_fault(line, None, "The file is not UTF-8")]) from None
    for number, line_text in enumerate(text.splitlines(), start=1):
        forbidden = forbidden_in(line_text)
        if forbidden:
            raise _refused([_fault(number, None, f"Holds the forbidden character {forbidden}")])
    return text


def _columns(cells: list[str], line: int) -> tuple[str, ...]:
    names = tuple(cell.strip().lower() for cell in cells)
    faults = [
        _fault(line, None, f"Unknown column {_short(name)!r}; known are: {', '.join(COLUMNS)}")
        for name in names
        if name not in COLUMNS
    ]
    faults += [_fault(line, name, "The column is missing") for name in REQUIRED if name not in names]
    faults += [_fault(line, name, "The column is there twice") for name in COLUMNS if names.count(name) > 1]
    if faults:
        raise _refused(faults[:_MAX_FAULTS])
    return names


def _row(columns: tuple[str, ...], cells: list[str], line: int) -> FileRow | list[Fault]:
    if len(cells) != len(columns):
        return [_fault(line, None, f"It has {len(cells)} cells, and the header has {len(columns)}")]
    by_name = {name: cell.strip() for name, cell in zip(columns, cells, strict=True)}
    faults: list[Fault] = []
    period, amount = None, SignedMoney(0)
    try:
        period = period_of(by_name["period_start"], by_name["period_end"])
    except ValueError as error:
        faults.append(_fault(line, "period_start", str(error)))
    try:
        amount = read_signed_money(by_name["amount"])
    except ValueError as error:
        faults.append(_fault(line, "amount", str(error)))
    figures: dict[str, float | None] = {}
    for name, largest in _LARGEST.items():
        try:
            figures[name] = _figure(by_name.get(name, ""), largest)
        except ValueError as error:
            faults.append(_fault(line, name, str(error)))
    note = by_name.get("note", "")
    if len(note) > _MAX_NOTE or forbidden_in(note, one_line=True):
        faults.append(_fault(line, "note", f"A note is one line of at most {_MAX_NOTE} characters"))
    if faults or period is None:
        return faults
    return FileRow(line, period, ActualWrite(amount=amount, note=note, **figures))


def _day(text: str) -> datetime.date:
    if not _DAY.fullmatch(text):
        raise ValueError(f"A day is written as in 2027-01-04, not {_short(text)!r}")
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"No calendar has the day {text}") from None


def _figure(text: str, largest: float) -> float | None:
    """Nothing where the cell is empty: not known is not 0."""
    if not text:
        return None
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not 0 <= value <= largest:
        raise ValueError(
            f"Expected a number from 0 to {largest:g} without separators, or nothing, not {_short(text)!r}"
        )
    return value


def _fault(line: int, column: str | None, message: str) -> Fault:
    return Fault("body", f"/{line}" if column is None else f"/{line}/{column}", f"Line {line}: {message}")


def _refused(faults: list[Fault]) -> BrokenRule:
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return BrokenRule(f"Nothing was taken from the file. {faults[0].message}{more}.", tuple(faults))


def _short(text: str) -> str:
    return text[:_MAX_QUOTED]
