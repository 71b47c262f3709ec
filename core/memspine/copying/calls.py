"""The calls that copying, comparing and delivering make of a store: a page or a batch has the time of its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from memspine import times
from memspine.chain import Chain, Touched
from memspine.contracts import MemoryBackend
from memspine.model import (
    ChangePage,
    Memory,
    MemoryFilter,
    MemoryPage,
    MemoryRef,
    NewMemory,
    PutOutcome,
    Revision,
    Scope,
    Tombstone,
    Written,
)

T = TypeVar("T")
Call = Callable[[MemoryBackend], Awaitable[T]]

PAGE_ROWS: Final = 500


async def listed(chain: Chain, scope: Scope, cursor: str | None, *, limit: int | None = None) -> MemoryPage:
    """A page of memories, oldest first."""
    now = times.now()
    rows = limit or PAGE_ROWS
    return await read(
        chain,
        "list",
        lambda backend: backend.list(MemoryFilter(), scope=scope, now=now, limit=rows, cursor=cursor),
    )


async def held(chain: Chain, refs: Collection[MemoryRef]) -> dict[MemoryRef, Memory]:
    """Those of the memories that a store has, whatever their session."""
    found: dict[MemoryRef, Memory] = {}
    for owner, ids in by_owner(refs).items():
        scope, now = Scope.of_owner(owner), times.now()
        got = await read(
            chain,
            "get",
            lambda backend: backend.get_many(ids, scope=scope, now=now),  # noqa: B023
            records=len(ids),
        )
        found.update((MemoryRef(owner, id), memory) for id, memory in got.items())
    return found


async def tombstones(chain: Chain, refs: Collection[MemoryRef]) -> dict[MemoryRef, Tombstone]:
    """The tombstones of those that were deleted and not created again."""
    found: dict[MemoryRef, Tombstone] = {}
    for owner, ids in by_owner(refs).items():
        scope = Scope.of_owner(owner)
        got = await read(
            chain,
            "tombstones",
            lambda backend: backend.tombstones(ids, scope=scope),  # noqa: B023
            records=len(ids),
        )
        found.update((MemoryRef(owner, id), stone) for id, stone in got.items())
    return found


async def changed(chain: Chain, scope: Scope, cursor: str | None) -> ChangePage:
    """A page of the feed."""
    return await read(chain, "changes", lambda backend: backend.changes(scope=scope, limit=PAGE_ROWS, cursor=cursor))


async def states(chain: Chain, ref: MemoryRef) -> tuple[Revision, ...]:
    """All states that a memory has had, oldest first."""
    scope = Scope.of_owner(ref.owner)
    return await read(chain, "history", lambda backend: backend.history(ref.id, scope=scope))


async def put(chain: Chain, records: Sequence[Memory | Tombstone], *, owner: str) -> tuple[PutOutcome, ...]:
    """Put whole records of one owner, all of them or none."""
    scope, ids = Scope.of_owner(owner), tuple(dict.fromkeys(record.id for record in records))
    touched = Touched(owner=owner, ids=ids, deletes=any(isinstance(record, Tombstone) for record in records))
    return await write(chain, "put", lambda backend: backend.put(records, scope=scope), touched=touched)


async def create(chain: Chain, memories: Sequence[NewMemory], *, owner: str, ids: Sequence[str]) -> tuple[Written, ...]:
    """Create memories of one owner."""
    scope, now = Scope.of_owner(owner), times.now()
    return await write(
        chain,
        "create",
        lambda backend: backend.create_many(memories, scope=scope, ids=ids, now=now),
        touched=Touched(owner=owner, ids=tuple(ids)),
    )


async def read(chain: Chain, operation: str, call: Call[T], *, records: int = PAGE_ROWS) -> T:
    """What a store answers, with the time of so many records: a whole page unless it is said."""
    return (await chain.call_primary(operation, call, records=records)).value


async def write(chain: Chain, operation: str, call: Call[T], *, touched: Touched) -> T:
    """What became of a change, with the time of a whole page."""
    return (await chain.write(operation, call, ids=touched.ids, touched=touched, records=PAGE_ROWS)).value


def by_owner(refs: Collection[MemoryRef]) -> Mapping[str, list[str]]:
    """The ids of each owner."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for ref in refs:
        ids[ref.owner].append(ref.id)
    return ids


def ref_of(record: Memory | Tombstone) -> MemoryRef:
    """Which memory a record is of."""
    return MemoryRef(record.owner, record.id)
