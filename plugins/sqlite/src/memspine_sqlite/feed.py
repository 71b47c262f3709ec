"""The feed of changes, and the tombstones of what was deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memspine.errors import CursorError
from memspine.model import Change, ChangePage, Scope, Tombstone
from memspine.times import from_milliseconds, to_milliseconds
from memspine_sqlite import cursors, filters, schema, sql
from memspine_sqlite.filters import Where
from memspine_sqlite.rows import owner_numbers
from memspine_sqlite.transactions import Transaction

_TRIMMED_EXPECTED = "a cursor behind what was trimmed from the feed"
_AHEAD_EXPECTED = "a cursor within the feed; this one is of a state that an older copy of the store has replaced"


def changes(transaction: Transaction, *, scope: Scope, limit: int, cursor: str | None) -> ChangePage:
    """The changes behind a cursor, in the order of their commits."""
    seal = cursors.FeedSeal(transaction.tokens.secret, scope.owners)
    behind = 0
    if cursor is not None:
        behind = seal.position(cursor, backend=transaction.backend)
        if behind < _trimmed(transaction, scope):
            raise CursorError(transaction.backend, cursor, _TRIMMED_EXPECTED)
        if behind > _end(transaction):
            raise CursorError(transaction.backend, cursor, _AHEAD_EXPECTED)
    where = _in_scope(transaction, scope).also("sequence > ?", behind)
    rows = sql.rows(
        transaction.connection,
        "SELECT sequence, id, owners.name, revision, deleted, changed_at "
        f"FROM changes CROSS JOIN owners ON number = changes.owner WHERE {where.sql} ORDER BY sequence LIMIT ?",
        (*where.values, max(limit, 0) + 1),
    )
    page = tuple(
        Change(
            cursor=seal.cursor(sequence),
            id=id,
            owner=owner,
            revision=revision,
            deleted=bool(deleted),
            changed_at=from_milliseconds(changed),
        )
        for sequence, id, owner, revision, deleted, changed in rows[: max(limit, 0)]
    )
    end = page[-1].cursor if page else seal.cursor(max(behind, _trimmed(transaction, scope)))
    return ChangePage(page, end, more=len(rows) > len(page))


def _end(transaction: Transaction) -> int:
    """The last row that the feed ever had."""
    found: int = sql.value(
        transaction.connection, "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"
    )
    return found


def _in_scope(transaction: Transaction, scope: Scope) -> Where:
    if scope.owners is None:
        return Where()
    numbers = list(owner_numbers(transaction.connection, scope.owners))
    if len(numbers) == 1:
        return Where(("changes.owner = ?",), (numbers[0],))
    return Where(("changes.owner IN (SELECT value FROM json_each(?))",), (filters.listed(numbers),))


def _trimmed(transaction: Transaction, scope: Scope) -> int:
    """The last row of the feed that was dropped and that this scope would have shown."""
    if scope.owners is None:
        return int(schema.meta(transaction.connection, "trimmed") or 0)
    found: int = sql.value(
        transaction.connection,
        "SELECT coalesce(max(trimmed), 0) FROM owners WHERE name IN (SELECT value FROM json_each(?))",
        (filters.listed(scope.owners),),
    )
    return found


def tombstones(transaction: Transaction, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
    """The tombstones of ids that were deleted and not created again."""
    found: dict[str, Tombstone] = {}
    for number, name in owner_numbers(transaction.connection, scope.owners or ()).items():
        for id, revision, deleted in sql.rows(
            transaction.connection,
            "SELECT id, revision, deleted_at FROM tombstones "
            "WHERE owner = ? AND id IN (SELECT value FROM json_each(?))",
            (number, filters.listed(list(dict.fromkeys(ids)))),
        ):
            tombstone = Tombstone(id=id, owner=name, revision=revision, deleted_at=from_milliseconds(deleted))
            found.setdefault(id, tombstone)
    return {id: found[id] for id in dict.fromkeys(ids) if id in found}


def trim_changes(transaction: Transaction, *, scope: Scope, before: datetime, limit: int) -> int:
    """Drop changes older than `before`, oldest first."""
    connection = transaction.connection
    where = _in_scope(transaction, scope).also("changed_at < ?", to_milliseconds(before))
    rows = sql.rows(
        connection,
        f"SELECT sequence, owner FROM changes WHERE {where.sql} ORDER BY changed_at, sequence LIMIT ?",
        (*where.values, limit),
    )
    if not rows:
        return 0
    connection.executemany("DELETE FROM changes WHERE sequence = ?", [(sequence,) for sequence, _ in rows])
    last: dict[int, int] = {}
    for sequence, owner in rows:
        last[owner] = max(last.get(owner, 0), sequence)
    connection.executemany(
        "UPDATE owners SET trimmed = max(trimmed, ?) WHERE number = ?",
        [(sequence, owner) for owner, sequence in last.items()],
    )
    known = int(schema.meta(connection, "trimmed") or 0)
    schema.set_meta(connection, "trimmed", str(max(known, *last.values())))
    return len(rows)
