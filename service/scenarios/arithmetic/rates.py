"""Exchange rates as somebody stated them, with their date: never a live one, and none where none was given."""

import datetime
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from service.money import CurrencyCode, exact_arithmetic, to_minor_unit


class ExchangeRates(Struct, frozen=True, kw_only=True):
    """What one unit of other currencies costs in one currency, on a date."""

    currency: Annotated[CurrencyCode, Meta(description="The currency that amounts are converted into.")]
    as_of: Annotated[datetime.date, Meta(description="The day of these rates.", examples=["2027-01-04"])]
    rates: Annotated[
        dict[CurrencyCode, Annotated[Decimal, Meta(description="Units of `currency` for one unit of this one.")]],
        Meta(description="By the currency converted from."),
    ]
    source: Annotated[str, Meta(description="Who states them.")]


def find_rate(origin: str, target: str, rates: ExchangeRates | None) -> Decimal | None:
    """Units of `target` for one of `origin`; None where nobody says, for a rate that is not known is not 1."""
    if origin == target:
        return Decimal(1)
    if rates is None or rates.currency != target:
        return None
    return rates.rates.get(origin)


def converted(amount: Decimal, rate: Decimal, currency: str) -> Decimal:
    """An amount at a rate, rounded half-up to the minor unit of the currency that it is converted into."""
    with exact_arithmetic():
        return to_minor_unit(amount * rate, currency)
