"""A backend without a keyword index, and the vector store that keeps one for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any

import attrs

from memspine.conformance.reference.backend import ReferenceBackend
from memspine.conformance.reference.keywords import record_of
from memspine.conformance.subject import Opening, Place
from memspine.conformance.vectors.tools import space
from memspine.contracts import VectorStore
from memspine.model import (
    KeywordMatches,
    KeywordQuery,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryRef,
    NewMemory,
    Scope,
    Tombstone,
    Written,
)

SPACE = "terms"
"""The space that holds the terms."""


class IndexedBackend(ReferenceBackend):
    """A backend whose changes reach the keyword index of a vector store before they are answered.

    A filter means here what it means to that index: types and times of creation.
    """

    def __init__(self, store: VectorStore) -> None:
        super().__init__("indexed")
        self._store = store
        self._changed: dict[MemoryRef, Memory | None] = {}

    def keep(self, memory: Memory, *, now: datetime) -> Memory:
        """Note that the index has to hold it."""
        self._changed[MemoryRef(memory.owner, memory.id)] = memory
        return super().keep(memory, now=now)

    def bury(self, memory: Memory, *, now: datetime, revision: int | None = None) -> Tombstone:
        """Note that the index has to forget it."""
        self._changed[MemoryRef(memory.owner, memory.id)] = None
        return super().bury(memory, now=now, revision=revision)

    async def create(self, memory: NewMemory, *, scope: Scope, id: str, now: datetime) -> Written:
        """Create and index."""
        written = await super().create(memory, scope=scope, id=id, now=now)
        await self._index()
        return written

    async def update(
        self, id: str, changes: MemoryChanges, *, scope: Scope, now: datetime, expected_revision: int | None = None
    ) -> Memory:
        """Update and index."""
        memory = await super().update(id, changes, scope=scope, now=now, expected_revision=expected_revision)
        await self._index()
        return memory

    async def delete(self, id: str, *, scope: Scope, now: datetime, expected_revision: int | None = None) -> Tombstone:
        """Delete from both."""
        tombstone = await super().delete(id, scope=scope, now=now, expected_revision=expected_revision)
        await self._index()
        return tombstone

    async def delete_many(self, filter: MemoryFilter, *, scope: Scope, now: datetime, dry_run: bool) -> tuple[str, ...]:
        """Delete from both."""
        ids = await super().delete_many(filter, scope=scope, now=now, dry_run=dry_run)
        await self._index()
        return ids

    async def expire(self, *, scope: Scope, now: datetime, limit: int) -> int:
        """Remove from both what has expired."""
        await self._store.expire(now=now, limit=limit)
        return await super().expire(scope=scope, now=now, limit=limit)

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """What the index answers."""
        return await self._store.lexical(SPACE, query, scope=scope, filter=filter, now=now, limit=limit)

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """What the index answers."""
        return await self._store.speakers(SPACE, terms, scope=scope, now=now)

    def _matching(self, filter: MemoryFilter, *, scope: Scope, now: datetime) -> tuple[Memory, ...]:
        known = attrs.evolve(filter, key=None, category=None, text=None, updated_before=None)
        return super()._matching(known, scope=scope, now=now)

    async def _index(self) -> None:
        changed, self._changed = self._changed, {}
        gone = [ref for ref, memory in changed.items() if memory is None]
        there = [record_of(memory) for memory in changed.values() if memory is not None]
        await self._store.delete(gone)
        await self._store.index_terms(SPACE, records=there)


@attrs.frozen
class IndexedOpening(Opening):
    """The vector store under test behind a backend that it keeps the keyword index of."""

    place: Place

    def open(self) -> AbstractAsyncContextManager[Any]:
        """The backend, opened."""
        return _opened(self.place)


def opening_of(place: Place) -> Opening:
    """The backend under test, or a backend whose keyword index the vector store under test keeps."""
    return Opening(place) if place.subject.contract == "backend" else IndexedOpening(place)


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[IndexedBackend]:
    async with place.open() as store:
        await store.open_space(space(SPACE))
        yield IndexedBackend(store)
