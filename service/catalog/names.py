"""How a name is read: one spelling for many, its words, and which known names are near it."""

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from msgspec import Struct

MAX_NEAREST = 5

# Longer than any name in the catalogue: a text beyond it is near nothing, and costs no time to say so.
_MAX_NEAR_LENGTH = 100
_CLOSE = 0.6  # the similarity from which difflib itself calls two texts close

_FORM_FACTOR = re.compile(r"(?<=[a-z0-9])(?=(?:sxm|pcie|nvl|oam)(?:[^a-z]|$))")
_SXM = re.compile(r"sxm[2-6](?![0-9])")
_CAPACITY = re.compile(r"(?<![a-z0-9.])([0-9]+)[ _-]?g(?:i?b)?(?![a-z0-9])")
_SEPARATOR = re.compile(r"[\W_]+")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9]) (?=[0-9])")


class Known(Struct, frozen=True):
    """A known thing: its id, its spellings by `one_spelling`, and the words that may be said of it."""

    id: str
    spellings: tuple[str, ...]
    words: frozenset[str]


@lru_cache(1024)
def one_spelling(text: str) -> str:
    """The text without case, separators, and ways to write a capacity; between digits one space stays."""
    plain = _SEPARATOR.sub(" ", _CAPACITY.sub(r"\1gb", _folded(text))).strip()
    return _BETWEEN_DIGITS.sub("\0", plain).replace(" ", "").replace("\0", " ")


def words_of(text: str) -> frozenset[str]:
    """The text's words: "A100-SXM4-80 GiB" has a100, sxm and 80gb; SXM2 to SXM6 are all sxm."""
    plain = _FORM_FACTOR.sub(" ", _folded(text).replace("pci-e", "pcie"))
    plain = _CAPACITY.sub(r"\1gb", _SXM.sub("sxm ", plain))
    return frozenset(_SEPARATOR.sub(" ", plain).split())


def nearest(text: str, known: Iterable[Known], common_words: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Ids near the text, best first, at most five; none if nothing is alike.

    An id is near when a spelling or a word of it is alike (difflib), or when it shares a word. `common_words`
    fit too many rows to bring one near, and only order what is near already.
    """
    spelling, words = one_spelling(text[:_MAX_NEAR_LENGTH]), words_of(text[:_MAX_NEAR_LENGTH])
    scores: dict[str, float] = {}
    for entry in known:
        telling = entry.words - common_words
        # Difflib finds any two letters close to a word of three.
        others = (*entry.spellings, *(word for word in telling if len(word) > 3))
        if words and (words & telling or get_close_matches(spelling, others, n=1, cutoff=_CLOSE)):
            scores[entry.id] = _likeness(spelling, others) + len(words & entry.words) / len(words)
    return tuple(sorted(scores, key=lambda row_id: (-scores[row_id], row_id))[:MAX_NEAREST])


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _likeness(spelling: str, others: Iterable[str]) -> float:
    return max(SequenceMatcher(None, spelling, other).ratio() for other in others)
