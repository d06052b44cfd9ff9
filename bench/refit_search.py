"""The least of a function of positive numbers: Nelder and Mead's simplex over logarithms, again while it gains."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Point = NDArray[np.float64]

# The usual coefficients (Nelder & Mead 1965): reflect, expand, contract, shrink.
_REFLECT, _EXPAND, _CONTRACT, _SHRINK = 1.0, 2.0, 0.5, 0.5
_FIRST_STEP = 0.3
_MOST_STEPS = 1000
_MOST_STARTS = 10


def least_point(function: Callable[[Point], float], start: Point, tolerance: float = 1e-6) -> Point:
    """Where it is least, starting here and again from what was found, for a simplex may collapse too early."""

    def of_logs(at: Point) -> float:
        return function(np.exp(at))

    logs, least = np.log(start), function(start)
    for _ in range(_MOST_STARTS):
        logs = _descend(of_logs, logs, _FIRST_STEP, tolerance)
        before, least = least, of_logs(logs)
        if before - least < tolerance:
            break
    return np.exp(logs)


def _descend(function: Callable[[Point], float], start: Point, step: float, tolerance: float) -> Point:
    """One simplex, until its corners are as good as equal and near each other."""
    corners = [start, *(start + step * unit for unit in np.eye(start.size))]
    values = [function(corner) for corner in corners]
    for _ in range(_MOST_STEPS):
        order = sorted(range(len(values)), key=lambda index: values[index])
        corners, values = [corners[index] for index in order], [values[index] for index in order]
        width = max(float(np.max(np.abs(corner - corners[0]))) for corner in corners)
        if values[-1] - values[0] < tolerance and width < tolerance**0.5:
            break
        middle = np.mean(corners[:-1], axis=0)
        away = middle - corners[-1]
        found = _better(function, middle, away, values)
        if found is None:
            corners = [corners[0], *(corners[0] + _SHRINK * (corner - corners[0]) for corner in corners[1:])]
            values = [values[0], *(function(corner) for corner in corners[1:])]
        else:
            corners[-1], values[-1] = found
    return corners[int(np.argmin(values))]


def _better(
    function: Callable[[Point], float], middle: Point, away: Point, values: list[float]
) -> tuple[Point, float] | None:
    """What replaces the worst corner; None if nothing along the line through it is better."""
    reflected = middle + _REFLECT * away
    value = function(reflected)
    if value < values[0]:
        further = middle + _EXPAND * away
        expanded = function(further)
        return (further, expanded) if expanded < value else (reflected, value)
    if value < values[-2]:
        return reflected, value
    nearer = middle + _CONTRACT * (away if value < values[-1] else -away)
    contracted = function(nearer)
    return (nearer, contracted) if contracted < min(value, values[-1]) else None
