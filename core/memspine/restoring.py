"""Bringing an earlier state of a memory back, as a new revision."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memspine.contracts import MemoryBackend
from memspine.errors import ConflictError, NotFoundError
from memspine.model import Memory, MemoryChanges, MemoryFilter, NewMemory, Scope


async def restore_state(
    backend: MemoryBackend, id: str, *, revision: int, scope: Scope, now: datetime
) -> tuple[Memory, tuple[str, ...]]:
    """The memory after its state at `revision` was made the newest, and notes; a deleted one comes back under its id.

    An expiry that has passed is left out: bringing a memory back to be gone at once would only destroy the newer state.

    Raises NotFoundError without such a state, ConflictError when the memory changes meanwhile or another one has its
    key by now, CapabilityError where no history is kept.
    """
    states = await backend.history(id, scope=scope)
    state = next((state for state in states if state.memory.revision == revision), None)
    if state is None:
        if not states:
            raise NotFoundError(backend.name, id)
        raise NotFoundError(backend.name, id, revision=revision)
    old = state.memory
    notes: tuple[str, ...] = ()
    if old.is_expired(now):
        notes = ("the expiry of that state has passed and was left out",)
    fields: dict[str, Any] = {
        "content": old.content,
        "type": old.type,
        "session": old.session,
        "key": old.key,
        "metadata": old.metadata,
        "expires_at": None if notes else old.expires_at,
    }
    latest = states[-1]
    if not latest.deleted and await backend.get(id, scope=scope, now=now) is not None:
        changes = MemoryChanges(**fields)
        updated = await backend.update(id, changes, scope=scope, now=now, expected_revision=latest.memory.revision)
        return updated, notes
    if old.key:
        # A create with a key that is taken would replace the memory that has it now.
        holders = await backend.list(MemoryFilter(key=old.key), scope=scope, now=now, limit=1)
        if holders.memories and holders.memories[0].id != id:
            holder = holders.memories[0].id
            raise ConflictError(
                backend.name,
                id,
                expected=f"key {old.key!r} to be free",
                found=f"it on {holder!r}",
                advice="give that memory another key first",
            )
    again = NewMemory(**fields, created_at=old.created_at)
    return (await backend.create(again, scope=scope, id=id, now=now)).memory, notes
