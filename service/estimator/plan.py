"""A run beyond the classic seven fields, in numbers: what `timing` makes hours of, and `bill` lines.

Every field is a Decimal (one estimate, exact up to one division a line), a float, or an array with one number a draw,
so that every formula is written once.
"""

from msgspec import Struct

from service.estimator.cost import Number
from service.estimator.results import Component


class Ratio(Struct, frozen=True):
    """A number that is still to be divided, so that money is divided only once."""

    numerator: Number
    divisor: Number = 1

    @property
    def value(self) -> Number:
        return self.numerator / self.divisor

    def times(self, other: "Ratio") -> Number:
        """The product, divided once."""
        return self.numerator * other.numerator / (self.divisor * other.divisor)

    def plus(self, other: "Ratio") -> "Ratio":
        """The sum, not yet divided."""
        if self.divisor is other.divisor:
            return Ratio(self.numerator + other.numerator, self.divisor)
        numerator = self.numerator * other.divisor + other.numerator * self.divisor
        return Ratio(numerator, self.divisor * other.divisor)


class Failures(Struct, frozen=True, kw_only=True):
    """What goes wrong, in numbers. `spot_per_hour` is of the job with all its nodes on spot capacity,
    `spot_wait_hours` the mean wait of an interruption, `spot_away_hours` how long a node that falls back stays on
    demand."""

    node_count: int
    per_hour: Number
    restart_hours: Number
    checkpoint_hours: Number
    interval_hours: Number
    spot_per_hour: Number = 0.0
    spot_restart_hours: Number = 0.0
    spot_wait_hours: Number = 0.0
    spot_away_hours: Number = 0.0
    fallback_percent: Number = 0.0
    survivors_billed: bool = True
    instability_percent: Number = 0.0
    people_percent: Number = 0.0
    on_spot: bool = False


class Commitment(Struct, frozen=True, kw_only=True):
    """Capacity paid for a term. `left_hours` is what is left of it when the run starts."""

    gpu_count: Number
    term_hours: Number
    left_hours: Number
    rate: Number
    upfront: Number
    overflow_rate: Number | None
    whole_term: bool


class Kept(Struct, frozen=True, kw_only=True):
    """Something of one size that is stored; `hours` is None where it stays as long as the run."""

    component: Component
    description: str
    size_gb: Number
    price_per_gb_month: Number
    hours: Number | None = None


class KeptCheckpoints(Struct, frozen=True, kw_only=True):
    """Checkpoints on disk: the last few, and some for good."""

    size_gb: Number
    every_hours: Number
    keep: int
    archived: int
    price_per_gb_month: Number


class FixedCharge(Struct, frozen=True, kw_only=True):
    """A line whose amount does not depend on how long the run takes."""

    component: Component
    description: str
    quantity: Number
    unit: str
    unit_price: Number
    amount: Number


class Plan(Struct, frozen=True, kw_only=True):
    """A run in numbers. `hours` are ideal hours, divided by `hours_divisor`; `rate` is the price of a GPU-hour."""

    gpu_count: Number
    gpus_per_node: Number
    hours: Number
    hours_divisor: Number
    efficiency_percent: Number
    overhead_percent: Number
    buffer_percent: Number
    failures: Failures | None
    setup_hours: Number
    spare_gpus: Number
    rate: Ratio
    fallback_rate: Number | None
    commitment: Commitment | None
    kept: tuple[Kept, ...]
    kept_checkpoints: KeptCheckpoints | None
    fixed: tuple[FixedCharge, ...]
    discount_percent: Number
    credits: Number
    tax_percent: Number
