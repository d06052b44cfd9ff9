"""What is billed beside an hourly price: storage, egress, commitments, owned machines, energy; and break-evens.

Generic over Decimal (a single estimate's money, exact up to its divisions), floats and NumPy arrays. Prices and tiers
come from the caller's price table: no price is written here.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import numpy as np
from msgspec import Struct

from service.estimator.cost import Number
from service.units import PERCENT

# A month of storage: 8,760 h / 12, as the object stores bill it.
HOURS_PER_MONTH = 730
# A year with its leap day, as Epoch AI's amortisation has it (Cottier et al. 2024, arXiv 2405.21015).
HOURS_PER_YEAR = 8766
WATTS_PER_KILOWATT = 1000
GRAMS_PER_TONNE = 1_000_000

# Epoch AI (epoch-research/training-cost-trends): accelerators lose 0.14 orders of magnitude of price a year, and the
# network is 19 % of a cluster's hardware.
PRICE_DECADES_PER_YEAR = 0.14
NETWORK_PERCENT = 19
# Server power by accelerator TDP, same source: 10.2 kW for 8 of 700 W, 6.5 kW for 8 of 400 W.
H100_SERVER_POWER_RATIO = 10.2 / 8 / 0.7
A100_SERVER_POWER_RATIO = 6.5 / 8 / 0.4
LOAD_PERCENT = 75  # mean draw by TDP, same source


OwnedBasis = Literal["cash", "book", "loaded"]


class Tier(Struct, frozen=True):
    """A price up to an absolute monthly boundary; the last tier has none."""

    up_to_gb: Decimal | None
    price_per_gb: Decimal


class TierCharge(Struct, frozen=True):
    """What one tier holds of a month's volume: a cost line's quantity, unit price and amount."""

    quantity_gb: Decimal
    price_per_gb: Decimal
    amount: Decimal


class OwnedCluster(Struct, frozen=True):
    """A cluster that was bought, and what each year of it costs."""

    capex: Number
    gpu_count: Number
    life_years: Number
    capital_percent_per_year: Number
    colocation_per_year: Number
    support_per_year: Number
    staff_per_year: Number
    utilisation_percent: Number


class OwnedFigures(Struct, frozen=True):
    """The three answers to what a run costs on it; each holds the one before."""

    cash_increment: Number
    book: Number
    fully_loaded: Number


def egress_gb(dataset_gb: Number, passes: Number, exported_gb: Number) -> Number:
    """What crosses the boundary: the data set as often as it is read across it (0 beside the data, 1 if cached, the
    epochs if streamed), and the checkpoints taken out."""
    return dataset_gb * passes + exported_gb


def tier_charges(volume_gb: Decimal, tiers: Sequence[Tier], used_gb: Decimal = Decimal(0)) -> tuple[TierCharge, ...]:
    """One month's volume by tier, after what the month already held; boundaries are absolute (AWS's price list)."""
    charges, below, end = [], Decimal(0), used_gb + volume_gb
    for tier in tiers:
        top = end if tier.up_to_gb is None else min(end, tier.up_to_gb)
        quantity = max(top - max(below, used_gb), Decimal(0))
        if quantity:
            charges.append(TierCharge(quantity, tier.price_per_gb, quantity * tier.price_per_gb))
        below = max(below, top)
    return tuple(charges)


def tiered_cost(volume_gb: Decimal, tiers: Sequence[Tier], used_gb: Decimal = Decimal(0)) -> Decimal:
    """The sum of one month's tiers."""
    return sum((charge.amount for charge in tier_charges(volume_gb, tiers, used_gb)), Decimal(0))


def gb_months(size_gb: Number, hours: Number) -> Number:
    """Something of one size, kept so long."""
    return size_gb * hours / HOURS_PER_MONTH


def checkpoint_gb_months(checkpoint_gb: Number, every_hours: Number, run_hours: Number, kept: int) -> Number:
    """Checkpoints of which the last `kept` stay: each lives until `kept` more are written, or the run is over.

    The sum over checkpoints 1..n of min(kept x every, run - i x every), in closed form.
    """
    written = run_hours // every_hours
    replaced = np.maximum(written - kept, written * 0)
    last = (written - replaced) * run_hours - every_hours * (written * (written + 1) - replaced * (replaced + 1)) / 2
    return checkpoint_gb * (replaced * kept * every_hours + last) / HOURS_PER_MONTH


def archive_gb_months(checkpoint_gb: Number, run_hours: Number, copies: Number) -> Number:
    """Checkpoints kept for good, `copies` of them evenly over the run, until its end: mean life (copies - 1)/2 of a
    part each."""
    return checkpoint_gb * run_hours * (copies - 1) / (2 * HOURS_PER_MONTH)


def term_gpu_hours(committed_gpu_count: Number, term_hours: Number) -> Number:
    """GPU-hours that a commitment bills, used or not."""
    return committed_gpu_count * term_hours


def term_cost(committed_gpu_count: Number, term_hours: Number, rate: Number, upfront: Number) -> Number:
    """What the whole term costs."""
    return committed_gpu_count * term_hours * rate + upfront


def used_gpu_hours(
    gpu_count: Number, committed_gpu_count: Number, run_hours: Number, term_left_hours: Number
) -> Number:
    """GPU-hours of a run that the commitment covers: up to its count, and until its end."""
    return np.minimum(gpu_count, committed_gpu_count) * np.minimum(run_hours, term_left_hours)


def overflow_gpu_hours(
    gpu_count: Number, committed_gpu_count: Number, run_hours: Number, term_left_hours: Number
) -> Number:
    """GPU-hours of a run that it does not: over its count, or after its end."""
    return gpu_count * run_hours - used_gpu_hours(gpu_count, committed_gpu_count, run_hours, term_left_hours)


def unused_gpu_hours(term_gpu_hours: Number, used_gpu_hours: Number) -> Number:
    """GPU-hours paid for and left idle, other runs apart."""
    return term_gpu_hours - used_gpu_hours


def used_cost(term_cost: Number, used_gpu_hours: Number, term_gpu_hours: Number) -> Number:
    """The run's part of the term, upfront payment included, by its GPU-hours."""
    return term_cost * used_gpu_hours / term_gpu_hours


def break_even_utilisation_percent(reserved_price: Number, on_demand_price: Number) -> Number:
    """A reservation is cheaper than on-demand from this use of it on."""
    return PERCENT * reserved_price / on_demand_price


def break_even_hours(term_cost: Number, committed_gpu_count: Number, on_demand_price: Number) -> Number:
    """The same in hours: a commitment is cheaper for runs longer than this on all of it."""
    return term_cost / (committed_gpu_count * on_demand_price)


def survivor_gpu_hours(spot_wait_hours: Number, node_count: Number, gpus_per_node: Number) -> Number:
    """GPU-hours billed while the run waits for one lost node."""
    return spot_wait_hours * (node_count - 1) * gpus_per_node


def fallback_gpu_hours(
    interruptions: Number, fallback_percent: Number, kept_hours: Number, gpus_per_node: Number
) -> Number:
    """GPU-hours that on-demand nodes stand in for spot ones, each kept so long: at least until capacity is back."""
    return interruptions * fallback_percent * kept_hours * gpus_per_node / PERCENT


def break_even_discount_percent(spot_expected_hours: Number, on_demand_expected_hours: Number) -> Number:
    """Spot is cheaper from this discount on: 1 - 1/(time on spot / time on demand)."""
    return PERCENT * (1 - on_demand_expected_hours / spot_expected_hours)


def energy_kwh(
    gpu_hours: Number, tdp_watts: Number, server_power_ratio: Number, load_percent: Number, pue: Number
) -> Number:
    """Energy at the meter: accelerators, their servers, the building (Epoch AI, Cottier et al. 2024)."""
    return gpu_hours * tdp_watts * server_power_ratio * load_percent * pue / (WATTS_PER_KILOWATT * PERCENT)


def emissions_tonnes(energy_kwh: Number, grams_per_kwh: Number) -> Number:
    """CO2e of that energy on this grid (Luccioni et al. 2022, arXiv 2211.02001)."""
    return energy_kwh * grams_per_kwh / GRAMS_PER_TONNE


def depreciation_per_year(price_decades_per_year: float = PRICE_DECADES_PER_YEAR) -> float:
    """Rate at which value is lost while prices fall by so many orders of magnitude a year: r ln 10 (Cottier 2024)."""
    return price_decades_per_year * math.log(10)


def falling_price_cost(capex_per_gpu: Number, gpu_hours: Number, depreciation_per_year: Number) -> Number:
    """Value that hardware loses in these hours while prices fall (Cottier et al. 2024)."""
    return capex_per_gpu * depreciation_per_year * gpu_hours / HOURS_PER_YEAR


def network_cost(hardware_cost: Number, network_percent: Number = NETWORK_PERCENT) -> Number:
    """The network, as its share of hardware and network together (Cottier et al. 2024)."""
    return hardware_cost * network_percent / (PERCENT - network_percent)


def straight_line_cost(capex: Number, gpu_hours: Number, gpu_count: Number, life_years: Number) -> Number:
    """Depreciation of these hours: equal parts over the life (straight line, IAS 16.62)."""
    return capex * gpu_hours / (gpu_count * life_years * HOURS_PER_YEAR)


def yearly_cost(amount_per_year: Number, gpu_hours: Number, gpu_count: Number) -> Number:
    """These hours' part of what a year of the whole cluster costs."""
    return amount_per_year * gpu_hours / (gpu_count * HOURS_PER_YEAR)


def capital_per_year(capex: Number, capital_percent_per_year: Number) -> Number:
    """Cost of the money in it: on the mean book value, half of what was paid under a straight line to zero."""
    return capex * capital_percent_per_year / (2 * PERCENT)


def owned_figures(cluster: OwnedCluster, gpu_hours: Number, energy_cost: Number) -> OwnedFigures:
    """Cash increment: energy, all that this run adds. Book: and depreciation of its hours. Fully loaded: depreciation,
    capital, colocation, support and staff of its hours and of the idle ones that go with them, and energy."""
    depreciation = straight_line_cost(cluster.capex, gpu_hours, cluster.gpu_count, cluster.life_years)
    running_per_year = (
        capital_per_year(cluster.capex, cluster.capital_percent_per_year)
        + cluster.colocation_per_year
        + cluster.support_per_year
        + cluster.staff_per_year
    )
    standing = depreciation + yearly_cost(running_per_year, gpu_hours, cluster.gpu_count)
    return OwnedFigures(
        cash_increment=energy_cost,
        book=energy_cost + depreciation,
        fully_loaded=energy_cost + standing * PERCENT / cluster.utilisation_percent,
    )
