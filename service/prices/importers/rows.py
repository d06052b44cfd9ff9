"""What may happen to a row: it is skipped or rejected, or remarked on; and the table that rows come from."""

from collections.abc import Iterator, Sequence
from typing import Protocol

MAX_SHOWN = 60


class RowProblem(Exception):  # raised and caught inside the importers only
    """A row gives no rate: why, and at which of our fields."""

    def __init__(self, code: str, field: str | None, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.field = field
        self.reason = reason


class Skip(RowProblem):
    """The row is well formed, and there is nothing to take."""


class Reject(RowProblem):
    """The row cannot be read."""


Remark = tuple[str, str | None, str]  # a code, one of our fields, a reason
Row = tuple[int, list[str] | RowProblem]


class Table(Protocol):
    """Rows of texts, from a CSV or from JSON."""

    encoding: str
    delimiter: str | None
    sample: str
    columns: tuple[str, ...]
    spanning: int  # rows so far that go over more than one line of a CSV

    def rows(self, wanted: Sequence[str], *, strip: bool = True) -> Iterator[Row]:
        """Each row's line and the cells of the wanted columns in that order, without the spaces around them unless
        they are to stay; what is absent is an empty text."""

    def position(self) -> int:
        """How many bytes have been read."""


def shown(text: str) -> str:
    """A cell as it may be quoted in a report: short, and visible where it is not."""
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")
