"""Giving records to a replica: all at once, and one by one where one of them is what it does not take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from memspine import times
from memspine.chain import Member
from memspine.chain.members import bulk_seconds
from memspine.delivery.planning import Record
from memspine.errors import BackendUnavailable, CapabilityError, ClosedError, MemspineError
from memspine.model import Memory, MemoryRef, PurgeReceipt, PutOutcome, Scope, Tombstone

FAILURES_MAX: Final = 3
"""So many single memories that fail in a row, and none that arrives, are no fault of theirs."""
PURGE_DEADLINES: Final = 6
"""How many deadlines a purge of a replica may take, which may have to look through all of it."""
CHANGED: Final = "the replica has another content of it at the same revision or a newer one"
KEY_TAKEN: Final = "its key is on another memory of the replica"


@attrs.frozen(kw_only=True)
class Given:
    """What became of records by memory: arrived, in conflict with what the replica has, or refused. `down` is why the
    replica takes nothing at all."""

    arrived: frozenset[MemoryRef]
    conflicts: Mapping[MemoryRef, str]
    refused: Mapping[MemoryRef, str]
    records: int
    down: MemspineError | None = None


Records = Mapping[MemoryRef, Sequence[Record]]


class Giving:
    """Puts records into a replica, each call within so many seconds."""

    def __init__(self, replica: Member, *, seconds: float) -> None:
        self._replica = replica
        self._seconds = seconds

    async def give(self, records: Records) -> Given:
        """Put the records of each memory, in order. What fails is tried alone, unless the replica is down."""
        result = _Result()
        by_owner: defaultdict[str, dict[MemoryRef, Sequence[Record]]] = defaultdict(dict)
        for ref, some in records.items():
            by_owner[ref.owner][ref] = some
        for owner, mine in by_owner.items():
            if result.down is None:
                await self._give(owner, mine, result)
        if result.contested and result.down is None:
            await self._settle(records, result)
        return Given(
            arrived=frozenset(result.arrived),
            conflicts=result.conflicts,
            refused=result.refused,
            records=result.records,
            down=result.down,
        )

    async def _settle(self, records: Records, result: _Result) -> None:
        """Tell a key that another memory still has from a content that others changed: the former passes, often as soon
        as the rest has arrived. A deletion of what is not there is done."""
        contested, result.contested = result.contested, []
        for ref in contested:
            last = records[ref][-1]
            there = await self._get(ref, result)
            if result.down is not None:
                return
            if there is None and isinstance(last, Tombstone):
                result.arrived.add(ref)  # others have deleted it as well
                continue
            if there is not None and there.revision >= last.revision:
                result.conflicts[ref] = CHANGED
                continue
            await self._give(ref.owner, {ref: records[ref]}, result)
        result.refused |= dict.fromkeys(result.contested, KEY_TAKEN)

    async def _get(self, ref: MemoryRef, result: _Result) -> Memory | None:
        scope, now = Scope.of_owner(ref.owner), times.now()
        try:
            return await self._replica.call(
                "get", lambda backend: backend.get(ref.id, scope=scope, now=now), seconds=self._seconds
            )
        except MemspineError as error:
            result.down = error
            return None

    async def purge(self, owner: str, ids: Sequence[str] | None) -> PurgeReceipt:
        """Erase memories of an owner (None: all of them). Raises BackendUnavailable, CapabilityError."""
        scope, now = Scope.of_owner(owner), times.now()
        return await self._replica.call(
            "purge",
            lambda backend: backend.purge(ids, scope=scope, now=now),
            seconds=PURGE_DEADLINES * self._seconds,
            write_ids=tuple(ids or ()),
        )

    async def _give(self, owner: str, records: Records, result: _Result) -> None:
        """Put all; where that fails, each half."""
        try:
            outcomes = await self._put(owner, [record for some in records.values() for record in some])
        except (ClosedError, CapabilityError) as error:
            result.down = error
        except MemspineError as error:
            if isinstance(error, BackendUnavailable) and not await self._is_healthy():
                result.down = error
            elif len(records) == 1:
                result.refuse(next(iter(records)), error)
            else:
                refs = list(records)
                for half in (refs[: len(refs) // 2], refs[len(refs) // 2 :]):
                    if result.down is None:
                        await self._give(owner, {ref: records[ref] for ref in half}, result)
        else:
            result.take(records, outcomes)

    async def _put(self, owner: str, records: Sequence[Record]) -> Sequence[PutOutcome]:
        scope, ids = Scope.of_owner(owner), tuple(dict.fromkeys(record.id for record in records))
        return await self._replica.call(
            "put",
            lambda backend: backend.put(records, scope=scope),
            seconds=bulk_seconds(self._seconds, len(records)),
            write_ids=ids,
        )

    async def _is_healthy(self) -> bool:
        try:
            return (await self._replica.probe(lambda backend: backend.health(), seconds=self._seconds)).ok
        except MemspineError:
            return False


@attrs.define
class _Result:
    arrived: set[MemoryRef] = attrs.field(factory=set)
    conflicts: dict[MemoryRef, str] = attrs.field(factory=dict)
    refused: dict[MemoryRef, str] = attrs.field(factory=dict)
    contested: list[MemoryRef] = attrs.field(factory=list)
    records: int = 0
    down: MemspineError | None = None

    def refuse(self, ref: MemoryRef, error: MemspineError) -> None:
        """One memory was not taken; several in a row, and none that was, say that nothing is."""
        self.refused[ref] = str(error)
        if isinstance(error, BackendUnavailable) and not self.arrived and len(self.refused) >= FAILURES_MAX:
            self.down = error

    def take(self, records: Records, outcomes: Sequence[PutOutcome]) -> None:
        """Sort what was answered by memory: what counts is its last record."""
        place = -1
        for ref, some in records.items():
            place += len(some)
            match outcomes[place]:
                case PutOutcome.APPLIED:
                    self.arrived.add(ref)
                    self.records += len(some)
                case PutOutcome.STALE if isinstance(some[-1], Tombstone):
                    self.contested.append(ref)
                case PutOutcome.STALE:
                    self.conflicts[ref] = "the replica has a newer revision of it, or has deleted it"
                case PutOutcome.CONFLICT:
                    self.contested.append(ref)
