"""What the reading of one file shares: its options, numbers and names, and what has been noted so far."""

from collections import Counter

from service.prices.importers.names import Accelerators, Match
from service.prices.importers.numbers import Mark, Numbers, mark_of
from service.prices.importers.rows import Table
from service.prices.importers.schemas import ImportNote, ImportOptions

_NOTES = {
    "purchase_assumed": "Rows do not say how they are bought; on demand is assumed",
    "spot_absent": "Rows give no spot price, or 0; they have an on-demand rate only",
    "accelerator_only": "Prices are of accelerators without a machine around them",
    "same_price_elsewhere": "Rates repeat the price that the same offer has in another region",
    "another_zone": "Rows repeat a region's offer for another zone; a table has one rate a region, the first",
    "slices": "TPU slices were counted in chips",
    "rounded": "Prices have more than six fraction digits and were rounded to six",
}


class Context:
    """One file's reading."""

    def __init__(self, options: ImportOptions, table: Table) -> None:
        self.options = options
        self.mark: Mark = mark_of(table.sample, table.delimiter, options.decimal_mark)
        self.numbers = Numbers(self.mark, options.currency, certain=options.decimal_mark != "auto")
        self.accelerators = Accelerators()
        self.unmatched: tuple[str, Match] | None = None  # the name of the row at hand, if it could not be told
        self._noted: Counter[str] = Counter()

    def note(self, code: str, count: int = 1) -> None:
        """Something to know of the file, once more."""
        self._noted[code] += count

    def notes(self) -> tuple[ImportNote, ...]:
        return tuple(ImportNote(code, _NOTES[code], count) for code, count in sorted(self._noted.items()) if count)
