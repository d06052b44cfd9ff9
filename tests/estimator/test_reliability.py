"""Failure formulas against the papers' own figures, an event simulation, and what must always hold."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator import reliability as rel
from service.estimator.charges import break_even_discount_percent, fallback_gpu_hours, survivor_gpu_hours
from service.estimator.rework import Stops, hours_by_cause, joint_stops

MINUTES = 60.0
EXACT = 1e-9

rates = st.floats(1e-5, 0.5)
checkpoints = st.floats(1e-4, 0.3)
restarts = st.floats(0.0, 1.0)
works = st.floats(1.0, 10_000.0)
intervals = st.floats(0.05, 5.0)


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=EXACT)


def best_hours(work: float, checkpoint: float, restart: float, rate: float) -> float:
    """Mean completion time at the best interval."""
    mttf = rel.job_mttf_hours(rate)
    interval = rel.optimal_interval_hours(checkpoint, mttf)
    return float(rel.expected_hours(work, interval, checkpoint, restart, mttf))


# Kokolis et al. 2024 (arXiv 2410.21680): "1.8 h" at 16,384 GPUs and ".23 h" at 131,072 on RSC-1.
@pytest.mark.parametrize(
    ("nodes", "per_node_day", "hours"),
    [
        (2048, 6.50e-3, 1.8028846153846154),
        (16384, 6.50e-3, 0.22536057692307693),
        (128, 6.50e-3, 28.846153846153847),
        (2048, 2.34e-3, 5.00801282051282),
        (2048, 419 / (54 * 2048), 3.0930787589498805),  # Llama 3 (arXiv 2407.21783), unexpected only
        (2048, 466 / (54 * 2048), 2.781115879828326),  # Llama 3, planned ones too
    ],
)
def test_mean_time_to_failure(nodes: int, per_node_day: float, hours: float) -> None:
    assert rel.job_mttf_hours(rel.hardware_failures_per_hour(nodes, per_node_day)) == exactly(hours)


def test_rate_by_mtbf_is_the_rate_by_node_days() -> None:
    by_mtbf = rel.mtbf_failures_per_hour(128, 24 / 6.50e-3)
    assert by_mtbf == exactly(rel.hardware_failures_per_hour(128, 6.50e-3))


def test_software_rate_is_one_in_72_hours_at_128_nodes() -> None:
    assert rel.software_failures_per_hour(128) == exactly(1 / 72)


def test_burn_in_weighs_the_first_month_threefold() -> None:
    assert rel.burn_in_factor(720.0) == exactly(3.0)
    assert rel.burn_in_factor(1440.0) == exactly(2.0)


def test_nothing_fails_without_a_rate() -> None:
    mttf = rel.job_mttf_hours(0.0)
    assert mttf == math.inf
    assert rel.expected_hours(100.0, 1.0, 0.1, 0.5, mttf) == exactly(110.0)
    assert rel.optimal_interval_hours(0.1, mttf) == math.inf
    assert rel.clamped_interval_hours(math.inf, 0.01, 100.0) == 100.0


# Daly 2006 (FGCS 22:303): delta 5 min, M 24 h / 6 h / 15 min; his figures are "117/57/9.1 min".
@pytest.mark.parametrize(
    ("mttf_minutes", "young", "daly", "best", "hours"),
    [
        (1440, 120.0, 116.6898148148148, 116.69007332665845, 547.8817824570364),
        (360, 60.0, 56.712962962962955, 56.714001998766356, 610.2164068350069),
        (15, 12.24744871391589, 9.140919986395813, 9.166502820935701, 2504.1651180554004),
    ],
)
def test_daly_table(mttf_minutes: float, young: float, daly: float, best: float, hours: float) -> None:
    delta, mttf = 5 / MINUTES, mttf_minutes / MINUTES
    assert rel.young_interval_hours(delta, mttf) * MINUTES == exactly(young)
    assert rel.daly_interval_hours(delta, mttf) * MINUTES == exactly(daly)
    assert rel.optimal_interval_hours(delta, mttf) * MINUTES == exactly(best)
    assert rel.expected_hours(500.0, daly / MINUTES, delta, 10 / MINUTES, mttf) == exactly(hours)


def test_daly_interval_is_the_mttf_where_checkpoints_take_twice_as_long() -> None:
    assert rel.daly_interval_hours(3.0, 1.0) == 1.0


# W, tau, delta, R, M; exact mean, first order, restart that cannot fail.
CASES = {
    "A": (1200.0, 0.25, 20 / 3600, 10 / 60, 2.781, 1364.147199507602, 1371.9218910585814, 1361.7931339451382),
    "B": (720.0, 1.0, 2 / 60, 20 / 60, 28.846153846153847, 766.2903683861646, 766.5888171452124, 766.2395991105758),
    "C": (240.0, 1.0, 2 / 60, 20 / 60, 24 / 0.052, 248.4572060595037, 248.45757603586608, 248.45714129244155),
    "D": (200.0, 0.5, 1 / 60, 15 / 60, 4.0, 234.8355762916311, 236.75417661097853, 234.39558348054442),
    "E": (2544.0, 3.0, 40 / 3600, 1.0, 112.0, 2611.267290862816, 2611.8520472880414, 2611.1638240280085),
    "F": (499.958, 9.14 / 60, 5 / 60, 10 / 60, 0.25, 2503.955205987047, math.inf, 2142.622446740884),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_means(case: tuple[float, ...]) -> None:
    *run, mean, first_order, restart_safe = case
    assert rel.expected_hours(*run) == exactly(mean)
    assert rel.first_order_expected_hours(*run) == exactly(first_order)
    assert rel.restart_safe_expected_hours(*run) == exactly(restart_safe)


@pytest.mark.parametrize(("case", "percent"), [("A", 13.7), ("B", 6.43), ("D", 17.4)])
def test_equivalent_rework_percent(case: str, percent: float) -> None:
    work, mean = CASES[case][0], CASES[case][5]
    assert rel.equivalent_rework_percent(work, mean) == pytest.approx(percent, abs=0.05)


# Llama 3 (arXiv 2407.21783, 3.3.4): over 90 % effective training time.
@pytest.mark.parametrize(
    ("checkpoint_seconds", "restart_minutes", "ratio"),
    [
        (20, 5, 0.910424305796688),
        (20, 10, 0.8835490156581742),
        (20, 15, 0.8574670712326766),
        (60, 10, 0.8424497034369268),
    ],
)
def test_llama_3_effective_time(checkpoint_seconds: float, restart_minutes: float, ratio: float) -> None:
    work = 54 * 24 * 0.9
    hours = best_hours(work, checkpoint_seconds / 3600, restart_minutes / 60, 466 / (54 * 24))
    assert rel.effective_time_ratio(work, hours) == exactly(ratio)


@pytest.mark.parametrize(
    ("nodes", "per_node_day", "interval_minutes", "startup_minutes", "ratio"),
    [
        (256, 6.50e-3, 60, 5, 0.9595555555555556),
        (512, 6.50e-3, 60, 5, 0.9191111111111111),
        (12500, 2.34e-3, 2, 2, 0.9390625),
    ],
)
def test_kokolis_effective_time(
    nodes: int, per_node_day: float, interval_minutes: float, startup_minutes: float, ratio: float
) -> None:
    rate = rel.hardware_failures_per_hour(nodes, per_node_day)
    ours = rel.kokolis_effective_time_ratio(rate, startup_minutes / 60, interval_minutes / 60, 0.0)
    assert ours == exactly(ratio)


# Published effective time: Llama 3 over .90 (3.3.4); OPT-175B 33 of 56 days, which is .59, with loss spikes, roll-backs
# and the deletion of a cluster (metaseq chronicles); BLOOM .90, with evaluation and hangs.
@pytest.mark.parametrize(
    ("preset", "nodes", "low", "high"),
    [("hyperscale_automated", 2048, 0.90, 0.93), ("no_spares", 124, 0.59, 0.70), ("on_call", 48, 0.90, 0.99)],
)
def test_presets_give_what_was_published(preset: str, nodes: int, low: float, high: float) -> None:
    facts = rel.PRESETS[preset]
    rate = rel.hardware_failures_per_hour(nodes, facts.failures_per_node_day + facts.software_failures_per_node_day)
    hours = best_hours(1000.0, facts.checkpoint_seconds / 3600, facts.restart_hours, rate)
    assert low < rel.effective_time_ratio(1000.0, hours) < high


def test_checkpoint_seconds_are_bytes_by_bandwidth() -> None:
    # BLOOM (bigscience tr11-176B chronicles): 2.3 TB in 40 s.
    assert rel.checkpoint_seconds(2.3e12, 57.5e9) == exactly(40.0)


# 240 h, delta 2 min, restarts 20 min (hardware, RSC-1) and 15 min (spot); each side at its best interval.
@pytest.mark.parametrize(
    ("hazard", "nodes", "ratio", "percent"),
    [
        (0.005, 1, 1.0159274343498605, 1.5677728360641519),
        (0.005, 8, 1.0527965175591236, 5.014883377609447),
        (0.01, 1, 1.0248329492210655, 2.423121664846939),
        (0.01, 8, 1.0864263377996546, 7.955103332149916),
        (0.05, 1, 1.068977926417523, 6.452698854941696),
        (0.05, 8, 1.2921293478199716, 22.608367212836733),
        (0.1, 1, 1.109198214157965, 9.844788132918303),
        (0.1, 8, 1.534918405466654, 34.849957076645076),
        (0.44, 1, 1.3259180396495354, 24.580557010573713),
        (0.44, 8, 4.035118949992632, 75.21758311482178),
    ],
)
def test_spot_break_even(hazard: float, nodes: int, ratio: float, percent: float) -> None:
    hardware = Stops(rel.hardware_failures_per_hour(nodes, 6.50e-3), 20 / 60)
    both = joint_stops(hardware, Stops(rel.spot_interruptions_per_hour(nodes, hazard), 15 / 60))
    spot = best_hours(240.0, 2 / 60, both.restart_hours, both.per_hour)
    on_demand = best_hours(240.0, 2 / 60, hardware.restart_hours, hardware.per_hour)
    assert spot / on_demand == exactly(ratio)
    assert break_even_discount_percent(spot, on_demand) == exactly(percent)


def test_waiting_survivors_and_fallback_by_hand() -> None:
    # 8 spot nodes, 0.2 an hour each: 1.6 an hour. One hour's wait, 40 % fall back: 0.6 h each on average.
    spot = Stops(rel.spot_interruptions_per_hour(8, 0.2), 0.25, rel.spot_wait_hours(1.0, 40.0))
    hours = hours_by_cause(10.0, 0.5, 0.02, Stops(0.0, 0.3), spot)
    mttf = 1 / 1.6
    running = 10.0 / 0.5 * mttf * math.exp(0.25 / mttf) * (math.exp(0.52 / mttf) - 1)
    assert hours.spot_interruptions == exactly(1.6 * running)
    assert hours.spot_wait == exactly(0.6 * 1.6 * running)
    assert hours.spot == exactly(running - 10.0 - 0.4)
    assert hours.hardware == 0
    assert survivor_gpu_hours(hours.spot_wait, 8, 8) == exactly(hours.spot_wait * 56)
    assert fallback_gpu_hours(hours.spot_interruptions, 40.0, 1.0, 8) == exactly(0.4 * 1.6 * running * 8)


def event_simulation(
    work: float, interval: float, checkpoint: float, hardware: Stops, spot: Stops, runs: int
) -> tuple[float, float, float]:
    """Mean hours, hardware failures and interruptions of runs that are played through, event by event."""
    draws = np.random.default_rng(7)
    total, failures, interruptions = 0.0, 0, 0
    rate = hardware.per_hour + spot.per_hour
    for _ in range(runs):
        clock = waited = done = 0.0
        next_stop = draws.exponential(1 / rate)
        while done < work - 1e-9:
            end = clock + interval + checkpoint
            if next_stop >= end:
                clock, done = end, done + interval
                continue
            up = False
            while not up:
                clock = next_stop
                by_spot = draws.random() < spot.per_hour / rate
                interruptions, failures = interruptions + by_spot, failures + (not by_spot)
                waited += spot.wait_hours if by_spot else 0.0
                next_stop = clock + draws.exponential(1 / rate)
                ready = clock + (spot if by_spot else hardware).restart_hours
                up = next_stop >= ready
            clock = ready
        total += clock + waited
    return total / runs, failures / runs, interruptions / runs


def test_causes_agree_with_an_event_simulation() -> None:
    hardware, spot = Stops(0.05, 0.3), Stops(0.15, 0.25, 0.4)
    hours = hours_by_cause(100.0, 0.5, 1 / 60, hardware, spot)
    mean, failures, interruptions = event_simulation(100.0, 0.5, 1 / 60, hardware, spot, 4000)
    assert hours.expected == pytest.approx(mean, rel=0.002)
    assert hours.hardware_failures == pytest.approx(failures, rel=0.02)
    assert hours.spot_interruptions == pytest.approx(interruptions, rel=0.02)


@given(works, intervals, checkpoints, restarts, rates, rates, st.floats(0, 20), st.floats(0, 20))
def test_causes_sum_to_the_whole(
    work: float,
    interval: float,
    checkpoint: float,
    restart: float,
    rate: float,
    spot_rate: float,
    instability: float,
    people: float,
) -> None:
    hardware, spot = Stops(rate / 10, restart), Stops(spot_rate / 10, restart / 2, 0.5)
    hours = hours_by_cause(work, interval, checkpoint, hardware, spot, instability, people)
    both = joint_stops(hardware, spot)
    run = work * (1 + (instability + people) / 100)
    whole = rel.expected_hours(run, interval, checkpoint, both.restart_hours, rel.job_mttf_hours(both.per_hour))
    assert hours.expected == exactly(whole + both.wait_hours * both.per_hour * whole)
    parts = (hours.checkpoints, hours.hardware, hours.spot, hours.spot_wait, hours.instability, hours.people)
    assert min(parts) >= 0
    assert hours.expected == exactly(math.fsum((hours.work, *parts)))


@given(works, intervals, checkpoints, restarts, rates)
def test_no_run_is_shorter_than_its_work(
    work: float, interval: float, checkpoint: float, restart: float, rate: float
) -> None:
    run = (work, interval, checkpoint, restart, rel.job_mttf_hours(rate))
    assert rel.expected_hours(*run) >= work * (1 + checkpoint / interval) * (1 - EXACT)
    assert rel.expected_hours(*run) >= rel.restart_safe_expected_hours(*run) * (1 - EXACT)


@given(works, intervals, checkpoints, restarts, rates)
def test_twice_the_rate_is_never_shorter(
    work: float, interval: float, checkpoint: float, restart: float, rate: float
) -> None:
    once, twice = (rel.expected_hours(work, interval, checkpoint, restart, 1 / r) for r in (rate, 2 * rate))
    assert twice >= once
    assert best_hours(work, checkpoint, restart, 2 * rate) >= best_hours(work, checkpoint, restart, rate) * (1 - EXACT)


@given(works, checkpoints, restarts, rates, st.sampled_from(["nodes", "restart", "checkpoint"]), st.floats(1.01, 4.0))
def test_effective_time_falls_with_nodes_restart_and_checkpoint(
    work: float, checkpoint: float, restart: float, rate: float, grown: str, factor: float
) -> None:
    more = {"checkpoint": checkpoint, "restart": restart, "nodes": rate}
    more[grown] *= factor
    now = work / best_hours(work, checkpoint, restart, rate)
    then = work / best_hours(work, more["checkpoint"], more["restart"], more["nodes"])
    assert then <= now * (1 + 1e-12)


@given(checkpoints, rates, st.floats(0.2, 5.0))
def test_the_optimal_interval_is_a_minimum(checkpoint: float, rate: float, factor: float) -> None:
    mttf = 1 / rate
    best = rel.optimal_interval_hours(checkpoint, mttf)
    assert 0 < best < mttf
    least = rel.expected_hours(1.0, best, checkpoint, 0.1, mttf)
    assert least <= rel.expected_hours(1.0, best * factor, checkpoint, 0.1, mttf) * (1 + 1e-12)
    # The derivative is zero there: (1 - u) e^u = e^-d for u = tau/M.
    u = best / mttf
    assert (1 - u) * math.exp(u) == exactly(math.exp(-checkpoint / mttf))


@given(st.floats(0.001, 100.0), st.floats(0.0001, 1.0), st.floats(1.0, 1000.0))
def test_clamped_interval_is_whole_steps(interval: float, step: float, work: float) -> None:
    clamped = rel.clamped_interval_hours(interval, step, work)
    assert clamped <= work
    if clamped != work:
        assert clamped == exactly(round(clamped / step) * step)
        assert clamped >= step


def test_a_hopeless_run_has_finite_figures() -> None:
    hours = hours_by_cause(100.0, 10.0, 0.1, Stops(0.0, 1.0), Stops(1000.0, 1.0))
    assert 1e40 < hours.expected < math.inf
    assert hours.hardware == 0.0


def test_arrays_give_what_floats_give() -> None:
    rate = np.array([0.0, 0.01, 0.3])
    mttf = rel.job_mttf_hours(rate)
    interval = np.minimum(rel.optimal_interval_hours(0.02, mttf), 100.0)
    both = hours_by_cause(100.0, interval, 0.02, Stops(rate, 0.2), Stops(rate / 2, 0.1), 1.0, 2.0)
    for index, single in enumerate(rate):
        alone = hours_by_cause(
            100.0, interval[index], 0.02, Stops(float(single), 0.2), Stops(float(single) / 2, 0.1), 1.0, 2.0
        )
        assert both.expected[index] == exactly(alone.expected)
