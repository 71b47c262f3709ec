"""The reference vector store: every vector is looked at, in memory, as it was given, whatever the quantisation."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import attrs

from memspine.conformance.reference.config import ReferenceConfig
from memspine.conformance.reference.keywords import keyword_matches, whole, with_surroundings
from memspine.conformance.reference.nearness import (
    Record,
    best_chunk,
    fits,
    is_expired,
    is_visible,
    matches_of,
    numbers_of,
)
from memspine.conformance.reference.queues import Queue
from memspine.contracts import (
    Backlog,
    Capability,
    Context,
    Space,
    TermRecord,
    VectorMatches,
    VectorRecord,
    VectorStoreDefaults,
    Work,
)
from memspine.errors import ClosedError, ConflictError, InvalidMemoryError, NotFoundError
from memspine.model import (
    Health,
    KeywordMatches,
    KeywordQuery,
    MemoryFilter,
    MemoryRef,
    PurgedPlace,
    PurgeReceipt,
    Scope,
)


@asynccontextmanager
async def open_store(_: ReferenceConfig, context: Context) -> AsyncIterator[ReferenceVectorStore]:
    """An empty reference vector store."""
    store = ReferenceVectorStore(context.name)
    try:
        yield store
    finally:
        store.close()


@attrs.define
class Shelf:
    """A space, its chunks or terms by memory, first stored first, and what it still has to hold."""

    space: Space
    chunks: dict[MemoryRef, dict[int, VectorRecord]] = attrs.field(factory=dict)
    terms: dict[MemoryRef, TermRecord] = attrs.field(factory=dict)
    queue: Queue = attrs.field(factory=Queue)

    def records(self, ref: MemoryRef) -> list[Record]:
        """All that the space holds of a memory."""
        return [*self.chunks.get(ref, {}).values(), *filter(None, [self.terms.get(ref)])]

    def revision(self, ref: MemoryRef) -> int:
        """The revision of a memory that the space holds; 0 for none."""
        return max((record.revision for record in self.records(ref)), default=0)

    def held(self) -> list[MemoryRef]:
        """The memories that the space holds."""
        return [*dict.fromkeys([*self.chunks, *self.terms])]

    def remove(self, ref: MemoryRef) -> None:
        """Hold a memory no more."""
        self.chunks.pop(ref, None)
        self.terms.pop(ref, None)


class ReferenceVectorStore(VectorStoreDefaults):
    """A VectorStore in memory. No call gives way to another between its first and its last step."""

    capabilities = frozenset({Capability.LEXICAL})

    def __init__(self, name: str) -> None:
        self.name = name
        self.shelves: dict[str, Shelf] = {}
        self._closed = False

    def close(self) -> None:
        """Refuse every further call."""
        self._closed = True

    # ── spaces ──

    async def spaces(self) -> tuple[Space, ...]:
        """All spaces."""
        self.require_open()
        return tuple(shelf.space for shelf in self.shelves.values())

    async def open_space(self, space: Space) -> Space:
        """Make the space, or find it."""
        self.require_open()
        fresh = attrs.evolve(space, source=dict(space.source), active=False, complete=False)
        shelf = self.shelves.setdefault(space.id, Shelf(fresh))
        shelf.space = attrs.evolve(shelf.space, used_at=max(shelf.space.used_at, space.used_at))
        return shelf.space

    async def complete_space(self, space_id: str) -> None:
        """Note that it holds all there was."""
        shelf = self.shelf(space_id)
        shelf.space = attrs.evolve(shelf.space, complete=True)

    async def activate(self, space_id: str) -> None:
        """Make this the active space."""
        self.shelf(space_id)
        for shelf in self.shelves.values():
            shelf.space = attrs.evolve(shelf.space, active=shelf.space.id == space_id)

    async def drop_space(self, space_id: str) -> None:
        """Remove a space."""
        if self.shelf(space_id).space.active:
            raise ConflictError(self.name, space_id, expected="a space that is not active", found="the active one")
        del self.shelves[space_id]

    # ── writing ──

    async def upsert(self, space_id: str, *, records: Sequence[VectorRecord], holder: str | None = None) -> None:
        """Store chunks."""
        shelf = self.shelf(space_id)
        for index, record in enumerate(records):
            self.checked(shelf, record.vector, index=index)
        if holder is not None:
            records = [r for r in records if shelf.queue.is_held(MemoryRef(r.owner, r.id), holder)]
        for record in records:
            ref = MemoryRef(record.owner, record.id)
            held = shelf.revision(ref)
            if record.revision >= held:
                kept = shelf.chunks.get(ref, {}) if record.revision == held else {}
                shelf.chunks[ref] = {**kept, record.chunk: record}
        shelf.queue.settle({MemoryRef(r.owner, r.id): shelf.revision(MemoryRef(r.owner, r.id)) for r in records})

    async def settle(self, space_id: str, *, revisions: Mapping[MemoryRef, int], holder: str) -> None:
        """Hold nothing of memories."""
        shelf = self.shelf(space_id)
        done = {ref: revision for ref, revision in revisions.items() if shelf.queue.is_held(ref, holder)}
        for ref, revision in done.items():
            if shelf.revision(ref) <= revision:
                shelf.remove(ref)
        shelf.queue.settle(done)

    async def delete(self, refs: Sequence[MemoryRef]) -> None:
        """Remove memories from every space and queue."""
        self.require_open()
        for shelf in self.shelves.values():
            shelf.queue.remove(refs)
            for ref in refs:
                shelf.remove(ref)

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope) -> PurgeReceipt:
        """Remove memories of an owner; nothing else was kept of them."""
        self.require_open()
        owner = scope.require_owner("purge")
        shelves = self.shelves.values()
        if scope.session is None:
            known = {ref for shelf in shelves for ref in (*shelf.held(), *shelf.queue.waiting)}
        else:
            held = [(ref, record) for shelf in shelves for ref in shelf.held() for record in shelf.records(ref)]
            known = {ref for ref, record in held if record.session == scope.session}
        chosen = [ref for ref in known if ref.owner == owner and (ids is None or ref.id in ids)]
        await self.delete(chosen)
        return PurgeReceipt(len(chosen), (PurgedPlace(place="vectors, terms and queues", status="erased"),))

    async def expire(self, *, now: datetime, limit: int) -> int:
        """Remove the vectors and the terms of what has expired."""
        self.require_open()
        dead = [
            (shelf, ref)
            for shelf in self.shelves.values()
            for ref in shelf.held()
            if any(is_expired(record, now) for record in shelf.records(ref))
        ]
        chosen = [*dict.fromkeys(ref for _, ref in dead)][:limit]
        for shelf, ref in dead:
            if ref in chosen:
                shelf.remove(ref)
        return len(chosen)

    # ── reading ──

    async def search(
        self,
        space_id: str,
        *,
        vector: bytes,
        scope: Scope,
        filter: MemoryFilter,
        now: datetime,
        limit: int,
        also: Sequence[MemoryRef] = (),
    ) -> VectorMatches:
        """The nearest memories, and those asked for."""
        shelf = self.shelf(space_id)
        scope.require_readable("search")
        question = self.checked(shelf, vector, index=None)
        visible = {
            ref: [*chunks.values()]
            for ref, chunks in shelf.chunks.items()
            if any(is_visible(chunk, scope, now) for chunk in chunks.values())
        }
        fitting = [chunks for chunks in visible.values() if any(fits(chunk, filter) for chunk in chunks)]
        asked = [visible[ref] for ref in dict.fromkeys(also) if ref in visible]
        return matches_of(
            [best_chunk(chunks, question) for chunks in fitting],
            limit=limit,
            also=[best_chunk(chunks, question) for chunks in asked],
        )

    async def count(self, space_id: str, *, scope: Scope, now: datetime) -> int:
        """How many memories a space holds."""
        shelf = self.shelf(space_id)
        return sum(any(is_visible(record, scope, now) for record in shelf.records(ref)) for ref in shelf.held())

    # ── the queue ──

    async def enqueue(self, space_id: str, *, revisions: Mapping[MemoryRef, int], position: str) -> int:
        """Queue what is not held."""
        shelf = self.shelf(space_id)
        shelf.queue.position = position
        return shelf.queue.add({r: n for r, n in revisions.items() if shelf.revision(r) < n})

    async def claim(
        self, space_id: str, *, holder: str, now: datetime, lease_seconds: float, limit: int
    ) -> tuple[Work, ...]:
        """Lease what is free."""
        return self.shelf(space_id).queue.claim(holder=holder, now=now, lease_seconds=lease_seconds, limit=limit)

    async def postpone(
        self, space_id: str, *, refs: Sequence[MemoryRef], holder: str, until: datetime, reason: str
    ) -> None:
        """Put back what failed."""
        self.shelf(space_id).queue.postpone(refs, holder=holder, until=until, reason=reason)

    async def release(self, space_id: str, *, refs: Sequence[MemoryRef], holder: str) -> None:
        """Put back what is not done."""
        self.shelf(space_id).queue.release(refs, holder=holder)

    async def backlog(self, space_id: str, *, now: datetime) -> Backlog:
        """What there is to do."""
        return self.shelf(space_id).queue.backlog(now)

    async def health(self, *, deep: bool = False) -> Health:
        """It works as long as it is open."""
        self.require_open()
        return Health(ok=True, detail="in memory")

    # ── the keyword index ──

    async def index_terms(self, space_id: str, *, records: Sequence[TermRecord], holder: str | None = None) -> None:
        """Store terms."""
        shelf = self.shelf(space_id)
        if holder is not None:
            records = [r for r in records if shelf.queue.is_held(MemoryRef(r.owner, r.id), holder)]
        for record in records:
            ref = MemoryRef(record.owner, record.id)
            if record.revision >= shelf.revision(ref):
                shelf.terms[ref] = attrs.evolve(record, terms=dict(record.terms))
        shelf.queue.settle({MemoryRef(r.owner, r.id): shelf.revision(MemoryRef(r.owner, r.id)) for r in records})

    async def lexical(
        self, space_id: str, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """The best by the terms they hold, and what stands around them."""
        visible = self.indexed(space_id, scope, now)
        found = keyword_matches(
            query.terms,
            candidates=[record for record in visible if fits(record, filter)],
            collection=self.indexed(space_id, whole(scope), now),
            limit=limit,
        )
        return with_surroundings(found, query, visible=visible)

    async def speakers(self, space_id: str, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """Those that a speaker's name has."""
        known = self.indexed(space_id, whole(scope), now)
        return frozenset(term for term in terms if any(term in record.speaker for record in known))

    def indexed(self, space_id: str, scope: Scope, now: datetime) -> Sequence[TermRecord]:
        """What of the scope is alive, first stored first."""
        shelf = self.shelf(space_id)
        scope.require_readable("lexical")
        return [record for record in shelf.terms.values() if is_visible(record, scope, now)]

    # ── steps ──

    def require_open(self) -> None:
        """Raises ClosedError."""
        if self._closed:
            raise ClosedError(self.name)

    def shelf(self, space_id: str) -> Shelf:
        """A space with its vectors. Raises NotFoundError."""
        self.require_open()
        if space_id not in self.shelves:
            raise NotFoundError(self.name, space_id, what="space")
        return self.shelves[space_id]

    def checked(self, shelf: Shelf, vector: bytes, *, index: int | None) -> Sequence[float]:
        """The numbers of a usable vector. Raises InvalidMemoryError."""
        dimension = shelf.space.identity.dimension
        if len(vector) != 4 * dimension:
            raise InvalidMemoryError("vector", f"{len(vector)} bytes", f"{dimension} numbers of 4 bytes", index=index)
        numbers = numbers_of(vector)
        if not all(map(math.isfinite, numbers)) or not any(numbers):
            raise InvalidMemoryError("vector", list(numbers[:4]), "finite numbers that are not all 0", index=index)
        return numbers
