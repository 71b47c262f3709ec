"""What the primary does not have any more leaves every space and every queue."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping

from memspine import times
from memspine.chain import Chain
from memspine.contracts import VectorStore
from memspine.errors import NotFoundError
from memspine.model import Memory, MemoryRef, Scope


async def forget(chain: Chain, store: VectorStore, refs: Collection[MemoryRef]) -> None:
    """Delete from a vector store those of the memories that the primary does not have.

    That something was deleted, or was missing in an answer, is news of an earlier moment: it may have been stored again
    since, and other spaces may hold that already. So the primary is asked, before and once more after.
    """
    there = await fetched(chain, refs)
    gone = [ref for ref in refs if ref not in there]
    if not gone:
        return
    await store.delete(gone)
    if back := await fetched(chain, gone):
        revisions = {ref: memory.revision for ref, memory in back.items()}
        for space in await store.spaces():
            with contextlib.suppress(NotFoundError):  # one that was dropped meanwhile needs nothing
                position = (await store.backlog(space.id, now=times.now())).position
                await store.enqueue(space.id, revisions=revisions, position=position)


async def fetched(chain: Chain, refs: Collection[MemoryRef]) -> Mapping[MemoryRef, Memory]:
    """Those of the memories that the primary has, whatever their session."""
    by_owner: defaultdict[str, list[str]] = defaultdict(list)
    for ref in refs:
        by_owner[ref.owner].append(ref.id)
    found: dict[MemoryRef, Memory] = {}
    for owner, ids in by_owner.items():
        scope, now = Scope.of_owner(owner), times.now()
        got = await chain.call_primary("get", lambda backend: backend.get_many(ids, scope=scope, now=now))  # noqa: B023
        found.update((MemoryRef(owner, id), memory) for id, memory in got.value.items())
    return found
