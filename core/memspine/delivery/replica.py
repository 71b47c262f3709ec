"""Delivery of what the primary has to one replica: first all of it, then every change, each memory as it is now.

What is about to be given is noted before, and what has arrived with the place behind it after, so a delivery that dies
between any two steps is done again and finds what is there.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.chain.members import bulk_seconds, tombstones
from memspine.contracts import Capability, MemoryBackend
from memspine.copying.calls import PAGE_ROWS, by_owner, listed, ref_of
from memspine.delivery.giving import Giving
from memspine.delivery.planning import expected_state, plan
from memspine.delivery.sources import Page, PrimaryReader
from memspine.errors import BackendUnavailable, CapabilityError, CursorError, MemspineError
from memspine.journal import Journal, entries, intents, now_milliseconds, replicas
from memspine.journal.replicas import ReplicaPosition
from memspine.model import Memory, MemoryRef, Scope, Tombstone

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

DUE_ROWS: Final = 100


@attrs.frozen(kw_only=True)
class ReplicaReport:
    """What delivering to a replica came to: records given, whether it has everything, and what is in the way."""

    records: int = 0
    complete: bool = True
    troubles: tuple[str, ...] = ()


def replica_held(journal: Journal, replica: str) -> AbstractAsyncContextManager[bool]:
    """Keep others from delivering to a replica while inside; False where somebody is at it."""
    return journal.held(f"deliver-{replica}")


class ReplicaDelivery:
    """Delivery of a chain to one of its replicas."""

    def __init__(self, chain: Chain, journal: Journal, replica: Member) -> None:
        self._journal = journal
        self._replica = replica
        self._seconds = chain.deadline_seconds
        self._reader = PrimaryReader(chain, journal)
        self._giving = Giving(replica, seconds=chain.deadline_seconds)

    async def run(self, *, seconds: float | None) -> ReplicaReport:
        """Deliver for so many seconds (None: to the end). A replica that failed lately is left alone until its turn.

        Raises JournalError, and BackendUnavailable of the primary.
        """
        async with replica_held(self._journal, self._replica.name) as is_ours:
            if not is_ours:
                return ReplicaReport(complete=False)  # another process is at it
            ends_at = None if seconds is None else time.monotonic() + seconds
            position, troubles = await self._position()
            done = await self._run(position, ends_at)
            return attrs.evolve(done, troubles=(*troubles, *done.troubles))

    async def _run(self, position: ReplicaPosition, ends_at: float | None) -> ReplicaReport:
        records = 0
        if entries.is_put_off(position.next_attempt_at, now_milliseconds()):
            return ReplicaReport(complete=False, troubles=(f"{self._replica.name}: {position.error}",))
        try:
            await self._check()
            await self._purge()
            records += await self._again(ends_at)
            if position.stage == "new":
                position = await self._begin()
            if position.stage == "copying" and position.cursor is None:
                records += await self._bury()
            while position.stage != "left behind":
                page = await self._page(position)
                if page is None:
                    break
                records += await self._give(page)
                position = page.position or position
                if not page.more:
                    return ReplicaReport(records=records)
                if ends_at is not None and time.monotonic() >= ends_at:
                    return ReplicaReport(records=records, complete=False)
        except _ReplicaDown as error:
            reason = str(error).removeprefix(f"{self._replica.name}: ")
            await self._journal.write(
                partial(replicas.fail, replica=self._replica.name, error=reason, now=now_milliseconds())
            )
            return ReplicaReport(records=records, complete=False, troubles=(f"{self._replica.name}: {reason}",))
        reason = "was left behind by the primary's feed; run `memspine reconcile`"
        return ReplicaReport(records=records, complete=False, troubles=(f"{self._replica.name}: {reason}",))

    async def finish(self) -> int:
        """Deliver everything that the replica can be given now; returns how many records were."""
        records = 0
        while True:
            done = await self.run(seconds=None)
            records += done.records
            if done.complete or not done.records:
                return records

    async def end(self) -> str | None:
        """Where the changes of the primary end now. Raises BackendUnavailable."""
        return await self._reader.end()

    async def again(self, refs: Sequence[MemoryRef], *, anew: bool = False, take: bool = False) -> int:
        """Deliver single memories; with `anew` also those in conflict, should they be so no more, with `take` over what
        others have changed in the replica. Returns how many records were given. Raises BackendUnavailable."""
        sources = await self._reader.sources(dict.fromkeys(refs))
        try:
            return await self._give(Page(position=None, sources=sources), anew=anew or take, take=take)
        except _ReplicaDown as error:
            raise error.cause from error

    # ── steps ──

    async def _position(self) -> tuple[ReplicaPosition, tuple[str, ...]]:
        """Where delivery to the replica is; where it is another store than before, it begins anew, which is said."""
        name, store = self._replica.name, self._replica.store
        read = partial(replicas.position, replica=name)
        position = await self._journal.read(read)
        if position.store == store:
            return position, ()
        await self._journal.write(partial(replicas.note_store, replica=name, store=store))
        troubles = (f"{name}: {replicas.MOVED}",) if position.is_of_another(store) else ()
        return await self._journal.read(read), troubles

    async def _check(self) -> None:
        """Whether the replica can be one. An unreachable one is told apart from one that cannot do it."""
        try:
            capabilities = await self._replica.capabilities(seconds=self._seconds)
        except BackendUnavailable as error:
            raise _ReplicaDown(error) from error
        if Capability.PUT not in capabilities:
            raise _ReplicaDown(CapabilityError(Capability.PUT, operation="replicate", store=self._replica.name))

    async def _purge(self) -> None:
        """Erase what was purged while the replica was away, before anything else reaches it."""
        for owner, id in await self._journal.read(partial(entries.purges, replica=self._replica.name)):
            ids = [id] if id else None
            try:
                await self._giving.purge(owner, ids)
            except CapabilityError as error:
                name, reason = self._replica.name, str(error)
                await self._journal.write(partial(entries.give_up_purges, replica=name, error=reason))
                return
            except MemspineError as error:
                raise _ReplicaDown(error) from error
            await self._journal.write(partial(entries.forget_purge, replica=self._replica.name, owner=owner, ids=ids))

    async def _again(self, ends_at: float | None) -> int:
        """What was set aside and whose turn has come."""
        records, name, since = 0, self._replica.name, now_milliseconds()
        # Each is given once: what is refused again has its next turn later.
        while due := await self._journal.read(partial(entries.due, replica=name, now=since, limit=DUE_ROWS)):
            sources = await self._reader.sources(dict.fromkeys(due), are_named=True)
            records += await self._give(Page(position=None, sources=sources))
            if len(due) < DUE_ROWS or (ends_at is not None and time.monotonic() >= ends_at):
                break
        return records

    async def _begin(self) -> ReplicaPosition:
        """Note where the changes end before anything is copied: what is deleted after that has to be deleted there."""
        end = await self._reader.end()
        await self._journal.write(
            partial(replicas.move, replica=self._replica.name, stage="copying", cursor=None, feed=end)
        )
        return ReplicaPosition(stage="copying", cursor=None, feed=end)

    async def _bury(self) -> int:
        """Delete what the replica has from before and the primary has deleted: no list and no change names it again."""
        there, gone = Chain([self._replica], deadline_seconds=self._seconds), list[MemoryRef]()
        cursor: str | None = None
        while True:
            try:
                page = await listed(there, Scope.everyone(), cursor)
            except MemspineError as error:
                raise _ReplicaDown(error) from error
            gone += await self._reader.deleted([ref_of(memory) for memory in page.memories])
            cursor = page.cursor
            if cursor is None:
                break
        records = 0
        for start in range(0, len(gone), PAGE_ROWS):
            sources = await self._reader.sources(dict.fromkeys(gone[start : start + PAGE_ROWS]))
            records += await self._give(Page(position=None, sources=sources))
        return records

    async def _page(self, position: ReplicaPosition) -> Page | None:
        try:
            return await self._reader.page(position)
        except CursorError:
            await self._journal.write(
                partial(replicas.move, replica=self._replica.name, stage="left behind", cursor=None)
            )
            return None

    async def _give(self, page: Page, *, anew: bool = False, take: bool = False) -> int:
        """Give what a page says that the replica lacks; note the place behind it."""
        refs = [source.ref for source in page.sources]
        sent = await self._journal.read(partial(replicas.sent, replica=self._replica.name, refs=refs))
        aside = await self._journal.read(partial(entries.aside, replica=self._replica.name))
        there = await self._there(refs)
        given_before = [ref for ref, one in sent.items() if one.hash]
        buried = await self._buried([ref for ref in (refs if take else given_before) if ref not in there])
        plans = {
            source.ref: plan(
                source,
                sent=sent.get(source.ref),
                there=there.get(source.ref),
                buried=buried.get(source.ref),
                take=take,
            )
            for source in page.sources
            if anew or aside.get(source.ref) != "conflict"
        }
        records = {ref: one.records for ref, one in plans.items() if one.verdict == "send"}
        expected = {ref: expected_state(some) for ref, some in records.items()}
        if expected:
            await self._journal.write(partial(replicas.note_sending, replica=self._replica.name, states=expected))
        given = await self._giving.give(records)
        if given.down is not None:
            raise _ReplicaDown(given.down)
        conflicts = {ref: one.reason for ref, one in plans.items() if one.verdict == "conflict"}
        conflicts.update(given.conflicts)

        def note(connection: Connection) -> None:
            name, now = self._replica.name, now_milliseconds()
            same = {ref: _state(there[ref]) for ref, one in plans.items() if one.verdict == "same" and ref in there}
            arrived = {ref: expected[ref] for ref in given.arrived}
            replicas.note_sent(connection, name, {**same, **arrived})
            intents.lift_overtaken(connection, [source.memory for source in page.sources if source.memory is not None])
            done = [ref for ref in plans if ref in aside and ref not in conflicts and ref not in given.refused]
            entries.clear(connection, name, done)
            for ref, reason in conflicts.items():
                entries.set_aside(connection, name, ref, state="conflict", error=reason, now=now)
            for ref, reason in given.refused.items():
                entries.set_aside(connection, name, ref, state="pending", error=reason, now=now)
            if page.position is not None:
                at = page.position
                replicas.move(connection, name, at.stage, cursor=at.cursor, feed=at.feed)

        if plans or page.position != page.from_position:
            await self._journal.write(note)
        return given.records

    async def _there(self, refs: Sequence[MemoryRef]) -> Mapping[MemoryRef, Memory]:
        """What the replica has of these memories now."""
        return await self._asked("get", refs, _memories)

    async def _buried(self, refs: Sequence[MemoryRef]) -> Mapping[MemoryRef, Tombstone]:
        """Those of the memories that the replica says were deleted in it, if it can say so."""
        return await self._asked("tombstones", refs, tombstones)

    async def _asked(
        self,
        operation: str,
        refs: Sequence[MemoryRef],
        call: Callable[..., Awaitable[Mapping[str, T]]],
    ) -> Mapping[MemoryRef, T]:
        """What the replica says of memories, owner by owner."""
        found: dict[MemoryRef, T] = {}
        for owner, ids in by_owner(refs).items():
            scope = Scope.of_owner(owner)
            try:
                got = await self._replica.call(
                    operation,
                    partial(call, ids=ids, scope=scope),
                    seconds=bulk_seconds(self._seconds, len(ids)),
                )
            except MemspineError as error:
                raise _ReplicaDown(error) from error
            found |= {MemoryRef(owner, id): one for id, one in got.items()}
        return found


class _ReplicaDown(Exception):
    """The replica does not take anything now."""

    def __init__(self, cause: MemspineError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _state(memory: Memory) -> tuple[int, str]:
    return (memory.revision, memory.content_hash)


async def _memories(backend: MemoryBackend, ids: Sequence[str], *, scope: Scope) -> Mapping[str, Memory]:
    return await backend.get_many(ids, scope=scope, now=times.now())
