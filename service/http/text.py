"""Text that may be stored and shown: which characters are refused, and names that are unique."""

import re
import unicodedata

from service.errors import BadRequest, BrokenRule, Fault, Where

# NUL and the other control characters, bidirectional controls, line separators; \n and \t stay, in texts. Also
# what nobody sees: soft hyphen, zero-width space, word joiner and byte order mark (joiners that scripts and emoji
# need stay).
_BIDI = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\u00ad\\u200b\\u2060-\\u2064\\ufeff"
_CONTROL = "\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029"
_CONTROL_IN_TEXT = "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028\\u2029"
_SPACE = " \\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000"
_SLASHES = "/\\\\"

TEXT_PATTERN = f"^[^{_CONTROL_IN_TEXT}{_BIDI}]*$"
LINE_PATTERN = f"^[^{_CONTROL}{_BIDI}]*$"

_ANY = f"[^{_SLASHES}{_CONTROL}{_BIDI}]"
_EDGE = f"[^{_SLASHES}{_CONTROL}{_BIDI}{_SPACE}]"
_FIRST = f"[^.{_SLASHES}{_CONTROL}{_BIDI}{_SPACE}]"
# Either no leading dot, or a leading dot and a last character that is none: `.` and `..` stay out.
NAME_PATTERN = f"^({_FIRST}({_ANY}*{_EDGE})?|[.]{_ANY}*{_FIRST})$"
NAME_MAX_LENGTH = 100

_FORBIDDEN = re.compile(f"[{_CONTROL_IN_TEXT}{_BIDI}\ud800-\udfff]")
_FORBIDDEN_IN_LINE = re.compile(f"[{_CONTROL}{_BIDI}\ud800-\udfff]")
_NAME = re.compile(NAME_PATTERN)


def forbidden_in(text: str, *, one_line: bool = False) -> str | None:
    """The first character of a text that may not be there, as U+XXXX; None where all is well."""
    found = (_FORBIDDEN_IN_LINE if one_line else _FORBIDDEN).search(text)
    return f"U+{ord(found.group()):04X}" if found else None


def canonical_name(name: str, where: Where, pointer: str) -> str:
    """A name in NFC, which is how it is stored and shown; BadRequest where it is no name."""
    canonical = unicodedata.normalize("NFC", name)
    if not _NAME.fullmatch(canonical) or forbidden_in(canonical, one_line=True):
        raise _no_name(where, pointer)
    if len(canonical) > NAME_MAX_LENGTH:
        if len(name) <= NAME_MAX_LENGTH:
            raise BrokenRule.at(pointer, f"In NFC the name has over {NAME_MAX_LENGTH} characters", where)
        raise _no_name(where, pointer)
    return canonical


def _no_name(where: Where, pointer: str) -> BadRequest:
    message = (
        f"A name has 1 to {NAME_MAX_LENGTH} characters, no slash, backslash, control, bidirectional or invisible "
        "character, no space at its ends, and does not both begin and end with a dot"
    )
    return BadRequest("malformed-parameter", message + ".", (Fault(where, pointer, message),))


def name_key(name: str) -> str:
    """What makes two names the same: compatibility form, case folded."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)
