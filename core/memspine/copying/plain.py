"""Writing into a target without `put`: contents, keys, sessions, metadata, expiry and, where it can, ids and times of
creation.

Nothing there says where a memory came from, so all of the target is listed once, and what is in it is found again: by
the id that a map names, or its own, or else by all that such a target keeps. Of memories that say the same there are as
many in the target as in the source.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import attrs

from memspine import times
from memspine.chain import Chain
from memspine.copying.calls import create, held, listed, ref_of
from memspine.copying.idmap import IdMap
from memspine.copying.reports import Tally
from memspine.copying.whole import refuse, require_working
from memspine.errors import BackendUnavailable, MemspineError
from memspine.model import LIMIT_MAX, Memory, MemoryRef, NewMemory, Scope, Tombstone, Written, canonical_json

_DIGEST_BYTES: Final = 16


@attrs.define
class Shelf:
    """What a target has of one owner: what each id says, and which of the ids no memory of the source has yet."""

    digests: dict[str, bytes] = attrs.field(factory=dict)
    free: dict[bytes, list[str]] = attrs.field(factory=dict)
    keys: dict[str, str] = attrs.field(factory=dict)

    def add(self, memory: Memory, *, is_free: bool) -> None:
        """Note a memory of the target."""
        digest = digest_of(memory)
        if self.digests.get(memory.id) is None and is_free:
            self.free.setdefault(digest, []).append(memory.id)
        self.digests[memory.id] = digest
        if memory.key:
            self.keys[memory.key] = memory.id

    def take(self, id: str) -> None:
        """Let no other memory of the source be found in this one."""
        ids = self.free.get(self.digests[id], [])
        if id in ids:
            ids.remove(id)


@attrs.define(kw_only=True)
class PlainWriter:
    """Creates what the target lacks. `mints_times` is None until the target has shown whether it keeps times of
    creation."""

    source: Chain
    target: Chain
    scope: Scope
    tally: Tally
    ids: IdMap
    is_dry: bool = False
    mints_times: bool | None = None
    is_again: bool = False
    shelves: dict[str, Shelf] | None = None

    async def write(self, memories: Sequence[Memory]) -> None:
        """Write what of these is not there."""
        if self.shelves is None:
            await self._look()
        by_owner: defaultdict[str, list[Memory]] = defaultdict(list)
        for memory in memories:
            by_owner[memory.owner].append(memory)
        for owner, some in by_owner.items():
            left, found = await self._found(owner, some)
            self.tally.unchanged += 0 if self.is_again else found
            if self.is_dry:
                self.tally.copied += len(left)
            elif left:
                await self._create(owner, left)
        if not self.is_dry:
            await self.ids.keep()

    async def bury(self, stones: Sequence[Tombstone]) -> None:
        """Deletions are not told: nothing in the target says that it is the source's to delete."""

    async def finish(self) -> None:
        """Nothing is tried again."""

    async def _look(self) -> None:
        """List the target."""
        shelves: defaultdict[str, Shelf] = defaultdict(Shelf)
        taken = {(ref.owner, id) for ref, id in self.ids}
        cursor: str | None = None
        while True:
            # Such a target reads all that it has for each page.
            page = await listed(self.target, self.scope, cursor, limit=LIMIT_MAX)
            for memory in page.memories:
                shelves[memory.owner].add(memory, is_free=(memory.owner, memory.id) not in taken)
            cursor = page.cursor
            if cursor is None:
                break
        self.shelves = dict(shelves)

    def _shelf(self, owner: str) -> Shelf:
        if self.shelves is None:
            self.shelves = {}
        return self.shelves.setdefault(owner, Shelf())

    async def _found(self, owner: str, memories: Sequence[Memory]) -> tuple[list[Memory], int]:
        """The memories that the target does not have, and how many it has. What is in conflict is neither."""
        shelf, found, left = self._shelf(owner), 0, list[Memory]()
        for memory in memories:
            there = self.ids.get(ref_of(memory)) or memory.id
            if there not in shelf.digests:
                left.append(memory)
            elif shelf.digests[there] == digest_of(memory):
                self._pair(memory, there)
                found += 1
            else:
                self.tally.conflict(ref_of(memory))
        # An id that the source has as well is that memory's own, and no new name of another one.
        alike = {id for memory in left for id in shelf.free.get(digest_of(memory), ())}
        own = {ref.id for ref in await held(self.source, [MemoryRef(owner, id) for id in alike])}
        missing: list[Memory] = []
        for memory in left:
            there = next((id for id in shelf.free.get(digest_of(memory), ()) if id not in own), "")
            if there:
                self._pair(memory, there)
                found += 1
            elif memory.key in shelf.keys:
                self.tally.conflict(ref_of(memory))
            else:
                missing.append(memory)
        return missing, found

    def _pair(self, memory: Memory, there: str) -> None:
        """Note under which id the target has a memory."""
        self._shelf(memory.owner).take(there)
        if there != memory.id:
            self.tally.renamed += not self.is_again
            if self.ids.get(ref_of(memory)) != there:
                self.ids.note(ref_of(memory), there)

    async def _create(self, owner: str, memories: Sequence[Memory]) -> None:
        """Create memories; where the target refuses them, the halves of those that are not there by then, down to the
        one it refuses."""
        try:
            written = await self._written(owner, memories)
        except MemspineError as error:
            await require_working(self.target, error)
            left = list(memories)
            if isinstance(error, BackendUnavailable) and error.outcome == "unknown":
                await self._look()
                left, found = await self._found(owner, memories)
                self.tally.copied += found
            if len(memories) == 1:
                for memory in left:
                    refuse(self.tally, memory, error)
                return
            middle = len(left) // 2
            for half in (left[:middle], left[middle:]):
                if half:
                    await self._create(owner, half)
            return
        self.tally.in_a_row = 0
        for memory, one in zip(memories, written, strict=True):
            self.tally.copied += 1
            self._shelf(owner).add(one.memory, is_free=False)
            self._pair(memory, one.memory.id)
            self.mints_times = bool(self.mints_times) or one.memory.created_at != memory.created_at

    async def _written(self, owner: str, memories: Sequence[Memory]) -> tuple[Written, ...]:
        news = [NewMemory.of(memory) for memory in memories]
        return await create(self.target, news, owner=owner, ids=[memory.id for memory in memories])


def digest_of(memory: Memory) -> bytes:
    """A digest of all that a target without revisions keeps of a memory, its id and times excepted."""
    expires = None if memory.expires_at is None else times.to_text(memory.expires_at)
    fields = (memory.content, memory.type.value, memory.session, memory.key, _told(memory.metadata), expires)
    return hashlib.sha256(canonical_json(fields).encode()).digest()[:_DIGEST_BYTES]


def _told(value: Any) -> Any:
    """A value of JSON as every service tells it: many do not tell 1.0 from 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _told(one) for name, one in value.items()}
    return [_told(one) for one in value] if isinstance(value, list) else value
