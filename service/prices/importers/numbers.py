"""Texts to exact prices, counts and days, each distinct text once; a text that may mean two numbers is refused."""

import datetime
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Literal

from service.money import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS, Money
from service.prices.importers.rows import Reject, shown
from service.prices.importers.schemas import DecimalMark

Mark = Literal["point", "comma"]

MILLIONTH = Decimal(1).scaleb(-MAX_FRACTION_DIGITS)
_LIMIT = Decimal(10) ** MAX_INTEGER_DIGITS
_TOO_MUCH = f"too large for an amount of money, which has at most {MAX_INTEGER_DIGITS} integer digits"
_MAX_REMEMBERED = 20_000
_MAX_LENGTH = 60
_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)
_fifteen_digits = Context(prec=15, rounding=ROUND_HALF_UP).plus
_NOTHING = frozenset({"", "nan", "null", "none", "n/a", "na"})  # how exports write an absent number
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_GROUPED = {
    "point": re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?", re.ASCII),
    "comma": re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]*)?", re.ASCII),
}
_WITH_CURRENCY = re.compile(r"(?:([$€£])|([A-Z]{3}))?\s*([0-9][0-9.,]*)\s*(?:([$€£])|([A-Z]{3}))?")
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP"}
# 1,234 may be a thousand: it is no evidence for either mark.
_THOUSANDS = r"[1-9][0-9]{0,2},[0-9]{3}"
_MAYBE_THOUSANDS = re.compile(_THOUSANDS, re.ASCII)
_COMMA_CELL = re.compile(
    rf'(?:^|[;\t|])\s*"?(?!{_THOUSANDS}(?![0-9]))[0-9]+,[0-9]+"?\s*(?:$|[;\t|])', re.MULTILINE | re.ASCII
)
_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ][0-9:.+Z-]*)?", re.ASCII)


def mark_of(sample: str, delimiter: str | None, asked: DecimalMark) -> Mark:
    """The decimal mark: a comma in a file not separated by commas that has a cell like 2,50; else a point.

    A cell like 1,234 decides nothing.
    """
    if asked != "auto":
        return asked
    return "comma" if delimiter not in {None, ","} and _COMMA_CELL.search(sample) else "point"


def price_per_gpu(instance_price: Decimal, gpu_count: float, field: str) -> Decimal:
    """An instance's price by its GPU count, half-up to a millionth; for TPUs in chips. Reject names the field."""
    quotient = _WIDE.divide(instance_price, Decimal(repr(gpu_count)))
    if quotient >= _LIMIT:
        raise Reject("too_large", field, f"{instance_price:f} by {gpu_count:g} GPUs is {_TOO_MUCH}")
    return quotient.quantize(MILLIONTH, ROUND_HALF_UP, _WIDE).normalize(_WIDE)


def as_money(amount: Decimal, field: str) -> Money:
    """The amount as money: with its own digits where they fit, else half-up to a millionth; Reject names the field.

    What has more than 15 digits is first taken by its 15, so that 3.9492000000000003 means 3.9492.
    """
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -MAX_FRACTION_DIGITS:
        amount = _fifteen_digits(amount).quantize(MILLIONTH, ROUND_HALF_UP, _WIDE)
        amount = amount.normalize(_WIDE)
    if amount >= _LIMIT:
        raise Reject("too_large", field, f"{amount:f} is {_TOO_MUCH}")
    return Money(format(amount, "f"))


def written(amount: Decimal) -> str:
    """An amount in a report: at most six fraction digits."""
    return format(amount.quantize(MILLIONTH, ROUND_HALF_UP, _WIDE).normalize(_WIDE), "f")


class Numbers:
    """The numbers of one file: its decimal mark, whether that is certain, and its currency."""

    def __init__(self, mark: Mark, currency: str, *, certain: bool) -> None:
        self.mark = mark
        self._currency = currency
        self._certain = certain
        self._prices: dict[str, Decimal | None] = {}
        self._counts: dict[str, float | None] = {}

    def price(self, text: str, field: str) -> Decimal | None:
        """An amount of zero or more, None where there is none; Reject."""
        try:
            return self._prices[text]
        except KeyError:
            amount = self._amount(text, field)
            if amount is not None and amount >= _LIMIT:
                raise Reject("too_large", field, f"{shown(text)} is {_TOO_MUCH}") from None
            _remember(self._prices, text, amount)
            return amount

    def count(self, text: str, field: str) -> float | None:
        """A number of things, possibly a fraction; None where there is none; Reject."""
        try:
            return self._counts[text]
        except KeyError:
            number = self._amount(text, field)
            if number is not None and number >= _LIMIT * 10:
                raise Reject("too_large", field, f"{shown(text)} is too large") from None
            value = None if number is None else float(number)
            _remember(self._counts, text, value)
            return value

    def _amount(self, text: str, field: str) -> Decimal | None:
        if text.casefold() in _NOTHING:
            return None
        if len(text) > _MAX_LENGTH:
            raise Reject("not_a_number", field, f"{shown(text)} is not a number")
        plain = self._plain(text, field)
        if plain is None:
            plain = self._without_currency(text, field)
        return Decimal(plain)

    def _plain(self, text: str, field: str) -> str | None:
        """The number with a point, or None; Reject where it may be two numbers."""
        if _GROUPED[self.mark].fullmatch(text):
            group, fraction = (",", ".") if self.mark == "point" else (".", ",")
            if not self._certain and fraction not in text and text.count(group) == 1:
                raise _two_meanings(text, group, field)
            return text.replace(group, "").replace(fraction, ".")
        if self.mark == "comma" and "," in text and "." not in text:
            if not self._certain and _MAYBE_THOUSANDS.fullmatch(text):
                raise _two_meanings(text, ",", field)
            text = text.replace(",", ".", 1)
        elif self.mark == "comma" and "." in text and self._certain:
            return None
        return text if _NUMBER.fullmatch(text) else None

    def _without_currency(self, text: str, field: str) -> str:
        found = _WITH_CURRENCY.fullmatch(text)
        if found and (found[1] or found[2] or found[4] or found[5]):
            currencies = {_SIGNS[sign] for sign in (found[1], found[4]) if sign} | {*found.group(2, 5)} - {None}
            if currencies != {self._currency}:
                raise Reject("other_currency", field, f"{shown(text)} is not in {self._currency}")
            plain = self._plain(found[3], field)
            if plain is not None:
                return plain
        if text.startswith("="):
            raise Reject("formula", field, f"{shown(text)} is a formula, not a number")
        if text.startswith(("-", "\N{MINUS SIGN}")) and self._plain(text[1:], field) is not None:
            raise Reject("negative", field, f"{shown(text)} is negative")
        raise Reject("not_a_number", field, f"{shown(text)} is not a number")


def _two_meanings(text: str, mark: str, field: str) -> Reject:
    return Reject(
        "two_meanings",
        field,
        f"{shown(text)} may be {text.replace(mark, '')} or {text.replace(mark, '.')}; "
        "say which decimal mark the file has, with decimal_mark",
    )


def read_day(text: str, field: str) -> datetime.date | None:
    """An ISO day, or the day of an ISO instant; None where there is none; Reject, for 5/6/2026 is two days."""
    if not text:
        return None
    found = _DAY.fullmatch(text)
    try:
        return datetime.date.fromisoformat(found[1]) if found else _no_day(text, field)
    except ValueError:
        return _no_day(text, field)


def _no_day(text: str, field: str) -> datetime.date:
    raise Reject("not_a_day", field, f"{shown(text)} is not a day written as 2026-10-01")


def _remember(known: dict[str, Decimal | None] | dict[str, float | None], text: str, value: object) -> None:
    """Keep a value, but never more than so many: a file may have a different number in every row."""
    if len(known) >= _MAX_REMEMBERED:
        known.clear()
    known[text] = value  # type: ignore[assignment]
