"""Shelves: what one space holds of one owner, and the rows that it consists of.

Rows are never changed and their numbers never given again. So whoever remembers a shelf at a version finds out what was
added (rows with higher numbers) and what was removed (rows that no run names any more) from the runs alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import apsw
import attrs

from memspine_sqlite import packing, sql
from memspine_sqlite.filters import listed

_TABLES = ("vectors", "originals", *packing.TABLES)
_HELD = (
    "SELECT v.id, v.row, v.chunk, v.revision, v.session, v.type, v.created_at, v.expires_at "
    "FROM json_each(?) AS j CROSS JOIN vectors AS v ON v.place = j.value WHERE v.shelf = ?"
)


@attrs.frozen
class Shelf:
    """How much a shelf holds, and at which version."""

    number: int
    chunks: int
    memories: int
    version: int


def find(connection: apsw.Connection, *, space: int, owner: int) -> Shelf | None:
    """The shelf of an owner in a space."""
    found = sql.first(
        connection,
        "SELECT number, chunks, memories, version FROM shelves WHERE owner = ? AND space = ?",
        (owner, space),
    )
    return None if found is None else Shelf(*found)


def of_owner(connection: apsw.Connection, owner: int) -> list[int]:
    """The numbers of an owner's shelves in all spaces."""
    return [number for (number,) in sql.rows(connection, "SELECT number FROM shelves WHERE owner = ?", (owner,))]


def make(connection: apsw.Connection, *, space: int, owner: int) -> Shelf:
    """The shelf of an owner in a space, made if need be."""
    found = find(connection, space=space, owner=owner)
    if found is not None:
        return found
    connection.execute("INSERT INTO shelves (space, owner) VALUES (?, ?)", (space, owner))
    return Shelf(connection.last_insert_rowid(), 0, 0, 0)


def place(shelf: int, id: str) -> int:
    """Where the index of a shelf has an id; two ids may share a place."""
    return zlib.crc32(id.encode(), shelf & 0xFFFF_FFFF)


def change(connection: apsw.Connection, shelf: int, *, chunks: int, memories: int) -> None:
    """Note what was added or taken away. An empty shelf goes."""
    connection.execute(
        "UPDATE shelves SET chunks = chunks + ?, memories = memories + ?, version = version + 1 WHERE number = ?",
        (chunks, memories, shelf),
    )
    connection.execute("DELETE FROM shelves WHERE number = ? AND chunks = 0", (shelf,))


def clear(connection: apsw.Connection, shelf: int) -> None:
    """Remove a shelf with all that is on it."""
    for first, last in runs(connection, shelf):
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table} WHERE row BETWEEN ? AND ?", (first, last))
    connection.execute("DELETE FROM runs WHERE shelf = ?", (shelf,))
    connection.execute("DELETE FROM shelves WHERE number = ?", (shelf,))


def runs(connection: apsw.Connection, shelf: int) -> list[tuple[int, int]]:
    """The first and last rows of each run, in order."""
    found = sql.rows(connection, "SELECT first, last FROM runs WHERE shelf = ? ORDER BY first", (shelf,))
    return [(first, last) for first, last in found]


def append(connection: apsw.Connection, shelf: int, *, first: int, last: int) -> None:
    """Note rows that were added behind all others."""
    connection.execute(
        "UPDATE runs SET last = ? WHERE shelf = ? AND first = (SELECT max(first) FROM runs WHERE shelf = ?) "
        "AND last = ?",
        (last, shelf, shelf, first - 1),
    )
    if not connection.changes():
        connection.execute("INSERT INTO runs (shelf, first, last) VALUES (?, ?, ?)", (shelf, first, last))


def remove(connection: apsw.Connection, shelf: int, rows: Sequence[int]) -> None:
    """Remove rows; what `change` counts is up to the caller."""
    taken = listed(rows)
    for table in _TABLES:
        connection.execute(f"DELETE FROM {table} WHERE row IN (SELECT value FROM json_each(?))", (taken,))
    for first, last in consecutive(sorted(rows)):
        _cut(connection, shelf, first, last)


def consecutive(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as ranges of consecutive ones."""
    first = last = 0
    for row in rows:
        if first and row == last + 1:
            last = row
            continue
        if first:
            yield first, last
        first = last = row
    if first:
        yield first, last


def _cut(connection: apsw.Connection, shelf: int, first: int, last: int) -> None:
    """Take rows out of the runs that hold them."""
    touched = sql.rows(
        connection,
        "SELECT first, last FROM runs WHERE shelf = ?1 AND last >= ?2 AND first <= ?3 AND first >= "
        "coalesce((SELECT max(first) FROM runs WHERE shelf = ?1 AND first <= ?2), 0)",
        (shelf, first, last),
    )
    for start, end in touched:
        connection.execute("DELETE FROM runs WHERE shelf = ? AND first = ?", (shelf, start))
        kept = [(start, first - 1), (last + 1, end)]
        connection.executemany(
            "INSERT INTO runs (shelf, first, last) VALUES (?, ?, ?)",
            [(shelf, low, high) for low, high in kept if low <= high],
        )


class Held(NamedTuple):
    """A row of a shelf: one chunk of a memory."""

    row: int
    chunk: int
    revision: int
    session: int
    type: int
    created_at: int
    expires_at: int | None


def held_rows(connection: apsw.Connection, shelf: int, ids: Iterable[str]) -> dict[str, list[Held]]:
    """The rows that a shelf has of each of these ids, in order."""
    wanted = set(ids)
    places = listed(list({place(shelf, id) for id in wanted}))
    found: dict[str, list[Held]] = {}
    for id, *columns in sql.rows(connection, _HELD, (places, shelf)):
        if id in wanted:
            found.setdefault(id, []).append(Held(*columns))
    for rows in found.values():
        rows.sort()
    return found
