"""What projects, keys and the audit log look like from outside: written, read, listed."""

import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from service.access.keys import KEY_ID_PATTERN
from service.http.paging import DEFAULT_LIMIT, Cursor, Limit
from service.http.principal import SCOPES, Scope
from service.http.text import LINE_PATTERN, NAME_MAX_LENGTH, NAME_PATTERN, TEXT_PATTERN
from service.storage.audit import Action, Kind

MAX_OVERLAP_HOURS = 720
StoredAt = Annotated[datetime.datetime, Meta(tz=True, description="UTC, set by the service.")]
ProjectName = Annotated[
    str,
    Meta(min_length=1, max_length=NAME_MAX_LENGTH, pattern=NAME_PATTERN, description="Unique in any case."),
]
KeyName = Annotated[
    str,
    Meta(min_length=1, max_length=NAME_MAX_LENGTH, pattern=LINE_PATTERN, description="Who uses it, or what for."),
]
Scopes = Annotated[
    tuple[Scope, ...], Meta(min_length=1, max_length=len(SCOPES), description="What it may do; nothing is implied.")
]
KeyId = Annotated[str, Meta(max_length=12, pattern=KEY_ID_PATTERN)]
Expiry = Annotated[
    Annotated[datetime.datetime, Meta(tz=True)] | None,
    Meta(description="From then on it is no good; null for never.", examples=["2027-12-31T00:00:00Z"]),
]


class ProjectWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A project as it is made."""

    name: ProjectName
    description: Annotated[str, Meta(max_length=2000, pattern=TEXT_PATTERN, description="Free text.")] = ""


class Project(Struct, frozen=True):
    """What belongs together: keys, scenarios, price tables. Nothing of it is there for other projects."""

    name: str
    description: str
    created_at: StoredAt


class ProjectPage(Struct, frozen=True):
    """One page of projects."""

    items: tuple[Project, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of a list."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class ApiKeyWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A key as it is asked for."""

    name: KeyName
    scopes: Scopes
    expires_at: Expiry = None
    project: Annotated[
        ProjectName | UnsetType,
        Meta(description="Whose key; the caller's own project if absent. Another is named by admins of the instance."),
    ] = UNSET


class Rotation(Struct, frozen=True, forbid_unknown_fields=True):
    """How a key is followed by another."""

    overlap_hours: Annotated[
        float, Meta(ge=0, le=MAX_OVERLAP_HOURS, description="So long the old key stays good beside the new one.")
    ] = 24.0


class ApiKey(Struct, frozen=True):
    """A key without its secret, which nobody has but its owner."""

    id: Annotated[str, Meta(description="The part between `tc_` and the secret.")]
    project: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: StoredAt
    expires_at: Annotated[datetime.datetime | None, Meta(description="When it ends, or has ended; null for never.")]
    last_used_at: Annotated[datetime.datetime | None, Meta(description="To the minute; null if never yet.")]
    rotated_from: Annotated[str | None, Meta(description="The first key of those that follow each other.")]


class NewApiKey(ApiKey, frozen=True):
    """A key that was just made."""

    key: Annotated[
        str | None,
        Meta(
            description="The whole key. It is shown this once: keep it. Null where the request was sent again with its "
            "Idempotency-Key; then rotate or revoke the key if the first answer is lost."
        ),
    ]


class ApiKeyPage(Struct, frozen=True):
    """One page of keys, in the order in which they were made."""

    items: tuple[ApiKey, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class AuditEntry(Struct, frozen=True):
    """Who did what to which object."""

    id: int
    at: StoredAt
    key_id: Annotated[str | None, Meta(description="The key that acted; null where nobody was asked for one.")]
    actor: Annotated[str, Meta(description="The key's name, or what acted without one.")]
    action: Action
    kind: Kind
    name: Annotated[str, Meta(description="The object's name, of a key its id.")]
    before_hash: Annotated[str | None, Meta(description="SHA-256 of the object as it was; null if it was not.")]
    after_hash: Annotated[str | None, Meta(description="SHA-256 of the object as it is; null if it is gone.")]
    request_id: Annotated[str | None, Meta(description="The X-Request-ID; null on the command line.")]


class AuditPage(Struct, frozen=True):
    """One page of the audit log, the newest first."""

    items: tuple[AuditEntry, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which lines of the audit log; all filters must hold."""

    kind: Annotated[Kind | UnsetType, Meta(description="Only of such objects.")] = UNSET
    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=NAME_MAX_LENGTH, pattern=LINE_PATTERN)] | UnsetType,
        Meta(description="Only of the object with exactly this name."),
    ] = UNSET
    action: Annotated[Action | UnsetType, Meta(description="Only what was done so.")] = UNSET
    key_id: Annotated[KeyId | UnsetType, Meta(description="Only what was done with this key.")] = UNSET
    since: Annotated[
        Annotated[datetime.datetime, Meta(tz=True)] | UnsetType, Meta(description="Only from this time on.")
    ] = UNSET
    until: Annotated[
        Annotated[datetime.datetime, Meta(tz=True)] | UnsetType, Meta(description="Only before this time.")
    ] = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET
