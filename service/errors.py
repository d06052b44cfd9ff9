"""Everything a caller can do wrong, and everything that can fail under us.

    TraincostError
    ├── BadRequest            the request cannot be read: body, query, path or header
    ├── BrokenRule            a request that is well formed, and impossible
    │   ├── UnknownName       no such catalogue entry; the nearest are named
    │   ├── AmbiguousName     a name that fits several entries; they are named
    │   └── NotYetAvailable   an announced part, refused unless asked for
    ├── Unauthenticated       no key, or none that is good
    ├── Forbidden             a good key that may not do this
    ├── NotFound              no such stored thing, or no such catalogue path
    ├── Conflict              what was asked cannot be done to things as they stand
    ├── PreconditionRequired  a write to an existing thing without If-Match
    ├── PreconditionFailed    a write based on a version that is gone
    ├── TooManyRequests       more than this key may ask, or this address fail, in a minute; try again
    ├── Unavailable           the database does not answer; try again
    └── StartupError          the service cannot start, and one line says why

No HTTP here: `service.http.problems` gives each its status.
"""

from typing import Any, Literal, Self

from msgspec import Struct

Where = Literal["body", "query", "path", "header"]


class Fault(Struct, frozen=True, rename={"where": "in"}):
    """One bad field: where it is, its JSON pointer (or parameter name), and what is wrong."""

    where: Where
    pointer: str
    message: str


class TraincostError(Exception):
    """What every error of ours is."""

    code = "internal"

    def __init__(self, detail: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = faults

    def __reduce__(self) -> tuple[Any, ...]:
        """Made again as it stands, not by its constructor: it comes from another process too."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class BadRequest(TraincostError):
    """The request cannot be read; `code` says which part of reading failed."""

    def __init__(self, code: str, detail: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(detail, faults)
        self.code = code


class BrokenRule(TraincostError):
    """The request matches its schema and still cannot be."""

    code = "broken-rule"

    @classmethod
    def at(cls, pointer: str, message: str, where: Where = "body") -> "BrokenRule":
        """One fault at one field."""
        return cls(message, (Fault(where, pointer, message),))

    def placed(self, pointer: str, where: Where = "body") -> Self:
        """The same error, said of a field: whoever knows the field adds it."""
        self.faults = (Fault(where, pointer, self.detail),)
        return self


class UnknownName(BrokenRule):
    """No catalogue entry has this name."""

    code = "unknown-name"

    def __init__(self, what: str, name: str, candidates: tuple[str, ...]) -> None:
        super().__init__(f"No {what} is called {name!r}{_named('the nearest', candidates)}.")
        self.candidates = candidates


class AmbiguousName(BrokenRule):
    """Several catalogue entries fit this name."""

    code = "ambiguous-name"

    def __init__(self, what: str, name: str, candidates: tuple[str, ...]) -> None:
        super().__init__(f"{name!r} fits more than one {what}: {', '.join(candidates)}.")
        self.candidates = candidates


class NotYetAvailable(BrokenRule):
    """The part is announced, and nobody can rent it yet."""

    code = "not-yet-available"


class Unauthenticated(TraincostError):
    """Nobody is let in without a key; `sent` tells whether there was one, which is then no good."""

    code = "unauthenticated"

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.sent = sent


class Forbidden(TraincostError):
    """The key is good, and does not have the scope that this needs."""

    code = "forbidden"

    def __init__(self, detail: str, scope: str) -> None:
        super().__init__(detail)
        self.scope = scope


class NotFound(TraincostError):
    """There is no such thing here."""

    code = "not-found"

    @classmethod
    def named(cls, what: str, name: str, parameter: str = "name") -> "NotFound":
        """No `what` with this name, which stood in the path."""
        detail = f"No {what} is called {name!r}."
        return cls(detail, (Fault("path", parameter, detail),))


class Conflict(TraincostError):
    """What was asked cannot be done to things as they stand; another request must change them first."""

    code = "conflict"


class PreconditionRequired(TraincostError):
    """A write to an existing thing must say which version it is based on."""

    code = "precondition-required"


class PreconditionFailed(TraincostError):
    """The version that the write is based on is not the current one."""

    code = "precondition-failed"


class TooManyRequests(TraincostError):
    """The key has asked, or the address has failed, as often as it may within a minute."""

    code = "too-many-requests"

    def __init__(self, detail: str, retry_after_seconds: int) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(TraincostError):
    """The database does not answer just now."""

    code = "unavailable"


class StartupError(TraincostError):
    """The service cannot start; the detail is one line that says why and what to do."""


def _named(lead: str, names: tuple[str, ...]) -> str:
    return f"; {lead}: {', '.join(names)}" if names else ""
