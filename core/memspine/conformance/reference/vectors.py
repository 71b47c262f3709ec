"""The reference vector store: every vector is looked at, in memory."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import attrs

from memspine.conformance.reference.config import ReferenceConfig
from memspine.contracts import Capability, Context, Neighbour, Space, VectorHit, VectorRecord, Vectors
from memspine.errors import ClosedError, ConflictError, InvalidMemoryError, NotFoundError
from memspine.model import Health, MemoryFilter, Scope

Place = tuple[str, str]
"""Owner and id of a memory."""


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
    """A space, its chunks by memory, and the leases on ids: holder and end."""

    space: Space
    chunks: dict[Place, dict[int, VectorRecord]] = attrs.field(factory=dict)
    leases: dict[str, tuple[str, datetime]] = attrs.field(factory=dict)


class ReferenceVectorStore:
    """A VectorStore in memory. No call gives way to another between its first and its last step."""

    capabilities: frozenset[Capability] = frozenset()

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
        kept = attrs.evolve(space, source=dict(space.source), active=False)
        return self.shelves.setdefault(space.id, Shelf(kept)).space

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

    # ── vectors ──

    async def upsert(self, space_id: str, *, records: Sequence[VectorRecord]) -> None:
        """Store chunks."""
        shelf = self.shelf(space_id)
        for index, record in enumerate(records):
            self.checked(shelf, record.vector, index=index)
        for record in records:
            chunks = shelf.chunks.get((record.owner, record.id), {})
            held = max((chunk.revision for chunk in chunks.values()), default=0)
            if record.revision >= held:
                kept = chunks if record.revision == held else {}
                shelf.chunks[record.owner, record.id] = {**kept, record.chunk: record}

    async def delete(self, ids: Sequence[str], *, scope: Scope) -> None:
        """Remove memories from every space."""
        self.require_open()
        owner = scope.require_owner("delete")
        for shelf in self.shelves.values():
            for id in ids:
                shelf.chunks.pop((owner, id), None)

    async def search(
        self, space_id: str, *, vector: bytes, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> tuple[VectorHit, ...]:
        """The nearest memories."""
        shelf = self.shelf(space_id)
        scope.require_readable("search")
        question = self.checked(shelf, vector, index=None)
        hits = []
        for chunks in shelf.chunks.values():
            visible = [chunk for chunk in chunks.values() if _is_visible(chunk, scope, now) and _matches(chunk, filter)]
            scored = [(_cosine(question, _numbers(chunk.vector)), -chunk.chunk, chunk) for chunk in visible]
            if scored:
                score, _, best = max(scored, key=lambda triple: triple[:2])
                hits.append(_hit(best, score))
        return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit])

    # ── keeping up ──

    async def missing(self, space_id: str, *, revisions: Mapping[str, int], scope: Scope) -> tuple[str, ...]:
        """What is not held, or too old."""
        shelf = self.shelf(space_id)
        owner = scope.require_owner("missing")
        return tuple(id for id, revision in revisions.items() if self.revision(shelf, (owner, id)) < revision)

    def revision(self, shelf: Shelf, place: Place) -> int:
        """The revision of a memory that a space holds; 0 for none."""
        return max((chunk.revision for chunk in shelf.chunks.get(place, {}).values()), default=0)

    async def count(self, space_id: str, *, scope: Scope, now: datetime) -> int:
        """How many memories a space holds."""
        shelf = self.shelf(space_id)
        return sum(any(_is_visible(chunk, scope, now) for chunk in chunks.values()) for chunks in shelf.chunks.values())

    async def claim(
        self, space_id: str, *, ids: Sequence[str], holder: str, now: datetime, lease_seconds: float
    ) -> tuple[str, ...]:
        """Lease what is free."""
        leases = self.shelf(space_id).leases
        free = [id for id in ids if id not in leases or leases[id][0] == holder or leases[id][1] <= now]
        leases.update(dict.fromkeys(free, (holder, now + timedelta(seconds=lease_seconds))))
        return tuple(free)

    async def neighbours(
        self, ids: Sequence[str], *, scope: Scope, now: datetime, before: int, after: int
    ) -> tuple[Neighbour, ...]:
        """The memories around others."""
        self.require_open()
        scope.require_readable("neighbours")
        lines = self._lines(scope, now)
        found: list[Neighbour] = []
        for id in ids:
            for line in lines:
                if id in line:
                    place = line.index(id)
                    first, last = max(place - before, 0), min(place + after, len(line) - 1)
                    offsets = (n - place for n in range(first, last + 1) if n != place)
                    found += [Neighbour(of=id, id=line[place + offset], offset=offset) for offset in offsets]
                    break
        return tuple(found)

    def _lines(self, scope: Scope, now: datetime) -> list[list[str]]:
        """The ids of each session in their order, the sessions of the caller first."""
        sessions: dict[tuple[str, str], dict[str, VectorRecord]] = {}
        for shelf in self.shelves.values():
            for chunks in shelf.chunks.values():
                for record in chunks.values():
                    if _is_visible(record, scope, now):
                        sessions.setdefault((record.owner, record.session), {})[record.id] = record
        own_first = sorted(sessions.items(), key=lambda item: item[0][0] != scope.owner)
        return [
            [record.id for record in sorted(records.values(), key=lambda r: (r.created_at, r.id))]
            for _, records in own_first
        ]

    async def health(self, *, deep: bool = False) -> Health:
        """It works as long as it is open."""
        self.require_open()
        return Health(ok=True, detail="in memory")

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
        numbers = _numbers(vector)
        if not all(map(math.isfinite, numbers)) or not any(numbers):
            raise InvalidMemoryError("vector", list(numbers[:4]), "finite numbers that are not all 0", index=index)
        return numbers


def _is_visible(record: VectorRecord, scope: Scope, now: datetime) -> bool:
    return (
        (scope.owners is None or record.owner in scope.owners)
        and scope.session in (None, record.session)
        and (record.expires_at is None or record.expires_at > now)
    )


def _matches(record: VectorRecord, filter: MemoryFilter) -> bool:
    return (
        (not filter.types or record.type in filter.types)
        and (filter.created_from is None or filter.created_from <= record.created_at)
        and (filter.created_before is None or record.created_at < filter.created_before)
    )


def _numbers(vector: bytes) -> Sequence[float]:
    return Vectors(len(vector) // 4, vector).row(0)


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    return product / math.sqrt(math.fsum(a * a for a in left) * math.fsum(b * b for b in right))


def _hit(record: VectorRecord, score: float) -> VectorHit:
    return VectorHit(
        id=record.id,
        owner=record.owner,
        session=record.session,
        created_at=record.created_at,
        chunk=record.chunk,
        revision=record.revision,
        score=score,
    )
