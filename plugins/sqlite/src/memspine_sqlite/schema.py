"""The tables of a store, as an ordered list of steps from an empty file to the current version."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import apsw
import attrs

from memspine_sqlite import speakers, sql
from memspine_sqlite.keywords import Tokens
from memspine_sqlite.rows import STATE

APPLICATION_ID: Final = 0x6D73_706E
"""Marks the file as a store of memspine ("mspn"), so that no other program's database is taken for one."""

PAGE_SIZE: Final = 8192

WITH_SPEAKERS: Final = 2
"""The version from which on a store knows who said its memories. Before it was released there were some without all
of its tables."""


@attrs.frozen
class Step:
    """Brings a store from the version before to `version`, inside one transaction."""

    version: int
    apply: Callable[[apsw.Connection], None]


# Times are milliseconds since 1970, which sort from year 1 to 9999. Content is the last column, because reading a row
# then stops before its overflow pages wherever the content is not asked for.
_STATE = """
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    type TEXT NOT NULL,
    key TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    revision INTEGER NOT NULL,
    access_count INTEGER NOT NULL,
    last_accessed_at INTEGER,
    metadata TEXT NOT NULL,
    content TEXT NOT NULL
"""

_INDEXES = (
    "CREATE UNIQUE INDEX memories_id ON memories (owner, id)",
    "CREATE UNIQUE INDEX memories_key ON memories (owner, key) WHERE key != ''",
    # The type comes last in these two, so that a search of some types need not read the rows of the others.
    "CREATE INDEX memories_owner ON memories (owner, created_at, id, type)",
    "CREATE INDEX memories_session ON memories (owner, session, created_at, id, type)",
    "CREATE INDEX memories_created ON memories (created_at, id)",
    "CREATE INDEX memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX memories_owner_expiry ON memories (owner, expires_at) WHERE expires_at IS NOT NULL",
)

_VERSION_1 = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    # `partial` is the name a backup has while it is being written, empty when it is complete.
    "CREATE TABLE backups (path TEXT PRIMARY KEY, partial TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE owners (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        documents INTEGER NOT NULL DEFAULT 0,
        total_length INTEGER NOT NULL DEFAULT 0,
        trimmed INTEGER NOT NULL DEFAULT 0
    ) STRICT""",
    # `terms` and `checksum` say what the keyword index holds of a row, so that its entry can be taken out exactly.
    f"""CREATE TABLE memories (
        row INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        terms INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        {_STATE}
    ) STRICT""",
    *_INDEXES,
    f"""CREATE TABLE history (
        row INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        replaced_at INTEGER NOT NULL,
        deleted INTEGER NOT NULL,
        {_STATE}
    ) STRICT""",
    "CREATE INDEX history_id ON history (owner, id)",
    "CREATE INDEX history_replaced ON history (replaced_at)",
    """CREATE TABLE tombstones (
        owner INTEGER NOT NULL,
        id TEXT NOT NULL,
        revision INTEGER NOT NULL,
        deleted_at INTEGER NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX tombstones_deleted ON tombstones (deleted_at)",
    # AUTOINCREMENT, so that a number is never given twice, not even when the whole feed was trimmed.
    """CREATE TABLE changes (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        owner INTEGER NOT NULL,
        id TEXT NOT NULL,
        revision INTEGER NOT NULL,
        deleted INTEGER NOT NULL,
        changed_at INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX changes_owner ON changes (owner, sequence)",
    "CREATE INDEX changes_changed ON changes (changed_at)",
    # Contentless: the text is in `memories` alone. Without `contentless_delete`, which would only mark what is
    # deleted. Every character of a token is ASCII, see `keywords.Tokens`.
    "CREATE VIRTUAL TABLE keywords USING fts5(terms, content='', columnsize=0, tokenize='ascii')",
    # A deleted document leaves the index at once, not with the next merge of its segments.
    "INSERT INTO keywords (keywords, rank) VALUES ('secure-delete', 1)",
    "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(keywords, instance)",
)

_SPEAKERS = (
    # Made anew, because a column that is added stands behind the content.
    "ALTER TABLE memories RENAME TO memories_1",
    # `asks` and `speaker` are `keywords.Voice`.
    f"""CREATE TABLE memories (
        row INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        terms INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        asks INTEGER NOT NULL,
        speaker TEXT NOT NULL,
        {_STATE}
    ) STRICT""",
    f"INSERT INTO memories SELECT row, owner, terms, checksum, 0, '', {STATE} FROM memories_1 ORDER BY row",
    "DROP TABLE memories_1",
    *_INDEXES,
    "DROP INDEX memories_session",
    # The row stands before the type, so that what has the same time is in the order in which it came.
    "CREATE INDEX memories_session ON memories (owner, session, created_at, row, type)",
    # How many memories of an owner were said by somebody with this term in the name, expired ones included.
    """CREATE TABLE IF NOT EXISTS speakers (
        owner INTEGER NOT NULL,
        token TEXT NOT NULL,
        memories INTEGER NOT NULL,
        PRIMARY KEY (owner, token)
    ) STRICT, WITHOUT ROWID""",
)

# All of them only if they are not there, because of the versions 2 from before the release.
_VECTORS = (
    # AUTOINCREMENT wherever another process may remember a number: it is never given to something else.
    """CREATE TABLE IF NOT EXISTS spaces (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        identity TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        quantisation TEXT NOT NULL,
        chunk_tokens INTEGER NOT NULL,
        pieces TEXT NOT NULL,
        source TEXT NOT NULL,
        active INTEGER NOT NULL DEFAULT 0,
        complete INTEGER NOT NULL DEFAULT 0,
        used_at INTEGER NOT NULL,
        position TEXT NOT NULL DEFAULT ''
    ) STRICT""",
    # A shelf is what one space holds of one owner. Every transaction that changes it raises its version.
    """CREATE TABLE IF NOT EXISTS shelves (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        space INTEGER NOT NULL,
        owner INTEGER NOT NULL,
        chunks INTEGER NOT NULL DEFAULT 0,
        memories INTEGER NOT NULL DEFAULT 0,
        version INTEGER NOT NULL DEFAULT 0
    ) STRICT""",
    "CREATE UNIQUE INDEX IF NOT EXISTS shelves_owner ON shelves (owner, space)",
    # Which rows are a shelf's, as ranges: vectors that were stored together cost one row here instead of an index.
    """CREATE TABLE IF NOT EXISTS runs (
        shelf INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        PRIMARY KEY (shelf, first)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        owner INTEGER NOT NULL,
        name TEXT NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX IF NOT EXISTS sessions_name ON sessions (owner, name)",
    # `place` is a checksum of shelf and id, a quarter of the size of an index of ids. `first` is the row of the first
    # chunk of a memory, NULL in that row itself. The code, which is the largest, is the last column.
    """CREATE TABLE IF NOT EXISTS vectors (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        shelf INTEGER NOT NULL,
        place INTEGER NOT NULL,
        first INTEGER,
        chunk INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        session INTEGER NOT NULL,
        type INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        id TEXT NOT NULL,
        code BLOB NOT NULL
    ) STRICT""",
    "CREATE INDEX IF NOT EXISTS vectors_place ON vectors (place)",
    "CREATE INDEX IF NOT EXISTS vectors_expiry ON vectors (expires_at, shelf) WHERE expires_at IS NOT NULL",
    # The vectors that codes of one bit a number were made from, read only for the best candidates.
    "CREATE TABLE IF NOT EXISTS originals (row INTEGER PRIMARY KEY, vector BLOB NOT NULL) STRICT",
    # What of a code or an original did not fit its page, see `packing`.
    "CREATE TABLE IF NOT EXISTS rest_1 (row INTEGER PRIMARY KEY, piece BLOB NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS rest_2 (row INTEGER PRIMARY KEY, piece BLOB NOT NULL) STRICT",
    # `ready_at` is the later of `due_at` and `leased_until`. `failed` counts failures of the space, the last is the
    # highest.
    """CREATE TABLE IF NOT EXISTS queue (
        row INTEGER PRIMARY KEY,
        space INTEGER NOT NULL,
        owner INTEGER NOT NULL,
        id TEXT NOT NULL,
        revision INTEGER NOT NULL,
        holder TEXT NOT NULL DEFAULT '',
        ready_at INTEGER NOT NULL DEFAULT 0,
        due_at INTEGER NOT NULL DEFAULT 0,
        leased_until INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        failed INTEGER NOT NULL DEFAULT 0,
        reason TEXT NOT NULL DEFAULT ''
    ) STRICT""",
    "CREATE UNIQUE INDEX IF NOT EXISTS queue_id ON queue (owner, id, space)",
    "CREATE INDEX IF NOT EXISTS queue_ready ON queue (space, ready_at)",
    "CREATE INDEX IF NOT EXISTS queue_failed ON queue (space, due_at) WHERE failures > 0",
)

# The keyword index of memories that are elsewhere (`kept`), as far as it goes like that of `memories`.
_KEPT = (
    # What one space holds of one owner: the `owner` of the other tables.
    """CREATE TABLE IF NOT EXISTS kept_owners (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        space INTEGER NOT NULL,
        owner INTEGER NOT NULL,
        documents INTEGER NOT NULL DEFAULT 0,
        total_length INTEGER NOT NULL DEFAULT 0
    ) STRICT""",
    "CREATE UNIQUE INDEX IF NOT EXISTS kept_owners_owner ON kept_owners (owner, space)",
    """CREATE TABLE IF NOT EXISTS kept_documents (
        row INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        terms INTEGER NOT NULL,
        asks INTEGER NOT NULL,
        speaker TEXT NOT NULL,
        id TEXT NOT NULL,
        session TEXT NOT NULL,
        type TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        revision INTEGER NOT NULL,
        tokens TEXT NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX IF NOT EXISTS kept_documents_id ON kept_documents (owner, id)",
    "CREATE INDEX IF NOT EXISTS kept_documents_owner ON kept_documents (owner, created_at, type)",
    "CREATE INDEX IF NOT EXISTS kept_documents_session ON kept_documents (owner, session, created_at, row, type)",
    "CREATE INDEX IF NOT EXISTS kept_documents_expiry ON kept_documents (expires_at) WHERE expires_at IS NOT NULL",
    """CREATE INDEX IF NOT EXISTS kept_documents_owner_expiry ON kept_documents (owner, expires_at)
        WHERE expires_at IS NOT NULL""",
    """CREATE TABLE IF NOT EXISTS kept_speakers (
        owner INTEGER NOT NULL,
        token TEXT NOT NULL,
        memories INTEGER NOT NULL,
        PRIMARY KEY (owner, token)
    ) STRICT, WITHOUT ROWID""",
    "CREATE VIRTUAL TABLE IF NOT EXISTS kept_keywords USING fts5(terms, content='', columnsize=0, tokenize='ascii')",
    "INSERT INTO kept_keywords (kept_keywords, rank) VALUES ('secure-delete', 1)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS kept_vocabulary USING fts5vocab(kept_keywords, instance)",
)

_MARKS = (
    # A number that was given is given again once an older copy of the file was put back: the mark tells such rows
    # apart. It is no column that is added, because only a table that is made can have a default that is always new.
    "ALTER TABLE changes RENAME TO changes_2",
    """CREATE TABLE changes (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        owner INTEGER NOT NULL,
        id TEXT NOT NULL,
        revision INTEGER NOT NULL,
        deleted INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        mark INTEGER NOT NULL DEFAULT (random())
    ) STRICT""",
    """INSERT INTO changes (sequence, owner, id, revision, deleted, changed_at)
        SELECT sequence, owner, id, revision, deleted, changed_at FROM changes_2 ORDER BY sequence""",
    "DELETE FROM sqlite_sequence WHERE name = 'changes'",
    "INSERT INTO sqlite_sequence (name, seq) SELECT 'changes', seq FROM sqlite_sequence WHERE name = 'changes_2'",
    "DROP TABLE changes_2",
    "CREATE INDEX changes_owner ON changes (owner, sequence)",
    "CREATE INDEX changes_changed ON changes (changed_at)",
    # That of the last row which was trimmed.
    "ALTER TABLE owners ADD COLUMN trimmed_mark INTEGER NOT NULL DEFAULT 0",
)


def _create(connection: apsw.Connection) -> None:
    for statement in _VERSION_1:
        connection.execute(statement)
    # The secret keeps the tokens of one store from telling anything about those of another.
    values = [("store", secrets.token_hex(8)), ("secret", secrets.token_hex(16)), ("trimmed", "0")]
    connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", values)


def _add_vectors_and_speakers(connection: apsw.Connection) -> None:
    for statement in (*_VECTORS, *_KEPT, *_SPEAKERS):
        connection.execute(statement)
    speakers.read_rows(connection, Tokens(bytes.fromhex(meta(connection, "secret") or "")))


def _mark_changes(connection: apsw.Connection) -> None:
    for statement in _MARKS:
        connection.execute(statement)


STEPS: Final = (Step(1, _create), Step(WITH_SPEAKERS, _add_vectors_and_speakers), Step(3, _mark_changes))
"""Every version of the tables, oldest first."""


def has_speakers(connection: apsw.Connection) -> bool:
    """Whether a store knows who said its memories."""
    found = sql.value(connection, "SELECT 1 FROM pragma_table_info('memories') WHERE name = 'speaker'")
    return found is not None


def is_whole(connection: apsw.Connection) -> bool:
    """Whether a store of the newest version has all of its tables, as it has since the release."""
    return (
        has_speakers(connection)
        and sql.value(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'kept_documents'") is not None
    )


def meta(connection: apsw.Connection, name: str) -> str | None:
    """A value that the store keeps about itself."""
    found: str | None = sql.value(connection, "SELECT value FROM meta WHERE name = ?", (name,))
    return found


def set_meta(connection: apsw.Connection, name: str, value: str) -> None:
    """Keep a value about the store itself."""
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )
