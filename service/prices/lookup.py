"""One question, one rate: which offers fit, which of them holds on the day, and what there is instead."""

import datetime
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from service.errors import BrokenRule
from service.estimator.charges import HOURS_PER_MONTH
from service.estimator.results import Note
from service.money import exact
from service.prices.offers import accelerator_of, offer_of, start_of
from service.prices.schemas import EgressRate, GpuRate, Purchase, Rate, StorageRate

STALE = "price_stale"
STALE_AFTER_DAYS = 90
MAX_BEATEN = 10
_MAX_NAMED = 8
_MAX_REMEMBERED = 4096
MAX_CHANGES = 1000  # of a rate within one run
_MAX_SIZES = 16  # of offers: with more of them, every GPU count is a question of its own

# Accelerators of one host where they are not eight, the size of an HGX or OAM baseboard and of most clouds' instances.
# One: NVIDIA GH200 datasheet (a superchip a node). Four: NVIDIA GB200/GB300 NVL72 compute tray (two superchips of two
# GPUs); Google Cloud TPU v4, v5p and TPU7x documentation (four chips a host).
DEFAULT_GPUS_PER_NODE = 8
GPUS_PER_NODE: dict[str, int] = {
    "gh200-96gb": 1,
    "gh200-144gb": 1,
    "gb200-186gb": 4,
    "gb300-288gb": 4,
    "tpu-v4": 4,
    "tpu-v5p": 4,
    "tpu-v7x": 4,
}

T = TypeVar("T")
GpuOffer = tuple[GpuRate, ...]
TierOffer = tuple[StorageRate, ...] | tuple[EgressRate, ...]


class Question(Struct, frozen=True, kw_only=True):
    """What is to be priced. How it is bought and how many GPUs are part of the question."""

    accelerator_id: str
    gpu_count: float
    as_of: datetime.date
    purchase: Purchase = "on_demand"
    provider: str | None = None
    region: str | None = None
    country: str | None = None
    term_months: float | None = None
    gpus_per_node: int | None = None


class Choice(Struct, frozen=True):
    """The rate that answers, and those that it was better than, the best first."""

    rate: GpuRate
    beaten: tuple[GpuRate, ...]
    candidate_count: int


class Segment(Struct, frozen=True):
    """A piece of a run at one rate; `ended` where the offer is over and its last rate is used on."""

    start: datetime.datetime
    end: datetime.datetime
    rate: GpuRate
    ended: bool


class RateIndex:
    """The rates of one revision, found by accelerator and purchase; immutable, so that answers can be remembered."""

    def __init__(self, rates: Sequence[Rate]) -> None:
        """`rates` as `offers.in_order` has them: those of one offer stand together, the newest first."""
        gpus: dict[tuple[str, str], list[GpuOffer]] = {}
        tiers: dict[tuple[str, str, str], list[TierOffer]] = {}
        for _, group in groupby(rates, key=offer_of):
            offer = tuple(group)
            first = offer[0]
            if isinstance(first, GpuRate):
                gpus.setdefault((accelerator_of(first), first.purchase), []).append(offer)  # type: ignore[arg-type]
            elif isinstance(first, StorageRate):
                tiers.setdefault(("storage", first.provider.casefold(), first.storage_class), []).append(offer)  # type: ignore[arg-type]
            else:
                tiers.setdefault(("egress", first.provider.casefold(), first.route), []).append(offer)  # type: ignore[arg-type]
        self._gpus = {key: tuple(offers) for key, offers in gpus.items()}
        self._sizes = {key: _sizes(offers) for key, offers in gpus.items()}
        self._tiers = {key: tuple(offers) for key, offers in tiers.items()}
        self._choices: dict[Question, Choice | None] = {}
        self._told: dict[Any, Any] = {}

    def offers(self, accelerator_id: str, purchase: str) -> tuple[GpuOffer, ...]:
        """Every offer of this accelerator bought this way."""
        return self._gpus.get((accelerator_id, purchase), ())

    def tier_offers(self, kind: str, provider: str, what: str) -> tuple[TierOffer, ...]:
        """Every tier of this provider's storage class or route."""
        return self._tiers.get((kind, provider.casefold(), what), ())

    def purchases(self, accelerator_id: str) -> tuple[str, ...]:
        """The ways in which this accelerator can be bought here."""
        return tuple(sorted(purchase for accelerator, purchase in self._gpus if accelerator == accelerator_id))

    def accelerators(self) -> tuple[str, ...]:
        """What has a rate here."""
        return tuple(sorted({accelerator for accelerator, _ in self._gpus}))

    def tier_providers(self, kind: str, what: str) -> tuple[str, ...]:
        """Whose storage class or route has a price here."""
        return tuple(sorted(provider for of, provider, name in self._tiers if (of, name) == (kind, what)))

    def find_choice(self, question: Question) -> Choice | None:
        """The rate that answers; None where there is none. A question asked again costs one look."""
        if question in self._choices:
            return self._choices[question]
        if len(self._choices) >= _MAX_REMEMBERED:
            self._choices.clear()
        found = self._choices[question] = _choose(self, question)
        return found

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of these rates for this key; made once, and forgotten with the revision."""
        found: T | None = self._told.get(key)
        if found is None:
            if len(self._told) >= _MAX_REMEMBERED:
                self._told.clear()
            found = self._told[key] = make()
        return found

    def count_told_apart(
        self, accelerator_id: str, purchase: str, gpu_count: float, gpus_per_node: int | None
    ) -> Hashable:
        """What of a GPU count the offers can tell: counts of which this is the same get the same answer."""
        sizes = self._sizes.get((accelerator_id, purchase), ())
        if len(sizes) > _MAX_SIZES:
            return gpu_count
        return min(gpu_count, _node(accelerator_id, gpus_per_node)), *[not gpu_count % size for size in sizes]

    def offer_with(self, rate: GpuRate) -> GpuOffer:
        """The offer that this rate of the index belongs to, the newest rate first."""
        offers = self.offers(accelerator_of(rate), rate.purchase)
        return next(offer for offer in offers if any(one is rate for one in offer))


def choose(index: RateIndex, question: Question) -> Choice:
    """The one rate that answers: of each fitting offer the newest that holds, of these the most specific, then the
    cheapest, then the first by name. BrokenRule names what there is instead; an unknown price is never chosen."""
    found = index.find_choice(question)
    if found is None:
        raise _no_rate(index, question)
    return found


def price_segments(
    index: RateIndex, question: Question, start_at: datetime.datetime, end_at: datetime.datetime
) -> tuple[Segment, ...]:
    """The run cut where its rate changes. The offer is chosen once, on the first day: a run stays where it began."""
    first_day = start_at.astimezone(datetime.UTC).date()
    chosen = choose(index, _on(question, first_day)).rate
    return rate_segments(index.offer_with(chosen), chosen, first_day, start_at, end_at)


def rate_segments(
    offer: GpuOffer, chosen: GpuRate, as_of: datetime.date, start_at: datetime.datetime, end_at: datetime.datetime
) -> tuple[Segment, ...]:
    """The run cut where its offer changes after the day for which its rate was chosen; it begins with that rate.

    Dates are days in UTC. Where the offer ends, its last rate goes on, marked `ended`.
    """
    first, last = start_at.astimezone(datetime.UTC), end_at.astimezone(datetime.UTC)
    days = [day for day in change_days(offer, as_of) if first < _midnight(day) < last]
    if len(days) > MAX_CHANGES:
        raise BrokenRule.at("start_at", f"The rate changes {len(days)} times until the run is over", "query")
    pieces: list[Segment] = []
    rate, ended = chosen, False
    for (start, end), found in zip(
        pairwise([start_at, *map(_midnight, days), end_at]), _rates_on(offer, days), strict=True
    ):
        if start is not start_at:
            rate, ended = (rate, True) if found is None else (found, False)
        if pieces and pieces[-1].rate is rate and pieces[-1].ended == ended:
            pieces[-1] = replace(pieces[-1], end=end)
        else:
            pieces.append(Segment(start, end, rate, ended))
    return tuple(pieces)


def _rates_on(offer: GpuOffer, days: Sequence[datetime.date]) -> Iterator[GpuRate | None]:
    """None for the start, then `rate_on` of each of these days, which ascend: what is over is looked at once."""
    yield None
    waiting = sorted(offer, key=_newest_and_cheapest_last)
    begun: list[GpuRate] = []
    place = 0
    for day in days:
        while place < len(waiting) and start_of(waiting[place]) <= day:
            begun.append(waiting[place])
            place += 1
        while begun and begun[-1].valid_to is not None and begun[-1].valid_to <= day:
            begun.pop()
        if begun:
            yield begun[-1] if begun[-1].price_per_gpu_hour is not None else None
        else:
            yield rate_on(offer, day)


def _newest_and_cheapest_last(rate: GpuRate) -> tuple[datetime.date, bool, Decimal]:
    known = rate.price_per_gpu_hour is not None
    return start_of(rate), known, -gpu_hour_cost(rate) if known else Decimal(0)


def change_days(offer: GpuOffer, after: datetime.date) -> list[datetime.date]:
    """The days after this one on which a rate of the offer begins or ends."""
    return sorted({day for rate in offer for day in (start_of(rate), rate.valid_to) if day is not None and day > after})


def rate_on(offer: GpuOffer, day: datetime.date) -> GpuRate | None:
    """The rate of an offer that holds on this day, of several the cheapest; None where it has ended or is unknown."""
    return min(_priced(holding_rates(offer, day)), key=gpu_hour_cost, default=None)


def holding_rates(offer: Iterable[Rate], as_of: datetime.date) -> tuple[Rate, ...]:
    """Of one offer's rates those that hold on this day: the newest by then, and before the first one was read, that.

    Several only where several begin on one day.
    """
    effective = [
        rate
        for rate in offer
        if (rate.valid_from is None or rate.valid_from <= as_of) and (rate.valid_to is None or as_of < rate.valid_to)
    ]
    if len(effective) < 2:
        return tuple(effective)
    begun = [start for start in map(start_of, effective) if start <= as_of]
    best = max(begun) if begun else min(map(start_of, effective))
    return tuple(rate for rate in effective if start_of(rate) == best)


def makes_cluster(offered_gpus: float | None, question: Question) -> bool:
    """Whether such offers can be put together to this many GPUs: they hold a full node, or the whole cluster.

    A single GPU never prices a cluster of full nodes; an offer of no stated size prices any number.
    """
    if offered_gpus is None:
        return True
    return offered_gpus >= min(question.gpu_count, _node(question.accelerator_id, question.gpus_per_node))


def age_days(rate: Rate, as_of: datetime.date, read_on: datetime.date | None) -> int | None:
    """How old the price is on this day: since it was read, else since it began, else since its revision's date."""
    since = rate.seen_on or rate.valid_from or read_on
    return None if since is None else max((as_of - since).days, 0)


def stale_note(rate: Rate, as_of: datetime.date, read_on: datetime.date | None) -> Note | None:
    """A warning where the price is old enough to have changed."""
    age = age_days(rate, as_of, read_on)
    if age is None or age < STALE_AFTER_DAYS:
        return None
    return Note(
        STALE,
        "warning",
        f"The price of {rate.provider} was read {age} days before the day it is used for ({rate.source}); "
        "read it again before you rely on it.",
    )


def doubts(rate: GpuRate, question: Question, read_on: datetime.date | None) -> tuple[Note, ...]:
    """Why the rate that answers may not be what will be paid."""
    who = rate.provider
    found = [] if (stale := stale_note(rate, question.as_of, read_on)) is None else [stale]
    if rate.confidence == "low":
        told = f"The table has little confidence in this price of {who} ({rate.note or rate.source}): check it."
        found.append(Note("price_doubtful", "warning", told))
    if _says_no_size(rate, question):
        told = (
            f"The offer of {who} does not say how many accelerators it holds: ask whether it can be had as a cluster."
        )
        found.append(Note("price_size_unstated", "warning", told))
    if _says_no_region(rate, question):
        told = f"The offer of {who} does not say in which regions it holds; no rate of {question.region} fits better."
        found.append(Note("price_region_unstated", "warning", told))
    if _has_empty_places(rate, question):
        told = (
            f"The offer of {who} holds {rate.gpu_count:g} accelerators, of which the last one or more would stand "
            "empty; only those of the run are billed here."
        )
        found.append(Note("price_places_empty", "warning", told))
    return tuple(found)


def _node(accelerator_id: str, gpus_per_node: int | None) -> int:
    return gpus_per_node or GPUS_PER_NODE.get(accelerator_id, DEFAULT_GPUS_PER_NODE)


def _sizes(offers: Iterable[GpuOffer]) -> tuple[float, ...]:
    """How many GPUs these offers hold, each number once."""
    return tuple({offer[0].gpu_count for offer in offers if offer[0].gpu_count is not None})


def _choose(index: RateIndex, question: Question) -> Choice | None:
    candidates = [
        rate
        for offer in index.offers(question.accelerator_id, question.purchase)
        if _fits(offer[0], question)
        for rate in _priced(holding_rates(offer, question.as_of))
    ]
    if not candidates:
        return None
    candidates.sort(key=lambda rate: _rank(rate, question))
    return Choice(candidates[0], tuple(candidates[1 : 1 + MAX_BEATEN]), len(candidates))


def _fits(rate: GpuRate, question: Question) -> bool:
    return (
        (question.provider is None or rate.provider.casefold() == question.provider.casefold())
        and (question.region is None or rate.region is None or rate.region.casefold() == question.region.casefold())
        and (question.country is None or rate.country == question.country)
        and (question.term_months is None or rate.term_months == question.term_months)
        and makes_cluster(rate.gpu_count, question)
    )


def _rank(rate: GpuRate, question: Question) -> tuple[bool, bool, bool, Decimal, str, str, str, str]:
    """Specific before general, then cheap before dear, then by name."""
    return (
        _says_no_region(rate, question),
        _has_empty_places(rate, question),
        _says_no_size(rate, question),
        gpu_hour_cost(rate),
        rate.provider.casefold(),
        rate.region or "",
        rate.instance or "",
        rate.source,
    )


def _says_no_region(rate: GpuRate, question: Question) -> bool:
    return question.region is not None and rate.region is None


def _says_no_size(rate: GpuRate, question: Question) -> bool:
    return question.gpu_count > 1 and rate.gpu_count is None


def _has_empty_places(rate: GpuRate, question: Question) -> bool:
    return rate.gpu_count is not None and question.gpu_count % rate.gpu_count != 0


def gpu_hour_cost(rate: GpuRate) -> Decimal:
    """What a GPU-hour comes to, the upfront payment spread over the term; without a known term, over a month."""
    assert rate.price_per_gpu_hour is not None  # the candidates have prices
    if not rate.upfront:
        return rate.price_per_gpu_hour
    gpu_hours = exact(rate.gpu_count or 1) * exact(rate.term_months or 1) * HOURS_PER_MONTH
    return rate.price_per_gpu_hour + rate.upfront / gpu_hours


def _priced(rates: Iterable[Rate]) -> list[GpuRate]:
    return [rate for rate in rates if isinstance(rate, GpuRate) and rate.price_per_gpu_hour is not None]


def _on(question: Question, day: datetime.date) -> Question:
    return replace(question, as_of=day)


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)


def _no_rate(index: RateIndex, question: Question) -> BrokenRule:
    """Which part of the question leaves nothing over, and what there is by the parts before it."""
    if not index.purchases(question.accelerator_id):
        return BrokenRule.at(
            "gpu",
            f"The table has no rate of {question.accelerator_id}. It has {some_of(_nearest(question, index))}.",
            "query",
        )
    left = [
        rate
        for purchase in index.purchases(question.accelerator_id)
        for offer in index.offers(question.accelerator_id, purchase)
        for rate in offer
    ]
    for field, passes in _STEPS:
        passing = [rate for rate in left if passes(rate, question)]
        if not passing:
            wanted = getattr(question, field)
            there = some_of(dict.fromkeys(_told(rate) for rate in left))
            told = f"No rate of {question.accelerator_id} for {field} {wanted}. There is: {there}."
            return BrokenRule.at(field, told, "query")
        left = passing
    there = some_of(dict.fromkeys(_told(rate) for rate in left))
    told = f"The newest price of {question.accelerator_id} on {question.as_of} is not known. There was: {there}."
    return BrokenRule.at("as_of", told, "query")


def _holds(rate: GpuRate, question: Question) -> bool:
    return rate.price_per_gpu_hour is not None and bool(holding_rates((rate,), question.as_of))


_STEPS = (
    ("purchase", lambda rate, asked: rate.purchase == asked.purchase),
    ("provider", lambda rate, asked: asked.provider is None or rate.provider.casefold() == asked.provider.casefold()),
    ("country", lambda rate, asked: asked.country is None or rate.country == asked.country),
    (
        "region",
        lambda rate, asked: (
            asked.region is None or rate.region is None or rate.region.casefold() == asked.region.casefold()
        ),
    ),
    ("term_months", lambda rate, asked: asked.term_months is None or rate.term_months == asked.term_months),
    ("gpu_count", lambda rate, asked: makes_cluster(rate.gpu_count, asked)),
    ("as_of", _holds),
)


def _told(rate: GpuRate) -> str:
    places = "" if rate.gpu_count is None else f", {rate.gpu_count:g} GPUs"
    term = "" if rate.term_months is None else f", {rate.term_months:g} months"
    dates = "".join(
        f", {word} {day}" for word, day in (("from", rate.valid_from), ("until", rate.valid_to)) if day is not None
    )
    unknown = ", price unknown" if rate.price_per_gpu_hour is None else ""
    return f"{rate.purchase} at {rate.provider} ({rate.region or 'any region'}{places}{term}{dates}{unknown})"


def _nearest(question: Question, index: RateIndex) -> list[str]:
    """The accelerators of the table, those first whose names begin alike."""

    def shared(name: str) -> int:
        pairs = zip(name, question.accelerator_id, strict=False)
        return next((place for place, (one, other) in enumerate(pairs) if one != other), len(name))

    return sorted(index.accelerators(), key=lambda name: (-shared(name), name))


def some_of(names: Iterable[str]) -> str:
    """The first few of these names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - _MAX_NAMED} more" if len(listed) > _MAX_NAMED else ""
    return (", ".join(listed[:_MAX_NAMED]) + more) or "nothing"
