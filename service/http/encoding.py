"""The one way an answer becomes bytes."""

import msgspec

from service.money import Money, SignedMoney


def _encode_custom(value: object) -> str:
    if isinstance(value, Money | SignedMoney):
        return format(value, "f")
    raise NotImplementedError(type(value))  # how msgspec is told that a type is not ours


_encoder = msgspec.json.Encoder(enc_hook=_encode_custom)


def encoded(value: object) -> bytes:
    """JSON: money as decimal strings, times in RFC 3339."""
    return _encoder.encode(value)
