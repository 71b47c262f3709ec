"""The writes that can wait for a primary: what they do, how they are kept, what they make of a memory meanwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from memspine import times
from memspine.contracts import MemoryBackend
from memspine.errors import ConflictError, InvalidMemoryError, NotFoundError
from memspine.model import (
    UNSET,
    Memory,
    MemoryChanges,
    MemoryType,
    NewMemory,
    Scope,
    Tombstone,
    Written,
    merged_metadata,
)

if TYPE_CHECKING:
    from memspine.journal.entries import Operation, Waiting

WAITED: Final = 0
"""The revision of a memory that waits. A write that expects it goes behind what waited when the memory was read."""

_EXPECTED: Final = "expectedRevision"


@attrs.frozen(kw_only=True)
class Create:
    """Remember a new memory, or replace the one that has its key or id."""

    owner: str
    id: str
    memory: NewMemory
    now: datetime
    name: Operation = attrs.field(default="create", init=False)

    async def run(self, backend: MemoryBackend) -> Written:
        """Do it."""
        return await backend.create(self.memory, scope=Scope.of_owner(self.owner), id=self.id, now=self.now)

    def body(self) -> dict[str, Any]:
        """What the journal keeps, beside owner and id."""
        return {"memory": _fields(attrs.asdict(self.memory, recurse=False))}

    def applied(self, base: Memory | None) -> Memory:
        """What it makes of a memory; the revision is 0 until the primary has given one."""
        new, old = self.memory, None if base is None or base.is_expired(self.now) else base
        metadata = new.metadata if old is None else merged_metadata(old.metadata, new.metadata)
        created_at = old.created_at if old else new.created_at or self.now
        return Memory(
            id=self.id,
            owner=self.owner,
            content=new.content,
            type=new.type,
            session=new.session,
            key=new.key,
            metadata=metadata,
            created_at=created_at,
            updated_at=self.now,
            expires_at=new.expires_at,
            revision=0,
            access_count=old.access_count if old else 0,
            last_accessed_at=old.last_accessed_at if old else None,
        )

    def found_done(self, memory: Memory | None) -> Written | None:
        """The result, if the primary shows that it was done already."""
        new = self.memory
        if memory is None or (memory.content, memory.type, memory.key) != (new.content, new.type, new.key):
            return None
        is_made = memory.revision == 1 and memory.created_at == (new.created_at or self.now)
        return Written(memory, created=is_made) if is_made or memory.updated_at == self.now else None


@attrs.frozen(kw_only=True)
class Update:
    """Replace fields of a memory."""

    owner: str
    id: str
    changes: MemoryChanges
    expected_revision: int | None
    now: datetime
    name: Operation = attrs.field(default="update", init=False)

    async def run(self, backend: MemoryBackend) -> Memory:
        """Do it."""
        await _check_expected(self, backend)
        return await backend.update(
            self.id,
            self.changes,
            scope=Scope.of_owner(self.owner),
            now=self.now,
            expected_revision=self.expected_revision,
        )

    def body(self) -> dict[str, Any]:
        """What the journal keeps, beside owner and id."""
        return {"changes": _fields(self.changes.named()), _EXPECTED: self.expected_revision}

    def applied(self, base: Memory | None) -> Memory | None:
        """What it makes of a memory; None without one."""
        return None if base is None else self.changed(base)

    def changed(self, base: Memory) -> Memory:
        """What it makes of a memory that there is."""
        return attrs.evolve(base, **self.changes.named(), updated_at=self.now, revision=0)

    def found_done(self, memory: Memory | None) -> Memory | None:
        """The result, if the primary shows that it was done already."""
        if memory is None or memory.updated_at != self.now:
            return None
        is_done = all(getattr(memory, field) == value for field, value in self.changes.named().items())
        return memory if is_done else None


@attrs.frozen(kw_only=True)
class Delete:
    """Forget a memory."""

    owner: str
    id: str
    expected_revision: int | None
    now: datetime
    name: Operation = attrs.field(default="delete", init=False)

    async def run(self, backend: MemoryBackend) -> Tombstone:
        """Do it."""
        await _check_expected(self, backend)
        return await backend.delete(
            self.id, scope=Scope.of_owner(self.owner), now=self.now, expected_revision=self.expected_revision
        )

    def body(self) -> dict[str, Any]:
        """What the journal keeps, beside owner and id."""
        return {_EXPECTED: self.expected_revision}

    def applied(self, base: Memory | None) -> Memory | None:
        """Nothing is left of a memory."""
        return None

    def found_done(self, memory: Memory | None) -> Tombstone | None:
        """The result, if the primary shows that it was done already; the revision is not known then."""
        if memory is not None:
            return None
        return Tombstone(id=self.id, owner=self.owner, revision=0, deleted_at=self.now)


Write: TypeAlias = Create | Update | Delete
Outcome: TypeAlias = Written | Memory | Tombstone


async def _check_expected(write: Update | Delete, backend: MemoryBackend) -> None:
    """Raises ConflictError for a write that expects what waits, because nothing waits before it any more; a store knows
    no such revision. Raises NotFoundError."""
    if write.expected_revision != WAITED:
        return
    found = await backend.get(write.id, scope=Scope.of_owner(write.owner), now=write.now)
    if found is None:
        raise NotFoundError(backend.name, write.id)
    raise ConflictError(
        backend.name,
        write.id,
        expected=f"what waited for the primary (revision {WAITED})",
        found=f"revision {found.revision}, because it waits no more",
    )


def rebased(entry: Waiting, revision: int) -> str | None:
    """What the journal keeps of a write that expects what waited before it, once that has a revision; None for any
    other write."""
    if f'"{_EXPECTED}": {WAITED}' not in entry.body:
        return None  # most are not even parsed
    try:
        body = json.loads(entry.body)
    except ValueError:
        return None  # which is told when its turn comes
    if body.get(_EXPECTED) != WAITED:
        return None
    return json.dumps({**body, _EXPECTED: revision}, ensure_ascii=False)


def to_body(write: Write) -> str:
    """The text that the journal keeps of a write."""
    return json.dumps({"now": times.to_text(write.now), **write.body()}, ensure_ascii=False)


def from_waiting(entry: Waiting) -> Write:
    """The write that the journal kept. Raises InvalidMemoryError for one that is damaged, or that another version
    wrote."""
    try:
        return _read(entry)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        expected = f"a write that this version of memspine can read ({type(error).__name__}: {error})"
        raise InvalidMemoryError("journal entry", entry.number, expected) from error


def _read(entry: Waiting) -> Write:
    body: Mapping[str, Any] = json.loads(entry.body)
    now = times.from_text(body["now"])
    match entry.operation:
        case "create":
            return Create(owner=entry.owner, id=entry.id, memory=NewMemory(**_values(body["memory"])), now=now)
        case "update":
            return Update(
                owner=entry.owner,
                id=entry.id,
                changes=MemoryChanges(**_values(body["changes"])),
                expected_revision=body[_EXPECTED],
                now=now,
            )
        case "delete":
            return Delete(owner=entry.owner, id=entry.id, expected_revision=body[_EXPECTED], now=now)


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON: times as text, types by name."""
    return {
        name: times.to_text(value) if isinstance(value, datetime) else str(value) if name == "type" else value
        for name, value in values.items()
        if value is not UNSET
    }


def _values(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = dict(fields)
    for name in ("created_at", "expires_at"):
        if known.get(name) is not None:
            known[name] = times.from_text(known[name])
    if "type" in known:
        known["type"] = MemoryType(known["type"])
    return known
