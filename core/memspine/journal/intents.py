"""What is noted around a write of the primary: tombstones, so that no fallback brings a deleted memory back, and for a
primary without a feed the outbox, so that no replica misses a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from memspine import times
from memspine.model import Memory, MemoryRef

if TYPE_CHECKING:
    from sqlite3 import Connection


UNKNOWN: Final = 0
"""The revision of a deletion that the primary never gave one; NULL is that of one that is only begun."""
OUTBOX_PREFIX: Final = "outbox "
FEW: Final = 500
"""So many deletions are read as quickly as one is looked up in a thread."""
_STONES: Final = "SELECT owner, id, revision, is_begun, back_at FROM tombstones"


@attrs.frozen(kw_only=True)
class Stone:
    """A deletion as the journal knows it. `revision` is None where the primary never said it: then it holds for every
    revision, but not for the replicas in `passed_by`, which have got what was made since. While `is_begun`, nobody
    knows yet whether the primary has done it."""

    revision: int | None
    is_begun: bool
    passed_by: frozenset[str] = frozenset()

    def hides(self, revision: int, *, fallback: str) -> bool:
        """Whether a fallback's memory of this revision is one that was deleted."""
        if self.is_begun:
            return True
        return fallback not in self.passed_by if self.revision is None else revision <= self.revision


def begin_deleting(connection: Connection, owner: str, ids: Iterable[str], now: int) -> None:
    """Note that these are about to be deleted, maybe by several at once."""
    connection.executemany(
        "INSERT INTO tombstones (owner, id, deleted_at, is_begun) VALUES (?, ?, ?, 1) "
        "ON CONFLICT (owner, id) DO UPDATE SET is_begun = is_begun + 1, deleted_at = excluded.deleted_at",
        ((owner, id, now) for id in ids),
    )


def settle_deleted(connection: Connection, owner: str, revisions: Mapping[str, int | None], now: int) -> None:
    """Note that these were deleted, each at its revision."""
    connection.executemany(
        "INSERT INTO tombstones (owner, id, revision, deleted_at, is_begun) VALUES (?, ?, ?, ?, 0) "
        "ON CONFLICT (owner, id) DO UPDATE "
        "SET is_begun = 0, revision = excluded.revision, deleted_at = excluded.deleted_at, back_at = NULL",
        ((owner, id, revision or UNKNOWN, now) for id, revision in revisions.items()),
    )


def withdraw_deleting(connection: Connection, owner: str, ids: Iterable[str]) -> None:
    """Note that these were not deleted by one who had begun to. What others have begun stays so, and an earlier
    deletion stays noted."""
    for id in ids:
        connection.execute(
            "UPDATE tombstones SET is_begun = max(is_begun - 1, 0) WHERE owner = ? AND id = ?", (owner, id)
        )
        _drop_empty(connection, owner, id)


def settle_kept(connection: Connection, owner: str, ids: Iterable[str]) -> None:
    """Note that these were not deleted by anybody who had begun to; an earlier deletion stays noted."""
    for id in ids:
        connection.execute("UPDATE tombstones SET is_begun = 0 WHERE owner = ? AND id = ?", (owner, id))
        _drop_empty(connection, owner, id)


def note_back(connection: Connection, owner: str, ids: Iterable[str]) -> None:
    """Note that these are there again, behind all that stands in the outbox by now. A replica that has not read so far
    has what was deleted."""
    end = outbox_end(connection)
    connection.executemany(
        "UPDATE tombstones SET back_at = ? WHERE owner = ? AND id = ? AND NOT is_begun",
        ((end, owner, id) for id in ids),
    )


def lift_overtaken(connection: Connection, memories: Iterable[Memory]) -> None:
    """Drop the tombstones of memories that are there again at a revision which those would hide: they expired and were
    swept since, so that they are counted anew."""
    connection.executemany(
        "DELETE FROM tombstones "
        "WHERE owner = ? AND id = ? AND revision >= ? AND deleted_at < ? AND NOT is_begun",  # not of a later deletion
        ((one.owner, one.id, one.revision, times.to_milliseconds(one.updated_at)) for one in memories),
    )


def stones(connection: Connection, refs: Iterable[MemoryRef]) -> dict[MemoryRef, Stone]:
    """The noted deletions of these memories."""
    found = {}
    for ref in refs:
        row = connection.execute(f"{_STONES} WHERE owner = ? AND id = ?", ref).fetchone()
        if row is not None:
            found[ref] = _stone(connection, row)
    return found


def few_stones(connection: Connection) -> dict[MemoryRef, Stone] | None:
    """All noted deletions; None where they are more than can be had at every turn."""
    rows = connection.execute(f"{_STONES} LIMIT ?", (FEW + 1,)).fetchall()
    if len(rows) > FEW:
        return None
    return {MemoryRef(row[0], row[1]): _stone(connection, row) for row in rows}


def begun(connection: Connection, before: int, after: int, limit: int) -> list[tuple[str, str]]:
    """Owner and id of deletions whose outcome nobody noted and that were begun before a time, or after one that is
    still to come: then the clock was put back."""
    return connection.execute(
        "SELECT owner, id FROM tombstones WHERE is_begun AND (deleted_at < ? OR deleted_at > ?) LIMIT ?",
        (before, after, limit),
    ).fetchall()


def begin_changing(connection: Connection, owner: str, ids: Iterable[str], now: int) -> list[int]:
    """Note in the outbox that these are about to be changed; returns the rows for `settle_changed`."""
    numbers = []
    for id in ids:
        row = connection.execute("INSERT INTO outbox (owner, id, begun_at) VALUES (?, ?, ?)", (owner, id, now))
        numbers.append(int(row.lastrowid or 0))
    return numbers


def settle_changed(
    connection: Connection, numbers: Iterable[int], changed: Iterable[tuple[str, str]], now: int
) -> None:
    """Note what was changed (owner and id), in place of what was about to be.

    The rows are new ones, behind all that anybody may have read meanwhile.
    """
    connection.executemany("DELETE FROM outbox WHERE number = ?", ((number,) for number in numbers))
    connection.executemany(
        "INSERT INTO outbox (owner, id, settled_at) VALUES (?, ?, ?)", ((owner, id, now) for owner, id in changed)
    )


def has_forgotten(connection: Connection, before: int, after: int) -> bool:
    """Whether there is anything for `settle_forgotten`."""
    found = connection.execute(
        "SELECT 1 FROM outbox WHERE settled_at IS NULL AND (begun_at < ? OR begun_at > ?) LIMIT 1", (before, after)
    )
    return found.fetchone() is not None


def settle_forgotten(connection: Connection, before: int, after: int, now: int) -> None:
    """Count as changed what was begun before a time, or after one that is still to come, and never settled: its process
    died, and either may be true."""
    rows = connection.execute(
        "SELECT number, owner, id FROM outbox WHERE settled_at IS NULL AND (begun_at < ? OR begun_at > ?)",
        (before, after),
    ).fetchall()
    settle_changed(connection, [row[0] for row in rows], [(row[1], row[2]) for row in rows], now)


def outbox(connection: Connection, after: int, limit: int) -> list[tuple[int, str, str]]:
    """Number, owner and id of changes behind a number, in order."""
    return connection.execute(
        "SELECT number, owner, id FROM outbox WHERE number > ? AND begun_at IS NULL ORDER BY number LIMIT ?",
        (after, limit),
    ).fetchall()


def begun_changes(connection: Connection) -> list[tuple[str, str]]:
    """Owner and id of changes that were begun and are not settled."""
    return connection.execute("SELECT owner, id FROM outbox WHERE settled_at IS NULL").fetchall()


def outbox_cursor(number: int) -> str:
    """The place behind a change of the outbox, as a replica's cursor: none that a feed would take."""
    return f"{OUTBOX_PREFIX}{number}"


def outbox_number(cursor: str | None) -> int | None:
    """The number that a replica's cursor stands behind, 0 for the beginning; None where it is one of a feed."""
    if cursor is None:
        return 0
    number = cursor.removeprefix(OUTBOX_PREFIX)
    return int(number) if number != cursor and number.isdecimal() else None


def outbox_end(connection: Connection) -> int:
    """The number of the last change that there ever was."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'").fetchone()
    return 0 if row is None else int(row[0])


def old_end(connection: Connection, before: int) -> int:
    """The number of the last change that was settled before a time; 0 for none."""
    row = connection.execute("SELECT max(number) FROM outbox WHERE settled_at < ?", (before,)).fetchone()
    return int(row[0] or 0)


def trim_outbox(connection: Connection, up_to: int) -> None:
    """Drop changes that every replica has."""
    connection.execute("DELETE FROM outbox WHERE number <= ? AND begun_at IS NULL", (up_to,))


def trim_old(connection: Connection, before: int, limit: int) -> int:
    """Drop changes that were settled before a time, oldest first; returns how many."""
    return connection.execute(
        "DELETE FROM outbox WHERE number IN (SELECT number FROM outbox WHERE settled_at < ? ORDER BY number LIMIT ?)",
        (before, limit),
    ).rowcount


def begin_purging(connection: Connection, owner: str, ids: Iterable[str], now: int) -> None:
    """Note that the primary is about to purge these (an empty id: all of the owner)."""
    connection.executemany("INSERT OR REPLACE INTO purges VALUES (?, ?, ?)", ((owner, id, now) for id in ids))


def end_purging(connection: Connection, owner: str, ids: Iterable[str] | None) -> None:
    """Note that these (None: all of the owner) are purged, and that replicas will hear of it, or that they are not."""
    if ids is None:
        connection.execute("DELETE FROM purges WHERE owner = ?", (owner,))
    else:
        connection.executemany("DELETE FROM purges WHERE owner = ? AND id = ?", ((owner, id) for id in ids))


def begun_purges(connection: Connection, before: int, after: int) -> list[tuple[str, str, int]]:
    """Owner, id (empty: all of the owner) and time of purges whose end nobody noted and that were begun before a time,
    or after one that is still to come."""
    return connection.execute(
        "SELECT owner, id, begun_at FROM purges WHERE begun_at < ? OR begun_at > ? ORDER BY owner, id", (before, after)
    ).fetchall()


def _stone(connection: Connection, row: tuple[str, str, int | None, int, int | None]) -> Stone:
    owner, id, revision, is_begun, back_at = row
    passed_by = frozenset[str]()
    if back_at is not None:
        rows = connection.execute(
            "SELECT name, cursor FROM replicas WHERE stage = 'following' AND NOT EXISTS "
            "(SELECT 1 FROM entries WHERE kind = 'delivery' AND replica = name AND owner = ? AND id = ?)",
            (owner, id),
        )
        places = {name: outbox_number(cursor) for name, cursor in rows}
        # One that follows a feed by now was compared with the primary since.
        passed_by = frozenset(name for name, number in places.items() if number is None or number >= back_at)
    return Stone(revision=revision or None, is_begun=bool(is_begun), passed_by=passed_by)


def _drop_empty(connection: Connection, owner: str, id: str) -> None:
    """Drop a tombstone of which nothing is left: not begun by anybody, and never done."""
    connection.execute(
        "DELETE FROM tombstones WHERE owner = ? AND id = ? AND revision IS NULL AND NOT is_begun", (owner, id)
    )
