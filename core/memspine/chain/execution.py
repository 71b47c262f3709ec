"""Executing writes that waited: a batch at a time, each once, whatever happens between two steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from memspine import times
from memspine.chain.members import Member, bulk_seconds
from memspine.chain.operations import Create, Outcome, Write, from_waiting
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import BackendUnavailable, InvalidMemoryError, LoopError, MemspineError
from memspine.journal import Journal, entries, intents, replicas
from memspine.journal.entries import Waiting
from memspine.model import Memory, MemoryRef, Scope, Tombstone, Written

if TYPE_CHECKING:
    from sqlite3 import Connection


@attrs.frozen(kw_only=True)
class Executed:
    """What became of a batch: the results by number (an exception for a dead letter), which memories have to wait, and
    whether the primary is down."""

    results: Mapping[int, Outcome | Exception]
    dead: int
    put_off: frozenset[MemoryRef]
    is_down: bool
    troubles: tuple[str, ...]


class Execution:
    """Executes writes of the journal on a primary."""

    def __init__(self, journal: Journal, primary: Member, *, deadline_seconds: float) -> None:
        self._journal = journal
        self._primary = primary
        self._seconds = deadline_seconds

    async def run(self, batch: Sequence[Waiting]) -> Executed:
        """Execute a batch in order, as far as the primary works. Raises JournalError."""
        round = _Round()
        for entry in batch:
            try:
                round.writes[entry.number] = from_waiting(entry)
            except InvalidMemoryError as error:
                round.refuse(entry, error)
        refusal = self._primary.refusal("execute", "write")
        try:
            if refusal is not None and await self._is_down():
                raise refusal
            round.results |= await self._found_done(
                [entry for entry in batch if entry.is_tried and entry.number in round.writes]
            )
        except (BackendUnavailable, LoopError) as error:
            round.stop(error)
        else:
            await self._execute(batch, round)
        await self._journal.write(partial(self._note, batch=batch, round=round, has_feed=await self._has_feed(round)))
        return Executed(
            results=round.results,
            dead=len(round.refused),
            put_off=frozenset(round.put_off),
            is_down=round.is_down,
            troubles=tuple(round.troubles),
        )

    async def _execute(self, batch: Sequence[Waiting], round: _Round) -> None:
        """Execute what is not done yet, as far as the primary works."""
        if todo := [entry for entry in batch if entry.number not in round.results]:
            await self._journal.write(partial(entries.note_tried, numbers=[entry.number for entry in todo]))
            round.begun |= {entry.number for entry in todo}
            for run in _runs(todo, round.writes):
                await self._run(run, round)

    async def _run(self, run: Sequence[Waiting], round: _Round) -> None:
        """Several new memories of one owner in one call, anything else alone."""
        if len(run) > 1 and not round.is_down:
            try:
                written = await self._create_many([round.writes[entry.number] for entry in run])
            except BackendUnavailable as error:
                round.tried |= {entry.number for entry in run}
                if await self._is_down():
                    round.stop(error)
            except MemspineError:
                pass  # one of them is refused: alone, each tells for itself
            else:
                round.results |= {entry.number: one for entry, one in zip(run, written, strict=True)}
                return
        for entry in run:
            if not round.is_down and MemoryRef(entry.owner, entry.id) not in round.put_off:
                await self._run_one(entry, round)

    async def _run_one(self, entry: Waiting, round: _Round) -> None:
        write = round.writes[entry.number]
        try:
            if entry.number in round.tried and (found := await self._found_done([entry])):
                round.results |= found
                return
            round.tried.add(entry.number)
            round.results[entry.number] = await self._primary.call(
                write.name, write.run, seconds=self._seconds, write_ids=[write.id]
            )
        except BackendUnavailable as error:
            if await self._is_down():
                round.stop(error)
            else:  # this write is what it cannot bear
                round.put_off.add(MemoryRef(entry.owner, entry.id))
                round.failed[entry.number] = str(error)
                round.troubles[f"a write of memory {entry.id!r} fails: {error}"] = None
        except LoopError as error:  # which says nothing about this write
            round.stop(error)
        except MemspineError as error:
            round.refuse(entry, error)

    async def _is_down(self) -> bool:
        try:
            health = await self._primary.probe(lambda backend: backend.health(), seconds=self._seconds)
        except MemspineError:
            return True
        return not health.ok

    async def _create_many(self, run: Sequence[Write]) -> Sequence[Outcome]:
        writes = [write for write in run if isinstance(write, Create)]
        scope, ids = Scope.of_owner(writes[0].owner), [write.id for write in writes]
        memories, now = [write.dated for write in writes], max(write.now for write in writes)
        return await self._primary.call(
            "create_many",
            lambda backend: backend.create_many(memories, scope=scope, ids=ids, now=now),
            seconds=bulk_seconds(self._seconds, len(ids)),
            write_ids=ids,
        )

    async def _found_done(self, tried: Sequence[Waiting]) -> dict[int, Outcome]:
        """Those of the writes that the primary shows to be done: their process died before it could note that. Raises
        BackendUnavailable."""
        by_owner: defaultdict[str, list[Waiting]] = defaultdict(list)
        for entry in tried:
            by_owner[entry.owner].append(entry)
        done: dict[int, Outcome] = {}
        for owner, some in by_owner.items():
            memories = await self._get({entry.id for entry in some}, owner)
            gone = {entry.id for entry in some if entry.operation == "delete" and entry.id not in memories}
            stones = await self._stones(gone, owner) if gone else {}
            last: dict[str, Outcome] = {}
            for entry in reversed(some):  # what was done last was done after all that came before it
                found = last.get(entry.id) or from_waiting(entry).found_done(memories.get(entry.id))
                if isinstance(found, Tombstone):
                    found = stones.get(entry.id, found)
                if found is not None:
                    done[entry.number] = last[entry.id] = found
        return done

    async def _get(self, ids: Iterable[str], owner: str) -> Mapping[str, Memory]:
        scope, now, wanted = Scope.of_owner(owner), times.now(), tuple(ids)
        return await self._primary.call(
            "get", lambda backend: backend.get_many(wanted, scope=scope, now=now), seconds=self._seconds
        )

    async def _stones(self, ids: Iterable[str], owner: str) -> Mapping[str, Tombstone]:
        """At which revisions memories were deleted, as far as the primary says it: a deletion without one would hide
        what is stored again later."""
        scope, wanted = Scope.of_owner(owner), tuple(ids)

        async def ask(primary: MemoryBackend) -> Mapping[str, Tombstone]:
            return await primary.tombstones(wanted, scope=scope) if Capability.CHANGES in primary.capabilities else {}

        return await self._primary.call("tombstones", ask, seconds=self._seconds)

    async def _has_feed(self, round: _Round) -> bool:
        if round.is_down and not (round.results.keys() - round.refused.keys()):
            return True  # nothing was changed
        return Capability.CHANGES in (await self._primary.opened()).capabilities

    def _note(self, connection: Connection, *, batch: Sequence[Waiting], round: _Round, has_feed: bool) -> None:
        """All that became of the batch, in one transaction."""
        now = times.to_milliseconds(times.now())
        first = next((entry for entry in batch if entry.number not in round.results), None)
        if round.is_down and first is not None:
            entries.note_outage(connection, first.number, round.outage)
        entries.remove(connection, round.results.keys() - round.refused.keys())
        for entry in batch:
            result = round.results.get(entry.number)
            if entry.number in round.refused:
                entries.bury(connection, entry.number, round.refused[entry.number])
                continue
            if result is None:
                if entry.number in round.failed:
                    entries.fail(connection, entry.number, round.failed[entry.number], now)
                elif entry.number in round.begun and entry.number not in round.tried and not entry.is_tried:
                    entries.note_tried(connection, [entry.number], is_tried=False)
                continue
            if isinstance(result, Tombstone):
                revision = result.revision or None if has_feed else None
                intents.settle_deleted(connection, entry.owner, {entry.id: revision}, now)
            elif not has_feed:
                intents.lift(connection, entry.owner, [entry.id])
            # Whoever begins to follow after this transaction lists the primary after it.
            if not has_feed and replicas.are_followed(connection):
                written = [result.memory.id] if isinstance(result, Written) else []  # its key may be another memory's
                changed = [(entry.owner, id) for id in dict.fromkeys([entry.id, *written])]
                intents.settle_changed(connection, (), changed, now)


@attrs.define
class _Round:
    """What is becoming of a batch."""

    writes: dict[int, Write] = attrs.field(factory=dict)
    begun: set[int] = attrs.field(factory=set)
    results: dict[int, Outcome | Exception] = attrs.field(factory=dict)
    refused: dict[int, str] = attrs.field(factory=dict)
    failed: dict[int, str] = attrs.field(factory=dict)
    tried: set[int] = attrs.field(factory=set)
    put_off: set[MemoryRef] = attrs.field(factory=set)
    troubles: dict[str, None] = attrs.field(factory=dict)
    is_down: bool = False
    outage: str = ""

    def refuse(self, entry: Waiting, error: MemspineError) -> None:
        """A write that will never go by itself."""
        self.results[entry.number] = error
        self.refused[entry.number] = str(error)

    def stop(self, error: MemspineError) -> None:
        """The primary cannot be used: nothing more is tried."""
        self.is_down, self.outage = True, str(error)
        self.troubles[f"the primary does not take what waits: {error}"] = None


def _runs(batch: Sequence[Waiting], writes: Mapping[int, Write]) -> list[list[Waiting]]:
    """The batch in order, with new memories of one owner that follow each other together: those that replace nothing,
    so that nothing depends on which came first."""
    runs: list[list[Waiting]] = []
    ids: set[str] = set()
    for entry in batch:
        write = writes[entry.number]
        is_new = isinstance(write, Create) and not write.memory.key and not entry.is_tried
        if is_new and ids and runs[-1][0].owner == entry.owner and entry.id not in ids:
            runs[-1].append(entry)
            ids.add(entry.id)
        else:
            runs.append([entry])
            ids = {entry.id} if is_new else set()
    return runs
