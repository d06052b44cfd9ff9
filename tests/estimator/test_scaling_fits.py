"""Scaling laws through published measurements: constants, extrapolations, intervals, and what is refused."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimator import scaling
from service.estimator.scaling import Law, MeasuredPoint, fitted, predicted

# MLPerf v5.0, Llama-3.1-405B FP8 on H100 (mlcommons/training_results_v5.0@0fdc28f, eos-dfw_n*, result_0.txt): tokens/s
# per GPU, median step.
MLPERF_405B = {
    512: 334.5084958626903,
    2048: 324.35267727965993,
    2432: 322.5054982913086,
    2560: 320.43899732962984,
    8192: 296.4091702449212,
}
# Megatron-Core r0.8 README (NVIDIA/Megatron-LM@d98e8a6), images/strong_scaling.png: 177B, TFLOP/s per GPU.
MEGATRON_177B = {
    96: 460.89,
    144: 460.42,
    288: 457.51,
    576: 454.31,
    1152: 446.51,
    2304: 432.8,
    3072: 422.85,
    4608: 411.63,
}

laws: st.SearchStrategy[Law] = st.sampled_from(["amdahl", "log2"])


def points(per_gpu: dict[int, float], *counts: int) -> list[MeasuredPoint]:
    """Whole-job points of a table by GPU, all of it or some counts."""
    return [MeasuredPoint(n, n * rate) for n, rate in per_gpu.items() if not counts or n in counts]


def points_on(law: Law, c0: float, c1: float, counts: tuple[int, ...]) -> list[MeasuredPoint]:
    return [MeasuredPoint(n, n / (c0 + c1 * (n if law == "amdahl" else math.log2(n)))) for n in counts]


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=1e-9)


def test_mlperf_from_two_points_to_16_times() -> None:
    fit = fitted(points(MLPERF_405B, 512, 2048))
    assert (fit.c0, fit.c1) == pytest.approx((0.0029582596555988625, 6.093952701449829e-08), rel=1e-9)
    at_8192 = predicted(fit, 8192)
    assert at_8192.tokens_per_second / 8192 == exactly(289.2283054285447)
    assert at_8192.tokens_per_second / 8192 == pytest.approx(MLPERF_405B[8192], rel=0.0243)
    assert at_8192.extrapolation == 4.0
    assert not at_8192.beyond_validity


def test_megatron_from_four_points_to_8_times() -> None:
    fit = fitted(points(MEGATRON_177B, 96, 144, 288, 576))
    assert (fit.c0, fit.c1) == pytest.approx((0.00216372221063905, 6.669477744799828e-08), rel=1e-9)
    at_4608 = predicted(fit, 4608)
    assert at_4608.tokens_per_second / 4608 == pytest.approx(404.68598, rel=1e-7)
    assert at_4608.extrapolation == 8.0
    assert not at_4608.beyond_validity
    assert predicted(fit, 4616).beyond_validity
    assert at_4608.low_tokens_per_second < 4608 * MEGATRON_177B[4608] < at_4608.high_tokens_per_second


@given(laws, st.floats(1e-5, 1.0), st.floats(1e-9, 1e-2), st.sets(st.integers(1, 20_000), min_size=2, max_size=7))
def test_points_on_a_law_give_it_back(law: Law, c0: float, c1: float, counts: set[int]) -> None:
    fit = fitted(points_on(law, c0, c1, tuple(sorted(counts))), law)
    for n in counts:
        y = c0 + c1 * (n if law == "amdahl" else math.log2(n))
        assert scaling.gpu_seconds_per_token(fit, n) == pytest.approx(y, rel=1e-7)
        assert scaling.relative_sigma(fit, n) >= scaling.SIGMA_FLOOR
    assert fit.excluded_gpu_count is None


@given(laws, st.lists(st.tuples(st.integers(1, 4096), st.floats(1.0, 1e4)), min_size=3, max_size=6))
def test_no_other_law_fits_better(law: Law, table: list[tuple[int, float]]) -> None:
    measured = [MeasuredPoint(n, n * rate) for n, rate in table]
    if len({n for n, _ in table}) < 2:
        return
    fit = scaling._least_squares(measured, law)
    assert min(fit.c0, fit.c1) >= 0

    def squares(c0: float, c1: float) -> float:
        g = np.array([n if law == "amdahl" else math.log2(n) for n, _ in table])
        y = np.array([1 / rate for _, rate in table])
        return float(np.sum(((c0 + c1 * g) / y - 1) ** 2))

    least = squares(fit.c0, fit.c1)
    steps = (-1e-3, 0.0, 1e-3)
    largest = max(n for n, _ in table)
    scale = fit.c0 + fit.c1 * largest
    for up, along in itertools.product(steps, steps):
        c0, c1 = max(fit.c0 + up * scale, 0.0), max(fit.c1 + along * scale / largest, 0.0)
        assert least <= squares(c0, c1) * (1 + 1e-9) + 1e-12


def test_throughput_that_grows_faster_than_the_count_is_taken_for_perfect() -> None:
    fit = fitted([MeasuredPoint(8, 800.0), MeasuredPoint(16, 1700.0)])
    assert fit.c1 == 0.0
    assert scaling.scaling_efficiency_percent(fit, 1024, 8) == 100.0
    assert scaling.serial_fraction(fit) == 0.0


def test_covariance_by_the_textbook() -> None:
    measured = points(MEGATRON_177B, 96, 288, 576, 1152)
    fit = fitted(measured)
    y = np.array([point.gpu_count / point.tokens_per_second for point in measured])
    design = np.array([[1.0, point.gpu_count] for point in measured]) / y[:, None]
    residuals = design @ np.array([fit.c0, fit.c1]) - 1
    variance = max(float(residuals @ residuals) / 2, 0.005**2)
    covariance = np.linalg.inv(design.T @ design) * variance
    assert fit.covariance == pytest.approx((covariance[0, 0], covariance[0, 1], covariance[1, 1]), rel=1e-6)
    x = np.array([1.0, 4608.0])
    sigma = math.sqrt(float(x @ covariance @ x) / float(x @ [fit.c0, fit.c1]) ** 2 + variance)
    assert scaling.relative_sigma(fit, 4608) == pytest.approx(sigma, rel=1e-6)
    at_4608 = predicted(fit, 4608, 90.0)
    half_width = 2.919985580353726 * sigma  # t of 2 degrees at 95 %
    assert at_4608.high_tokens_per_second / at_4608.tokens_per_second - 1 == pytest.approx(half_width, rel=1e-6)


def test_one_point_far_off_is_left_out_and_named() -> None:
    table = {8: 100.0, 16: 99.0, 32: 75.0, 64: 94.0, 128: 89.0}
    fit = fitted(points(table))
    assert fit.excluded_gpu_count == 32
    assert fit.c0 == exactly(fitted(points(table, 8, 16, 64, 128)).c0)
    assert (fit.smallest_gpu_count, fit.largest_gpu_count) == (8, 128)


def test_two_points_far_off_are_not_explained_away() -> None:
    fit = fitted(points({8: 100.0, 16: 70.0, 32: 99.0, 64: 65.0, 128: 97.0}))
    assert fit.excluded_gpu_count is None
    assert scaling.relative_sigma(fit, 128) > 0.1


@pytest.mark.parametrize("counts", [(), (64,), (64, 64)])
def test_two_different_counts_are_needed(counts: tuple[int, ...]) -> None:
    with pytest.raises(BrokenRule, match="two different GPU counts"):
        fitted([MeasuredPoint(n, n * 10.0) for n in counts])


def test_below_the_smallest_measured_count_is_refused() -> None:
    with pytest.raises(BrokenRule, match="smallest measured count is 512"):
        predicted(fitted(points(MLPERF_405B)), 504)


# Abramowitz & Stegun, table 26.10; SciPy 1.17 for the digits.
@pytest.mark.parametrize(
    ("chance", "freedom", "value"),
    [
        (0.9, 1, 3.077683537175254),
        (0.95, 2, 2.919985580353726),
        (0.9, 3, 1.6377443536962102),
        (0.975, 3, 3.182446305283711),
        (0.95, 4, 2.1318467863266504),
        (0.995, 5, 4.032142983557536),
        (0.975, 10, 2.2281388519862747),
        (0.9, 31, 1.3094635494946387),
        (0.05, 7, -1.894578605090007),
        (0.5, 6, 0.0),
    ],
)
def test_student_t(chance: float, freedom: int, value: float) -> None:
    assert scaling.student_t_quantile(chance, freedom) == pytest.approx(value, rel=1e-9, abs=1e-12)


@given(laws, st.integers(2, 512), st.integers(2, 64))
def test_more_gpus_are_never_slower_nor_more_efficient(law: Law, base: int, factor: int) -> None:
    fit = fitted(points_on(law, 0.003, 1e-6, (2, 64, 512)), law)
    assert scaling.tokens_per_second(fit, base * factor) >= scaling.tokens_per_second(fit, base)
    assert scaling.scaling_efficiency_percent(fit, base * factor, base) <= 100 + 1e-9


def test_arrays_give_what_floats_give() -> None:
    fit = fitted(points(MLPERF_405B), "log2")
    counts = np.array([512, 1024, 8192])
    for index, n in enumerate(counts):
        assert scaling.tokens_per_second(fit, counts)[index] == exactly(float(scaling.tokens_per_second(fit, int(n))))
