"""Spaces: which sets of comparable vectors there are, and which one answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw
import attrs

from memspine.contracts import EmbeddingIdentity, Space
from memspine.errors import ConflictError, NotFoundError
from memspine.model import canonical_json
from memspine.times import from_milliseconds, to_milliseconds
from memspine_sqlite import kept, packing, shelves, sql
from memspine_sqlite.encoding import code_bytes
from memspine_sqlite.transactions import Transaction

_COLUMNS = "id, identity, quantisation, chunk_tokens, source, active, complete, used_at"
_LAYOUT = "number, dimension, quantisation, pieces"


@attrs.frozen
class Layout:
    """What a space's vectors look like: its number in the tables, their dimension, how they are kept.

    `pieces` are the sizes that the largest part is cut into: the code, or for `binary` the original beside it.
    """

    number: int
    dimension: int
    quantisation: str
    pieces: tuple[int, ...]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Layout:
        """From the columns `LAYOUT`."""
        number, dimension, quantisation, pieces = values
        return cls(number, dimension, quantisation, tuple(json.loads(pieces)))

    @property
    def code(self) -> str:
        """The expression for the code of a row `v` of `vectors`."""
        return "v.code" if self.quantisation == "binary" else packing.whole("v.code", "v.row", self.pieces)

    @property
    def original(self) -> str:
        """The expression for the vector of a row `o` of `originals`."""
        return packing.whole("o.vector", "o.row", self.pieces)


def spaces(transaction: Transaction) -> tuple[Space, ...]:
    """All spaces, oldest first."""
    found = sql.rows(transaction.connection, f"SELECT {_COLUMNS} FROM spaces ORDER BY number")
    return tuple(map(_space_of, found))


def layout(transaction: Transaction, space_id: str) -> Layout:
    """What a space's vectors look like. Raises NotFoundError."""
    found = sql.first(transaction.connection, f"SELECT {_LAYOUT} FROM spaces WHERE id = ?", (space_id,))
    if found is None:
        raise NotFoundError(transaction.backend, space_id, what="space")
    return Layout.of(found)


def open_space(transaction: Transaction, space: Space) -> Space:
    """Make a space, or find it and note that it is wanted."""
    connection = transaction.connection
    identity = attrs.asdict(space.identity)
    connection.execute(
        "INSERT INTO spaces (id, identity, dimension, quantisation, chunk_tokens, pieces, source, used_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET used_at = max(used_at, excluded.used_at)",
        (
            space.id,
            canonical_json(identity),
            space.identity.dimension,
            space.quantisation,
            space.chunk_tokens,
            json.dumps(_pieces(space)),
            canonical_json(dict(space.source)),
            to_milliseconds(space.used_at),
        ),
    )
    (found,) = sql.rows(connection, f"SELECT {_COLUMNS} FROM spaces WHERE id = ?", (space.id,))
    return _space_of(found)


def _pieces(space: Space) -> tuple[int, ...]:
    dimension = space.identity.dimension
    if space.quantisation == "binary":
        return packing.pieces(code_bytes("none", dimension), beside=packing.BESIDE_PIECE)
    return packing.pieces(code_bytes(space.quantisation, dimension), beside=packing.BESIDE_CODE)


def complete_space(transaction: Transaction, space_id: str) -> None:
    """Note that a space holds all there was."""
    number = layout(transaction, space_id).number
    transaction.connection.execute("UPDATE spaces SET complete = 1 WHERE number = ?", (number,))


def activate(transaction: Transaction, space_id: str) -> None:
    """Make a space the active one."""
    number = layout(transaction, space_id).number
    transaction.connection.execute("UPDATE spaces SET active = (number = ?)", (number,))


def drop_space(transaction: Transaction, space_id: str) -> int:
    """Remove a space with all that is in it; returns the number it had."""
    connection = transaction.connection
    number = layout(transaction, space_id).number
    if sql.value(connection, "SELECT active FROM spaces WHERE number = ?", (number,)):
        raise ConflictError(
            transaction.backend,
            space_id,
            expected="a space that is not active",
            found="the active one",
            advice="activate another space first",
        )
    for (shelf,) in sql.rows(connection, "SELECT number FROM shelves WHERE space = ?", (number,)):
        shelves.clear(connection, shelf)
    kept.clear(connection, number)
    connection.execute("DELETE FROM queue WHERE space = ?", (number,))
    connection.execute("DELETE FROM spaces WHERE number = ?", (number,))
    return number


def layouts(connection: apsw.Connection) -> list[Layout]:
    """What the vectors of each space look like; none in a backup from before there were spaces."""
    if sql.value(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'spaces'") is None:
        return []
    return [Layout.of(found) for found in sql.rows(connection, f"SELECT {_LAYOUT} FROM spaces")]


def _space_of(values: Sequence[Any]) -> Space:
    id, identity, quantisation, chunk_tokens, source, active, complete, used_at = values
    return Space(
        id=id,
        identity=EmbeddingIdentity(**json.loads(identity)),
        quantisation=quantisation,
        chunk_tokens=chunk_tokens,
        source=json.loads(source),
        active=bool(active),
        complete=bool(complete),
        used_at=from_milliseconds(used_at),
    )
