"""What is written down while a request becomes facts: where each came from, what to mind, how far it may be off."""

from typing import TypeVar

from msgspec import UNSET, UnsetType

from service.estimator.results import Assumption, Note, Status
from service.estimator.uncertainty import InputSpread, UncertainInput
from service.money import fifteen_digits

_T = TypeVar("_T", bound=str | float)


def or_usual(given: _T | UnsetType, usual: _T) -> _T:
    """What was given, else what is usual."""
    return usual if given is UNSET else given


class Record:
    """Assumptions, notes and spreads of one request, each in the order in which they came up."""

    def __init__(self) -> None:
        self.assumptions: list[Assumption] = []
        self.notes: list[Note] = []
        self.spreads: dict[UncertainInput, InputSpread] = {}

    def pick(self, field: str, given: _T | UnsetType, default: _T, source: str) -> _T:
        """What was given, else the default; either way it is written down."""
        if given is UNSET:
            self.say(field, default, "default", source)
            return default
        self.say(field, given, "given", "request")
        return given

    def say(self, field: str, value: str | float | None, status: Status, source: str) -> None:
        """One fact and where it came from; numbers have at most 15 digits, as everywhere in an answer."""
        shown = fifteen_digits(value) if isinstance(value, float) else value
        self.assumptions.append(Assumption(field, shown, status, source))

    def note(self, note: Note) -> None:
        """Something to mind; each once."""
        if note not in self.notes:
            self.notes.append(note)

    def lognormal(self, name: UncertainInput, sigma: float, source: str) -> None:
        """An input that may be off by a factor; nothing if it cannot be."""
        if sigma > 0:
            self.spreads[name] = InputSpread(input=name, sigma=sigma, source=source)

    def triangular(self, name: UncertainInput, low: float, high: float, source: str) -> None:
        """An input between two factors of its estimate."""
        if low < high:
            self.spreads[name] = InputSpread(input=name, low=low, high=high, source=source)
