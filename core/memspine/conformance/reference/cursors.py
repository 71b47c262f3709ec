"""Pages of memories, and the cursors between them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Final

from memspine import times
from memspine.errors import CursorError
from memspine.model import Memory, MemoryPage

Position = tuple[str, str, int, str]
"""Where a memory stands in a list: creation, id, and for equal ones the rank and name of its owner."""

_NEWEST: Final = "newest"
_OLDEST: Final = "oldest"


def page_of(
    memories: Iterable[Memory],
    *,
    owners: tuple[str, ...] | None,
    limit: int,
    cursor: str | None,
    newest_first: bool,
    store: str,
) -> MemoryPage:
    """The page behind a cursor. Raises CursorError."""
    order = _NEWEST if newest_first else _OLDEST
    ordered = sorted(((_position(memory, owners), memory) for memory in memories), key=lambda pair: pair[0])
    if newest_first:
        ordered.reverse()
    if cursor is not None:
        last = _read(cursor, order, store)
        ordered = [pair for pair in ordered if (pair[0] < last if newest_first else pair[0] > last)]
    page = ordered[:limit]
    more = len(ordered) > limit > 0
    return MemoryPage(tuple(memory for _, memory in page), _write(page[-1][0], order) if more else None)


def _position(memory: Memory, owners: tuple[str, ...] | None) -> Position:
    rank = owners.index(memory.owner) if owners else 0
    return (times.to_text(memory.created_at), memory.id, rank, memory.owner)


def _write(position: Position, order: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([order, *position]).encode()).decode()


def _read(cursor: str, order: str, store: str) -> Position:
    try:
        made, created, id, rank, owner = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error) as error:
        raise CursorError(store, cursor, "one that this store made") from error
    if made != order:
        raise CursorError(store, cursor, f"one of a list with the {order} first")
    return (created, id, rank, owner)
