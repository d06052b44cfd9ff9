"""Completion times against a simulation, Gamma quantiles against tables, draws against their definition."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator import distribution as dist
from service.estimator import reliability as rel
from service.estimator.distribution import Completion, completion

EXACT = 1e-9

# W, tau, delta, R, M; standard deviation; P50, P80, P90, P95 (estimation reference, section 3.5; Gamma by SciPy 1.17).
# The deviation of C is to 50 digits: subtracting in double precision, as the reference does, is 4e-9 below it.
CASES = {
    "A": (
        (1200.0, 0.25, 20 / 3600, 10 / 60, 2.781),
        6.901818670561812,
        (1364.031721388146, 1369.9196812206542, 1373.0631059269613, 1375.69322407347),
    ),
    "B": (
        (720.0, 1.0, 2 / 60, 20 / 60, 28.846153846153847),
        4.6860501960687175,
        (765.9628633411601, 770.1084769720029, 772.467033020199, 774.516430507667),
    ),
    "C": (
        (240.0, 1.0, 2 / 60, 20 / 60, 24 / 0.052),
        0.661319671625413,
        (248.19963544650216, 248.7492120199378, 249.2484513670482, 249.7846967442899),
    ),
    "D": (
        (200.0, 0.5, 1 / 60, 15 / 60, 4.0),
        4.203966986825025,
        (234.62671929391334, 238.29910680341678, 240.33959965779516, 242.08839906741687),
    ),
    "E": (
        (2544.0, 3.0, 40 / 3600, 1.0, 112.0),
        12.894833722920566,
        (2610.3119909533966, 2621.7476700122575, 2628.285343493237, 2633.981852204689),
    ),
    "F": (
        (499.958, 9.14 / 60, 5 / 60, 10 / 60, 0.25),
        39.75904763467316,
        (2503.6507207780705, 2537.3253701458116, 2555.1000703474438, 2569.8682159026603),
    ),
}


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=EXACT)


@pytest.mark.parametrize(("run", "deviation", "quantiles"), CASES.values(), ids=CASES)
def test_moments_and_quantiles(run: tuple[float, ...], deviation: float, quantiles: tuple[float, ...]) -> None:
    times = completion(*run)
    assert times.mean_hours == exactly(float(rel.expected_hours(*run)))
    assert math.sqrt(times.variance_hours2) == exactly(deviation)
    for percent, hours in zip((50, 80, 90, 95), quantiles, strict=True):
        assert dist.quantile_hours(percent, times) == exactly(hours)


# The planning example of the reference (section 7): a = 1e6 GPU-hours, b = 20 h, 5 per 1,000 node-days, 1 and 15 min.
@pytest.mark.parametrize(
    ("gpus", "work", "interval", "mean", "p90", "cost"),
    [
        (512, 1973.125, 1.5700472941467258, 2022.0424204062815, 2029.884522504026, 2588214.2981200404),
        (1024, 996.5625, 1.1069505933585508, 1033.7431818904033, 1039.838248045729, 2646382.5456394325),
        (2048, 508.28125, 0.7794975644467745, 537.4471135508525, 542.3496269167887, 2751729.2213803646),
        (4096, 264.140625, 0.5479615353868181, 288.1194948243345, 292.2474700653586, 2950343.627001185),
        (8192, 142.0703125, 0.38425255977900546, 163.2340175713115, 166.93134860923408, 3343032.6798604596),
    ],
)
def test_planning_table(gpus: int, work: float, interval: float, mean: float, p90: float, cost: float) -> None:
    mttf = rel.job_mttf_hours(rel.hardware_failures_per_hour(gpus / 8, 5e-3))
    best = rel.optimal_interval_hours(1 / 60, mttf)
    times = completion(work, best, 1 / 60, 0.25, mttf)
    assert best == exactly(interval)
    assert times.mean_hours == exactly(mean)
    assert dist.quantile_hours(90, times) == exactly(p90)
    assert gpus * times.mean_hours * 2.5 == exactly(cost)


# Vectorised: failures are negative binomial over the segments, the time lost exponential, cut off.
def simulated(work: float, interval: float, checkpoint: float, restart: float, mttf: float, runs: int) -> Any:
    draws = np.random.default_rng(3)
    segments = round(work / interval)
    segment = interval + checkpoint
    survives, restarts = math.exp(-segment / mttf), math.exp(-restart / mttf)
    failures = draws.negative_binomial(segments, survives, runs)
    stops = int(failures.sum())
    hours = np.full(runs, segments * segment) + failures * restart
    lost = -mttf * np.log1p(-draws.random(stops) * (1 - survives))
    hours += np.bincount(np.repeat(np.arange(runs), failures), lost, runs)
    again = draws.geometric(restarts, stops) - 1
    owner = np.repeat(np.repeat(np.arange(runs), failures), again)
    lost = -mttf * np.log1p(-draws.random(int(again.sum())) * (1 - restarts))
    return hours + np.bincount(owner, lost, runs)


@pytest.mark.parametrize(
    ("case", "runs"), [("A", 20_000), ("B", 100_000), ("C", 200_000), ("D", 60_000), ("E", 100_000), ("F", 2_000)]
)
def test_closed_form_agrees_with_a_simulation(case: str, runs: int) -> None:
    run = CASES[case][0]
    times, samples = completion(*run), simulated(*run, runs)
    assert times.mean_hours == pytest.approx(samples.mean(), rel=0.002)
    for percent in (10, 50, 80, 90, 95):
        assert dist.quantile_hours(percent, times) == pytest.approx(np.quantile(samples, percent / 100), rel=0.005)


def test_variance_agrees_with_a_simulation_that_waits() -> None:
    # As case D, and after 40 % of the failures, those while restarting included, an hour in which nothing runs.
    work, interval, checkpoint, restart, mttf = CASES["D"][0]
    draws = np.random.default_rng(11)
    samples = []
    for _ in range(4000):
        hours = 0.0
        for _ in range(round(work / interval)):
            while (stop := draws.exponential(mttf)) < interval + checkpoint:
                hours += stop + (draws.random() < 0.4)
                while (again := draws.exponential(mttf)) < restart:
                    hours += again + (draws.random() < 0.4)
                hours += restart
            hours += interval + checkpoint
        samples.append(hours)
    times = completion(*CASES["D"][0], wait_hours=0.4, wait_variance_hours2=float(dist.two_point_variance(1.0, 0.4)))
    assert times.mean_hours == pytest.approx(np.mean(samples), rel=0.002)
    assert math.sqrt(times.variance_hours2) == pytest.approx(np.std(samples), rel=0.04)


def test_restart_that_cannot_fail() -> None:
    times = completion(*CASES["F"][0], restart_can_fail=False)
    assert times.mean_hours == exactly(2142.622446740884)


# SciPy 1.17, gammaincinv(a, p); the chi-squared ones are also in Abramowitz & Stegun, table 26.8, halved.
@pytest.mark.parametrize(
    ("chance", "shape", "value"),
    [
        (0.5, 1.0, math.log(2)),
        (0.95, 1.0, -math.log(0.05)),
        (0.9, 0.02, 0.0029496744212501634),
        (0.1, 0.3, 0.0003237246218234327),
        (0.05, 0.5, 0.001966070000009761),
        (0.5, 0.5, 0.227468211559786),
        (0.95, 0.5, 1.920729410347062),
        (0.1, 2.5, 0.8051539934811613),
        (0.9, 5.0, 7.993589586052632),
        (0.99, 15.0, 25.446090655758535),
        (0.5, 20.0, 19.66767242330567),
        (0.8, 123.4, 132.6388221029247),
        (0.95, 499.9, 537.2360453236979),
        (0.95, 500.0, 537.3397244017204),
        (0.1, 2539.0, 2474.6424589271132),
        (0.999, 1e5, 100980.06779195923),
    ],
)
def test_gamma_quantiles(chance: float, shape: float, value: float) -> None:
    assert dist.gamma_quantile(chance, shape) == exactly(value)


def test_gamma_quantile_of_a_tiny_shape_is_zero() -> None:
    assert dist.gamma_quantile(0.5, 1e-5) == 0.0


@given(st.floats(0.001, 1e6), st.floats(0.001, 0.998), st.floats(0.0001, 0.001))
def test_gamma_quantiles_rise(shape: float, chance: float, more: float) -> None:
    assert dist.gamma_quantile(chance, shape) <= dist.gamma_quantile(chance + more, shape)


@given(st.floats(400.0, 600.0), st.floats(0.01, 0.99))
def test_both_ways_to_a_gamma_quantile_agree(shape: float, chance: float) -> None:
    assert dist.gamma_quantile(chance, shape) == exactly(dist._cornish_fisher(chance, shape))


@given(st.floats(1.0, 5000.0), st.floats(0.05, 5.0), st.floats(0.0, 0.2), st.floats(0.0, 1.0), st.floats(1e-12, 0.5))
def test_quantiles_are_in_order(work: float, interval: float, checkpoint: float, restart: float, rate: float) -> None:
    times = completion(work, interval, checkpoint, restart, 1 / rate)
    p10, p50, p90 = (dist.quantile_hours(percent, times) for percent in (10, 50, 90))
    assert times.floor_hours <= p10 <= p50 <= p90
    assert times.variance_hours2 >= 0


@given(st.floats(0.01, 5.0), st.floats(0.0, 1.0), st.floats(1e-4, 1.0))
def test_variance_is_smooth_where_series_meet_closed_forms(segment: float, restart: float, rate: float) -> None:
    # Nearly failure-free: variance is about rate x work x E[(lost + restart)^2], lost even over the segment.
    tiny = rate * 1e-9
    times = completion(100.0, segment, 0.0, restart, 1 / tiny)
    square = segment**2 / 3 + segment * restart + restart**2
    assert times.variance_hours2 == pytest.approx(tiny * 100.0 * square, rel=1e-6)


@pytest.mark.parametrize("x", [0.0999999, 0.1, 0.1000001])
def test_series_meet_the_closed_forms(x: float) -> None:
    assert dist.lost_share_mean(x) == pytest.approx(1 / x - 1 / math.expm1(x), rel=1e-12)
    square = 2 / x**2 - (1 + 2 / x) / math.expm1(x)
    assert dist.lost_share_square_mean(x) == pytest.approx(square, rel=1e-11)


@pytest.mark.parametrize("y", [0.4999, 0.5, 0.5001])
def test_sinh_series_meets_the_closed_form(y: float) -> None:
    assert dist.sinh_excess(y) == pytest.approx(math.sinh(y) - y, rel=1e-13)


def test_without_failures_the_time_is_certain() -> None:
    times = completion(100.0, 1.0, 0.05, 0.5, math.inf)
    assert times == Completion(105.0, 105.0, 0.0)
    assert dist.quantile_hours(95, times) == 105.0
    certain = Completion(np.full(3, 5.0), np.full(3, 5.0), np.zeros(3))
    assert list(dist.completion_hours(dist.stream(1, "failures"), certain)) == [5.0, 5.0, 5.0]


def test_drawn_completion_times_have_the_moments() -> None:
    times = completion(*CASES["D"][0])
    moments = (times.floor_hours, times.mean_hours, times.variance_hours2)
    arrays = Completion(*(np.full(100_000, float(moment)) for moment in moments))
    samples = dist.completion_hours(dist.stream(5, "failures"), arrays)
    assert samples.mean() == pytest.approx(times.mean_hours, rel=0.0005)
    for percent in (10, 50, 90):
        (quantile,) = dist.quantiles(samples, [percent])
        assert quantile == pytest.approx(dist.quantile_hours(percent, times), rel=0.001)


def test_same_seed_same_draws_and_each_name_its_own() -> None:
    one, again, other = (dist.triangular(dist.stream(9, n), 1.0, 2.0, 4.0, 5) for n in ("mfu", "mfu", "price"))
    assert list(one) == list(again)
    assert list(one) != list(other)
    assert list(dist.triangular(dist.stream(9, "mfu"), 2.0, 2.0, 2.0, 2)) == [2.0, 2.0]


def test_draws_follow_their_distributions() -> None:
    draws = dist.lognormal(dist.stream(1, "rate"), 5e-3, 0.9, 200_000)
    assert np.median(draws) == pytest.approx(5e-3, rel=0.01)
    assert np.std(np.log(draws)) == pytest.approx(0.9, rel=0.01)
    assert dist.triangular(dist.stream(1, "x"), 1.0, 2.0, 6.0, 200_000).mean() == pytest.approx(3.0, rel=0.01)


# The example of the reference, section 6: 70e9 parameters, 2e12 tokens, 1,024 H100 at 989.4 TFLOPS; NumPy's PCG64 from
# seed 12345, inputs drawn one after the other.
def test_monte_carlo_example() -> None:
    draws, size = np.random.default_rng(12345), 200_000
    inputs = {
        "mfu": dist.triangular(draws, 0.30, 0.40, 0.48, size),
        "scaling": dist.triangular(draws, 0.90, 0.97, 1.0, size),
        "price": dist.triangular(draws, 2.0, 2.5, 3.5, size),
        "rate": dist.lognormal(draws, 5e-3, 0.6, size),
        "restart": dist.lognormal(draws, 0.25, 0.6, size),
    }
    work = 6 * 70e9 * 2e12 / (1024 * 989.4e12 * inputs["mfu"] * inputs["scaling"]) / 3600
    mttf = rel.job_mttf_hours(rel.hardware_failures_per_hour(128, inputs["rate"]))
    hours = rel.expected_hours(work, rel.optimal_interval_hours(1 / 60, mttf), 1 / 60, inputs["restart"], mttf)
    cost = 1024 * (hours + 4) * inputs["price"] + 22_000
    percents = (10, 50, 80, 90, 95)
    assert dist.quantiles(hours / 24, percents) == pytest.approx(
        (23.534722729018867, 26.501332742715675, 29.13409283320847, 30.632887549386822, 31.812564255208756)
    )
    costs = dist.quantiles(cost, percents)
    assert costs == pytest.approx(
        (1457793.3087229168, 1764369.7400375628, 2016543.6613241716, 2158815.123163713, 2282104.639189182)
    )
    assert dist.chance_of_exceeding_percent(cost, costs[3]) == pytest.approx(10.0, abs=0.01)
    assert dist.variance_shares_percent(inputs, cost) == pytest.approx(
        {
            "mfu": 38.39944363033692,
            "scaling": 1.9663823335308923,
            "price": 58.22943609345105,
            "rate": 0.9287024036222202,
            "restart": 0.16376170338437887,
        }
    )


def test_base_of_the_monte_carlo_example() -> None:
    work = 6 * 70e9 * 2e12 / (1024 * 989.4e12 * 0.40) / 3600
    mttf = rel.job_mttf_hours(rel.hardware_failures_per_hour(128, 5e-3))
    interval = rel.optimal_interval_hours(1 / 60, mttf)
    hours = rel.expected_hours(work, interval, 1 / 60, 0.25, mttf)
    assert (work, interval, hours) == pytest.approx(
        (575.7645626979314, 1.1069505933585508, 597.2457232367224), rel=EXACT
    )
    assert 1024 * (hours + 4) * 2.5 + 22_000 == exactly(1561189.0514860093)


def test_share_of_a_constant_input_is_zero() -> None:
    output = dist.lognormal(dist.stream(1, "price"), 1.0, 0.5, 1000)
    shares = dist.variance_shares_percent({"fixed": np.full(1000, 0.3), "price": output}, output)
    assert shares["fixed"] == 0.0
    assert shares["price"] == pytest.approx(100.0)
