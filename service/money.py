"""Exact amounts of money: how they are read, rounded and written.

A request may write money as a decimal string or as a JSON number. A number is taken by its shortest
decimal form, to at most 15 significant digits, so that 3.9492000000000003 means 3.9492. Lines are rounded
half-up to the currency's minor unit, totals are sums of rounded lines.
"""

import re
from decimal import ROUND_HALF_UP, Context, Decimal, getcontext, setcontext
from typing import TYPE_CHECKING, Any, Literal

import iso4217

MAX_INTEGER_DIGITS = 12
MAX_FRACTION_DIGITS = 6
AMOUNT_PATTERN = rf"^(0|[1-9][0-9]{{0,{MAX_INTEGER_DIGITS - 1}}})(\.[0-9]{{1,{MAX_FRACTION_DIGITS}}})?$"
MAX_AMOUNT = 999_999_999_999.999  # the largest JSON number; a string carries the full 18 digits

# Wide enough that every product of five inputs is exact; only divisions are ever rounded here.
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_SHORT = 16  # 15 digits and the point
_fifteen_digits = Context(prec=15, rounding=ROUND_HALF_UP).plus
_MILLIONTH = Decimal("0.000001")
_AMOUNT = re.compile(AMOUNT_PATTERN, re.ASCII)

# ISO 4217 codes with a minor unit; metals, test codes and funds without one cannot price a run.
MINOR_DIGITS: dict[str, int] = {
    currency.code: currency.exponent
    for currency in sorted(iso4217.Currency, key=lambda currency: currency.code)
    if currency.exponent is not None
}
_NOTHING = {code: Decimal(0).scaleb(-digits) for code, digits in MINOR_DIGITS.items()}
_QUANTA = {code: Decimal(1).scaleb(-digits) for code, digits in MINOR_DIGITS.items()}

if TYPE_CHECKING:
    CurrencyCode = str
else:
    # Made from the table: the decoder refuses any other code, and the schema lists them.
    CurrencyCode = Literal[tuple(MINOR_DIGITS)]


class Money(Decimal):
    """An amount of zero or more, with at most 12 integer and 6 fraction digits."""

    __slots__ = ()


class SignedMoney(Decimal):
    """The same of either sign: a refund is negative."""

    __slots__ = ()


class TooManyDigits(ValueError):
    """A JSON number that no amount of money can hold: right by the schema, wrong by the rule."""

    def __init__(self) -> None:
        super().__init__(f"An amount of money has at most {MAX_FRACTION_DIGITS} fraction digits")


def read_money(value: object) -> Money:
    """A decoded JSON string or number as money; ValueError or TypeError says what is wrong."""
    if type(value) is str:
        if not _AMOUNT.fullmatch(value):
            raise ValueError(
                f'Expected a decimal amount such as "2.50": at most {MAX_INTEGER_DIGITS} integer and '
                f"{MAX_FRACTION_DIGITS} fraction digits, no sign, no exponent"
            )
        return Money(value)
    if type(value) is float or type(value) is int:
        if not 0 <= value <= MAX_AMOUNT:
            raise ValueError(f"Expected an amount from 0 to {MAX_AMOUNT}")
        amount = exact(value) if value else Decimal(0)  # -0 is 0
        if not _AMOUNT.match(format(amount, "f")):
            raise TooManyDigits
        return Money(amount)
    raise TypeError("Expected a decimal string or a number")


def read_signed_money(value: object) -> SignedMoney:
    """The same, with a sign where the amount is below zero."""
    if type(value) is str:
        size = value.removeprefix("-")
        if not _AMOUNT.fullmatch(size):
            raise ValueError(
                f'Expected a decimal amount such as "2.50", or "-2.50" for a refund: at most {MAX_INTEGER_DIGITS} '
                f"integer and {MAX_FRACTION_DIGITS} fraction digits after a point, no plus sign, no exponent"
            )
        return SignedMoney(-Decimal(size) if size != value else size)
    if type(value) is float or type(value) is int:
        if not -MAX_AMOUNT <= value <= MAX_AMOUNT:
            raise ValueError(f"Expected an amount from -{MAX_AMOUNT} to {MAX_AMOUNT}")
        return SignedMoney(-read_money(-value) if value < 0 else read_money(value))
    return SignedMoney(read_money(value))


MONEY_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {
            "type": "string",
            "format": "decimal",
            "pattern": AMOUNT_PATTERN,
            "maxLength": MAX_INTEGER_DIGITS + 1 + MAX_FRACTION_DIGITS,
        },
        {"type": "number", "minimum": 0, "maximum": MAX_AMOUNT},
    ],
}

SIGNED_MONEY_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {
            "type": "string",
            "format": "decimal",
            "pattern": AMOUNT_PATTERN.replace("^", "^-?"),
            "maxLength": MAX_INTEGER_DIGITS + 2 + MAX_FRACTION_DIGITS,
        },
        {"type": "number", "minimum": -MAX_AMOUNT, "maximum": MAX_AMOUNT},
    ],
}


def exact(value: float) -> Decimal:
    """A JSON number by its shortest decimal form, to at most 15 significant digits."""
    if type(value) is not float:
        return Decimal(value)
    shortest = repr(value)
    # So short a text has no more than 15 digits; only the others must be shortened.
    return Decimal(shortest if len(shortest) <= _SHORT else format(value, ".15g"))


def number(value: Decimal) -> float:
    """An exact figure as a JSON number of at most 15 significant digits, as requests are read: the same in every
    spreadsheet and language, and 94.1176470588235 where a quotient has no end."""
    return float(_fifteen_digits(value))


def fifteen_digits(value: float) -> float:
    """A figure that was a float all along, to at most 15 significant digits: `number(exact(value))`."""
    return float(format(value, ".15g")) + 0.0  # -0 is 0


class exact_arithmetic:  # noqa: N801  # used as a function: half the time of decimal.localcontext, which copies
    """Products without rounding, quotients to 100 digits, for the time of a `with`."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = getcontext()
        setcontext(_EXACT)

    def __exit__(self, *_: object) -> None:
        setcontext(self._before)


def to_minor_unit(amount: Decimal, currency: str) -> Decimal:
    """One money line: rounded half-up to the currency's minor unit."""
    return amount.quantize(_QUANTA[currency], ROUND_HALF_UP)


def nothing(currency: str) -> Decimal:
    """A money line of zero."""
    return _NOTHING[currency]


def unit_price(amount: Decimal, currency: str) -> Decimal:
    """A price with its own digits: at least the currency's, at most six."""
    return written(amount.quantize(_MILLIONTH, ROUND_HALF_UP), currency)


def written(amount: Decimal, currency: str) -> Decimal:
    """The same amount without trailing zeros, but never shorter than the currency's minor unit."""
    rounded = amount.quantize(_QUANTA[currency])
    return rounded if rounded == amount else amount.normalize()
