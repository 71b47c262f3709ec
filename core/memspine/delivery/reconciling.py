"""A primary and a replica that went apart, made the same again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import attrs

from memspine import times
from memspine.chain import Chain, Member, Touched
from memspine.chain.members import tombstones
from memspine.contracts import Capability, MemoryBackend
from memspine.copying.calls import PAGE_ROWS
from memspine.copying.verifying import compared
from memspine.delivery.replica import ReplicaDelivery, replica_held
from memspine.errors import BackendUnavailable, NotFoundError
from memspine.journal import Journal, entries, intents, now_milliseconds, replicas
from memspine.model import Memory, MemoryChanges, MemoryRef, NewMemory, PutOutcome, Scope, Tombstone
from memspine.status import EntryState, ReconcileReport

if TYPE_CHECKING:
    from sqlite3 import Connection

Side = Literal["primary", "replica"]

PAUSE_SECONDS: Final = 0.02
ONLY_THERE = "it is in the replica alone, and nothing says that the primary has deleted it"


class Reconciling:
    """Compares a chain's primary with one of its replicas, and settles what differs."""

    def __init__(self, chain: Chain, journal: Journal, replica: Member, delivery: ReplicaDelivery) -> None:
        self._chain = chain
        self._journal = journal
        self._replica = replica
        self._delivery = delivery

    async def run(self, *, take: Side | None) -> ReconcileReport:
        """Deliver all that the replica lacks, delete there what the primary has deleted, and where both were changed,
        take one side; without one such memories stay in conflict. Afterwards the replica follows the primary again.

        Raises BackendUnavailable, also where somebody else delivers to the replica for too long, and JournalError.
        """
        await self._journal.write(replicas.hurry)
        copied = await self._delivery.finish()
        settled = 0
        async with self._alone():
            # Noted before the comparison, and moved to after it: one that fails has made the replica forget nothing.
            end = await self._delivery.end()
            brought, deleted = await self._compare()
            await self._journal.write(partial(replicas.move, replica=self._replica.name, stage="following", cursor=end))
            copied += brought
            if take is not None:
                for ref in await self._conflicts():
                    await self._settle(ref, take=take)
                    settled += 1
        copied += await self._delivery.finish()
        if settled:  # a memory that was in the way of another one may be gone by now
            async with self._alone():
                copied += await self._delivery.again(list(await self._aside()), anew=True)
        conflicts = len(await self._conflicts())
        refused = len(await self._aside()) - conflicts
        return ReconcileReport(copied=copied, deleted=deleted, settled=settled, conflicts=conflicts, refused=refused)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Keep others from delivering to the replica: what they give meanwhile would look like a change of its own."""
        seconds = self._chain.deadline_seconds
        ends_at = time.monotonic() + seconds
        while True:
            async with replica_held(self._journal, self._replica.name) as is_ours:
                if is_ours:
                    yield
                    return
            if time.monotonic() >= ends_at:
                reason = f"reconcile: somebody else was delivering to it for {seconds:g} s"
                raise BackendUnavailable(self._replica.name, reason, advice="try again")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _compare(self) -> tuple[int, int]:
        """Give the replica what it lacks, and delete what the primary has deleted; returns how many records of each."""
        there = Chain([self._replica], deadline_seconds=self._chain.deadline_seconds)
        copied = deleted = 0
        batch: list[MemoryRef] = []
        only_there: set[MemoryRef] = set()
        async for ref, what in compared(self._chain, there):
            if what == "only in the second":
                only_there.add(ref)
                deleted += await self._delete(ref)
                continue
            batch.append(ref)
            if len(batch) == PAGE_ROWS:
                copied += await self._delivery.again(batch, anew=True)
                batch.clear()
        aside = await self._aside()
        batch += [ref for ref in aside if ref not in only_there]  # both may have lost it
        return copied + await self._delivery.again(list(dict.fromkeys(batch)), anew=True), deleted

    async def _delete(self, ref: MemoryRef) -> int:
        """Delete what the primary has deleted; where nothing says so, it is in conflict."""
        given = await self._delivery.again([ref], anew=True)
        if not given and not await self._is_being_deleted(ref):
            await self._journal.write(partial(_conflict, replica=self._replica.name, ref=ref))
        return given

    async def _is_being_deleted(self, ref: MemoryRef) -> bool:
        """Whether a deletion was begun whose outcome is not noted yet: the next delivery asks the primary."""
        stones = await self._journal.read(partial(intents.stones, refs=[ref]))
        return ref in stones and stones[ref].is_begun

    async def _aside(self) -> Mapping[MemoryRef, EntryState]:
        """What was set aside for the replica, and why."""
        return await self._journal.read(partial(entries.aside, replica=self._replica.name))

    async def _conflicts(self) -> list[MemoryRef]:
        return [ref for ref, state in (await self._aside()).items() if state == "conflict"]

    async def _settle(self, ref: MemoryRef, *, take: Side) -> None:
        """Take one side of a memory that both have changed."""
        scope, now, seconds = Scope.of_owner(ref.owner), times.now(), self._chain.deadline_seconds

        async def ask_primary() -> Memory | None:
            found = await self._chain.call_primary("get", lambda backend: backend.get(ref.id, scope=scope, now=now))
            return found.value

        here = await ask_primary()
        there = await self._replica.call(
            "get", lambda backend: backend.get(ref.id, scope=scope, now=now), seconds=seconds
        )
        least = there.revision if there is not None else await self._buried_revision(ref)
        if take == "replica":
            await self._take_theirs(ref, here=here, there=there)
            # What was stored by its key has the id that was there before; it comes back under that one.
            here = await ask_primary()
        elif here is not None and least >= here.revision:
            await self._raise(here, least=least + 1)
        if here is None and there is not None:
            stone = Tombstone(id=ref.id, owner=ref.owner, revision=there.revision + 1, deleted_at=now)
            await self._replica.call(
                "put", lambda backend: backend.put([stone], scope=scope), seconds=seconds, write_ids=[ref.id]
            )
        await self._delivery.again([ref], take=True)

    async def _buried_revision(self, ref: MemoryRef) -> int:
        """The revision at which the replica says that it has deleted a memory; 0 if it says nothing."""
        ask = partial(tombstones, ids=[ref.id], scope=Scope.of_owner(ref.owner))
        found = await self._replica.call("tombstones", ask, seconds=self._chain.deadline_seconds)
        return found[ref.id].revision if ref.id in found else 0

    async def _take_theirs(self, ref: MemoryRef, *, here: Memory | None, there: Memory | None) -> None:
        """The replica's content as a new revision of the primary; its absence as a deletion."""
        scope, now = Scope.of_owner(ref.owner), times.now()
        touched = Touched(owner=ref.owner, ids=(ref.id,), deletes=there is None)
        if there is None:
            if here is not None:
                await self._chain.write(
                    "delete",
                    lambda backend: backend.delete(ref.id, scope=scope, now=now),
                    ids=[ref.id],
                    touched=touched,
                )
            return
        is_behind = here is None or here.revision <= there.revision
        if is_behind and await self._can_put() and await self._raise(there, least=there.revision + 1):
            return
        changes = MemoryChanges(
            content=there.content,
            type=there.type,
            session=there.session,
            key=there.key,
            metadata=there.metadata,
            expires_at=there.expires_at,
        )
        new = NewMemory.of(there)

        async def store(backend: MemoryBackend) -> None:
            try:
                await backend.update(ref.id, changes, scope=scope, now=now)
            except NotFoundError:
                await backend.create(new, scope=scope, id=ref.id, now=now)

        await self._chain.write("update", store, ids=[ref.id], touched=touched)

    async def _raise(self, memory: Memory, *, least: int) -> bool:
        """Give the primary a memory at a revision above the replica's, so that both can have the same; returns whether
        it has taken it."""
        if not await self._can_put():
            return False
        new = attrs.evolve(memory, revision=least, updated_at=max(times.now(), memory.updated_at))
        scope = Scope.of_owner(memory.owner)
        written = await self._chain.write(
            "put",
            lambda backend: backend.put([new], scope=scope),
            ids=[memory.id],
            touched=Touched(owner=memory.owner, ids=(memory.id,)),
        )
        return written.value == (PutOutcome.APPLIED,)

    async def _can_put(self) -> bool:
        return Capability.PUT in await self._chain.capabilities()


def _conflict(connection: Connection, *, replica: str, ref: MemoryRef) -> None:
    now = now_milliseconds()
    entries.set_aside(connection, replica, ref, state="conflict", error=ONLY_THERE, now=now)
