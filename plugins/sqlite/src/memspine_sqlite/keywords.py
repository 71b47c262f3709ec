"""The keyword index: what it holds of a memory, and how it is kept in step with the rows.

A token of the index is the owner's number and a keyed hash of the term. The owner in front makes posting lists the
owner's own: what others store costs nothing and changes nothing. The hash keeps words out of the index's pages, where
the beginnings of some outlive what they were taken from (FTS5 leaves them in its table of pages until a merge).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import apsw

from memspine.ranking import length_code
from memspine.text import asks, memory_terms, speaker_of, speaker_terms
from memspine.times import from_milliseconds
from memspine_sqlite import sql
from memspine_sqlite.rows import STATE, State, json_object
from memspine_sqlite.tables import MEMORIES, Tables

# A token takes 5 bits of each byte of a hash: 60 bits, so that no two words of a store are mistaken for each other.
TOKEN_LENGTH: Final = 12
_ALPHABET = b"abcdefghijklmnopqrstuvwxyz012345" * 8
_CACHED_TOKENS = 1 << 15
_CACHED_SPEAKERS = 1 << 10
# Taking one document out costs about as much as merging this many: from there on all segments are merged instead.
_MERGED_PER_REMOVAL = 250
_MERGES_MAX = 8


class Entry(NamedTuple):
    """What the index holds of one memory: its tokens as text, how many, and a checksum of them."""

    text: str
    terms: int
    checksum: int


class Voice(NamedTuple):
    """The columns that say whether a memory asks something, and the terms of its speaker's name as tokens."""

    asks: int
    speaker: str


class _Cache(dict[str, str]):
    """Tokens by term. Words repeat, and looking one up in a plain dictionary is several times faster than hashing."""

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._keyed = hashlib.blake2b(key=secret, digest_size=TOKEN_LENGTH)

    def __missing__(self, term: str) -> str:
        if len(self) >= _CACHED_TOKENS:
            self.clear()
        hashed = self._keyed.copy()
        hashed.update(term.encode())
        token = self[term] = hashed.digest().translate(_ALPHABET).decode()
        return token


class Tokens:
    """Turns terms into the tokens of one store."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._token = _Cache(secret).__getitem__
        self._speakers: dict[str, str] = {}

    def token(self, owner: int, term: str) -> str:
        """The token of one term of an owner. Hexadecimal digits end before the z, so no two owners share one."""
        return f"{owner:x}z{self._token(term)}"

    def hashed(self, term: str) -> str:
        """The token of a term where the owner stands beside it."""
        return self._token(term)

    def voice(self, content: str, metadata: Mapping[str, Any]) -> Voice:
        """Whether a memory asks something, and who said it."""
        name = speaker_of(metadata)
        speaker = self._speakers.get(name)
        if speaker is None:
            if len(self._speakers) >= _CACHED_SPEAKERS:
                self._speakers.clear()
            speaker = self._speakers[name] = " ".join(sorted(map(self._token, speaker_terms(metadata))))
        return Voice(int(asks(content)), speaker)

    def entry(self, owner: int, state: State, *, metadata: Mapping[str, Any]) -> Entry:
        """What the index has to hold of a memory."""
        created = from_milliseconds(state.created_at)
        terms = memory_terms(state.content, key=state.key, metadata=metadata, created_at=created)
        if not terms:
            return Entry("", 0, 0)
        prefix = f"{owner:x}z"
        text = prefix + f" {prefix}".join(map(self._token, terms))
        return Entry(text, len(terms), zlib.crc32(text.encode()))


def document(row: int, terms: int) -> int:
    """The number of a row in the index: its last 8 bits are the code of its length, as ranking wants it."""
    return row << 8 | length_code(terms)


def add(connection: apsw.Connection, entries: Iterable[tuple[int, Entry]], *, table: str = MEMORIES.keywords) -> None:
    """Put rows into the index."""
    connection.executemany(
        f"INSERT INTO {table} (rowid, terms) VALUES (?, ?)",
        [(document(row, entry.terms), entry.text) for row, entry in entries if entry.terms],
    )


def remove(connection: apsw.Connection, *, owner: int, row: int, stored: Entry, computed: Entry) -> None:
    """Take a row out of the index.

    The index wants to be told what it holds. `stored` has no text, only its number and checksum; when `computed`
    differs (another release of Python or of the stemmer wrote the row), the tokens are read from the index itself.
    """
    if not stored.terms:
        return
    number = document(row, stored.terms)
    text = computed.text
    if (computed.terms, computed.checksum) != (stored.terms, stored.checksum):
        text = _held(connection, owner, number)
    connection.execute("INSERT INTO keywords (keywords, rowid, terms) VALUES ('delete', ?, ?)", (number, text))


def _held(connection: apsw.Connection, owner: int, number: int) -> str:
    """The tokens that the index holds of a document, in their order."""
    found = sql.rows(
        connection,
        'SELECT term FROM vocabulary WHERE term >= ? AND term < ? AND doc = ? ORDER BY "offset"',
        (f"{owner:x}z", f"{owner:x}{{", number),
    )
    return " ".join(term for (term,) in found)


@contextmanager
def removing(connection: apsw.Connection, count: int, *, tables: Tables = MEMORIES) -> Iterator[None]:
    """Take `count` rows out of the index inside: one by one, or in a way that costs less for many."""
    held = sql.value(connection, f"SELECT coalesce(sum(documents), 0) FROM {tables.owners}")
    if count * _MERGED_PER_REMOVAL < held or not count:
        yield
        return
    # Deletions are only noted, and one merge of all segments carries them out.
    table = tables.keywords
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 0)")
    yield
    merge(connection, table=table)
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('secure-delete', 1)")


def merge(connection: apsw.Connection, *, table: str = MEMORIES.keywords) -> None:
    """Write the index anew in one segment, so that nothing of what was deleted is left in it."""
    for _ in range(_MERGES_MAX):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        if sql.value(connection, f"SELECT count(DISTINCT segid) FROM {table}_idx") < 2:
            return
    raise apsw.CorruptError("the segments of the keyword index cannot be merged")


def documents_text(connection: apsw.Connection, token: str, *, vocabulary: str = MEMORIES.vocabulary) -> str:
    """The documents that hold a token, each as often as it does, as a JSON list."""
    # One text for a whole posting list is a third faster than one row for each posting.
    found: str = sql.value(connection, f"SELECT json_group_array(doc) FROM {vocabulary} WHERE term = ?", (token,))
    return found


def clear(connection: apsw.Connection) -> None:
    """Empty the index."""
    connection.execute("INSERT INTO keywords (keywords) VALUES ('delete-all')")


def rebuild(connection: apsw.Connection, tokens: Tokens, *, batch: int = 5000) -> None:
    """Make the index, what rows say of it, and the statistics of every owner anew from the rows."""
    clear(connection)
    last = 0
    while rows := sql.rows(
        connection,
        f"SELECT row, owner, {STATE} FROM memories WHERE row > ? ORDER BY row LIMIT ?",
        (last, batch),
    ):
        states = ((row, owner, State(*columns)) for row, owner, *columns in rows)
        entries = [
            (row, tokens.entry(owner, state, metadata=json_object(state.metadata))) for row, owner, state in states
        ]
        _store(connection, entries)
        last = entries[-1][0]
    connection.execute(
        "UPDATE owners SET documents = (SELECT count(*) FROM memories WHERE owner = number), "
        "total_length = (SELECT coalesce(sum(terms), 0) FROM memories WHERE owner = number)"
    )


def _store(connection: apsw.Connection, entries: Sequence[tuple[int, Entry]]) -> None:
    connection.executemany(
        "UPDATE memories SET terms = ?, checksum = ? WHERE row = ?",
        [(entry.terms, entry.checksum, row) for row, entry in entries],
    )
    add(connection, entries)
