"""What the reading of one file shares: its options, numbers and names, and what has been noted so far."""

from collections import Counter
from decimal import Decimal

from service.prices.importers.names import Accelerators, Match
from service.prices.importers.numbers import Mark, Numbers, mark_of, written
from service.prices.importers.plausible import band_of
from service.prices.importers.rows import Remark, Table
from service.prices.importers.schemas import ImportNote, ImportOptions

_NOTES = {
    "purchase_assumed": "Rows do not say how they are bought; on demand is assumed",
    "spot_absent": "Rows give no spot price, or 0; they have an on-demand rate only",
    "accelerator_only": "Prices are of accelerators without a machine around them",
    "same_price_elsewhere": "Rates repeat the price that the same offer has in another region",
    "another_zone": "Rows repeat a region's offer for another zone; a table has one rate a region, the first",
    "not_judged": "Whether a price is plausible is judged in USD only; these prices are in {currency}",
    "rows_over_lines": "Rows go over more than one line, for a cell in quotes does; is a quote too many?",
    "unknown_replaced": "Rates without a price gave way to a later row's with one",
    "no_rate": "No row gives a rate. A file never empties a table; an empty list of rates does, as a revision",
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

    def doubt(self, match: Match, price: Decimal, field: str, kept: str) -> Remark | None:
        """What is to be remarked on a price outside the band of all that a name may mean, and what became of it.

        Bands are in USD: that another currency is not judged is noted. A free part is not doubted.
        """
        if not price:
            return None
        if self.options.currency != "USD":
            self.note("not_judged")
            return None
        low, high = band_of(match.candidates if match.matched != "unknown" else ())
        if low <= price <= high:
            return None
        told = f"{written(price)} an hour is outside the plausible {written(low)} to {written(high)}"
        return "implausible_price", field, f"{told} for {match.accelerator_id or 'such a part'}; {kept}"

    def note(self, code: str, count: int = 1) -> None:
        """Something to know of the file, once more."""
        self._noted[code] += count

    def notes(self) -> tuple[ImportNote, ...]:
        return tuple(
            ImportNote(code, _NOTES[code].format(currency=self.options.currency), count)
            for code, count in sorted(self._noted.items())
            if count
        )
