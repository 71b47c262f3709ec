"""What the calls of the reference backend are made of, and the calls about whole records, feed and history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import attrs

from memspine.conformance.reference.shelf import Shelf, State, handed_out, stored
from memspine.contracts import MemoryBackendDefaults
from memspine.errors import ClosedError, CursorError, ScopeError
from memspine.model import (
    ChangePage,
    Memory,
    PurgedPlace,
    PurgeReceipt,
    PutOutcome,
    Revision,
    Scope,
    Tombstone,
    merged_metadata,
)


class Keeping(MemoryBackendDefaults):
    """A State, the steps that change it, and the capabilities that show more of it than the memories of today."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State()
        self._closed = False

    def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self.state = State()

    def require_open(self) -> None:
        """Raises ClosedError."""
        if self._closed:
            raise ClosedError(self.name)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Go back to where we were if any step fails."""
        before = self.state.copy()
        done = False
        try:
            yield
            done = True
        finally:
            if not done:
                self.state = before

    # ── steps ──

    def find(self, id: str, *, scope: Scope, now: datetime) -> Memory | None:
        """The live memory of this id, the caller's own first."""
        for owner in self.state.owners(scope):
            memory = self.state.shelf(owner).memories.get(id)
            if memory is not None and not memory.is_expired(now) and scope.session in (None, memory.session):
                return memory
        return None

    def merged(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        """Metadata after a replacement. Raises InvalidMemoryError."""
        return merged_metadata(old, new)

    def keep(self, memory: Memory, *, now: datetime) -> Memory:
        """Make this the current state of its id, and return it as its reader gets it."""
        shelf = self.state.shelf(memory.owner)
        self._archive(shelf, memory.id, now=now, deleted=False)
        shelf.memories[memory.id] = memory
        shelf.tombstones.pop(memory.id, None)
        self.state.feed.append(id=memory.id, owner=memory.owner, revision=memory.revision, deleted=False, now=now)
        return handed_out(memory)

    def bury(self, memory: Memory, *, now: datetime, revision: int | None = None) -> Tombstone:
        """Delete a memory, leaving a tombstone."""
        shelf = self.state.shelf(memory.owner)
        self._archive(shelf, memory.id, now=now, deleted=True)
        del shelf.memories[memory.id]
        revision = memory.revision + 1 if revision is None else revision
        tombstone = Tombstone(id=memory.id, owner=memory.owner, revision=revision, deleted_at=now)
        self.remember(tombstone)
        return tombstone

    def remember(self, tombstone: Tombstone) -> None:
        """Keep a tombstone."""
        self.state.shelf(tombstone.owner).tombstones[tombstone.id] = tombstone
        self.state.feed.append(
            id=tombstone.id,
            owner=tombstone.owner,
            revision=tombstone.revision,
            deleted=True,
            now=tombstone.deleted_at,
        )

    def forget(self, memory: Memory) -> None:
        """Remove an expired memory, its history with it."""
        shelf = self.state.shelf(memory.owner)
        del shelf.memories[memory.id]
        shelf.past.pop(memory.id, None)

    def _archive(self, shelf: Shelf, id: str, *, now: datetime, deleted: bool) -> None:
        old = shelf.memories.get(id)
        if old is not None:
            shelf.past.setdefault(id, []).append(Revision(memory=old, replaced_at=now, deleted=deleted))

    # ── put ──

    async def put(self, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
        """Store whole records."""
        self.require_open()
        owner = scope.require_owner("put")
        if foreign := next((record.owner for record in records if record.owner != owner), None):
            raise ScopeError(f"put of a record of {foreign!r}", scope, "records of the scope's owner alone")
        with self.all_or_nothing():
            return tuple(
                self._put_tombstone(record) if isinstance(record, Tombstone) else self._put_memory(record)
                for record in records
            )

    def _put_memory(self, memory: Memory) -> PutOutcome:
        shelf = self.state.shelf(memory.owner)
        old, tombstone = shelf.memories.get(memory.id), shelf.tombstones.get(memory.id)
        if tombstone is not None and memory.revision <= tombstone.revision:
            return PutOutcome.STALE
        if old is not None and (memory.revision, memory.content_hash) == (old.revision, old.content_hash):
            return PutOutcome.APPLIED
        if old is not None and memory.revision <= old.revision:
            if not old.is_expired(memory.updated_at):
                return PutOutcome.STALE if memory.revision < old.revision else PutOutcome.CONFLICT
            self.forget(old)
            old = None
        holder = shelf.holder(memory.key)
        if holder is not None and holder.id != memory.id:
            if not holder.is_expired(memory.updated_at):
                return PutOutcome.CONFLICT
            self.forget(holder)
        self.keep(stored(_with_higher_telemetry(memory, old)), now=memory.updated_at)
        return PutOutcome.APPLIED

    def _put_tombstone(self, tombstone: Tombstone) -> PutOutcome:
        shelf = self.state.shelf(tombstone.owner)
        memory, known = shelf.memories.get(tombstone.id), shelf.tombstones.get(tombstone.id)
        if memory is not None:
            if memory.revision >= tombstone.revision:
                return PutOutcome.STALE
            self.bury(memory, now=tombstone.deleted_at, revision=tombstone.revision)
        elif known is None or known.revision < tombstone.revision:
            self.remember(tombstone)
        elif known.revision > tombstone.revision:
            return PutOutcome.STALE
        return PutOutcome.APPLIED

    # ── changes ──

    async def changes(self, *, scope: Scope, limit: int, cursor: str | None = None) -> ChangePage:
        """The feed behind a cursor."""
        self.require_open()
        feed, owners = self.state.feed, scope.owners
        after = 0 if cursor is None else self._position(cursor)
        trimmed = max((place for owner, place in feed.trimmed.items() if owners is None or owner in owners), default=0)
        if cursor is not None and after < trimmed:
            raise CursorError(self.name, cursor, "one that lies behind what was trimmed")
        behind = [c for c in feed.changes if int(c.cursor) > after and (owners is None or c.owner in owners)]
        page = tuple(behind[:limit])
        return ChangePage(page, page[-1].cursor if page else str(max(after, trimmed)), more=len(behind) > len(page))

    def _position(self, cursor: str) -> int:
        if not (cursor.isascii() and cursor.isdigit() and int(cursor) <= self.state.feed.length):
            raise CursorError(self.name, cursor, "one that this store made")
        return int(cursor)

    async def tombstones(self, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
        """The tombstones of those ids that were deleted."""
        self.require_open()
        owners = scope.require_readable("tombstones")
        shelves = [self.state.shelf(owner) for owner in reversed(owners)]  # the caller's own last: it wins
        return {id: shelf.tombstones[id] for shelf in shelves for id in ids if id in shelf.tombstones}

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        """Drop old changes."""
        self.require_open()
        owners = None if scope.kind == "everyone" else (scope.require_owner("trim_changes"),)
        return self.state.feed.trim(owners, before=before, limit=limit)

    # ── history ──

    async def history(self, id: str, *, scope: Scope) -> tuple[Revision, ...]:
        """All states of a memory."""
        self.require_open()
        for owner in scope.require_readable("history"):
            shelf = self.state.shelf(owner)
            states = [*shelf.past.get(id, [])]
            if id in shelf.memories:
                states.append(Revision(memory=shelf.memories[id]))
            if states and scope.session in (None, states[-1].memory.session):
                return tuple(Revision(memory=handed_out(s.memory), replaced_at=s.replaced_at, deleted=s.deleted)
                             for s in states)  # fmt: skip
        return ()

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        """Drop old states and old tombstones."""
        self.require_open()
        owners = None if scope.kind == "everyone" else (scope.require_owner("trim_history"),)
        left = limit
        for owner, shelf in self.state.shelves.items():
            if owners is not None and owner not in owners:
                continue
            for past in shelf.past.values():
                old = [state for state in past if state.replaced_at is not None and state.replaced_at < before][:left]
                past[:] = past[len(old) :]
                left -= len(old)
            buried = [id for id, stone in shelf.tombstones.items() if stone.deleted_at < tombstones_before][:left]
            for id in buried:
                del shelf.tombstones[id]
            left -= len(buried)
        return limit - left

    # ── purge ──

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> PurgeReceipt:
        """Erase memories with all that was kept of them."""
        self.require_open()
        shelf = self.state.shelf(scope.require_owner("purge"))
        chosen = {*shelf.memories, *shelf.past} if ids is None else {*ids} & {*shelf.memories, *shelf.past}
        for id in sorted(chosen):
            if id in shelf.memories:
                self.bury(shelf.memories[id], now=now)
            shelf.past.pop(id, None)
        return PurgeReceipt(
            len(chosen),
            (
                PurgedPlace(place="memories and their history", status="erased"),
                PurgedPlace(place="tombstones", status="kept", detail="ids and times alone, so that they stay deleted"),
            ),
        )


def _with_higher_telemetry(memory: Memory, old: Memory | None) -> Memory:
    if old is None or old.is_expired(memory.updated_at):
        return memory
    accesses = [time for time in (memory.last_accessed_at, old.last_accessed_at) if time is not None]
    return attrs.evolve(
        memory, access_count=max(memory.access_count, old.access_count), last_accessed_at=max(accesses, default=None)
    )
