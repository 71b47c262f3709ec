"""What the readers have in common: times, pieces of long texts, metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from memspine import times
from memspine.contracts import SourceMemory
from memspine.errors import InvalidMemoryError
from memspine.model import NewMemory

PIECE_CHARS: Final = 90_000
"""Longer texts are divided: below the limit of a memory by what normalising may add."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def text_of(value: object) -> str:
    """A text or a number as text; empty for all else."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def mapping_of(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one for all else."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """A JSON array; an empty one for all else."""
    return value if isinstance(value, list) else []


def moment(value: object) -> datetime | None:
    """A time given in seconds since 1970 or as ISO 8601, without an offset in UTC. None where there is none, or no
    time that can be used."""
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value.strip())
            return times.canonical(read if read.utcoffset() is not None else read.replace(tzinfo=UTC))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return times.canonical(_NO_TIME + timedelta(seconds=value))
    except (ValueError, OverflowError, InvalidMemoryError):
        return None
    return None


@attrs.define
class Rising:
    """Times of a conversation, each later than the one before, because what has one time has no order in a store.

    `start` is for a first one that is unknown.
    """

    start: datetime | None = None
    _last: datetime | None = None

    def next(self, time: datetime | None) -> datetime | None:
        """The time itself, or a millisecond after the one before."""
        if self._last is None and time is None:
            time = self.start
        if self._last is not None and (time is None or time <= self._last):
            try:
                time = self._last + _MILLISECOND
            except OverflowError:
                time = self._last
        self._last = time
        return time


def pieces(text: str) -> list[str]:
    """The text in pieces that a memory can hold, divided between paragraphs, lines or words if there are any."""
    found, rest = [], text.strip()
    while len(rest) > PIECE_CHARS:
        place = max(rest.rfind(mark, PIECE_CHARS // 2, PIECE_CHARS) for mark in ("\n\n", "\n", " "))
        place = place if place > 0 else PIECE_CHARS
        found.append(rest[:place].rstrip())
        rest = rest[place:].lstrip()
    return [*found, rest] if rest else found


def divided(line: int, memory: NewMemory, *, identity: tuple[str, ...], where: str) -> Iterator[SourceMemory]:
    """The memory, or several of them if its text is too long; none if there is no text."""
    parts = pieces(memory.content)
    for number, part in enumerate(parts, 1):
        if len(parts) == 1:
            yield SourceMemory(line=line, memory=attrs.evolve(memory, content=part), identity=identity, where=where)
            continue
        metadata = {**memory.metadata, "part": f"{number}/{len(parts)}"}
        piece = attrs.evolve(memory, content=part, metadata=metadata)
        yield SourceMemory(line=line, memory=piece, identity=(*identity, f"part {number}"), where=where)


def present(**fields: Any) -> dict[str, Any]:
    """Metadata of those fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def with_source(product: str, source: str, own: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """The product's own metadata with ours; where both have a name, the product's gets the product before it."""
    ours = {"source": f"{product}/{source}", **present(**fields)}
    kept = {f"{product}_{name}" if name in ours else name: value for name, value in own.items()}
    return {**kept, **ours}
