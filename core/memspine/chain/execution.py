"""Executing writes that waited: a batch at a time, each once, whatever happens between two steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from memspine import times
from memspine.chain.members import Member, bulk_seconds, tombstones
from memspine.chain.operations import Create, Outcome, Write, rebased
from memspine.chain.rounds import Round, memory_of
from memspine.contracts import Capability
from memspine.errors import BackendUnavailable, JournalError, LoopError, MemspineError
from memspine.journal import Journal, entries, intents, now_milliseconds, replicas
from memspine.journal.entries import Waiting
from memspine.model import Memory, MemoryFilter, MemoryRef, PutOutcome, Scope, Tombstone, Written

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
        round = Round.of(batch)
        refusal = self._primary.refusal("execute", "write")
        try:
            if refusal is not None and await self._is_down():
                raise refusal
            round.capabilities = await self._primary.capabilities(seconds=self._seconds)
            await self._take_done(
                [entry for entry in batch if entry.is_tried and entry.number not in round.results], round
            )
        except JournalError:
            raise
        except MemspineError as error:
            round.stop(error)
        else:
            await self._execute(batch, round)
        await self._journal.write(partial(self._note, batch=batch, round=round))
        return Executed(
            results=round.results,
            dead=len(round.refused),
            put_off=frozenset(round.put_off),
            is_down=round.is_down,
            troubles=tuple(round.troubles),
        )

    async def _execute(self, batch: Sequence[Waiting], round: Round) -> None:
        """Execute what is not done yet, as far as the primary works."""
        if todo := [entry for entry in batch if entry.number not in round.results]:
            await self._journal.write(partial(entries.note_tried, numbers=[entry.number for entry in todo]))
            round.begun |= {entry.number for entry in todo}
            for run in round.runs(todo):
                if round.is_down:
                    return
                await self._run(run, round)

    async def _run(self, run: Sequence[Waiting], round: Round) -> None:
        """Several of a unit in one call, new memories of one owner too, anything else alone."""
        refs = {round.ref(entry) for entry in run}
        if len(run) > 1 and run[0].unit == run[1].unit:
            if refs & round.put_off:
                round.put_off |= refs
            else:
                await self._run_unit(run, round)
            return
        ready = [entry for entry in run if round.ref(entry) not in round.put_off]
        if len(ready) > 1:
            await self._put_new(ready, round)
        for entry in ready:
            if entry.number not in round.results and not round.is_down:
                await self._run_one(entry, round)

    async def _run_unit(self, run: Sequence[Waiting], round: Round) -> None:
        """All of them or, when one is refused, none."""
        writes = round.creates(run)
        scope, ids = Scope.of_owner(writes[0].owner), [write.id for write in writes]
        memories, now = [write.memory for write in writes], writes[0].now
        round.tried |= {entry.number for entry in run}
        try:
            written = await self._primary.call(
                "create_many",
                lambda backend: backend.create_many(memories, scope=scope, ids=ids, now=now),
                seconds=bulk_seconds(self._seconds, len(ids)),
                write_ids=ids,
            )
        except MemspineError as error:
            await self._failed(run, error, round)
        else:
            for entry, one in zip(run, written, strict=True):
                await self._done(entry, one, round)

    async def _put_new(self, run: Sequence[Waiting], round: Round) -> None:
        """New memories in one step, each with its own time, where the primary takes whole records. What finds something
        in its place is left, to be done as it was asked for."""
        if Capability.PUT not in round.capabilities:
            return
        records = [attrs.evolve(write.applied(None), revision=1) for write in round.creates(run)]
        scope, ids = Scope.of_owner(run[0].owner), [record.id for record in records]
        try:
            outcomes = await self._primary.call(
                "put",
                lambda backend: backend.put(records, scope=scope),
                seconds=bulk_seconds(self._seconds, len(ids)),
                write_ids=ids,
            )
        except BackendUnavailable as error:
            round.tried |= {entry.number for entry in run}
            if await self._is_down():
                round.stop(error)
        except MemspineError:
            pass  # one of them is refused: alone, each tells for itself
        else:
            for entry, record, outcome in zip(run, records, outcomes, strict=True):
                if outcome is PutOutcome.APPLIED:
                    await self._done(entry, Written(record, created=True), round)

    async def _run_one(self, entry: Waiting, round: Round) -> None:
        write = round.based(entry)
        try:
            if entry.number in round.tried and await self._take_done([entry], round):
                return
            round.tried.add(entry.number)
            outcome: Outcome = await self._primary.call(
                write.name, write.run, seconds=self._seconds, write_ids=[write.id]
            )
            await self._done(entry, outcome, round)
        except JournalError:
            raise
        except MemspineError as error:
            await self._failed([entry], error, round)

    async def _failed(self, run: Sequence[Waiting], error: MemspineError, round: Round) -> None:
        """Tell a primary that is down, which says nothing about these writes, from one that cannot bear them, or
        refuses them."""
        is_outage = isinstance(error, BackendUnavailable)
        if isinstance(error, LoopError) or (is_outage and await self._is_down()):
            round.stop(error)
            return
        for entry in run:
            if is_outage:
                round.fail(entry, error)
            else:
                round.refuse(entry, error)

    async def _done(self, entry: Waiting, outcome: Outcome, round: Round) -> None:
        """Take a result. A memory that came to another id than the one that was acknowledged is noted at once: what is
        done next may be about it."""
        round.results[entry.number] = outcome
        write, memory = round.writes[entry.number], memory_of(outcome)
        if memory is None or memory.id == write.id:
            return
        await self._journal.write(
            partial(self._note_renamed, entry=entry, write=write, became=memory, has_feed=round.has_feed)
        )
        round.rename(entry, memory.id)

    async def _is_down(self) -> bool:
        try:
            health = await self._primary.probe(lambda backend: backend.health(), seconds=self._seconds)
        except MemspineError:
            return True
        return not health.ok

    async def _take_done(self, tried: Sequence[Waiting], round: Round) -> bool:
        """Take those of the writes for done that the primary shows to be: their process died before it could note that.
        Returns whether there are any. Raises BackendUnavailable."""
        by_owner: defaultdict[str, list[Waiting]] = defaultdict(list)
        for entry in tried:
            by_owner[entry.owner].append(entry)
        done: dict[int, Outcome] = {}
        for owner, some in by_owner.items():
            memories = await self._held([round.writes[entry.number] for entry in some], owner)
            ids = {entry.number: round.writes[entry.number].id for entry in some}
            gone = {ids[entry.number] for entry in some if entry.operation == "delete"} - memories.keys()
            stones = await self._stones(gone, owner) if gone else {}
            last: dict[str, Outcome] = {}
            for entry in reversed(some):  # what was done last was done after all that came before it
                id = ids[entry.number]
                found = last.get(id) or round.writes[entry.number].found_done(memories.get(id))
                if isinstance(found, Tombstone):
                    found = stones.get(id, found)
                if found is not None:
                    done[entry.number] = last[id] = found
        for entry in tried:
            if entry.number in done:
                await self._done(entry, done[entry.number], round)
        return bool(done)

    async def _held(self, writes: Sequence[Write], owner: str) -> Mapping[str, Memory]:
        """The memories that writes are about, by the ids that the writes have; the one that has its key is what a
        create is about."""
        memories = {**await self._get({write.id for write in writes}, owner)}
        scope, now = Scope.of_owner(owner), times.now()
        for write in writes:
            key = write.memory.key if isinstance(write, Create) else ""
            if not key or (write.id in memories and memories[write.id].key == key):
                continue
            page = await self._primary.call(
                "list",
                lambda backend: backend.list(MemoryFilter(key=key), scope=scope, now=now, limit=1),  # noqa: B023
                seconds=self._seconds,
            )
            if page.memories:
                memories[write.id] = page.memories[0]
        return memories

    async def _get(self, ids: Iterable[str], owner: str) -> Mapping[str, Memory]:
        scope, now, wanted = Scope.of_owner(owner), times.now(), tuple(ids)
        return await self._primary.call(
            "get", lambda backend: backend.get_many(wanted, scope=scope, now=now), seconds=self._seconds
        )

    async def _stones(self, ids: Iterable[str], owner: str) -> Mapping[str, Tombstone]:
        """At which revisions memories were deleted, as far as the primary says it: a deletion without one would hide
        what is stored again later."""
        ask = partial(tombstones, ids=ids, scope=Scope.of_owner(owner))
        return await self._primary.call("tombstones", ask, seconds=self._seconds)

    def _note(self, connection: Connection, *, batch: Sequence[Waiting], round: Round) -> None:
        """All that became of the batch, in one transaction."""
        now = now_milliseconds()
        first = next((entry for entry in batch if entry.number not in round.results), None)
        if round.is_down and first is not None:
            entries.note_outage(connection, first.number, round.outage)
        entries.remove(connection, round.results.keys() - round.refused.keys() - round.renamed)
        for entry in batch:
            result = round.results.get(entry.number)
            if entry.number in round.refused:
                entries.bury(connection, entry.number, round.refused[entry.number])
            elif entry.number in round.failed:
                entries.fail(connection, entry.number, round.failed[entry.number], now)
            elif result is not None and entry.number not in round.renamed:
                self._note_done(connection, round.ref(entry), result, has_feed=round.has_feed)
            elif entry.number in round.begun - round.tried - round.results.keys() and not entry.is_tried:
                entries.note_tried(connection, [entry.number], is_tried=False)
        for ref, (number, revision) in round.revisions().items():
            _rebase(connection, ref, number, revision)

    def _note_renamed(
        self, connection: Connection, *, entry: Waiting, write: Write, became: Memory, has_feed: bool
    ) -> None:
        is_keyed = isinstance(write, Create) and write.memory.key
        reason = f"done: it is memory {became.id!r}, " + (
            "which had its key" if is_keyed else "as the primary names it"
        )
        now = now_milliseconds()
        entries.rename(connection, entry, write.id, became.id, reason=reason, now=now)
        ref = MemoryRef(entry.owner, became.id)
        _rebase(connection, ref, entry.number, became.revision)
        self._note_done(connection, ref, None, has_feed=has_feed)

    def _note_done(
        self, connection: Connection, ref: MemoryRef, result: Outcome | Exception | None, *, has_feed: bool
    ) -> None:
        """What others have to know of a change that the primary has made."""
        now = now_milliseconds()
        if isinstance(result, Tombstone):
            revision = result.revision or None if has_feed else None
            intents.settle_deleted(connection, ref.owner, {ref.id: revision}, now)
        # Whoever begins to follow after this transaction lists the primary after it.
        if not has_feed and replicas.are_followed(connection):
            intents.settle_changed(connection, (), [ref], now)
        if not has_feed and not isinstance(result, Tombstone):
            intents.note_back(connection, ref.owner, [ref.id])


def _rebase(connection: Connection, ref: MemoryRef, number: int, revision: int) -> None:
    """Have the write that follows a number expect this revision, if it expects what waited before it."""
    follower = entries.next_of(connection, ref.owner, ref.id, number)
    if follower is not None and (body := rebased(follower, revision)) is not None:
        entries.change(connection, follower.number, body)
