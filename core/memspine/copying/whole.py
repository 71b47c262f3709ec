"""Writing into a target that takes whole records: with id, revision, times, telemetry, and all states before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import attrs

from memspine.chain import Chain
from memspine.contracts import Capability
from memspine.copying.calls import held, put, ref_of, states, tombstones
from memspine.copying.reports import Tally, Traits
from memspine.errors import MemspineError
from memspine.model import Memory, MemoryRef, PutOutcome, Tombstone

BATCH_RECORDS_MAX: Final = 500
BATCH_CHARACTERS_MAX: Final = 1_000_000
REFUSED_IN_A_ROW_MAX: Final = 1000


@attrs.frozen
class Parcel:
    """A memory or its tombstone, behind all that it was before; `is_cut` says that this was left out."""

    record: Memory | Tombstone
    earlier: tuple[Memory | Tombstone, ...] = ()
    is_counted: bool = True
    is_cut: bool = False

    @property
    def records(self) -> tuple[Memory | Tombstone, ...]:
        """What is put, in order."""
        return (*self.earlier, self.record)

    @property
    def characters(self) -> int:
        """About how long it is."""
        return sum(len(record.content) for record in self.records if isinstance(record, Memory))


@attrs.define(kw_only=True)
class WholeWriter:
    """Puts what the target lacks. `is_empty` says that there is nothing in the target to be looked for, `is_again` that
    what is written now may have been counted before."""

    source: Chain
    target: Chain
    traits: Traits
    tally: Tally
    is_dry: bool = False
    is_empty: bool = False
    is_again: bool = False

    async def write(self, memories: Sequence[Memory]) -> None:
        """Write what of these is not there."""
        there = {} if self.is_empty else await held(self.target, [ref_of(memory) for memory in memories])
        missing: defaultdict[str, list[tuple[Memory, int]]] = defaultdict(list)
        for memory in memories:
            old = there.get(ref_of(memory))
            if old is not None and _state(old) == _state(memory):
                self.tally.unchanged += not self.is_again
            elif self.is_dry:
                self._foresee(old, memory)
            else:
                missing[memory.owner].append((memory, 0 if old is None else old.revision))
        for owner, some in missing.items():
            await self._send_all(owner, some)

    async def bury(self, stones: Sequence[Tombstone]) -> None:
        """Delete what the source has deleted, and leave its tombstone, behind the states that it had."""
        refs = [ref_of(stone) for stone in stones]
        there = {} if self.is_empty else await held(self.target, refs)
        known = await self._known(refs)
        missing: defaultdict[str, list[tuple[Tombstone, int]]] = defaultdict(list)
        for stone in stones:
            memory, old = there.get(ref_of(stone)), (known or {}).get(ref_of(stone))
            if memory is not None and memory.revision < stone.revision:
                self.tally.deleted += 1
                missing[stone.owner].append((stone, memory.revision))
            elif memory is None and known is not None and (old is None or old.revision < stone.revision):
                missing[stone.owner].append((stone, 0 if old is None else old.revision))
        if not self.is_dry:
            for owner, some in missing.items():
                await self._send_all(owner, some)

    async def finish(self) -> None:
        """Put once more what was in conflict: the one that had its key may have let go of it since."""
        if self.is_dry:
            return
        again = list(self.tally.conflicting)
        for start in range(0, len(again), BATCH_RECORDS_MAX):
            refs = again[start : start + BATCH_RECORDS_MAX]
            for ref, memory in (await held(self.source, refs)).items():
                del self.tally.conflicting[ref]
                await self._send_all(ref.owner, [(memory, 0)])

    async def _known(self, refs: Sequence[MemoryRef]) -> dict[MemoryRef, Tombstone] | None:
        """The tombstones that the target has; None where it keeps none, and there is nothing to leave there."""
        if Capability.CHANGES not in self.traits.target:
            return None
        return {} if self.is_empty else await tombstones(self.target, refs)

    def _foresee(self, old: Memory | None, memory: Memory) -> None:
        if old is None or old.revision < memory.revision:
            self.tally.copied += 1
        elif old.revision > memory.revision:
            self.tally.stale += 1
        else:
            self.tally.conflict(ref_of(memory))

    async def _send_all(self, owner: str, records: Sequence[tuple[Memory | Tombstone, int]]) -> None:
        """Put records, each with the states behind the revision that is there, in batches of a size that both a server
        and this process can hold."""
        batch: list[Parcel] = []
        count = characters = 0
        for record, known in records:
            is_counted = not (self.is_again and known)
            parcel = Parcel(record, await self._earlier(record, behind=known), is_counted=is_counted)
            if batch and (
                count + len(parcel.records) > BATCH_RECORDS_MAX or characters + parcel.characters > BATCH_CHARACTERS_MAX
            ):
                await self._send(owner, batch)
                batch, count, characters = [], 0, 0
            batch.append(parcel)
            count += len(parcel.records)
            characters += parcel.characters
        await self._send(owner, batch)

    async def _send(self, owner: str, parcels: Sequence[Parcel]) -> None:
        """Put parcels in one step; where the target refuses them, the halves of them, down to the one it refuses, and
        that one without the states before it: there may be too many of them."""
        try:
            outcomes = await put(self.target, [record for one in parcels for record in one.records], owner=owner)
        except MemspineError as error:
            await require_working(self.target, error)
            if len(parcels) == 1:
                if parcels[0].earlier:
                    await self._send(owner, [attrs.evolve(parcels[0], earlier=(), is_cut=True)])
                else:
                    refuse(self.tally, parcels[0].record, error)
                return
            middle = len(parcels) // 2
            await self._send(owner, parcels[:middle])
            await self._send(owner, parcels[middle:])
            return
        self.tally.in_a_row = 0
        start = 0
        for parcel in parcels:
            end = start + len(parcel.records)
            self._count(parcel, outcomes[start:end])
            start = end

    def _count(self, parcel: Parcel, outcomes: Sequence[PutOutcome]) -> None:
        *before, outcome = outcomes
        if PutOutcome.CONFLICT in before or parcel.is_cut:
            self.tally.states_left[ref_of(parcel.record)] = None
        if isinstance(parcel.record, Tombstone):
            return
        if outcome is PutOutcome.CONFLICT:
            self.tally.conflict(ref_of(parcel.record))
        elif outcome is PutOutcome.STALE:
            self.tally.stale += parcel.is_counted
        else:
            self.tally.copied += parcel.is_counted

    async def _earlier(self, record: Memory | Tombstone, *, behind: int) -> tuple[Memory | Tombstone, ...]:
        """What it was before, oldest first, its deletions included, as far as the target does not have it."""
        if not self.traits.takes_history or record.revision == 1:
            return ()
        found: list[Memory | Tombstone] = []
        for state in await states(self.source, ref_of(record)):
            memory = state.memory
            if behind < memory.revision < record.revision:
                found.append(memory)
            gone = memory.revision + 1
            if state.deleted and state.replaced_at is not None and behind < gone < record.revision:
                stone = Tombstone(id=memory.id, owner=memory.owner, revision=gone, deleted_at=state.replaced_at)
                found.append(stone)
        return tuple(found)


def refuse(tally: Tally, record: Memory | Tombstone, error: MemspineError) -> None:
    """Note that a target does not take a record, and go on; raise the error when it has taken nothing for long."""
    tally.refuse(ref_of(record), str(error))
    if tally.in_a_row >= REFUSED_IN_A_ROW_MAX:
        raise error


async def require_working(target: Chain, error: MemspineError) -> None:
    """Raise the error when the target does not work: then it is not what was written that it does not take."""
    if not all(health.ok for health in (await target.health()).values()):
        raise error


def _state(memory: Memory) -> tuple[int, str]:
    return memory.revision, memory.content_hash
