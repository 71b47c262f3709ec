"""Creating, updating, deleting: one operation is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memspine.errors import ConflictError, NotFoundError
from memspine.model import Memory, MemoryChanges, MemoryFilter, NewMemory, Scope, Tombstone, Written, merged_metadata
from memspine.times import from_milliseconds, to_milliseconds
from memspine_sqlite import filters, keywords, sql
from memspine_sqlite.ledger import Ledger
from memspine_sqlite.rows import (
    LIVE,
    State,
    Stored,
    json_object,
    json_text,
    memory_of,
    optional_milliseconds,
    owner_number,
)
from memspine_sqlite.transactions import Transaction


def create_many(
    transaction: Transaction, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
) -> tuple[Written, ...]:
    """Store memories in order."""
    at = to_milliseconds(now)
    with Ledger(transaction) as ledger:
        owner = ledger.owner(scope.owner)
        if len(memories) > 1:
            ledger.look_up(owner, ids, [memory.key for memory in memories])
        return tuple(
            _create(ledger, memory, owner=owner, scope=scope, id=id, now=now, at=at)
            for memory, id in zip(memories, ids, strict=True)
        )


def _create(ledger: Ledger, new: NewMemory, *, owner: int, scope: Scope, id: str, now: datetime, at: int) -> Written:
    old = ledger.find_key(owner, new.key) or ledger.find(owner, id)
    if old is None or old.is_expired(at):
        return _create_new(ledger, new, old, owner=owner, scope=scope, id=id, now=now, at=at)
    metadata, before = merged_metadata(json_object(old.state.metadata), new.metadata), old.state
    state = State(
        before.id, new.session if scope.session is None else scope.session, new.type.value, new.key,
        before.created_at, at, optional_milliseconds(new.expires_at),
        before.revision + 1, before.access_count, before.last_accessed_at, json_text(metadata), new.content,
    )  # fmt: skip
    ledger.replace(old, state, metadata=metadata, at=at)
    return Written(memory_of(state, scope.owner), created=False)


def _create_new(
    ledger: Ledger, new: NewMemory, old: Stored | None, *, owner: int, scope: Scope, id: str, now: datetime, at: int
) -> Written:
    """Store a memory that is not there, or whose row has expired."""
    revision = (ledger.tombstone(owner, id) or 0) + 1 if old is None else old.state.revision + 1
    metadata = json_text(new.metadata)
    # Both written out, because going through one to the other and back would be a fifth of the time of a batch.
    memory = Memory(
        id=id if old is None else old.state.id,
        owner=scope.owner,
        content=new.content,
        type=new.type,
        session=new.session if scope.session is None else scope.session,
        key=new.key,
        metadata=json_object(metadata),
        created_at=new.created_at or now,
        updated_at=now,
        expires_at=new.expires_at,
        revision=revision,
    )
    state = State(
        memory.id, memory.session, memory.type.value, memory.key, to_milliseconds(new.created_at or now), at,
        optional_milliseconds(new.expires_at), revision, 0, None, metadata, memory.content,
    )  # fmt: skip
    if old is None:
        ledger.insert(owner, state, metadata=memory.metadata, at=at)
    else:
        ledger.restart(old, state, metadata=memory.metadata, at=at)
    return Written(memory, created=True)


def update(
    transaction: Transaction,
    id: str,
    changes: MemoryChanges,
    *,
    scope: Scope,
    now: datetime,
    expected_revision: int | None,
) -> Memory:
    """Replace the named fields of a memory."""
    at = to_milliseconds(now)
    named = changes.named()
    with Ledger(transaction) as ledger:
        old = _expected(transaction, ledger, id, scope=scope, at=at, revision=expected_revision)
        _free_key(transaction, ledger, old, key=named.get("key", ""), at=at)
        metadata = named.get("metadata")
        columns: dict[str, Any] = {"updated_at": at, "revision": old.state.revision + 1}
        for name in ("content", "session", "key"):
            if name in named:
                columns[name] = named[name]
        if "type" in named:
            columns["type"] = named["type"].value
        if "expires_at" in named:
            columns["expires_at"] = optional_milliseconds(named["expires_at"])
        if metadata is None:
            metadata = json_object(old.state.metadata)
        else:
            columns["metadata"] = json_text(metadata)
        state = old.state._replace(**columns)
        ledger.replace(old, state, metadata=metadata, at=at)
    return memory_of(state, scope.owner)


def delete(
    transaction: Transaction, id: str, *, scope: Scope, now: datetime, expected_revision: int | None
) -> Tombstone:
    """Delete a memory and leave its tombstone."""
    at = to_milliseconds(now)
    with Ledger(transaction) as ledger:
        old = _expected(transaction, ledger, id, scope=scope, at=at, revision=expected_revision)
        revision = old.state.revision + 1
        ledger.delete(old, revision=revision, at=at)
    return Tombstone(id=id, owner=scope.owner, revision=revision, deleted_at=from_milliseconds(at))


def _expected(
    transaction: Transaction, ledger: Ledger, id: str, *, scope: Scope, at: int, revision: int | None
) -> Stored:
    """The memory that a caller may change, at the revision the caller expects."""
    owner = owner_number(transaction.connection, scope.owner)
    old = None if owner is None else ledger.find(owner, id)
    if old is None or old.is_expired(at) or (scope.session is not None and old.state.session != scope.session):
        raise NotFoundError(transaction.backend, id)
    if revision is not None and revision != old.state.revision:
        raise ConflictError(
            transaction.backend, id, expected=f"revision {revision}", found=f"revision {old.state.revision}"
        )
    return old


def _free_key(transaction: Transaction, ledger: Ledger, old: Stored, *, key: str, at: int) -> None:
    """Make sure that no other memory has a key; one that has expired gives way."""
    holder = ledger.find_key(old.owner, key)
    if holder is None or holder.row == old.row:
        return
    if not holder.is_expired(at):
        raise ConflictError(
            transaction.backend, old.state.id, expected=f"a free key, not {key!r}", found="another memory with that key"
        )
    ledger.drop(holder)


def selected_ids(transaction: Transaction, filter: MemoryFilter, *, scope: Scope, now: datetime) -> tuple[str, ...]:
    """The ids of what a filter matches, in (created_at, id) order."""
    return tuple(id for _, id in _selected(transaction, filter, scope=scope, at=to_milliseconds(now)))


def _selected(transaction: Transaction, filter: MemoryFilter, *, scope: Scope, at: int) -> list[tuple[int, str]]:
    owner = owner_number(transaction.connection, scope.owner)
    if owner is None:
        return []
    where = filters.of_owner(owner, session=scope.session).join(filters.live(at)).join(filters.matching(filter))
    statement = f"SELECT row, id FROM memories WHERE {where.sql} ORDER BY created_at, id"
    return [(row, id) for row, id in sql.rows(transaction.connection, statement, where.values)]


def delete_many(transaction: Transaction, filter: MemoryFilter, *, scope: Scope, now: datetime) -> tuple[str, ...]:
    """Delete what a filter matches; their ids in (created_at, id) order."""
    at = to_milliseconds(now)
    selected = _selected(transaction, filter, scope=scope, at=at)
    with Ledger(transaction) as ledger, keywords.removing(transaction.connection, len(selected)):
        for row, _ in selected:
            old = ledger.row(row)
            ledger.delete(old, revision=old.state.revision + 1, at=at)
    return tuple(id for _, id in selected)


def record_access(transaction: Transaction, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
    """Add to access counts; nothing else of the memories moves."""
    owner = owner_number(transaction.connection, scope.owner)
    if owner is None:
        return
    at = to_milliseconds(now)
    session = "" if scope.session is None else "AND session = ?"
    ending = () if scope.session is None else (scope.session,)
    transaction.connection.executemany(
        "UPDATE memories SET access_count = access_count + ?, "
        "last_accessed_at = max(coalesce(last_accessed_at, ?), ?) "
        f"WHERE owner = ? AND id = ? AND {LIVE} {session}",
        [(count, at, at, owner, id, at, *ending) for id, count in counts.items()],
    )


def expire(transaction: Transaction, *, scope: Scope, now: datetime, limit: int) -> int:
    """Remove expired memories, those that expired first, without a tombstone."""
    where = filters.Where(("expires_at <= ?",), (to_milliseconds(now),))
    if scope.kind != "everyone":
        owner = owner_number(transaction.connection, scope.owner)
        if owner is None:
            return 0
        where = where.join(filters.of_owner(owner, session=scope.session))
    rows = sql.rows(
        transaction.connection,
        f"SELECT row FROM memories WHERE {where.sql} ORDER BY expires_at LIMIT ?",
        (*where.values, limit),
    )
    with Ledger(transaction) as ledger, keywords.removing(transaction.connection, len(rows)):
        for (row,) in rows:
            ledger.drop(ledger.row(row))
    return len(rows)
