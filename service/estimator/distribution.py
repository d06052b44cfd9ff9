"""When a run will be over, not only on average: moments of its completion time, quantiles, seeded draws.

Symbols as in `service.estimator.reliability`; moments are generic over floats and NumPy arrays. Times are a floor (no
failure) plus an excess whose mean and variance are exact and whose shape is taken for a Gamma.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from numpy.random import PCG64, Generator, SeedSequence

from service.estimator.cost import Number
from service.estimator.elementary import exp, expm1, least, sinh, where
from service.estimator.reliability import LARGEST_EXPONENT, exponential_ratio
from service.units import PERCENT

# From this shape on five terms of the expansion are right to 1e-11, and no iteration is needed.
_LARGE_SHAPE = 500.0
_MOST_STEPS = 100
_SMALLEST_LOG = -700.0  # e^-700 is as good as 0 hours


class Completion(Struct, frozen=True):
    """Completion time in hours: without failures, its mean, and its variance in hours squared."""

    floor_hours: Number
    mean_hours: Number
    variance_hours2: Number


def lost_share_mean(x: Number) -> Number:
    """Mean share of a segment done when it fails, x = segment/M: 1/x - 1/(e^x - 1) (exponential cut off at x)."""
    small = x < 0.1
    y = where(small, 1.0, x)
    series = 1 / 2 - x / 12 + x**3 / 720 - x**5 / 30240
    return where(small, series, 1 / y - 1 / expm1(y))


def lost_share_square_mean(x: Number) -> Number:
    """Mean square of that share: 2/x^2 - (1 + 2/x) / (e^x - 1)."""
    small = x < 0.1
    y = where(small, 1.0, x)
    series = 1 / 3 - x / 12 + x**2 / 360 + x**3 / 720 - x**4 / 15120 - x**5 / 30240 + x**6 / 604800
    return where(small, series, 2 / y**2 - (1 + 2 / y) / expm1(y))


def sinh_excess(y: Number) -> Number:
    """sinh(y) - y without cancellation (its series below 1/2)."""
    small = y < 0.5
    z = where(small, 1.0, y)
    square = y * y
    series = y * square / 6 * (1 + square / 20 * (1 + square / 42 * (1 + square / 72 * (1 + square / 110))))
    return where(small, series, sinh(z) - z)


def completion(
    work_hours: Number,
    interval_hours: Number,
    checkpoint_hours: Number,
    restart_hours: Number,
    mttf_hours: Number,
    *,
    wait_hours: Number = 0.0,
    wait_variance_hours2: Number = 0.0,
    restart_can_fail: bool = True,
) -> Completion:
    """Exact mean and variance of Daly's model (Daly 2006, FGCS 22:303, by segments).

    A segment s = tau + delta fails K times, geometric with p = e^(-s/M). Each costs the time lost F (exponential, cut
    off at s) and a restart that is itself retried until it holds; a wait, in which nothing fails, follows each failure.
    """
    segment_hours, segments = interval_hours + checkpoint_hours, work_hours / interval_hours
    x = least(segment_hours / mttf_hours, LARGEST_EXPONENT)
    y = least(restart_hours / mttf_hours, LARGEST_EXPONENT)
    lost_mean = segment_hours * lost_share_mean(x)
    lost_variance = segment_hours**2 * lost_share_square_mean(x) - lost_mean**2
    restart_mean, restart_variance = restart_hours, 0.0
    tries, tries_variance = 1.0, 0.0
    tries_restart_covariance = 0.0
    if restart_can_fail:
        tries = exp(y)
        tries_variance = tries * expm1(y)
        restart_mean = restart_hours * exponential_ratio(y)
        restart_variance = _retried_variance_hours2(restart_hours, y)
        tries_restart_covariance = tries_variance * restart_hours * lost_share_mean(y)
    stop_mean = lost_mean + restart_mean + tries * wait_hours
    stop_variance = (
        lost_variance
        + restart_variance
        + tries * wait_variance_hours2
        + tries_variance * wait_hours**2
        + 2 * wait_hours * tries_restart_covariance
    )
    failures = expm1(x)
    failures_variance = failures * exp(x)
    floor_hours = work_hours + segments * checkpoint_hours
    return Completion(
        floor_hours=floor_hours,
        mean_hours=floor_hours + segments * failures * stop_mean,
        variance_hours2=segments * (failures * stop_variance + failures_variance * stop_mean**2),
    )


def _retried_variance_hours2(restart_hours: Number, y: Number) -> Number:
    """Variance of a restart that is retried: M^2 (e^2y - 1 - 2y e^y), y = R/M, as 2 M^2 e^y (sinh y - y)."""
    small = y < 1e-6  # where M^2 y^3 / 3 would be infinity x 0
    bounded = where(small, 1.0, y)
    scale = restart_hours / bounded
    return where(small, y * restart_hours**2 / 3, 2 * scale**2 * exp(bounded) * sinh_excess(bounded))


def two_point_variance(value: Number, chance: Number) -> Number:
    """Variance of what is `value` with this chance and otherwise 0 (Bernoulli): of a wait that some stops skip."""
    return value**2 * chance * (1 - chance)


def gamma_quantile(chance: float, shape: float) -> float:
    """The value that a Gamma of this shape and scale 1 stays under with this chance, to about 1e-12.

    Large shapes by the Cornish-Fisher expansion (Abramowitz & Stegun 26.2.49; coefficients of Goldberg & Levine 1946).
    Others start from it, or from the leading term x^a/Gamma(a+1) (DLMF 8.7.1), and take Newton steps in ln x between
    two bounds that close in.
    """
    if shape >= _LARGE_SHAPE:
        return _cornish_fisher(chance, shape)
    log_gamma = math.lgamma(shape)
    low = (math.log(chance) + math.log(shape) + log_gamma) / shape  # P(a, x) < x^a/Gamma(a+1)
    if low < _SMALLEST_LOG:
        return 0.0
    high = math.log(shape + 40 * math.sqrt(shape) + 40 - 2 * math.log1p(-chance))
    start = _cornish_fisher(chance, shape) if shape > 1 else 0.0
    t = min(max(math.log(start), low), high) if start > 0 else low
    for _ in range(_MOST_STEPS):
        x = math.exp(t)
        density = math.exp(shape * t - x - log_gamma)
        lower = density * _lower_series(shape, x) if x < shape + 1 else 1 - density * _upper_fraction(shape, x)
        low, high = (t, high) if lower < chance else (low, t)
        step = (lower - chance) / density if density > 0 else math.inf
        # Halley's correction: the density's slope in ln x is its value times (a - x).
        step /= max(1 - step * (shape - x) / 2, 0.5)
        if abs(step) < 1e-6:  # the step after this one would be its cube
            return math.exp(t - step)
        t = t - step if low < t - step < high else (low + high) / 2
    return math.exp(t)


def _cornish_fisher(chance: float, shape: float) -> float:
    """Quantile of a Gamma by its cumulants (Goldberg & Levine 1946, halved from chi-squared of 2a degrees)."""
    z, a = NormalDist().inv_cdf(chance), shape
    root = math.sqrt(a)
    return (
        a
        + root * z
        + (z**2 - 1) / 3
        + (z**3 - 7 * z) / (36 * root)
        - (3 * z**4 + 7 * z**2 - 16) / (810 * a)
        + (9 * z**5 + 256 * z**3 - 433 * z) / (38880 * a * root)
        + (12 * z**6 - 243 * z**4 - 923 * z**2 + 1472) / (204120 * a**2)
        - (3753 * z**7 + 4353 * z**5 - 289517 * z**3 - 289717 * z) / (146966400 * a**2 * root)
    )


def _lower_series(shape: float, x: float) -> float:
    """P(a, x) by its density in ln x: the sum of x^n / (a)_(n+1) (DLMF 8.7.1)."""
    term = total = 1 / shape
    n = shape
    while term > total * 1e-17:
        n += 1
        term *= x / n
        total += term
    return total


def _upper_fraction(shape: float, x: float) -> float:
    """Q(a, x) by its density in ln x: Legendre's continued fraction (DLMF 8.9.2), even part, Lentz's method."""
    b = x + 1 - shape
    c, d = math.inf, 1 / b
    value = d
    for n in range(1, 10_000):
        numerator = n * (shape - n)
        b += 2
        d = 1 / (b + numerator * d)
        c = b + numerator / c
        factor = c * d
        value *= factor
        if abs(factor - 1) < 1e-16:
            break
    return value


def quantile_hours(percent: float, times: Completion) -> float:
    """The hours that the run stays under with this chance: floor + Gamma of the excess's mean and variance."""
    excess = float(times.mean_hours - times.floor_hours)
    variance = float(times.variance_hours2)
    if excess <= 0 or variance <= 0:
        return float(times.floor_hours)
    scale = variance / excess
    return float(times.floor_hours) + scale * gamma_quantile(percent / PERCENT, excess / scale)


def stream(seed: int, name: str) -> Generator:
    """Draws of one input: another input, or another order, leaves them as they are."""
    return Generator(PCG64(SeedSequence([seed, *name.encode()])))


def triangular(draws: Generator, low: float, mode: float, high: float, size: int) -> Number:
    """Draws of a triangular input; of its only value where low is high."""
    return draws.triangular(low, mode, high, size) if low < high else np.full(size, float(mode))


def lognormal(draws: Generator, median: float, sigma: float, size: int) -> Number:
    """Draws of a lognormal input, given by its median and the standard deviation of its logarithm."""
    return median * np.exp(sigma * draws.standard_normal(size))


def completion_hours(draws: Generator, times: Completion) -> Number:
    """One completion time for each set of moments: floor + Gamma."""
    excess = np.maximum(times.mean_hours - times.floor_hours, 0.0)
    certain = (excess <= 0) | (np.asarray(times.variance_hours2) <= 0)
    scale = np.where(certain, 1.0, times.variance_hours2 / np.where(certain, 1.0, excess))
    return times.floor_hours + np.where(
        certain, 0.0, scale * draws.standard_gamma(np.where(certain, 1.0, excess / scale))
    )


def quantiles(samples: Number, percents: Sequence[float]) -> tuple[float, ...]:
    """The samples' quantiles, between neighbours by straight line (Hyndman & Fan 1996, type 7)."""
    return tuple(float(value) for value in np.quantile(samples, np.asarray(percents) / PERCENT))


def chance_of_exceeding_percent(samples: Number, limit: float) -> float:
    """How many of the samples are over a limit."""
    return float(np.count_nonzero(samples > limit) * PERCENT / samples.size)


def variance_shares_percent(inputs: Mapping[str, Number], output: Number) -> dict[str, float]:
    """Squared correlation of each input's logarithm with the output's; 0 of an input that does not vary."""
    wanted = _standardised(np.log(output))
    return {
        name: float(np.mean(_standardised(np.log(values)) * wanted) ** 2 * PERCENT) for name, values in inputs.items()
    }


def _standardised(values: Number) -> Number:
    """Mean 0, standard deviation 1; all 0 where nothing varies."""
    spread = np.std(values)
    centred = values - np.mean(values)
    return centred / spread if spread > 1e-12 * (1 + np.max(np.abs(values))) else np.zeros_like(centred)
