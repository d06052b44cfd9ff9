"""Keys as texts: their form, what is kept of them, and that nothing tells more."""

import re

from hypothesis import given
from hypothesis import strategies as st

from service.access.keys import digest_of, is_key, key_id_of, new_key


def test_a_key_says_its_id_and_is_told_by_its_digest() -> None:
    key = new_key()
    assert re.fullmatch(r"tc_[a-z0-9]{12}_[A-Za-z0-9]{43}", key.token)
    assert key_id_of(key.token) == key.key_id
    assert key.digest == digest_of(key.token)
    assert len(key.digest) == 32
    assert is_key(key.token, key.digest)


def test_no_two_keys_are_alike() -> None:
    keys = [new_key() for _ in range(1000)]
    assert len({key.key_id for key in keys}) == len({key.token for key in keys}) == 1000


def test_a_key_that_is_printed_shows_no_secret() -> None:
    key = new_key()
    assert key.token[16:] not in f"{key!r} {key}"


@given(st.integers(0, 58), st.characters())
def test_a_key_with_another_character_is_another_key(place: int, character: str) -> None:
    key = new_key()
    changed = key.token[:place] + character + key.token[place + 1 :]
    assert (changed == key.token) or not is_key(changed.encode("utf-8", "replace").decode(), key.digest)


@given(st.text())
def test_no_other_text_is_a_key(text: str) -> None:
    assert key_id_of(text) is None
    assert key_id_of(f"{new_key().token}{text}") is None or text == ""
