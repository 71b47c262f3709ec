"""The tables of a store, as an ordered list of steps from an empty file to the current version."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import apsw
import attrs

from memspine_sqlite import sql

APPLICATION_ID: Final = 0x6D73_706E
"""Marks the file as a store of memspine ("mspn"), so that no other program's database is taken for one."""

PAGE_SIZE: Final = 8192


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
    "CREATE UNIQUE INDEX memories_id ON memories (owner, id)",
    "CREATE UNIQUE INDEX memories_key ON memories (owner, key) WHERE key != ''",
    # The type comes last in these two, so that a search of some types need not read the rows of the others.
    "CREATE INDEX memories_owner ON memories (owner, created_at, id, type)",
    "CREATE INDEX memories_session ON memories (owner, session, created_at, id, type)",
    "CREATE INDEX memories_created ON memories (created_at, id)",
    "CREATE INDEX memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX memories_owner_expiry ON memories (owner, expires_at) WHERE expires_at IS NOT NULL",
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


def _create(connection: apsw.Connection) -> None:
    for statement in _VERSION_1:
        connection.execute(statement)
    # The secret keeps the tokens of one store from telling anything about those of another.
    values = [("store", secrets.token_hex(8)), ("secret", secrets.token_hex(16)), ("trimmed", "0")]
    connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", values)


STEPS: Final = (Step(1, _create),)
"""Every version of the tables, oldest first."""


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
