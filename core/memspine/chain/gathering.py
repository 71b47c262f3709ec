"""Memories looked up by id: each store is asked for what those before it did not have."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import attrs

from memspine.chain.answers import Gathered
from memspine.chain.members import Member, share_seconds, tombstones
from memspine.contracts import MemoryBackend
from memspine.errors import BackendUnavailable, JournalError
from memspine.journal import Journal, intents
from memspine.journal.intents import Stone
from memspine.model import Memory, MemoryRef, Scope

if TYPE_CHECKING:
    from memspine.chain.overlay import Overlay

Stones = Mapping[MemoryRef, Stone]


class Gathering:
    """Gathers memories from a primary and its fallbacks, within `deadline_seconds` for all of them. The `journal` says
    what no fallback may show, and the `overlay` what waits for the primary."""

    def __init__(
        self, members: Sequence[Member], *, deadline_seconds: float, journal: Journal | None, overlay: Overlay | None
    ) -> None:
        self._members = tuple(members)
        self._deadline_seconds = deadline_seconds
        self._journal = journal
        self._overlay = overlay

    async def get_many(
        self, ids: Sequence[str], *, scope: Scope, now: datetime, primary_only: bool = False
    ) -> Gathered:
        """Memories by id, as they are with the writes that wait for the primary.

        Those that the primary lacks come from the fallbacks, unless they were deleted; replicas are asked only when the
        primary failed.
        """
        ends_at = time.monotonic() + self._deadline_seconds
        look_up = partial(self._look_up, now=now, primary_only=primary_only, ends_at=ends_at)
        gathered = await look_up(ids, scope=scope)
        owners = scope.require_readable("get")
        if len(owners) == 1 or not gathered.deleted:
            return gathered
        again = [id for id in gathered.deleted if id not in gathered.memories]
        alone = [await look_up(again, scope=Scope.of_owner(owner)) for owner in owners]
        return gathered.completed(ids, alone)

    async def stones(self, refs: Sequence[MemoryRef]) -> Stones:
        """The deletions that the journal knows of these memories. Raises JournalError."""
        if self._journal is None:
            return {}
        few = await self._journal.kept(intents.few_stones)
        if few is not None:
            return {ref: few[ref] for ref in refs if ref in few}
        return await self._journal.read(partial(intents.stones, refs=refs))

    async def _look_up(
        self, ids: Sequence[str], *, scope: Scope, now: datetime, primary_only: bool, ends_at: float
    ) -> Gathered:
        """What the stores have, with the writes that wait."""
        wanted = tuple(dict.fromkeys(ids))
        members = self._members[:1] if primary_only else self._members
        gather = partial(self._gather, wanted, members, scope=scope, now=now, ends_at=ends_at)
        gathered = await gather() if self._overlay is None else await self._overlay.over(gather, wanted, scope=scope)
        in_order = {id: gathered.memories[id] for id in ids if id in gathered.memories}
        return attrs.evolve(gathered, memories=in_order)

    async def _gather(
        self, wanted: Sequence[str], members: Sequence[Member], *, scope: Scope, now: datetime, ends_at: float
    ) -> Gathered:
        """What the stores have, each asked for what is still missing."""
        found, primary = _Found(wanted, scope=scope, now=now), self._members[0]
        for place, member in enumerate(members):
            if not found.missing or found.is_closed:
                break
            if member is not primary and member.replicates and not found.failures:
                continue
            seconds = share_seconds(ends_at, len(members) - place)
            if member is primary:
                others = any(not one.replicates for one in members[1:])
                await self._ask_primary(found, seconds=seconds, asks_others=others)
            else:
                await self._ask_fallback(found, member, seconds=seconds)
        return found.result()

    async def _ask_primary(self, found: _Found, *, seconds: float, asks_others: bool) -> None:
        primary = self._members[0]
        try:
            found.add(await primary.call("get", found.ask, seconds=seconds), primary.name)
        except BackendUnavailable as error:
            found.failures.append(str(error))
            return
        if found.missing and asks_others:
            ask = partial(tombstones, ids=found.missing, scope=found.scope)
            try:
                found.drop(await primary.call("tombstones", ask, seconds=seconds))
            except BackendUnavailable as error:
                # Not knowing what was deleted, a fallback could only bring it back.
                found.close(str(error))

    async def _ask_fallback(self, found: _Found, member: Member, *, seconds: float) -> None:
        """What a fallback has, without what the journal knows to be deleted."""
        owners = found.scope.require_readable("get")
        try:
            stones = await self.stones([MemoryRef(owner, id) for owner in owners for id in found.missing])
            got = await member.call("get", found.ask, seconds=seconds)
        except JournalError as error:
            found.close(str(error))
            return
        except BackendUnavailable as error:
            found.failures.append(str(error))
            return
        alive: dict[str, Memory] = {}
        for id, memory in got.items():
            stone = stones.get(MemoryRef(memory.owner, id))
            if stone is not None and stone.is_begun:
                found.failures.append(f"a delete of memory {id!r} was begun, and nobody can say whether it was done")
                found.drop([id])
            elif stone is not None and stone.hides(memory.revision, fallback=member.name):
                found.deleted.add(id)
            elif not memory.is_expired(found.now):
                alive[id] = memory
        found.add(alive, member.name)


@attrs.define
class _Found:
    """What was found so far, and what still has to be looked for."""

    ids: Sequence[str]
    scope: Scope = attrs.field(kw_only=True)
    now: datetime = attrs.field(kw_only=True)
    failures: list[str] = attrs.field(factory=list)
    is_closed: bool = False
    deleted: set[str] = attrs.field(factory=set)
    _memories: dict[str, Memory] = attrs.field(factory=dict)
    _backends: dict[str, str] = attrs.field(factory=dict)
    _dropped: set[str] = attrs.field(factory=set)

    @property
    def missing(self) -> list[str]:
        """The ids that another store may have."""
        return [id for id in self.ids if id not in self._memories and id not in self._dropped]

    async def ask(self, backend: MemoryBackend) -> dict[str, Memory]:
        """What a store has of what is missing."""
        return await backend.get_many(tuple(self.missing), scope=self.scope, now=self.now)

    def add(self, memories: Mapping[str, Memory], backend: str) -> None:
        """Note what a store gave."""
        self._memories |= memories
        self._backends |= dict.fromkeys(memories, backend)

    def drop(self, ids: Iterable[str]) -> None:
        """Look for these no further: they were deleted, or may have been."""
        dropped = set(ids)
        self._dropped |= dropped
        self.deleted |= dropped

    def close(self, failure: str) -> None:
        """Ask nobody else, because of a failure."""
        self.failures.append(failure)
        self.is_closed = True

    def result(self) -> Gathered:
        """All that was found."""
        deleted = frozenset(self.deleted - self._memories.keys())
        return Gathered(
            memories=self._memories, backends=self._backends, failures=tuple(self.failures), deleted=deleted
        )
