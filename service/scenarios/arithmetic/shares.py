"""Amounts shared out to the minor unit so that the parts always add up: the largest remainders get what is left."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from service.money import MINOR_DIGITS, exact_arithmetic, number


def units_of(amount: Decimal, currency: str) -> int:
    """An amount rounded to its minor unit, as a whole number of them."""
    return int(amount.scaleb(MINOR_DIGITS[currency]))


def amount_of(units: int, currency: str) -> Decimal:
    """So many minor units as an amount."""
    return Decimal(units).scaleb(-MINOR_DIGITS[currency])


def rounded_to(total: int, parts: Sequence[Fraction]) -> tuple[int, ...]:
    """Exact parts of either sign as whole numbers, each less than 1 from its part, that add up to their rounded total.

    Largest remainder (Hamilton): all are rounded down, and those that lost most get 1 more; of equals the first.
    """
    floors = [part.__floor__() for part in parts]
    left = total - sum(floors)
    lost = sorted(range(len(parts)), key=lambda index: (floors[index] - parts[index], index))
    for index in lost[:left]:
        floors[index] += 1
    return tuple(floors)


def apportioned(total: int, weights: Sequence[Fraction | int]) -> tuple[int, ...]:
    """A total by weights of zero or more, a negative one as the positive one mirrored; to the first if none weighs."""
    exact_weights = [Fraction(weight) for weight in weights]
    whole = sum(exact_weights, Fraction(0))
    if not whole:
        return (total, *(0 for _ in weights[1:]))
    size = abs(total)
    parts = rounded_to(size, [size * weight / whole for weight in exact_weights])
    return parts if total >= 0 else tuple(-part for part in parts)


def decimal_of(value: Fraction) -> Decimal:
    """A quotient to 100 digits."""
    with exact_arithmetic():
        return Decimal(value.numerator) / value.denominator


def shown(value: Fraction) -> float:
    """A figure as an answer has it: 15 digits."""
    return number(decimal_of(value))
