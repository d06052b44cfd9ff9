"""What an estimate says of how its capacity is bought: a commitment's use, owned figures, energy, break-evens."""

from decimal import Decimal

from msgspec import Struct, structs

from service.errors import BrokenRule
from service.estimator import advice, bill, charges, risk_advice
from service.estimator.answers import BreakEven, CommitmentUse, EnergyUse, OwnedCost
from service.estimator.failures import FailureFacts
from service.estimator.plan import Plan
from service.estimator.results import Note
from service.estimator.timing import Hours, hours_of
from service.estimator.uncertainty import LARGEST_AMOUNT
from service.money import MAX_INTEGER_DIGITS, exact, number, to_minor_unit, unit_price
from service.units import PERCENT

# Of a term; from so much unused on it is said.
UNUSED_SHARE = 0.1


class EnergyFacts(Struct, frozen=True, kw_only=True):
    """What energy takes: a power limit, and what lies around it."""

    tdp_watts: float
    server_power_ratio: float
    load_percent: float
    pue: float
    grams_per_kwh: float | None


class OwnedFacts(Struct, frozen=True, kw_only=True):
    """The three figures of one GPU-hour, and which is billed."""

    per_gpu_hour: charges.OwnedFigures
    billed: charges.OwnedBasis


class Alternatives(Struct, frozen=True, kw_only=True):
    """Prices of a GPU-hour to compare; None where one is not known."""

    on_demand: Decimal | None
    spot: Decimal | None
    reserved: Decimal | None


def commitment_use(plan: Plan, hours: Hours, currency: str) -> CommitmentUse | None:
    """What of a commitment the run uses; BrokenRule where something lies beyond it and has no price."""
    held = plan.commitment
    if held is None:
        return None
    used, over = bill.used_and_over(plan, held, hours)
    term = charges.term_gpu_hours(held.gpu_count, held.term_hours)
    whole = charges.term_cost(held.gpu_count, held.term_hours, held.rate, held.upfront)
    unused = charges.unused_gpu_hours(term, used)
    if over and held.overflow_rate is None:
        told = (
            f"{number(over):,.6g} GPU-hours lie beyond the commitment of {held.gpu_count:f} GPUs for "
            f"{held.left_hours:f} h: give their price"
        )
        raise BrokenRule.at("/price/overflow_amount", told)
    rate = whole / term
    return CommitmentUse(
        term_gpu_hours=number(term),
        term_cost=_held(whole, currency, "The whole term"),
        used_gpu_hours=number(used),
        used_cost=to_minor_unit(charges.used_cost(whole, used, term), currency),
        unused_gpu_hours=number(unused),
        unused_cost=to_minor_unit(charges.used_cost(whole, unused, term), currency),
        overflow_gpu_hours=number(over),
        overflow_cost=(to_minor_unit(over, currency) if not over else None)
        if held.overflow_rate is None
        else _held(over * held.overflow_rate, currency, "What lies beyond the commitment"),
        run_ends_within_term=hours.expected <= held.left_hours,
        break_even_utilisation_percent=number(charges.break_even_utilisation_percent(rate, held.overflow_rate))
        if held.overflow_rate
        else None,
    )


def owned_cost(facts: OwnedFacts | None, gpu_hours: Decimal, currency: str) -> OwnedCost | None:
    """The three figures of hardware that was bought."""
    if facts is None:
        return None
    one = facts.per_gpu_hour
    return OwnedCost(
        cash_increment=to_minor_unit(one.cash_increment * gpu_hours, currency),
        book=to_minor_unit(one.book * gpu_hours, currency),
        fully_loaded=_held(one.fully_loaded * gpu_hours, currency, "The run, fully loaded,"),
        billed=facts.billed,
    )


def energy_use(facts: EnergyFacts | None, gpu_hours: Decimal) -> EnergyUse | None:
    """Energy at the meter and its emissions, for all that is billed."""
    if facts is None:
        return None
    kwh = charges.energy_kwh(float(gpu_hours), facts.tdp_watts, facts.server_power_ratio, facts.load_percent, facts.pue)
    return EnergyUse(
        energy_kwh=number(exact(kwh)),
        emissions_tonnes=None
        if facts.grams_per_kwh is None
        else number(exact(charges.emissions_tonnes(kwh, facts.grams_per_kwh))),
        tdp_watts=facts.tdp_watts,
        server_power_ratio=facts.server_power_ratio,
        load_percent=facts.load_percent,
        pue=facts.pue,
    )


def comparison_notes(
    plan: Plan,
    failures: FailureFacts | None,
    prices: Alternatives | None,
    compared: tuple[BreakEven, ...] | None,
    currency: str,
) -> tuple[Note, ...]:
    """What a comparison of prices assumes or lacks."""
    if prices is None:
        return ()
    if not prices.on_demand:
        return (risk_advice.no_on_demand_price(),)
    if prices.spot is None or (plan.failures is not None and plan.failures.on_spot):
        return ()
    if any(one.option == "spot_against_on_demand" for one in compared or ()):
        assert failures is not None  # they were compared by them
        usual = failures.on_usual_spot
        assert usual is not None
        return (risk_advice.spot_assumed(usual.spot_per_hour / usual.node_count, float(usual.spot_wait_hours)),)
    more = float(PERCENT * (prices.on_demand / prices.spot - 1)) if prices.spot else None
    shown = [f"{unit_price(price, currency):f} {currency}" for price in (prices.spot, prices.on_demand)]
    return (risk_advice.spot_unknown(shown[0], shown[1], more),)


def purchase_notes(use: CommitmentUse | None, compared: tuple[BreakEven, ...] | None) -> tuple[Note, ...]:
    """What to mind of how the capacity is bought, which shows only in the result."""
    notes = []
    if use is not None and use.unused_gpu_hours > UNUSED_SHARE * use.term_gpu_hours:
        notes.append(advice.commitment_unused(PERCENT * use.unused_gpu_hours / use.term_gpu_hours))
    if use is not None and use.overflow_gpu_hours > 0:
        notes.append(advice.commitment_exceeded(use.overflow_gpu_hours))
    notes += [
        advice.spot_dearer(one.threshold_percent, one.actual_percent)
        for one in compared or ()
        if one.option == "spot_against_on_demand" and one.cheaper is False and one.actual_percent is not None
    ]
    return tuple(notes)


def _held(amount: Decimal, currency: str, what: str) -> Decimal:
    """An amount beside the lines, rounded; BrokenRule where it is more than an amount of money holds."""
    if amount >= LARGEST_AMOUNT:
        told = f"{what} costs more than {MAX_INTEGER_DIGITS} integer digits hold"
        raise BrokenRule.at("/price", told)
    return to_minor_unit(amount, currency)


def break_evens(
    plan: Plan, failures: FailureFacts | None, prices: Alternatives | None, hours: Hours
) -> tuple[BreakEven, ...] | None:
    """One way to buy against another; None without prices to compare."""
    if prices is None or not prices.on_demand:
        return None
    found: list[BreakEven | None] = []
    spot = spot_plan(plan, failures)
    if prices.spot is not None and failures is not None and spot is not None:
        on_spot = hours if spot is plan else hours_of(spot)
        found.append(_spot_break_even(spot, failures, on_spot, prices.on_demand, prices.spot))
    if prices.reserved is not None:
        threshold = charges.break_even_utilisation_percent(prices.reserved, prices.on_demand)
        found.append(BreakEven("reserved_against_on_demand", number(threshold), None, None))
    return tuple(one for one in found if one is not None)


def spot_plan(plan: Plan, failures: FailureFacts | None) -> Plan | None:
    """The run on spot: as it is, else as if spot capacity were as usual; None where nothing is said of failures."""
    if plan.failures is None or failures is None:
        return None
    if plan.failures.on_spot:
        return plan
    return None if failures.on_usual_spot is None else structs.replace(plan, failures=failures.on_usual_spot)


def _spot_break_even(
    plan: Plan, failures: FailureFacts, hours: Hours, on_demand: Decimal, spot: Decimal
) -> BreakEven | None:
    """The discount that pays for the longer run: the same plan without interruptions and with its own best interval,
    against it, both by the GPU-hours that are billed. Those that fall back cost the same on either side of it; None
    if no others are left."""
    steady = without_spot(plan, failures)
    fallen, fallen_rate = Decimal(0), Decimal(0)
    if plan.fallback_rate is not None:
        fallen, fallen_rate = hours.fallback_gpu_hours, plan.rate.value + plan.fallback_rate
    on_spot = bill.billed_gpu_hours(plan, hours) - fallen
    if on_spot <= 0:
        return None
    for_the_rest = bill.billed_gpu_hours(steady, hours_of(steady)) - fallen * fallen_rate / on_demand
    threshold = charges.break_even_discount_percent(on_spot, for_the_rest)
    actual = (on_demand - spot) * PERCENT / on_demand
    return BreakEven("spot_against_on_demand", number(threshold), number(actual), bool(actual > threshold))


def without_spot(plan: Plan, failures: FailureFacts) -> Plan:
    """The plan of a run on spot without interruptions, and with its own best interval."""
    assert plan.failures is not None  # on spot it has some
    steady = structs.replace(
        plan.failures, spot_per_hour=0.0, on_spot=False, interval_hours=failures.interval_without_spot_hours
    )
    return structs.replace(plan, failures=steady, fallback_rate=None)
