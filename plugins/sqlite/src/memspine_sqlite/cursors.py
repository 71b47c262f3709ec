"""Cursors: opaque text that says where a list or a feed goes on, and that no other store accepts by mistake."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import attrs

from memspine.errors import CursorError

_LIST_EXPECTED = "the cursor of a list of this store, read in the same direction"
_FEED_EXPECTED = "a cursor that the feed of this very store gave"


@attrs.frozen
class ListPosition:
    """The memory a page ended with: its time in milliseconds, its id, and what orders owners beside each other."""

    created_at: int
    id: str
    tie: str


def list_cursor(position: ListPosition, *, newest_first: bool) -> str:
    """The cursor behind a position."""
    return _encode(["n" if newest_first else "o", position.created_at, position.id, position.tie])


def list_position(cursor: str, *, newest_first: bool, backend: str) -> ListPosition:
    """The position of a cursor; raises CursorError for one that `list_cursor` did not make for this direction."""
    match _decode(cursor):
        case [str(direction), int(created_at), str(id), str(tie)] if (
            direction == ("n" if newest_first else "o") and abs(created_at) < 1 << 62 and "\0" not in id + tie
        ):
            return ListPosition(created_at, id, tie)
    raise CursorError(backend, cursor, _LIST_EXPECTED)


def feed_cursor(sequence: int, *, store: str) -> str:
    """The cursor behind a row of the feed of a store."""
    return _encode(["c", store, sequence])


def feed_position(cursor: str, *, store: str, backend: str) -> int:
    """The row that a cursor stands behind; raises CursorError for one of another store."""
    match _decode(cursor):
        case ["c", str(named), int(sequence)] if named == store and 0 <= sequence < 1 << 62:
            return sequence
    raise CursorError(backend, cursor, _FEED_EXPECTED)


def _encode(value: list[Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str) -> object:
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        return None
