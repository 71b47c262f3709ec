"""Cuts texts that are too long for one vector: pure functions over text and token counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_SEGMENT_END: Final = re.compile(r"(?<=[.!?…])\s+|\n+|(?<=[。！？])")
SEGMENT_LENGTH_MAX: Final = 400
"""Longer segments are cut at white space, so that a text without sentences can be cut as well."""


def segments(text: str) -> tuple[str, ...]:
    """The text in pieces that should stay whole: sentences and lines, the long ones in parts. Together they are the
    text; none is empty."""
    found: list[str] = []
    start = 0
    for end in (match.end() for match in _SEGMENT_END.finditer(text)):
        found += _parts(text[start:end])
        start = end
    found += _parts(text[start:])
    return tuple(found)


def halves(segment: str) -> tuple[str, str]:
    """A segment of at least two characters in two, at white space near its middle if there is any. Neither is
    empty."""
    middle = len(segment) // 2
    space = segment.rfind(" ", 1, min(middle + 1, len(segment) - 1))
    cut = space + 1 if space > len(segment) // 4 else middle
    return segment[:cut], segment[cut:]


def packed(pieces: Sequence[str], counts: Sequence[int], *, tokens_max: int) -> tuple[str, ...]:
    """Neighbouring pieces put together into chunks of at most `tokens_max` tokens, in order; a piece that is larger
    stays alone."""
    chunks: list[str] = []
    current, tokens = "", 0
    for piece, count in zip(pieces, counts, strict=True):
        if current and tokens + count > tokens_max:
            chunks.append(current)
            current, tokens = "", 0
        current += piece
        tokens += count
    if current:
        chunks.append(current)
    return tuple(chunks)


def _parts(text: str) -> list[str]:
    parts: list[str] = []
    while len(text) > SEGMENT_LENGTH_MAX:
        space = text.rfind(" ", SEGMENT_LENGTH_MAX // 2, SEGMENT_LENGTH_MAX)
        cut = space + 1 if space > 0 else SEGMENT_LENGTH_MAX
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text] if text else parts
