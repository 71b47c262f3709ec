"""Fills a space from the primary: reads what it lacks, has it written, until nothing is left or the time is over."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import attrs

from memspine import times
from memspine.chain import Chain
from memspine.contracts import Space, VectorStore
from memspine.indexing.filling import BatchDone, fill_batch
from memspine.indexing.position import Position
from memspine.indexing.reading import PageRead, read_page
from memspine.indexing.writers import Writer
from memspine.model import Scope

T = TypeVar("T")

RELIST_SECONDS: Final = 3600.0
"""How often a store without a feed is listed anew."""
HURRIED_SECONDS: Final = 0.25
FEW_TEXTS: Final = 16
"""How many memories are written at once at first; at most so many when there is less time left than that, and a quarter
of them while nobody knows how fast the source is."""
BATCH_SECONDS: Final = 10.0
"""What a batch may take, far below a lease; the next one is half as large when it takes longer, and twice as large when
it takes less than a quarter."""


class Call(Protocol):
    """Calls a vector store, as `VectorIndex.call` does."""

    async def __call__(
        self, operation: str, call: Callable[[VectorStore], Awaitable[T]], *, unhurried: bool = False
    ) -> T:
        """The result of the call."""
        ...


@attrs.frozen(kw_only=True)
class Round:
    """What one round of work came to: memories written, whether nothing is left to do, and what keeps a source from
    working. `is_current` says that what answers questions holds everything but what was put off. `put_off` memories
    could not be written, the last of them because of `reason`; `holds_most` says that the space holds more than
    that."""

    embedded: int = 0
    complete: bool = True
    is_current: bool = True
    troubles: tuple[str, ...] = ()
    put_off: int = 0
    reason: str = ""
    holds_most: bool = True


@attrs.frozen(kw_only=True)
class Kept:
    """A space that this process keeps up, and what writes it. `is_configured` is that of the configured source."""

    space: Space
    writer: Writer
    is_configured: bool = False


class Upkeep:
    """Keeps spaces up with the primary, as one of any number of processes that do."""

    def __init__(self, chain: Chain, *, call: Call, batch: int) -> None:
        self._chain = chain
        self._call = call
        self._batch = batch
        self._holder = uuid.uuid4().hex
        self._listed_at: dict[str, float] = {}
        self._limits: dict[str, int] = {}

    async def fill(self, kept: Kept, *, deadline: float | None) -> Round:
        """Read and write, a page at a time, until the space holds everything or `time.monotonic()` reaches
        `deadline`; complete says that it holds everything but what was put off."""
        space, written = kept.space, 0
        backlog = await self._call("backlog", lambda store: store.backlog(space.id, now=times.now()))
        page = PageRead(position=Position.of(backlog.position), more=True)
        while True:
            done = await self._empty_queue(kept, deadline=deadline)
            written += done.embedded
            if not done.complete and (done.troubles or page.more):
                return attrs.evolve(done, embedded=written)
            if not page.more:
                break  # also when the time is over: what was written last may have been all
            page = await self._page(space, page.position)
        backlog = await self._call("backlog", lambda store: store.backlog(space.id, now=times.now()))
        if backlog.waiting > backlog.postponed:
            return Round(embedded=written, complete=False)  # no time was left, or another process is at the rest
        put_off, held = backlog.postponed, await self._held(space) if backlog.postponed else 0
        done = Round(embedded=written, put_off=put_off, reason=backlog.reason, holds_most=held >= put_off)
        if put_off and (not held or not (done.holds_most or space.complete)):
            # What it holds is no sample of what there is, so it is no space to answer with.
            return attrs.evolve(done, complete=False, troubles=(backlog.reason,))
        if not space.complete and page.position.passes:
            await self._call("complete_space", lambda store: store.complete_space(space.id))
        return done

    async def _held(self, space: Space) -> int:
        everyone, now = Scope.everyone(), times.now()
        return await self._call("count", lambda store: store.count(space.id, scope=everyone, now=now))

    async def _page(self, space: Space, position: Position) -> PageRead:
        relist = time.monotonic() - self._listed_at.get(space.id, -RELIST_SECONDS) >= RELIST_SECONDS
        page = await self._call(
            "reading",
            lambda store: read_page(self._chain, store, space.id, position=position, now=times.now(), relist=relist),
            unhurried=True,  # the end of a long feed is far; each call of the primary has its own limit
        )
        if page.position.passes > position.passes:
            self._listed_at[space.id] = time.monotonic()
        return page

    async def _empty_queue(self, kept: Kept, *, deadline: float | None) -> Round:
        """Write what is queued and due."""
        written = 0
        while True:
            is_hurried = deadline is not None and deadline - time.monotonic() < HURRIED_SECONDS
            limit = self._limits.get(kept.space.id, min(self._batch, FEW_TEXTS // 4 if is_hurried else FEW_TEXTS))
            limit = min(limit, FEW_TEXTS) if is_hurried else limit
            if deadline is not None and time.monotonic() >= deadline:
                return Round(embedded=written, complete=False)
            if kept.writer.trouble:
                return Round(embedded=written, complete=False, troubles=(kept.writer.trouble,))
            started = time.monotonic()
            done = await self._write_batch(kept, limit=limit)
            if done.claimed:
                self._limits[kept.space.id] = self._next_limit(limit, seconds=time.monotonic() - started)
            written += done.written
            if done.trouble:
                return Round(embedded=written, complete=False, troubles=(done.trouble,))
            if not done.claimed:
                return Round(embedded=written)

    def _next_limit(self, limit: int, *, seconds: float) -> int:
        if seconds > BATCH_SECONDS:
            return max(limit // 2, 1)
        return min(2 * limit, self._batch) if seconds < BATCH_SECONDS / 4 else limit

    async def _write_batch(self, kept: Kept, *, limit: int) -> BatchDone:
        return await self._call(
            "indexing",
            lambda store: fill_batch(
                self._chain, store, kept.space, writer=kept.writer, holder=self._holder, now=times.now(), limit=limit
            ),
            unhurried=True,
        )
