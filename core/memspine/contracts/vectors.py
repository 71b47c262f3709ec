"""The vector index of a chain. The clauses are in `core/contract/vectors.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

import attrs

from memspine.contracts.capability import Capability
from memspine.contracts.embedding import EmbeddingIdentity
from memspine.errors import CapabilityError
from memspine.model import (
    Health,
    KeywordMatches,
    KeywordQuery,
    MemoryFilter,
    MemoryRef,
    PurgeReceipt,
    Scope,
)

Quantisation = Literal["none", "int8", "binary"]
"""How a store keeps the vectors it compares: as they are, in a byte a number, or in a bit a number."""


@attrs.frozen(kw_only=True)
class Space:
    """One set of comparable vectors: an embedding identity, a quantisation, and how texts were cut.

    `source` is the configuration that made it, secrets as references, so that the space stays queryable. `complete`
    says that it has held every memory there was at some time: before that, nobody should rely on it. `used_at` is when
    somebody last wanted it kept.
    """

    id: str
    identity: EmbeddingIdentity
    quantisation: Quantisation = "none"
    chunk_tokens: int = 0
    source: Mapping[str, Any] = attrs.field(factory=dict)
    active: bool = False
    complete: bool = False
    used_at: datetime


@attrs.frozen(kw_only=True)
class VectorRecord:
    """The vector of one chunk of one memory at one revision, with what the search filters by. `vector` is
    little-endian float32."""

    id: str
    owner: str
    chunk: int
    revision: int
    session: str
    type: str
    created_at: datetime
    expires_at: datetime | None
    vector: bytes


@attrs.frozen(kw_only=True)
class TermRecord:
    """What a keyword index holds of one memory at one revision: how often it has each term, which terms are in its
    speaker's name, and whether it ends by asking something (`memspine.text`)."""

    id: str
    owner: str
    revision: int
    session: str
    type: str
    created_at: datetime
    expires_at: datetime | None
    terms: Mapping[str, int]
    speaker: frozenset[str]
    asks: bool


@attrs.frozen(kw_only=True)
class VectorHit:
    """A memory by its best chunk. `score` is the cosine, higher is nearer."""

    id: str
    owner: str
    chunk: int
    revision: int
    score: float


@attrs.frozen(kw_only=True)
class VectorMatches:
    """The nearest memories, best first.

    `others` are those of the asked-for memories that are not among the best, in the order asked. `compared` counts the
    memories of the scope that the filter lets through.
    """

    hits: tuple[VectorHit, ...]
    others: tuple[VectorHit, ...] = ()
    compared: int = 0


@attrs.frozen(kw_only=True)
class Work:
    """A memory that a space has to hold, at `revision` or a newer one, and how often that has failed."""

    ref: MemoryRef
    revision: int
    failures: int = 0


@attrs.frozen(kw_only=True)
class Backlog:
    """What a space still has to do.

    `position` is how far the changes were read, as the kernel noted it; `waiting` memories are queued in all, of which
    `leased` are being worked on and `postponed` have failed and wait until at least `next_at`; `reason` is that of the
    one that failed last.
    """

    position: str = ""
    waiting: int = 0
    leased: int = 0
    postponed: int = 0
    next_at: datetime | None = None
    reason: str = ""


class VectorStore(Protocol):
    """The vector index of a chain, in spaces, each with a queue of what it still has to hold.

    Scope, filter and expiry hold inside the search. What keeps the index up names memories by owner and id.
    """

    name: str
    capabilities: frozenset[Capability]

    async def spaces(self) -> tuple[Space, ...]:
        """All spaces, oldest first."""
        ...

    async def open_space(self, space: Space) -> Space:
        """Make the space if it is not there: a new space is neither active nor complete, whatever it says of itself.
        The one that is there wins, and takes over a later `used_at`."""
        ...

    async def complete_space(self, space_id: str) -> None:
        """Note that the space holds all there was. Raises NotFoundError."""
        ...

    async def activate(self, space_id: str) -> None:
        """Make this the one space that queries use, atomically. Raises NotFoundError."""
        ...

    async def drop_space(self, space_id: str) -> None:
        """Remove a space, what it holds and its queue. Raises NotFoundError; ConflictError for the active one."""
        ...

    # ── writing ──

    async def upsert(self, space_id: str, *, records: Sequence[VectorRecord], holder: str | None = None) -> None:
        """Store vectors, all of the call or none; a memory's chunks of an older revision are replaced, newer ones stay.
        What the queue held of these memories is done; where a newer revision is queued it is free.

        With a `holder` only memories that the queue has leased to it are stored, in the same step: what was deleted or
        purged since it was claimed stays away.
        """
        ...

    async def settle(self, space_id: str, *, revisions: Mapping[MemoryRef, int], holder: str) -> None:
        """Note that at these revisions there is nothing to hold of memories that the queue has leased to the holder:
        they are done, and what the space holds of them is removed. What is newer stays, in the queue and in the space;
        other spaces stay as they are."""
        ...

    async def delete(self, refs: Sequence[MemoryRef]) -> None:
        """Remove these memories from every space and every queue; unknown ones are passed over."""
        ...

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope) -> PurgeReceipt:
        """Erase these memories (None: all of the owner's) from every place of this store, beyond recovery; in the scope
        of a session only those that a space holds in it."""
        ...

    async def expire(self, *, now: datetime, limit: int) -> int:
        """Remove what the spaces hold of up to `limit` memories that have expired; returns how many memories. The
        queues stay as they are."""
        ...

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
        """The best `limit` memories, best first, and the scores of those in `also` that the scope holds."""
        ...

    async def count(self, space_id: str, *, scope: Scope, now: datetime) -> int:
        """How many memories the space holds."""
        ...

    # ── the queue ──

    async def enqueue(self, space_id: str, *, revisions: Mapping[MemoryRef, int], position: str) -> int:
        """Queue what the space does not hold at this revision or a newer one, in any order, and note the position, in
        one step; returns how many memories were not queued before. What is queued at an older revision keeps its place
        and its lease when it is raised, and is due at once again."""
        ...

    async def claim(
        self, space_id: str, *, holder: str, now: datetime, lease_seconds: float, limit: int
    ) -> tuple[Work, ...]:
        """Up to `limit` of the queued memories that are due and that nobody has a lease on, longest queued first, now
        leased to `holder`."""
        ...

    async def postpone(
        self, space_id: str, *, refs: Sequence[MemoryRef], holder: str, until: datetime, reason: str
    ) -> None:
        """End the holder's leases on these memories, which failed: they are due again at `until`."""
        ...

    async def release(self, space_id: str, *, refs: Sequence[MemoryRef], holder: str) -> None:
        """End the holder's leases on these memories without a failure: they are due at once."""
        ...

    async def backlog(self, space_id: str, *, now: datetime) -> Backlog:
        """What the space still has to do."""
        ...

    async def health(self, *, deep: bool = False) -> Health:
        """A read-only probe; `deep` also checks the integrity of everything stored."""
        ...

    # ── capability "lexical": the keyword index of a primary that has none ──
    async def index_terms(self, space_id: str, *, records: Sequence[TermRecord], holder: str | None = None) -> None:
        """Store the terms of memories, as `upsert` stores vectors; the space holds no vectors then."""
        ...

    async def lexical(
        self, space_id: str, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """What `MemoryBackend.lexical` answers; of the filter only types and times of creation hold."""
        ...

    async def speakers(self, space_id: str, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """What `MemoryBackend.speakers` answers."""
        ...


class VectorStoreDefaults:
    """Base class for stores without the capability lexical: its calls raise CapabilityError."""

    name: str = "store"
    capabilities: frozenset[Capability] = frozenset()

    async def index_terms(self, space_id: str, *, records: Sequence[TermRecord], holder: str | None = None) -> None:
        raise CapabilityError(Capability.LEXICAL, operation="index_terms", store=self.name)

    async def lexical(
        self, space_id: str, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        raise CapabilityError(Capability.LEXICAL, operation="lexical", store=self.name)

    async def speakers(self, space_id: str, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        raise CapabilityError(Capability.LEXICAL, operation="speakers", store=self.name)
