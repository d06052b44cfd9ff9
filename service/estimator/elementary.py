"""Elementary functions of floats and arrays alike, with the same bits for both.

NumPy takes a microsecond to find out that it has one number. What a plain float can be told without it, it is told
here; `exp` and its like stay NumPy's own, whose last bit is not that of `math`, so that one estimate and the draws
around it agree.
"""

import math

import numpy as np

from service.estimator.cost import Number


def where(condition: Number, then: Number, otherwise: Number) -> Number:
    """One or the other, number by number. Both have been computed: neither may divide by 0."""
    if condition is True:
        return then
    if condition is False:
        return otherwise
    chosen: Number = np.where(condition, then, otherwise)
    return chosen[()]


def least(one: Number, other: Number) -> Number:
    """The smaller of two."""
    if type(one) is float and type(other) is float:
        return min(one, other)
    return np.minimum(one, other)


def most(one: Number, other: Number) -> Number:
    """The larger of two."""
    if type(one) is float and type(other) is float:
        return max(one, other)
    return np.maximum(one, other)


def exp(x: Number) -> Number:
    """e^x."""
    return float(np.exp(x)) if type(x) is float else np.exp(x)


def expm1(x: Number) -> Number:
    """e^x - 1."""
    return float(np.expm1(x)) if type(x) is float else np.expm1(x)


def log1p(x: Number) -> Number:
    """ln(1 + x)."""
    return float(np.log1p(x)) if type(x) is float else np.log1p(x)


def sinh(x: Number) -> Number:
    """The hyperbolic sine."""
    return float(np.sinh(x)) if type(x) is float else np.sinh(x)


def root(x: Number) -> Number:
    """The square root."""
    return math.sqrt(x) if type(x) is float else np.sqrt(x)


def whole(x: Number) -> Number:
    """The nearest whole number, halves to the even one."""
    return float(np.rint(x)) if type(x) is float else np.rint(x)


def reciprocal(x: Number) -> Number:
    """1 / x, infinite at 0."""
    if type(x) is float:
        return 1.0 / x if x else math.inf
    with np.errstate(divide="ignore"):
        return np.divide(1.0, x)
