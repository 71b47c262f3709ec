"""Memories as they are with the writes that wait for the primary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from memspine.chain.answers import JOURNAL, Gathered
from memspine.chain.operations import Delete, Write, from_waiting
from memspine.errors import InvalidMemoryError, JournalError
from memspine.journal import Journal, entries
from memspine.journal.entries import Waiting
from memspine.model import Memory, MemoryRef, Scope


@attrs.frozen(kw_only=True)
class WaitingWrites:
    """Which memories of a scope wait to be deleted, and what to tell about all writes that wait."""

    deleted: frozenset[MemoryRef] = frozenset()
    degraded: tuple[str, ...] = ()


class Overlay:
    """Lays what waits in the journal over what stores answer."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def waiting(self, scope: Scope) -> WaitingWrites:
        """What waits for a scope's owners. Raises JournalError."""
        if not await self._journal.kept(entries.has_any_waiting):
            return WaitingWrites()
        found = await self._journal.read(partial(entries.named, owners=scope.owners))
        if not found:
            return WaitingWrites()
        last = {MemoryRef(owner, id): operation for owner, id, operation in found}
        deleted = frozenset(ref for ref, operation in last.items() if operation == "delete")
        text = f"{len(found)} writes wait for the primary: what they store is not found yet, what they change is old"
        return WaitingWrites(deleted=deleted, degraded=(text,))

    async def over(self, gathered: Gathered, ids: Sequence[str], *, scope: Scope) -> Gathered:
        """The memories with their writes done. Where the journal cannot be read, they are as they are, and that is
        told."""
        owners = scope.require_readable("get")
        try:
            found = await self._found(owners, ids)
        except JournalError as error:
            return attrs.evolve(gathered, degraded=(*gathered.degraded, str(error)))
        if not found:
            return gathered
        by_ref, unreadable = _writes(found)
        gathered = attrs.evolve(gathered, degraded=(*gathered.degraded, *unreadable))
        memories, backends, pending = dict(gathered.memories), dict(gathered.backends), set()
        for ref, writes in by_ref.items():
            memory = memories.get(ref.id)
            if memory is not None and memory.owner != ref.owner:
                if ref.owner != owners[0]:
                    continue  # the caller's own memory of this id comes first
                memory = None
            memories.pop(ref.id, None)
            after = _after(memory, writes)
            if after is not None:
                memories[ref.id], backends[ref.id] = after, JOURNAL
            if after is not None or isinstance(writes[-1], Delete):
                pending.add(ref.id)
        in_order = {id: memories[id] for id in ids if id in memories}
        return attrs.evolve(gathered, memories=in_order, backends=backends, pending=frozenset(pending))

    async def _found(self, owners: Sequence[str], ids: Sequence[str]) -> list[Waiting]:
        if not await self._journal.kept(entries.has_any_waiting):
            return []
        return await self._journal.read(partial(entries.waiting_of, owners=owners, ids=ids))


def _writes(found: Sequence[Waiting]) -> tuple[Mapping[MemoryRef, list[Write]], list[str]]:
    """The writes for each memory, and what is the matter with those that cannot be read: they become dead letters."""
    by_ref: defaultdict[MemoryRef, list[Write]] = defaultdict(list)
    unreadable: list[str] = []
    for entry in found:
        try:
            write = from_waiting(entry)
        except InvalidMemoryError as error:
            unreadable.append(str(error))
        else:
            by_ref[MemoryRef(entry.owner, entry.id)].append(write)
    return by_ref, unreadable


def _after(memory: Memory | None, writes: Sequence[Write]) -> Memory | None:
    for write in writes:
        memory = write.applied(memory)
    return memory
