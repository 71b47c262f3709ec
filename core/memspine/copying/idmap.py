"""Which memory has which id in a target that gives ids of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memspine.model import MemoryRef


class IdMap:
    """Ids in the target by memory of the source. In memory; a subclass may keep them elsewhere."""

    def __init__(self, known: Mapping[MemoryRef, str] | None = None) -> None:
        self._ids = dict(known or {})

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[tuple[MemoryRef, str]]:
        return iter(self._ids.items())

    def get(self, ref: MemoryRef) -> str | None:
        """The id that a memory has in the target, None when none is known."""
        return self._ids.get(ref)

    def note(self, ref: MemoryRef, id: str) -> None:
        """Remember the id that a memory has in the target."""
        self._ids[ref] = id

    async def keep(self) -> None:
        """Called after each page: what was noted is to outlast a crash, where the map can do that."""
