"""The facts of one offer to its rates: on demand and spot, per accelerator-hour, with what is doubtful remarked."""

import datetime
from decimal import Decimal
from typing import NamedTuple

from service.money import Money
from service.prices.importers.context import Context
from service.prices.importers.fields import TextField
from service.prices.importers.names import Match
from service.prices.importers.numbers import as_money, price_per_gpu, written
from service.prices.importers.places import country_of
from service.prices.importers.rows import Reject, Remark
from service.prices.schemas import Confidence, GpuRate, Purchase

NO_PRICE = "The file gives no price"
ZERO_PRICE = "The file says 0, which is no price"
# Between a price given per GPU and the instance's price by its count: more than rounding.
_PRICES_DIFFER = Decimal("0.01")
_MAX_GPUS = 1_000_000


class Asked(NamedTuple):
    """One price as the file has it: per GPU, or for the instance, or both; and what its fields begin with."""

    per_gpu: Decimal | None
    per_instance: Decimal | None
    which: str = ""

    @property
    def absent(self) -> bool:
        return not self.per_gpu and not self.per_instance

    @property
    def field(self) -> str:
        """The field that the price of a GPU is from."""
        return f"{self.which}price_per_gpu_hour" if self.per_gpu else self.instance_field

    @property
    def instance_field(self) -> str:
        return f"{self.which}instance_price_per_hour"

    @property
    def zero(self) -> bool:
        return self.absent and (self.per_gpu is not None or self.per_instance is not None)


class Offer(NamedTuple):
    """What is said of an offer, whoever sells it at whatever price. Texts are as the file has them."""

    name: str
    match: Match
    provider: str
    region: str
    country: str
    gpu_count: float | None
    instance: str
    term_months: float | None
    upfront: Decimal | None
    commitment: str
    valid_from: datetime.date | None
    valid_to: datetime.date | None
    seen_on: datetime.date | None
    source: str
    confidence: Confidence
    note: str


class Offers:
    """Offers of one file to rates."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._provider = TextField(GpuRate, "provider")
        self._region = TextField(GpuRate, "region")
        self._country = TextField(GpuRate, "country")
        self._word = TextField(GpuRate, "purchase_word", called="purchase")
        self._name = TextField(GpuRate, "accelerator_name", called="accelerator")
        self._commitment = TextField(GpuRate, "commitment")
        self._instance = TextField(GpuRate, "instance")
        self._source = TextField(GpuRate, "source")
        self._note = TextField(GpuRate, "note")

    def rate(self, offer: Offer, purchase: Purchase, word: str | None, asked: Asked, remarks: list[Remark]) -> GpuRate:
        """The rate at this price; a price of 0 is unknown unless the user says that it is free."""
        if offer.gpu_count is not None and not 0 < offer.gpu_count <= _MAX_GPUS:
            raise Reject("invalid", "gpu_count", f"{offer.gpu_count:g} GPUs are no offer")
        price, reason = self._price(offer, asked, remarks)
        matched = offer.match.accelerator_id is not None
        doubt = price and self._context.doubt(offer.match, price, asked.field, "kept, with low confidence")
        if doubt:
            remarks.append(doubt)
        region = self._region(offer.region)
        spot = purchase == "spot"
        return GpuRate(
            accelerator_id=offer.match.accelerator_id,
            accelerator_name=None if matched else self._name.required(offer.name),
            provider=self._provider.required(offer.provider.lower()),
            region=region,
            country=self._country(offer.country) or (country_of(region) if region else None),
            purchase=purchase,
            purchase_word=self._word(word or ""),
            term_months=None if spot else offer.term_months,
            upfront=None if spot or offer.upfront is None else as_money(offer.upfront, "upfront"),
            commitment=self._commitment(offer.commitment),
            price_per_gpu_hour=price,
            unknown_reason=reason,
            free=price is not None and not price,
            gpu_count=offer.gpu_count,
            instance=self._instance(offer.instance),
            instance_price_per_hour=None
            if asked.per_instance is None or reason
            else as_money(asked.per_instance, asked.instance_field),
            valid_from=offer.valid_from,
            valid_to=offer.valid_to,
            seen_on=offer.seen_on,
            source=self._source.required(offer.source),
            confidence="low" if doubt else offer.confidence,
            note=self._note(offer.note),
        )

    def _price(self, offer: Offer, asked: Asked, remarks: list[Remark]) -> tuple[Money | None, str | None]:
        if asked.zero:
            return (Money(0), None) if self._context.options.free_is_real else (None, ZERO_PRICE)
        derived = None
        if asked.per_instance:
            if offer.gpu_count is None:
                if not asked.per_gpu:
                    raise Reject(
                        "missing", "gpu_count", "An instance's price without its number of GPUs is no GPU's price"
                    )
            else:
                derived = price_per_gpu(asked.per_instance, offer.gpu_count, asked.instance_field)
        per_gpu = asked.per_gpu or derived
        if per_gpu is None:
            return None, NO_PRICE
        if asked.per_gpu and derived is not None and abs(derived - asked.per_gpu) > _PRICES_DIFFER * asked.per_gpu:
            remarks.append(
                (
                    "prices_differ",
                    asked.field,
                    f"{written(asked.per_gpu)} a GPU, but the instance's price by its count is {written(derived)}",
                )
            )
        price = as_money(per_gpu, asked.field)
        if price != per_gpu:
            self._context.note("rounded")
        return (price, None) if price else (None, ZERO_PRICE)
