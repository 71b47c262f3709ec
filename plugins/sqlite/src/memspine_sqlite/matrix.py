"""Comparing with numpy: the vectors of a shelf as one matrix, kept in memory between questions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import apsw
import attrs
import numpy as np
import numpy.typing as npt

from memspine_sqlite import scanning, shelves
from memspine_sqlite.encoding import code_bytes
from memspine_sqlite.nearest import DECIMALS, TOLERANCE, Chunk, Found, Question
from memspine_sqlite.shelves import Shelf
from memspine_sqlite.spaces import Layout

_NEVER = np.iinfo(np.int64).max
_ROWS_AT_ONCE = 4096
# Beside the numbers: eight columns, the id as a string, and its place.
_BYTES_PER_ROW: Final = 250
# Rows that were removed are skipped; from this share of all on they are left out.
_DEAD_MAX = 0.3
_SPARE = 1.125

Numbers = npt.NDArray[Any]
_COLUMNS = ("row", "first", "chunk", "revision", "session", "type", "created_at", "expires_at")


def estimated_bytes(shelf: Shelf, layout: Layout) -> int:
    """How much memory the matrix of a shelf takes."""
    size = 4 * layout.dimension if layout.quantisation != "binary" else code_bytes("binary", layout.dimension) + 8
    return int(shelf.chunks * (size + _BYTES_PER_ROW) * _SPARE)


class View(NamedTuple):
    """A matrix as it was at some moment; what is added later lies behind `size`, what is removed is in another mask."""

    size: int
    numbers: Numbers
    scales: Numbers | None
    columns: dict[str, Numbers]
    ids: list[str]
    places: dict[str, int]
    alive: Numbers | None
    has_parts: bool
    has_expiry: bool


@attrs.define
class Matrix:
    """The rows of one shelf in their order. `places` tells where the first chunk of a memory is."""

    layout: Layout
    version: int
    numbers: Numbers
    scales: Numbers | None
    columns: dict[str, Numbers]
    size: int = 0
    alive: Numbers | None = None
    dead: int = 0
    has_parts: bool = False
    has_expiry: bool = False
    ids: list[str] = attrs.field(factory=list)
    places: dict[str, int] = attrs.field(factory=dict)

    @classmethod
    def empty(cls, layout: Layout, *, capacity: int) -> Matrix:
        """A matrix with room for so many rows."""
        numbers = _room(capacity, layout)
        scales = np.empty(capacity, np.float32) if layout.quantisation == "int8" else None
        return cls(layout, -1, numbers, scales, {name: np.empty(capacity, np.int64) for name in _COLUMNS})

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return len(self.numbers) * (int(self.numbers.itemsize * self.numbers.shape[1]) + _BYTES_PER_ROW)

    @property
    def is_sparse(self) -> bool:
        """Whether so much was removed that it should be made anew."""
        return self.dead > _DEAD_MAX * self.size

    def view(self) -> View:
        """The matrix as it is now."""
        return View(
            self.size,
            self.numbers,
            self.scales,
            self.columns,
            self.ids,
            self.places,
            self.alive,
            self.has_parts,
            self.has_expiry,
        )

    def refresh(self, connection: apsw.Connection, shelf: Shelf) -> None:
        """Take over what was added and removed."""
        last = int(self.columns["row"][self.size - 1]) if self.size else 0
        for rows in _batches(connection, shelf, self.layout, last):
            self._append(rows)
        # No row comes back, so the numbers agree only if nothing is missing.
        if self.size - self.dead != shelf.chunks:
            self._mask(shelves.runs(connection, shelf.number))
        self.version = shelf.version

    def _append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        start, end = self.size, self.size + len(rows)
        if end > len(self.numbers):
            self._grow(int(end * _SPARE) + 1)
        *values, ids, codes = zip(*rows, strict=True)
        for name, column in zip(_COLUMNS, values, strict=True):
            self.columns[name][start:end] = column
        numbers = self.numbers[start:end] = _decoded(b"".join(codes), self.layout)
        if self.scales is not None:
            self.scales[start:end] = 1 / np.linalg.norm(numbers, axis=1)
        is_first = self.columns["row"][start:end] == self.columns["first"][start:end]
        self.has_parts = self.has_parts or not is_first.all()
        self.has_expiry = self.has_expiry or bool((self.columns["expires_at"][start:end] != _NEVER).any())
        self.ids.extend(ids)
        added = {ids[n]: start + n for n in np.flatnonzero(is_first).tolist()}
        if self.places.keys().isdisjoint(added):
            self.places.update(added)
        else:
            # Whoever reads meanwhile still has to find what is replaced.
            self.places = self.places | added
        if self.alive is not None:
            self.alive = np.concatenate([self.alive[:start], np.ones(len(rows), bool)])
        # Last, so that whoever reads meanwhile sees whole rows.
        self.size = end

    def _grow(self, capacity: int) -> None:
        self.numbers = _grown(self.numbers, self.size, _room(capacity, self.layout))
        if self.scales is not None:
            self.scales = _grown(self.scales, self.size, np.empty(capacity, np.float32))
        self.columns = {
            name: _grown(column, self.size, np.empty(capacity, np.int64)) for name, column in self.columns.items()
        }

    def _mask(self, runs: Sequence[tuple[int, int]]) -> None:
        rows = self.columns["row"][: self.size]
        bounds = np.array(runs, np.int64).reshape(-1, 2)
        run = np.searchsorted(bounds[:, 0], rows, side="right") - 1
        self.alive = (run >= 0) & (rows <= bounds[np.maximum(run, 0), 1]) if len(bounds) else np.zeros(self.size, bool)
        self.dead = self.size - int(np.count_nonzero(self.alive))


def _room(capacity: int, layout: Layout) -> Numbers:
    if layout.quantisation == "binary":
        return np.empty((capacity, (layout.dimension + 63) // 64), np.uint64)
    return np.empty((capacity, layout.dimension), np.float32)


def _grown(old: Numbers, size: int, new: Numbers) -> Numbers:
    new[:size] = old[:size]
    return new


def _batches(
    connection: apsw.Connection, shelf: Shelf, layout: Layout, last: int
) -> Iterator[Sequence[tuple[Any, ...]]]:
    cursor = connection.execute(
        "SELECT v.row, coalesce(v.first, v.row), v.chunk, v.revision, v.session, v.type, v.created_at, "
        f"coalesce(v.expires_at, {_NEVER}), v.id, {layout.code} FROM runs AS r "
        "CROSS JOIN vectors AS v ON v.row BETWEEN max(r.first, ?1) AND r.last WHERE r.shelf = ?2 AND r.last >= ?1",
        (last + 1, shelf.number),
    )
    rows = []
    for row in cursor:
        rows.append(row)
        if len(rows) == _ROWS_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def _decoded(codes: bytes, layout: Layout) -> Numbers:
    """Codes as they are compared: rows of numbers, or bits in whole words."""
    size = code_bytes(layout.quantisation, layout.dimension)
    if layout.quantisation == "none":
        return np.frombuffer(codes, "<f4").reshape(-1, layout.dimension)
    if layout.quantisation == "int8":
        return np.frombuffer(codes, np.int8).reshape(-1, size).astype(np.float32)
    padded = np.zeros((len(codes) // size, (size + 7) // 8 * 8), np.uint8)
    padded[:, :size] = np.frombuffer(codes, np.uint8).reshape(-1, size)
    words: Numbers = padded.view(np.uint64)
    return words


def nearest(connection: apsw.Connection, view: View, question: Question) -> Found:
    """The best of a matrix."""
    mask = _mask(view, question)
    places = None if mask is None else np.flatnonzero(mask)
    starts = _starts(view, places) if view.has_parts else None
    also = _also(view, question)
    if question.limit <= 0:
        # Only `also` is asked for, for which nothing else has to be compared.
        compared = len(starts) if starts is not None else view.size if places is None else len(places)
        return _found(connection, view, question, np.empty(0, np.intp), also, compared=compared)
    scores = _scores(view, question)
    values = scores if places is None else scores[places]
    memories = values if starts is None else np.maximum.reduceat(values, starts) if len(starts) else values
    limit, compared = question.limit, len(memories)
    if question.layout.quantisation == "binary":
        chosen = _candidates(values, memories, starts, question.candidates)
    elif compared > limit:
        chosen = np.flatnonzero(values >= np.partition(memories, compared - limit)[compared - limit] - TOLERANCE)
    else:
        chosen = np.arange(len(values))
    return _found(connection, view, question, chosen if places is None else places[chosen], also, compared=compared)


def _candidates(values: Numbers, memories: Numbers, starts: Numbers | None, count: int) -> Numbers:
    """The places of what is compared exactly: of so many memories, by the best chunk of each, all that is as near as
    the farthest of them. Where there are fewer memories, so many chunks at least."""
    if starts is None or len(values) <= count:
        return _highest(values, count)
    chosen = _highest(memories, count)
    least = min(memories[chosen].min(), np.partition(values, -count)[-count])
    is_chosen = np.zeros(len(starts), bool)
    is_chosen[chosen] = True
    return np.flatnonzero((values >= least) & np.repeat(is_chosen, np.diff(starts, append=len(values))))


def _highest(values: Numbers, count: int) -> Numbers:
    """The places of the highest values, the first of those that are equal."""
    if len(values) <= count:
        return np.arange(len(values))
    # By value, then by place: one number that says both.
    keys = -values * np.int64(len(values) + 1) + np.arange(len(values))
    return np.argpartition(keys, count)[:count]


def _found(
    connection: apsw.Connection, view: View, question: Question, best: Numbers, also: Numbers, *, compared: int
) -> Found:
    """The chunks at places of a matrix with their exact scores."""
    if question.layout.quantisation != "binary":
        return Found(
            best=_chunks(view, question, best),
            also=_chunks(view, question, also),
            compared=compared,
        )
    rows = view.columns["row"]
    return Found(
        best=scanning.read_chunks(connection, question, rows[best].tolist(), exact=_exact),
        also=scanning.read_chunks(connection, question, rows[also].tolist(), exact=_exact),
        compared=compared,
    )


def _scores(view: View, question: Question) -> Numbers:
    """A cosine for each row, or for codes of one bit a number how many differ, as a negative number."""
    query = _decoded(question.query.code, question.layout)[0]
    if question.layout.quantisation == "binary":
        different: Numbers = np.bitwise_count(view.numbers[: view.size] ^ query).sum(axis=1, dtype=np.int64)
        return -different
    if view.scales is None:
        found: Numbers = view.numbers[: view.size] @ query
    else:
        found = view.numbers[: view.size] @ (query / np.linalg.norm(query)) * view.scales[: view.size]
    return found


def _mask(view: View, question: Question) -> Numbers | None:
    """The rows that are there and that the question lets through; None for all."""
    masks = [] if view.alive is None else [view.alive[: view.size]]
    columns = view.columns
    if view.has_expiry:
        masks.append(columns["expires_at"][: view.size] > question.at)
    if not question.is_open:
        created = columns["created_at"][: view.size]
        if question.session is not None:
            masks.append(columns["session"][: view.size] == question.session)
        if question.types:
            masks.append(np.isin(columns["type"][: view.size], question.types))
        if question.created_from is not None:
            masks.append(created >= question.created_from)
        if question.created_before is not None:
            masks.append(created < question.created_before)
    if not masks:
        return None
    mask: Numbers = np.logical_and.reduce(masks)
    return mask


def _starts(view: View, places: Numbers | None) -> Numbers:
    """Where the chunks of each memory begin; they lie side by side."""
    firsts = view.columns["first"][: view.size]
    firsts = firsts if places is None else firsts[places]
    return np.flatnonzero(np.diff(firsts, prepend=-1))


def _also(view: View, question: Question) -> Numbers:
    """The places of all chunks of the memories in `also` that are there, not expired and in the session."""
    known = map(view.places.get, question.also)
    firsts = [place for place in known if place is not None and place < view.size]
    if not firsts:
        return np.empty(0, np.intp)
    columns = view.columns
    if view.has_parts:
        rows, first = columns["row"], columns["first"]
        ends = [int(np.searchsorted(first[: view.size], rows[place], side="right")) for place in firsts]
        firsts = [place for start, end in zip(firsts, ends, strict=True) for place in range(start, end)]
    found = np.array(firsts, np.intp)
    kept = columns["expires_at"][found] > question.at
    if view.alive is not None:
        kept &= view.alive[found]
    if question.session is not None:
        kept &= columns["session"][found] == question.session
    return found[kept]


def _chunks(view: View, question: Question, places: Numbers) -> list[Chunk]:
    """Rows with their exact scores."""
    if not len(places):
        return []
    numbers = view.numbers[places].astype(np.float64)
    query = _decoded(question.query.code, question.layout)[0].astype(np.float64)
    scores = cosines(numbers, query)
    columns = [view.columns[name][places].tolist() for name in ("chunk", "revision")]
    ids = map(view.ids.__getitem__, places.tolist())
    # What `Chunk` itself does, without a call for each.
    return list(map(tuple.__new__, itertools.repeat(Chunk), zip((-scores).tolist(), ids, *columns, strict=True)))


def cosines(numbers: Numbers, query: Numbers) -> Numbers:
    """The cosines of rows in double precision, rounded."""
    # Not as a product of matrices, for which numpy would wake threads that then take longer than the few rows do.
    norms = np.sqrt(np.einsum("ij,ij->i", numbers, numbers) * np.einsum("i,i->", query, query))
    found: Numbers = np.round(np.einsum("ij,j->i", numbers, query) / norms, DECIMALS)
    return found


def _exact(vectors: Sequence[bytes], question: Question) -> list[float]:
    numbers = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(np.float64)
    scores: list[float] = cosines(numbers, np.frombuffer(question.query.vector, "<f4").astype(np.float64)).tolist()
    return scores


def is_usable() -> bool:
    """Whether this numpy can count bits, which 2.0 was the first to do."""
    return hasattr(np, "bitwise_count")


def matrix_of(connection: apsw.Connection, shelf: Shelf, layout: Layout) -> Matrix:
    """A shelf as a matrix."""
    matrix = Matrix.empty(layout, capacity=int(shelf.chunks * _SPARE) + 1)
    matrix.refresh(connection, shelf)
    return matrix
