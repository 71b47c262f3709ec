"""What the tests of backends are written with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from memspine.conformance.samples import ALICE, ALL, EVERYONE, START, at
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import MemspineError
from memspine.model import (
    Change,
    Memory,
    MemoryFilter,
    MemoryType,
    NewMemory,
    Revision,
    Scope,
    Tombstone,
    canonical_json,
)

LATER: Final = at(1_000_000)
"""After everything that the tests do."""

FOREVER: Final = 10_000


async def add(
    store: MemoryBackend, id: str, content: str = "some words", *, scope: Scope = ALICE, time: float = 0, **fields: Any
) -> Memory:
    """Create a memory, `time` seconds after the start."""
    written = await store.create(NewMemory(content=content, **fields), scope=scope, id=id, now=at(time))
    return written.memory


async def pages(
    store: MemoryBackend,
    scope: Scope = ALICE,
    *,
    filter: MemoryFilter = ALL,
    now: datetime = LATER,
    limit: int = 1000,
    newest_first: bool = False,
) -> list[Memory]:
    """Everything that `list` shows, page by page."""
    found: list[Memory] = []
    cursor = None
    for _ in range(FOREVER):
        page = await store.list(filter, scope=scope, now=now, limit=limit, cursor=cursor, newest_first=newest_first)
        assert len(page.memories) <= limit
        found += page.memories
        if page.cursor is None:
            return found
        cursor = page.cursor
    raise AssertionError("list gives cursors without end")


async def listed(store: MemoryBackend, scope: Scope = ALICE, **options: Any) -> list[str]:
    """The ids of what `list` shows."""
    return [memory.id for memory in await pages(store, scope, **options)]


async def feed(
    store: MemoryBackend, scope: Scope = EVERYONE, *, cursor: str | None = None, limit: int = 1000
) -> list[Change]:
    """All changes behind a cursor."""
    found: list[Change] = []
    for _ in range(FOREVER):
        page = await store.changes(scope=scope, limit=limit, cursor=cursor)
        found += page.changes
        cursor = page.cursor
        if not page.more:
            return found
    raise AssertionError("the feed has no end")


async def end_of_feed(store: MemoryBackend, scope: Scope = EVERYONE) -> str:
    """The cursor behind everything."""
    cursor = None
    for _ in range(FOREVER):
        page = await store.changes(scope=scope, limit=1000, cursor=cursor)
        cursor = page.cursor
        if not page.more:
            return cursor
    raise AssertionError("the feed has no end")


def said(memory: Memory) -> tuple[Any, ...]:
    """All that a memory says, metadata as canonical JSON, so that 1 and 1.0 and True stay apart."""
    return (
        memory.id, memory.owner, memory.content, memory.type, memory.session, memory.key,
        canonical_json(dict(memory.metadata)), memory.created_at, memory.updated_at, memory.expires_at,
        memory.revision, memory.access_count, memory.last_accessed_at,
    )  # fmt: skip


@attrs.frozen
class Snapshot:
    """All that a store shows of some owners."""

    memories: tuple[tuple[Any, ...], ...]
    changes: tuple[Change, ...]
    tombstones: Mapping[str, Tombstone]
    histories: Mapping[str, tuple[Revision, ...]]


async def snapshot(store: MemoryBackend, *ids: str, scope: Scope = ALICE, now: datetime = START) -> Snapshot:
    """What the store shows of an owner, with history and tombstones of these ids where it keeps them."""
    everyone = sorted(map(said, await pages(store, EVERYONE, now=now)), key=str)
    changes = await feed(store) if Capability.CHANGES in store.capabilities else []
    tombstones = await store.tombstones(ids, scope=scope) if Capability.CHANGES in store.capabilities else {}
    histories = {}
    if Capability.HISTORY in store.capabilities:
        histories = {id: await store.history(id, scope=scope) for id in ids}
    return Snapshot(tuple(everyone), tuple(changes), dict(tombstones), histories)


OLD: Final = {"kept": 1, "replaced": {"deep": 1}, "removed": 2, "null": None}
"""The metadata of what `aged` makes."""


async def aged(store: MemoryBackend, id: str = "a", **fields: Any) -> Memory:
    """A memory with a creation of its own, some accesses and a key."""
    values: dict[str, Any] = {
        "key": "k",
        "created_at": at(-500),
        "session": "old",
        "metadata": OLD,
        "expires_at": at(2_000_000),
    }
    await add(store, id, "old words", **values | fields)
    await store.record_access({id: 3}, scope=ALICE, now=at(5))
    memory = await store.get(id, scope=ALICE, now=at(5))
    assert memory is not None
    return memory


async def the(store: MemoryBackend, id: str, *, now: float = 100) -> Memory:
    """The memory of this id, which has to be there."""
    memory = await store.get(id, scope=ALICE, now=at(now))
    assert memory is not None, f"{id} is not there"
    return memory


def record(**fields: Any) -> Memory:
    """A whole record with a history of its own."""
    whole: dict[str, Any] = {
        "id": "a",
        "owner": "alice",
        "content": "walnut",
        "type": MemoryType.SEMANTIC,
        "session": "s",
        "key": "k",
        "metadata": {"x": [1.0, None]},
        "created_at": at(-900),
        "updated_at": at(-300),
        "expires_at": at(2_000_000),
        "revision": 7,
        "access_count": 4,
        "last_accessed_at": at(-100),
    }
    return Memory(**whole | fields)


def tombstone(revision: int, *, id: str = "a", owner: str = "alice") -> Tombstone:
    """A tombstone of this revision."""
    return Tombstone(id=id, owner=owner, revision=revision, deleted_at=at(50))


class Poisoned(dict[str, Any]):
    """Metadata that nobody can read: what a call meets when something fails in its middle."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("poisoned on purpose")

    __iter__ = __len__ = __contains__ = __getitem__ = keys = values = items = get = _fail


POISONING: Final = (RuntimeError, TypeError, ValueError, MemspineError)
"""What a store may raise when it meets poisoned metadata."""
