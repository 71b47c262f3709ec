"""The queue of each space: what it still has to hold, who works on it, what failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import apsw

from memspine.contracts import Backlog, Work
from memspine.model import MemoryRef
from memspine.times import from_milliseconds, to_milliseconds
from memspine_sqlite import kept, rows, shelves, spaces, sql
from memspine_sqlite.filters import listed
from memspine_sqlite.transactions import Transaction


def enqueue(transaction: Transaction, space_id: str, *, revisions: Mapping[MemoryRef, int], position: str) -> int:
    """Queue what the space does not hold, and note the position; returns how many were not queued before."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    added = 0
    for name, ids in rows.by_owner(revisions).items():
        owner = rows.owner_made(connection, name)
        shelf = shelves.find(connection, space=space, owner=owner)
        held = kept.revisions(connection, space=space, owner=owner, ids=ids)
        if shelf is not None:
            chunks = shelves.held_rows(connection, shelf.number, ids)
            held.update({id: some[0].revision for id, some in chunks.items()})
        wanted = ((id, revisions[MemoryRef(name, id)]) for id in ids)
        missing = [(space, owner, id, revision) for id, revision in wanted if held.get(id, 0) < revision]
        before = connection.total_changes()
        connection.executemany("INSERT OR IGNORE INTO queue (space, owner, id, revision) VALUES (?, ?, ?, ?)", missing)
        added += connection.total_changes() - before
        # What failed was another text: the new one is due at once, behind the lease if there is one.
        connection.executemany(
            "UPDATE queue SET revision = ?4, due_at = 0, ready_at = leased_until, failures = 0, failed = 0, "
            "reason = '' WHERE owner = ?2 AND id = ?3 AND space = ?1 AND revision < ?4",
            missing,
        )
    connection.execute("UPDATE spaces SET position = ? WHERE number = ?", (position, space))
    return added


def claim(
    transaction: Transaction, space_id: str, *, holder: str, now: datetime, lease_seconds: float, limit: int
) -> tuple[Work, ...]:
    """Lease what is due and free, longest queued first."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    at, until = to_milliseconds(now), to_milliseconds(now + timedelta(seconds=lease_seconds))
    # Most has never been tried and is found in its order; only what became free again has to be sorted.
    statement = "SELECT row FROM queue WHERE space = ? AND {} ORDER BY row LIMIT ?"
    free = sql.rows(connection, statement.format("ready_at = ?"), (space, 0, limit))
    free += sql.rows(connection, statement.format("ready_at > 0 AND ready_at <= ?"), (space, at, limit))
    chosen = listed(sorted(row for (row,) in free)[:limit])
    connection.execute(
        "UPDATE queue SET holder = ?, leased_until = ?, ready_at = max(due_at, ?) "
        "WHERE row IN (SELECT value FROM json_each(?))",
        (holder, until, until, chosen),
    )
    claimed = sql.rows(
        connection,
        "SELECT o.name, q.id, q.revision, q.failures FROM queue AS q JOIN owners AS o ON o.number = q.owner "
        "WHERE q.row IN (SELECT value FROM json_each(?)) ORDER BY q.row",
        (chosen,),
    )
    return tuple(Work(ref=MemoryRef(owner, id), revision=n, failures=failures) for owner, id, n, failures in claimed)


def postpone(
    transaction: Transaction, space_id: str, *, refs: Sequence[MemoryRef], holder: str, until: datetime, reason: str
) -> None:
    """End leases on what failed."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    at = to_milliseconds(until)
    failed = sql.value(connection, "SELECT coalesce(max(failed), 0) + 1 FROM queue WHERE space = ?", (space,))
    for name, ids in rows.by_owner(refs).items():
        owner = rows.owner_number(connection, name)
        connection.executemany(
            "UPDATE queue SET holder = '', leased_until = 0, due_at = ?, ready_at = ?, failures = failures + 1, "
            "failed = ?, reason = ? WHERE owner = ? AND id = ? AND space = ? AND holder = ? AND holder != ''",
            [(at, at, failed, reason, owner, id, space, holder) for id in ids],
        )


def backlog(transaction: Transaction, space_id: str, *, now: datetime) -> Backlog:
    """What a space still has to do."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    at = to_milliseconds(now)
    leased = sql.value(
        connection, "SELECT count(*) FROM queue WHERE space = ? AND ready_at > ? AND leased_until > ?", (space, at, at)
    )
    waiting = "FROM queue WHERE space = ? AND failures > 0 AND due_at > ?"
    postponed, next_at = sql.rows(connection, f"SELECT count(*), min(due_at) {waiting}", (space, at))[0]
    reason = sql.value(connection, f"SELECT reason {waiting} ORDER BY failed DESC, row DESC LIMIT 1", (space, at))
    return Backlog(
        position=sql.value(connection, "SELECT position FROM spaces WHERE number = ?", (space,)),
        waiting=_size(connection, space),
        leased=leased,
        postponed=postponed,
        next_at=None if next_at is None else from_milliseconds(next_at),
        reason=reason or "",
    )


def settle(connection: apsw.Connection, space: int, done: Sequence[tuple[int, str, int]]) -> None:
    """Take memories (owner, id, revision) out of a queue; what is queued at a newer revision stays, free and due."""
    if not _size(connection, space, most=1):
        return
    connection.executemany(
        "UPDATE queue SET holder = '', leased_until = 0, ready_at = due_at "
        "WHERE owner = ? AND id = ? AND space = ? AND revision > ?",
        [(owner, id, space, revision) for owner, id, revision in done],
    )
    connection.executemany(
        "DELETE FROM queue WHERE owner = ? AND id = ? AND space = ? AND revision <= ?",
        [(owner, id, space, revision) for owner, id, revision in done],
    )


def release(transaction: Transaction, space_id: str, *, refs: Sequence[MemoryRef], holder: str) -> None:
    """End leases on what was not done."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    for name, ids in rows.by_owner(refs).items():
        owner = rows.owner_number(connection, name)
        connection.executemany(
            "UPDATE queue SET holder = '', leased_until = 0, ready_at = due_at "
            "WHERE owner = ? AND id = ? AND space = ? AND holder = ? AND holder != ''",
            [(owner, id, space, holder) for id in ids],
        )


def leased(connection: apsw.Connection, space: int, refs: Collection[MemoryRef], *, holder: str) -> set[MemoryRef]:
    """Those of the memories that the queue has leased to a holder."""
    found: set[MemoryRef] = set()
    for name, ids in rows.by_owner(refs).items():
        owner = rows.owner_number(connection, name)
        statement = (
            "SELECT id FROM queue WHERE owner = ? AND space = ? AND holder = ? AND holder != '' "
            "AND id IN (SELECT value FROM json_each(?))"
        )
        held = sql.rows(connection, statement, (owner, space, holder, listed(list(ids))))
        found.update(MemoryRef(name, id) for (id,) in held)
    return found


def remove(connection: apsw.Connection, owner: int, ids: Iterable[str]) -> set[str]:
    """Take memories out of every queue; returns those that were in one."""
    found = sql.rows(
        connection,
        "DELETE FROM queue WHERE owner = ? AND id IN (SELECT value FROM json_each(?)) RETURNING id",
        (owner, listed(list(ids))),
    )
    return {id for (id,) in found}


def ids(connection: apsw.Connection, owner: int) -> list[str]:
    """The queued memories of an owner."""
    return [id for (id,) in sql.rows(connection, "SELECT DISTINCT id FROM queue WHERE owner = ?", (owner,))]


def _size(connection: apsw.Connection, space: int, *, most: int = -1) -> int:
    found: int = sql.value(
        connection, "SELECT count(*) FROM (SELECT 1 FROM queue WHERE space = ? LIMIT ?)", (space, most)
    )
    return found
