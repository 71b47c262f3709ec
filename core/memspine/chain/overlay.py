"""Memories as they are with the writes that wait for the primary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from memspine.chain.answers import JOURNAL, Gathered
from memspine.chain.operations import Delete, Write, from_waiting
from memspine.errors import InvalidMemoryError, JournalError
from memspine.journal import Journal, entries
from memspine.journal.entries import Waiting
from memspine.model import Memory, MemoryRef, Scope

GATHERINGS_MAX: Final = 3
"""So often the stores are asked where writes are done meanwhile."""


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

    async def over(self, gather: Callable[[], Awaitable[Gathered]], ids: Sequence[str], *, scope: Scope) -> Gathered:
        """What `gather` finds, with the writes done that wait. Where the journal cannot be read, it is as it is, and
        that is told."""
        owners = scope.require_readable("get")
        found, trouble = await self._looked_up(owners, ids)
        gathered = await gather()
        for _ in range(GATHERINGS_MAX - 1):
            if not found:
                break
            before, (found, trouble) = found, await self._looked_up(owners, ids)
            if trouble or _numbers(before) <= _numbers(found):
                break
            # Some were done meanwhile, before the store was asked or after.
            if gathered.failures:
                found = before
                break
            gathered = await gather()
        if trouble:
            return attrs.evolve(gathered, degraded=(*gathered.degraded, trouble))
        return _laid_over(gathered, found, owners) if found else gathered

    async def _looked_up(self, owners: Sequence[str], ids: Sequence[str]) -> tuple[Sequence[Waiting], str]:
        """The writes that wait for these memories, or why nobody can say."""
        try:
            return await self._found(owners, ids), ""
        except JournalError as error:
            return (), str(error)

    async def _found(self, owners: Sequence[str], ids: Sequence[str]) -> list[Waiting]:
        if not await self._journal.kept(entries.has_any_waiting):
            return []
        return await self._journal.read(partial(entries.waiting_of, owners=owners, ids=ids))


def _numbers(found: Sequence[Waiting]) -> set[int]:
    return {entry.number for entry in found}


def _laid_over(gathered: Gathered, found: Sequence[Waiting], owners: Sequence[str]) -> Gathered:
    by_ref, unreadable = _writes(found)
    memories, backends, pending = dict(gathered.memories), dict(gathered.backends), set()
    deleted = set(gathered.deleted)
    for ref, writes in sorted(by_ref.items(), key=lambda item: owners.index(item[0].owner)):
        memory = memories.get(ref.id)
        others = memory is not None and memory.owner != ref.owner
        if ref.owner != owners[0] and (others or ref.id in deleted):
            continue  # the caller's own memory of this id comes first
        if others:
            memory = None
        after = _after(memory, writes)
        if after is not None:
            memories[ref.id], backends[ref.id] = after, JOURNAL
            pending.add(ref.id)
            deleted.discard(ref.id)
        elif not others:
            memories.pop(ref.id, None)
            if isinstance(writes[-1], Delete):
                pending.add(ref.id)
                deleted.add(ref.id)
    return attrs.evolve(
        gathered,
        memories=memories,
        backends=backends,
        pending=frozenset(pending),
        deleted=frozenset(deleted),
        degraded=(*gathered.degraded, *unreadable),
    )


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
