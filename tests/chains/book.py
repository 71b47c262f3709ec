"""What callers were told, and what has to be true because of it."""

from __future__ import annotations

import attrs

from memspine.errors import BackendUnavailable, JournalError, NotFoundError
from memspine.model import MemoryRef

from .worlds import Killed


@attrs.define
class Book:
    """Of each memory of `me` the contents that it may have by now (None: it may be absent), and all that it ever may
    have had. `elsewhere` are contents that a fallback has for itself."""

    elsewhere: dict[str, str] = attrs.field(factory=dict)
    may: dict[str, set] = attrs.field(factory=dict)
    ever: dict[str, set] = attrs.field(factory=dict)
    faults: list[str] = attrs.field(factory=list)

    async def write(self, id, content, call):
        """Do a write after which the memory has this content, and note what is known then."""
        before = self.may.get(id, {None, self.elsewhere.get(id)})
        self.may[id] = before | {content}
        self.ever.setdefault(id, set()).update(self.may[id])
        try:
            result = await call
        except BackendUnavailable as error:
            if error.outcome == "none":
                self.may[id] = before
        except (JournalError, Killed) as error:
            if isinstance(error, Killed):
                raise
        except NotFoundError:
            if None not in before:
                self.faults.append(f"{id!r} was not found by a write that turns {before} into {content!r}")
            self.may[id] = {None, self.elsewhere.get(id)}
        else:
            self.may[id] = {content}
            return result

    async def get(self, memory, id):
        """Read a memory: it is what it may be, or older where the answer says so, or nobody can say."""
        try:
            found = await memory.get(id)
        except (BackendUnavailable, JournalError):
            return
        except NotFoundError:
            if None not in self.may.get(id, {None}):
                self.faults.append(f"{id!r} was not found, and was one of {self.may[id]}")
            return
        self._see(found.memory, is_degraded=bool(found.degraded))

    async def see(self, call):
        """Read several: none that must be gone, none of others."""
        try:
            found = await call
        except (BackendUnavailable, JournalError):
            return
        memories = [hit.memory for hit in found.hits] if hasattr(found, "hits") else found.memories
        degraded = found.trace.degraded if hasattr(found, "trace") else found.degraded
        for memory in memories:
            self._see(memory, is_degraded=bool(degraded))

    def _see(self, memory, *, is_degraded):
        may = self.may.get(memory.id, {self.elsewhere.get(memory.id)})
        if memory.owner != "me":
            self.faults.append(f"{memory.id!r} of {memory.owner!r} was shown to 'me'")
        elif may == {None}:
            self.faults.append(f"{memory.id!r} was deleted, and was shown")
        elif memory.content not in (self.ever.get(memory.id, may) if is_degraded else may):
            self.faults.append(f"{memory.id!r} was shown as {memory.content!r}, and was one of {may}")

    async def check(self, world, memory, replicas):
        """What has to be true once all works again and nothing is left to do."""
        held = await world.held("notes")
        for id, may in self.may.items():
            found = held.get(MemoryRef("me", id))
            content = None if found is None else found.content
            if content not in may:
                self.faults.append(f"{id!r} is {content!r} in the primary, and was one of {may}")
            if may == {None}:
                await self.get(memory, id)
        states = _states(held)
        for name in replicas:
            if (there := _states(await world.held(name))) != states:
                self.faults.append(f"{name} differs: {sorted(states.items() ^ there.items())}")
        self.faults += [f"it waits: {entry}" for entry in await memory.journal_entries()]
        self.faults += (await memory.status()).problems


def _states(held):
    return {ref: (memory.content, memory.key, memory.content_hash) for ref, memory in held.items()}
