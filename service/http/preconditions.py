"""What a write says about the version that it is based on (RFC 9110), and whether that allows it."""

from msgspec import Struct

from service.errors import Fault, PreconditionFailed, PreconditionRequired


class Tags(Struct, frozen=True):
    """A parsed If-Match or If-None-Match: `*`, or the tags as sent."""

    any: bool
    tags: tuple[str, ...]

    def holds(self, etag: str, *, strong: bool) -> bool:
        """Whether the current tag is among them; weak tags never match strongly."""
        if self.any:
            return True
        if strong:
            return etag in self.tags
        return etag.removeprefix("W/") in [tag.removeprefix("W/") for tag in self.tags]


class Preconditions(Struct, frozen=True):
    """What a write says about the version that it is based on."""

    if_match: Tags | None
    if_none_match: Tags | None

    def allow_creation(self) -> None:
        """Nothing is stored yet: PreconditionFailed where the caller expected something."""
        if self.if_match is not None:
            raise _failed("If-Match", "There is no such object, so no version that If-Match could name")

    def allow_change(self, etag: str) -> None:
        """Something is stored: it may be changed only by one who has seen exactly this version."""
        if self.if_none_match is not None and self.if_none_match.holds(etag, strong=False):
            raise _failed("If-None-Match", f"The object exists already; its ETag is {etag}")
        if self.if_match is None:
            raise PreconditionRequired(
                "The object exists: send If-Match with the ETag of the version that you have seen.",
                (Fault("header", "If-Match", "Required for a write to an existing object"),),
            )
        if not self.if_match.holds(etag, strong=True):
            raise _failed("If-Match", f"It does not name the current version; the object's ETag is {etag}")


def _failed(header: str, message: str) -> PreconditionFailed:
    return PreconditionFailed(message + ".", (Fault("header", header, message),))
