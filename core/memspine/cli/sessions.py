"""`--session` for commands that name memories by id: those of other sessions are as good as not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memspine.errors import NotFoundError

if TYPE_CHECKING:
    from memspine.manager import MemoryManager
    from memspine.model import Memory


def require_session(memory: Memory, session: str | None, *, backend: str) -> None:
    """Raise NotFoundError if the memory belongs to another session than the one that was named."""
    if session is not None and memory.session != session:
        raise NotFoundError(backend, memory.id, what=f"memory of session {session!r} with id")


async def latest(memory: MemoryManager, id: str, *, owner: str | None) -> Memory:
    """The last state of a memory, deleted or not. Raises NotFoundError, CapabilityError."""
    states = await memory.history(id, owner=owner)
    return states[-1].memory


async def require_sessions(
    memory: MemoryManager, ids: Sequence[str], session: str | None, *, owner: str | None
) -> None:
    """Raise NotFoundError unless all belong to the session, if one was named."""
    if session is not None:
        backend = memory.config.primary.name
        for id in ids:
            require_session(await latest(memory, id, owner=owner), session, backend=backend)
