"""What an estimate says beyond cost and duration, where it applies: performance, memory, reliability, risk and more.

As in `results`, nothing here can be part of a cycle (`gc=False`); a figure that is not known is null, never 0.
"""

import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.estimator.collectives import Sharding
from service.estimator.compute import Recompute
from service.estimator.utilisation import Method, Regime

FlopsBasis = Literal["shape", "6nd"]


class UsedLayout(Struct, frozen=True, gc=False):
    """How the model is split, as given or as found."""

    given: Annotated[bool, Meta(description="Given in the request; else the fastest that fits, found by search.")]
    tensor: int
    pipeline: int
    interleave: int
    context: int
    data: Annotated[int, Meta(description="Replicas.")]
    microbatch: int
    global_batch_sequences: int
    sharding: Sharding
    recompute: Recompute


class StepTime(Struct, frozen=True, gc=False):
    """One step of the analytic model, by part; `total_seconds` is their sum. It is a step of full training in BF16:
    what the throughput has besides (a tenth less for a searched layout, FP8, adapters, a measured point) is not in it.
    """

    total_seconds: float
    compute_seconds: float
    tensor_communication_seconds: float
    pipeline_communication_seconds: float
    bubble_seconds: float
    exposed_data_parallel_seconds: float
    optimizer_seconds: float
    waiting_percent: Annotated[
        float, Meta(description="The share of it in which nothing is computed: exchange that shows, and the bubble.")
    ]


class SpreadOfRate(Struct, frozen=True, gc=False):
    """How far the throughput may be off."""

    sigma_ln: Annotated[float, Meta(description="Standard deviation of the logarithm of real over predicted.")]
    p10_percent: Annotated[float, Meta(description="P10 of the throughput, in percent of the prediction.")]
    p90_percent: Annotated[float, Meta(description="P90 of the throughput, in percent of the prediction.")]
    source: str


class ComputeOptimal(Struct, frozen=True, gc=False):
    """What the same FLOPs would train with the least loss (Besiroglu et al. 2024, the refit of Hoffmann et al.)."""

    parameters: float
    tokens: float
    tokens_per_parameter: float
    loss: float
    run_tokens_per_parameter: Annotated[float, Meta(description="Of this run.")]
    run_loss: Annotated[float, Meta(description="Of this run, in nats a token on the law's own data.")]


class Performance(Struct, frozen=True, gc=False):
    """How fast the run is, and how that is known."""

    method: Annotated[Method, Meta(description="What the throughput rests on.")]
    regimes: Annotated[
        tuple[Regime, ...], Meta(description="What no published table covers here; each widens the spread.")
    ]
    spread: SpreadOfRate
    precision: str | None
    peak_tflops_per_gpu: Annotated[float | None, Meta(description="Dense, at this precision.")]
    parameters: float | None
    active_parameters: float | None
    trained_tokens: float
    flops_basis: Annotated[
        FlopsBasis | None, Meta(description="By the shape, attention included, or 6ND; null by throughput alone.")
    ]
    attention: Annotated[
        Literal["full", "causal", "none"] | None, Meta(description="How much of the attention matrix the FLOPs count.")
    ]
    flops_per_token: float | None
    model_flops: float | None
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    achieved_tflops_per_gpu: float | None
    step_mfu_percent: Annotated[
        float | None, Meta(description="Of productive hours; null where only the billed one is known.")
    ]
    step_hfu_percent: Annotated[
        float | None, Meta(description="With what is recomputed; null where the recompute mode is not known.")
    ]
    billed_mfu_percent: Annotated[
        float | None,
        Meta(description="Of every GPU-hour that is billed: what remains after overhead, rework and idle."),
    ]
    layout: UsedLayout | None
    step: StepTime | None
    compute_optimal: ComputeOptimal | None


class Memory(Struct, frozen=True, gc=False):
    """What the fullest GPU holds, in bytes by part, and the fewest GPUs that can hold it."""

    fits: bool
    reason: Annotated[str | None, Meta(description="Why it does not fit, and what would; null if it fits.")]
    basis: Annotated[
        Literal["layout_given", "layout_searched", "fully_sharded", "parameters_only"],
        Meta(
            description="Which split was counted; the last two share everything over all GPUs, `fully_sharded` with "
            "pipeline stages only where nothing fits without."
        ),
    ]
    capacity_bytes: Annotated[float, Meta(description="Usable memory of one GPU.")]
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: Annotated[
        float | None,
        Meta(
            description="Null where no shape says it. FP32 and TF32 take twice what 16 bits do; FP8 and FP4 as much as "
            "16 bits, for only matrix products are narrower."
        ),
    ]
    logits_bytes: float | None
    reserve_bytes: float
    total_bytes: float
    used_percent: float
    recompute: Recompute | None
    smallest_gpu_count: Annotated[
        int | None,
        Meta(
            description="The fewest GPUs on which the model can be trained with what the request fixes: with its "
            "layout, in as few replicas as fit; without one, with the best split that a search would try (one sequence "
            "at a time, most recompute unless a mode is given); by parameters alone, without activations. Part of a "
            "node, or whole nodes, or this count if it fits and is fewer; whether the batch divides is not asked. Null "
            "if none do."
        ),
    ]
    checkpoint_bytes: Annotated[
        float | None, Meta(description="A checkpoint to resume from; null where no shape says how large adapters are.")
    ]


class CauseOfRework(Struct, frozen=True, gc=False):
    """Hours lost to one cause."""

    cause: Literal["checkpoints", "hardware", "spot", "spot_wait", "instability", "people"]
    hours: float
    percent: Annotated[float, Meta(description="Of the productive hours and their overhead.")]


class TimeQuantiles(Struct, frozen=True, gc=False):
    """Hours from start to end that the run stays under with this chance, by the chance of failures alone."""

    p50_hours: float
    p80_hours: float
    p90_hours: float
    p95_hours: float


class Reliability(Struct, frozen=True, gc=False):
    """Failures, and what they cost."""

    preset: str
    mean_time_to_failure_hours: Annotated[float | None, Meta(description="Of the whole job; null if nothing fails.")]
    expected_failures: float
    expected_spot_interruptions: float
    checkpoint_seconds: float
    checkpoint_interval_minutes: float
    optimal_interval_minutes: Annotated[float | None, Meta(description="The interval that costs least.")]
    restart_minutes: float
    effective_training_time_percent: Annotated[
        float, Meta(description="ETTR, goodput: productive hours and overhead over the hours with rework.")
    ]
    equivalent_rework_percent: Annotated[
        float, Meta(description="The typed percent that would have given the same hours.")
    ]
    causes: tuple[CauseOfRework, ...]
    completion: TimeQuantiles


class CommitmentUse(Struct, frozen=True, gc=False):
    """What of a commitment the run uses."""

    term_gpu_hours: float
    term_cost: Decimal
    used_gpu_hours: float
    used_cost: Decimal
    unused_gpu_hours: float
    unused_cost: Decimal
    overflow_gpu_hours: float
    overflow_cost: Annotated[Decimal | None, Meta(description="Null where no price beyond the commitment was given.")]
    run_ends_within_term: bool
    break_even_utilisation_percent: Annotated[
        float | None, Meta(description="From this use of the term on it is cheaper than the price beyond it.")
    ]


class OwnedCost(Struct, frozen=True, gc=False):
    """Three answers to what a run costs on hardware that was bought; each holds the one before."""

    cash_increment: Annotated[Decimal, Meta(description="What the run adds: energy.")]
    book: Annotated[Decimal, Meta(description="And depreciation of its hours.")]
    fully_loaded: Annotated[Decimal, Meta(description="And capital, colocation, support, staff and idle hours.")]
    billed: Literal["cash", "book", "loaded"]


class EnergyUse(Struct, frozen=True, gc=False):
    """Energy at the meter, and its emissions."""

    energy_kwh: float
    emissions_tonnes: Annotated[float | None, Meta(description="CO2e; null where the grid's grams are not given.")]
    tdp_watts: float
    server_power_ratio: float
    load_percent: float
    pue: float


class BreakEven(Struct, frozen=True, gc=False):
    """One way to buy against another, and from where on it is cheaper."""

    option: Literal["spot_against_on_demand", "reserved_against_on_demand"]
    threshold_percent: Annotated[
        float, Meta(description="Spot: the discount; reserved: the use of the term; from which on it is cheaper.")
    ]
    actual_percent: Annotated[
        float | None, Meta(description="The discount of these prices; null where the use of a term is not known.")
    ]
    cheaper: Annotated[bool | None, Meta(description="Whether it is, on these figures.")]


class CostQuantiles(Struct, frozen=True, gc=False):
    """Quantiles of what is paid."""

    p10: Decimal
    p50: Decimal
    p80: Decimal
    p90: Decimal
    p95: Decimal


class DayQuantiles(Struct, frozen=True, gc=False):
    """Quantiles of the days from start to end."""

    p10_days: float
    p50_days: float
    p80_days: float
    p90_days: float
    p95_days: float


class FinishQuantiles(Struct, frozen=True, gc=False):
    """Quantiles of the finish."""

    p10: Annotated[datetime.datetime, Meta(tz=True)]
    p50: Annotated[datetime.datetime, Meta(tz=True)]
    p80: Annotated[datetime.datetime, Meta(tz=True)]
    p90: Annotated[datetime.datetime, Meta(tz=True)]
    p95: Annotated[datetime.datetime, Meta(tz=True)]


class VarianceShare(Struct, frozen=True, gc=False):
    """How much of the spread of the cost one input explains: its squared correlation, by logarithms."""

    input: str
    percent: float
    spread: Annotated[str, Meta(description="What was drawn for it, and where that comes from.")]


class Risk(Struct, frozen=True, gc=False):
    """The distribution of cost and time. The same request gets the same bytes."""

    samples: int
    seed: int
    mean_cost: Annotated[
        Decimal | None,
        Meta(
            description="Of the draws; above the expected cost where inputs err upwards by more. Null where it "
            "cannot be said: one draw in a hundred, the largest, make up more than half of it, or it is more than an "
            "amount can be."
        ),
    ]
    mean_days: Annotated[float | None, Meta(description="Of the draws; null where it cannot be said, as `mean_cost`.")]
    cost: CostQuantiles
    days: DayQuantiles
    finish_at: Annotated[FinishQuantiles | None, Meta(description="Null without `start_at`.")]
    chance_over_budget_percent: Annotated[float | None, Meta(description="Null without a budget's amount.")]
    chance_after_deadline_percent: Annotated[float | None, Meta(description="Null without a deadline.")]
    variance_shares: tuple[VarianceShare, ...]


class RateUsed(Struct, frozen=True, gc=False):
    """A rate of a price table, in short and in the table's currency."""

    provider: str
    region: str | None
    country: str | None
    purchase: str
    price_per_gpu_hour: Annotated[Decimal, Meta(description="Without what is paid at once.")]
    gpu_count: Annotated[float | None, Meta(description="GPUs of the offer.")]
    instance: str | None
    source: str
    confidence: str
    term_months: float | None
    upfront: Annotated[
        Decimal | None, Meta(description="Paid at once for the whole offer; `price.amount` spreads it over the term.")
    ]


class RateSegment(Struct, frozen=True, gc=False):
    """A piece of the run at one price, in the estimate's currency."""

    starts_at: Annotated[datetime.datetime, Meta(tz=True)]
    ends_at: Annotated[datetime.datetime, Meta(tz=True)]
    price_per_gpu_hour: Annotated[Decimal, Meta(description="With what is paid at once spread over the term.")]
    offer_ended: Annotated[bool, Meta(description="The offer is over by then, and its last rate was taken on.")]


class RevisionUsed(Struct, frozen=True, gc=False):
    """Which revision of which price table was read, for which day."""

    table: str
    revision: int
    revision_id: int
    currency: str
    as_of: Annotated[datetime.date, Meta(description="The day whose prices were taken.")]


class PriceUsed(Struct, frozen=True, gc=False):
    """The rate that answered, and what it was better than."""

    revision: RevisionUsed
    rate: RateUsed
    age_days: Annotated[int | None, Meta(description="Since it was read at its source; null if unknown.")]
    candidate_count: int
    beaten: Annotated[tuple[RateUsed, ...], Meta(description="The next best, at most five.")]
    segments: Annotated[
        tuple[RateSegment, ...], Meta(description="Where the rate changes during the run; empty if it does not.")
    ]


class TiersUsed(Struct, frozen=True, gc=False):
    """Tiers that were read from a price table."""

    revision: RevisionUsed
    provider: str
    region: str | None
    source: str
    age_days: Annotated[int | None, Meta(description="Since the oldest of them was read; null if unknown.")]


class ExchangeUsed(Struct, frozen=True, gc=False):
    """The rate of exchange that was given."""

    from_currency: str
    to_currency: str
    rate: Decimal
    as_of: datetime.date


class PricesUsed(Struct, frozen=True, gc=False):
    """What was read from price tables; null where it was not."""

    price: PriceUsed | None
    storage: TiersUsed | None
    filesystem: TiersUsed | None
    egress: TiersUsed | None
    exchange: ExchangeUsed | None


class Symbol(Struct, frozen=True, gc=False):
    """One symbol of a formula, and the number that stands for it."""

    symbol: str
    meaning: str
    value: float
    unit: str


class Explanation(Struct, frozen=True, gc=False):
    """One formula that was used, with its numbers put in, and its result."""

    name: Annotated[str, Meta(description="What the result is, in words.")]
    field: Annotated[
        str | None,
        Meta(
            description="Where the result stands in the answer; a list's element is named by its component, cause, "
            "option, input or field if that is its own, else by its index. Null for a part of another formula.",
            examples=["duration.wall_clock_hours", "cost.lines[compute].amount"],
        ),
    ]
    formula: Annotated[
        str,
        Meta(
            description="Arithmetic in Python's syntax, with exp, sqrt, log, min, max, ceil and lambert_w0.",
            examples=["H / (e / 100)"],
        ),
    ]
    symbols: tuple[Symbol, ...]
    substituted: Annotated[
        str, Meta(description="The formula with numbers in the place of its symbols.", examples=["120 / (80 / 100)"])
    ]
    result: Annotated[float, Meta(description="Of the unrounded numbers, to 15 digits.")]
    unit: str
    rounding: Annotated[str | None, Meta(description="From the result to the field; null if it is not rounded.")]
    source: str
