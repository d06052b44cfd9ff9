"""Laws of names and texts, for any text there is."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BadRequest, BrokenRule
from service.http.text import (
    LINE_PATTERN,
    NAME_MAX_LENGTH,
    NAME_PATTERN,
    TEXT_PATTERN,
    canonical_name,
    forbidden_in,
    name_key,
)

names = st.from_regex(NAME_PATTERN, fullmatch=True).filter(lambda name: len(name) <= NAME_MAX_LENGTH)


@given(st.text())
def test_a_name_is_canonical_or_refused(text: str) -> None:
    try:
        name = canonical_name(text, "path", "name")
    except (BadRequest, BrokenRule):
        return
    assert canonical_name(name, "path", "name") == name
    assert unicodedata.is_normalized("NFC", name)
    assert 1 <= len(name) <= NAME_MAX_LENGTH
    assert "/" not in name
    assert "\\" not in name
    assert name not in (".", "..")
    assert name.strip() == name
    assert forbidden_in(name, one_line=True) is None


@given(names)
def test_a_name_and_its_forms_have_one_key(name: str) -> None:
    key = name_key(name)
    assert name_key(key) == key
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert name_key(unicodedata.normalize(form, name)) == key
    assert name_key(name.casefold()) == key


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        " ",
        "a/b",
        "a\\b",
        "\x00",
        "a\nb",
        "a\n",
        "\u202ea",
        " a",
        "a ",
        "\ud800",
        "n" * 101,
        "\u200b",
        "a\ufeff",
        "...",
        ".a.",
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(BadRequest):
        canonical_name(name, "path", "name")


@pytest.mark.parametrize("pattern", [TEXT_PATTERN, LINE_PATTERN])
@given(st.text())
def test_the_published_patterns_refuse_what_the_service_refuses(pattern: str, text: str) -> None:
    forbidden = forbidden_in(text, one_line=pattern == LINE_PATTERN)
    assert bool(re.fullmatch(pattern, text)) == (forbidden is None)


def test_a_name_is_measured_in_its_canonical_form() -> None:
    assert canonical_name("e\u0301" * 100, "path", "name") == "\u00e9" * 100
    with pytest.raises(BrokenRule):
        canonical_name("\u0958" * 60, "path", "name")  # in NFC each is two characters
