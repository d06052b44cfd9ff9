"""What a rate looks like, in a file, in a table and on the wire; each brings its source and its dates."""

import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.http.text import LINE_PATTERN
from service.money import Money

MAX_RATES = 200_000
MAX_GPUS_OF_OFFER = 1_000_000
MAX_TIER_GB = 1_000_000_000_000
MAX_TERM_MONTHS = 120

Purchase = Literal["on_demand", "spot", "reserved", "marketplace", "capacity_block"]
Confidence = Literal["high", "medium", "low"]
Route = Literal["internet", "inter_region", "inter_zone", "cdn", "private"]
StorageClass = Literal["object_storage", "object_infrequent", "shared_filesystem"]

# Strict Structs check a text's form where they are decoded; `rules.broken_rule` checks what a schema cannot say.
AcceleratorId = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", min_length=1, max_length=64)]
Line = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=200)]
ShortLine = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=100)]
SourceText = Annotated[str, Meta(pattern=LINE_PATTERN, min_length=1, max_length=500)]
Country = Annotated[str, Meta(pattern="^[A-Z][A-Z]$", min_length=2, max_length=2)]
Day = Annotated[datetime.date, Meta(extra_json_schema={"maxLength": 10})]
GpusOfOffer = Annotated[float, Meta(gt=0, le=MAX_GPUS_OF_OFFER)]
Gigabytes = Annotated[float, Meta(ge=0, le=MAX_TIER_GB)]

ValidFrom = Annotated[
    Day | None,
    Meta(description="The first day on which it holds; null where nobody says.", examples=["2026-10-01"]),
]
ValidTo = Annotated[
    Day | None,
    Meta(description="The first day on which it no longer holds; null where it is open.", examples=["2026-10-01"]),
]
SeenOn = Annotated[
    Day | None,
    Meta(description="The day on which it was read at its source; what makes a price stale.", examples=["2026-09-24"]),
]
Source = Annotated[SourceText, Meta(description="Where it was read.", examples=["AWS EC2 offer file 20260924211011"])]
Trust = Annotated[Confidence, Meta(description="How far the source can be relied on.")]
NoteText = Annotated[SourceText | None, Meta(description="What else to know of it.")]
Region = Annotated[
    ShortLine | None,
    Meta(description="The provider's own name of the region; null where the price holds everywhere or nobody says."),
]


class GpuRate(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False, tag_field="kind", tag="accelerator"
):
    """What one accelerator costs an hour, as one offer has it: a provider, a way to buy, so many GPUs at a time."""

    accelerator_id: Annotated[
        AcceleratorId | None,
        Meta(
            description="Catalogue id; null where the file's name was ambiguous or unknown and stands in "
            "`accelerator_name`.",
            examples=["h100-sxm-80gb"],
        ),
    ] = None
    accelerator_name: Annotated[
        Line | None, Meta(description="What the file called it; required where there is no id.", examples=["H100"])
    ] = None
    provider: Annotated[ShortLine, Meta(description="Who rents it out, in lower case.", examples=["aws"])]
    region: Region = None
    country: Annotated[
        Country | None, Meta(description="Jurisdiction of the region, ISO 3166 alpha-2.", examples=["DE"])
    ] = None
    purchase: Annotated[Purchase, Meta(description="How it is bought.")]
    purchase_word: Annotated[
        ShortLine | None,
        Meta(description="The provider's own word for it, such as secure, community, serverless.", examples=["secure"]),
    ] = None
    term_months: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_TERM_MONTHS)] | None,
        Meta(description="Length of the commitment; null without one or where nobody says.", examples=[12]),
    ] = None
    upfront: Annotated[
        Money | None, Meta(description="Paid at the beginning of the term, for the whole offer.", examples=["1000"])
    ] = None
    commitment: Annotated[
        Line | None, Meta(description="What else is committed to.", examples=["at least 64 GPUs"])
    ] = None
    price_per_gpu_hour: Annotated[
        Money | None,
        Meta(
            description="One accelerator, one hour: the instance's price by its GPU count. Null where it is not known, "
            "which is not 0 and is never chosen.",
            examples=["6.88"],
        ),
    ] = None
    unknown_reason: Annotated[
        Line | None, Meta(description="Why there is no price; given exactly then.", examples=["contact sales"])
    ] = None
    free: Annotated[bool, Meta(description="That a price of 0 is meant.")] = False
    gpu_count: Annotated[
        GpusOfOffer | None,
        Meta(description="Accelerators of the offer, of which one price is made; null if unknown.", examples=[8]),
    ] = None
    instance: Annotated[Line | None, Meta(description="The provider's name of it.", examples=["p5.48xlarge"])] = None
    instance_price_per_hour: Annotated[
        Money | None, Meta(description="The offer as a whole, one hour, as it was read.", examples=["55.04"])
    ] = None
    valid_from: ValidFrom = None
    valid_to: ValidTo = None
    seen_on: SeenOn = None
    source: Source
    confidence: Trust = "medium"
    note: NoteText = None


class StorageRate(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False, tag_field="kind", tag="storage"
):
    """What keeping a decimal GB costs a month, in one tier of the month's volume."""

    storage_class: Annotated[StorageClass, Meta(description="What it is kept in.")]
    provider: Annotated[ShortLine, Meta(description="Who keeps it, in lower case.", examples=["aws"])]
    region: Region = None
    price_per_gb_month: Annotated[Money, Meta(description="One GB (10^9 bytes), one month.", examples=["0.023"])]
    tier_from_gb: Annotated[Gigabytes, Meta(description="Where the tier begins, in GB of the month.", examples=[0])] = 0
    tier_to_gb: Annotated[
        Gigabytes | None, Meta(description="Where it ends; null for the last tier.", examples=[51200])
    ] = None
    valid_from: ValidFrom = None
    valid_to: ValidTo = None
    seen_on: SeenOn = None
    source: Source
    confidence: Trust = "medium"
    note: NoteText = None


class EgressRate(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False, tag_field="kind", tag="egress"
):
    """What a decimal GB costs on its way out, in one tier of the month's volume."""

    route: Annotated[Route, Meta(description="Where to.")]
    provider: Annotated[ShortLine, Meta(description="Whose network it leaves, in lower case.", examples=["aws"])]
    region: Region = None
    tier_from_gb: Annotated[Gigabytes, Meta(description="Where the tier begins, in GB of the month.", examples=[0])] = 0
    tier_to_gb: Annotated[
        Gigabytes | None, Meta(description="Where it ends; null for the last tier.", examples=[10240])
    ] = None
    price_per_gb: Annotated[Money, Meta(description="One GB (10^9 bytes); 0 is a real zero.", examples=["0.09"])]
    valid_from: ValidFrom = None
    valid_to: ValidTo = None
    seen_on: SeenOn = None
    source: Source
    confidence: Trust = "medium"
    note: NoteText = None


Rate = GpuRate | StorageRate | EgressRate
