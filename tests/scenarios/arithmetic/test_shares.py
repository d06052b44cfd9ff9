"""Shares of a total: whole minor units, none lost, none further than one from its exact part."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from service.scenarios.arithmetic.shares import apportioned, rounded_to

_weights = st.lists(st.fractions(0, 1000), min_size=1, max_size=30)
_parts = st.lists(st.fractions(-10_000, 10_000, max_denominator=997), min_size=1, max_size=30)


def test_a_dollar_among_three_by_hand() -> None:
    # 33.33 each leaves one cent; all lost a third, so the first gets it.
    assert apportioned(100, [1, 1, 1]) == (34, 33, 33)


def test_who_lost_most_gets_what_is_left() -> None:
    # 10 by 1:1:4 is 1.67, 1.67, 6.67: three floors of 1, 1, 6 leave 2, for the first two of equals.
    assert apportioned(10, [1, 1, 4]) == (2, 2, 6)


def test_what_weighs_nothing_gets_nothing() -> None:
    assert apportioned(7, [0, 3, 0, 4]) == (0, 3, 0, 4)


def test_where_nothing_weighs_the_first_gets_all() -> None:
    assert apportioned(-5, [0, 0]) == (-5, 0)


def test_parts_of_both_signs_by_hand() -> None:
    # 1.5 - 0.5 - 1.5 is -0.5; rounded half-up away from 0 that is -1.
    assert sum(rounded_to(-1, [Fraction(3, 2), Fraction(-1, 2), Fraction(-3, 2)])) == -1


@given(st.integers(-(10**15), 10**15), _weights)
def test_shares_add_up_and_are_within_one_of_the_exact_ones(total: int, weights: list[Fraction]) -> None:
    shares = apportioned(total, weights)
    assert sum(shares) == total
    if whole := sum(weights):
        assert all(abs(share - total * weight / whole) < 1 for share, weight in zip(shares, weights, strict=True))


@given(st.integers(-(10**15), 10**15), _weights)
def test_a_negative_total_is_the_positive_one_mirrored(total: int, weights: list[Fraction]) -> None:
    assert apportioned(-total, weights) == tuple(-share for share in apportioned(total, weights))


@given(_parts)
def test_signed_parts_add_up_to_their_rounded_sum_and_none_is_off_by_a_whole(parts: list[Fraction]) -> None:
    total = round(sum(parts))
    found = rounded_to(total, parts)
    assert sum(found) == total
    assert all(abs(whole - part) <= 1 for whole, part in zip(found, parts, strict=True))
