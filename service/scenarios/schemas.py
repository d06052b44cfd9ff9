"""What stored scenarios, their revisions and the links to them look like from outside."""

import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.estimates.schemas import EstimateRequest
from service.estimator.answers import ExchangeUsed
from service.estimator.results import Estimate, VerdictStatus
from service.http.paging import DEFAULT_LIMIT, Cursor, Limit
from service.http.text import LINE_PATTERN, NAME_MAX_LENGTH, NAME_PATTERN, TEXT_PATTERN
from service.money import CurrencyCode, Money

MAX_LABELS = 32
MAX_SHARE_HOURS = 90 * 24

Description = Annotated[
    str,
    Meta(max_length=2000, pattern=TEXT_PATTERN, description="Free text; no control characters but \\n, \\t."),
]
_LABEL_KEY = "[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?"
LABEL_FILTER_PATTERN = f"^{_LABEL_KEY}:{LINE_PATTERN[1:-2]}{{0,200}}$"
LabelKey = Annotated[str, Meta(pattern=f"^{_LABEL_KEY}$")]
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
Status = Literal["draft", "approved", "archived"]
Line = Annotated[str, Meta(min_length=1, max_length=200, pattern=LINE_PATTERN)]
Owner = Annotated[Line | None, Meta(description="Who answers for it.", examples=["ml-infra@example.com"])]
CostCentre = Annotated[Line | None, Meta(description="What it is charged to.", examples=["4711"])]
PlannedStart = Annotated[
    Annotated[datetime.datetime, Meta(tz=True)] | None,
    Meta(description="When the run is meant to start; kept in UTC.", examples=["2027-04-01T00:00:00Z"]),
]
Note = Annotated[str, Meta(max_length=2000, pattern=TEXT_PATTERN, description="Why; kept with the revision.")]
RevisionNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]
SortKey = Literal[
    "name",
    "-name",
    "created_at",
    "-created_at",
    "updated_at",
    "-updated_at",
    "total",
    "-total",
    "planned_start",
    "-planned_start",
]


class ScenarioBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """What has been set aside for it. It is not part of the request, and changes no answer."""

    amount: Money
    currency: CurrencyCode


class BudgetShown(Struct, frozen=True):
    """What has been set aside for it."""

    amount: Decimal
    currency: str


class BudgetVerdict(Struct, frozen=True):
    """The total against what has been set aside, judged as the budget of a request is by default."""

    status: VerdictStatus
    judged: Annotated[
        Literal["total"],
        Meta(description="The newest revision's total, with the contingency where its request asks for a confidence."),
    ]
    used_percent: Annotated[float | None, Meta(description="Null of a budget of 0.")]
    headroom: Annotated[Decimal, Meta(description="What is left; negative when the budget is exceeded.")]


Judgement = Annotated[
    BudgetVerdict | None,
    Meta(description="On `budget`; null without one, or where the total is in another currency."),
]


class ScenarioWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario as it is saved by PUT: the request whole, the descriptive fields with it."""

    request: EstimateRequest
    description: Description = ""
    labels: Labels = {}
    owner: Owner = None
    cost_centre: CostCentre = None
    planned_start: PlannedStart = None
    budget: ScenarioBudget | None = None
    note: Note = ""


class BudgetPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """A merge patch of a budget: what is not given stays."""

    amount: Money | UnsetType = UNSET
    currency: CurrencyCode | UnsetType = UNSET


class ScenarioPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON merge patch (RFC 7396) of the descriptive fields: null removes. The estimate request is replaced
    whole, by PUT, and the stored answer stays as it is."""

    description: Description | None | UnsetType = UNSET
    labels: Annotated[dict[LabelKey, LabelValue | None], Meta(max_length=2 * MAX_LABELS)] | None | UnsetType = UNSET
    owner: Owner | UnsetType = UNSET
    cost_centre: CostCentre | UnsetType = UNSET
    planned_start: PlannedStart | UnsetType = UNSET
    budget: BudgetPatch | None | UnsetType = UNSET


class ScenarioDuplicate(Struct, frozen=True, forbid_unknown_fields=True):
    """What a copy is called, and why it is made."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=NAME_MAX_LENGTH, pattern=NAME_PATTERN, description="Unique in any case."),
    ]
    note: Note = ""


class RevisionRestore(Struct, frozen=True, forbid_unknown_fields=True):
    """Why an older revision is taken up again."""

    note: Note = ""


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
    revision: Annotated[int, Meta(ge=1, description="The newest, whose request and answer these are.")]
    status: Status
    approved_revision: Annotated[int | None, Meta(description="The one that was approved; null unless it is.")]
    owner: str | None
    cost_centre: str | None
    planned_start: StoredAt | None
    budget: BudgetShown | None
    verdict: Judgement


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
    revision: int
    status: Status
    owner: str | None
    cost_centre: str | None
    planned_start: StoredAt | None
    budget: BudgetShown | None
    verdict: Judgement


class ScenarioPage(Struct, frozen=True):
    """One page of scenarios."""

    items: tuple[ScenarioSummary, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ScenarioQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How to list scenarios."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET
    sort: Annotated[
        SortKey, Meta(description="A leading - reverses. What has no planned start comes after what has one.")
    ] = "name"
    q: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=100,
                pattern=LINE_PATTERN,
                description="Part of a name or a description, in any case.",
            ),
        ]
        | UnsetType
    ) = UNSET
    status: Annotated[Status | UnsetType, Meta(description="Only these.")] = UNSET
    owner: Annotated[Line | UnsetType, Meta(description="Only this owner's.")] = UNSET
    cost_centre: Annotated[Line | UnsetType, Meta(description="Only of this cost centre.")] = UNSET
    label: (
        Annotated[
            str,
            Meta(
                min_length=2,
                max_length=264,
                pattern=LABEL_FILTER_PATTERN,
                description="Only with this label, as `key:value`.",
                examples=["team:llm"],
            ),
        ]
        | UnsetType
    ) = UNSET
    currency: Annotated[CurrencyCode | UnsetType, Meta(description="Only with a total in it.")] = UNSET


class RevisionSummary(Struct, frozen=True):
    """A revision in a list: what came out, from which prices, by whom, when and why."""

    number: int
    currency: str
    total: Decimal
    model_version: str
    price_table: Annotated[str | None, Meta(description="The price table that was read; null if none was.")]
    price_revision: int | None
    price_revision_id: int | None
    price_as_of: Annotated[datetime.date | None, Meta(description="The day whose prices were taken.")]
    exchange: ExchangeUsed | None
    restored_from: Annotated[int | None, Meta(description="The revision whose request and answer these are again.")]
    author: Annotated[str | None, Meta(description="The name of the key that saved it; null if it was not kept.")]
    key_id: str | None
    note: str
    created_at: StoredAt


class ScenarioRevision(Struct, frozen=True):
    """One revision, which never changes: what was asked, what was answered, and from what."""

    scenario: str
    number: int
    currency: str
    total: Decimal
    model_version: str
    price_table: str | None
    price_revision: int | None
    price_revision_id: int | None
    price_as_of: datetime.date | None
    exchange: ExchangeUsed | None
    restored_from: int | None
    author: str | None
    key_id: str | None
    note: str
    created_at: StoredAt
    request: EstimateRequest
    estimate: Estimate


class ScenarioRevisionPage(Struct, frozen=True):
    """One page of revisions, the newest first."""

    items: tuple[RevisionSummary, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ScenarioRevisionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of the list of revisions."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class ShareWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A link as it is asked for."""

    expires_in_hours: Annotated[
        float, Meta(ge=0.01, le=MAX_SHARE_HOURS, description="From now; at most 90 days.", examples=[168])
    ] = 168.0
    revision: Annotated[RevisionNumber, Meta(description="Which it shows; by default the newest.")] | UnsetType = UNSET
    note: Annotated[str, Meta(max_length=200, pattern=LINE_PATTERN, description="For whom it is.")] = ""


class Share(Struct, frozen=True):
    """A link that shows one revision to whoever has it."""

    id: int
    revision: int
    note: str
    author: str
    created_at: StoredAt
    expires_at: StoredAt
    revoked_at: StoredAt | None


class NewShare(Struct, frozen=True):
    """A link that was just made. The token is shown this once: only its SHA-256 is kept."""

    id: int
    revision: int
    note: str
    author: str
    created_at: StoredAt
    expires_at: StoredAt
    revoked_at: StoredAt | None
    token: Annotated[
        str | None,
        Meta(description="Null where the request was sent again with its Idempotency-Key: then make another link."),
    ]
    path: Annotated[str | None, Meta(description="Where it shows, without any key.")]


class SharePage(Struct, frozen=True):
    """One page of links, the newest first."""

    items: tuple[Share, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ShareQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of the list of links."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class SharedRevision(Struct, frozen=True):
    """What a link shows: one revision, and nothing around it."""

    name: str
    revision: int
    request: EstimateRequest
    estimate: Estimate
    created_at: StoredAt
