"""Formulas as text: which symbols they show, and how numbers are put in."""

import math

import pytest

from service.estimator.formula import Page, to_minor_units
from tests.support.formulas import computed, lambert_w0


def a_page(**symbols: float) -> Page:
    page = Page()
    for symbol, value in symbols.items():
        page.let(symbol, value, "h", f"what {symbol} means")
    return page


def substituted(page: Page, formula: str) -> str:
    page.write(None, "anything", formula, 0.0, "h", "a source")
    return page.written[-1].substituted


def test_only_the_symbols_of_the_formula_are_shown() -> None:
    page = a_page(a=1, b=2, c=3)
    page.write("duration.ideal_hours", "anything", "c * a", 3.0, "h", "a source")
    assert [symbol.symbol for symbol in page.written[0].symbols] == ["c", "a"]


def test_whole_numbers_have_no_point_and_negative_ones_brackets() -> None:
    assert substituted(a_page(a=64.0, b=-2.5), "a - b") == "64 - (-2.5)"


def test_functions_and_exponents_of_literals_stay() -> None:
    assert substituted(a_page(e=2, exp9=3), "max(e * 1e9, exp(exp9))") == "max(2 * 1e9, exp(3))"


def test_a_symbol_within_another_is_left_alone() -> None:
    assert substituted(a_page(n=8, n0=4), "n / n0") == "8 / 4"


def test_a_symbol_that_nobody_knows_is_a_fault() -> None:
    with pytest.raises(KeyError):
        substituted(a_page(a=1), "a * b")


def test_numbers_have_fifteen_digits() -> None:
    assert substituted(a_page(a=1 / 3), "a") == "0.333333333333333"


def test_the_rounding_names_the_minor_unit() -> None:
    assert to_minor_units("JPY") == "half-up to 1 JPY"
    assert to_minor_units("USD") == "half-up to 0.01 USD"


def test_the_evaluator_takes_nothing_but_arithmetic() -> None:
    assert computed("ceil(2 ** 0.5 * (3 - 1)) / -4") == -0.75
    for text in ("__import__('os')", "a + 1", "(1).real", "min(*[1, 2])", "'1' * 3"):
        with pytest.raises(ValueError, match="No arithmetic"):
            computed(text)


@pytest.mark.parametrize("x", [-0.367879, -0.3, -0.1, -1e-9, 0.0])
def test_lambert_w_inverts_its_definition_below_zero(x: float) -> None:
    w = lambert_w0(x)
    assert w * math.exp(w) == pytest.approx(x, abs=1e-12)
