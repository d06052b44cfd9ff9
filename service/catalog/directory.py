"""Rows by any of their names: an id, an exact spelling, else the only row that every word fits. Never a guess."""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from service.catalog.names import Known, nearest, one_spelling, words_of
from service.errors import AmbiguousName, UnknownName


class Named(Protocol):
    """What every row of the catalogue has."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


Row = TypeVar("Row", bound=Named)


class Directory(Generic[Row]):
    """The rows of one kind. That no two of them share a spelling is a law of the data."""

    def __init__(
        self,
        what: str,
        rows: Iterable[Row],
        *,
        words_of_row: Callable[[Row], frozenset[str]],
        common_words: frozenset[str],
        noise_words: frozenset[str],
        name_a_row: Callable[[frozenset[str]], bool] = bool,
    ) -> None:
        """`common_words` describe a row and do not name it, `noise_words` say nothing; `name_a_row` decides whether
        the words that are left can be a name at all."""
        self._what = what
        self._rows = {row.id: row for row in rows}
        self._known = tuple(
            Known(
                id=row.id,
                spellings=tuple(one_spelling(text) for text in (row.id, row.name, *row.aliases)),
                words=words_of_row(row),
            )
            for _, row in sorted(self._rows.items())
        )
        self._by_spelling = {spelling: known.id for known in self._known for spelling in known.spellings}
        self._common_words = common_words
        self._noise_words = noise_words
        self._name_a_row = name_a_row

    def get(self, name: str) -> Row:
        """The row; AmbiguousName names all that a generic name fits, UnknownName the nearest."""
        row = self._rows.get(name)
        if row is not None:
            return row
        if not name.isprintable():  # no spelling holds a line feed, and normalising must not hide one
            raise UnknownName(self._what, name, ())
        exact = self._by_spelling.get(one_spelling(name))
        return self._rows[self._only_fit(name) if exact is None else exact]

    def _only_fit(self, name: str) -> str:
        """The id of the only row that every word of the name may be said of."""
        words = words_of(name) - self._noise_words
        fits = tuple(known.id for known in self._known if words <= known.words)
        telling = words - self._common_words
        if telling and len(fits) > 1:
            raise AmbiguousName(self._what, name, fits)
        if len(fits) == 1 and self._name_a_row(telling):
            return fits[0]
        raise UnknownName(self._what, name, nearest(name, self._known, self._common_words))
