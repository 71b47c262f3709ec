"""The calls that copying and comparing make of a store: without a deadline, because they grow with what it holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from memspine import times
from memspine.chain import Chain
from memspine.model import (
    ChangePage,
    Memory,
    MemoryFilter,
    MemoryPage,
    MemoryRef,
    PutOutcome,
    Revision,
    Scope,
    Tombstone,
)

PAGE_ROWS: Final = 500


async def listed(chain: Chain, scope: Scope, cursor: str | None, *, limit: int | None = None) -> MemoryPage:
    """A page of memories, oldest first."""
    now = times.now()
    rows = limit or PAGE_ROWS
    page = await chain.unhurried(
        "list", lambda backend: backend.list(MemoryFilter(), scope=scope, now=now, limit=rows, cursor=cursor), ids=None
    )
    return page.value


async def held(chain: Chain, refs: Collection[MemoryRef]) -> dict[MemoryRef, Memory]:
    """Those of the memories that a store has, whatever their session."""
    found: dict[MemoryRef, Memory] = {}
    for owner, ids in by_owner(refs).items():
        scope, now = Scope.of_owner(owner), times.now()
        got = await chain.unhurried(
            "get",
            lambda backend: backend.get_many(ids, scope=scope, now=now),  # noqa: B023
            ids=None,
        )
        found.update((MemoryRef(owner, id), memory) for id, memory in got.value.items())
    return found


async def tombstones(chain: Chain, refs: Collection[MemoryRef]) -> dict[MemoryRef, Tombstone]:
    """The tombstones of those that were deleted and not created again."""
    found: dict[MemoryRef, Tombstone] = {}
    for owner, ids in by_owner(refs).items():
        scope = Scope.of_owner(owner)
        got = await chain.unhurried(
            "tombstones",
            lambda backend: backend.tombstones(ids, scope=scope),  # noqa: B023
            ids=None,
        )
        found.update((MemoryRef(owner, id), stone) for id, stone in got.value.items())
    return found


async def changed(chain: Chain, scope: Scope, cursor: str | None) -> ChangePage:
    """A page of the feed."""
    page = await chain.unhurried(
        "changes", lambda backend: backend.changes(scope=scope, limit=PAGE_ROWS, cursor=cursor), ids=None
    )
    return page.value


async def states(chain: Chain, ref: MemoryRef) -> tuple[Revision, ...]:
    """All states that a memory has had, oldest first."""
    scope = Scope.of_owner(ref.owner)
    found = await chain.unhurried("history", lambda backend: backend.history(ref.id, scope=scope), ids=None)
    return found.value


async def put(chain: Chain, records: Sequence[Memory | Tombstone], *, owner: str) -> tuple[PutOutcome, ...]:
    """Put whole records of one owner, all of them or none."""
    scope, ids = Scope.of_owner(owner), tuple(dict.fromkeys(record.id for record in records))
    outcomes = await chain.unhurried("put", lambda backend: backend.put(records, scope=scope), ids=ids)
    return outcomes.value


def by_owner(refs: Collection[MemoryRef]) -> Mapping[str, list[str]]:
    """The ids of each owner."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for ref in refs:
        ids[ref.owner].append(ref.id)
    return ids


def ref_of(record: Memory | Tombstone) -> MemoryRef:
    """Which memory a record is of."""
    return MemoryRef(record.owner, record.id)
