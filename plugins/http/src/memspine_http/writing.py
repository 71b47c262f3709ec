"""How a change is made: what is there is read, the new state is worked out here, and written back.

A service with the capability `put` refuses what was worked out from an older state, and then it is done anew. A plain
service cannot refuse; there, writes of this process take turns, and another process may come in between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from typing import Protocol as Interface

import attrs

from memspine.errors import BackendUnavailable, CapabilityError, ConflictError, NotFoundError
from memspine.model import Memory, MemoryChanges, NewMemory, PutOutcome, Scope, Tombstone, Written, merged_metadata
from memspine_http.extended import Protocol
from memspine_http.plain import ForeignIdError
from memspine_http.records import Outcome, Received, own_copy, own_fields, plain_fields

ATTEMPTS_MAX: Final = 10
# From so many on, one list of all that an owner has is cheaper than asking for each.
MANY: Final = 16


@attrs.frozen
class Step:
    """A record to be written over what was there."""

    old: Memory | None
    new: Memory | Tombstone


class Writer(Interface):
    """Writes the steps of one change, in order."""

    def write(self, steps: Sequence[Step], *, owner: str) -> AsyncIterator[Outcome]:
        """What became of each step. Raises RequestError."""
        ...


class WholeWriter:
    """Writes to a service with the capability `put`: all steps in one request."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol

    async def write(self, steps: Sequence[Step], *, owner: str) -> AsyncIterator[Outcome]:
        """What became of each step. Raises RequestError."""
        outcomes = await self._protocol.put([step.new for step in steps], owner=owner)
        for outcome, step in zip(outcomes, steps, strict=True):
            yield attrs.evolve(outcome, memory=step.new if isinstance(step.new, Memory) else None)


class PlainWriter:
    """Writes to a plain service: a request for each step. What the service stored is what counts."""

    def __init__(self, protocol: Protocol, *, sends_own_fields: bool) -> None:
        self._protocol, self._sends_own_fields = protocol, sends_own_fields

    async def write(self, steps: Sequence[Step], *, owner: str) -> AsyncIterator[Outcome]:
        """What became of each step. Raises RequestError."""
        for step in steps:
            yield await self._write(step, owner=owner)

    async def _write(self, step: Step, *, owner: str) -> Outcome:
        if isinstance(step.new, Tombstone):
            was_there = await self._protocol.delete(step.new.id, owner=owner)
            return Outcome(PutOutcome.APPLIED if was_there else PutOutcome.STALE)
        if step.old is None:
            stored = await self._protocol.create(step.new)
        else:
            stored = await self._protocol.update(step.new, fields=self._changed(step.old, step.new))
        if stored is None:
            return Outcome(PutOutcome.STALE)
        return Outcome(PutOutcome.APPLIED, memory=stored.memory)

    def _changed(self, old: Memory, new: Memory) -> dict[str, Any]:
        before, after = plain_fields(old), plain_fields(new)
        if self._sends_own_fields:
            before, after = before | own_fields(old), after | own_fields(new)
        # Compared as text: 1 and 1.0 and true are equal to Python.
        return {name: value for name, value in after.items() if repr(value) != repr(before[name])}


class Known:
    """What is known of an owner's memories while a change is worked out, what it writes itself included."""

    def __init__(self, protocol: Protocol, *, owner: str, backend: str) -> None:
        self._protocol, self._owner, self._backend = protocol, owner, backend
        self._by_id: dict[str, Received | None] = {}
        self._keys: set[str] = set()
        self._has_all = False

    async def load(self) -> None:
        """Read all that the owner has. Raises RequestError."""
        for one in await self._protocol.all(self._owner):
            self._by_id.setdefault(one.memory.id, one)
        self._has_all = True

    async def by_id(self, id: str) -> Received | None:
        """The memory of this id, expired or not. Raises RequestError, ForeignIdError."""
        if id not in self._by_id and not self._has_all:
            self._by_id[id] = await self._protocol.get(id, owner=self._owner)
        return self._by_id.get(id)

    async def by_key(self, key: str) -> Received | None:
        """The memory that has this key, expired or not; nothing has the empty key. Raises RequestError."""
        if not key:
            return None
        if key not in self._keys and not self._has_all:
            for one in await self._protocol.all(self._owner, key=key):
                self._by_id.setdefault(one.memory.id, one)
            self._keys.add(key)
        return next((one for one in self._by_id.values() if one is not None and one.memory.key == key), None)

    async def visible(self, id: str, *, scope: Scope, now: datetime) -> Received:
        """The live memory of this id in the scope. Raises NotFoundError, RequestError."""
        try:
            found = await self.by_id(id)
        except ForeignIdError:
            found = None
        if found is None or not is_visible(found.memory, scope=scope, now=now):
            raise NotFoundError(self._backend, id)
        return found

    def keep(self, memory: Memory) -> None:
        """Take note of what is going to be written."""
        self._by_id[memory.id] = Received(memory)

    def drop(self, id: str) -> None:
        """Take note of what is going to be deleted."""
        self._by_id[id] = None


def is_visible(memory: Memory, *, scope: Scope, now: datetime) -> bool:
    """Whether a memory of the scope's owners is alive and in its session."""
    return not memory.is_expired(now) and scope.session in (None, memory.session)


def require_revision(found: Received, expected: int | None, *, operation: str, backend: str) -> None:
    """Raises ConflictError for another revision, CapabilityError where the service tells none."""
    if expected is None:
        return
    if not found.has_revision:
        raise CapabilityError("put", operation=f"{operation} with an expected revision", store=backend)
    if expected != found.memory.revision:
        raise ConflictError(
            backend, found.memory.id, expected=f"revision {expected}", found=f"revision {found.memory.revision}"
        )


class Change:
    """One change, worked out and written as often as it takes.

    `floors` are the highest revisions that the service named for ids of which it showed no memory: those of tombstones.
    """

    def __init__(self, protocol: Protocol, writer: Writer, *, owner: str, backend: str) -> None:
        self._protocol, self._writer, self._owner, self._backend = protocol, writer, owner, backend
        self._floors: dict[str, int] = {}
        self._has_written = False

    def has_written(self) -> bool:
        """Whether anything was changed so far."""
        return self._has_written

    def known(self) -> Known:
        """A fresh view of what is there."""
        return Known(self._protocol, owner=self._owner, backend=self._backend)

    async def write(self, steps: Sequence[Step]) -> list[Outcome]:
        """What became of each step. Raises RequestError."""
        outcomes: list[Outcome] = []
        async for outcome in self._writer.write(steps, owner=self._owner):
            outcomes.append(outcome)
            self._has_written = self._has_written or outcome.outcome is PutOutcome.APPLIED
        for step, outcome in zip(steps, outcomes, strict=True):
            self._floors[step.new.id] = max(self._floors.get(step.new.id, 0), outcome.revision)
        return outcomes

    def give_up(self, operation: str, ids: Sequence[str]) -> BackendUnavailable:
        """The error for a change that others were always faster than."""
        reason = f"{operation} was refused {ATTEMPTS_MAX} times, because others changed the same memories"
        if self._has_written:
            return BackendUnavailable(self._backend, reason, outcome="unknown", ids=ids)
        return BackendUnavailable(self._backend, reason, advice="try again later")

    async def create(
        self, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
    ) -> tuple[Written, ...]:
        """Create, or replace by key or id. Raises InvalidMemoryError before anything is written, RequestError."""
        done: dict[int, Written] = {}
        for _ in range(ATTEMPTS_MAX):
            left = [place for place in range(len(memories)) if place not in done]
            known = self.known()
            if len(left) > MANY:
                await known.load()
            planned = [await self._created(known, memories[p], scope=scope, id=ids[p], now=now) for p in left]
            outcomes = await self.write([step for step, _ in planned])
            for place, (_, is_new), outcome in zip(left, planned, outcomes, strict=True):
                if outcome.outcome is PutOutcome.APPLIED and outcome.memory is not None:
                    done[place] = Written(outcome.memory, created=is_new)
            if len(done) == len(memories):
                return tuple(done[place] for place in range(len(memories)))
        raise self.give_up("create", ids)

    async def _created(
        self, known: Known, new: NewMemory, *, scope: Scope, id: str, now: datetime
    ) -> tuple[Step, bool]:
        found = await known.by_key(new.key)
        if found is None:
            try:
                found = await known.by_id(id)
            except ForeignIdError:
                reason = f"the id {id!r} is taken by a memory of another owner, and this service has each id once"
                raise BackendUnavailable(self._backend, reason, advice="use another id") from None
        old = None if found is None else found.memory
        memory = Memory(
            id=id if old is None else old.id,
            owner=scope.owner,
            content=new.content,
            type=new.type,
            session=new.session if scope.session is None else scope.session,
            key=new.key,
            metadata=new.metadata,
            created_at=new.created_at or now,
            updated_at=now,
            expires_at=new.expires_at,
            revision=1 + (self._floors.get(id, 0) if old is None else old.revision),
        )
        is_new = old is None or old.is_expired(now)
        if old is not None and not is_new:
            memory = attrs.evolve(
                memory,
                created_at=old.created_at,
                metadata=merged_metadata(old.metadata, new.metadata),
                access_count=old.access_count,
                last_accessed_at=old.last_accessed_at,
            )
        memory = own_copy(memory)
        known.keep(memory)
        return Step(old, memory), is_new

    async def update(
        self, id: str, changes: MemoryChanges, *, scope: Scope, now: datetime, expected_revision: int | None
    ) -> Memory:
        """Replace fields. Raises NotFoundError, ConflictError, CapabilityError, RequestError."""
        for _ in range(ATTEMPTS_MAX):
            known = self.known()
            found = await known.visible(id, scope=scope, now=now)
            require_revision(found, expected_revision, operation="update", backend=self._backend)
            old = found.memory
            new = own_copy(attrs.evolve(old, **changes.named(), updated_at=now, revision=old.revision + 1))
            holder = None if new.key == old.key else await known.by_key(new.key)
            steps = [Step(old, new)]
            if holder is not None and holder.memory.id != id:
                if not holder.memory.is_expired(now):
                    raise ConflictError(
                        self._backend, id, expected=f"a free key {new.key!r}", found=f"it at {holder.memory.id!r}"
                    )
                await self._let_go(holder.memory)
            (outcome,) = await self.write(steps)
            if outcome.outcome is PutOutcome.APPLIED and outcome.memory is not None:
                return outcome.memory
        raise self.give_up("update", [id])

    async def _let_go(self, expired: Memory) -> None:
        """Remove an expired holder of a key that is needed; a service with `put` does so by itself."""
        if isinstance(self._writer, PlainWriter):
            await self._protocol.delete(expired.id, owner=self._owner)
            self._has_written = True

    async def delete(self, id: str, *, scope: Scope, now: datetime, expected_revision: int | None) -> Tombstone:
        """Delete. Raises NotFoundError, ConflictError, CapabilityError, RequestError."""
        for _ in range(ATTEMPTS_MAX):
            found = await self.known().visible(id, scope=scope, now=now)
            require_revision(found, expected_revision, operation="delete", backend=self._backend)
            stone = buried(found.memory, now=now)
            (outcome,) = await self.write([Step(found.memory, stone)])
            if outcome.outcome is PutOutcome.APPLIED:
                return stone
        raise self.give_up("delete", [id])

    async def record_access(self, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
        """Add to access counts of a plain service, a request for each memory. Raises RequestError."""
        known = self.known()
        if len(counts) > MANY:
            await known.load()
        for id, count in counts.items():
            try:
                old = (await known.visible(id, scope=scope, now=now)).memory
            except NotFoundError:
                continue
            last = max(now, old.last_accessed_at or now)
            await self.write(
                [Step(old, attrs.evolve(old, access_count=old.access_count + count, last_accessed_at=last))]
            )

    async def expire(self, ids: Sequence[str], *, now: datetime) -> int:
        """Remove those of the memories that have expired from a plain service. Raises RequestError."""
        gone = 0
        for id in ids:
            found = await self._protocol.get(id, owner=self._owner)  # again: it may have begun a new life since
            if found is not None and found.memory.is_expired(now):
                gone += await self._protocol.delete(id, owner=self._owner)
                self._has_written = True
        return gone


def buried(memory: Memory, *, now: datetime) -> Tombstone:
    """What stays of a memory that is deleted now."""
    return Tombstone(id=memory.id, owner=memory.owner, revision=memory.revision + 1, deleted_at=now)
