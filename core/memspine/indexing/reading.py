"""Queues what a space lacks: reads the primary's memories and changes, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

import attrs

from memspine.chain import Chain
from memspine.contracts import Capability, MemoryBackend, VectorStore
from memspine.errors import CursorError
from memspine.indexing.forgetting import forget
from memspine.indexing.position import Position
from memspine.model import Change, ChangePage, MemoryFilter, MemoryPage, MemoryRef, Scope

PAGE_ROWS = 1000


@attrs.frozen(kw_only=True)
class PageRead:
    """What reading one page came to: where the space is now, and whether there is more to read at once."""

    position: Position
    more: bool


async def read_page(
    chain: Chain, store: VectorStore, space_id: str, *, position: Position, now: datetime, relist: bool
) -> PageRead:
    """Queue what one page of memories or changes names and the space lacks; forget what it says was deleted.

    `relist` starts a store without a feed over when its end was reached.
    """
    if position.stage == "begin":
        position = attrs.evolve(position, stage="list", cursor=None, feed=await feed_end(chain, scope=Scope.everyone()))
    if position.stage == "list":
        return await _list_page(chain, store, space_id, position, now=now)
    if Capability.CHANGES not in await chain.capabilities():
        if relist:
            position = attrs.evolve(position, stage="list", cursor=None)
            return await _list_page(chain, store, space_id, position, now=now)
        return PageRead(position=position, more=False)
    try:
        page = (await chain.call_primary("changes", _reader(Scope.everyone(), position.cursor))).value
    except CursorError:  # trimmed, or a feed of another store: only the memories themselves tell what there is
        again = Position(passes=position.passes)
        await store.enqueue(space_id, revisions={}, position=str(again))
        return PageRead(position=again, more=True)
    return await _feed_page(chain, store, space_id, position, page)


async def _list_page(chain: Chain, store: VectorStore, space_id: str, position: Position, *, now: datetime) -> PageRead:
    async def listed(backend: MemoryBackend) -> MemoryPage:
        return await backend.list(
            MemoryFilter(), scope=Scope.everyone(), now=now, limit=PAGE_ROWS, cursor=position.cursor
        )

    page = (await chain.call_primary("list", listed)).value
    revisions = {MemoryRef(memory.owner, memory.id): memory.revision for memory in page.memories}
    if page.cursor is None:
        new = Position(stage="feed", cursor=position.feed, passes=position.passes + 1)
    else:
        new = attrs.evolve(position, cursor=page.cursor)
    await store.enqueue(space_id, revisions=revisions, position=str(new))
    return PageRead(position=new, more=True)


async def _feed_page(chain: Chain, store: VectorStore, space_id: str, position: Position, page: ChangePage) -> PageRead:
    new = attrs.evolve(position, cursor=page.cursor)
    last = _last_states(page.changes)
    if gone := [ref for ref, change in last.items() if change.deleted]:
        await forget(chain, store, gone)
    revisions = {ref: change.revision for ref, change in last.items() if not change.deleted}
    if revisions or new != position:
        await store.enqueue(space_id, revisions=revisions, position=str(new))
    return PageRead(position=new, more=page.more)


def _last_states(changes: Sequence[Change]) -> Mapping[MemoryRef, Change]:
    return {MemoryRef(change.owner, change.id): change for change in changes}


async def feed_end(chain: Chain, *, scope: Scope) -> str | None:
    """The cursor behind the last change there is in a scope; None where there is no feed, or none that can be resumed:
    one that was trimmed to nothing begins anew."""
    if Capability.CHANGES not in await chain.capabilities():
        return None
    cursor: str | None = None
    more = True
    try:
        while more:
            page = (await chain.call_primary("changes", _reader(scope, cursor))).value
            cursor, more = page.cursor, page.more
        await chain.call_primary("changes", _reader(scope, cursor))
    except CursorError:
        return None
    return cursor


def _reader(scope: Scope, cursor: str | None) -> Callable[[MemoryBackend], Awaitable[ChangePage]]:
    return lambda backend: backend.changes(scope=scope, limit=PAGE_ROWS, cursor=cursor)
