"""The tables of a journal. Times are milliseconds since 1970 (`memspine.times`)."""

from __future__ import annotations

from typing import Final

from memspine import times

APPLICATION_ID: Final = 0x6D736A6C
VERSION: Final = 1

# chain, replicas: `store` is the mark of a store (`memspine.config.StoreIdentity`), `place` how a person knows it.
# outbox: a change that is only begun has no `settled_at`, one that is settled no `begun_at`.
# purges: what the primary was about to purge, an empty id meaning all of the owner.
# entries: `unit` is the number of the first of several writes that are done together or not at all; 0 stands alone.
# sent: what a replica was last given (`revision` NULL: nothing yet; `hash` empty: a deletion), and what it is being
# given, which may have arrived or not.
# tombstones: `is_begun` counts those who have begun to delete it and did not say what came of it; `back_at` is the end
# of the outbox when a memory without known revisions was there again.
STATEMENTS: Final = (
    "CREATE TABLE chain (primary_name TEXT NOT NULL, plugin TEXT NOT NULL, store TEXT NOT NULL, place TEXT NOT NULL)",
    """CREATE TABLE entries (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        operation TEXT NOT NULL,
        replica TEXT NOT NULL,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        body TEXT NOT NULL,
        noted_at INTEGER NOT NULL,
        is_tried INTEGER NOT NULL DEFAULT 0,
        unit INTEGER NOT NULL DEFAULT 0,
        attempts INTEGER NOT NULL DEFAULT 0,
        next_attempt_at INTEGER,
        error TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX entries_of_memory ON entries (owner, id)",
    "CREATE INDEX entries_by_state ON entries (kind, state, number)",
    "CREATE UNIQUE INDEX deliveries ON entries (replica, owner, id, operation) WHERE kind = 'delivery'",
    """CREATE TABLE outbox (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        begun_at INTEGER,
        settled_at INTEGER
    )""",
    "CREATE INDEX outbox_settled ON outbox (settled_at)",
    """CREATE TABLE tombstones (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        revision INTEGER,
        deleted_at INTEGER NOT NULL,
        is_begun INTEGER NOT NULL,
        back_at INTEGER,
        PRIMARY KEY (owner, id)
    ) WITHOUT ROWID""",
    """CREATE TABLE purges (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        begun_at INTEGER NOT NULL,
        PRIMARY KEY (owner, id)
    ) WITHOUT ROWID""",
    """CREATE TABLE replicas (
        name TEXT PRIMARY KEY,
        store TEXT NOT NULL DEFAULT '',
        stage TEXT NOT NULL,
        cursor TEXT,
        feed TEXT,
        attempts INTEGER NOT NULL DEFAULT 0,
        next_attempt_at INTEGER,
        error TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID""",
    """CREATE TABLE sent (
        replica TEXT NOT NULL,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        revision INTEGER,
        hash TEXT NOT NULL DEFAULT '',
        next_revision INTEGER,
        next_hash TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (replica, owner, id)
    ) WITHOUT ROWID""",
)


def now_milliseconds() -> int:
    """The time now, as a journal keeps it."""
    return times.to_milliseconds(times.now())
