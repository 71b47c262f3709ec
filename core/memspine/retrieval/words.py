"""Where the keyword leg asks: the store of the memories, or the index that a vector store keeps for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from memspine.contracts import Capability, MemoryBackend, Space
from memspine.errors import BackendUnavailable
from memspine.indexing import VectorIndex
from memspine.model import KeywordMatches, KeywordQuery, MemoryFilter, Scope


class Words(Protocol):
    """A keyword index."""

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """As `MemoryBackend.lexical`."""
        ...

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """As `MemoryBackend.speakers`."""
        ...


class KeptWords:
    """The keyword index that a vector store keeps for a primary that has none."""

    def __init__(self, index: VectorIndex, space: Space) -> None:
        self._index = index
        self._space_id = space.id

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """What the store answers."""
        return await self._index.call(
            "lexical",
            lambda store: store.lexical(self._space_id, query, scope=scope, filter=filter, now=now, limit=limit),
        )

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """What the store answers."""
        return await self._index.call(
            "speakers", lambda store: store.speakers(self._space_id, terms, scope=scope, now=now)
        )


async def words_of(
    backend: MemoryBackend, index: VectorIndex | None, *, scope: Scope
) -> tuple[Words | None, tuple[str, ...]]:
    """The keyword index for a backend, None where there is none, and what it lacks of a scope."""
    if Capability.LEXICAL in backend.capabilities:
        return backend, ()
    if index is None:
        return None, ()
    try:
        space = await index.words()
        if space is None:
            return None, ()
        held, total = (0, 0) if space.complete else await index.coverage(space, scope=scope)
    except BackendUnavailable as error:
        return None, (f"the keyword index failed: {error}",)
    if held >= total:
        return KeptWords(index, space), ()
    reason = f"the keyword index is not complete yet: {held} of {total} memories; `memspine reindex` completes it"
    return KeptWords(index, space), (reason,)
