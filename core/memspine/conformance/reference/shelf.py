"""What the reference backend keeps: one shelf an owner, and the feed of all of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import datetime

import attrs

from memspine.model import Change, Memory, Revision, Scope, Tombstone, canonical_json


@attrs.define
class Shelf:
    """All that is kept of one owner. `past` holds the replaced states of each id, oldest first."""

    memories: dict[str, Memory] = attrs.field(factory=dict)
    tombstones: dict[str, Tombstone] = attrs.field(factory=dict)
    past: dict[str, list[Revision]] = attrs.field(factory=dict)

    def holder(self, key: str) -> Memory | None:
        """The memory that has this key, expired or not; nothing has the empty key."""
        return next((memory for memory in self.memories.values() if key and memory.key == key), None)

    def next_revision(self, id: str) -> int:
        """The revision that a new memory of this id gets."""
        return self.tombstones[id].revision + 1 if id in self.tombstones else 1


@attrs.define
class Feed:
    """Changes in the order of their commits, with the place up to which each owner's were trimmed."""

    changes: list[Change] = attrs.field(factory=list)
    length: int = 0
    trimmed: dict[str, int] = attrs.field(factory=dict)

    def append(self, *, id: str, owner: str, revision: int, deleted: bool, now: datetime) -> None:
        """Add a change."""
        self.length += 1
        cursor = str(self.length)
        change = Change(cursor=cursor, id=id, owner=owner, revision=revision, deleted=deleted, changed_at=now)
        self.changes.append(change)

    def trim(self, owners: tuple[str, ...] | None, *, before: datetime, limit: int) -> int:
        """Drop the oldest changes of these owners (None: of all)."""
        old = [c for c in self.changes if c.changed_at < before and (owners is None or c.owner in owners)][:limit]
        for change in old:
            self.trimmed[change.owner] = int(change.cursor)
        dropped = {change.cursor for change in old}
        self.changes = [change for change in self.changes if change.cursor not in dropped]
        return len(old)


@attrs.define
class State:
    """Everything the reference backend keeps."""

    shelves: dict[str, Shelf] = attrs.field(factory=dict)
    feed: Feed = attrs.field(factory=Feed)

    def shelf(self, owner: str) -> Shelf:
        """The shelf of an owner, made on first use."""
        return self.shelves.setdefault(owner, Shelf())

    def owners(self, scope: Scope) -> tuple[str, ...]:
        """The owners of a scope, the caller first."""
        return tuple(self.shelves) if scope.owners is None else scope.owners

    def visible(self, scope: Scope, now: datetime) -> Iterator[Memory]:
        """The live memories of a scope."""
        for owner in self.owners(scope):
            for memory in self.shelf(owner).memories.values():
                if not memory.is_expired(now) and scope.session in (None, memory.session):
                    yield memory

    def copy(self) -> State:
        """The same, to go back to when a call of several steps fails. The values inside never change."""
        shelves = {
            owner: Shelf(dict(shelf.memories), dict(shelf.tombstones), {id: [*past] for id, past in shelf.past.items()})
            for owner, shelf in self.shelves.items()
        }
        return State(shelves, Feed([*self.feed.changes], self.feed.length, dict(self.feed.trimmed)))


def stored(memory: Memory) -> Memory:
    """The memory with metadata of its own, as JSON keeps it."""
    return attrs.evolve(memory, metadata=json.loads(canonical_json(dict(memory.metadata))))


def handed_out(memory: Memory) -> Memory:
    """The memory with metadata that its reader may do anything to."""
    return attrs.evolve(memory, metadata=copy.deepcopy(memory.metadata))
