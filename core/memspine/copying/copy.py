"""Copying the memories of one store into another, page by page, and again only what is not there yet.

What the source has deleted comes first, then all memories, oldest first; then, where the source has a feed, what
changed meanwhile follows, and what the source has deleted and the target still has is deleted there. A memory that the
target has at this revision is left alone, so a copy that was interrupted is simply done again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime

import attrs

from memspine import times
from memspine.chain import Chain
from memspine.contracts import Capability, MemoryBackend
from memspine.copying.calls import changed, held, listed, ref_of, tombstones
from memspine.copying.idmap import IdMap
from memspine.copying.plain import PlainWriter
from memspine.copying.reports import CopyReport, Tally, Traits, losses
from memspine.copying.whole import WholeWriter
from memspine.errors import CursorError, InvalidMemoryError
from memspine.model import Change, Memory, MemoryRef, Scope, Tombstone


@attrs.frozen(kw_only=True)
class Copy:
    """A copy from one place to another, of one owner (None: of everyone) and, with `since`, of what changed since.

    `is_dry` only counts. `on_progress` is told how many memories were looked at, after each page. `ids` gets the id of
    each memory that has another one in the target, and tells those that are known from an earlier copy.
    """

    source: Chain
    target: Chain
    owner: str | None = None
    since: datetime | None = None
    is_dry: bool = False
    on_progress: Callable[[int], None] | None = None
    ids: IdMap = attrs.field(factory=IdMap)

    async def run(self) -> CopyReport:
        """Copy. Raises InvalidMemoryError for a `since` in the future, BackendUnavailable, and whatever the source
        refuses; what the target refuses is in the report."""
        since = self._checked_since()
        kept = await self.source.capabilities()
        taken, mints_ids = (await self.target.call_primary("capabilities", _ways)).value
        traits, tally = Traits(source=kept, target=taken, mints_ids=mints_ids, mints_times=mints_ids), Tally()
        writer = await self._writer(traits, tally)
        await self._run(writer, traits, tally, since=since)
        if isinstance(writer, PlainWriter) and writer.mints_times is not None:
            traits = attrs.evolve(traits, mints_times=writer.mints_times)
        return tally.report(losses(traits, tally))

    @property
    def scope(self) -> Scope:
        """Whose memories are copied."""
        return Scope.everyone() if self.owner is None else Scope.of_owner(self.owner)

    def _checked_since(self) -> datetime | None:
        if self.since is None:
            return None
        since = times.canonical(self.since, field="since")
        if since > times.now():
            raise InvalidMemoryError("since", self.since, "a time in the past")
        return since

    async def _writer(self, traits: Traits, tally: Tally) -> WholeWriter | PlainWriter:
        if not traits.takes_whole:
            return PlainWriter(
                source=self.source,
                target=self.target,
                scope=self.scope,
                tally=tally,
                ids=self.ids,
                is_dry=self.is_dry,
            )
        first = await listed(self.target, self.scope, None, limit=1)
        return WholeWriter(
            source=self.source,
            target=self.target,
            traits=traits,
            tally=tally,
            is_dry=self.is_dry,
            is_empty=not first.memories,
        )

    async def _run(
        self, writer: WholeWriter | PlainWriter, traits: Traits, tally: Tally, *, since: datetime | None
    ) -> None:
        was_empty = isinstance(writer, WholeWriter) and writer.is_empty
        end: str | None = None
        if Capability.CHANGES in traits.source:
            end = await self._bury(writer, since=since)
        async for page in self._pages(since=since):
            await writer.write(page)
            if self.on_progress is not None:
                self.on_progress(tally.seen)
        writer.is_again = True
        if isinstance(writer, WholeWriter):
            writer.is_empty = False
        if end is not None:
            await self._follow(writer, end)
        # What was deleted before the feed begins is found in the target alone.
        if Capability.CHANGES in traits.source and traits.takes_whole and not (was_empty and end is not None):
            async for stones in self._deleted(since=since):
                await writer.bury(stones)
        await writer.finish()

    async def _pages(self, *, since: datetime | None) -> AsyncIterator[Sequence[Memory]]:
        """All memories, oldest first."""
        cursor: str | None = None
        while True:
            page = await listed(self.source, self.scope, cursor)
            yield [memory for memory in page.memories if since is None or memory.updated_at >= since]
            cursor = page.cursor
            if cursor is None:
                return

    async def _bury(self, writer: WholeWriter | PlainWriter, *, since: datetime | None) -> str | None:
        """Bury what the feed says was deleted, and return where the feed ends: None for one that cannot be resumed, as
        one that was trimmed to nothing, which begins anew."""
        cursor: str | None = None
        more = True
        try:
            while more:
                page = await changed(self.source, self.scope, cursor)
                if isinstance(writer, WholeWriter):
                    gone = [MemoryRef(change.owner, change.id) for change in page.changes if change.deleted]
                    await writer.bury(_since(since, (await tombstones(self.source, dict.fromkeys(gone))).values()))
                cursor, more = page.cursor, page.more
            await changed(self.source, self.scope, cursor)
        except CursorError:
            return None
        return cursor

    async def _follow(self, writer: WholeWriter | PlainWriter, cursor: str) -> None:
        """Write what changed since the copy began, as it is now, and bury what was deleted."""
        more = True
        while more:
            page = await changed(self.source, self.scope, cursor)
            last = {MemoryRef(change.owner, change.id): change for change in page.changes}
            there = await held(self.source, [ref for ref, change in last.items() if not change.deleted])
            await writer.write([*there.values()])
            await writer.bury([_stone(change) for change in last.values() if change.deleted])
            cursor, more = page.cursor, page.more

    async def _deleted(self, *, since: datetime | None) -> AsyncIterator[Sequence[Tombstone]]:
        """The tombstones of what the target has and the source has deleted."""
        cursor: str | None = None
        while True:
            page = await listed(self.target, self.scope, cursor)
            refs = [ref_of(memory) for memory in page.memories]
            there = await held(self.source, refs)
            gone = await tombstones(self.source, [ref for ref in refs if ref not in there])
            yield _since(since, gone.values())
            cursor = page.cursor
            if cursor is None:
                return


def _stone(change: Change) -> Tombstone:
    return Tombstone(id=change.id, owner=change.owner, revision=change.revision, deleted_at=change.changed_at)


def _since(since: datetime | None, stones: Iterable[Tombstone]) -> list[Tombstone]:
    return [stone for stone in stones if since is None or stone.deleted_at >= since]


async def _ways(backend: MemoryBackend) -> tuple[frozenset[Capability], bool]:
    return backend.capabilities, backend.mints_ids
