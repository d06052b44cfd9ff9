"""API keys as texts: `tc_<id>_<secret>`, made here, taken apart here, and compared in constant time."""

import re
import secrets
import string
from hashlib import sha256
from hmac import compare_digest

from msgspec import Struct

KEY_ID_LENGTH = 12
SECRET_LENGTH = 43  # of 62 characters each: 256 bits
KEY_ID_PATTERN = f"^[a-z0-9]{{{KEY_ID_LENGTH}}}$"

_ID_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits
_TOKEN = re.compile(f"tc_([a-z0-9]{{{KEY_ID_LENGTH}}})_[A-Za-z0-9]{{{SECRET_LENGTH}}}", re.ASCII)


class NewKey(Struct, frozen=True):
    """A key that was just made: what is shown once, and what is kept."""

    key_id: str
    token: str
    digest: bytes

    def __repr__(self) -> str:
        return f"NewKey({self.key_id})"  # the secret stands in no log


def new_key() -> NewKey:
    """A key that nobody can guess: the secret has 256 bits, which is why a plain SHA-256 of it may be stored."""
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(KEY_ID_LENGTH))
    secret = "".join(secrets.choice(_SECRET_ALPHABET) for _ in range(SECRET_LENGTH))
    token = f"tc_{key_id}_{secret}"
    return NewKey(key_id, token, digest_of(token))


def key_id_of(token: str) -> str | None:
    """The id of a key as it was sent; None where it is no key at all."""
    found = _TOKEN.fullmatch(token)
    return found and found[1]


def digest_of(token: str) -> bytes:
    """What is stored of a key."""
    return sha256(token.encode()).digest()


def is_key(token: str, digest: bytes) -> bool:
    """Whether this is the key that has this digest, in the same time whatever it is."""
    return compare_digest(digest_of(token), digest)
