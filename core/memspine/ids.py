"""Ids: the same for the same owner and key, otherwise new and rising with time."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Final

from memspine import times

NAMESPACE: Final = "6d656d73-7069-5e65-8000-6b65796564aa"
"""The namespace of keyed ids (UUIDv5). It never changes: spooled and repeated writes rely on it."""


def keyed_id(owner: str, key: str) -> str:
    """UUIDv5 of owner and key. NUL, which neither can hold, keeps ("a", "bc") and ("ab", "c") apart."""
    import uuid

    return str(uuid.uuid5(uuid.UUID(NAMESPACE), f"{owner}\0{key}"))


class IdSource:
    """Makes UUIDv7 ids (RFC 9562). Ids of one source rise strictly, so that a batch keeps its order in lists."""

    def __init__(self) -> None:
        self._last = 0

    def new(self, now: datetime) -> str:
        """An id that sorts after all earlier ones of this source."""
        millisecond = max(times.to_milliseconds(now), 0)
        if not self._last or millisecond > self._last >> 80:
            random = int.from_bytes(os.urandom(10))
            # The variant, and a zero above 61 random bits that leaves room to count into.
            low = 0b10 << 62 | random & (1 << 61) - 1
            self._last = millisecond << 80 | 0x7 << 76 | (random >> 64 & 0xFFF) << 64 | low
        else:
            self._last += 1
        digits = f"{self._last:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
