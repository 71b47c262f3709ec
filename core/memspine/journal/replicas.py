"""How far each replica is, and what each of its memories was last given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from memspine.journal.entries import clear_aside, pause
from memspine.journal.intents import outbox_number
from memspine.model import MemoryRef
from memspine.status import Stage

if TYPE_CHECKING:
    from sqlite3 import Connection


MOVED: Final = (
    "is another store than before: it is copied from the start, and what was set aside for that one is dropped"
)


@attrs.frozen(kw_only=True)
class ReplicaPosition:
    """Where delivery to a replica is. `cursor` is that of the list while copying, else that of the feed; `feed` is the
    feed's end before the copy began. After failures nothing is tried before `next_attempt_at` (milliseconds).
    `store` is the mark of the store that was delivered to, empty where none was."""

    store: str = attrs.field(default="", eq=False)
    stage: Stage = "new"
    cursor: str | None = None
    feed: str | None = None
    attempts: int = 0
    next_attempt_at: int | None = None
    error: str = ""

    def is_of_another(self, store: str) -> bool:
        """Whether the replica of this name was another store."""
        return bool(self.store) and self.store != store


@attrs.frozen(kw_only=True)
class Sent:
    """What a replica was given of a memory: the revision and content hash that have arrived (`revision` None: nothing
    yet, `hash` empty: a deletion), and those that may have."""

    revision: int | None = None
    hash: str = ""
    next_revision: int | None = None
    next_hash: str = ""


def position(connection: Connection, replica: str) -> ReplicaPosition:
    """Where delivery to a replica is."""
    row = connection.execute(
        "SELECT store, stage, cursor, feed, attempts, next_attempt_at, error FROM replicas WHERE name = ?", (replica,)
    ).fetchone()
    if row is None:
        return ReplicaPosition()
    store, stage, cursor, feed, attempts, next_attempt_at, error = row
    return ReplicaPosition(
        store=store,
        stage=stage,
        cursor=cursor,
        feed=feed,
        attempts=attempts,
        next_attempt_at=next_attempt_at,
        error=error,
    )


def note_store(connection: Connection, replica: str, store: str) -> None:
    """Note which store a replica is.

    One that was another is copied from the start, and then gets what changed behind the place where the other one was:
    should it be the same after all, moved, it misses no deletion. What was set aside for the other one is dropped; what
    had to be erased there is erased here.
    """
    before = position(connection, replica)
    connection.execute(
        "INSERT INTO replicas (name, stage, store) VALUES (?, 'new', ?) "
        "ON CONFLICT (name) DO UPDATE SET store = excluded.store",
        (replica, store),
    )
    if not before.is_of_another(store):
        return
    if before.stage == "following":
        move(connection, replica, "copying", cursor=None, feed=before.cursor)
    else:
        move(connection, replica, before.stage, cursor=None, feed=before.feed)
    connection.execute("DELETE FROM sent WHERE replica = ?", (replica,))
    clear_aside(connection, replica)


def move(connection: Connection, replica: str, stage: Stage, *, cursor: str | None, feed: str | None = None) -> None:
    """Note where delivery to a replica is; it works, so earlier failures are forgotten."""
    connection.execute(
        "INSERT INTO replicas (name, stage, cursor, feed) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET stage = excluded.stage, cursor = excluded.cursor, feed = excluded.feed, "
        "attempts = 0, next_attempt_at = NULL, error = ''",
        (replica, stage, cursor, feed),
    )


def fail(connection: Connection, replica: str, error: str, now: int) -> None:
    """Note that a replica does not answer: nothing is tried for a while, longer each time."""
    attempts = position(connection, replica).attempts
    connection.execute(
        "INSERT INTO replicas (name, stage, attempts, next_attempt_at, error) VALUES (:name, 'new', 1, :next, :error) "
        "ON CONFLICT (name) DO UPDATE SET attempts = attempts + 1, next_attempt_at = :next, error = :error",
        {"name": replica, "next": now + pause(attempts), "error": error},
    )


def hurry(connection: Connection) -> None:
    """Have every replica tried at once."""
    connection.execute("UPDATE replicas SET next_attempt_at = NULL")


def leave_behind(connection: Connection, names: Iterable[str]) -> None:
    """Note that replicas miss what is dropped now."""
    connection.executemany(
        "UPDATE replicas SET stage = 'left behind', cursor = NULL, feed = NULL WHERE name = ?",
        ((name,) for name in names),
    )


def names(connection: Connection) -> list[str]:
    """Every replica that was ever delivered to, whichever settings name it."""
    return [name for (name,) in connection.execute("SELECT name FROM replicas ORDER BY name")]


def are_followed(connection: Connection) -> bool:
    """Whether there is a replica that follows the primary, or is being given what to follow from."""
    found = connection.execute("SELECT 1 FROM replicas WHERE stage IN ('copying', 'following') LIMIT 1")
    return found.fetchone() is not None


def outbox_places(connection: Connection) -> dict[str, int]:
    """The number in the outbox up to which each replica has read that follows it, or will follow it once it has a copy,
    whichever settings name it."""
    rows = connection.execute(
        "SELECT name, iif(stage = 'copying', feed, cursor) FROM replicas WHERE stage IN ('copying', 'following')"
    )
    places = ((name, outbox_number(place)) for name, place in rows)
    return {name: number for name, number in places if number is not None}


def sent(connection: Connection, replica: str, refs: Iterable[MemoryRef]) -> dict[MemoryRef, Sent]:
    """What a replica was given of these memories."""
    found = {}
    for ref in refs:
        row = connection.execute(
            "SELECT revision, hash, next_revision, next_hash FROM sent WHERE replica = ? AND owner = ? AND id = ?",
            (replica, ref.owner, ref.id),
        ).fetchone()
        if row is not None:
            found[ref] = Sent(revision=row[0], hash=row[1], next_revision=row[2], next_hash=row[3])
    return found


def note_sending(connection: Connection, replica: str, states: Mapping[MemoryRef, tuple[int, str]]) -> None:
    """Note what a replica is about to be given: revision and content hash, empty for a deletion."""
    connection.executemany(
        "INSERT INTO sent (replica, owner, id, next_revision, next_hash) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (replica, owner, id) DO UPDATE "
        "SET next_revision = excluded.next_revision, next_hash = excluded.next_hash",
        ((replica, ref.owner, ref.id, revision, hash) for ref, (revision, hash) in states.items()),
    )


def note_sent(connection: Connection, replica: str, states: Mapping[MemoryRef, tuple[int, str]]) -> None:
    """Note what a replica has by now."""
    connection.executemany(
        "INSERT OR REPLACE INTO sent (replica, owner, id, revision, hash) VALUES (?, ?, ?, ?, ?)",
        ((replica, ref.owner, ref.id, revision, hash) for ref, (revision, hash) in states.items()),
    )
