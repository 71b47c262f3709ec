"""Recalls, counted in memory and written behind in batches; what a crash loses is a count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from memspine import times
from memspine.chain import Chain
from memspine.contracts import MemoryBackend
from memspine.model import Scope
from memspine.results import SearchResult


class AccessCounts:
    """The recalls that the primary has not been told of yet."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def record(self, result: SearchResult, *, primary: str) -> None:
        """Count the memories that reach a caller; those that a fallback gave are not the primary's to count."""
        if result.trace.backend == primary:
            for hit in result.hits:
                self._counts[hit.memory.owner][hit.memory.id] += 1

    def forget(self, owner: str, ids: Sequence[str] | None) -> None:
        """Drop what is not written yet about memories that are being purged (None: all of the owner)."""
        if ids is None:
            self._counts.pop(owner, None)
        else:
            for id in ids:
                self._counts[owner].pop(id, None)

    async def flush(self, chain: Chain) -> None:
        """Write them all. Whatever keeps an owner's from being written, they are kept for the next time, and it is
        raised: BackendUnavailable, or a cancellation."""
        for owner in list(self._counts):
            counts = self._counts.pop(owner)
            is_written = False
            try:
                await chain.write("record_access", _recorder(counts, scope=Scope.of_owner(owner), now=times.now()))
                is_written = True
            finally:
                if not is_written:
                    self._counts[owner].update(counts)


def _recorder(
    counts: Mapping[str, int], *, scope: Scope, now: datetime
) -> Callable[[MemoryBackend], Coroutine[Any, Any, None]]:
    return lambda backend: backend.record_access(counts, scope=scope, now=now)
