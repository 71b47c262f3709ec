"""The feed of changes, and the tombstones of what was deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memspine.errors import CursorError
from memspine.model import Change, ChangePage, Scope, Tombstone
from memspine.times import from_milliseconds, to_milliseconds
from memspine_sqlite import cursors, filters, schema, sql
from memspine_sqlite.cursors import FeedPlace
from memspine_sqlite.filters import Where
from memspine_sqlite.rows import owner_numbers
from memspine_sqlite.transactions import Transaction

_TRIMMED_EXPECTED = "a cursor behind what was trimmed from the feed"
_REPLACED_EXPECTED = "a cursor within the feed; this one is of a state that an older copy of the store has replaced"


def changes(transaction: Transaction, *, scope: Scope, limit: int, cursor: str | None) -> ChangePage:
    """The changes behind a cursor, in the order of their commits."""
    seal = cursors.FeedSeal(transaction.tokens.secret, scope.owners)
    trimmed = _trimmed(transaction, scope)
    behind = FeedPlace()
    if cursor is not None:
        behind = seal.place(cursor, backend=transaction.backend)
        _require_there(transaction, behind, cursor, trimmed=trimmed)
    where = _in_scope(transaction, scope).also("sequence > ?", behind.sequence)
    rows = sql.rows(
        transaction.connection,
        "SELECT sequence, mark, id, owners.name, revision, deleted, changed_at "
        f"FROM changes CROSS JOIN owners ON number = changes.owner WHERE {where.sql} ORDER BY sequence LIMIT ?",
        (*where.values, max(limit, 0) + 1),
    )
    page = tuple(
        Change(
            cursor=seal.cursor(FeedPlace(sequence, mark)),
            id=id,
            owner=owner,
            revision=revision,
            deleted=bool(deleted),
            changed_at=from_milliseconds(changed),
        )
        for sequence, mark, id, owner, revision, deleted, changed in rows[: max(limit, 0)]
    )
    end = page[-1].cursor if page else seal.cursor(behind if cursor is not None else trimmed)
    return ChangePage(page, end, more=len(rows) > len(page))


def _require_there(transaction: Transaction, place: FeedPlace, cursor: str, *, trimmed: FeedPlace) -> None:
    """Refuse a cursor whose row was trimmed, or is none of this store's life: a copy from before that row was put back,
    and its number may have been given again."""
    if place.sequence < trimmed.sequence:
        raise CursorError(transaction.backend, cursor, _TRIMMED_EXPECTED)
    if place.sequence == trimmed.sequence:
        mark = trimmed.mark
    else:
        mark = sql.value(transaction.connection, "SELECT mark FROM changes WHERE sequence = ?", (place.sequence,))
    if mark != place.mark:
        raise CursorError(transaction.backend, cursor, _REPLACED_EXPECTED)


def _in_scope(transaction: Transaction, scope: Scope) -> Where:
    if scope.owners is None:
        return Where()
    numbers = list(owner_numbers(transaction.connection, scope.owners))
    if len(numbers) == 1:
        return Where(("changes.owner = ?",), (numbers[0],))
    return Where(("changes.owner IN (SELECT value FROM json_each(?))",), (filters.listed(numbers),))


def _trimmed(transaction: Transaction, scope: Scope) -> FeedPlace:
    """The last row of the feed that was dropped and that this scope would have shown."""
    if scope.owners is None:
        return _trimmed_of_all(transaction)
    found = sql.first(
        transaction.connection,
        "SELECT trimmed, trimmed_mark FROM owners WHERE name IN (SELECT value FROM json_each(?)) "
        "ORDER BY trimmed DESC LIMIT 1",
        (filters.listed(scope.owners),),
    )
    return FeedPlace() if found is None else FeedPlace(*found)


def _trimmed_of_all(transaction: Transaction) -> FeedPlace:
    connection = transaction.connection
    return FeedPlace(int(schema.meta(connection, "trimmed") or 0), int(schema.meta(connection, "trimmed_mark") or 0))


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
        f"SELECT sequence, mark, owner FROM changes WHERE {where.sql} ORDER BY changed_at, sequence LIMIT ?",
        (*where.values, limit),
    )
    if not rows:
        return 0
    connection.executemany("DELETE FROM changes WHERE sequence = ?", [(sequence,) for sequence, *_ in rows])
    # Sorted, so that of each owner the last row stays.
    last = {owner: FeedPlace(sequence, mark) for sequence, mark, owner in sorted(rows)}
    connection.executemany(
        "UPDATE owners SET trimmed = ?, trimmed_mark = ? WHERE number = ? AND trimmed < ?",
        [(place.sequence, place.mark, owner, place.sequence) for owner, place in last.items()],
    )
    place = max([_trimmed_of_all(transaction), *last.values()], key=lambda one: one.sequence)
    schema.set_meta(connection, "trimmed", str(place.sequence))
    schema.set_meta(connection, "trimmed_mark", str(place.mark))
    return len(rows)
