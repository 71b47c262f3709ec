"""Writes that the primary could not take: acknowledged, kept in the journal, executed in order when it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from memspine import times
from memspine.chain.answers import JOURNAL, Answer, Gathered
from memspine.chain.execution import Execution
from memspine.chain.members import Member
from memspine.chain.operations import Create, Delete, Outcome, Update, Write, to_body
from memspine.errors import BackendUnavailable, NotFoundError
from memspine.journal import Journal, entries
from memspine.journal.entries import Waiting
from memspine.model import Memory, MemoryRef, Scope, Tombstone, Written

if TYPE_CHECKING:
    from datetime import datetime

BATCH: Final = 500
"""How many writes are executed between two notes in the journal."""
FIRST_BATCH: Final = 20
"""Where the time is limited, so many at first, and twice as many each time: what is cut off is no progress."""
RESULTS_MAX: Final = 2 * BATCH
WORK: Final = "execute"


class Store(Protocol):
    """What a spool needs of its chain."""

    @property
    def primary(self) -> Member:
        """Where the writes go."""
        ...

    @property
    def deadline_seconds(self) -> float:
        """How long one call may take."""
        ...

    async def get_many(self, ids: Sequence[str], *, scope: Scope, now: datetime) -> Gathered:
        """Memories as they are with the writes that wait."""
        ...


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

    def __init__(self, chain: Store, journal: Journal, *, execution: Execution) -> None:
        self._chain = chain
        self._journal = journal
        self._execution = execution
        self._turn = asyncio.Lock()
        # What was executed lately, by number: one task may execute what another one waits for.
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
        """Acknowledge writes of one owner; `cause` is why the primary could not take them. Without one they go behind
        others that wait, and all are worked off at once, unless the primary is left alone: what was executed by then is
        answered as the primary did.

        Raises JournalError, and NotFoundError for what is about to be deleted.
        """
        outcomes = [await self._outcome(write) for write in writes]
        kept = [(write.name, write.owner, write.id, to_body(write)) for write in writes]
        is_tried = cause is not None and cause.outcome == "unknown"
        error, now = "" if cause is None else str(cause), times.to_milliseconds(times.now())
        numbers = await self._journal.write(
            partial(entries.append, writes=kept, now=now, is_tried=is_tried, error=error)
        )
        cause = cause or self._chain.primary.refusal(WORK, "read", "write")
        if cause is not None:
            waits = (f"waits for the primary: {cause}",)
            return [Answer(outcome, JOURNAL, waits, pending=True) for outcome in outcomes]
        drained = await self.drain(seconds=self._chain.deadline_seconds)
        answers: list[Answer[Outcome]] = []
        for number, outcome in zip(numbers, outcomes, strict=True):
            result = self._results.pop(number, None)
            if isinstance(result, Exception):
                await self._journal.write(partial(entries.remove, numbers=[number]))  # whoever wrote it is told now
                raise result
            if result is not None:
                answers.append(Answer(result, self._chain.primary.name))
            else:
                reason = ("waits for the primary, behind others", *drained.troubles)
                answers.append(Answer(outcome, JOURNAL, reason, pending=True))
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
            now = times.to_milliseconds(times.now())
            ready = []
            for entry in batch:
                ref = MemoryRef(entry.owner, entry.id)
                if ref in put_off or entries.is_put_off(entry.next_attempt_at, now):
                    put_off.add(ref)
                else:
                    ready.append(entry)
            round = await self._execution.run(ready)
            self._remember(round.results)
            executed += sum(not isinstance(result, Exception) for result in round.results.values())
            dead += round.dead
            put_off |= round.put_off
            left += len(batch) - len(round.results)
            is_down = round.is_down
            troubles |= dict.fromkeys(round.troubles)
        return Drained(executed=executed, dead=dead, complete=not left, troubles=tuple(troubles))

    def _remember(self, results: Mapping[int, Outcome | Exception]) -> None:
        self._results |= results
        for number in list(self._results)[: max(len(self._results) - RESULTS_MAX, 0)]:
            del self._results[number]

    async def _outcome(self, write: Write) -> Outcome:
        """What a write that waits is answered with: the memory as it will be, as far as anybody knows it now."""
        if isinstance(write, Create) and not write.memory.key:
            return Written(_made(write.applied(None)), created=True)
        found = await self._chain.get_many([write.id], scope=Scope.of_owner(write.owner), now=write.now)
        base = found.memories.get(write.id)
        is_deleted = base is None and write.id in found.pending
        if is_deleted and not isinstance(write, Create):
            raise NotFoundError(JOURNAL, write.id)
        if isinstance(write, Delete):
            return Tombstone(id=write.id, owner=write.owner, revision=0, deleted_at=write.now)
        if isinstance(write, Update):
            # Where nobody can tell what it was, all that is known is what it becomes.
            unknown = Memory(id=write.id, owner=write.owner, content="", created_at=write.now, updated_at=write.now)
            return _made(write.applied(base or unknown))
        return Written(_made(write.applied(base)), created=base is None)


def _first(batch: list[Waiting], size: int) -> list[Waiting]:
    """So many of a batch, and all that may have been executed: what was done of those is only told from them all."""
    tried = max((place for place, entry in enumerate(batch) if entry.is_tried), default=-1)
    return batch[: max(size, tried + 1)]


def _made(memory: Memory | None) -> Memory:
    assert memory is not None  # noqa: S101 - a create always makes one, and an update of one as well
    return memory
