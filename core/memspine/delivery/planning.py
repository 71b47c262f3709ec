"""What a replica is to be given of one memory, seen from what the primary has, what it was given, and what it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs

from memspine.journal.replicas import Sent
from memspine.model import Memory, MemoryRef, Tombstone

Record: TypeAlias = Memory | Tombstone


@attrs.frozen(kw_only=True)
class Source:
    """What the primary says of a memory: its state, or its deletion, or neither where it expired and was swept.

    `earlier` are states before the current one, oldest first. A primary without `has_revisions` may give two states the
    same revision. What `is_gone` was there, and is no more without a deletion: it expired. `last_revision` is the one
    that the primary's feed named last.
    """

    ref: MemoryRef
    memory: Memory | None = None
    tombstone: Tombstone | None = None
    earlier: tuple[Memory, ...] = ()
    has_revisions: bool = True
    is_gone: bool = False
    last_revision: int | None = None


@attrs.frozen(kw_only=True)
class Plan:
    """The records that bring a replica there, in order, or why it is in conflict."""

    verdict: Literal["send", "same", "conflict"]
    records: tuple[Record, ...] = ()
    reason: str = ""


def plan(
    source: Source, *, sent: Sent | None, there: Memory | None, buried: Tombstone | None = None, take: bool = False
) -> Plan:
    """What to send to a replica that has `there` now, or has `buried` it. With `take` its own changes are overwritten:
    no conflict."""
    if not take and source.memory is not None and buried is not None and not _is_ours(buried, sent):
        return Plan(verdict="conflict", reason=f"it was deleted in the replica, at revision {buried.revision}")
    if not take and (reason := _foreign(source, sent, there)):
        return Plan(verdict="conflict", reason=reason)
    newest = there or buried
    floor = newest.revision if take and newest is not None else None
    if source.memory is not None:
        return _state(source, source.memory, sent=sent, there=there, buried_at=_buried_at(sent, buried), floor=floor)
    if source.tombstone is not None:
        return _deletion(source, source.tombstone, sent=sent, there=there)
    if there is not None and source.is_gone:
        # It expired without a deletion: so it does there, unless it is about to by itself. What was made again and
        # expired as well may have a lower revision than what is there.
        last = source.last_revision
        if there.expires_at is None or last is None or there.revision != last:
            return Plan(verdict="send", records=(_expired(there, max(there.revision + 1, last or 0)),))
    return Plan(verdict="same")


def _state(
    source: Source, memory: Memory, *, sent: Sent | None, there: Memory | None, buried_at: int, floor: int | None
) -> Plan:
    revision = memory.revision
    if not source.has_revisions and sent is not None:
        revision = _own_revision(sent, memory.content_hash, least=revision)
    if floor is not None and (there is None or there.content_hash != memory.content_hash):
        revision = max(revision, floor + 1)
    if there is not None and (there.revision, there.content_hash) == (revision, memory.content_hash):
        return Plan(verdict="same")
    if there is not None and revision <= there.revision and there.updated_at < memory.updated_at:
        # It expired, was swept, and was made again: counted from 1, it takes the place of what has expired there too.
        return Plan(
            verdict="send", records=(_expired(there, there.revision + 1), attrs.evolve(memory, revision=revision))
        )
    if there is None and revision <= buried_at:
        # The same after a deletion that the replica was given: what has expired is in no state's way, a deletion is.
        return Plan(verdict="send", records=(_expired(memory, buried_at + 1), attrs.evolve(memory, revision=revision)))
    known = max(0 if there is None else there.revision, (sent.revision or 0) if sent is not None else 0)
    earlier = [state for state in source.earlier if known < state.revision < revision] if source.has_revisions else []
    return Plan(verdict="send", records=(*earlier, attrs.evolve(memory, revision=revision)))


def _expired(memory: Memory, revision: int) -> Memory:
    return attrs.evolve(memory, revision=revision, expires_at=memory.updated_at)


def _deletion(source: Source, stone: Tombstone, *, sent: Sent | None, there: Memory | None) -> Plan:
    revision = stone.revision
    if not source.has_revisions and sent is not None:
        revision = _own_revision(sent, "", least=revision)
    if there is not None:
        revision = max(revision, there.revision + 1)  # more than the primary's where that counts anew since it expired
    elif sent is not None and (sent.revision, sent.hash) == (revision, ""):
        return Plan(verdict="same")
    return Plan(verdict="send", records=(attrs.evolve(stone, revision=revision),))


def _own_revision(sent: Sent, hash: str, *, least: int) -> int:
    """The revision of a state of a primary that does not count them: one more than that of any other state."""
    for revision, known in ((sent.next_revision, sent.next_hash), (sent.revision, sent.hash)):
        if revision is not None and known == hash:
            return max(revision, least) if hash == "" else revision
    return max(least, 1 + max(sent.revision or 0, sent.next_revision or 0))


def _buried_at(sent: Sent | None, buried: Tombstone | None) -> int:
    """At which revision the replica was given a deletion last; 0 where it has got something else since."""
    given = sent.revision if sent is not None and not sent.hash else None
    return max(given or 0, 0 if buried is None else buried.revision)


def _is_ours(stone: Tombstone, sent: Sent | None) -> bool:
    """Whether a deletion in a replica is one that it was given, or was there before anything was."""
    if sent is None or sent.revision is None or not sent.hash:
        return True
    return not sent.next_hash and sent.next_revision == stone.revision


def _foreign(source: Source, sent: Sent | None, there: Memory | None) -> str:
    """Why what a replica has was not given to it by this chain; empty when it was."""
    if there is None:
        return ""  # never given, or expired there, or deleted, which `put` refuses to bring back
    state = (there.revision, there.content_hash)
    if sent is not None and state in ((sent.revision, sent.hash), (sent.next_revision, sent.next_hash)):
        return ""
    known = [*source.earlier, *([source.memory] if source.memory is not None else [])]
    if any(state == (one.revision, one.content_hash) for one in known):
        return ""
    if sent is None:
        return _before(source, there)
    return f"it was changed in the replica: revision {there.revision} there is not the one that was delivered"


def _before(source: Source, there: Memory) -> str:
    """The same for a memory that was there before the chain began to deliver: an older one is brought up to date."""
    newest = source.memory.revision if source.memory else source.tombstone.revision if source.tombstone else 0
    if there.revision < newest or not source.has_revisions:
        return ""
    return f"the replica had revision {there.revision} with another content before anything was delivered"


def expected_state(records: Sequence[Record]) -> tuple[int, str]:
    """The revision and content hash that a replica has after these; an empty hash for a deletion."""
    last = records[-1]
    return (last.revision, last.content_hash if isinstance(last, Memory) else "")
