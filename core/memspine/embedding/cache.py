"""Vectors of texts seen a short while ago, the least recently used given up first."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

import attrs

from memspine.contracts import EmbeddingIdentity, Role


@attrs.frozen
class CacheKey:
    """What a vector is of: who made it, of which text (by its SHA-256), in which role."""

    identity: EmbeddingIdentity
    text_hash: bytes
    role: Role

    @classmethod
    def of(cls, identity: EmbeddingIdentity, text: str, role: Role) -> CacheKey:
        """The key of a text."""
        return cls(identity, hashlib.sha256(text.encode()).digest(), role)


class EmbeddingCache:
    """At most `entries` vectors, each for at most `seconds` after it was made; reading one makes it recent again."""

    def __init__(self, *, entries: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.entries_max = entries
        self.seconds = seconds
        self.hits = 0
        self.misses = 0
        self._clock = clock
        self._kept: OrderedDict[CacheKey, tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: CacheKey) -> bytes | None:
        """The vector, or None when there is none that is young enough."""
        found = self._kept.get(key)
        if found is None or self._clock() - found[0] >= self.seconds:
            self._kept.pop(key, None)
            self.misses += 1
            return None
        self._kept.move_to_end(key)
        self.hits += 1
        return found[1]

    def put(self, key: CacheKey, vector: bytes) -> None:
        """Keep a vector."""
        self._kept[key] = (self._clock(), vector)
        self._kept.move_to_end(key)
        while len(self._kept) > self.entries_max:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget all: what a purge erases may be among them."""
        self._kept.clear()
