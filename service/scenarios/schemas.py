"""What a stored scenario looks like from outside: written, read, listed, patched."""

import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimates.schemas import EstimateRequest
from service.estimator.results import Estimate
from service.http.paging import DEFAULT_LIMIT, Cursor, Limit
from service.http.text import LINE_PATTERN, TEXT_PATTERN

MAX_LABELS = 32

Description = Annotated[
    str,
    Meta(max_length=2000, pattern=TEXT_PATTERN, description="Free text; no control characters but \\n, \\t."),
]
LabelKey = Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?$")]
LabelValue = Annotated[str, Meta(max_length=200, pattern=LINE_PATTERN)]
Labels = Annotated[
    dict[LabelKey, LabelValue],
    Meta(
        max_length=MAX_LABELS,
        description="Up to 32 labels, as in `team: research`.",
        examples=[{"team": "llm"}],
    ),
]
StoredAt = Annotated[datetime.datetime, Meta(tz=True, description="UTC, set by the service.")]
SortKey = Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"]


class ScenarioWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario as it is saved by PUT: the request whole, the descriptive fields with it."""

    request: EstimateRequest
    description: Description = ""
    labels: Labels = {}


class ScenarioPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON merge patch (RFC 7396) of the descriptive fields: null removes. The estimate request is replaced
    whole, by PUT, and the stored answer stays as it is."""

    description: Description | None | UnsetType = UNSET
    labels: Annotated[dict[LabelKey, LabelValue | None], Meta(max_length=2 * MAX_LABELS)] | None | UnsetType = UNSET


class Scenario(Struct, frozen=True):
    """A stored scenario: what was asked, and what was answered when it was saved, unchanged since."""

    name: str
    description: str
    labels: dict[str, str]
    request: EstimateRequest
    estimate: Estimate
    version: Annotated[int, Meta(ge=1, description="1 when created, one more with each change.")]
    model_version: str
    created_at: StoredAt
    updated_at: StoredAt


class ScenarioSummary(Struct, frozen=True):
    """A scenario in a list."""

    name: str
    description: str
    labels: dict[str, str]
    currency: str
    total: Annotated[Decimal, Meta(description="The total when it was saved.")]
    version: int
    etag: Annotated[str, Meta(description="The ETag to send as If-Match.")]
    model_version: str
    created_at: StoredAt
    updated_at: StoredAt


class ScenarioPage(Struct, frozen=True):
    """One page of scenarios."""

    items: tuple[ScenarioSummary, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ScenarioQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How to list scenarios."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET
    sort: Annotated[SortKey, Meta(description="A leading - reverses.")] = "name"
    q: (
        Annotated[
            str, Meta(min_length=1, max_length=100, pattern=LINE_PATTERN, description="Part of a name, in any case.")
        ]
        | UnsetType
    ) = UNSET
