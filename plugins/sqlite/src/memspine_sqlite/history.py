"""The states that a memory has had."""

from __future__ import annotations

from datetime import datetime

from memspine.model import Revision, Scope
from memspine.times import from_milliseconds, to_milliseconds
from memspine_sqlite.filters import Where
from memspine_sqlite.rows import STATE, memory_of, owner_number, owner_numbers
from memspine_sqlite.transactions import Transaction


def history(transaction: Transaction, id: str, *, scope: Scope) -> tuple[Revision, ...]:
    """All kept states, oldest first, the current one last. In the shared scope the caller's own memory wins."""
    for number, name in owner_numbers(transaction.connection, scope.owners or ()).items():
        earlier = transaction.connection.execute(
            f"SELECT replaced_at, deleted, {STATE} FROM history WHERE owner = ? AND id = ? ORDER BY row", (number, id)
        )
        revisions = [
            Revision(memory=memory_of(row[2:], name), replaced_at=from_milliseconds(row[0]), deleted=bool(row[1]))
            for row in earlier
        ]
        current = transaction.connection.execute(
            f"SELECT {STATE} FROM memories WHERE owner = ? AND id = ?", (number, id)
        )
        revisions += [Revision(memory=memory_of(row, name)) for row in current]
        if revisions and scope.session in {None, revisions[-1].memory.session}:
            return tuple(revisions)
    return ()


def trim_history(
    transaction: Transaction, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int
) -> int:
    """Drop old states, then old tombstones, up to `limit` rows in all."""
    where = Where()
    if scope.kind != "everyone":
        owner = owner_number(transaction.connection, scope.owner)
        if owner is None:
            return 0
        where = Where(("owner = ?",), (owner,))
    states = where.also("replaced_at < ?", to_milliseconds(before))
    rows = transaction.connection.execute(
        f"SELECT row FROM history WHERE {states.sql} ORDER BY replaced_at LIMIT ?", (*states.values, limit)
    ).fetchall()
    transaction.connection.executemany("DELETE FROM history WHERE row = ?", rows)
    graves = where.also("deleted_at < ?", to_milliseconds(tombstones_before))
    keys = transaction.connection.execute(
        f"SELECT owner, id FROM tombstones WHERE {graves.sql} ORDER BY deleted_at LIMIT ?",
        (*graves.values, limit - len(rows)),
    ).fetchall()
    transaction.connection.executemany("DELETE FROM tombstones WHERE owner = ? AND id = ?", keys)
    return len(rows) + len(keys)
