"""A store of memories. The clauses are in `core/contract/backend.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from memspine.contracts.capability import Capability
from memspine.errors import CapabilityError
from memspine.model import (
    ChangePage,
    Counts,
    Health,
    KeywordMatches,
    KeywordQuery,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryPage,
    NewMemory,
    PurgeReceipt,
    PutOutcome,
    Revision,
    Scope,
    ScoredMemory,
    SearchQuery,
    Tombstone,
    Written,
)


class MemoryBackend(Protocol):
    """A store of memories. It receives checked values only: the kernel has normalised text and enforced limits.

    `capabilities` is what this opened store can do, a subset of what its provider declares. `mints_ids` says that
    `create` gives ids and times of creation of the store's own, whatever it is told; that such a create is repeated
    safely is nobody's promise.
    """

    name: str
    capabilities: frozenset[Capability]
    mints_ids: bool

    async def create(self, memory: NewMemory, *, scope: Scope, id: str, now: datetime) -> Written:
        """Store a memory. With a key that the owner has already, replace that one and merge its metadata."""
        ...

    async def create_many(
        self, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
    ) -> tuple[Written, ...]:
        """Store all of them in order, or none; results are in the order of the input."""
        ...

    async def get(self, id: str, *, scope: Scope, now: datetime) -> Memory | None:
        """The memory, or None when it is unknown, expired, deleted or foreign."""
        ...

    async def get_many(self, ids: Sequence[str], *, scope: Scope, now: datetime) -> dict[str, Memory]:
        """Those of the memories that `get` would return, by id, in the order asked. Any number of ids.

        In `Scope.shared` the caller's own memory wins over one of `global` with the same id.
        """
        ...

    async def update(
        self, id: str, changes: MemoryChanges, *, scope: Scope, now: datetime, expected_revision: int | None = None
    ) -> Memory:
        """Replace the named fields. Raises NotFoundError; ConflictError for another revision or a key that is taken."""
        ...

    async def delete(self, id: str, *, scope: Scope, now: datetime, expected_revision: int | None = None) -> Tombstone:
        """Delete for good. Raises NotFoundError, ConflictError."""
        ...

    async def delete_many(self, filter: MemoryFilter, *, scope: Scope, now: datetime, dry_run: bool) -> tuple[str, ...]:
        """Delete all that match, in one step; returns their ids in (created_at, id) order, also for a dry run."""
        ...

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
        """A page in (created_at, id) order, or the reverse. Raises CursorError for a cursor of another making."""
        ...

    async def count(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        by: Literal["type", "session", "owner"] | None = None,
    ) -> Counts:
        """How many match, in all and by group; empty groups are left out."""
        ...

    async def search(self, query: SearchQuery, *, scope: Scope, now: datetime) -> tuple[ScoredMemory, ...]:
        """The store's own best answers, best first."""
        ...

    async def record_access(self, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
        """Add to the access counts of these ids and set `last_accessed_at`; unknown ids are passed over."""
        ...

    async def expire(self, *, scope: Scope, now: datetime, limit: int) -> int:
        """Remove up to `limit` expired memories without a tombstone, in the scope of everyone or of an owner;
        returns how many."""
        ...

    async def health(self, *, deep: bool = False) -> Health:
        """A read-only probe; `deep` also checks the integrity of everything stored."""
        ...

    # ── capability "put" ──
    async def put(self, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
        """Store whole records with id, revision and times as they are, in order, in one step."""
        ...

    # ── capability "changes" ──
    async def changes(self, *, scope: Scope, limit: int, cursor: str | None = None) -> ChangePage:
        """The feed behind `cursor` (None: from its beginning). Raises CursorError when that part was trimmed."""
        ...

    async def tombstones(self, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
        """The tombstones of those ids that were deleted and not created again."""
        ...

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        """Drop feed rows older than `before`, oldest first, up to `limit`; returns how many."""
        ...

    # ── capability "lexical" ──
    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        """The best `limit` memories that hold at least one of the terms, with the scope owners' own statistics."""
        ...

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        """Those of the terms that are in the name of somebody who said a memory of the scope's owners."""
        ...

    # ── capability "history" ──
    async def history(self, id: str, *, scope: Scope) -> tuple[Revision, ...]:
        """All kept states of a memory, oldest first; of a deleted one as well. Empty for an unknown id."""
        ...

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        """Drop states replaced before `before` and tombstones older than `tombstones_before`, up to `limit` rows;
        returns how many."""
        ...

    # ── capability "purge" ──
    async def purge(self, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> PurgeReceipt:
        """Erase these memories (None: all of the owner's) from every place; tombstones stay, the receipt says so."""
        ...

    # ── capability "backup" ──
    async def backup(self, target: Path) -> None:
        """Write a consistent copy of the whole store to a new file while it is in use."""
        ...


class MemoryBackendDefaults:
    """Base class for backends: every capability raises CapabilityError until the subclass defines it."""

    name: str = "backend"
    capabilities: frozenset[Capability] = frozenset()
    mints_ids: bool = False

    def _unclaimed(self, capability: Capability, operation: str) -> CapabilityError:
        return CapabilityError(capability, operation=operation, store=self.name)

    async def put(self, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
        raise self._unclaimed(Capability.PUT, "put")

    async def changes(self, *, scope: Scope, limit: int, cursor: str | None = None) -> ChangePage:
        raise self._unclaimed(Capability.CHANGES, "changes")

    async def tombstones(self, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
        raise self._unclaimed(Capability.CHANGES, "tombstones")

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        raise self._unclaimed(Capability.CHANGES, "trim_changes")

    async def lexical(
        self, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
    ) -> KeywordMatches:
        raise self._unclaimed(Capability.LEXICAL, "lexical")

    async def speakers(self, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
        raise self._unclaimed(Capability.LEXICAL, "speakers")

    async def history(self, id: str, *, scope: Scope) -> tuple[Revision, ...]:
        raise self._unclaimed(Capability.HISTORY, "history")

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        raise self._unclaimed(Capability.HISTORY, "trim_history")

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> PurgeReceipt:
        raise self._unclaimed(Capability.PURGE, "purge")

    async def backup(self, target: Path) -> None:
        raise self._unclaimed(Capability.BACKUP, "backup")
