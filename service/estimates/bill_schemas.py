"""Prices, storage, egress, idle hours and energy of a request where they are more than one amount."""

import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimator.charges import LOAD_PERCENT, OwnedBasis
from service.estimator.inputs import DEFAULT_CURRENCY, Currency, GpuCount, Instant, PriceTerms
from service.http.text import LINE_PATTERN, NAME_MAX_LENGTH, NAME_PATTERN
from service.money import Money
from service.prices.schemas import MAX_TERM_MONTHS, Purchase

Attribution = Literal["used", "term"]

DEFAULT_TABLE = "list-prices"
# What is usual where nobody says; assumed.
LIFE_YEARS = 5.0
UTILISATION_PERCENT = 100.0
PASSES = 1.0
PUE = 1.1
CHECKPOINTS_KEPT = 3
CHECKPOINTS_ARCHIVED = 0
SETUP_HOURS = 0.0
SPARE_NODES = 0


def _usual(value: float) -> Meta:
    """Shows a default in the schema where the code must still tell `given` from `default`."""
    return Meta(extra_json_schema={"default": value})


_CURRENCY_DEFAULT = Meta(extra_json_schema={"default": DEFAULT_CURRENCY})
TableName = Annotated[str, Meta(pattern=NAME_PATTERN, min_length=1, max_length=NAME_MAX_LENGTH)]
RevisionNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Day = Annotated[datetime.date, Meta(extra_json_schema={"maxLength": 10})]
Place = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=100)]
SizeGb = Annotated[float, Meta(ge=0, le=1e12, description="Decimal GB.", examples=[50000.0])]
TermHours = Annotated[float, Meta(ge=0.01, le=1e6, description="Length of the term.", examples=[2160.0])]
AnnualAmount = Annotated[
    Money,
    Meta(
        description="A year, for the whole cluster; left out it is unknown, and missing from the fully loaded figure.",
        examples=["250000"],
    ),
]


class CommitmentPrice(
    PriceTerms, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="commitment", tag_field="kind"
):
    """Capacity that is paid for its whole term, used or not; what goes over it, or past its end, costs `overflow`."""

    amount: Annotated[Money, Meta(description="Price of a committed GPU-hour.", examples=["2.50"])]
    currency: Annotated[Currency | UnsetType, _CURRENCY_DEFAULT] = UNSET
    gpu_count: GpuCount
    term_hours: TermHours
    term_start: Annotated[
        Instant | UnsetType, Meta(description="When the term began; by default with the run. Needs `start_at`.")
    ] = UNSET
    upfront: (
        Annotated[
            Money,
            Meta(description="Paid at once for the whole term; by default nothing.", examples=["100000"]),
        ]
        | UnsetType
    ) = UNSET
    overflow_amount: (
        Annotated[
            Money,
            Meta(
                description="Price of a GPU-hour beyond the commitment; needed as soon as something is.",
                examples=["3.90"],
            ),
        ]
        | UnsetType
    ) = UNSET
    attribution: Annotated[
        Attribution,
        Meta(description="Bill the run for what it uses, or for the whole term, unused hours included."),
    ] = "used"


class OwnedPrice(
    PriceTerms, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="owned", tag_field="kind"
):
    """Hardware that was bought: three figures, of which `basis` is the one that is billed."""

    capex: Annotated[Money, Meta(description="Paid for the whole cluster, network included.", examples=["20000000"])]
    currency: Annotated[Currency | UnsetType, _CURRENCY_DEFAULT] = UNSET
    gpu_count: Annotated[
        GpuCount | UnsetType,
        Meta(description="Accelerators that were bought; by default those of the run and its spares."),
    ] = UNSET
    life_years: (
        Annotated[float, Meta(ge=0.1, le=50, description="Written off over.", examples=[5.0]), _usual(LIFE_YEARS)]
        | UnsetType
    ) = UNSET
    capital_percent_per_year: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=100,
                description="Cost of the money in it, on the mean book value; left out it is unknown, and missing from "
                "the fully loaded figure.",
                examples=[8.0],
            ),
        ]
        | UnsetType
    ) = UNSET
    energy_amount_per_kwh: Annotated[Money, Meta(description="Price of a kWh.", examples=["0.0826"])]
    colocation_per_year: AnnualAmount | UnsetType = UNSET
    support_per_year: AnnualAmount | UnsetType = UNSET
    staff_per_year: AnnualAmount | UnsetType = UNSET
    utilisation_percent: (
        Annotated[
            float,
            Meta(ge=1, le=100, description="Hours of a year that do any work; the others are borne by these."),
            _usual(UTILISATION_PERCENT),
        ]
        | UnsetType
    ) = UNSET
    basis: Annotated[
        OwnedBasis,
        Meta(
            description="`cash`: what the run adds, energy. `book`: and depreciation. `loaded`: and capital, "
            "colocation, support, staff and idle hours."
        ),
    ] = "loaded"


class TablePrice(
    PriceTerms, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="table", tag_field="kind"
):
    """The one rate of a price table that answers (`GET /v1/price-tables/{name}/choice`), by this accelerator, this many
    of them, and how they are bought. A run that crosses a change of the rate after `as_of` pays each for its time."""

    table: Annotated[TableName, Meta(description="The price table's name.")] = DEFAULT_TABLE
    revision: Annotated[RevisionNumber, Meta(description="Of the table; by default the newest.")] | UnsetType = UNSET
    as_of: (
        Annotated[Day, Meta(description="Whose prices hold; by default the day of `start_at`, else today.")] | UnsetType
    ) = UNSET
    purchase: Annotated[Purchase, Meta(description="How it is bought; marketplace only if asked for.")] = "on_demand"
    provider: Annotated[Place, Meta(description="Only of this provider.", examples=["aws"])] | UnsetType = UNSET
    region: Annotated[Place, Meta(description="Only of this region, or without one.")] | UnsetType = UNSET
    jurisdiction: (
        Annotated[str, Meta(pattern="^[A-Z][A-Z]$", max_length=2, description="Only under it, ISO 3166 alpha-2.")]
        | UnsetType
    ) = UNSET
    term_months: (
        Annotated[float, Meta(gt=0, le=MAX_TERM_MONTHS, description="Only commitments of this length.")] | UnsetType
    ) = UNSET


class TableTiers(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Read the tiers of a provider from a price table, instead of giving them."""

    table: Annotated[TableName, Meta(description="The price table's name.")] = DEFAULT_TABLE
    revision: Annotated[RevisionNumber, Meta(description="Of the table; by default the newest.")] | UnsetType = UNSET
    as_of: (
        Annotated[Day, Meta(description="Whose prices hold; by default the day of `start_at`, else today.")] | UnsetType
    ) = UNSET
    provider: Annotated[Place, Meta(description="Whose prices.", examples=["aws"])]
    region: Annotated[Place, Meta(description="Of this region, or without one.")] | UnsetType = UNSET


class Exchange(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Turn what is read from price tables into the currency of the estimate, by a rate that you give. No rate is ever
    looked up."""

    from_currency: Annotated[Currency, Meta(description="Of the price tables.")]
    to_currency: Annotated[Currency, Meta(description="Of the estimate.")]
    rate: Annotated[Money, Meta(description="How much of the latter one of the former is.", examples=["0.92"])]
    as_of: Annotated[Day, Meta(description="The day of the rate.", examples=["2026-11-02"])]


class CheckpointStorage(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Checkpoints that stay on disk: the last few, and every so many for good."""

    size_gb: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=1e9,
                description="Of one; by default 14 bytes a parameter of the model, 12 in FP32.",
                examples=[988.0],
            ),
        ]
        | UnsetType
    ) = UNSET
    every_hours: (
        Annotated[
            float,
            Meta(ge=0.001, le=1e6, description="Between two; by default the interval of `rework`.", examples=[3.0]),
        ]
        | UnsetType
    ) = UNSET
    keep: (
        Annotated[int, Meta(ge=0, le=1_000_000, description="How many of the last stay."), _usual(CHECKPOINTS_KEPT)]
        | UnsetType
    ) = UNSET
    archived: (
        Annotated[
            int,
            Meta(ge=0, le=1_000_000, description="How many of those written are kept for good, evenly over the run."),
            _usual(CHECKPOINTS_ARCHIVED),
        ]
        | UnsetType
    ) = UNSET


class MeteredStorage(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="metered", tag_field="kind"
):
    """Storage by size and time: data set and checkpoints in an object store, and a shared filesystem."""

    price_per_gb_month: (
        Annotated[
            Money,
            Meta(
                description="Of the object store; or say `from_table`. A shared filesystem alone needs none.",
                examples=["0.023"],
            ),
        ]
        | UnsetType
    ) = UNSET
    from_table: Annotated[
        TableTiers | UnsetType, Meta(description="Read both prices from a price table, by the tiers of the size.")
    ] = UNSET
    dataset_gb: SizeGb = 0.0
    dataset_hours: (
        Annotated[float, Meta(ge=0, le=1e6, description="Kept so long; by default as long as the run.")] | UnsetType
    ) = UNSET
    checkpoints: CheckpointStorage | UnsetType = UNSET
    filesystem_gb: Annotated[SizeGb, Meta(description="A shared filesystem of this size, for the run.")] = 0.0
    filesystem_price_per_gb_month: (
        Annotated[Money, Meta(description="Of the filesystem; needed with its size.", examples=["0.145"])] | UnsetType
    ) = UNSET

    @property
    def is_filesystem_alone(self) -> bool:
        """Whether nothing of it lies in the object store."""
        return bool(self.filesystem_gb) and not self.dataset_gb and self.checkpoints is UNSET


class EgressTier(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """A price up to an absolute monthly boundary; the last tier has none."""

    up_to_gb: Annotated[float, Meta(ge=0.001, le=1e12)] | None = None
    price_per_gb: Annotated[Money, Meta(description="0 is free.", examples=["0.09"])]


class MeteredEgress(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="metered", tag_field="kind"
):
    """Egress by volume: the data set as often as it crosses the boundary, and what is taken out."""

    dataset_gb: SizeGb = 0.0
    passes: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=10_000,
                description="Readings across the boundary: 0 beside the data, 1 if cached, else epochs.",
            ),
            _usual(PASSES),
        ]
        | UnsetType
    ) = UNSET
    exported_gb: Annotated[SizeGb, Meta(description="Checkpoints and results taken out.")] = 0.0
    used_gb: Annotated[SizeGb, Meta(description="What the month had already used of the tiers.")] = 0.0
    route: Annotated[
        Literal["internet", "inter_region", "inter_zone", "private"], Meta(description="Where it goes, for the record.")
    ] = "internet"
    tiers: (
        Annotated[
            tuple[EgressTier, ...],
            Meta(
                min_length=1,
                max_length=20,
                description="Ascending; only the last one has no boundary. Or say `from_table`.",
            ),
        ]
        | UnsetType
    ) = UNSET
    from_table: Annotated[
        TableTiers | UnsetType, Meta(description="Read the tiers of this route from a price table.")
    ] = UNSET


class Idle(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """What is billed and computes nothing."""

    setup_hours: (
        Annotated[
            float,
            Meta(ge=0, le=100_000, description="From provisioning to the first step.", examples=[4.0]),
            _usual(SETUP_HOURS),
        ]
        | UnsetType
    ) = UNSET
    spare_nodes: (
        Annotated[int, Meta(ge=0, le=100_000, description="Nodes that stand by.", examples=[2]), _usual(SPARE_NODES)]
        | UnsetType
    ) = UNSET


class Energy(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Ask for energy and emissions. What is not said is usual: three quarters of the power limit, in a hyperscaler's
    building."""

    pue: (
        Annotated[float, Meta(ge=1, le=3, description="Power usage effectiveness of the building."), _usual(PUE)]
        | UnsetType
    ) = UNSET
    load_percent: (
        Annotated[float, Meta(ge=1, le=100, description="Mean draw, of the power limit."), _usual(LOAD_PERCENT)]
        | UnsetType
    ) = UNSET
    grams_per_kwh: (
        Annotated[float, Meta(ge=0, le=2000, description="CO2e of the grid; left out, no emissions.", examples=[57.0])]
        | UnsetType
    ) = UNSET
    tdp_watts: (
        Annotated[float, Meta(ge=1, le=100_000, description="Power limit, where the catalogue has none.")] | UnsetType
    ) = UNSET
    server_power_ratio: (
        Annotated[float, Meta(ge=1, le=5, description="Power of the server over that of its accelerators.")] | UnsetType
    ) = UNSET
