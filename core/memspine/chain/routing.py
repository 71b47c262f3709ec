"""Primary and fallbacks as one store: who is asked, in which order, for how long, and what the answer is worth.

Writes go to the primary alone. Reads go to the primary first; which failures and absences send them on is the
routing table of `core/adr/0003-chain.md`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import attrs

from memspine import times
from memspine.chain.answers import Answer, Gathered, Hidden
from memspine.chain.members import Member, bulk_seconds
from memspine.chain.notes import Notes, Touched
from memspine.chain.operations import Create, Outcome, Write
from memspine.closing import close_all
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import BackendUnavailable, JournalError, MemspineError
from memspine.journal import Journal, intents
from memspine.journal.intents import Stone
from memspine.model import Health, Memory, MemoryRef, Scope, Tombstone

if TYPE_CHECKING:
    from memspine.chain.overlay import Overlay
    from memspine.chain.spool import Spool

T = TypeVar("T")

Stones = Mapping[MemoryRef, Stone]


class Chain:
    """Routes calls over a primary and ordered fallbacks.

    A write has `deadline_seconds`; a read has as much for all stores together, but a search has it for each. A chain
    with fallbacks keeps deletes in its `journal`, and with `spools` also the writes that its primary could not take.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        deadline_seconds: float,
        read_fallback: bool = False,
        journal: Journal | None = None,
        spools: bool = False,
    ) -> None:
        self._members = tuple(members)
        self._deadline_seconds = deadline_seconds
        self._read_fallback = read_fallback
        self.journal = journal
        self.notes: Notes | None = None
        self.spool: Spool | None = None
        self._overlay: Overlay | None = None
        if journal is not None and len(self._members) > 1:
            self.notes = Notes(journal, self.primary, replicates=bool(self.replicas), deadline_seconds=deadline_seconds)
        self._spools = spools
        if journal is not None:  # without `spools` too: what was acknowledged under other settings is still owed
            self.spool, self._overlay = _spooling(self, journal)

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
        await close_all([*closings, *([self.journal.close()] if self.journal is not None else [])])

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
        shares = (_share(ends_at, left) for left in range(len(members), 0, -1))
        return await self._first_answer(members, operation, call, seconds=shares)

    async def search(
        self, call: Callable[[MemoryBackend], Awaitable[T]], *, within_seconds: float | None = None
    ) -> Answer[T]:
        """Ask in order until one answers, each within `within_seconds` if that is shorter than the chain's deadline; an
        empty answer is an answer. Raises BackendUnavailable naming each cause."""
        seconds = min(self._deadline_seconds, within_seconds or self._deadline_seconds)
        return await self._first_answer(self._members, "search", call, seconds=itertools.repeat(seconds))

    async def hidden(self, memories: Sequence[Memory], *, scope: Scope, backend: str) -> Hidden:
        """Which of the memories that a backend gave must not be shown. Raises JournalError where nobody can say what
        was deleted, because the answer is a fallback's."""
        is_primarys = backend == self.primary.name
        refs = [MemoryRef(memory.owner, memory.id) for memory in memories]
        stones: Stones = {}
        if not is_primarys and self.journal is not None:
            stones = await self._stones(refs)
        now = times.now()
        gone = {
            ref
            for ref, memory in zip(refs, memories, strict=True)
            if not is_primarys and (memory.is_expired(now) or (ref in stones and stones[ref].hides(memory.revision)))
        }
        if self._overlay is None:
            return Hidden(refs=frozenset(gone))
        try:
            waiting = await self._overlay.waiting(scope)
        except JournalError as error:
            if not is_primarys:
                raise
            return Hidden(degraded=(str(error),))
        return Hidden(refs=frozenset(gone | waiting.deleted), degraded=waiting.degraded)

    async def get_many(
        self, ids: Sequence[str], *, scope: Scope, now: datetime, primary_only: bool = False
    ) -> Gathered:
        """Memories by id, as they are with the writes that wait for the primary.

        Those that the primary lacks come from the fallbacks, unless they were deleted; replicas are asked only when the
        primary failed.
        """
        wanted = tuple(dict.fromkeys(ids))
        gathering = _Gathering(wanted)
        ends_at = time.monotonic() + self._deadline_seconds
        for place, member in enumerate(self._members[:1] if primary_only else self._members):
            missing = gathering.missing
            if not missing:
                break
            has_failed = bool(gathering.failures)
            if member is not self.primary and member.replicates and not has_failed:
                continue
            seconds = _share(ends_at, len(self._members) - place)
            getter = _getter(missing, scope=scope, now=now)
            if member is self.primary:
                await self._ask_primary(gathering, getter, scope=scope, seconds=seconds, primary_only=primary_only)
            else:
                await self._ask_fallback(gathering, member, getter, scope=scope, now=now, seconds=seconds)
            if gathering.is_closed:
                break
        gathered = gathering.result(ids)
        return gathered if self._overlay is None else await self._overlay.over(gathered, wanted, scope=scope)

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

    async def _ask_primary(
        self, gathering: _Gathering, getter: Getter, *, scope: Scope, seconds: float, primary_only: bool
    ) -> None:
        try:
            gathering.add(await self.primary.call("get", getter, seconds=seconds), self.primary.name)
        except BackendUnavailable as error:
            gathering.failures.append(str(error))
            return
        asks_others = not primary_only and any(not member.replicates for member in self._members[1:])
        if gathering.missing and asks_others:
            try:
                gathering.drop(await self._deleted(gathering.missing, scope=scope, seconds=seconds))
            except BackendUnavailable as error:
                # Not knowing what was deleted, a fallback could only bring it back.
                gathering.close(str(error))

    async def _ask_fallback(
        self, gathering: _Gathering, member: Member, getter: Getter, *, scope: Scope, now: datetime, seconds: float
    ) -> None:
        """What a fallback has, without what the journal knows to be deleted."""
        owners = scope.require_readable("get")
        asked = [MemoryRef(owner, id) for owner in owners for id in gathering.missing]
        try:
            stones = await self._stones(asked)
            got = await member.call("get", getter, seconds=seconds)
        except JournalError as error:
            gathering.close(str(error))
            return
        except BackendUnavailable as error:
            gathering.failures.append(str(error))
            return
        alive: dict[str, Memory] = {}
        for id, memory in got.items():
            stone = stones.get(MemoryRef(memory.owner, id))
            if stone is not None and stone.is_begun:
                gathering.failures.append(
                    f"a delete of memory {id!r} was begun, and nobody can say whether it was done"
                )
                gathering.drop([id])
            elif not memory.is_expired(now) and not (stone is not None and stone.hides(memory.revision)):
                alive[id] = memory
        gathering.add(alive, member.name)

    async def _stones(self, refs: Sequence[MemoryRef]) -> Stones:
        if self.journal is None:
            return {}
        few = await self.journal.kept(intents.few_stones)
        if few is not None:
            return {ref: few[ref] for ref in refs if ref in few}
        return await self.journal.read(partial(intents.stones, refs=refs))

    async def _deleted(self, ids: Sequence[str], *, scope: Scope, seconds: float) -> frozenset[str]:
        """Those of the ids that the primary remembers as deleted. No fallback may bring them back."""

        async def ask(primary: MemoryBackend) -> Mapping[str, Tombstone]:
            return await primary.tombstones(ids, scope=scope) if Capability.CHANGES in primary.capabilities else {}

        return frozenset(await self.primary.call("tombstones", ask, seconds=seconds))

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


def _spooling(chain: Chain, journal: Journal) -> tuple[Spool, Overlay]:
    # Imported here: most chains have no writes that wait.
    from memspine.chain.execution import Execution
    from memspine.chain.overlay import Overlay
    from memspine.chain.spool import Spool

    execution = Execution(
        journal,
        chain.primary,
        deadline_seconds=chain.deadline_seconds,
        keeps_outbox=bool(chain.replicas),
    )
    return Spool(chain, journal, execution=execution), Overlay(journal)


Getter = Callable[[MemoryBackend], Awaitable[dict[str, Memory]]]


@attrs.define
class _Gathering:
    """What was found so far, and what still has to be looked for."""

    ids: Sequence[str]
    failures: list[str] = attrs.field(factory=list)
    is_closed: bool = False
    _memories: dict[str, Memory] = attrs.field(factory=dict)
    _backends: dict[str, str] = attrs.field(factory=dict)
    _dropped: set[str] = attrs.field(factory=set)

    @property
    def missing(self) -> list[str]:
        """The ids that another store may have."""
        return [id for id in self.ids if id not in self._memories and id not in self._dropped]

    def add(self, memories: Mapping[str, Memory], backend: str) -> None:
        """Note what a store gave."""
        self._memories |= memories
        self._backends |= dict.fromkeys(memories, backend)

    def drop(self, ids: Sequence[str] | frozenset[str]) -> None:
        """Look for these no further."""
        self._dropped |= set(ids)

    def close(self, failure: str) -> None:
        """Ask nobody else, because of a failure."""
        self.failures.append(failure)
        self.is_closed = True

    def result(self, ids: Sequence[str]) -> Gathered:
        """All that was found, in the order asked."""
        in_order = {id: self._memories[id] for id in ids if id in self._memories}
        return Gathered(memories=in_order, backends=self._backends, failures=tuple(self.failures))


def _share(ends_at: float, members: int) -> float:
    """The time of one store, when so many may still have to be asked."""
    return max(ends_at - time.monotonic(), 0.0) / members


def _getter(ids: Sequence[str], *, scope: Scope, now: datetime) -> Getter:
    wanted = tuple(ids)
    return lambda backend: backend.get_many(wanted, scope=scope, now=now)
