"""Prices and tiers of a request that stand in price tables: read, converted where a rate was given, and told of."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

from msgspec import UNSET, Struct, UnsetType, structs

from service.catalog.gpus import get_rentable_gpu
from service.errors import BrokenRule
from service.estimates.bill_schemas import EgressTier, Exchange, MeteredEgress, MeteredStorage, TablePrice, TableTiers
from service.estimates.schemas import Cluster, EstimateRequest
from service.estimator import inputs
from service.estimator.answers import (
    ExchangeUsed,
    PricesUsed,
    PriceUsed,
    RateSegment,
    RateUsed,
    RevisionUsed,
    TiersUsed,
)
from service.estimator.charges import tiered_cost
from service.estimator.plan import Plan, Ratio
from service.estimator.results import Assumption, Estimate, Note
from service.money import Money, exact, exact_arithmetic, unit_price, written
from service.prices.lookup import (
    Choice,
    Question,
    RateIndex,
    Segment,
    Tiers,
    age_days,
    choose,
    egress_tiers,
    gpu_hour_cost,
    price_segments,
    stale_note,
    storage_tiers,
)
from service.prices.schemas import GpuRate, StorageClass

_MOST_BEATEN = 5
# Where what a question asks stands in a request.
_POINTERS = {
    "gpu": "/cluster/gpu",
    "gpu_count": "/cluster/gpu_count",
    "purchase": "/price/purchase",
    "provider": "/price/provider",
    "country": "/price/jurisdiction",
    "region": "/price/region",
    "term_months": "/price/term_months",
    "as_of": "/price/as_of",
}


class Held(Protocol):
    """One revision's rates in memory."""

    @property
    def table(self) -> str: ...
    @property
    def currency(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def revision_id(self) -> int: ...
    @property
    def as_of(self) -> datetime.date | None: ...
    @property
    def index(self) -> RateIndex: ...


class Tables(Protocol):
    """The price tables as an estimate sees them: whatever is in memory, without asking anybody."""

    def find(self, name: str, revision: int | None = None) -> Held | None: ...


class Answered(Struct, frozen=True):
    """A question of a table, and what it answers."""

    held: Held
    question: Question
    choice: Choice
    used: PriceUsed
    note: Note | None
    changes: bool


class Reading(Struct, frozen=True):
    """The request with every figure in it, and what there is to say of where those were read."""

    request: EstimateRequest
    prices: PricesUsed
    assumptions: dict[str, Assumption]
    notes: tuple[Note, ...]
    answered: Answered | None
    factor: Decimal

    def told(self, answer: Estimate) -> Estimate:
        """The answer, with its figures told of as read from a table."""
        known = self.assumptions
        return structs.replace(
            answer,
            assumptions=tuple([known.get(one.field, one) for one in answer.assumptions]),
            notes=answer.notes + self.notes,
            prices=self.prices,
        )


def tables_of(request: EstimateRequest) -> tuple[tuple[str, int | None], ...]:
    """The tables that a request reads, each with its revision, None for the newest."""
    sections: list[TablePrice | TableTiers] = []
    if isinstance(request.price, TablePrice):
        sections.append(request.price)
    sections += [
        section.from_table
        for section in (request.storage, request.egress)
        if isinstance(section, MeteredStorage | MeteredEgress) and section.from_table is not UNSET
    ]
    return tuple((one.table, None if one.revision is UNSET else one.revision) for one in sections)


def read(request: EstimateRequest, tables: Tables | None, today: datetime.date) -> Reading:
    """Everything that the request reads, for its day; BrokenRule names what is not there and what is nearby."""
    price, answered, factor = request.price, None, Decimal(1)
    assumptions: dict[str, Assumption] = {}
    notes: list[Note] = []
    plain: inputs.HourlyPrice | None = None
    exchanged: list[str] = []
    if isinstance(price, TablePrice):
        held = _held(tables, price.table, price.revision, "/price")
        answered = _answered(held, price, request, _day(price.as_of, request, today))
        factor, currency = _exchange(request.exchange, held.currency, exchanged)
        plain = _hourly(price, answered.choice.rate, factor, currency)
        source = _source(answered.used.revision, answered.used.rate)
        amount = str(written(plain.amount, currency))
        for field, value in (("price.amount", amount), ("price.per", "gpu"), ("price.currency", currency)):
            assumptions[field] = Assumption(field, value, "catalogue", source)
        if answered.note is not None:
            notes.append(answered.note)
        request = structs.replace(request, price=plain)
    storage, filesystem, egress = _sections(request, tables, today, assumptions, exchanged)
    if request.exchange is not UNSET and not exchanged:
        raise BrokenRule.at("/exchange", "Nothing here is read from a price table in from_currency")
    request = structs.replace(
        request,
        storage=request.storage if storage is None else storage[0],
        egress=request.egress if egress is None else egress[0],
    )
    used = PricesUsed(
        None if answered is None else answered.used,
        None if storage is None else storage[1],
        filesystem,
        None if egress is None else egress[1],
        _exchange_used(request.exchange),
    )
    return Reading(request, used, assumptions, tuple(notes), answered, factor)


def at_changing_rates(
    reading: Reading, plan: Plan, start_at: datetime.datetime, end_at: datetime.datetime
) -> tuple[Plan, Reading] | None:
    """The plan at the rates that hold while it runs, each for its time, and the pieces told of; None if there is only
    one."""
    answered = reading.answered
    if answered is None:
        return None
    segments = price_segments(answered.held.index, answered.question, start_at, end_at)
    if len(segments) < 2:
        return None
    weighted, whole = Decimal(0), Decimal(0)
    for piece in segments:
        seconds = exact((piece.end - piece.start).total_seconds())
        weighted += gpu_hour_cost(piece.rate) * reading.factor * seconds
        whole += seconds
    rate = Ratio(weighted, whole)
    fallback = plan.fallback_rate
    plan = structs.replace(
        plan,
        rate=rate,
        fallback_rate=None if fallback is None else fallback + plan.rate.value - rate.value,
    )
    used = structs.replace(answered.used, segments=tuple(_segment(piece, reading.factor) for piece in segments))
    mean = unit_price(rate.value, reading.request.price.currency)  # type: ignore[union-attr, arg-type]
    told = Assumption(
        "price.per_gpu_hour", str(mean), "derived", "the mean of the rates that hold while it runs, by their time"
    )
    note = Note(
        "price_changes",
        "warning",
        f"The price changes {len(segments) - 1} time(s) while the run goes on; each rate was paid for its time.",
    )
    return plan, structs.replace(
        reading,
        prices=structs.replace(reading.prices, price=used),
        notes=(*reading.notes, note),
        assumptions={**reading.assumptions, told.field: told},
    )


# ------------------------------------------------------------------------------------------- the rate


def _held(tables: Tables | None, name: str, revision: int | UnsetType, at: str) -> Held:
    if tables is None:
        raise BrokenRule.at(f"{at}/table", "There are no price tables here: ask the service, or give an hourly price")
    held = tables.find(name, None if revision is UNSET else revision)
    if held is None:
        which = f"a revision {revision} of price table {name!r}" if revision is not UNSET else f"a price table {name!r}"
        raise BrokenRule.at(f"{at}/table", f"There is no such thing as {which} with rates (GET /v1/price-tables)")
    return held


def _answered(held: Held, price: TablePrice, request: EstimateRequest, day: datetime.date) -> Answered:
    cluster = Cluster() if request.cluster is UNSET else request.cluster
    if cluster.gpu is None:
        raise BrokenRule.at("/cluster/gpu", "A price table prices an accelerator: name one (GET /v1/gpus)")
    try:
        gpu = get_rentable_gpu(cluster.gpu, cluster.allow_announced)
    except BrokenRule as error:
        raise error.placed("/cluster/gpu") from None
    question = Question(
        accelerator_id=gpu.id,
        gpu_count=inputs.DEFAULT_GPU_COUNT if cluster.gpu_count is UNSET else cluster.gpu_count,
        as_of=day,
        purchase=price.purchase,
        provider=_or_none(price.provider),
        region=_or_none(price.region),
        country=_or_none(price.jurisdiction),
        term_months=None if price.term_months is UNSET else price.term_months,
        gpus_per_node=None if cluster.gpus_per_node is UNSET else cluster.gpus_per_node,
    )
    return held.index.remembered(question, lambda: _made(held, question))


def _made(held: Held, question: Question) -> Answered:
    try:
        choice = choose(held.index, question)
    except BrokenRule as error:
        field = error.faults[0].pointer if error.faults else "as_of"
        raise error.placed(_POINTERS.get(field, "/price")) from None
    rate = choice.rate
    return Answered(
        held,
        question,
        choice,
        PriceUsed(
            _revision(held, question.as_of),
            _rate(rate, held.currency),
            age_days(rate, question.as_of, held.as_of),
            choice.candidate_count,
            tuple(_rate(one, held.currency) for one in choice.beaten[:_MOST_BEATEN]),
            (),
        ),
        stale_note(rate, question.as_of, held.as_of),
        held.index.has_changes(rate),
    )


def _hourly(price: TablePrice, rate: GpuRate, factor: Decimal, currency: str) -> inputs.HourlyPrice:
    """The rate as a price by itself; spot is said, for the rework to go with it."""
    with exact_arithmetic():
        amount = Money(unit_price(gpu_hour_cost(rate) * factor, currency))
    return inputs.HourlyPrice(
        amount,
        currency,
        "gpu",
        discount_percent=price.discount_percent,
        credits=price.credits,
        tax_percent=price.tax_percent,
        purchase="spot" if price.purchase == "spot" else UNSET,
    )


def _rate(rate: GpuRate, currency: str) -> RateUsed:
    assert rate.price_per_gpu_hour is not None  # what is chosen, and what it beat, has a price
    return RateUsed(
        rate.provider,
        rate.region,
        rate.country,
        rate.purchase,
        written(rate.price_per_gpu_hour, currency),
        rate.gpu_count,
        rate.instance,
        rate.source,
        rate.confidence,
    )


def _segment(piece: Segment, factor: Decimal) -> RateSegment:
    return RateSegment(piece.start, piece.end, gpu_hour_cost(piece.rate) * factor, piece.ended)


# ------------------------------------------------------------------------------------------- tiers


def _sections(
    request: EstimateRequest,
    tables: Tables | None,
    today: datetime.date,
    assumptions: dict[str, Assumption],
    exchanged: list[str],
) -> tuple[tuple[MeteredStorage, TiersUsed] | None, TiersUsed | None, tuple[MeteredEgress, TiersUsed] | None]:
    """Storage and egress with their tiers filled in, and where those were read."""
    storage, egress = request.storage, request.egress
    made_storage, made_egress, filesystem = None, None, None
    if isinstance(storage, MeteredStorage):
        _one_of(storage.price_per_gb_month, storage.from_table, "/storage", "price_per_gb_month")
        if storage.from_table is not UNSET:
            made, used, filesystem = _storage(request, storage, storage.from_table, tables, today, exchanged)
            made_storage = made, used
            assumptions["storage.price_per_gb_month"] = Assumption(
                "storage.price_per_gb_month", str(made.price_per_gb_month), "catalogue", _tiers_source(used)
            )
    if isinstance(egress, MeteredEgress):
        _one_of(egress.tiers, egress.from_table, "/egress", "tiers")
        if egress.from_table is not UNSET:
            made_egress = _egress(request, egress, egress.from_table, tables, today, exchanged)
    return made_storage, filesystem, made_egress


def _one_of(given: object, table: object, at: str, field: str) -> None:
    if (given is UNSET) == (table is UNSET):
        raise BrokenRule.at(f"{at}/{field}", f"Give either {field} or from_table")


def _storage(
    request: EstimateRequest,
    section: MeteredStorage,
    asked: TableTiers,
    tables: Tables | None,
    today: datetime.date,
    exchanged: list[str],
) -> tuple[MeteredStorage, TiersUsed, TiersUsed | None]:
    """What a GB comes to at the data set's size, by the tiers of its month; the filesystem likewise."""
    at = "/storage/from_table"
    held = _held(tables, asked.table, asked.revision, at)
    day = _day(asked.as_of, request, today)
    factor = _factor(request, held, at, exchanged)

    def price_of(kind: StorageClass, size_gb: float) -> tuple[Money, Tiers]:
        region = _or_none(asked.region)
        found = _placed(
            lambda: storage_tiers(held.index, provider=asked.provider, as_of=day, region=region, storage_class=kind),
            at,
        )
        with exact_arithmetic():
            size = exact(size_gb) if size_gb else Decimal(1)
            return Money(tiered_cost(size, found.tiers) * factor / size), found

    price, found = price_of("object_storage", section.dataset_gb)
    changes: dict[str, Money | UnsetType] = {"price_per_gb_month": price}
    filesystem = None
    if section.filesystem_gb and section.filesystem_price_per_gb_month is UNSET:
        changes["filesystem_price_per_gb_month"], shared = price_of("shared_filesystem", section.filesystem_gb)
        filesystem = _tiers_used(held, day, asked, shared)
    made = structs.replace(section, from_table=UNSET, **changes)
    return made, _tiers_used(held, day, asked, found), filesystem


def _egress(
    request: EstimateRequest,
    section: MeteredEgress,
    asked: TableTiers,
    tables: Tables | None,
    today: datetime.date,
    exchanged: list[str],
) -> tuple[MeteredEgress, TiersUsed]:
    at = "/egress/from_table"
    held = _held(tables, asked.table, asked.revision, at)
    day = _day(asked.as_of, request, today)
    factor = _factor(request, held, at, exchanged)
    region = _or_none(asked.region)
    found = _placed(
        lambda: egress_tiers(held.index, provider=asked.provider, as_of=day, region=region, route=section.route), at
    )
    with exact_arithmetic():
        tiers = tuple(
            EgressTier(
                up_to_gb=None if tier.up_to_gb is None else float(tier.up_to_gb),
                price_per_gb=Money(tier.price_per_gb * factor),
            )
            for tier in found.tiers
        )
    return structs.replace(section, from_table=UNSET, tiers=tiers), _tiers_used(held, day, asked, found)


def _placed(ask: Callable[[], Tiers], at: str) -> Tiers:
    try:
        return ask()
    except BrokenRule as error:
        field = error.faults[0].pointer if error.faults else "provider"
        raise error.placed(f"{at}/{field}") from None


# ------------------------------------------------------------------------------------------- days, money, words


def _day(given: datetime.date | UnsetType, request: EstimateRequest, today: datetime.date) -> datetime.date:
    """The day whose prices hold: as given, else that of the start, else today."""
    if given is not UNSET:
        return given
    return today if request.start_at is None else request.start_at.date()


def _exchange(exchange: Exchange | UnsetType, currency: str, exchanged: list[str]) -> tuple[Decimal, str]:
    """By what an amount in this currency is multiplied, and the currency that it then has."""
    if exchange is UNSET or exchange.from_currency != currency:
        return Decimal(1), currency
    exchanged.append(currency)
    return exchange.rate, exchange.to_currency


def _factor(request: EstimateRequest, held: Held, at: str, exchanged: list[str]) -> Decimal:
    """The same, into the currency that the price has."""
    factor, currency = _exchange(request.exchange, held.currency, exchanged)
    priced = inputs.DEFAULT_CURRENCY
    if request.price is not UNSET and not isinstance(request.price, TablePrice) and request.price.currency is not UNSET:
        priced = request.price.currency
    if currency != priced:
        told = f"The table is in {held.currency} and the price in {priced}: give exchange, with a rate and its day"
        raise BrokenRule.at(f"{at}/table", told)
    return factor


def _exchange_used(exchange: Exchange | UnsetType) -> ExchangeUsed | None:
    if exchange is UNSET:
        return None
    return ExchangeUsed(exchange.from_currency, exchange.to_currency, exchange.rate, exchange.as_of)


def _revision(held: Held, day: datetime.date) -> RevisionUsed:
    return RevisionUsed(held.table, held.revision, held.revision_id, held.currency, day)


def _tiers_used(held: Held, day: datetime.date, asked: TableTiers, found: Tiers) -> TiersUsed:
    return TiersUsed(_revision(held, day), asked.provider, found.region, found.rates[0].source)


def _source(revision: RevisionUsed, rate: RateUsed) -> str:
    where = f", {rate.region}" if rate.region else ""
    return (
        f"{revision.table}, revision {revision.revision}, on {revision.as_of}: {rate.provider}{where} ({rate.source})"
    )


def _tiers_source(used: TiersUsed) -> str:
    revision = used.revision
    return f"{revision.table}, revision {revision.revision}, on {revision.as_of}: {used.provider} ({used.source})"


def _or_none(text: str | UnsetType) -> str | None:
    return None if text is UNSET else text
