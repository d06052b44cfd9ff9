"""Texts to values of our fields, as the schema of each says, each distinct text once."""

from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from service.errors import BrokenRule
from service.prices.importers.rows import Reject, shown

_MAX_REMEMBERED = 20_000


class TextField:
    """One text field of a rate: what its schema allows, in one line, and no formula unless it stood behind a guard."""

    def __init__(
        self, kind: type[msgspec.Struct], field: str, *, called: str | None = None, guarded: bool = False
    ) -> None:
        self._type: Any = next(part.type for part in msgspec.structs.fields(kind) if part.encode_name == field)
        self._field = called or field
        self._guarded = guarded
        self._words = words_of(self._type)
        self._known: dict[str, Any] = {}

    def __call__(self, text: str) -> Any:
        """The value; None for an empty text; Reject names the field."""
        if not text:
            return None
        try:
            return self._known[text]
        except KeyError:
            value = self._read(text)
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            self._known[text] = value
            return value

    def required(self, text: str) -> Any:
        """As a call, but an empty text is rejected."""
        value = self(text)
        if value is None:
            raise Reject("missing", self._field, f"{self._field} is missing")
        return value

    def _read(self, text: str) -> Any:
        if text.startswith("=") and not self._guarded:
            raise Reject("formula", self._field, f"{shown(text)} is a formula")
        if "\n" in text or not text.strip():
            raise Reject("invalid", self._field, f"{shown(text)} is not one line of text")
        if self._words and text not in self._words:
            raise Reject("invalid", self._field, f"{shown(text)} is none of {', '.join(self._words)}")
        try:
            return msgspec.convert(text, self._type, strict=True)
        except msgspec.ValidationError as error:
            raise Reject("invalid", self._field, f"{shown(text)}: {error}") from None


def words_of(kind: Any) -> tuple[str, ...]:
    """All that a field may say, where that is a list of words."""
    inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_args(inner) if get_origin(inner) is Literal else ()


def known_fields(given: object, allowed: frozenset[str], part: str) -> None:
    """BrokenRule names the first of a part of the mapping that is no field of ours, and all that are."""
    for name in sorted(given):  # type: ignore[call-overload]
        if name not in allowed:
            told = f"{part}: there is no field {shown(name)}; the fields are {', '.join(sorted(allowed))}"
            raise BrokenRule.at("mapping", told, "query")
