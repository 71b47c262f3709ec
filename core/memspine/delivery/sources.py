"""What a primary has, page by page, for a replica: its list, then its feed or the journal's outbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from memspine import times
from memspine.chain import Chain
from memspine.contracts import Capability
from memspine.copying.calls import PAGE_ROWS, changed, held, listed, ref_of, states, tombstones
from memspine.delivery.planning import Source
from memspine.errors import CursorError
from memspine.indexing.reading import feed_end
from memspine.journal import Journal, intents
from memspine.journal.replicas import ReplicaPosition
from memspine.model import Change, Memory, MemoryRef, Scope, Tombstone


@attrs.frozen(kw_only=True)
class Page:
    """What a page names, and the place behind it; None where there is no place, as with single memories."""

    position: ReplicaPosition | None
    sources: Sequence[Source]
    from_position: ReplicaPosition | None = None
    more: bool = False


class PrimaryReader:
    """Reads the primary of a chain for its replicas. All calls raise BackendUnavailable."""

    def __init__(self, chain: Chain, journal: Journal) -> None:
        self._chain = chain
        self._journal = journal

    async def page(self, position: ReplicaPosition) -> Page:
        """The page behind a place that is copying or following. Raises CursorError when the feed there was trimmed, or
        the primary has a feed no more or only now."""
        if position.stage == "copying":
            return await self._listed(position)
        has_feed = Capability.CHANGES in await self._chain.capabilities()
        return await (self._changed(position) if has_feed else self._noted(position))

    async def sources(
        self, changes: Mapping[MemoryRef, Change | None], *, are_named: bool = False
    ) -> tuple[Source, ...]:
        """What the primary says of memories now, in their order; of each the change that named it, if any. Those that
        `are_named` were in the primary once, whatever is left of them."""
        capabilities = await self._chain.capabilities()
        memories = await held(self._chain, list(changes))
        stones = await self._tombstones([ref for ref in changes if ref not in memories], capabilities)
        has_history = Capability.HISTORY in capabilities
        found = []
        for ref, change in changes.items():
            memory, stone = memories.get(ref), stones.get(ref)
            if memory is None and stone is None and change is not None and change.deleted:
                stone = Tombstone(id=ref.id, owner=ref.owner, revision=change.revision, deleted_at=change.changed_at)
            earlier = await self._earlier(memory) if memory is not None and has_history else ()
            found.append(
                Source(
                    ref=ref,
                    memory=memory,
                    tombstone=stone,
                    earlier=earlier,
                    has_revisions=Capability.CHANGES in capabilities,
                    is_gone=are_named and memory is None and stone is None,
                    last_revision=None if change is None else change.revision,
                )
            )
        return tuple(found)

    async def deleted(self, refs: Sequence[MemoryRef]) -> tuple[MemoryRef, ...]:
        """Those of the memories that are known to be deleted."""
        return tuple(await self._tombstones(refs, await self._chain.capabilities()))

    async def end(self) -> str | None:
        """Where the changes end now."""
        if Capability.CHANGES in await self._chain.capabilities():
            return await feed_end(self._chain, scope=Scope.everyone())
        return intents.outbox_cursor(await self._journal.read(intents.outbox_end))

    async def behind(self, position: ReplicaPosition) -> tuple[int, bool]:
        """How many changes are behind a place in the feed, and whether there are more than were counted. Raises
        CursorError."""
        if Capability.CHANGES not in await self._chain.capabilities():
            after = self._noted_place(position)
            rows = await self._journal.read(partial(intents.outbox, after=after, limit=PAGE_ROWS))
            begun = await self._journal.read(intents.begun_changes)
            return len(rows) + len(begun), len(rows) == PAGE_ROWS
        page = await self._chain.call_primary(
            "changes",
            lambda backend: backend.changes(scope=Scope.everyone(), limit=PAGE_ROWS, cursor=position.cursor),
        )
        return len(page.value.changes), page.value.more

    async def _listed(self, position: ReplicaPosition) -> Page:
        page = await listed(self._chain, Scope.everyone(), position.cursor)
        refs = [ref_of(memory) for memory in page.memories]
        behind = (
            ReplicaPosition(stage="copying", cursor=page.cursor, feed=position.feed)
            if page.cursor is not None
            else ReplicaPosition(stage="following", cursor=position.feed)
        )
        sources = await self.sources(dict.fromkeys(refs))
        return Page(position=behind, from_position=position, sources=sources, more=True)

    async def _changed(self, position: ReplicaPosition) -> Page:
        page = await changed(self._chain, Scope.everyone(), position.cursor)
        last = {MemoryRef(change.owner, change.id): change for change in page.changes}
        behind = ReplicaPosition(stage="following", cursor=page.cursor)
        return Page(
            position=behind, from_position=position, sources=await self.sources(last, are_named=True), more=page.more
        )

    async def _noted(self, position: ReplicaPosition) -> Page:
        after = self._noted_place(position)
        rows = await self._journal.read(partial(intents.outbox, after=after, limit=PAGE_ROWS))
        begun = await self._journal.read(intents.begun_changes)  # they may have arrived, and looking costs little
        refs: dict[MemoryRef, Change | None] = dict.fromkeys(
            MemoryRef(owner, id) for owner, id in [*((row[1], row[2]) for row in rows), *begun]
        )
        behind = ReplicaPosition(stage="following", cursor=intents.outbox_cursor(rows[-1][0] if rows else after))
        sources = await self.sources(refs, are_named=True)
        return Page(position=behind, from_position=position, sources=sources, more=len(rows) == PAGE_ROWS)

    def _noted_place(self, position: ReplicaPosition) -> int:
        """The number in the outbox that a place stands for. Raises CursorError for a place in a feed: what changed
        between the feed's end and the first note, nobody knows."""
        number = intents.outbox_number(position.cursor)
        if number is None:
            raise CursorError(self._chain.primary.name, position.cursor or "", "a place in the journal's outbox")
        return number

    async def _tombstones(
        self, refs: Sequence[MemoryRef], capabilities: frozenset[Capability]
    ) -> Mapping[MemoryRef, Tombstone]:
        if Capability.CHANGES not in capabilities:
            return await self._noted_tombstones(refs)
        return await tombstones(self._chain, refs)

    async def _noted_tombstones(self, refs: Sequence[MemoryRef]) -> Mapping[MemoryRef, Tombstone]:
        """Those that the journal has for a primary that keeps none."""
        stones, now = await self._journal.read(partial(intents.stones, refs=refs)), times.now()
        return {
            ref: Tombstone(id=ref.id, owner=ref.owner, revision=stone.revision or 1, deleted_at=now)
            for ref, stone in stones.items()
            if not stone.is_begun
        }

    async def _earlier(self, memory: Memory) -> tuple[Memory, ...]:
        """The states before the current one, oldest first."""
        if memory.revision == 1:
            return ()
        found = await states(self._chain, ref_of(memory))
        return tuple(one.memory for one in found if one.memory.revision < memory.revision)
