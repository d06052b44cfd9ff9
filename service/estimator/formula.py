"""A formula as text that can be computed: its symbols, the same text with numbers put in, its result, its source.

The text is arithmetic in Python's syntax (+ - * / **, parentheses) with exp, sqrt, log, min, max, ceil and lambert_w0,
the main branch of Lambert's W. Numbers have at most 15 digits, as everywhere in an answer.
"""

import re
from decimal import Decimal

from service.estimator.answers import Explanation, Symbol
from service.money import MINOR_DIGITS, exact, number

FUNCTIONS = frozenset({"exp", "sqrt", "log", "min", "max", "ceil", "lambert_w0"})
SIX_DIGITS = "half-up to at most six digits"
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_LARGEST_WHOLE = 1e15


class Page:
    """The symbols of one subject, and the formulas that were written with them."""

    def __init__(self) -> None:
        self._symbols: dict[str, Symbol] = {}
        self.written: list[Explanation] = []

    def let(self, symbol: str, value: Decimal | float, unit: str, meaning: str) -> None:
        """One symbol and what stands for it from here on."""
        self._symbols[symbol] = Symbol(symbol, meaning, shown(value), unit)

    def write(
        self,
        field: str | None,
        name: str,
        formula: str,
        result: Decimal | float,
        unit: str,
        source: str,
        rounding: str | None = None,
    ) -> None:
        """One formula with the symbols that it has; `field` is what it explains in the answer."""
        used = dict.fromkeys(found for found in _NAME.findall(formula) if found not in FUNCTIONS)
        symbols = tuple(self._symbols[symbol] for symbol in used)
        texts = {symbol.symbol: as_text(symbol.value) for symbol in symbols}
        self.written.append(
            Explanation(
                name,
                field,
                formula,
                symbols,
                _NAME.sub(lambda match: texts.get(match[0], match[0]), formula),
                shown(result),
                unit,
                rounding,
                source,
            )
        )


def shown(value: Decimal | float) -> float:
    """As a number of an answer."""
    return number(value if isinstance(value, Decimal) else exact(float(value)))


def as_text(value: float) -> str:
    """A number within a formula: whole ones without a point, negative ones in brackets."""
    text = str(int(value)) if value.is_integer() and abs(value) < _LARGEST_WHOLE else repr(value)
    return f"({text})" if value < 0 else text


def to_minor_units(currency: str) -> str:
    """How an amount of money is rounded."""
    digits = MINOR_DIGITS[currency]
    return f"half-up to {Decimal(1).scaleb(-digits):f} {currency}"
