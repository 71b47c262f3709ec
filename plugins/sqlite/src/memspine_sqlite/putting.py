"""Storing whole records as they are: what replicas, copies and restores do."""

from __future__ import annotations

from collections.abc import Sequence

from memspine.errors import ScopeError
from memspine.model import Memory, PutOutcome, Scope, Tombstone
from memspine.times import to_milliseconds
from memspine_sqlite.ledger import Ledger
from memspine_sqlite.rows import State, Stored, memory_of, state_of
from memspine_sqlite.transactions import Transaction


def put(transaction: Transaction, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
    """Store records in order. Raises ScopeError when one belongs to somebody else."""
    for record in records:
        if record.owner != scope.owner or (
            scope.session is not None and isinstance(record, Memory) and record.session != scope.session
        ):
            raise ScopeError("put", scope, f"records of the scope alone, not one of {record.owner!r}")
    with Ledger(transaction) as ledger:
        owner = ledger.owner(scope.owner)
        return tuple(
            _put_memory(ledger, record, owner=owner)
            if isinstance(record, Memory)
            else _put_tombstone(ledger, record, owner=owner)
            for record in records
        )


def _put_memory(ledger: Ledger, memory: Memory, *, owner: int) -> PutOutcome:
    # A put has no `now`; the record's own time is the latest that is known to have passed.
    at = to_milliseconds(memory.updated_at)
    tombstone = ledger.tombstone(owner, memory.id)
    if tombstone is not None and memory.revision <= tombstone:
        return PutOutcome.STALE
    old = ledger.find(owner, memory.id)
    if old is not None and memory.revision <= old.state.revision:
        is_newer = memory.revision < old.state.revision
        if not is_newer and memory_of(old.state, memory.owner).content_hash == memory.content_hash:
            return PutOutcome.APPLIED
        if not old.is_expired(at):
            return PutOutcome.STALE if is_newer else PutOutcome.CONFLICT
        ledger.drop(old)  # whoever sent this has swept it, and counts from 1 again
        old = None
    holder = ledger.find_key(owner, memory.key)
    if holder is not None and holder.state.id != memory.id:
        # Expiry reaches no feed, so a replica has to let go of an expired memory's key by itself.
        if not holder.is_expired(at):
            return PutOutcome.CONFLICT
        ledger.drop(holder)
    if old is None:
        ledger.insert(owner, state_of(memory), metadata=memory.metadata, at=at)
    else:
        ledger.replace(old, _with_telemetry(state_of(memory), old), metadata=memory.metadata, at=at)
    return PutOutcome.APPLIED


def _with_telemetry(state: State, old: Stored) -> State:
    if old.is_expired(state.updated_at):
        return state  # it started afresh: the recalls of what had expired are not its own
    accessed = [time for time in (state.last_accessed_at, old.state.last_accessed_at) if time is not None]
    return state._replace(
        access_count=max(state.access_count, old.state.access_count),
        last_accessed_at=max(accessed, default=None),
    )


def _put_tombstone(ledger: Ledger, tombstone: Tombstone, *, owner: int) -> PutOutcome:
    at = to_milliseconds(tombstone.deleted_at)
    old = ledger.find(owner, tombstone.id)
    if old is not None:
        if tombstone.revision <= old.state.revision:
            return PutOutcome.STALE
        ledger.delete(old, revision=tombstone.revision, at=at)
        return PutOutcome.APPLIED
    known = ledger.tombstone(owner, tombstone.id)
    if known is not None and tombstone.revision <= known:
        return PutOutcome.APPLIED if tombstone.revision == known else PutOutcome.STALE
    ledger.bury(owner, tombstone.id, revision=tombstone.revision, at=at)
    return PutOutcome.APPLIED
