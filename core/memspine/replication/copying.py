"""Copying the memories of one store into another, page by page, and again only what is not there yet.

All memories are listed oldest first; then, where the source has a feed, what changed meanwhile follows, and what the
source has deleted and the target still has is deleted there. A memory that the target has at this revision is left
alone, so a copy that was interrupted is simply done again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from memspine import times
from memspine.chain import Chain
from memspine.contracts import Capability, MemoryBackend
from memspine.indexing.forgetting import fetched
from memspine.indexing.reading import feed_end
from memspine.model import (
    ChangePage,
    Memory,
    MemoryFilter,
    MemoryPage,
    MemoryRef,
    NewMemory,
    PutOutcome,
    Scope,
    Tombstone,
)

PAGE_ROWS: Final = 500
CONFLICTS_LISTED_MAX: Final = 100
NOT_KEPT: Final = ("revisions", "times of change", "numbers of recalls", "deletions")
"""What a target without `put` does not take."""
MADE_ANEW: Final = "vectors and keyword index: made anew for the target, not copied"


@attrs.frozen(kw_only=True)
class CopyReport:
    """What became of the memories. Each is counted once: as copied (new or newer than what was there), unchanged,
    stale (older than what is there) or in conflict, of which the first `CONFLICTS_LISTED_MAX` are listed; `deleted` are
    those that the source had deleted and the target not. `losses` lists what the target does not keep. After a dry run
    it says what would have been done."""

    copied: int = 0
    unchanged: int = 0
    stale: int = 0
    conflicts: int = 0
    deleted: int = 0
    conflicting: tuple[MemoryRef, ...] = ()
    losses: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many memories there were."""
        return self.copied + self.unchanged + self.stale + self.conflicts


@attrs.define
class _Tally:
    copied: int = 0
    unchanged: int = 0
    stale: int = 0
    conflicts: int = 0
    deleted: int = 0
    conflicting: list[MemoryRef] = attrs.field(factory=list)

    def conflict(self, ref: MemoryRef) -> None:
        self.conflicts += 1
        if len(self.conflicting) < CONFLICTS_LISTED_MAX:
            self.conflicting.append(ref)


Renamed = Callable[[MemoryRef, str], None]
"""Told of each memory that the target gave another id."""


@attrs.frozen(kw_only=True)
class Copy:
    """A copy from one place to another, of one owner (None: of everyone) and, with `since`, of what changed since.

    `is_dry` only counts. `on_progress` is told how many memories were looked at, after each page.
    """

    source: Chain
    target: Chain
    owner: str | None = None
    since: datetime | None = None
    is_dry: bool = False
    on_progress: Callable[[int], None] | None = None
    on_renamed: Renamed | None = None

    async def run(self) -> CopyReport:
        """Copy. Raises BackendUnavailable, and whatever either store refuses."""
        kept = (await self.source.call_primary("capabilities", _capabilities)).value
        taken = (await self.target.call_primary("capabilities", _capabilities)).value
        tally = _Tally()
        has_feed = Capability.CHANGES in kept
        end = await feed_end(self.source, scope=self.scope) if has_feed else None
        writer = _Writer(
            copy=self,
            tally=tally,
            takes_whole=Capability.PUT in taken,
            takes_history=Capability.HISTORY in kept & taken,
        )
        async for page in self._pages():
            await writer.write(page)
            if self.on_progress is not None:
                self.on_progress(tally.copied + tally.unchanged + tally.stale + tally.conflicts)
        if has_feed and end is not None:
            async for changed, deleted in self._changes(end):
                await writer.write(changed)
                await writer.delete(deleted)
        if has_feed and self.since is None:
            async for deleted in self._deleted():
                await writer.delete(deleted)
        return CopyReport(
            copied=tally.copied,
            unchanged=tally.unchanged,
            stale=tally.stale,
            conflicts=tally.conflicts,
            deleted=tally.deleted,
            conflicting=tuple(tally.conflicting),
            losses=_losses(kept, taken),
        )

    @property
    def scope(self) -> Scope:
        """Whose memories are copied."""
        return Scope.everyone() if self.owner is None else Scope.of_owner(self.owner)

    async def _pages(self) -> AsyncIterator[Sequence[Memory]]:
        """All memories, oldest first."""
        cursor: str | None = None
        while True:
            page = await _listed(self.source, self.scope, cursor)
            yield [memory for memory in page.memories if self.since is None or memory.updated_at >= self.since]
            cursor = page.cursor
            if cursor is None:
                return

    async def _deleted(self) -> AsyncIterator[Sequence[Tombstone]]:
        """The tombstones of what the target has and the source has deleted."""
        cursor: str | None = None
        while True:
            page = await _listed(self.target, self.scope, cursor)
            refs = [MemoryRef(memory.owner, memory.id) for memory in page.memories]
            there = await fetched(self.source, refs)
            by_owner: defaultdict[str, list[str]] = defaultdict(list)
            for ref in refs:
                if ref not in there:
                    by_owner[ref.owner].append(ref.id)
            for owner, ids in by_owner.items():
                yield [*(await _tombstones(self.source, owner, ids)).values()]
            cursor = page.cursor
            if cursor is None:
                return

    async def _changes(self, cursor: str) -> AsyncIterator[tuple[Sequence[Memory], Sequence[Tombstone]]]:
        """What changed since the copy began, as it is now, and what was deleted."""
        more = True
        while more:
            page = await _changed(self.source, self.scope, cursor)
            last = {MemoryRef(change.owner, change.id): change for change in page.changes}
            there = await fetched(self.source, [ref for ref, change in last.items() if not change.deleted])
            gone = [
                Tombstone(id=ref.id, owner=ref.owner, revision=change.revision, deleted_at=change.changed_at)
                for ref, change in last.items()
                if change.deleted
            ]
            yield [*there.values()], gone
            cursor, more = page.cursor, page.more


@attrs.frozen(kw_only=True)
class _Writer:
    """Writes into the target what it does not have."""

    copy: Copy
    tally: _Tally
    takes_whole: bool
    takes_history: bool

    async def write(self, memories: Sequence[Memory]) -> None:
        """Write what of these is not there."""
        there = await fetched(self.copy.target, [MemoryRef(memory.owner, memory.id) for memory in memories])
        missing: defaultdict[str, list[Memory]] = defaultdict(list)
        for memory in memories:
            old = there.get(MemoryRef(memory.owner, memory.id))
            if old is not None and self._is_same(old, memory):
                self.tally.unchanged += 1
            elif self.copy.is_dry or (old is not None and not self.takes_whole):
                self._foresee(old, memory)
            else:
                missing[memory.owner].append(memory)
        for owner, some in missing.items():
            await (self._put(owner, some) if self.takes_whole else self._create(owner, some))

    async def delete(self, tombstones: Sequence[Tombstone]) -> None:
        """Delete what the source has deleted."""
        if not self.takes_whole:
            return
        there = await fetched(self.copy.target, [MemoryRef(stone.owner, stone.id) for stone in tombstones])
        for stone in tombstones:
            memory = there.get(MemoryRef(stone.owner, stone.id))
            if memory is None or memory.revision >= stone.revision:
                continue
            if not self.copy.is_dry:
                await self.copy.target.write("put", _putting([stone], owner=stone.owner))
            self.tally.deleted += 1

    def _is_same(self, old: Memory, memory: Memory) -> bool:
        if self.takes_whole:
            return (old.revision, old.content_hash) == (memory.revision, memory.content_hash)
        return _told(old) == _told(memory)

    def _foresee(self, old: Memory | None, memory: Memory) -> None:
        if old is None or (self.takes_whole and old.revision < memory.revision):
            self.tally.copied += 1
        elif self.takes_whole and old.revision > memory.revision:
            self.tally.stale += 1
        else:
            self.tally.conflict(MemoryRef(memory.owner, memory.id))

    async def _put(self, owner: str, memories: Sequence[Memory]) -> None:
        records: list[Memory] = []
        current: set[int] = set()
        for memory in memories:
            records += await self._earlier(memory)
            current.add(len(records))
            records.append(memory)
        outcomes = (await self.copy.target.write("put", _putting(records, owner=owner))).value
        for place, (record, outcome) in enumerate(zip(records, outcomes, strict=True)):
            if place not in current:
                continue
            if outcome is PutOutcome.APPLIED:
                self.tally.copied += 1
            elif outcome is PutOutcome.STALE:
                self.tally.stale += 1
            else:
                self.tally.conflict(MemoryRef(owner, record.id))

    async def _earlier(self, memory: Memory) -> list[Memory]:
        """The states that it had before, oldest first."""
        if not self.takes_history or memory.revision == 1:
            return []
        scope = Scope.of_owner(memory.owner)
        states = await self.copy.source.call_primary("history", lambda backend: backend.history(memory.id, scope=scope))
        return [state.memory for state in states.value if state.memory.revision < memory.revision]

    async def _create(self, owner: str, memories: Sequence[Memory]) -> None:
        news = [
            NewMemory(
                content=memory.content,
                type=memory.type,
                session=memory.session,
                key=memory.key,
                metadata=memory.metadata,
                expires_at=memory.expires_at,
                created_at=memory.created_at,
            )
            for memory in memories
        ]
        ids, scope, now = [memory.id for memory in memories], Scope.of_owner(owner), times.now()
        written = await self.copy.target.write(
            "create", lambda backend: backend.create_many(news, scope=scope, ids=ids, now=now), ids=ids
        )
        for memory, stored in zip(memories, written.value, strict=True):
            self.tally.copied += 1
            if stored.memory.id != memory.id and self.copy.on_renamed is not None:
                self.copy.on_renamed(MemoryRef(owner, memory.id), stored.memory.id)


async def _listed(chain: Chain, scope: Scope, cursor: str | None) -> MemoryPage:
    now = times.now()
    page = await chain.call_primary(
        "list", lambda backend: backend.list(MemoryFilter(), scope=scope, now=now, limit=PAGE_ROWS, cursor=cursor)
    )
    return page.value


async def _tombstones(chain: Chain, owner: str, ids: Sequence[str]) -> Mapping[str, Tombstone]:
    scope = Scope.of_owner(owner)
    found = await chain.call_primary("tombstones", lambda backend: backend.tombstones(ids, scope=scope))
    return found.value


async def _changed(chain: Chain, scope: Scope, cursor: str) -> ChangePage:
    page = await chain.call_primary(
        "changes", lambda backend: backend.changes(scope=scope, limit=PAGE_ROWS, cursor=cursor)
    )
    return page.value


def _putting(
    records: Sequence[Memory | Tombstone], *, owner: str
) -> Callable[[MemoryBackend], Awaitable[tuple[PutOutcome, ...]]]:
    scope = Scope.of_owner(owner)
    return lambda backend: backend.put(records, scope=scope)


def _told(memory: Memory) -> tuple[object, ...]:
    """What a target without revisions can be compared by."""
    return (memory.content, memory.type, memory.session, memory.key, memory.metadata, memory.expires_at)


def _losses(kept: frozenset[Capability], taken: frozenset[Capability]) -> tuple[str, ...]:
    losses = [] if Capability.PUT in taken else list(NOT_KEPT)
    if Capability.HISTORY not in kept:
        losses.append("earlier states: the source keeps none")
    elif not {Capability.HISTORY, Capability.PUT} <= taken:
        losses.append("earlier states")
    return (*losses, MADE_ANEW)


async def _capabilities(backend: MemoryBackend) -> frozenset[Capability]:
    return backend.capabilities
