"""What spaces of terms hold: a keyword index of memories that are elsewhere, without any of their text.

It is built as the backend's (`keywords`), over tables of its own. What `owner` is there is here what one space holds of
one owner, `kept_owners`. A document keeps its tokens, because the index wants to be told them when it is taken out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import apsw

from memspine.contracts import TermRecord
from memspine.times import to_milliseconds
from memspine_sqlite import keywords, speakers, sql
from memspine_sqlite.filters import listed
from memspine_sqlite.keywords import TOKEN_LENGTH, Tokens
from memspine_sqlite.rows import LIVE, optional_milliseconds
from memspine_sqlite.tables import KEPT

_INSERT = (
    "INSERT INTO kept_documents "
    "(row, owner, id, revision, session, type, created_at, expires_at, terms, asks, speaker, tokens) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# In place, so that a memory stays where it stands among those of its moment.
_UPDATE = (
    "UPDATE kept_documents SET (id, revision, session, type, created_at, expires_at, terms, asks, speaker, tokens) = "
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE row = ?"
)


class Document(NamedTuple):
    """What is kept of a memory, without its place. `tokens` are all that it has of a term, one behind the other."""

    id: str
    revision: int
    session: str
    type: str
    created_at: int
    expires_at: int | None
    terms: int
    asks: int
    speaker: str
    tokens: str


class Held(NamedTuple):
    """What of a document it takes to replace it or to take it out."""

    row: int
    revision: int
    expires_at: int | None
    terms: int
    speaker: str
    tokens: str


# ── storing ──


def store(
    connection: apsw.Connection, tokens: Tokens, *, space: int, owner: int, records: Sequence[TermRecord]
) -> dict[str, int]:
    """Store the newest records of one owner, each of another memory; returns the revision that is then held of each."""
    number = _made(connection, space=space, owner=owner)
    held = _held(connection, number, [record.id for record in records])
    last = sql.value(connection, "SELECT coalesce(max(row), 0) FROM kept_documents")
    changes = _Changes(connection, number)
    for record in records:
        old = held.get(record.id)
        if old is None:
            last += 1
            changes.insert(last, _document(tokens, record))
        elif old.revision <= record.revision:
            changes.replace(old, _document(tokens, record))
    changes.write()
    kept = {id: old.revision for id, old in held.items()}
    return {record.id: max(record.revision, kept.get(record.id, 0)) for record in records}


def _document(tokens: Tokens, record: TermRecord) -> Document:
    hashed = [tokens.hashed(term) * count for term, count in record.terms.items()]
    text = "".join(hashed)
    return Document(
        id=record.id,
        revision=record.revision,
        session=record.session,
        type=record.type,
        created_at=to_milliseconds(record.created_at),
        expires_at=optional_milliseconds(record.expires_at),
        terms=len(text) // TOKEN_LENGTH,
        asks=int(record.asks),
        speaker=" ".join(sorted(map(tokens.hashed, record.speaker))),
        tokens=text,
    )


class _Changes:
    """Changes of what one space holds of one owner, written together."""

    def __init__(self, connection: apsw.Connection, number: int) -> None:
        self._connection = connection
        self._number = number
        self._inserted: list[tuple[int, Document]] = []
        self._updated: list[tuple[int, Document]] = []
        self._gone: list[Held] = []
        self._entries: list[tuple[int, keywords.Entry]] = []
        self._taken_out: list[Held] = []
        self._spoken: speakers.Spoken = Counter()
        self._length = 0

    def insert(self, row: int, document: Document) -> None:
        """Store a memory that is not there."""
        self._inserted.append((row, document))
        self._add(row, document)

    def replace(self, old: Held, document: Document) -> None:
        """Store another state of a memory."""
        self._updated.append((old.row, document))
        self._subtract(old, is_indexed=old.tokens != document.tokens)
        self._add(old.row, document, is_new=old.tokens != document.tokens)

    def remove(self, old: Held) -> None:
        """Take a memory out."""
        self._gone.append(old)
        self._subtract(old)

    def write(self) -> None:
        """Write all of it."""
        connection, number = self._connection, self._number
        self._write_index()
        connection.executemany(_INSERT, [(row, number, *document) for row, document in self._inserted])
        connection.executemany(_UPDATE, [(*document, row) for row, document in self._updated])
        connection.execute(
            "DELETE FROM kept_documents WHERE row IN (SELECT value FROM json_each(?))",
            (listed([old.row for old in self._gone]),),
        )
        connection.execute(
            "UPDATE kept_owners SET documents = documents + ?, total_length = total_length + ? WHERE number = ?",
            (len(self._inserted) - len(self._gone), self._length, number),
        )
        connection.execute("DELETE FROM kept_owners WHERE number = ? AND documents = 0", (number,))
        speakers.change(connection, self._spoken, table=KEPT.speakers)

    def _write_index(self) -> None:
        with keywords.removing(self._connection, len(self._gone), tables=KEPT):
            self._connection.executemany(
                f"INSERT INTO {KEPT.keywords} ({KEPT.keywords}, rowid, terms) VALUES ('delete', ?, ?)",
                [
                    (keywords.document(old.row, old.terms), self._text(old.tokens))
                    for old in self._taken_out
                    if old.terms
                ],
            )
        keywords.add(self._connection, self._entries, table=KEPT.keywords)

    def _add(self, row: int, document: Document, *, is_new: bool = True) -> None:
        if is_new:
            self._entries.append((row, keywords.Entry(self._text(document.tokens), document.terms, 0)))
        self._spoken[self._number, document.speaker] += 1
        self._length += document.terms

    def _subtract(self, old: Held, *, is_indexed: bool = True) -> None:
        if is_indexed:
            self._taken_out.append(old)
        self._spoken[self._number, old.speaker] -= 1
        self._length -= old.terms

    def _text(self, tokens: str) -> str:
        """What the index is told: the tokens of one owner in one space."""
        prefix = f"{self._number:x}z"
        return " ".join([prefix + tokens[n : n + TOKEN_LENGTH] for n in range(0, len(tokens), TOKEN_LENGTH)])


def _made(connection: apsw.Connection, *, space: int, owner: int) -> int:
    number = _number(connection, space=space, owner=owner)
    if number is None:
        connection.execute("INSERT INTO kept_owners (space, owner) VALUES (?, ?)", (space, owner))
        number = connection.last_insert_rowid()
    return number


def _number(connection: apsw.Connection, *, space: int, owner: int) -> int | None:
    found: int | None = sql.value(
        connection, "SELECT number FROM kept_owners WHERE owner = ? AND space = ?", (owner, space)
    )
    return found


def _numbers(connection: apsw.Connection, owner: int) -> list[int]:
    found = sql.rows(connection, "SELECT number FROM kept_owners WHERE owner = ?", (owner,))
    return [number for (number,) in found]


def _held(connection: apsw.Connection, number: int, ids: Iterable[str]) -> dict[str, Held]:
    """What is held of each of these ids."""
    found = sql.rows(
        connection,
        "SELECT d.id, d.row, d.revision, d.expires_at, d.terms, d.speaker, d.tokens "
        "FROM json_each(?) AS j CROSS JOIN kept_documents AS d WHERE d.owner = ? AND d.id = j.value",
        (listed(list(ids)), number),
    )
    return {id: Held(*columns) for id, *columns in found}


# ── removing ──


def remove(connection: apsw.Connection, owner: int, ids: Sequence[str]) -> set[str]:
    """Remove memories of an owner from every space; returns those that were there."""
    return _removed(connection, owner, ids, at=None)


def remove_old(connection: apsw.Connection, *, space: int, owner: int, revisions: Mapping[str, int]) -> None:
    """Remove from one space what it holds of memories at these revisions or older ones."""
    number = _number(connection, space=space, owner=owner)
    if number is not None:
        held = _held(connection, number, revisions)
        _take_out(connection, number, {id: one for id, one in held.items() if one.revision <= revisions[id]})


def expire(connection: apsw.Connection, owner: int, ids: Sequence[str], *, at: int) -> None:
    """Remove memories of an owner from every space in which they have expired."""
    _removed(connection, owner, ids, at=at)


def _removed(connection: apsw.Connection, owner: int, ids: Sequence[str], *, at: int | None) -> set[str]:
    removed: set[str] = set()
    for number in _numbers(connection, owner):
        held = _held(connection, number, ids)
        gone = {
            id: one for id, one in held.items() if at is None or (one.expires_at is not None and one.expires_at <= at)
        }
        _take_out(connection, number, gone)
        removed.update(gone)
    return removed


def _take_out(connection: apsw.Connection, number: int, gone: Mapping[str, Held]) -> None:
    if gone:
        changes = _Changes(connection, number)
        for old in gone.values():
            changes.remove(old)
        changes.write()


def clear(connection: apsw.Connection, space: int) -> None:
    """Remove all that a space holds."""
    for (number,) in sql.rows(connection, "SELECT number FROM kept_owners WHERE space = ?", (space,)):
        found = sql.rows(connection, "SELECT id FROM kept_documents WHERE owner = ?", (number,))
        _take_out(connection, number, _held(connection, number, [id for (id,) in found]))


# ── finding ──


def revisions(connection: apsw.Connection, *, space: int, owner: int, ids: Sequence[str]) -> dict[str, int]:
    """The revisions of those of the ids that a space holds."""
    number = _number(connection, space=space, owner=owner)
    if number is None:
        return {}
    found = sql.rows(
        connection,
        "SELECT d.id, d.revision FROM json_each(?) AS j CROSS JOIN kept_documents AS d "
        "WHERE d.owner = ? AND d.id = j.value",
        (listed(list(ids)), number),
    )
    return dict(found)


def ids(connection: apsw.Connection, owner: int, *, session: str | None) -> list[str]:
    """The memories of an owner that any space holds, in a session if it is given."""
    inside, values = ("", ()) if session is None else (" AND session = ?", (session,))
    found: dict[str, None] = {}
    for number in _numbers(connection, owner):
        statement = f"SELECT id FROM kept_documents WHERE owner = ?{inside}"
        found.update((id, None) for (id,) in sql.rows(connection, statement, (number, *values)))
    return list(found)


def expired(connection: apsw.Connection, at: int, *, limit: int) -> list[tuple[int, int, str]]:
    """Expiry, owner and id of documents that have expired, those that expired first."""
    found = sql.rows(
        connection,
        "SELECT d.expires_at, k.owner, d.id FROM kept_documents AS d JOIN kept_owners AS k ON k.number = d.owner "
        "WHERE d.expires_at <= ? ORDER BY d.expires_at LIMIT ?",
        (at, limit),
    )
    return [(expires, owner, id) for expires, owner, id in found]


def count(
    connection: apsw.Connection, space: int, *, at: int, owner: int | None = None, session: str | None = None
) -> int:
    """How many memories that are alive a space holds, of an owner and in a session if they are given."""
    if owner is None:
        inside = "owner IN (SELECT number FROM kept_owners WHERE space = ?)"
        held = sql.value(connection, "SELECT coalesce(sum(documents), 0) FROM kept_owners WHERE space = ?", (space,))
        dead = sql.value(
            connection, f"SELECT count(*) FROM kept_documents WHERE expires_at <= ? AND {inside}", (at, space)
        )
        return int(held - dead)
    number = _number(connection, space=space, owner=owner)
    if number is None:
        return 0
    if session is not None:
        statement = f"SELECT count(*) FROM kept_documents WHERE owner = ? AND session = ? AND {LIVE}"
        return int(sql.value(connection, statement, (number, session, at)))
    held = sql.value(connection, "SELECT documents FROM kept_owners WHERE number = ?", (number,))
    dead = sql.value(
        connection, "SELECT count(*) FROM kept_documents WHERE owner = ? AND expires_at <= ?", (number, at)
    )
    return int(held - dead)


def problems(connection: apsw.Connection) -> list[str]:
    """What a check finds wrong: whether index, statistics and speakers agree with the documents."""
    held, stored = (
        sql.value(connection, statement)
        for statement in (
            "SELECT count(*) FROM kept_vocabulary",
            "SELECT coalesce(sum(terms), 0) FROM kept_documents",
        )
    )
    found = [] if held == stored else [f"the kept keyword index holds {held} tokens, its documents have {stored}"]
    wrong = sql.value(
        connection,
        "SELECT count(*) FROM kept_owners AS k LEFT JOIN "
        "(SELECT owner, count(*) AS documents, sum(terms) AS length FROM kept_documents GROUP BY owner) AS c "
        "ON c.owner = k.number WHERE k.documents IS NOT c.documents OR k.total_length IS NOT c.length",
    )
    found += [f"the statistics of {wrong} owners do not agree with the kept documents"] if wrong else []
    if speakers.wrong_numbers(connection, KEPT):
        found.append("the counts of speakers do not agree with the kept documents")
    return found
