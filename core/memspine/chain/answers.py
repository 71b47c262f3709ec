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
    may exist there. `pending` are those that have writes waiting for the primary, which the memories show done,
    `deleted` those that are missing because a memory of one of the owners was deleted or is about to be, and `degraded`
    is what else makes the answer worth less."""

    memories: dict[str, Memory]
    backends: dict[str, str]
    failures: tuple[str, ...]
    pending: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    degraded: tuple[str, ...] = ()

    def completed(self, ids: Sequence[str], others: Sequence[Gathered]) -> Gathered:
        """This, with what was looked for again under each owner alone: the first that has it. An owner's deletion says
        nothing about another's memory of that id."""
        memories, backends, pending = dict(self.memories), dict(self.backends), set(self.pending - self.deleted)
        for other in others:
            new = other.memories.keys() - memories.keys()
            memories |= {id: other.memories[id] for id in new}
            backends |= {id: other.backends[id] for id in new}
            pending |= other.pending & new
        failures = tuple(dict.fromkeys(failure for one in (self, *others) for failure in one.failures))
        if not failures:
            pending |= self.deleted & self.pending - memories.keys()
        return attrs.evolve(
            self,
            memories={id: memories[id] for id in ids if id in memories},
            backends=backends,
            failures=failures,
            pending=frozenset(pending),
            degraded=tuple(dict.fromkeys(text for one in (self, *others) for text in one.degraded)),
        )


@attrs.frozen(kw_only=True)
class Hidden:
    """Memories that an answer must not show, because they were deleted, are about to be or have expired, and why the
    answer may show others as they were before."""

    refs: frozenset[MemoryRef] = frozenset()
    degraded: tuple[str, ...] = ()

    def without(self, memories: Sequence[Memory]) -> tuple[Memory, ...]:
        """The memories that may be shown."""
        return tuple(memory for memory in memories if MemoryRef(memory.owner, memory.id) not in self.refs)
