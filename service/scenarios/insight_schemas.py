"""What is asked of stored scenarios, and what is answered: differences, comparisons, prices, months, forecasts."""

import datetime
from decimal import Decimal
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimates.bill_schemas import Day, Exchange, RevisionNumber, TableName
from service.estimator.results import Estimate, Note, Verdict
from service.http.text import LINE_PATTERN, NAME_MAX_LENGTH, NAME_PATTERN, TEXT_PATTERN
from service.money import CurrencyCode, Money
from service.scenarios.arithmetic.actuals import BurnDown
from service.scenarios.arithmetic.attribution import Attribution
from service.scenarios.arithmetic.comparison import FEWEST, MOST
from service.scenarios.arithmetic.forecast import Reforecast
from service.scenarios.arithmetic.phasing import Phasing
from service.scenarios.arithmetic.spreads import Basis, Moment
from service.scenarios.arithmetic.variance import Variance

ScenarioName = Annotated[
    str,
    Meta(pattern=NAME_PATTERN, min_length=1, max_length=NAME_MAX_LENGTH, description="The scenario's name."),
]
RevisionAsked = Annotated[RevisionNumber, Meta(description="Of the scenario; by default the newest.")]


class ConversionRates(Struct, frozen=True, forbid_unknown_fields=True):
    """Rates of exchange as you state them, with their day. No rate is ever looked up."""

    currency: Annotated[CurrencyCode, Meta(description="The currency that totals are converted into.")]
    as_of: Annotated[Day, Meta(description="The day of these rates.", examples=["2027-01-04"])]
    rates: Annotated[
        dict[CurrencyCode, Annotated[Money, Meta(description="Units of `currency` for one unit of this one.")]],
        Meta(max_length=50, description="By the currency converted from.", examples=[{"EUR": "1.08"}]),
    ]
    source: Annotated[str, Meta(max_length=200, pattern=LINE_PATTERN, description="Who states them.")] = ""


class ScenarioRef(Struct, frozen=True, forbid_unknown_fields=True):
    """A stored scenario, or one revision of it."""

    name: ScenarioName
    revision: RevisionAsked | UnsetType = UNSET


class DiffSide(Struct, frozen=True, forbid_unknown_fields=True):
    """One side of a difference. Rates on one side hold for both; other rates on each show what the exchange moved."""

    name: ScenarioName
    revision: RevisionAsked | UnsetType = UNSET
    rates: ConversionRates | UnsetType = UNSET


class DiffRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Two scenarios, or two revisions of one."""

    before: DiffSide
    after: DiffSide


class PointShown(Struct, frozen=True):
    """Which revision a total is of, and what it was when it was stored."""

    name: str
    revision: int
    currency: Annotated[str, Meta(description="Its own.")]
    total: Annotated[Decimal, Meta(description="In its own currency, as stored.")]
    model_version: str
    created_at: Annotated[datetime.datetime, Meta(tz=True, description="When it was stored.")]


class ScenarioDiff(Struct, frozen=True):
    """Why two stored totals differ: effects that add up to the difference to the cent."""

    before: PointShown
    after: PointShown
    attribution: Attribution


class ComparisonRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Two to twenty scenarios or revisions; the first is what the others are compared with."""

    scenarios: Annotated[tuple[ScenarioRef, ...], Meta(min_length=FEWEST, max_length=MOST)]
    rates: Annotated[
        ConversionRates | UnsetType, Meta(description="Into the first one's currency; without a rate it says so.")
    ] = UNSET


class RepriceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """For which day, and whether it is kept."""

    as_of: Annotated[
        Day | UnsetType, Meta(description="The day whose prices are taken; as the request says if absent.")
    ] = UNSET
    save: Annotated[
        bool,
        Meta(
            description="Make it the scenario's newest revision, unless that says the same already; needs the scope "
            "`scenarios:write` and If-Match."
        ),
    ] = False


class Reprice(Struct, frozen=True, forbid_unknown_fields=True):
    """Which prices. With `{}` the newest revision of every table that the scenario reads, by the current model."""

    scenario_revision: Annotated[
        RevisionNumber | UnsetType, Meta(description="Of the scenario; by default the newest. Not with `save`.")
    ] = UNSET
    table: Annotated[TableName, Meta(description="Another price table for the GPU-hours.")] | UnsetType = UNSET
    revision: (
        Annotated[RevisionNumber, Meta(description="Of the price table of the GPU-hours; by default its newest.")]
        | UnsetType
    ) = UNSET
    exchange: Annotated[Exchange | UnsetType, Meta(description="Instead of the one in the scenario.")] = UNSET
    note: Annotated[
        str,
        Meta(
            max_length=2000,
            pattern=TEXT_PATTERN,
            description="Why; kept with the revision that is made, so only with `save`.",
        ),
    ] = ""


class Repriced(Struct, frozen=True):
    """What the scenario comes to with other prices and by the current model, and why that is not what is stored."""

    before: PointShown
    currency: str
    total: Annotated[Decimal, Meta(description="As computed now.")]
    attribution: Attribution
    estimate: Estimate
    saved: Annotated[
        bool, Meta(description="False where nothing was asked to be saved, or nothing was new: then no note is kept.")
    ]
    saved_revision: Annotated[int | None, Meta(description="The revision that it became; null if it was not saved.")]


class PhasingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Of which revision, and how upfront payments are counted."""

    revision: RevisionAsked | UnsetType = UNSET
    basis: Annotated[Basis, Meta(description="Upfront payments when they are paid, or with the hours used.")] = "paid"


class ScenarioPhasing(Struct, frozen=True):
    """A scenario's cost by calendar month (UTC)."""

    name: str
    revision: int
    phasing: Phasing


class ForecastQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """As of which day, by which plan."""

    as_of: Annotated[
        Day | UnsetType,
        Meta(description="Records that end by its first moment (UTC) count; by default those until now."),
    ] = UNSET
    revision: Annotated[RevisionAsked | UnsetType, Meta(description="The plan; by default the newest revision.")] = (
        UNSET
    )
    basis: Annotated[Basis, Meta(description="Of the burn-down: upfront payments when paid, or with hours used.")] = (
        "amortised"
    )


class ScenarioForecast(Struct, frozen=True):
    """A run under way beside its plan: what it will come to, why it differs, and the budget's verdict on that."""

    name: str
    revision: int
    as_of: Moment
    start_at: Annotated[Moment, Meta(description="Of the plan.")]
    forecast: Reforecast
    variance: Variance
    burn_down: BurnDown
    verdict: Annotated[
        Verdict | None,
        Meta(description="On the forecast total and finish; null without a budget, or where nobody can say."),
    ]
    notes: tuple[Note, ...]
