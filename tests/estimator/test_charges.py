"""Storage, egress, commitments, owned machines and energy, each against figures worked by hand or published."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator import charges
from service.estimator.charges import OwnedCluster, Tier, tiered_cost
from service.money import exact, exact_arithmetic

# AWS's internet egress, list of 2026: 100 GB free, then to 10, 50 and 150 TB of 1,024 GB a month, then beyond.
INTERNET = (
    Tier(Decimal(100), Decimal(0)),
    Tier(Decimal(10_240), Decimal("0.09")),
    Tier(Decimal(51_200), Decimal("0.085")),
    Tier(Decimal(153_600), Decimal("0.07")),
    Tier(None, Decimal("0.05")),
)

volumes = st.decimals(0, 2_000_000, places=3)


@pytest.mark.parametrize(
    ("volume", "amount"),
    [(0, "0"), (100, "0"), (101, "0.09"), (10_000, "891.00"), (100_000, "7810.20"), (1_000_000, "53882.20")],
)
def test_egress_by_tier(volume: int, amount: str) -> None:
    assert tiered_cost(Decimal(volume), INTERNET) == Decimal(amount)


def test_egress_between_regions() -> None:
    assert tiered_cost(Decimal(100_000), (Tier(None, Decimal("0.02")),)) == Decimal("2000.00")


def test_a_month_in_parts_costs_what_it_costs_at_once() -> None:
    first, second = Decimal("30000.5"), Decimal("69999.5")
    parts = tiered_cost(first, INTERNET) + tiered_cost(second, INTERNET, used_gb=first)
    assert parts == tiered_cost(first + second, INTERNET) == Decimal("7810.20")


@given(volumes, volumes)
def test_tiers_hold_the_whole_volume_and_more_never_costs_less(volume: Decimal, more: Decimal) -> None:
    lines = charges.tier_charges(volume, INTERNET, used_gb=more)
    assert sum(line.quantity_gb for line in lines) == volume
    assert sum(line.amount for line in lines) == tiered_cost(volume, INTERNET, more)
    assert tiered_cost(volume + more, INTERNET) >= tiered_cost(volume, INTERNET)
    assert tiered_cost(volume + more, INTERNET) == tiered_cost(more, INTERNET) + tiered_cost(volume, INTERNET, more)


def test_egress_volume() -> None:
    assert charges.egress_gb(Decimal(20_000), 3, Decimal(2_300)) == Decimal(62_300)


def test_rolling_checkpoints() -> None:
    # 2,300 GB (BLOOM) every 3 h for 720 h, the last 3 kept: 237 live 9 h, the last three 6, 3 and 0 h.
    with exact_arithmetic():
        volume = charges.checkpoint_gb_months(Decimal(2_300), Decimal(3), Decimal(720), 3)
        assert volume == Decimal(2_300 * (237 * 9 + 9)) / 730
    assert float(volume) == pytest.approx(6748.767123287671, rel=1e-9)
    assert charges.checkpoint_gb_months(2300.0, 3.0, 720.0, 3) == pytest.approx(6748.767123287671, rel=1e-9)


@given(st.integers(1, 50), st.integers(0, 2_000), st.integers(1, 40))
def test_rolling_checkpoints_by_counting(every: int, run: int, kept: int) -> None:
    lives = [min(run - at, kept * every) for at in range(every, run + 1, every)]
    assert charges.checkpoint_gb_months(Decimal(730), Decimal(every), Decimal(run), kept) == sum(lives)
    both = charges.checkpoint_gb_months(730.0, float(every), np.array([float(run), 0.0]), kept)
    assert list(both) == [sum(lives), 0]


def test_archived_checkpoints() -> None:
    # Ten copies over 1,460 h, the last at its end: 9 + 8 + ... + 0 tenths of two months.
    assert charges.archive_gb_months(Decimal(100), Decimal(1_460), 10) == Decimal(900)
    assert charges.gb_months(Decimal(100), Decimal(730)) == 100


def test_commitment_by_hand() -> None:
    # 512 GPUs for 80 days on 544 GPUs committed for 90 days at $2.50.
    term_hours = charges.term_gpu_hours(544, Decimal(2_160))
    term = charges.term_cost(544, Decimal(2_160), Decimal("2.50"), Decimal(0))
    used = charges.used_gpu_hours(512, 544, Decimal(1_920), Decimal(2_160))
    assert (term_hours, term, used) == (Decimal(1_175_040), Decimal("2937600.00"), Decimal(983_040))
    with exact_arithmetic():
        assert charges.used_cost(term, used, term_hours) == Decimal("2457600.00")
    assert charges.unused_gpu_hours(term_hours, used) == Decimal(192_000)
    assert charges.overflow_gpu_hours(512, 544, Decimal(1_920), Decimal(2_160)) == 0


def test_a_run_past_the_term_overflows() -> None:
    # 100 days: 10 of them after the term. And 600 GPUs: 56 of them over the count.
    assert charges.overflow_gpu_hours(512, 544, Decimal(2_400), Decimal(2_160)) == Decimal(512 * 240)
    assert charges.overflow_gpu_hours(600, 544, Decimal(2_400), Decimal(2_160)) == Decimal(56 * 2_160 + 600 * 240)


def test_upfront_is_part_of_the_used_cost() -> None:
    term = charges.term_cost(8, Decimal(1_000), Decimal(2), Decimal(4_000))
    assert charges.used_cost(term, Decimal(4_000), charges.term_gpu_hours(8, Decimal(1_000))) == Decimal(10_000)


@given(st.integers(1, 2_000), st.integers(1, 2_000), volumes, st.integers(1, 30_000))
def test_every_gpu_hour_of_a_run_is_either_used_or_overflow(
    count: int, committed: int, hours: Decimal, left: int
) -> None:
    used = charges.used_gpu_hours(count, committed, hours, Decimal(left))
    overflow = charges.overflow_gpu_hours(count, committed, hours, Decimal(left))
    assert used + overflow == count * hours
    assert overflow >= 0
    assert 0 <= used <= charges.term_gpu_hours(committed, Decimal(left))
    both = charges.used_gpu_hours(count, committed, np.array([float(hours)]), float(left))
    assert both == pytest.approx([float(used)])


# AWS p4d in 2021: 4.10 on demand, 2.40 for one year, 1.45 for three (epoch-research/training-cost-trends@263c40a).
@pytest.mark.parametrize(("reserved", "percent"), [("2.40", 58.53658536585367), ("1.45", 35.36585365853659)])
def test_reserved_break_even(reserved: str, percent: float) -> None:
    assert float(charges.break_even_utilisation_percent(Decimal(reserved), Decimal("4.10"))) == pytest.approx(
        percent, rel=1e-9
    )


def test_commitment_break_even_hours() -> None:
    assert charges.break_even_hours(Decimal(2_937_600), 544, Decimal("5.00")) == Decimal(1_080)


def test_bloom_emissions() -> None:
    # Luccioni et al. 2022 (arXiv 2211.02001): 1,082,990 GPU-hours at 400 W, 57 g/kWh, 24.7 t.
    energy = charges.energy_kwh(Decimal(1_082_990), 400, 1, 100, 1)
    assert energy == Decimal(433_196)
    assert charges.emissions_tonnes(energy, 57) == Decimal("24.692172")


def test_llama_2_emissions_imply_their_grid() -> None:
    # Llama 2 model card: 1,720,320 A100-hours at 400 W, 291.42 t.
    energy = charges.energy_kwh(1_720_320.0, 400, 1, 100, 1)
    assert charges.emissions_tonnes(energy, 423.49679129464283) == pytest.approx(291.42, rel=1e-9)


# Epoch AI (Cottier et al. 2024, arXiv 2405.21015, cost_analysis_standalone.py): price by chip, chip-hours, $/kWh.
@pytest.mark.parametrize(
    ("price", "hours", "kwh_price", "hardware", "network", "energy"),
    [
        (33_750.0, 1.0, 0.0826, 1.2411264618294395, 0.2911284293180167, 0.08688487500000001),
        (44_489.88, 30.84e6, 0.0771, 50456585.98885476, 11835495.478867166, 2501110.5075000003),
    ],
)
def test_epoch_amortisation(
    price: float, hours: float, kwh_price: float, hardware: float, network: float, energy: float
) -> None:
    assert charges.depreciation_per_year() == pytest.approx(0.32236191301916645, rel=1e-9)
    ours = charges.falling_price_cost(price, hours, charges.depreciation_per_year())
    kwh = charges.energy_kwh(hours, 700, charges.H100_SERVER_POWER_RATIO, charges.LOAD_PERCENT, 1.1)
    assert ours == pytest.approx(hardware, rel=1e-9)
    assert charges.network_cost(ours) == pytest.approx(network, rel=1e-9)
    assert kwh * kwh_price == pytest.approx(energy, rel=1e-9)
    assert ours + charges.network_cost(ours) + kwh * kwh_price == pytest.approx(hardware + network + energy, rel=1e-9)


def test_server_power_ratios() -> None:
    assert pytest.approx(1.821, abs=5e-4) == charges.H100_SERVER_POWER_RATIO
    assert pytest.approx(2.031, abs=5e-4) == charges.A100_SERVER_POWER_RATIO


def a_cluster(**changed: object) -> OwnedCluster:
    facts: dict[str, object] = {
        "capex": Decimal(20_480_000),
        "gpu_count": 512,
        "life_years": Decimal(4),
        "capital_percent_per_year": Decimal(8),
        "colocation_per_year": Decimal(1_000_000),
        "support_per_year": Decimal(600_000),
        "staff_per_year": Decimal(400_000),
        "utilisation_percent": Decimal(80),
    }
    return OwnedCluster(**{**facts, **changed})


def test_owned_figures_by_hand() -> None:
    # A tenth of a year of 512 GPUs: depreciation 512,000; capital 4 % of 20.48 M a year; 2 M a year of the rest.
    with exact_arithmetic():
        figures = charges.owned_figures(a_cluster(), Decimal(512) * Decimal("876.6"), Decimal(50_000))
    assert figures.cash_increment == Decimal(50_000)
    assert figures.book == Decimal(562_000)
    assert figures.fully_loaded == Decimal(50_000) + (Decimal(512_000) + Decimal(281_920)) / Decimal("0.8")


@given(volumes, st.floats(1, 100), st.decimals(0, 30, places=2))
def test_owned_figures_are_in_order(gpu_hours: Decimal, utilisation: float, capital: Decimal) -> None:
    cluster = a_cluster(utilisation_percent=exact(utilisation), capital_percent_per_year=capital)
    with exact_arithmetic():
        figures = charges.owned_figures(cluster, gpu_hours, gpu_hours / 10)
    assert figures.cash_increment <= figures.book <= figures.fully_loaded
