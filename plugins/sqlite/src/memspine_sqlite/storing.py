"""Vectors of memories: storing, removing, expiring, erasing. One operation is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import apsw

from memspine.contracts import VectorRecord
from memspine.model import MemoryRef, MemoryType, Scope
from memspine.times import to_milliseconds
from memspine_sqlite import encoding, kept, packing, queueing, rows, shelves, spaces, sql
from memspine_sqlite.filters import listed
from memspine_sqlite.spaces import Layout
from memspine_sqlite.transactions import Transaction

TYPES = tuple(member.value for member in MemoryType)
"""Types by the number that rows have; -1 stands for any other."""

_INSERT = (
    "INSERT INTO vectors (row, shelf, place, first, chunk, revision, session, type, created_at, expires_at, id, code) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
Memories = dict[MemoryRef, list[VectorRecord]]


class _Chunk(NamedTuple):
    """The columns of a row that are not about where it is, and the vector beside it if the code is not all."""

    chunk: int
    revision: int
    session: int
    type: int
    created_at: int
    expires_at: int | None
    id: str
    code: bytes
    original: bytes | None


def upsert(
    transaction: Transaction, space_id: str, *, records: Sequence[VectorRecord], holder: str | None = None
) -> None:
    """Store the chunks of memories (of those that the queue has leased to the holder, if there is one), and take the
    memories out of the queue."""
    layout = spaces.layout(transaction, space_id)
    memories: Memories = {}
    vectors: dict[int, bytes] = {}
    for index, record in enumerate(records):
        vectors[id(record)] = encoding.checked(record.vector, dimension=layout.dimension, index=index)
        memories.setdefault(MemoryRef(record.owner, record.id), []).append(record)
    if holder is not None:
        leased = queueing.leased(transaction.connection, layout.number, memories, holder=holder)
        memories = {ref: chunks for ref, chunks in memories.items() if ref in leased}
    owners: dict[str, Memories] = {}
    for ref, chunks in memories.items():
        owners.setdefault(ref.owner, {})[ref] = chunks
    done: list[tuple[int, str, int]] = []
    for name, owned in owners.items():
        owner = rows.owner_made(transaction.connection, name)
        revisions = _Shelving(transaction.connection, layout, owner, vectors).store(owned)
        done += [(owner, ref.id, revision) for ref, revision in revisions.items()]
    queueing.settle(transaction.connection, layout.number, done)


class _Shelving:
    """Puts memories of one owner on a shelf."""

    def __init__(self, connection: apsw.Connection, layout: Layout, owner: int, vectors: Mapping[int, bytes]) -> None:
        self._connection = connection
        self._layout = layout
        self._owner = owner
        self._vectors = vectors
        self._sessions: dict[str, int] = {}
        self._new: list[list[_Chunk]] = []
        self._gone: list[int] = []
        self._replaced = 0

    def store(self, memories: Memories) -> dict[MemoryRef, int]:
        """Store them; returns the revision at which the shelf then holds each."""
        connection = self._connection
        shelf = shelves.make(connection, space=self._layout.number, owner=self._owner)
        held = shelves.held_rows(connection, shelf.number, [ref.id for ref in memories]) if shelf.chunks else {}
        revisions = {ref: self._take(records, held.get(ref.id, [])) for ref, records in memories.items()}
        if not self._new:
            return revisions
        if self._gone:
            shelves.remove(connection, shelf.number, self._gone)
        chunks = self._insert(shelf.number)
        shelves.change(
            connection,
            shelf.number,
            chunks=chunks - len(self._gone),
            memories=len(self._new) - self._replaced,
        )
        return revisions

    def _take(self, records: Sequence[VectorRecord], held: Sequence[shelves.Held]) -> int:
        """Decide what of a memory is stored and what goes; returns the revision it will be at."""
        revision = max(record.revision for record in records)
        old = held[0].revision if held else 0
        if old > revision:
            return old
        chunks = {record.chunk: self._chunk(record) for record in records if record.revision == revision}
        if old == revision:
            for one in held:
                if one.chunk not in chunks:
                    chunks[one.chunk] = self._kept(one, records[0].id)
        self._gone += [one.row for one in held]
        self._replaced += bool(held)
        self._new.append([chunks[number] for number in sorted(chunks)])
        return revision

    def _chunk(self, record: VectorRecord) -> _Chunk:
        vector = self._vectors[id(record)]
        quantisation = self._layout.quantisation
        expires = record.expires_at
        return _Chunk(
            record.chunk,
            record.revision,
            self._session(record.session),
            TYPES.index(record.type) if record.type in TYPES else -1,
            to_milliseconds(record.created_at),
            None if expires is None else to_milliseconds(expires),
            record.id,
            encoding.encoded(vector, quantisation),
            vector if quantisation == "binary" else None,
        )

    def _kept(self, one: shelves.Held, id: str) -> _Chunk:
        layout = self._layout
        code = sql.value(self._connection, f"SELECT {layout.code} FROM vectors AS v WHERE v.row = ?", (one.row,))
        original = None
        if layout.quantisation == "binary":
            statement = f"SELECT {layout.original} FROM originals AS o WHERE o.row = ?"
            original = sql.value(self._connection, statement, (one.row,))
        return _Chunk(*one[1:], id, code, original)

    def _session(self, name: str) -> int:
        number = self._sessions.get(name)
        if number is None:
            number = self._sessions[name] = session_made(self._connection, self._owner, name)
        return number

    def _insert(self, shelf: int) -> int:
        """Write the new rows; returns how many."""
        connection = self._connection
        start = sql.value(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'vectors'") or 0
        stored, originals, row = [], [], start
        rests: dict[str, list[tuple[int, bytes]]] = {table: [] for table in packing.TABLES}
        for chunks in self._new:
            first: int | None = None
            at = shelves.place(shelf, chunks[0].id)
            for *columns, code, original in chunks:
                row += 1
                head, *others = packing.cut(code if original is None else original, self._layout.pieces)
                stored.append((row, shelf, at, first, *columns, head if original is None else code))
                first = first or row
                if original is not None:
                    originals.append((row, head))
                for table, piece in zip(packing.TABLES, others, strict=False):
                    rests[table].append((row, piece))
        connection.executemany(_INSERT, stored)
        connection.executemany("INSERT INTO originals (row, vector) VALUES (?, ?)", originals)
        for table, pieces in rests.items():
            connection.executemany(f"INSERT INTO {table} (row, piece) VALUES (?, ?)", pieces)
        shelves.append(connection, shelf, first=start + 1, last=row)
        return len(stored)


def session_made(connection: apsw.Connection, owner: int, name: str) -> int:
    """The number of an owner's session, made known if need be."""
    number = session_number(connection, owner, name)
    if number is None:
        connection.execute("INSERT INTO sessions (owner, name) VALUES (?, ?)", (owner, name))
        number = connection.last_insert_rowid()
    return number


def session_number(connection: apsw.Connection, owner: int, name: str) -> int | None:
    """The number of an owner's session, None when nothing of it was stored."""
    found: int | None = sql.value(connection, "SELECT number FROM sessions WHERE owner = ? AND name = ?", (owner, name))
    return found


# ── removing ──


def settle(transaction: Transaction, space_id: str, *, revisions: Mapping[MemoryRef, int], holder: str) -> None:
    """Remove from a space what the queue has leased to the holder, at these revisions or older ones, and take it out
    of the queue."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    leased = queueing.leased(connection, space, revisions, holder=holder)
    for name, ids in rows.by_owner(leased).items():
        owner = rows.owner_made(connection, name)
        done = {id: revisions[MemoryRef(name, id)] for id in ids}
        shelf = shelves.find(connection, space=space, owner=owner)
        if shelf is not None:
            held = shelves.held_rows(connection, shelf.number, ids).items()
            old = [[one.row for one in chunks] for id, chunks in held if chunks[0].revision <= done[id]]
            _take_off(connection, shelf.number, old)
        kept.remove_old(connection, space=space, owner=owner, revisions=done)
        queueing.settle(connection, space, [(owner, id, revision) for id, revision in done.items()])


def delete(transaction: Transaction, refs: Sequence[MemoryRef]) -> None:
    """Remove memories from every space and every queue."""
    for name, ids in rows.by_owner(refs).items():
        owner = rows.owner_number(transaction.connection, name)
        if owner is not None:
            _remove(transaction.connection, owner, ids)
            queueing.remove(transaction.connection, owner, ids)


def _remove(connection: apsw.Connection, owner: int, ids: Iterable[str]) -> set[str]:
    """Remove memories of an owner from every space; returns those that were there."""
    removed: set[str] = set()
    wanted = list(ids)
    for shelf in shelves.of_owner(connection, owner):
        held = shelves.held_rows(connection, shelf, wanted)
        _take_off(connection, shelf, [[one.row for one in chunks] for chunks in held.values()])
        removed.update(held)
    return removed | kept.remove(connection, owner, wanted)


def _take_off(connection: apsw.Connection, shelf: int, memories: Sequence[Sequence[int]]) -> None:
    """Remove the rows of whole memories from a shelf."""
    gone = [row for chunks in memories for row in chunks]
    if gone:
        shelves.remove(connection, shelf, gone)
        shelves.change(connection, shelf, chunks=-len(gone), memories=-len(memories))


def expire(transaction: Transaction, *, now: datetime, limit: int) -> int:
    """Remove what spaces hold of memories that have expired, those that expired first."""
    connection = transaction.connection
    at = to_milliseconds(now)
    # A memory may be on as many shelves as there are spaces.
    most = max(limit, 0) * len(spaces.layouts(connection))
    found = sql.rows(
        connection,
        "SELECT v.expires_at, s.owner, v.id FROM vectors AS v JOIN shelves AS s ON s.number = v.shelf "
        "WHERE v.expires_at <= ? AND v.first IS NULL ORDER BY v.expires_at LIMIT ?",
        (at, most),
    )
    found = sorted([*found, *kept.expired(connection, at, limit=most)])
    memories = list(dict.fromkeys((owner, id) for _, owner, id in found))[: max(limit, 0)]
    owners: dict[int, list[str]] = {}
    for owner, id in memories:
        owners.setdefault(owner, []).append(id)
    for owner, ids in owners.items():
        for shelf in shelves.of_owner(connection, owner):
            held = shelves.held_rows(connection, shelf, ids).values()
            _take_off(connection, shelf, [[one.row for one in chunks] for chunks in held if _is_expired(chunks, at)])
        kept.expire(connection, owner, ids, at=at)
    return len(memories)


def _is_expired(chunks: Sequence[shelves.Held], at: int) -> bool:
    return chunks[0].expires_at is not None and chunks[0].expires_at <= at


# ── erasing ──


def purge(transaction: Transaction, ids: Sequence[str] | None, *, scope: Scope) -> int:
    """Remove memories, and the names of sessions that nothing is left of; returns how many were held or queued."""
    connection = transaction.connection
    owner = rows.owner_number(connection, scope.owner)
    if owner is None:
        return 0
    wanted = _purgeable(connection, owner, ids, session=scope.session)
    removed = _remove(connection, owner, wanted)
    if scope.session is None:
        removed |= queueing.remove(connection, owner, wanted)
    else:
        queueing.remove(connection, owner, removed)
    _forget_sessions(connection, owner)
    forget_owner(connection, owner)
    return len(removed)


def _purgeable(
    connection: apsw.Connection, owner: int, ids: Sequence[str] | None, *, session: str | None
) -> Sequence[str]:
    """The ids that a purge is about; of a queued memory nobody knows the session."""
    if ids is not None and session is None:
        return list(dict.fromkeys(ids))
    where, values = "", []
    if session is not None:
        where = " AND v.session = (SELECT number FROM sessions WHERE owner = ? AND name = ?)"
        values = [owner, session]
    found: dict[str, None] = {}
    for shelf in shelves.of_owner(connection, owner):
        statement = f"SELECT v.id FROM {IN_RUNS}{where}"
        found.update((id, None) for (id,) in sql.rows(connection, statement, (shelf, *values)))
    found.update((id, None) for id in kept.ids(connection, owner, session=session))
    if session is None:
        found.update((id, None) for id in queueing.ids(connection, owner))
    wanted = found.keys() if ids is None else set(ids)
    return [id for id in found if id in wanted]


IN_RUNS = "runs AS r CROSS JOIN vectors AS v ON v.row BETWEEN r.first AND r.last WHERE r.shelf = ?"
"""The rows `v` of a shelf, in order; what has to hold of them may follow."""


def _forget_sessions(connection: apsw.Connection, owner: int) -> None:
    """Remove the names of an owner's sessions of which no vector is left, from whichever time that is."""
    used: set[int] = set()
    for shelf in shelves.of_owner(connection, owner):
        used.update(number for (number,) in sql.rows(connection, f"SELECT DISTINCT v.session FROM {IN_RUNS}", (shelf,)))
    connection.execute(
        "DELETE FROM sessions WHERE owner = ? AND number NOT IN (SELECT value FROM json_each(?))",
        (owner, listed(list(used))),
    )


_REFERRING = ("memories", "history", "tombstones", "changes", "shelves", "sessions", "queue", "kept_owners")


def forget_owner(connection: apsw.Connection, owner: int) -> None:
    """Remove the name of an owner that nothing refers to any more."""
    unused = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} WHERE owner = owners.number)" for table in _REFERRING)
    connection.execute(f"DELETE FROM owners WHERE number = ? AND trimmed = 0 AND {unused}", (owner,))


# ── counting ──


def count(transaction: Transaction, space_id: str, *, scope: Scope, now: datetime) -> int:
    """How many memories a space holds."""
    connection = transaction.connection
    space = spaces.layout(transaction, space_id).number
    at = to_milliseconds(now)
    if scope.owners is None:
        return _counted(connection, "s.space = ?", (space,), at) + kept.count(connection, space, at=at)
    total = 0
    for name in scope.owners:
        owner = rows.owner_number(connection, name)
        if owner is None:
            continue
        total += kept.count(connection, space, at=at, owner=owner, session=scope.session)
        shelf = shelves.find(connection, space=space, owner=owner)
        if shelf is None:
            continue
        if scope.session is None:
            total += _counted(connection, "s.number = ?", (shelf.number,), at)
        else:
            total += _counted_in_session(connection, shelf.number, (owner, scope.session), at)
    return total


def _counted(connection: apsw.Connection, where: str, values: Sequence[Any], at: int) -> int:
    """The memories of some shelves, less those that have expired and were not swept yet."""
    held: int = sql.value(connection, f"SELECT coalesce(sum(s.memories), 0) FROM shelves AS s WHERE {where}", values)
    expired: int = sql.value(
        connection,
        "SELECT count(*) FROM vectors AS v JOIN shelves AS s ON s.number = v.shelf "
        f"WHERE v.expires_at <= ? AND v.first IS NULL AND {where}",
        (at, *values),
    )
    return held - expired


def _counted_in_session(connection: apsw.Connection, shelf: int, session: Sequence[Any], at: int) -> int:
    found: int = sql.value(
        connection,
        f"SELECT count(*) FROM {IN_RUNS} AND v.first IS NULL AND (v.expires_at IS NULL OR v.expires_at > ?) "
        "AND v.session = (SELECT number FROM sessions WHERE owner = ? AND name = ?)",
        (shelf, at, *session),
    )
    return found
