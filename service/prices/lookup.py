"""One question, one rate: which offers fit, which of them holds on the day, and what there is instead."""

import datetime
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from service.errors import BrokenRule
from service.estimator.charges import HOURS_PER_MONTH, Tier
from service.estimator.results import Note
from service.money import exact
from service.prices.offers import accelerator_of, offer_of, start_of
from service.prices.schemas import EgressRate, GpuRate, Purchase, Rate, Route, StorageClass, StorageRate

STALE_AFTER_DAYS = 90
MAX_BEATEN = 10
_MAX_NAMED = 8
_MAX_REMEMBERED = 4096

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


class Tiers(Struct, frozen=True):
    """The tiers of one provider and region, and the rates that they were read from."""

    tiers: tuple[Tier, ...]
    rates: tuple[StorageRate, ...] | tuple[EgressRate, ...]
    region: str | None


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

    def has_changes(self, rate: GpuRate) -> bool:
        """Whether the offer of this rate has another one, or an end."""
        for offer in self.offers(accelerator_of(rate), rate.purchase):
            if any(one is rate for one in offer):
                return len(offer) > 1 or rate.valid_to is not None
        return False


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
    """The run cut where its rate changes. The offer is chosen once, on the first day: a run stays where it began.

    Dates are days in UTC. Where the offer ends, its last rate goes on, marked `ended`.
    """
    first_day = start_at.astimezone(datetime.UTC).date()
    chosen = choose(index, _on(question, first_day)).rate
    offer = next(
        offer
        for offer in index.offers(question.accelerator_id, question.purchase)
        if any(one is chosen for one in offer)
    )
    days = {day for rate in offer for day in (start_of(rate), rate.valid_to) if day is not None}
    cuts = [moment for moment in map(_midnight, sorted(days)) if start_at < moment < end_at]
    pieces: list[Segment] = []
    rate, ended = chosen, False
    for start, end in pairwise([start_at, *cuts, end_at]):
        if start is not start_at:
            holding = _priced(holding_rates(offer, start.date()))
            rate, ended = (min(holding, key=gpu_hour_cost), False) if holding else (rate, True)
        if pieces and pieces[-1].rate is rate and pieces[-1].ended == ended:
            pieces[-1] = replace(pieces[-1], end=end)
        else:
            pieces.append(Segment(start, end, rate, ended))
    return tuple(pieces) or (Segment(start_at, end_at, chosen, False),)


def storage_tiers(
    index: RateIndex,
    *,
    provider: str,
    as_of: datetime.date,
    region: str | None = None,
    storage_class: StorageClass = "object_storage",
) -> Tiers:
    """What keeping a GB costs a month, by absolute monthly boundaries; BrokenRule names what there is instead."""
    return _tiers(index, "storage", storage_class, provider, region, as_of)


def egress_tiers(
    index: RateIndex, *, provider: str, as_of: datetime.date, region: str | None = None, route: Route = "internet"
) -> Tiers:
    """What a GB out costs, by absolute monthly boundaries; BrokenRule names what there is instead."""
    return _tiers(index, "egress", route, provider, region, as_of)


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
    node = question.gpus_per_node or GPUS_PER_NODE.get(question.accelerator_id, DEFAULT_GPUS_PER_NODE)
    return offered_gpus >= min(question.gpu_count, node)


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
        "price_stale",
        "warning",
        f"The price of {rate.provider} was read {age} days before the day it is used for ({rate.source}); "
        "read it again before you rely on it.",
    )


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


def _rank(rate: GpuRate, question: Question) -> tuple[bool, bool, Decimal, str, str, str, str]:
    """Specific before general, then cheap before dear, then by name."""
    elsewhere = question.region is not None and rate.region is None
    empty_places = rate.gpu_count is not None and question.gpu_count % rate.gpu_count != 0
    return (
        elsewhere,
        empty_places,
        gpu_hour_cost(rate),
        rate.provider.casefold(),
        rate.region or "",
        rate.instance or "",
        rate.source,
    )


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
            f"The table has no rate of {question.accelerator_id}. It has {_some(index.accelerators())}.",
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
            there = _some(dict.fromkeys(_told(rate) for rate in left))
            told = f"No rate of {question.accelerator_id} for {field} {wanted}. There is: {there}."
            return BrokenRule.at(field, told, "query")
        left = passing
    there = _some(dict.fromkeys(_told(rate) for rate in left))
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


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MAX_NAMED} more" if len(listed) > _MAX_NAMED else ""
    return (", ".join(listed[:_MAX_NAMED]) + more) or "nothing"


def _tiers(
    index: RateIndex,
    kind: Literal["storage", "egress"],
    what: str,
    provider: str,
    region: str | None,
    as_of: datetime.date,
) -> Tiers:
    by_region: dict[str, list[Rate]] = {}
    for offer in index.tier_offers(kind, provider, what):
        for rate in holding_rates(offer, as_of)[:1]:
            by_region.setdefault((rate.region or "").casefold(), []).append(rate)
    if not by_region:
        providers = _some(index.tier_providers(kind, what))
        raise BrokenRule.at(
            "provider", f"No price of {what} {kind} at {provider} on {as_of}. There is: {providers}.", "query"
        )
    if region is None:
        # The region that the fewest words narrow down, then the cheapest, then the first by name.
        key = min(by_region, key=lambda name: (name != "", [_gb_price(rate) for rate in by_region[name]], name))
    else:
        key = region.casefold() if region.casefold() in by_region else ""
        if key not in by_region:
            there = _some(rates[0].region or "any region" for rates in by_region.values())
            raise BrokenRule.at(
                "region", f"No price of {what} {kind} in {region} at {provider}. There is: {there}.", "query"
            )
    rates = sorted(by_region[key], key=lambda rate: rate.tier_from_gb)  # type: ignore[union-attr]
    return Tiers(_joined(rates, f"{what} {kind} of {provider}"), tuple(rates), rates[0].region)  # type: ignore[arg-type]


def _joined(rates: Sequence[Rate], told: str) -> tuple[Tier, ...]:
    """Tiers that begin at 0, follow each other and have no end; BrokenRule where volume would go without a price."""
    tiers = []
    reached: float | None = 0
    for rate in rates:
        assert not isinstance(rate, GpuRate)  # the caller's rates are tiers
        if reached is None or rate.tier_from_gb != reached:
            ends = "the last one" if reached is None else f"{reached:g} GB"
            raise BrokenRule(f"The tiers of {told} do not join: one begins at {rate.tier_from_gb:g} GB after {ends}.")
        reached = rate.tier_to_gb
        tiers.append(Tier(None if reached is None else exact(reached), _gb_price(rate)))
    if reached is not None:
        raise BrokenRule(f"The tiers of {told} end at {reached:g} GB: what lies above has no price.")
    return tuple(tiers)


def _gb_price(rate: Rate) -> Decimal:
    if isinstance(rate, StorageRate):
        return rate.price_per_gb_month
    assert isinstance(rate, EgressRate)  # the caller's rates are tiers
    return rate.price_per_gb
