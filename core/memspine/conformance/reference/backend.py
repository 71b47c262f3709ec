"""The reference backend: every clause in the plainest way, in memory, without an index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal

import attrs

from memspine.conformance.reference.config import ReferenceConfig
from memspine.conformance.reference.cursors import page_of
from memspine.conformance.reference.keeping import Keeping
from memspine.conformance.reference.keywords import keyword_matches, record_of, whole, with_surroundings
from memspine.conformance.reference.shelf import handed_out, stored
from memspine.contracts import Capability, Context
from memspine.errors import ConflictError, NotFoundError
from memspine.model import (
    Counts,
    Health,
    KeywordMatches,
    KeywordQuery,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryPage,
    NewMemory,
    Scope,
    ScoredMemory,
    SearchQuery,
    Tombstone,
    Written,
)
from memspine.ranking import keyword_scores
from memspine.text import query_terms, speaker_terms


@asynccontextmanager
async def open_backend(_: ReferenceConfig, context: Context) -> AsyncIterator[ReferenceBackend]:
    """An empty reference backend."""
    backend = ReferenceBackend(context.name)
    try:
        yield backend
    finally:
        backend.close()


class ReferenceBackend(Keeping):
    """A MemoryBackend in memory. No call gives way to another between its first and its last step."""

    capabilities = frozenset(
        {Capability.PUT, Capability.CHANGES, Capability.LEXICAL, Capability.HISTORY, Capability.PURGE}
    )

    async def create(self, memory: NewMemory, *, scope: Scope, id: str, now: datetime) -> Written:
        """Store a memory, or replace the one that has its key or id."""
        self.require_open()
        return self._create(memory, scope=scope, id=id, now=now)

    async def create_many(
        self, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
    ) -> tuple[Written, ...]:
        """Store all of them, or none."""
        self.require_open()
        scope.require_owner("create_many")
        with self.all_or_nothing():
            return tuple(
                self._create(memory, scope=scope, id=id, now=now) for memory, id in zip(memories, ids, strict=True)
            )

    def _create(self, new: NewMemory, *, scope: Scope, id: str, now: datetime) -> Written:
        owner = scope.require_owner("create")
        shelf = self.state.shelf(owner)
        old = shelf.holder(new.key) or shelf.memories.get(id)
        memory = Memory(
            id=id if old is None else old.id,
            owner=owner,
            content=new.content,
            type=new.type,
            session=new.session if scope.session is None else scope.session,
            key=new.key,
            metadata=new.metadata,
            created_at=new.created_at or now,
            updated_at=now,
            expires_at=new.expires_at,
            revision=shelf.next_revision(id) if old is None else old.revision + 1,
        )
        fresh = old is None or old.is_expired(now)
        if old is not None and not fresh:
            memory = attrs.evolve(
                memory,
                created_at=old.created_at,
                metadata=self.merged(old.metadata, new.metadata),
                access_count=old.access_count,
                last_accessed_at=old.last_accessed_at,
            )
        return Written(self.keep(stored(memory), now=now), created=fresh)

    async def get(self, id: str, *, scope: Scope, now: datetime) -> Memory | None:
        """The memory, or None."""
        return (await self.get_many([id], scope=scope, now=now)).get(id)

    async def get_many(self, ids: Sequence[str], *, scope: Scope, now: datetime) -> dict[str, Memory]:
        """Those that are there, in the order asked."""
        self.require_open()
        scope.require_readable("get")
        found: dict[str, Memory] = {}
        for id in ids:
            memory = self.find(id, scope=scope, now=now)
            if memory is not None:
                found.setdefault(id, handed_out(memory))
        return found

    async def update(
        self, id: str, changes: MemoryChanges, *, scope: Scope, now: datetime, expected_revision: int | None = None
    ) -> Memory:
        """Replace the named fields."""
        self.require_open()
        owner = scope.require_owner("update")
        old = self._expected(id, scope=scope, now=now, revision=expected_revision)
        new = stored(attrs.evolve(old, **changes.named(), updated_at=now, revision=old.revision + 1))
        holder = self.state.shelf(owner).holder(new.key)
        if holder is not None and holder.id != id:
            if not holder.is_expired(now):
                raise ConflictError(self.name, id, expected=f"a free key {new.key!r}", found=f"it at {holder.id!r}")
            self.forget(holder)
        return self.keep(new, now=now)

    async def delete(self, id: str, *, scope: Scope, now: datetime, expected_revision: int | None = None) -> Tombstone:
        """Delete for good."""
        self.require_open()
        scope.require_owner("delete")
        return self.bury(self._expected(id, scope=scope, now=now, revision=expected_revision), now=now)

    def _expected(self, id: str, *, scope: Scope, now: datetime, revision: int | None) -> Memory:
        memory = self.find(id, scope=scope, now=now)
        if memory is None:
            raise NotFoundError(self.name, id)
        if revision not in (None, memory.revision):
            raise ConflictError(self.name, id, expected=f"revision {revision}", found=f"revision {memory.revision}")
        return memory

    async def delete_many(self, filter: MemoryFilter, *, scope: Scope, now: datetime, dry_run: bool) -> tuple[str, ...]:
        """Delete all that match."""
        self.require_open()
        scope.require_owner("delete_many")
        found = sorted(self._matching(filter, scope=scope, now=now), key=lambda memory: (memory.created_at, memory.id))
        if not dry_run:
            for memory in found:
                self.bury(memory, now=now)
        return tuple(memory.id for memory in found)

    async def list(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        limit: int,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> MemoryPage:
        """A page."""
        self.require_open()
        found = self._matching(filter, scope=scope, now=now)
        page = page_of(
            found, owners=scope.owners, limit=limit, cursor=cursor, newest_first=newest_first, store=self.name
        )
        return attrs.evolve(page, memories=tuple(map(handed_out, page.memories)))

    async def count(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        by: Literal["type", "session", "owner"] | None = None,
    ) -> Counts:
        """How many match."""
        self.require_open()
        found = self._matching(filter, scope=scope, now=now)
        groups: dict[str, int] = {}
        for memory in found if by else ():
            group = str(getattr(memory, by or ""))
            groups[group] = groups.get(group, 0) + 1
        return Counts(len(found), groups)

    async def search(self, query: SearchQuery, *, scope: Scope, now: datetime) -> tuple[ScoredMemory, ...]:
        """The best by the words they share with the question."""
        self.require_open()
        terms = query_terms(query.text).terms
        found = self._keywords(terms, scope=scope, filter=query.filter, now=now, limit=query.limit)
        return tuple(
            ScoredMemory(handed_out(self.state.shelf(match.owner).memories[match.id]), score)
            for score, match in keyword_scores(found.matches, found.statistics)
        )

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """The best by the terms they hold, and what stands around them."""
        self.require_open()
        found = self._keywords(query.terms, scope=scope, filter=filter, now=now, limit=limit)
        return with_surroundings(found, query, visible=map(record_of, self.state.visible(scope, now)))

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """Those that a speaker's name has."""
        self.require_open()
        scope.require_readable("speakers")
        named = {term for memory in self.state.visible(whole(scope), now) for term in speaker_terms(memory.metadata)}
        return frozenset(terms) & named

    def _keywords(
        self, terms: Sequence[str], *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        scope.require_readable("search")
        candidates = map(record_of, self._matching(filter, scope=scope, now=now))
        collection = tuple(map(record_of, self.state.visible(whole(scope), now)))
        return keyword_matches(terms, candidates=candidates, collection=collection, limit=limit)

    async def record_access(self, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
        """Count accesses."""
        self.require_open()
        scope.require_owner("record_access")
        for id, count in counts.items():
            memory = self.find(id, scope=scope, now=now)
            if memory is not None:
                last = max(now, memory.last_accessed_at or now)
                accessed = attrs.evolve(memory, access_count=memory.access_count + count, last_accessed_at=last)
                self.state.shelf(memory.owner).memories[id] = accessed

    async def expire(self, *, scope: Scope, now: datetime, limit: int) -> int:
        """Remove what has expired."""
        self.require_open()
        owners = None if scope.kind == "everyone" else (scope.require_owner("expire"),)
        expired = [
            memory
            for owner, shelf in self.state.shelves.items()
            for memory in shelf.memories.values()
            if (owners is None or owner in owners)
            and scope.session in (None, memory.session)
            and memory.is_expired(now)
        ][:limit]
        for memory in expired:
            self.forget(memory)
        return len(expired)

    async def health(self, *, deep: bool = False) -> Health:
        """It works as long as it is open."""
        self.require_open()
        return Health(ok=True, detail="in memory")

    def _matching(self, filter: MemoryFilter, *, scope: Scope, now: datetime) -> tuple[Memory, ...]:
        return tuple(memory for memory in self.state.visible(scope, now) if filter.holds_for(memory))
