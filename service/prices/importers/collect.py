"""What became of each row, and what is doubtful among the rates: counts that are exact, lists that end."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from service.errors import BrokenRule
from service.prices.importers.context import Context
from service.prices.importers.rows import Remark, RowProblem, Skip
from service.prices.importers.schemas import MAX_LISTED, RateCounts, RowCounts, RowFault
from service.prices.offers import offer_of, start_of
from service.prices.schemas import MAX_RATES, GpuRate, Rate, StorageRate

_Key = tuple[object, ...]


class Collector:
    """Rates in the file's order. Of two rates for the same thing the first stays.

    `keep_all` is for our own file, in which nothing is left out: what a person has put into a table stays.
    """

    def __init__(self, context: Context, column_of: Callable[[str | None], str | None], *, keep_all: bool) -> None:
        self.rates: list[Rate] = []
        self.skipped: list[RowFault] = []
        self.rejected: list[RowFault] = []
        self.suspicious: list[RowFault] = []
        self._context = context
        self._column_of = column_of
        self._keep_all = keep_all
        self._rows = Counter[str]()
        self._doubted: set[int] = set()
        self._lines = array("q")
        self._places: dict[int, int] = {}  # by the hash of a rate's key, which takes a tenth of the key itself

    def problem(self, line: int, problem: RowProblem) -> None:
        """A row that gave no rate."""
        skip = isinstance(problem, Skip)
        self._rows["skipped" if skip else "rejected"] += 1
        listed = self.skipped if skip else self.rejected
        if len(listed) < MAX_LISTED:
            listed.append(self._fault(line, (problem.code, problem.field, problem.reason)))

    def take(self, line: int, rates: Sequence[Rate], remarks: Sequence[Remark]) -> None:
        """The rates of a row, but for those that an earlier row has given already."""
        kept = 0
        why: Skip | None = None
        for remark in remarks:
            self._doubt(line, remark)
        for rate in rates:
            key = _key_of(rate)
            slot, place = self._find(key)
            if place is not None:
                again = self._again(line, rate, place)
                why = again if why is None or why.code == "repeated" else why
                if not self._keep_all:
                    continue
            else:
                self._places[slot] = len(self.rates)
            self._append(line, rate)
            kept += 1
        if not kept and why is not None:
            self.problem(line, why)
            return
        self._rows["accepted"] += 1
        if self._context.unmatched is not None:
            name, match = self._context.unmatched
            self._context.accelerators.count(name, match)
            self._rows[match.matched or ""] += 1

    def finish(self) -> None:
        """What can be said only of all rates together."""
        elsewhere = array("q")
        for place, rate in enumerate(self.rates):
            if isinstance(rate, GpuRate) and rate.price_per_gpu_hour:
                if rate.purchase == "spot":
                    self._compare_spot(place, rate)
                if rate.region is not None:
                    elsewhere.append(hash((offer_of(replace(rate, region=None)), rate.price_per_gpu_hour)))
        self._context.note("same_price_elsewhere", len(elsewhere) - len(set(elsewhere)))
        self.suspicious.sort(key=lambda fault: fault.line)

    def row_counts(self) -> RowCounts:
        rows = self._rows
        return RowCounts(
            total=rows["accepted"] + rows["skipped"] + rows["rejected"],
            accepted=rows["accepted"],
            skipped=rows["skipped"],
            rejected=rows["rejected"],
            ambiguous=rows["ambiguous"],
            unknown=rows["unknown"],
            suspicious=len(self._doubted),
        )

    def rate_counts(self) -> RateCounts:
        kinds = Counter(type(rate).__struct_config__.tag for rate in self.rates)
        return RateCounts(
            total=len(self.rates),
            accelerator=kinds["accelerator"],
            storage=kinds["storage"],
            egress=kinds["egress"],
            unknown_price=sum(isinstance(rate, GpuRate) and rate.price_per_gpu_hour is None for rate in self.rates),
        )

    def _append(self, line: int, rate: Rate) -> None:
        if len(self.rates) >= MAX_RATES:
            raise BrokenRule.at("", f"The file has more than {MAX_RATES:,} rates, at line {line}; split it")
        self.rates.append(rate)
        self._lines.append(line)

    def _find(self, key: _Key) -> tuple[int, int | None]:
        """The slot of a key, and where the rate with it is; two keys of one hash take slots side by side."""
        slot = hash(key)
        while (place := self._places.get(slot)) is not None and _key_of(self.rates[place]) != key:
            slot += 1
        return slot, place

    def _again(self, line: int, rate: Rate, place: int) -> Skip:
        """Why a rate is not taken a second time."""
        first, first_line = self.rates[place], self._lines[place]
        if _price_of(first) == _price_of(rate):
            return Skip("repeated", None, f"The same rate as in line {first_line}")
        prices = f"{_written(first)} in line {first_line}, {_written(rate)} here"
        if _is_another_zone(first, rate):
            self._context.note("another_zone")
            return Skip("another_zone", None, f"Another zone of the same region: {prices}; the first stays")
        stays = "both stay" if self._keep_all else "the first stays"
        self._doubt(
            line, ("conflicting_price", _price_field(rate), f"Two prices for the same thing: {prices}; {stays}")
        )
        return Skip("conflicting_price", _price_field(rate), f"Two prices for the same thing: {prices}; {stays}")

    def _compare_spot(self, place: int, spot: GpuRate) -> None:
        """Spot at or above on demand: the file has one of the two wrong, or there is no spot market."""
        for word in dict.fromkeys((spot.purchase_word, None)):
            other = self._find(_key_of(replace(spot, purchase="on_demand", purchase_word=word)))[1]
            if other is not None:
                break
        else:
            return
        usual = self.rates[other]
        if not isinstance(usual, GpuRate) or not usual.price_per_gpu_hour or not spot.price_per_gpu_hour:
            return
        if spot.price_per_gpu_hour >= usual.price_per_gpu_hour:
            equal = spot.price_per_gpu_hour == usual.price_per_gpu_hour
            code = "spot_equals_on_demand" if equal else "spot_above_on_demand"
            told = f"Spot {_written(spot)} {'equals' if equal else 'is above'} on demand {_written(usual)}"
            self._doubt(self._lines[place], (code, "price_per_gpu_hour", told))

    def _doubt(self, line: int, remark: Remark) -> None:
        self._doubted.add(line)
        if len(self.suspicious) < MAX_LISTED:
            self.suspicious.append(self._fault(line, remark))

    def _fault(self, line: int, remark: Remark) -> RowFault:
        code, field, reason = remark
        return RowFault(line=line, code=code, field=field, column=self._column_of(field), reason=reason)


def _key_of(rate: Rate) -> _Key:
    """What makes two rates the same: the offer, and the day from which it counts among the rates of that offer."""
    return (*offer_of(rate), start_of(rate), rate.valid_to)


def _price_field(rate: Rate) -> str:
    if isinstance(rate, GpuRate):
        return "price_per_gpu_hour"
    return "price_per_gb_month" if isinstance(rate, StorageRate) else "price_per_gb"


def _price_of(rate: Rate) -> object:
    return getattr(rate, _price_field(rate))


def _written(rate: Rate) -> str:
    price = _price_of(rate)
    return "no price" if price is None else f"{price:f}"


def _is_another_zone(first: Rate, second: Rate) -> bool:
    notes = (first.note or "", second.note or "")
    return notes[0] != notes[1] and all("zone " in note for note in notes)
