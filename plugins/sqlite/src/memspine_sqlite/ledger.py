"""Changes memories so that rows, keyword index, statistics, speakers, history, tombstones and feed always agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import attrs

from memspine_sqlite import keywords, speakers, sql
from memspine_sqlite.filters import listed
from memspine_sqlite.rows import STATE, STATE_COUNT, STORED, STORED_WITHOUT_SPEAKER, State, Stored, json_object
from memspine_sqlite.transactions import Transaction

_INSERT = f"INSERT INTO memories ({STORED}) VALUES (?, ?, ?, ?, ?, ?, {', '.join('?' * STATE_COUNT)})"
_UPDATE = (
    "UPDATE memories SET terms = ?, checksum = ?, asks = ?, speaker = ?, "
    f"({STATE}) = ({', '.join('?' * STATE_COUNT)}) WHERE row = ?"
)
_KEEP = (
    f"INSERT INTO history (owner, replaced_at, deleted, {STATE}) "
    f"SELECT owner, ?, ?, {STATE} FROM memories WHERE row = ?"
)
_BURY = "INSERT OR REPLACE INTO tombstones (owner, id, revision, deleted_at) VALUES (?, ?, ?, ?)"
_APPEND = "INSERT INTO changes (owner, id, revision, deleted, changed_at) VALUES (?, ?, ?, ?, ?)"

# Enough to write together; more would only wait in memory.
_HELD_BACK_MAX = 200


@attrs.define
class _Balance:
    documents: int = 0
    length: int = 0


class _New(NamedTuple):
    row: int
    owner: int
    state: State
    entry: keywords.Entry
    voice: keywords.Voice
    at: int


class Ledger:
    """The changes of one transaction. As a context manager it writes the statistics when all went well.

    New memories are held back and written together, which is most of the speed of a batch; everything else is done at
    once, behind what was held back.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection
        self._tokens = transaction.tokens
        self._stored = STORED if transaction.has_speakers else STORED_WITHOUT_SPEAKER
        self._balances: dict[int, _Balance] = {}
        self._spoken: speakers.Spoken = Counter()
        self._has_tombstones: dict[int, bool] = {}
        self._new: list[_New] = []
        self._names: set[tuple[int, str, str]] = set()
        self._absent: set[tuple[int, str, str]] = set()
        self._next_row = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._write_new()
            self._connection.executemany(
                "UPDATE owners SET documents = documents + ?, total_length = total_length + ? WHERE number = ?",
                [(balance.documents, balance.length, owner) for owner, balance in self._balances.items()],
            )
            speakers.change(self._connection, self._spoken)

    # ── finding ──

    def owner(self, name: str) -> int:
        """The number of an owner, who is made known if need be."""
        # Most owners have no tombstone, and every new memory would ask for one.
        found = sql.first(
            self._connection,
            "SELECT number, EXISTS (SELECT 1 FROM tombstones WHERE owner = number) FROM owners WHERE name = ?",
            (name,),
        )
        if found is None:
            self._connection.execute("INSERT INTO owners (name) VALUES (?)", (name,))
            found = (self._connection.last_insert_rowid(), False)
        number, has_tombstones = found
        self._has_tombstones.setdefault(number, bool(has_tombstones))
        return int(number)

    def look_up(self, owner: int, ids: Sequence[str], keys: Sequence[str]) -> None:
        """Find out in two steps which ids and keys of a batch are not there, which is what most are."""
        for column, names in (("id", ids), ("key", [key for key in keys if key])):
            if names:
                found = sql.rows(
                    self._connection,
                    f"SELECT {column} FROM memories WHERE owner = ? AND {column} != '' "
                    f"AND {column} IN (SELECT value FROM json_each(?))",
                    (owner, listed(names)),
                )
                present = {name for (name,) in found}
                self._absent.update((owner, column, name) for name in names if name not in present)

    def find(self, owner: int, id: str) -> Stored | None:
        """The row of an id, expired or not."""
        return self._found("id", owner, id, f"SELECT {self._stored} FROM memories WHERE owner = ? AND id = ?")

    def find_key(self, owner: int, key: str) -> Stored | None:
        """The row that holds a key, expired or not; None for the empty key."""
        if not key:
            return None
        return self._found(
            "key", owner, key, f"SELECT {self._stored} FROM memories WHERE owner = ? AND key = ? AND key != ''"
        )

    def row(self, row: int) -> Stored:
        """The memory of a row that is known to be there."""
        (found,) = sql.rows(self._connection, f"SELECT {self._stored} FROM memories WHERE row = ?", (row,))
        return Stored.of(found)

    def tombstone(self, owner: int, id: str) -> int | None:
        """The revision of the tombstone of an id."""
        if not self._may_have_tombstones(owner):
            return None
        found = self._connection.execute(
            "SELECT revision FROM tombstones WHERE owner = ? AND id = ?", (owner, id)
        ).fetchone()
        return None if found is None else int(found[0])

    # ── changing ──

    def insert(self, owner: int, state: State, *, metadata: Mapping[str, Any], at: int) -> None:
        """Store a memory that is not there; its tombstone goes."""
        entry, voice = self._tokens.entry(owner, state, metadata=metadata), self._tokens.voice(state.content, metadata)
        if not self._next_row:
            self._next_row = sql.value(self._connection, "SELECT coalesce(max(row), 0) + 1 FROM memories")
        self._new.append(_New(self._next_row, owner, state, entry, voice, at))
        self._next_row += 1
        self._name(owner, "id", state.id)
        if state.key:
            self._name(owner, "key", state.key)
        self._count(owner, documents=1, length=entry.terms)
        self._spoken[owner, voice.speaker] += 1
        if len(self._new) >= _HELD_BACK_MAX:
            self._write_new()

    def replace(self, old: Stored, state: State, *, metadata: Mapping[str, Any], at: int) -> None:
        """Store another state of a memory; the one before it becomes history."""
        self._write_new()
        self._connection.execute(_KEEP, (at, 0, old.row))
        self._overwrite(old, state, metadata=metadata, at=at)

    def restart(self, old: Stored, state: State, *, metadata: Mapping[str, Any], at: int) -> None:
        """Store a new memory in place of an expired one, of which nothing is kept."""
        self._write_new()
        self._forget(old)
        self._overwrite(old, state, metadata=metadata, at=at)

    def delete(self, old: Stored, *, revision: int, at: int) -> None:
        """Delete a memory: its last state becomes history, and a tombstone stays."""
        self._write_new()
        self._connection.execute(_KEEP, (at, 1, old.row))
        self._take_out(old)
        self.bury(old.owner, old.state.id, revision=revision, at=at)

    def bury(self, owner: int, id: str, *, revision: int, at: int) -> None:
        """Keep a tombstone."""
        self._write_new()
        self._has_tombstones[owner] = True
        self._connection.execute(_BURY, (owner, id, revision, at))
        self._append(owner, id, revision, deleted=True, at=at)

    def drop(self, old: Stored) -> None:
        """Remove an expired memory with its history, without a tombstone."""
        self._forget(old)
        self._take_out(old)

    def erase(self, owner: int, id: str, *, old: Stored | None, at: int) -> None:
        """Remove a memory, if it is still there, and its history; a tombstone stays."""
        if old is not None:
            self._take_out(old)
            self.bury(owner, id, revision=old.state.revision + 1, at=at)
        elif self.tombstone(owner, id) is None:
            self._connection.execute(
                "INSERT INTO tombstones (owner, id, revision, deleted_at) "
                "SELECT owner, id, max(revision) + 1, ? FROM history WHERE owner = ? AND id = ?",
                (at, owner, id),
            )
        self._connection.execute("DELETE FROM history WHERE owner = ? AND id = ?", (owner, id))

    # ── parts ──

    def _name(self, owner: int, column: str, name: str) -> None:
        taken = (owner, column, name)
        self._names.add(taken)
        self._absent.discard(taken)

    def _found(self, column: str, owner: int, name: str, statement: str) -> Stored | None:
        if (owner, column, name) in self._absent:
            return None
        if (owner, column, name) in self._names:
            self._write_new()
        found = sql.first(self._connection, statement, (owner, name))
        return None if found is None else Stored.of(found)

    def _write_new(self) -> None:
        if not self._new:
            return
        new, self._new = self._new, []
        self._names.clear()
        self._connection.executemany(
            _INSERT, [(one.row, one.owner, one.entry.terms, one.entry.checksum, *one.voice, *one.state) for one in new]
        )
        keywords.add(self._connection, [(one.row, one.entry) for one in new])
        self._connection.executemany(
            "DELETE FROM tombstones WHERE owner = ? AND id = ?",
            [(one.owner, one.state.id) for one in new if self._may_have_tombstones(one.owner)],
        )
        self._connection.executemany(_APPEND, [(one.owner, one.state.id, one.state.revision, 0, one.at) for one in new])

    def _overwrite(self, old: Stored, state: State, *, metadata: Mapping[str, Any], at: int) -> None:
        self._absent.discard((old.owner, "key", state.key))
        terms, checksum = old.terms, old.checksum
        if not self._same_words(old.state, state, metadata):
            entry = self._tokens.entry(old.owner, state, metadata=metadata)
            self._unindex(old)
            keywords.add(self._connection, [(old.row, entry)])
            self._count(old.owner, documents=0, length=entry.terms - old.terms)
            terms, checksum = entry.terms, entry.checksum
        voice = self._tokens.voice(state.content, metadata)
        self._spoken[old.owner, old.speaker] -= 1
        self._spoken[old.owner, voice.speaker] += 1
        self._connection.execute(_UPDATE, (terms, checksum, *voice, *state, old.row))
        self._append(old.owner, state.id, state.revision, deleted=False, at=at)

    def _same_words(self, old: State, new: State, metadata: Mapping[str, Any]) -> bool:
        return (old.content, old.key, old.created_at) == (new.content, new.key, new.created_at) and (
            old.metadata == new.metadata or json_object(old.metadata).get("speaker") == metadata.get("speaker")
        )

    def _take_out(self, old: Stored) -> None:
        self._unindex(old)
        self._connection.execute("DELETE FROM memories WHERE row = ?", (old.row,))
        self._count(old.owner, documents=-1, length=-old.terms)
        self._spoken[old.owner, old.speaker] -= 1

    def _unindex(self, old: Stored) -> None:
        state = old.state
        metadata = json_object(state.metadata)
        keywords.remove(
            self._connection,
            owner=old.owner,
            row=old.row,
            stored=keywords.Entry("", old.terms, old.checksum),
            computed=self._tokens.entry(old.owner, state, metadata=metadata),
        )

    def _forget(self, old: Stored) -> None:
        self._connection.execute("DELETE FROM history WHERE owner = ? AND id = ?", (old.owner, old.state.id))

    def _append(self, owner: int, id: str, revision: int, *, deleted: bool, at: int) -> None:
        self._connection.execute(_APPEND, (owner, id, revision, int(deleted), at))

    def _count(self, owner: int, *, documents: int, length: int) -> None:
        balance = self._balances.setdefault(owner, _Balance())
        balance.documents += documents
        balance.length += length

    def _may_have_tombstones(self, owner: int) -> bool:
        return self._has_tombstones.get(owner, True)
