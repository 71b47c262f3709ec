"""Stored text made harmless for terminals and lines: control characters are shown, never sent."""

from __future__ import annotations

import re
from typing import Final

# C0 and C1 controls (escape sequences start with one), line and paragraph separators, marks that turn the direction of
# what follows, and lone surrogates, which no encoding takes.
_HARMFUL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_NOT_ASCII: Final = re.compile("[^\x00-\x7f]+")
_NAMES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """The text on one line, harmful characters as escapes."""
    return _HARMFUL.sub(_escaped, text)


def block(text: str) -> str:
    """The text with its line breaks and tabs, other harmful characters as escapes."""
    return _HARMFUL.sub(lambda match: match[0] if match[0] in "\n\t" else _escaped(match), text.replace("\r\n", "\n"))


def json_line(text: str) -> str:
    """The same JSON, its harmful characters as JSON escapes (white space between tokens stays)."""
    return _HARMFUL.sub(lambda match: match[0] if match[0] in "\n\t" else f"\\u{ord(match[0]):04x}", text)


def ascii_json(text: str) -> str:
    """The same JSON, all that is not ASCII as JSON escapes."""
    import json

    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)


def cut(text: str, length: int) -> str:
    """At most `length` characters, the last an ellipsis if some were cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _NAMES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
