"""What a chain answers with, and what the answer is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from memspine.model import Memory, MemoryRef

T = TypeVar("T")

JOURNAL = "journal"
"""The backend of what waits for the primary."""


@attrs.frozen
class Answer(Generic[T]):
    """What a store answered, which one it was, and why it was not a better one. `pending` says that it is the journal,
    and that the primary does not have it yet."""

    value: T
    backend: str
    degraded: tuple[str, ...] = ()
    pending: bool = False


@attrs.frozen(kw_only=True)
class Gathered:
    """Memories by id in the order asked, the store that gave each, and each store that failed; an id that is missing
    may exist there. `pending` are those that have writes waiting for the primary, which the memories show done, and
    `degraded` is what else makes the answer worth less."""

    memories: dict[str, Memory]
    backends: dict[str, str]
    failures: tuple[str, ...]
    pending: frozenset[str] = frozenset()
    degraded: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Hidden:
    """Memories that an answer must not show, because they were deleted, are about to be or have expired, and why the
    answer may show others as they were before."""

    refs: frozenset[MemoryRef] = frozenset()
    degraded: tuple[str, ...] = ()

    def without(self, memories: Sequence[Memory]) -> tuple[Memory, ...]:
        """The memories that may be shown."""
        return tuple(memory for memory in memories if MemoryRef(memory.owner, memory.id) not in self.refs)
