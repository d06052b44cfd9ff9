"""What a request pays for as numbers: the rate of a GPU-hour, commitments, storage, egress, energy, idle hours."""

import datetime
from decimal import Decimal

from msgspec import UNSET, Struct, UnsetType

from service.catalog.gpus import get_gpu
from service.errors import BrokenRule
from service.estimates.bill_schemas import (
    CHECKPOINTS_ARCHIVED,
    CHECKPOINTS_KEPT,
    LIFE_YEARS,
    PASSES,
    PUE,
    SETUP_HOURS,
    SPARE_NODES,
    UTILISATION_PERCENT,
    CommitmentPrice,
    Energy,
    MeteredEgress,
    MeteredStorage,
    OwnedPrice,
    TablePrice,
)
from service.estimates.facts import amount_of, price_facts
from service.estimates.record import Record, or_usual
from service.estimates.rework_schemas import FailuresRework
from service.estimates.schemas import EstimateRequest
from service.estimates.work import WorkFacts
from service.estimator import advice, charges, inputs
from service.estimator.charges import A100_SERVER_POWER_RATIO, H100_SERVER_POWER_RATIO, LOAD_PERCENT
from service.estimator.plan import Commitment, FixedCharge, Kept, KeptCheckpoints, Ratio
from service.estimator.purchases import Alternatives, EnergyFacts, OwnedFacts
from service.estimator.results import Component
from service.estimator.utilisation import Family, family_of
from service.money import Money, exact, unit_price, written

_GB = 1e9
_NOTHING = Decimal(0)
_ONE = Decimal(1)
_USUAL = "usual; assumed"
_NOT_SAID = "none unless it is said"
_POWER_ASSUMED = "8 accelerators of a server draw that much of it (Epoch AI); assumed for other families"
_PRICE_LOW, _PRICE_HIGH = 0.8, 1.4  # several providers' prices about a list price; assumed


class Pricing(Struct, frozen=True, kw_only=True):
    """The rate of a GPU-hour, and what hangs on how it is bought."""

    rate: Ratio
    currency: str
    amount: Decimal
    priced_per: inputs.PricedPer
    commitment: Commitment | None = None
    owned: OwnedFacts | None = None
    alternatives: Alternatives | None = None


class IdleTime(Struct, frozen=True):
    """What is billed and computes nothing."""

    setup_hours: float
    spare_nodes: int


class Kinds(Struct, frozen=True):
    """What is stored."""

    kept: tuple[Kept, ...]
    checkpoints: KeptCheckpoints | None
    fixed: tuple[FixedCharge, ...]


def pricing_of(
    record: Record, request: EstimateRequest, work: WorkFacts, gpu_count: int, gpus_per_node: int
) -> Pricing:
    """The section `price`."""
    price = request.price
    if isinstance(price, CommitmentPrice):
        return _commitment(record, price, request.start_at)
    if isinstance(price, OwnedPrice):
        spares = 0 if request.idle is UNSET else or_usual(request.idle.spare_nodes, SPARE_NODES)
        return _owned(record, request, price, work, gpu_count + spares * gpus_per_node)
    assert not isinstance(price, TablePrice)  # tables have been read by now
    if price is UNSET:
        if work.performance is not None:  # the hours of the classic calculator go with its price
            record.note(advice.price_default())
        record.triangular("price", _PRICE_LOW, _PRICE_HIGH, "no price was given; providers' prices about a list price")
    amount, per, currency = price_facts(record.assumptions, price)
    divisor = Decimal(gpus_per_node) if per == "node" else _ONE
    alternatives = None
    if price is not UNSET and price.alternatives is not UNSET:
        known = _offers(price, price.alternatives, _bought(request, price))
        alternatives = Alternatives(
            **{name: None if value is UNSET else value / divisor for name, value in known.items()}
        )
    if price is not UNSET and price.purchase is not UNSET:
        record.say("price.purchase", price.purchase, "given", "request")
        on_spot = isinstance(request.rework, FailuresRework) and request.rework.spot is not UNSET
        if price.purchase == "spot" and not on_spot:
            record.note(advice.spot_without_interruptions())
    return Pricing(
        rate=Ratio(amount, divisor), currency=currency, amount=amount, priced_per=per, alternatives=alternatives
    )


def on_demand_rate(request: EstimateRequest, pricing: Pricing) -> Decimal | None:
    """What a GPU-hour costs where spot capacity falls back to it; None if nobody says."""
    if isinstance(request.rework, FailuresRework) and request.rework.spot is not UNSET:
        given = request.rework.spot.on_demand_amount
        if given is not UNSET:
            return given
    return None if pricing.alternatives is None else pricing.alternatives.on_demand


def storage_of(
    record: Record, request: EstimateRequest, work: WorkFacts, interval_hours: float | None, currency: str
) -> Kinds:
    """The section `storage`."""
    section = request.storage
    if isinstance(section, MeteredStorage):
        return _metered_storage(record, section, work, interval_hours, currency)
    amount = amount_of(record.assumptions, "storage.amount", section, inputs.DEFAULT_STORAGE, currency)
    return Kinds((), None, (_fixed("storage", "Storage for the run", amount),))


def egress_of(record: Record, request: EstimateRequest, currency: str) -> tuple[FixedCharge, ...]:
    """The section `egress`."""
    section = request.egress
    if not isinstance(section, MeteredEgress):
        amount = amount_of(record.assumptions, "egress.amount", section, inputs.DEFAULT_EGRESS, currency)
        return (_fixed("egress", "Data egress and transfer", amount),)
    passes = record.pick("egress.passes", section.passes, PASSES, _USUAL)
    if not section.dataset_gb and not section.exported_gb:
        record.note(advice.egress_of_nothing())
    volume = charges.egress_gb(exact(section.dataset_gb), exact(passes), exact(section.exported_gb))
    record.say("egress.volume_gb", float(volume), "derived", "dataset_gb x passes + exported_gb, within one month")
    tiers = _tiers(section, volume)
    made = charges.tier_charges(volume, tiers, exact(section.used_gb))
    return tuple(
        FixedCharge(
            component="egress",
            description=f"Egress to {section.route.replace('_', ' ')}, by tier",
            quantity=part.quantity_gb,
            unit="GB",
            unit_price=part.price_per_gb,
            amount=part.amount,
        )
        for part in made
    ) or (_fixed("egress", "Data egress and transfer", _NOTHING),)


def idle_of(record: Record, request: EstimateRequest, work: WorkFacts) -> IdleTime:
    """The section `idle`; a billed utilisation holds it already."""
    if request.idle is UNSET:
        if work.performance is not None and not work.billed:
            record.note(advice.no_idle_hours())
        return IdleTime(SETUP_HOURS, SPARE_NODES)
    if work.billed:
        record.note(advice.billed_mfu_with("idle"))
    return IdleTime(
        record.pick("idle.setup_hours", request.idle.setup_hours, SETUP_HOURS, _NOT_SAID),
        record.pick("idle.spare_nodes", request.idle.spare_nodes, SPARE_NODES, _NOT_SAID),
    )


def energy_of(record: Record, request: EstimateRequest, work: WorkFacts) -> EnergyFacts | None:
    """The section `energy`; None where nobody asks for it."""
    if request.energy is UNSET:
        return None
    return _power(record, request, request.energy, work)


# ------------------------------------------------------------------------------------------- prices


def _bought(request: EstimateRequest, price: inputs.HourlyPrice) -> inputs.Purchase | None:
    """What the price is of: as said, else spot where the rework has it, else on demand unless that is another offer."""
    if price.purchase is not UNSET:
        return price.purchase
    if isinstance(request.rework, FailuresRework) and request.rework.spot is not UNSET:
        return "spot"
    asked = price.alternatives
    return "on_demand" if asked is UNSET or asked.on_demand is UNSET else None


def _offers(
    price: inputs.HourlyPrice, others: inputs.AlternativePrices, bought: inputs.Purchase | None
) -> dict[str, Money | UnsetType]:
    """Every offer that is known, the one that is bought among them; BrokenRule where that has two prices."""
    offers: dict[str, Money | UnsetType] = {name: getattr(others, name) for name in others.__struct_fields__}
    if bought is not None:
        if offers[bought] not in (UNSET, price.amount):
            raise BrokenRule.at(f"/price/alternatives/{bought}", "The price itself is of this kind, and another amount")
        offers[bought] = price.amount
    return offers


def _commitment(record: Record, price: CommitmentPrice, start_at: datetime.datetime | None) -> Pricing:
    currency = inputs.DEFAULT_CURRENCY if price.currency is UNSET else price.currency
    record.pick("price.currency", price.currency, currency, "the default")
    record.say("price.amount", str(written(price.amount, currency)), "given", "request")
    record.say("price.gpu_count", price.gpu_count, "given", "request")
    record.say("price.term_hours", price.term_hours, "given", "request")
    term = exact(price.term_hours)
    left = term
    if price.term_start is not UNSET:
        if start_at is None:
            raise BrokenRule.at("/price/term_start", "What is left of the term follows from start_at: give it too")
        elapsed = Decimal((start_at - price.term_start).total_seconds()) / 3600
        if elapsed < 0 or elapsed >= term:
            raise BrokenRule.at("/start_at", f"The run must start within the term of {term:f} h")
        left = term - elapsed
    record.say("price.term_left_hours", float(left), "derived", "of the term, when the run starts")
    return Pricing(
        rate=Ratio(price.amount),
        currency=currency,
        amount=price.amount,
        priced_per="gpu",
        commitment=Commitment(
            gpu_count=Decimal(price.gpu_count),
            term_hours=term,
            left_hours=left,
            rate=price.amount,
            upfront=_or_nothing(price.upfront),
            overflow_rate=None if price.overflow_amount is UNSET else price.overflow_amount,
            whole_term=price.attribution == "term",
        ),
    )


def _owned(record: Record, request: EstimateRequest, price: OwnedPrice, work: WorkFacts, gpu_count: int) -> Pricing:
    """The three figures of one GPU-hour: they grow with the hours, and nothing else of the run."""
    currency = inputs.DEFAULT_CURRENCY if price.currency is UNSET else price.currency
    record.pick("price.currency", price.currency, currency, "the default")
    record.say("price.capex", str(written(price.capex, currency)), "given", "request")
    owned = record.pick("price.gpu_count", price.gpu_count, gpu_count, "those of the run and its spares")
    record.pick("price.life_years", price.life_years, LIFE_YEARS, _USUAL)
    record.pick("price.utilisation_percent", price.utilisation_percent, UTILISATION_PERCENT, _USUAL)
    _say_standing(record, price, currency)
    if owned < gpu_count:
        told = f"The run takes {gpu_count} GPUs, spares included; no fewer can be owned"
        raise BrokenRule.at("/price/gpu_count", told)
    power = _power(record, request, Energy() if request.energy is UNSET else request.energy, work)
    kwh = charges.energy_kwh(1.0, power.tdp_watts, power.server_power_ratio, power.load_percent, power.pue)
    record.say("price.kwh_per_gpu_hour", float(kwh), "derived", "TDP x server x load x PUE")
    cluster = owned_cluster(price, owned)
    figures = charges.owned_figures(cluster, _ONE, exact(kwh) * price.energy_amount_per_kwh)
    billed = {"cash": figures.cash_increment, "book": figures.book, "loaded": figures.fully_loaded}[price.basis]
    return Pricing(
        rate=Ratio(billed),
        currency=currency,
        amount=billed,
        priced_per="gpu",
        owned=OwnedFacts(per_gpu_hour=figures, billed=price.basis),
    )


def owned_cluster(price: OwnedPrice, gpu_count: int) -> charges.OwnedCluster:
    """What was bought, in numbers; what nobody said of its yearly cost is left out."""
    capital = price.capital_percent_per_year
    return charges.OwnedCluster(
        capex=price.capex,
        gpu_count=Decimal(gpu_count),
        life_years=exact(or_usual(price.life_years, LIFE_YEARS)),
        capital_percent_per_year=_NOTHING if capital is UNSET else exact(capital),
        colocation_per_year=_or_nothing(price.colocation_per_year),
        support_per_year=_or_nothing(price.support_per_year),
        staff_per_year=_or_nothing(price.staff_per_year),
        utilisation_percent=exact(or_usual(price.utilisation_percent, UTILISATION_PERCENT)),
    )


def _say_standing(record: Record, price: OwnedPrice, currency: str) -> None:
    """What a year of it costs beside depreciation; what nobody said is unknown, and missing from the full figure."""
    missing = []
    for word in ("capital", "colocation", "support", "staff"):
        field = "capital_percent_per_year" if word == "capital" else f"{word}_per_year"
        given = getattr(price, field)
        if given is UNSET:
            missing.append(word)
            record.say(f"price.{field}", None, "default", "unknown: left out of the fully loaded figure")
        else:
            value = given if word == "capital" else str(written(given, currency))
            record.say(f"price.{field}", value, "given", "request")
    if missing:
        record.note(advice.not_fully_loaded(tuple(missing), is_billed=price.basis == "loaded"))


def _or_nothing(amount: Money | UnsetType) -> Decimal:
    return _NOTHING if amount is UNSET else amount


def _power(record: Record, request: EstimateRequest, energy: Energy, work: WorkFacts) -> EnergyFacts:
    """Power limit and server of the accelerator; BrokenRule where nobody knows the limit."""
    cluster = request.cluster
    tdp: float | None = None
    family: Family = "other"
    source = ""
    if work.chip is not None:
        tdp, family, source = work.chip.tdp_watts, work.chip.family, work.chip.source
    elif cluster is not UNSET and cluster.custom_gpu is not UNSET:
        tdp = None if cluster.custom_gpu.tdp_watts is UNSET else cluster.custom_gpu.tdp_watts
    elif cluster is not UNSET and cluster.gpu is not None:
        gpu = get_gpu(cluster.gpu)  # already looked up: the name is good
        tdp, family, source = gpu.tdp_watts, family_of(gpu.id), gpu.source
    if energy.tdp_watts is not UNSET:
        tdp, source = energy.tdp_watts, "request"
    elif cluster is not UNSET and cluster.custom_gpu is not UNSET:
        source = "request"
    if tdp is None:
        unknown = "No power limit of this accelerator is known: name one that the catalogue has, or give tdp_watts"
        raise BrokenRule.at("/energy/tdp_watts", unknown)
    told = Record() if any(said.field == "energy.tdp_watts" for said in record.assumptions) else record  # each once
    told.say("energy.tdp_watts", tdp, "given" if source == "request" else "catalogue", source)
    load = told.pick("energy.load_percent", energy.load_percent, LOAD_PERCENT, _USUAL)
    pue = told.pick("energy.pue", energy.pue, PUE, _USUAL)
    ratio = A100_SERVER_POWER_RATIO if family == "a100" else H100_SERVER_POWER_RATIO
    return EnergyFacts(
        tdp_watts=tdp,
        server_power_ratio=told.pick("energy.server_power_ratio", energy.server_power_ratio, ratio, _POWER_ASSUMED),
        load_percent=load,
        pue=pue,
        grams_per_kwh=None if energy.grams_per_kwh is UNSET else energy.grams_per_kwh,
    )


# ------------------------------------------------------------------------------------------- storage and egress


def _metered_storage(
    record: Record, section: MeteredStorage, work: WorkFacts, interval_hours: float | None, currency: str
) -> Kinds:
    price, kept = section.price_per_gb_month, []
    if price is not UNSET:
        record.say("storage.price_per_gb_month", str(unit_price(price, currency)), "given", "request")
        kept.append(
            Kept(
                component="storage",
                description="Data set in the object store",
                size_gb=exact(section.dataset_gb),
                price_per_gb_month=price,
                hours=None if section.dataset_hours is UNSET else exact(section.dataset_hours),
            )
        )
    if section.filesystem_gb:
        if section.filesystem_price_per_gb_month is UNSET:
            told = "The filesystem has a price of its own: give it"
            raise BrokenRule.at("/storage/filesystem_price_per_gb_month", told)
        kept.append(
            Kept(
                component="storage_filesystem",
                description="Shared filesystem for the run",
                size_gb=exact(section.filesystem_gb),
                price_per_gb_month=section.filesystem_price_per_gb_month,
            )
        )
    return Kinds(tuple(kept), _checkpoints(record, section, work, interval_hours, price), ())


def _checkpoints(
    record: Record, section: MeteredStorage, work: WorkFacts, interval_hours: float | None, price: Money | UnsetType
) -> KeptCheckpoints | None:
    asked = section.checkpoints
    if asked is UNSET:
        return None
    assert price is not UNSET  # asked for where there is anything in the object store; tables have been read by now
    keep = record.pick("storage.checkpoints.keep", asked.keep, CHECKPOINTS_KEPT, _USUAL)
    archived = record.pick("storage.checkpoints.archived", asked.archived, CHECKPOINTS_ARCHIVED, _USUAL)
    size = asked.size_gb
    if size is UNSET:
        if work.checkpoint_bytes is None:
            raise BrokenRule.at(
                "/storage/checkpoints/size_gb", "No model says how large a checkpoint is: give its size"
            )
        size = work.checkpoint_bytes / _GB
        record.say("storage.checkpoints.size_gb", size, "derived", "14 bytes a trained parameter, 12 in FP32")
    every = asked.every_hours
    if every is UNSET:
        if interval_hours is None:
            told = "No rework of kind failures says how often they are written: give it"
            raise BrokenRule.at("/storage/checkpoints/every_hours", told)
        every = interval_hours
    return KeptCheckpoints(
        size_gb=exact(size),
        every_hours=exact(every),
        keep=keep,
        archived=archived,
        price_per_gb_month=price,
    )


def _tiers(section: MeteredEgress, volume: Decimal) -> tuple[charges.Tier, ...]:
    """The tiers of a request; BrokenRule where they do not ascend, or end below what the month takes."""
    below = 0.0
    assert section.tiers is not UNSET  # tables have been read by now
    last = len(section.tiers) - 1
    for index, tier in enumerate(section.tiers):
        at = f"/egress/tiers/{index}/up_to_gb"
        if tier.up_to_gb is None and index < last:
            raise BrokenRule.at(at, "Only the last tier has no boundary")
        if tier.up_to_gb is not None and tier.up_to_gb <= below:
            raise BrokenRule.at(at, f"Tiers ascend: it must be more than {below:g}")
        below = tier.up_to_gb or below
    end = section.tiers[-1].up_to_gb
    if end is not None and exact(section.used_gb) + volume > exact(end):
        told = f"The month takes more than {end:g} GB: give the price beyond, in a tier without a boundary"
        raise BrokenRule.at(f"/egress/tiers/{last}/up_to_gb", told)
    return tuple(
        charges.Tier(None if tier.up_to_gb is None else exact(tier.up_to_gb), tier.price_per_gb)
        for tier in section.tiers
    )


def _fixed(component: Component, description: str, amount: Decimal) -> FixedCharge:
    return FixedCharge(
        component=component, description=description, quantity=_ONE, unit="run", unit_price=amount, amount=amount
    )
