"""Cursors: opaque text that says where a list or a feed goes on, and that no other store accepts by mistake.

Those of a feed are sealed: the numbers of its rows count what everybody writes, which is no owner's business.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any

import attrs

from memspine.errors import CursorError

_LIST_EXPECTED = "the cursor of a list of this store, read in the same direction"
_FEED_EXPECTED = "a cursor that the feed of this very store gave in the same scope"
_TAG_BYTES = 16
_NUMBER_BYTES = 8
_PLACE_BYTES = 2 * _NUMBER_BYTES


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


@attrs.frozen
class FeedPlace:
    """A row of the feed: its number, and the mark that tells it from another row that was given the same number."""

    sequence: int = 0
    mark: int = 0


class FeedSeal:
    """The cursors of one scope's feed, which tell nothing to whoever has no secret, and hold in no other scope."""

    def __init__(self, secret: bytes, owners: Sequence[str] | None) -> None:
        self._secret = secret
        self._scope = json.dumps(owners).encode()

    def cursor(self, place: FeedPlace) -> str:
        """The cursor behind a row of the feed: the same each time for the same row."""
        data = place.sequence.to_bytes(_NUMBER_BYTES) + place.mark.to_bytes(_NUMBER_BYTES, signed=True)
        # The mask comes from the tag, and the tag from the row, so that no two rows are masked alike.
        tag = self._keyed(b"feed tag", data, _TAG_BYTES)
        return _text(tag + self._masked(tag, data))

    def place(self, cursor: str, *, backend: str) -> FeedPlace:
        """The row that a cursor stands behind; raises CursorError for one that this seal did not make."""
        data = _bytes(cursor)
        if len(data) == _TAG_BYTES + _PLACE_BYTES:
            row = self._masked(data[:_TAG_BYTES], data[_TAG_BYTES:])
            sequence, mark = row[:_NUMBER_BYTES], row[_NUMBER_BYTES:]
            place = FeedPlace(int.from_bytes(sequence), int.from_bytes(mark, signed=True))
            if hmac.compare_digest(self.cursor(place).encode(), cursor.encode()):
                return place
        raise CursorError(backend, cursor, _FEED_EXPECTED)

    def _masked(self, tag: bytes, data: bytes) -> bytes:
        mask = self._keyed(b"feed mask", tag, _PLACE_BYTES)
        return bytes(one ^ other for one, other in zip(mask, data, strict=True))

    def _keyed(self, purpose: bytes, data: bytes, size: int) -> bytes:
        keyed = hashlib.blake2b(data, key=self._secret, person=purpose, digest_size=size)
        keyed.update(self._scope)
        return keyed.digest()


def _encode(value: list[Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _text(text.encode())


def _decode(cursor: str) -> object:
    try:
        value = json.loads(_bytes(cursor))
        # Encoding it again finds what no cursor of ours holds, lone surrogates above all.
        return value if _encode(value) == cursor else None
    except (ValueError, RecursionError):
        return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(cursor: str) -> bytes:
    """What a cursor holds; nothing when it is none."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
