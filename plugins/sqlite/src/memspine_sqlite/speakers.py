"""Who said the memories of an owner: the terms of their names as keyed hashes, and how many memories have each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import apsw

from memspine.model import Scope
from memspine.times import to_milliseconds
from memspine_sqlite import sql
from memspine_sqlite.filters import listed
from memspine_sqlite.keywords import Tokens
from memspine_sqlite.rows import json_object
from memspine_sqlite.tables import MEMORIES, Tables
from memspine_sqlite.transactions import Transaction

_ADD = (
    "INSERT INTO {table} (owner, token, memories) VALUES (?, ?, ?) "
    "ON CONFLICT (owner, token) DO UPDATE SET memories = memories + excluded.memories"
)
_BATCH = 5000

Spoken = Counter[tuple[int, str]]
"""How many memories more, or fewer, an owner has by a speaker, as the column `speaker` has him."""


def known(transaction: Transaction, terms: Sequence[str], *, scope: Scope, now: datetime) -> frozenset[str]:
    """Those of the terms that are in the name of the speaker of a memory that is alive."""
    connection = transaction.connection
    term_of = {transaction.tokens.hashed(term): term for term in terms}
    found: set[str] = set()
    tables = transaction.tables
    for name in scope.require_readable("speakers"):
        known = tables.owner(connection, name)
        if known is None:
            continue
        owner = known[0]
        held = dict(
            sql.rows(
                connection,
                f"SELECT token, memories FROM {tables.speakers} "
                "WHERE owner = ? AND token IN (SELECT value FROM json_each(?))",
                (owner, listed(list(term_of))),
            )
        )
        dead = _expired(connection, tables, owner, to_milliseconds(now)) if held else {}
        found.update(token for token, memories in held.items() if memories > dead.get(token, 0))
    return frozenset(term_of[token] for token in found)


def _expired(connection: apsw.Connection, tables: Tables, owner: int, at: int) -> Counter[str]:
    """How many memories of each token have expired and were not swept yet."""
    statement = f"SELECT speaker FROM {tables.documents} WHERE owner = ? AND expires_at <= ?"
    return Counter(token for (speaker,) in sql.rows(connection, statement, (owner, at)) for token in speaker.split())


def change(connection: apsw.Connection, spoken: Spoken, *, table: str = MEMORIES.speakers) -> None:
    """Add to the counts; what reaches 0 goes."""
    changes = _by_token(spoken)
    connection.executemany(_ADD.format(table=table), [(*place, count) for place, count in changes.items() if count])
    connection.executemany(
        f"DELETE FROM {table} WHERE owner = ? AND token = ? AND memories = 0",
        [place for place, count in changes.items() if count < 0],
    )


def recount(connection: apsw.Connection) -> None:
    """Make the counts anew from the rows."""
    connection.execute("DELETE FROM speakers")
    change(connection, _spoken(connection, MEMORIES))


def read_rows(connection: apsw.Connection, tokens: Tokens) -> None:
    """Fill the columns `asks` and `speaker` of all rows, and the counts, from metadata and content."""
    last = 0
    while rows := sql.rows(
        connection, "SELECT row, metadata, content FROM memories WHERE row > ? ORDER BY row LIMIT ?", (last, _BATCH)
    ):
        connection.executemany(
            "UPDATE memories SET asks = ?, speaker = ? WHERE row = ?",
            [(*tokens.voice(content, json_object(metadata)), row) for row, metadata, content in rows],
        )
        last = rows[-1][0]
    recount(connection)


def wrong_owners(connection: apsw.Connection) -> Iterable[str]:
    """The names of owners whose counts do not agree with their rows."""
    owners = wrong_numbers(connection, MEMORIES)
    return [name for number, name in connection.execute("SELECT number, name FROM owners") if number in owners]


def wrong_numbers(connection: apsw.Connection, tables: Tables) -> set[int]:
    """The owners, by number, whose counts do not agree with their rows."""
    counted = connection.execute(f"SELECT owner, token, memories FROM {tables.speakers}")
    held = {(owner, token): n for owner, token, n in counted}
    return {owner for (owner, _), _ in held.items() ^ _by_token(_spoken(connection, tables)).items()}


def _spoken(connection: apsw.Connection, tables: Tables) -> Spoken:
    counted = connection.execute(
        f"SELECT owner, speaker, count(*) FROM {tables.documents} WHERE speaker != '' GROUP BY owner, speaker"
    )
    return Counter({(owner, speaker): count for owner, speaker, count in counted})


def _by_token(spoken: Spoken) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    for (owner, speaker), count in spoken.items():
        for token in speaker.split():
            counts[owner, token] += count
    return counts
