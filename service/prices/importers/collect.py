"""What became of each row, and what is doubtful among the rates: counts that are exact, lists that end."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from service.errors import BrokenRule
from service.prices.importers.context import Context
from service.prices.importers.rows import Remark, RowProblem, Skip
from service.prices.importers.schemas import MAX_LISTED, RateCounts, RowCounts, RowFault
from service.prices.offers import encoded_rate, offer_of, start_of
from service.prices.schemas import MAX_RATES, GpuRate, Rate, StorageRate

_GPU_PRICES = ("price_per_gpu_hour", "instance_price_per_hour")
_Key = tuple[object, ...]


class Collector:
    """Rates in the file's order. Of two rates for the same thing the first stays, unless only the second has a price.

    `keep_all` is for our own file, in which nothing is left out but what stands there twice: what a person has put
    into a table stays.
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
        self._beside = bytearray()  # of each rate, whether it is a row's second, from the columns of its spot price
        self._alike: dict[int, set[bytes]] = {}  # of rates for the same thing that are all kept, what each is
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
        kept = moved = 0
        why: Skip | None = None
        for remark in remarks:
            self._doubt(line, remark)
        for number, rate in enumerate(rates):
            key = _key_of(rate)
            slot, place = self._find(key)
            if place is None:
                self._places[slot] = len(self.rates)
            elif not self._keep_all and _is_unknown(self.rates[place]) and not _is_unknown(rate):
                moved += self._replace(line, rate, place, beside=number > 0)
                kept += 1
                continue
            elif self._keep_all and not self._is_new(slot, rate, place):
                why = why or Skip("repeated", None, "The same rate as in an earlier line")
                continue
            else:
                again = self._again(line, rate, place, beside=number > 0)
                why = again if why is None or why.code == "repeated" else why
                if not self._keep_all:
                    continue
            self._append(line, rate, beside=number > 0)
            kept += 1
        if not kept and why is not None:
            self.problem(line, why)
            return
        self._rows["accepted"] += 1
        if self._context.unmatched is not None and not moved:
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
        for listed in (self.suspicious, self.skipped):
            listed.sort(key=lambda fault: fault.line)

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

    def _replace(self, line: int, rate: Rate, place: int, *, beside: bool) -> bool:
        """A rate with a price takes the place of one without; whether its row is skipped, for it has nothing left."""
        first_line = self._lines[place]
        self.rates[place], self._lines[place], self._beside[place] = rate, line, beside
        self._context.note("unknown_replaced")
        if first_line in self._lines[max(place - 1, 0) : place + 2]:  # a row's rates stand side by side
            return False
        self._rows["accepted"] -= 1
        told = f"Without a price; line {line} has {_written(rate)} for the same thing"
        self.problem(first_line, Skip("no_price", self._price_field(rate, beside=beside), told))
        return True

    def _is_new(self, slot: int, rate: Rate, place: int) -> bool:
        """That no rate for the same thing is this one to the letter."""
        alike = self._alike.setdefault(slot, {encoded_rate(self.rates[place])})
        body = encoded_rate(rate)
        is_new = body not in alike
        alike.add(body)
        return is_new

    def _append(self, line: int, rate: Rate, *, beside: bool) -> None:
        if len(self.rates) >= MAX_RATES:
            raise BrokenRule.at("", f"The file has more than {MAX_RATES:,} rates, at line {line}; split it")
        self.rates.append(rate)
        self._lines.append(line)
        self._beside.append(beside)

    def _find(self, key: _Key) -> tuple[int, int | None]:
        """The slot of a key, and where the rate with it is; two keys of one hash take slots side by side."""
        slot = hash(key)
        while (place := self._places.get(slot)) is not None and _key_of(self.rates[place]) != key:
            slot += 1
        return slot, place

    def _again(self, line: int, rate: Rate, place: int, *, beside: bool) -> Skip:
        """Why a rate is not taken a second time."""
        first, first_line = self.rates[place], self._lines[place]
        if _price_of(first) == _price_of(rate):
            return Skip("repeated", None, f"The same rate as in line {first_line}")
        prices = f"{_written(first)} in line {first_line}, {_written(rate)} here"
        if _is_another_zone(first, rate):
            self._context.note("another_zone")
            return Skip("another_zone", None, f"Another zone of the same region: {prices}; the first stays")
        stays = "both stay" if self._keep_all else "the first stays"
        field, told = self._price_field(rate, beside=beside), f"Two prices for the same thing: {prices}; {stays}"
        self._doubt(line, ("conflicting_price", field, told))
        return Skip("conflicting_price", field, told)

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
            field = self._price_field(spot, beside=bool(self._beside[place]))
            self._doubt(self._lines[place], (code, field, told))

    def _price_field(self, rate: Rate, *, beside: bool = False) -> str:
        """The field that gave a rate its price: one that the file has a column for, where it has."""
        if not isinstance(rate, GpuRate):
            return _price_name(rate)
        fields = [f"spot_{field}" if beside else field for field in _GPU_PRICES]
        return next((field for field in fields if self._column_of(field) is not None), _GPU_PRICES[0])

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


def _price_name(rate: Rate) -> str:
    if isinstance(rate, GpuRate):
        return "price_per_gpu_hour"
    return "price_per_gb_month" if isinstance(rate, StorageRate) else "price_per_gb"


def _price_of(rate: Rate) -> object:
    return getattr(rate, _price_name(rate))


def _is_unknown(rate: Rate) -> bool:
    return isinstance(rate, GpuRate) and rate.price_per_gpu_hour is None


def _written(rate: Rate) -> str:
    price = _price_of(rate)
    return "no price" if price is None else f"{price:f}"


def _is_another_zone(first: Rate, second: Rate) -> bool:
    notes = (first.note or "", second.note or "")
    return notes[0] != notes[1] and all("zone " in note for note in notes)
