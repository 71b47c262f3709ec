"""Where the keyword leg asks: the store of the memories, or the index that a vector store keeps for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from memspine.contracts import Capability, MemoryBackend, Space
from memspine.indexing import VectorIndex
from memspine.model import KeywordMatches, KeywordQuery, MemoryFilter, Scope
from memspine.retrieval.guard import guarded, held_so_far
from memspine.retrieval.request import RecallRequest


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
    """The keyword index that a vector store keeps for a primary that has none, for one question. Its calls raise
    IndexFailed."""

    def __init__(self, index: VectorIndex, space: Space, request: RecallRequest) -> None:
        self._index = index
        self._space_id = space.id
        self._request = request

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """What the store answers."""
        call = self._index.call(
            "lexical",
            lambda store: store.lexical(self._space_id, query, scope=scope, filter=filter, now=now, limit=limit),
        )
        return await guarded(call, self._request)

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """What the store answers."""
        call = self._index.call("speakers", lambda store: store.speakers(self._space_id, terms, scope=scope, now=now))
        return await guarded(call, self._request)


async def words_of(
    backend: MemoryBackend, index: VectorIndex | None, request: RecallRequest
) -> tuple[Words | None, tuple[str, ...]]:
    """The keyword index for a backend, None where there is none, and what it lacks of the question's scope. Raises
    IndexFailed."""
    if Capability.LEXICAL in backend.capabilities:
        return backend, ()
    if index is None:
        return None, ()
    space = await guarded(index.words(), request)
    if space is None:
        return None, ()
    words = KeptWords(index, space, request)
    told = index.shortcomings(space)
    if held := await held_so_far(index, space, request):
        told = (f"the keyword index is not complete yet: {held}; `memspine reindex` completes it", *told)
    return words, told
