"""Measured points to a scaling law: the fit, its interval, and where it stops being valid.

Every law is linear in y = n/X, accelerator-seconds per token: y = c0 + c1 g(n). At one global batch g(n) = n (Amdahl: a
step is divisible work plus what stays constant, bubble, exposed all-reduce, optimiser); where the batch grows with n,
g(n) = log2 n.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from service.errors import BrokenRule
from service.estimator.cost import Number
from service.units import PERCENT

# Relative spread below which no residual is believed: repeated runs on one cluster differ by about so much.
SIGMA_FLOOR = 0.005
# With as many points as parameters the residuals say nothing; Student's t then has so many degrees of freedom. Over 73
# published extrapolations up to 8x the 80/90/95 % intervals held 87.7/93.2/94.5 %.
FREEDOM_WITHOUT_RESIDUALS = 3
# Beyond so many times the largest measured count, no published series says how good the law is.
MOST_EXTRAPOLATION = 8.0
# Of the errors of a law so far out, nine in ten were smaller: Amdahl at one global batch (25 series, two points), and a
# share that stays where the batch grows (35 series, one point).
P90_ERRORS: dict[str, float] = {"amdahl": 0.035, "log2": 0.075}
_SIGMAS_OF_NINE_IN_TEN = 1.6448536269514722
# One point that is off by more is left out, if the rest agree (mosaicml/llm-foundry's table has such a row).
MOST_DEVIATION_PERCENT = 10.0
_FEWEST_TO_EXCLUDE_FROM = 4
_PARAMETERS = 2

Law = Literal["amdahl", "log2"]


class MeasuredPoint(Struct, frozen=True):
    """Throughput of the whole job at one accelerator count, same software and same layout at every point."""

    gpu_count: int
    tokens_per_second: float


class ScalingFit(Struct, frozen=True):
    """y = c0 + c1 g(n), with the covariance (c0 c0, c0 c1, c1 c1) of its relative errors and what it was fitted to."""

    law: Law
    c0: float
    c1: float
    covariance: tuple[float, float, float]
    residual_sigma: float
    freedom: int
    smallest_gpu_count: int
    largest_gpu_count: int
    excluded_gpu_count: int | None


class Prediction(Struct, frozen=True):
    """Throughput of the whole job at a count, with its interval; `extrapolation` is times the largest measured."""

    tokens_per_second: float
    low_tokens_per_second: float
    high_tokens_per_second: float
    relative_sigma: float
    extrapolation: float
    beyond_validity: bool


def sigma_ln_of_law(law: Law, extrapolation: float) -> float:
    """The spread of what a law says of so many times the accelerators, or so many times fewer: none where it was
    measured, as published at 8 times, and between and beyond by the logarithm (assumed)."""
    far = abs(math.log(extrapolation)) / math.log(MOST_EXTRAPOLATION)
    return P90_ERRORS[law] / _SIGMAS_OF_NINE_IN_TEN * far


def fitted(points: Sequence[MeasuredPoint], law: Law = "amdahl") -> ScalingFit:
    """The law through the points; one point far off is left out and named. BrokenRule below two different counts."""
    if len({point.gpu_count for point in points}) < _PARAMETERS:
        raise BrokenRule.at("/scaling/points", "Give measurements at two different GPU counts at least")
    return _with_time_left(_robust(points, law))


def _with_time_left(fit: ScalingFit) -> ScalingFit:
    """The fit, unless it says that the smallest count needs no time at all (log2 n is 0 at one)."""
    if gpu_seconds_per_token(fit, fit.smallest_gpu_count) <= 0:
        told = f"The law through these points leaves no time at {fit.smallest_gpu_count} GPUs; try law amdahl"
        raise BrokenRule.at("/scaling/law", told)
    return fit


def _robust(points: Sequence[MeasuredPoint], law: Law) -> ScalingFit:
    """The law through all points, or through all but one that is far off the others."""
    fit = _least_squares(points, law)
    if len(points) < _FEWEST_TO_EXCLUDE_FROM or _worst_deviation_percent(fit, points) <= MOST_DEVIATION_PERCENT:
        return fit
    rests = []
    for left_out in range(len(points)):
        rest = [point for index, point in enumerate(points) if index != left_out]
        if len({point.gpu_count for point in rest}) >= _PARAMETERS:
            without = _least_squares(rest, law, points[left_out].gpu_count)
            rests.append((_worst_deviation_percent(without, rest), left_out, without))
    worst, _, best = min(rests, key=lambda rest: rest[:2])
    return best if worst <= MOST_DEVIATION_PERCENT else fit


def regressor(law: Law, gpu_count: Number) -> Number:
    """g(n): n itself (Amdahl 1967), or log2 n (the depth of a tree over n ranks)."""
    return gpu_count * 1.0 if law == "amdahl" else np.log2(gpu_count)


def gpu_seconds_per_token(fit: ScalingFit, gpu_count: Number) -> Number:
    """y = n/X at a count."""
    return fit.c0 + fit.c1 * regressor(fit.law, gpu_count)


def tokens_per_second(fit: ScalingFit, gpu_count: Number) -> Number:
    """Throughput of the whole job at a count, X = n/y."""
    return gpu_count / gpu_seconds_per_token(fit, gpu_count)


def scaling_efficiency_percent(fit: ScalingFit, gpu_count: Number, base_gpu_count: Number) -> Number:
    """Throughput per accelerator at a count, in percent of that at another."""
    return PERCENT * gpu_seconds_per_token(fit, base_gpu_count) / gpu_seconds_per_token(fit, gpu_count)


def serial_fraction(fit: ScalingFit) -> float:
    """Amdahl's share of the work that more accelerators do not shorten: c1/(c0 + c1) (Amdahl 1967)."""
    return fit.c1 / (fit.c0 + fit.c1)


def relative_sigma(fit: ScalingFit, gpu_count: Number) -> Number:
    """Relative standard error of one new measurement: sqrt(x' C x / y^2 + s^2) (weighted linear regression)."""
    g, y = regressor(fit.law, gpu_count), gpu_seconds_per_token(fit, gpu_count)
    c00, c01, c11 = fit.covariance
    of_the_line = np.maximum(c00 + 2 * c01 * g + c11 * g * g, 0.0)  # rounding can leave it just below 0
    return np.sqrt(of_the_line / (y * y) + fit.residual_sigma**2)


def predicted(fit: ScalingFit, gpu_count: int, confidence_percent: float = 80.0) -> Prediction:
    """Throughput at a count and its interval, X (1 +- t sigma); BrokenRule below what was measured."""
    if gpu_count < fit.smallest_gpu_count:
        raise BrokenRule.at(
            "/cluster/gpu_count",
            f"The smallest measured count is {fit.smallest_gpu_count}: below it the layout is another. Measure there, "
            "or use more GPUs",
        )
    throughput = float(tokens_per_second(fit, gpu_count))
    sigma = float(relative_sigma(fit, gpu_count))
    half_width = student_t_quantile(0.5 + confidence_percent / PERCENT / 2, fit.freedom) * sigma
    extrapolation = gpu_count / fit.largest_gpu_count
    return Prediction(
        tokens_per_second=throughput,
        low_tokens_per_second=throughput * max(1 - half_width, 0.0),
        high_tokens_per_second=throughput * (1 + half_width),
        relative_sigma=sigma,
        extrapolation=extrapolation,
        beyond_validity=extrapolation > MOST_EXTRAPOLATION,
    )


def student_t_quantile(chance: float, freedom: int) -> float:
    """Student's t for whole degrees of freedom, from its exact distribution (below) by bisection."""
    if chance < 0.5:
        return -student_t_quantile(1 - chance, freedom)
    wanted, low, high = 2 * chance - 1, 0.0, math.pi / 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _student_t_within(middle, freedom) < wanted else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _student_t_within(angle: float, freedom: int) -> float:
    """Chance of |t| < sqrt(freedom) tan(angle) (Abramowitz & Stegun 26.7.3 and 26.7.4)."""
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))


def _least_squares(points: Sequence[MeasuredPoint], law: Law, excluded_gpu_count: int | None = None) -> ScalingFit:
    """c0, c1 >= 0 that minimise the squared relative errors of y, in closed form (normal equations of two unknowns;
    where one would be negative it is 0: Lawson & Hanson 1974, ch. 23)."""
    n = np.array([point.gpu_count for point in points], dtype=float)
    y = n / np.array([point.tokens_per_second for point in points], dtype=float)
    constant, slope = 1 / y, regressor(law, n) / y  # the columns of A, its rows scaled by 1/y; the target is 1
    # Both are divided by their means, so that counts in the thousands do not cost digits.
    constant_scale, slope_scale = float(np.mean(constant)), float(np.mean(slope))
    a, b = constant / constant_scale, slope / slope_scale
    aa, ab, bb, at, bt = (float(value) for value in (a @ a, a @ b, b @ b, np.sum(a), np.sum(b)))
    determinant = float(np.sum((a - b * (ab / bb)) ** 2)) * bb  # aa bb - ab^2 without cancellation
    c0, c1 = float(np.sum(a - b * (ab / bb))) * bb / determinant, float(np.sum(b - a * (ab / aa))) * aa / determinant
    if c0 < 0:
        c0, c1 = 0.0, bt / bb
    elif c1 < 0:
        c0, c1 = at / aa, 0.0
    freedom = len(points) - _PARAMETERS
    squares = float(np.sum((a * c0 + b * c1 - 1) ** 2))
    variance = max(squares / freedom if freedom else 0.0, SIGMA_FLOOR**2)
    return ScalingFit(
        law=law,
        c0=c0 / constant_scale,
        c1=c1 / slope_scale,
        covariance=(
            variance * bb / determinant / constant_scale**2,
            -variance * ab / determinant / (constant_scale * slope_scale),
            variance * aa / determinant / slope_scale**2,
        ),
        residual_sigma=math.sqrt(variance),
        freedom=freedom or FREEDOM_WITHOUT_RESIDUALS,
        smallest_gpu_count=min(point.gpu_count for point in points),
        largest_gpu_count=max(point.gpu_count for point in points),
        excluded_gpu_count=excluded_gpu_count,
    )


def _worst_deviation_percent(fit: ScalingFit, points: Sequence[MeasuredPoint]) -> float:
    """The largest miss of a throughput, in percent of the measured one."""
    return max(
        PERCENT * abs(float(tokens_per_second(fit, point.gpu_count)) / point.tokens_per_second - 1) for point in points
    )
