"""Primary and fallbacks as one store: who is asked, in which order, for how long, and what the answer is worth.

Writes go to the primary alone. Reads go to the primary first; which failures and absences send them on is the
routing table of `core/adr/0003-chain.md`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from memspine import times
from memspine.chain.answers import Answer, Gathered, Hidden
from memspine.chain.gathering import Gathering, Stones
from memspine.chain.members import Member, bulk_seconds, share_seconds
from memspine.chain.notes import Notes, Touched
from memspine.chain.operations import Create, Outcome, Write
from memspine.closing import close_all
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import BackendUnavailable, JournalError, MemspineError
from memspine.journal import Journal
from memspine.model import Health, Memory, MemoryRef, Scope, Tombstone, Written

if TYPE_CHECKING:
    from memspine.chain.overlay import Overlay, WaitingWrites
    from memspine.chain.spool import Spool

T = TypeVar("T")


class Chain:
    """Routes calls over a primary and ordered fallbacks.

    A write has `deadline_seconds`; a read has as much for all stores together, but a search has it for each. A chain
    with fallbacks keeps deletes in its `journal`, and with `spools` also the writes that its primary could not take. A
    chain that needs none looks into the one that other settings may have `left`, for replicas that follow its primary.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        deadline_seconds: float,
        read_fallback: bool = False,
        journal: Journal | None = None,
        left: Journal | None = None,
        spools: bool = False,
    ) -> None:
        self._members = tuple(members)
        self._deadline_seconds = deadline_seconds
        self._read_fallback = read_fallback
        self.journal = journal
        self.notes: Notes | None = None
        self._noting = journal or left
        if self._noting is not None:
            self.notes = Notes(
                self._noting,
                self.primary,
                has_fallbacks=len(self._members) > 1,
                replicates=bool(self.replicas),
                deadline_seconds=deadline_seconds,
            )
        self._spools = spools
        self._overlay = None if journal is None else _overlay(journal)
        self._gathering = Gathering(
            self._members, deadline_seconds=deadline_seconds, journal=journal, overlay=self._overlay
        )
        # Without `spools` too: what was acknowledged under other settings is still owed.
        self.spool = None if journal is None else _spool(self, journal, self._gathering)

    @property
    def primary(self) -> Member:
        """The member that takes all writes."""
        return self._members[0]

    @property
    def members(self) -> tuple[Member, ...]:
        """The primary, then the fallbacks in order."""
        return self._members

    @property
    def replicas(self) -> tuple[Member, ...]:
        """The fallbacks that receive every change."""
        return tuple(member for member in self._members[1:] if member.replicates)

    @property
    def deadline_seconds(self) -> float:
        """How long a write may take, and a read of all stores together, but a search of each."""
        return self._deadline_seconds

    async def close(self) -> None:
        """Close every member and the journal, also when closing one fails. Raises the first error, after all were
        closed."""
        closings = [member.close(patience_seconds=self._deadline_seconds) for member in self._members]
        await close_all([*closings, *([self._noting.close()] if self._noting is not None else [])])

    # ── writing ──

    async def submit(self, write: Write) -> Answer[Outcome]:
        """Do a write; where it may wait, and the primary is down, it is acknowledged as pending. Raises what the
        primary refuses, BackendUnavailable, JournalError."""
        if self.spool is None or not self._spools:
            await self.go_behind(write.name, write.owner, [write.id])
            return await self.execute(write)
        if refusal := self.primary.refusal(write.name, "write"):
            return (await self.spool.enter([write], cause=refusal))[0]
        if await self.spool.has_waiting(write.owner):
            return (await self.spool.enter([write], cause=None))[0]
        try:
            return await self.execute(write)
        except BackendUnavailable as error:
            return (await self.spool.enter([write], cause=error))[0]

    async def submit_creates(self, writes: Sequence[Create]) -> list[Answer[Outcome]]:
        """Do several creates of one owner and one moment: all or, when one is refused, none; or all are acknowledged as
        pending. Raises as `submit` does."""
        if not writes:
            return []
        memories, ids = [write.memory for write in writes], [write.id for write in writes]
        if self.spool is None or not self._spools:
            await self.go_behind("create_many", writes[0].owner, ids)
        elif refusal := self.primary.refusal("create_many", "write"):
            return await self.spool.enter(writes, cause=refusal)
        elif await self.spool.has_waiting(writes[0].owner):
            return await self.spool.enter(writes, cause=None)
        scope, now = Scope.of_owner(writes[0].owner), writes[0].now
        try:
            answer = await self.write(
                "create_many",
                lambda backend: backend.create_many(memories, scope=scope, ids=ids, now=now),
                ids=ids,
                touched=Touched(owner=writes[0].owner, ids=tuple(ids)),
                records=len(ids),
            )
        except BackendUnavailable as error:
            if self.spool is None or not self._spools:
                raise
            return await self.spool.enter(writes, cause=error)
        return [Answer(written, answer.backend, answer.degraded) for written in answer.value]

    async def go_behind(self, operation: str, owner: str, ids: Sequence[str] | None) -> None:
        """Have writes of an owner that wait done before one that cannot wait. Raises BackendUnavailable where some for
        these memories (None: for any) still wait, because they would be done over it later, and JournalError."""
        if self.spool is None or self.primary.refusal(operation, "write"):
            return  # the primary is not even called
        try:
            if not await self.spool.has_waiting(owner):
                return
            drained = await self.spool.drain(seconds=self._deadline_seconds)
            if not await self.spool.has_waiting(owner, ids):
                return
        except JournalError:
            if self._spools:
                raise
            return  # nothing new has to wait, and the status tells what is the matter
        why = "; ".join(drained.troubles) or "there are too many of them"
        reason = f"{operation}: earlier writes wait and would be done over it: {why}"
        raise BackendUnavailable(self.primary.name, reason, advice="see `memspine journal list`")

    async def execute(self, write: Write) -> Answer[Outcome]:
        """Do a write on the primary, now. Raises BackendUnavailable; with outcome "unknown" when it had begun."""
        touched = Touched(owner=write.owner, ids=(write.id,), deletes=write.name == "delete")
        return await self.write(write.name, write.run, ids=[write.id], touched=touched)

    async def write(
        self,
        operation: str,
        call: Callable[[MemoryBackend], Awaitable[T]],
        *,
        ids: Sequence[str] = (),
        touched: Touched | None = None,
        records: int = 0,
        unhurried: bool = False,
    ) -> Answer[T]:
        """Call the primary, which changes what is `touched` (None: no memory, telemetry apart). Raises
        BackendUnavailable; with outcome "unknown" when the call had begun, and then `ids` are what makes repeating it
        safe. Many `records` have more time; work that grows with the store is `unhurried`: it has no deadline."""
        seconds = None if unhurried else bulk_seconds(self._deadline_seconds, records)
        ask = partial(self.primary.call, operation, call, seconds=seconds, write_ids=ids)
        if touched is None or self.notes is None:
            return Answer(await ask(), self.primary.name)
        if refusal := self.primary.refusal(operation, "write"):
            raise refusal  # before anything is noted
        async with self.notes.around(touched) as noted:
            value = await ask()
            if isinstance(value, Tombstone):
                noted.deleted = {value.id: value.revision}
            noted.others = _others(value, touched.ids)
        return Answer(value, self.primary.name, (noted.trouble,) if noted.trouble else ())

    # ── reading ──

    async def call_primary(
        self,
        operation: str,
        call: Callable[[MemoryBackend], Awaitable[T]],
        *,
        records: int = 0,
        unhurried: bool = False,
    ) -> Answer[T]:
        """Read from the primary alone. Many `records` have more time; `unhurried`, it has no deadline."""
        seconds = None if unhurried else bulk_seconds(self._deadline_seconds, records)
        return Answer(await self.primary.call(operation, call, seconds=seconds), self.primary.name)

    async def capabilities(self) -> frozenset[Capability]:
        """What the primary claims, opened if need be. Raises BackendUnavailable."""
        return await self.primary.capabilities(seconds=self._deadline_seconds)

    async def read_listing(self, operation: str, call: Callable[[MemoryBackend], Awaitable[T]]) -> Answer[T]:
        """Read what only a whole store can answer (list, count): fallbacks are asked only if `read_fallback` is set.
        Raises BackendUnavailable naming each cause."""
        members = self._members if self._read_fallback else self._members[:1]
        ends_at = time.monotonic() + self._deadline_seconds
        shares = (share_seconds(ends_at, left) for left in range(len(members), 0, -1))
        return await self._first_answer(members, operation, call, seconds=shares)

    async def search(
        self, call: Callable[[MemoryBackend], Awaitable[T]], *, within_seconds: float | None = None
    ) -> Answer[T]:
        """Ask in order until one answers, each within `within_seconds` if that is shorter than the chain's deadline; an
        empty answer is an answer. Raises BackendUnavailable naming each cause."""
        seconds = min(self._deadline_seconds, within_seconds or self._deadline_seconds)
        return await self._first_answer(self._members, "search", call, seconds=itertools.repeat(seconds))

    async def waiting(self, scope: Scope) -> WaitingWrites | None:
        """What waits for the primary now, for `hidden`."""
        try:
            return None if self._overlay is None else await self._overlay.waiting(scope)
        except JournalError:
            return None  # which `hidden` will meet and tell

    async def hidden(
        self, memories: Sequence[Memory], *, scope: Scope, backend: str, before: WaitingWrites | None = None
    ) -> Hidden:
        """Which of the memories that a backend gave must not be shown; `before` is what waited when it was asked, which
        may have been done since. Raises JournalError where nobody can say what was deleted, because the answer is a
        fallback's."""
        is_primarys = backend == self.primary.name
        refs = [MemoryRef(memory.owner, memory.id) for memory in memories]
        stones: Stones = {} if is_primarys else await self._gathering.stones(refs)
        now = times.now()
        gone = {
            ref
            for ref, memory in zip(refs, memories, strict=True)
            if not is_primarys
            and (memory.is_expired(now) or (ref in stones and stones[ref].hides(memory.revision, fallback=backend)))
        }
        if self._overlay is None:
            return Hidden(refs=frozenset(gone))
        try:
            waiting = await self._overlay.waiting(scope)
        except JournalError as error:
            if not is_primarys:
                raise
            return Hidden(degraded=(str(error),))
        if before is not None:
            gone |= before.deleted
        return Hidden(refs=frozenset(gone | waiting.deleted), degraded=waiting.degraded)

    async def get_many(
        self, ids: Sequence[str], *, scope: Scope, now: datetime, primary_only: bool = False
    ) -> Gathered:
        """Memories by id, as they are with the writes that wait for the primary.

        Those that the primary lacks come from the fallbacks, unless they were deleted; replicas are asked only when the
        primary failed.
        """
        return await self._gathering.get_many(ids, scope=scope, now=now, primary_only=primary_only)

    async def health(self, *, deep: bool = False) -> dict[str, Health]:
        """A probe of every member, by name, primary first; a member that fails is reported, not raised."""

        async def probe(member: Member) -> Health:
            try:
                seconds = None if deep else self._deadline_seconds
                return await member.probe(lambda backend: backend.health(deep=deep), seconds=seconds)
            except MemspineError as error:
                return Health(ok=False, detail=str(error))

        results = await asyncio.gather(*map(probe, self._members))
        return {member.name: health for member, health in zip(self._members, results, strict=True)}

    # ── inside ──

    async def _first_answer(
        self,
        members: Sequence[Member],
        operation: str,
        call: Callable[[MemoryBackend], Awaitable[T]],
        *,
        seconds: Iterable[float],
    ) -> Answer[T]:
        """The answer of the first member that gives one, each within its seconds, which are told when it is asked."""
        failures: list[BackendUnavailable] = []
        for member, within in zip(members, seconds, strict=False):
            try:
                value = await member.call(operation, call, seconds=within)
            except BackendUnavailable as error:
                failures.append(error)
            else:
                return Answer(value, member.name, tuple(map(str, failures)))
        if len(failures) == 1:
            raise failures[0]
        causes = tuple(map(str, failures))
        names = ", ".join(member.name for member in members)
        raise BackendUnavailable(names, f"{operation}: none of them answered: " + "; ".join(causes), causes=causes)


def _others(value: object, ids: Sequence[str]) -> tuple[str, ...]:
    """The memories that creates came to and were not about: those that have their keys."""
    written = [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Written)]
    return tuple({one.memory.id for one in written} - set(ids))


def _overlay(journal: Journal) -> Overlay:
    # Imported here, as the spool is: most chains have no writes that wait.
    from memspine.chain.overlay import Overlay

    return Overlay(journal)


def _spool(chain: Chain, journal: Journal, gathering: Gathering) -> Spool:
    from memspine.chain.spool import Spool

    return Spool(journal, chain.primary, gathering=gathering, deadline_seconds=chain.deadline_seconds)
