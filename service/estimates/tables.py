"""Prices of a request that stand in price tables: the one rate that answers, converted, split where it changes."""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

from msgspec import UNSET, Raw, Struct, UnsetType, structs

from service.catalog.gpus import get_rentable_gpu
from service.errors import BrokenRule
from service.estimates.bill_schemas import MeteredEgress, MeteredStorage, TablePrice, TableTiers
from service.estimates.facts import ReadPrice
from service.estimates.held import (
    ONE,
    Conversion,
    Held,
    Tables,
    checked_size,
    day_of,
    held_revision,
    revision_used,
    source_of,
)
from service.estimates.rework_schemas import FailuresRework
from service.estimates.schemas import Cluster, EstimateRequest
from service.estimates.tiers import FoundTiers, tiers_of
from service.estimator import inputs
from service.estimator.answers import Explanation, PricesUsed, PriceUsed, RateSegment, RateUsed
from service.estimator.charges import HOURS_PER_MONTH
from service.estimator.evidence import PaidRate
from service.estimator.explain_lines import mean_rate
from service.estimator.formula import SIX_DIGITS, Page
from service.estimator.plan import Plan, Ratio
from service.estimator.results import Assumption, Estimate, Note
from service.estimator.run import to_the_second
from service.http.encoding import encoded
from service.money import Money, exact, exact_arithmetic, unit_price, written
from service.prices.lookup import (
    GpuOffer,
    Question,
    age_days,
    change_days,
    choose,
    doubts,
    gpu_hour_cost,
    rate_on,
    rate_segments,
)
from service.prices.schemas import GpuRate

_MOST_BEATEN = 5
_NO_CLUSTER = Cluster()
_AMOUNT, _MEAN = "price.amount", "price.per_gpu_hour"
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


class Answered(Struct, frozen=True):
    """What a table answers to a question, whoever asks it: the rate of its offer, and what a GPU-hour comes to."""

    rate: GpuRate
    offer: GpuOffer
    amount: Money
    used: PriceUsed
    prices: PricesUsed
    source: str
    said: tuple[Assumption, ...]
    notes: tuple[Note, ...]
    changes: bool


class Reading(Struct, frozen=True):
    """The request with every figure in it, and what there is to say of where those were read."""

    request: EstimateRequest
    prices: PricesUsed
    notes: tuple[Note, ...]
    answered: Answered | None
    factor: Decimal
    tiers: tuple[FoundTiers, ...] = ()
    mean: Assumption | None = None
    paid: tuple[PaidRate, ...] = ()

    def told(self, answer: Estimate) -> Estimate:
        """The answer, with its figures told of as read from a table."""
        if not self.tiers and self.mean is None and answer.explanations is UNSET:
            return structs.replace(answer, notes=answer.notes + self.notes, prices=self.prices)
        known = {found.assumption.field: found.assumption for found in self.tiers}
        said = [known.pop(one.field, one) for one in answer.assumptions]
        said += [*known.values(), *(() if self.mean is None else (self.mean,))]
        return structs.replace(
            answer,
            assumptions=tuple(said),
            notes=answer.notes + self.notes,
            prices=self.prices,
            explanations=UNSET if answer.explanations is UNSET else (*self._formulas(), *answer.explanations),
        )

    def _formulas(self) -> Iterator[Explanation]:
        """How the prices follow from what stands in the tables."""
        price = self.request.price
        pages = [found.page for found in self.tiers]
        if self.answered is not None and isinstance(price, ReadPrice) and price.currency is not UNSET:
            pages.append(_price_page(self.answered, self.factor, price.amount, price.currency))
            if self.paid:
                pages.append(_mean_page(self.paid, price.currency))
        for page in pages:
            yield from page.written


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
    """Everything that the request reads, for its day; BrokenRule names what is not there and what is nearby. Its times
    are in UTC."""
    price = request.price
    if isinstance(price, TablePrice) and request.exchange is UNSET and not _is_metered(request):
        answered = _answered(price, request, tables, today)
        notes = (*answered.notes, *_changed_by_start(answered, request)) if answered.changes else answered.notes
        read_price = _read_price(price, request, answered.amount, answered.used.revision.currency, answered.said)
        return Reading(structs.replace(request, price=read_price), answered.prices, notes, answered, ONE)
    return _read_and_converted(request, tables, today)


def _read_and_converted(request: EstimateRequest, tables: Tables | None, today: datetime.date) -> Reading:
    """The same where there may be tiers or a rate of exchange."""
    conversion = Conversion(request.exchange)
    price, answered, factor = request.price, None, ONE
    notes: tuple[Note, ...] = ()
    if isinstance(price, TablePrice):
        answered = _answered(price, request, tables, today)
        notes = (*answered.notes, *_changed_by_start(answered, request))
        factor, currency = conversion.of(answered.used.revision.currency)
        amount, said = answered.amount, answered.said
        if factor is not ONE:
            with exact_arithmetic():
                amount = Money(checked_size(amount * factor, "/exchange/rate"))
            said = _said(amount, currency, answered.source + conversion.told())
        request = structs.replace(request, price=_read_price(price, request, amount, currency, said))
    sections = tiers_of(request, tables, today, conversion)
    found = sections.found()
    storage, filesystem, egress = (
        None if one is None else one.used for one in (sections.objects, sections.filesystem, sections.out)
    )
    used = PricesUsed(None if answered is None else answered.used, storage, filesystem, egress, conversion.used())
    request = structs.replace(
        request,
        storage=request.storage if sections.storage is None else sections.storage,
        egress=request.egress if sections.egress is None else sections.egress,
    )
    notes = (*notes, *(note for one in found for note in one.notes))
    return Reading(request, used, notes, answered, factor, tuple(found))


def _is_metered(request: EstimateRequest) -> bool:
    return isinstance(request.storage, MeteredStorage) or isinstance(request.egress, MeteredEgress)


def at_changing_rates(
    reading: Reading, plan: Plan, start_at: datetime.datetime, end_at: datetime.datetime
) -> tuple[Plan, Reading] | None:
    """The plan at the rates that hold while it runs, each for its time, and the pieces told of; None if there is only
    one. In exact arithmetic."""
    answered, price = reading.answered, reading.request.price
    if answered is None or not isinstance(price, ReadPrice) or price.currency is UNSET:
        return None
    day = answered.used.revision.as_of
    segments: list[RateSegment] = []
    paid: list[PaidRate] = []
    try:
        found = rate_segments(answered.offer, answered.rate, day, start_at, end_at)
    except BrokenRule as error:
        raise error.placed("/start_at") from None
    for piece in found:
        cost = checked_size(gpu_hour_cost(piece.rate) * reading.factor, "/price")
        seconds = exact((piece.end - piece.start).total_seconds())
        shown = unit_price(cost, price.currency)
        if paid and paid[-1].rate == cost and segments[-1].offer_ended == piece.ended:
            paid[-1] = PaidRate(cost, paid[-1].seconds + seconds)
            segments[-1] = structs.replace(segments[-1], ends_at=piece.end)
        else:
            paid.append(PaidRate(cost, seconds))
            segments.append(RateSegment(piece.start, piece.end, shown, piece.ended))
    if len(segments) < 2:
        return None
    weighted = sum((piece.rate * piece.seconds for piece in paid), Decimal(0))
    rate = Ratio(weighted, sum((piece.seconds for piece in paid), Decimal(0)))
    fallback = plan.fallback_rate
    plan = structs.replace(
        plan,
        rate=rate,
        fallback_rate=None if fallback is None else fallback + plan.rate.value - rate.value,
    )
    segments[-1] = structs.replace(segments[-1], ends_at=to_the_second(end_at, start_at))
    used = structs.replace(answered.used, segments=tuple(segments))
    mean = str(unit_price(rate.value, price.currency))
    told = Assumption(_MEAN, mean, "derived", "the mean of the rates that hold while it runs, by their time")
    return plan, structs.replace(
        reading,
        prices=structs.replace(reading.prices, price=used),
        notes=(*reading.notes, *_changing(segments)),
        mean=told,
        paid=tuple(paid),
    )


# ------------------------------------------------------------------------------------------- the rate


def _answered(price: TablePrice, request: EstimateRequest, tables: Tables | None, today: datetime.date) -> Answered:
    """What the table answers; made once for all requests that no offer can tell apart."""
    cluster = _NO_CLUSTER if request.cluster is UNSET else request.cluster
    if cluster.gpu is None:
        raise BrokenRule.at("/cluster/gpu", "A price table prices an accelerator: name one (GET /v1/gpus)")
    held = held_revision(tables, price.table, price.revision, "/price")
    day = day_of(price.as_of, request, today)
    try:
        gpu = get_rentable_gpu(cluster.gpu, cluster.allow_announced)
    except BrokenRule as error:
        raise error.placed("/cluster/gpu") from None
    count = inputs.DEFAULT_GPU_COUNT if cluster.gpu_count is UNSET else cluster.gpu_count
    node = None if cluster.gpus_per_node is UNSET else cluster.gpus_per_node
    key = (
        gpu.id,
        day,
        price.purchase,
        price.provider,
        price.region,
        price.jurisdiction,
        price.term_months,
        node,
        held.index.count_told_apart(gpu.id, price.purchase, count, node),
    )
    return held.index.remembered(
        key,
        lambda: _made(
            held,
            Question(
                accelerator_id=gpu.id,
                gpu_count=count,
                as_of=day,
                purchase=price.purchase,
                provider=None if price.provider is UNSET else price.provider,
                region=None if price.region is UNSET else price.region,
                country=None if price.jurisdiction is UNSET else price.jurisdiction,
                term_months=None if price.term_months is UNSET else price.term_months,
                gpus_per_node=node,
            ),
        ),
    )


def _made(held: Held, question: Question) -> Answered:
    try:
        choice = choose(held.index, question)
    except BrokenRule as error:
        field = error.faults[0].pointer if error.faults else "as_of"
        raise error.placed(_POINTERS.get(field, "/price")) from None
    rate, currency, day = choice.rate, held.currency, question.as_of
    with exact_arithmetic():
        amount = Money(checked_size(gpu_hour_cost(rate), "/price"))
    used = PriceUsed(
        revision_used(held, day),
        _rate(rate, currency),
        age_days(rate, day, held.as_of),
        choice.candidate_count,
        # Made JSON once: nothing here reads them again, and to encode them would take as long as the whole bill.
        Raw(encoded(tuple(_rate(one, currency) for one in choice.beaten[:_MOST_BEATEN]))),  # type: ignore[arg-type]
        (),
    )
    source = source_of(used.revision, rate.provider, rate.region, rate.source)
    offer = held.index.offer_with(rate)
    return Answered(
        rate,
        offer,
        amount,
        used,
        PricesUsed(used, None, None, None, None),
        source,
        _said(amount, currency, source),
        (*doubts(rate, question, held.as_of), *_committed(rate)),
        bool(change_days(offer, day)),
    )


def _said(amount: Money, currency: str, source: str) -> tuple[Assumption, ...]:
    """The assumptions on a price that was read."""
    shown = str(unit_price(amount, currency))
    return (
        Assumption(_AMOUNT, shown, "catalogue", source),
        Assumption("price.per", "gpu", "catalogue", "price table"),
        Assumption("price.currency", currency, "catalogue", "price table"),
    )


def _read_price(
    price: TablePrice, request: EstimateRequest, amount: Money, currency: str, said: tuple[Assumption, ...]
) -> ReadPrice:
    """The rate as a price by itself. Spot is said, for the rework to go with it; what is not spot is said where the
    rework takes it for that."""
    purchase: inputs.Purchase | UnsetType = "spot" if price.purchase == "spot" else UNSET
    on_spot = isinstance(request.rework, FailuresRework) and request.rework.spot is not UNSET
    if on_spot and price.purchase in ("on_demand", "reserved", "capacity_block"):
        purchase = "on_demand" if price.purchase == "on_demand" else "reserved"
    return ReadPrice(
        amount,
        currency,
        "gpu",
        purchase,
        discount_percent=price.discount_percent,
        credits=price.credits,
        tax_percent=price.tax_percent,
        said=said,
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
        rate.term_months,
        None if rate.upfront is None else written(rate.upfront, currency),
    )


# ------------------------------------------------------------------------------------------- notes and formulas


def _committed(rate: GpuRate) -> Iterator[Note]:
    """The hours of the run are billed, and nothing of a term beyond them."""
    asks = [] if rate.term_months is None else [f"a term of {rate.term_months:g} months"]
    asks += [f"{rate.upfront:f} paid at once"] if rate.upfront else []
    asks += [rate.commitment] if rate.commitment else []
    if asks:
        yield Note(
            "price_is_committed",
            "warning",
            f"The rate of {rate.provider} asks for {', '.join(asks)}. Only the hours of this run are billed; "
            "a price of kind commitment bills the whole term.",
        )


def _changed_by_start(answered: Answered, request: EstimateRequest) -> tuple[Note, ...]:
    """The day was given, and by the start the rate is another one."""
    day, start_at = answered.used.revision.as_of, request.start_at
    if start_at is None or not day < start_at.date() or not answered.changes:
        return ()
    then, currency = rate_on(answered.offer, start_at.date()), answered.used.revision.currency
    if then is not None and gpu_hour_cost(then) == gpu_hour_cost(answered.rate):
        return ()
    found = "has no known rate any more"
    if then is not None:
        found = f"asks for {unit_price(gpu_hour_cost(then), currency)} {currency} a GPU-hour"
    told = f"The rate is that of {day}; when the run starts, on {start_at.date()}, the same offer {found}."
    return (Note("price_changes_before_start", "warning", told),)


def _changing(segments: list[RateSegment]) -> Iterator[Note]:
    """What happens to the rate while the run goes on."""
    changes = sum(one.price_per_gpu_hour != other.price_per_gpu_hour for one, other in pairwise(segments))
    if changes:
        told = f"The price changes {changes} time(s) while the run goes on; each rate was paid for its time."
        yield Note("price_changes", "warning", told)
    over = next((piece for piece in segments if piece.offer_ended), None)
    if over is not None:
        told = f"The offer ends on {over.starts_at.date()}, before the run; its last rate was taken on."
        yield Note("price_offer_ends", "warning", told)


def _price_page(answered: Answered, factor: Decimal, amount: Money, currency: str) -> Page:
    """How the price of a GPU-hour follows from the rate; nothing where it is the rate itself."""
    page, rate = Page(), answered.rate
    if factor is ONE and not rate.upfront:
        return page
    given = answered.used.revision.currency
    page.let("p", rate.price_per_gpu_hour or 0, f"{given}/GPU-hour", "rate of a GPU-hour")
    page.let("u", rate.upfront or 0, given, "paid at once")
    page.let("G", rate.gpu_count or 1, "GPU", "accelerators of the offer")
    page.let("m", rate.term_months or 1, "month", "length of the term")
    page.let("x", factor, "", "rate of exchange")
    formula = f"p + u / (G * m * {HOURS_PER_MONTH})" if rate.upfront else "p"
    if factor is not ONE:
        formula = f"({formula}) * x" if rate.upfront else "p * x"
    name, at = "Price of a GPU-hour", f"assumptions[{_AMOUNT}].value"
    page.write(at, name, formula, amount, f"{currency}/GPU-hour", answered.source, SIX_DIGITS)
    return page


def _mean_page(paid: tuple[PaidRate, ...], currency: str) -> Page:
    """The mean of the rates, each for its time."""
    page = Page()
    formula, mean = mean_rate(page, paid)
    name, at = "Mean price of a GPU-hour", f"assumptions[{_MEAN}].value"
    page.write(at, name, formula, mean, f"{currency}/GPU-hour", "each rate for its time", SIX_DIGITS)
    return page
