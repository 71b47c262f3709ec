"""Writes that the primary could not take: acknowledged, kept in the journal, executed in order when it is back."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from memspine.chain.answers import JOURNAL, Answer
from memspine.chain.execution import Execution
from memspine.chain.gathering import Gathering
from memspine.chain.members import Member
from memspine.chain.operations import WAITED, Create, Delete, Outcome, Update, Write, to_body
from memspine.errors import BackendUnavailable, ConflictError, NotFoundError
from memspine.journal import Journal, entries, now_milliseconds
from memspine.journal.entries import Waiting
from memspine.model import Memory, MemoryRef, Scope, Tombstone, Written

if TYPE_CHECKING:
    from sqlite3 import Connection

BATCH: Final = 500
"""How many writes are executed between two notes in the journal."""
FIRST_BATCH: Final = 20
"""Where the time is limited, so many at first, and twice as many each time: what is cut off is no progress."""
WORK: Final = "execute"


@attrs.frozen(kw_only=True)
class Drained:
    """What working off the writes that wait came to: how many were executed, how many are dead letters now, whether
    none is left, and what keeps the others."""

    executed: int = 0
    dead: int = 0
    complete: bool = True
    troubles: tuple[str, ...] = ()


class Spool:
    """The writes of a chain that wait for its primary."""

    def __init__(self, journal: Journal, primary: Member, *, gathering: Gathering, deadline_seconds: float) -> None:
        self._journal = journal
        self._primary = primary
        self._gathering = gathering
        self._deadline_seconds = deadline_seconds
        self._execution = Execution(journal, primary, deadline_seconds=deadline_seconds)
        self._turn = asyncio.Lock()
        # What became of writes whose callers wait for it, by number: one task may execute what another one entered.
        self._awaited: set[int] = set()
        self._results: dict[int, Outcome | Exception] = {}

    async def has_waiting(self, owner: str, ids: Sequence[str] | None = None) -> bool:
        """Whether writes of an owner wait (with `ids`, for these memories), which others must not overtake. Raises
        JournalError."""
        if not await self._journal.kept(entries.has_any_waiting):
            return False
        if ids is not None:
            return bool(await self._journal.read(partial(entries.waiting_of, owners=[owner], ids=ids)))
        return await self._journal.read(partial(entries.has_waiting, owner=owner))

    async def enter(self, writes: Sequence[Write], *, cause: BackendUnavailable | None) -> list[Answer[Outcome]]:
        """Acknowledge writes of one owner, which are done together or not at all; `cause` is why the primary could not
        take them. Without one they go behind others that wait, and all are worked off at once, unless the primary is
        left alone: what was executed by then is answered as the primary did.

        Raises JournalError, NotFoundError for what is about to be deleted, and ConflictError for a write that expects
        what waits where nothing does.
        """
        outcomes = [await self._outcome(write) for write in writes]
        kept = [(write.name, write.owner, write.id, to_body(write)) for write in writes]
        is_tried = cause is not None and cause.outcome == "unknown"
        error, now = "" if cause is None else str(cause), now_milliseconds()
        append = partial(entries.append, writes=kept, now=now, is_tried=is_tried, is_unit=len(kept) > 1, error=error)
        cause = cause or self._primary.refusal(WORK, "read", "write")
        if cause is not None:
            await self._journal.write(append)
            reasons: tuple[str, ...] = (f"waits for the primary: {cause}",)
        else:
            numbers, results, drained = await self._enter_and_drain(append)
            if len(results) == len(numbers):
                return await self._told(numbers, results)
            reasons = ("waits for the primary, behind others", *drained.troubles)
        return [
            Answer(outcome, JOURNAL, (*reasons, *_provisos(write, outcome)), pending=True)
            for write, outcome in zip(writes, outcomes, strict=True)
        ]

    async def _enter_and_drain(
        self, append: Callable[[Connection], list[int]]
    ) -> tuple[Sequence[int], Mapping[int, Outcome | Exception], Drained]:
        """Enter writes and work off what waits: their numbers, and what became of them."""
        numbers: list[int] = []

        def enter(connection: Connection) -> None:
            numbers[:] = append(connection)
            self._awaited.update(numbers)  # before anybody can see them

        try:
            await self._journal.write(enter)
            drained = await self.drain(seconds=self._deadline_seconds)
            return numbers, {number: self._results[number] for number in numbers if number in self._results}, drained
        finally:
            self._awaited.difference_update(numbers)
            for number in numbers:
                self._results.pop(number, None)

    async def _told(self, numbers: Sequence[int], results: Mapping[int, Outcome | Exception]) -> list[Answer[Outcome]]:
        """What the primary answered, which nobody has to look for in the journal: whoever wrote it is told now."""
        await self._journal.write(partial(entries.remove, numbers=numbers))
        answers: list[Answer[Outcome]] = []
        for number in numbers:
            result = results[number]
            if isinstance(result, Exception):
                raise result
            answers.append(Answer(result, self._primary.name))
        return answers

    async def drain(self, *, seconds: float | None) -> Drained:
        """Execute what waits, in order, within so many seconds (None: to the end).

        A write that the primary refuses is a dead letter. One that fails while the primary works is put off, with what
        follows it for the same memory; all others go on. Raises JournalError.
        """
        ends_at = None if seconds is None else time.monotonic() + seconds
        async with self._turn:
            if not await self._journal.kept(entries.has_any_waiting):
                return Drained()
            return await self._drain_alone(ends_at)

    async def _drain_alone(self, ends_at: float | None) -> Drained:
        async with self._journal.held(WORK) as is_ours:
            if not is_ours:
                return Drained(complete=False, troubles=("another process is executing what waits",))
            return await self._drain(ends_at)

    async def _drain(self, ends_at: float | None) -> Drained:
        executed = dead = after = left = 0
        put_off: set[MemoryRef] = set()
        troubles: dict[str, None] = {}
        is_down = False
        size = BATCH if ends_at is None else FIRST_BATCH
        while batch := await self._journal.read(partial(entries.waiting, after=after, limit=BATCH)):
            batch, size = _first(batch, size), min(2 * size, BATCH)
            after = batch[-1].number
            if is_down or (ends_at is not None and time.monotonic() >= ends_at):
                left += len(batch)
                break
            now = now_milliseconds()
            ready: list[Waiting] = []
            for _, entered in itertools.groupby(batch, key=lambda entry: entry.unit):
                unit = list(entered)
                refs = {MemoryRef(entry.owner, entry.id) for entry in unit}
                if refs & put_off or any(entries.is_put_off(entry.next_attempt_at, now) for entry in unit):
                    put_off |= refs
                else:
                    ready += unit
            if not ready:
                left += len(batch)
                continue
            round = await self._execution.run(ready)
            self._results |= {number: one for number, one in round.results.items() if number in self._awaited}
            executed += sum(not isinstance(result, Exception) for result in round.results.values())
            dead += round.dead
            put_off |= round.put_off
            left += len(batch) - len(round.results)
            is_down = round.is_down
            troubles |= dict.fromkeys(round.troubles)
        return Drained(executed=executed, dead=dead, complete=not left, troubles=tuple(troubles))

    async def _outcome(self, write: Write) -> Outcome:
        """What a write that waits is answered with: the memory as it will be, as far as anybody knows it now."""
        if isinstance(write, Create) and not write.memory.key:
            return Written(write.applied(None), created=True)
        found = await self._gathering.get_many([write.id], scope=Scope.of_owner(write.owner), now=write.now)
        base = found.memories.get(write.id)
        is_deleted = base is None and write.id in found.pending
        if is_deleted and not isinstance(write, Create):
            raise NotFoundError(JOURNAL, write.id)
        if not isinstance(write, Create) and write.expected_revision == WAITED:
            await self._check_waits(write, base)
        if isinstance(write, Delete):
            return Tombstone(id=write.id, owner=write.owner, revision=0, deleted_at=write.now)
        if isinstance(write, Update):
            # Where nobody can tell what it was, all that is known is what it becomes.
            unknown = Memory(id=write.id, owner=write.owner, content="", created_at=write.now, updated_at=write.now)
            return write.changed(base or unknown)
        return Written(write.applied(base), created=base is None)

    async def _check_waits(self, write: Update | Delete, base: Memory | None) -> None:
        """Raises ConflictError where nothing waits that a write could go behind."""
        if not await self.has_waiting(write.owner, [write.id]):
            expected = f"what waited for the primary (revision {WAITED})"
            found = "nothing that waits" if base is None else f"revision {base.revision}, because it waits no more"
            raise ConflictError(self._primary.name, write.id, expected=expected, found=found)


def _first(batch: list[Waiting], size: int) -> list[Waiting]:
    """So many of a batch, all that may have been executed, because what was done of those is only told from them all,
    and the rest of a unit."""
    tried = max((place for place, entry in enumerate(batch) if entry.is_tried), default=-1)
    end = max(size, tried + 1)
    while 0 < end < len(batch) and batch[end].unit == batch[end - 1].unit:
        end += 1
    return batch[:end]


def _provisos(write: Write, outcome: Outcome) -> tuple[str, ...]:
    """What nobody can know of a write as long as it waits."""
    if not isinstance(write, Create) or not isinstance(outcome, Written) or not (write.memory.key and outcome.created):
        return ()
    return (f"a memory that has the key {write.memory.key!r} already will keep its id",)
