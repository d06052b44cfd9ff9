"""A CSV of any make as a table: encoding, delimiter and header found out, rows read as they come."""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence

from service.errors import BrokenRule
from service.prices.importers.rows import Reject, Row, Skip, shown
from service.prices.importers.schemas import Delimiter, Encoding

_HEAD_BYTES = 65_536
_DELIMITERS: dict[Delimiter, str] = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
_QUOTED = re.compile(r'"[^"]*"')
# Excel's own first line, which names the delimiter.
_SEP_LINE = re.compile(r"^sep=(.)[\r\n]", re.IGNORECASE)
_NO_TEXT = {b"PK\x03\x04": "a spreadsheet or a zip archive", b"\x1f\x8b": "a gzip archive", b"%PDF": "a PDF"}


def encoding_of(data: bytes, asked: Encoding) -> str:
    """Python's name of the encoding: by its byte order mark, by NULs at every other byte, else UTF-8."""
    for magic, what in _NO_TEXT.items():
        if data.startswith(magic):
            raise BrokenRule.at("", f"The file is {what}; save it as CSV or JSON")
    if data.startswith((codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)):
        raise BrokenRule.at("", "The file is UTF-32; save it as UTF-8")
    if asked == "windows-1252":
        return "cp1252"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = data[:200]
    if len(head) > 3 and not any(head[1::2]):
        return "utf-16-le"
    if len(head) > 3 and not any(head[::2]):
        return "utf-16-be"
    return "utf-16" if asked == "utf-16" else "utf-8-sig"


class CsvTable:
    """One pass over a CSV. Its memory is that of one row, however long the file is."""

    def __init__(self, data: bytes, encoding: str, delimiter: Delimiter = "auto") -> None:
        self.encoding = encoding
        self._bytes = io.BytesIO(data)
        self._text = io.TextIOWrapper(self._bytes, encoding=encoding, newline="")
        head = data[:_HEAD_BYTES].decode(encoding, errors="replace")
        told = _SEP_LINE.match(head)
        self._leading_lines = 0
        if told:
            self._text.readline()
            self._leading_lines = 1
            head = head[told.end() :].lstrip("\r\n")
        self.sample = head
        self.delimiter: str | None = (
            _DELIMITERS[delimiter] if delimiter != "auto" else told.group(1) if told else _delimiter_of(head)
        )
        self._reader = csv.reader(self._text, delimiter=self.delimiter, strict=True)
        self.spanning = 0
        self._begun = 1
        self.columns = self._header()

    def rows(self, wanted: Sequence[str], *, strip: bool = True) -> Iterator[Row]:
        width = len(self.columns)
        places = [self._place(column) for column in wanted]
        again = list(self.columns)
        while True:
            cells = self._next()
            if cells is None:
                return
            line = self._begun
            self.spanning += self._reader.line_num + self._leading_lines > line
            if not cells:
                continue  # a line without a character is no row
            if len(cells) > width and any(cells[width:]):
                yield (
                    line,
                    Reject(
                        "too_many_cells",
                        None,
                        f"The row has {len(cells)} cells, the header {width}; "
                        f"is a text with {shown(self.delimiter or '')} not in quotes?",
                    ),
                )
                continue
            if not any(cells) or not any(map(str.strip, cells)):
                yield line, Skip("empty_row", None, "The row is empty")
                continue
            if cells == again or [cell.strip() for cell in cells] == again:
                yield line, Skip("header_again", None, "The header stands here once more")
                continue
            if len(cells) < width:
                cells += [""] * (width - len(cells))
            yield line, [cells[place].strip() for place in places] if strip else [cells[place] for place in places]

    def position(self) -> int:
        return self._bytes.tell()

    def _header(self) -> tuple[str, ...]:
        while True:
            cells = self._next()
            if cells is None:
                raise BrokenRule.at("", "The file is empty")
            if any(map(str.strip, cells)):
                return tuple(cell.strip() for cell in cells)

    def _place(self, column: str) -> int:
        places = [place for place, name in enumerate(self.columns) if name == column] or [
            place for place, name in enumerate(self.columns) if name.casefold() == column.casefold()
        ]
        if not places:
            raise BrokenRule.at("", f"The file has no column {shown(column)}; it has {_listed(self.columns)}")
        if len(places) > 1:
            raise BrokenRule.at("", f"The file has {len(places)} columns called {shown(column)}; name each once")
        return places[0]

    def _next(self) -> list[str] | None:
        self._begun = self._reader.line_num + self._leading_lines + 1
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise BrokenRule.at(
                f"/{self._begun}",
                f"The row that begins in line {self._begun} cannot be read: {error}; is a quote not closed? "
                'A cell that begins with " ends with one, and has each " in it twice',
            ) from None
        except UnicodeError as error:
            line = self._reader.line_num + self._leading_lines
            raise BrokenRule.at("", f"The file cannot be read after line {line}: {_undecodable(error)}") from None


def has_column(columns: Sequence[str], column: str) -> bool:
    """That a table has it, in any case of letters."""
    return column.casefold() in {name.casefold() for name in columns}


def _listed(columns: Sequence[str]) -> str:
    shown_columns = ", ".join(shown(column) for column in columns[:20])
    return shown_columns if len(columns) <= 20 else f"{shown_columns} and {len(columns) - 20} more"


def _undecodable(error: UnicodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"a byte is not {error.encoding}; save it as UTF-8, or say its encoding"
    return "its text is not in the encoding that it starts with"


def _delimiter_of(head: str) -> str:
    """The delimiter that the header line has most of, outside quotes; a comma where it has none."""
    line = next((line for line in head.splitlines() if line.strip()), "")
    bare = _QUOTED.sub("", line)
    return max(_DELIMITERS.values(), key=bare.count)
