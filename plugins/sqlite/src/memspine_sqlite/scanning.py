"""Comparing row by row: with the functions of sqlite-vec inside the statement, or in Python."""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import apsw
import attrs

from memspine_sqlite import encoding, sql
from memspine_sqlite.filters import Where, listed
from memspine_sqlite.nearest import DECIMALS, TOLERANCE, Chunk, Found, Question
from memspine_sqlite.rows import LIVE
from memspine_sqlite.shelves import Shelf, held_rows, runs
from memspine_sqlite.storing import IN_RUNS

# Integers are written and read faster than numbers with a fraction. Finer than what single precision can tell.
_SCALE = 100_000_000

_DISTANCES = {
    "none": f"CAST((1 - vec_distance_cosine({{code}}, ?)) * {_SCALE} AS INTEGER)",
    "int8": f"CAST((1 - vec_distance_cosine(vec_int8({{code}}), vec_int8(?))) * {_SCALE} AS INTEGER)",
    "binary": "-vec_distance_hamming(vec_bit({code}), vec_bit(?))",
}


@attrs.frozen
class Scanned:
    """Rows of a shelf with a score each, higher is nearer: a cosine times `_SCALE`, or for codes of one bit a number
    how many differ, as a negative number. `firsts` are the rows of the first chunks; None where each memory has one."""

    rows: Sequence[int]
    scores: Sequence[float]
    firsts: Sequence[int] | None

    def by_memory(self) -> Mapping[int, float] | None:
        """The best score of each memory, by the row of its first chunk; None where each memory has one chunk."""
        if self.firsts is None:
            return None
        best: dict[int, float] = {}
        for first, score in zip(self.firsts, self.scores, strict=True):
            if score > best.get(first, -math.inf):
                best[first] = score
        return best


class Scan(Protocol):
    """What gives a score to each row of a shelf."""

    def __call__(self, connection: apsw.Connection, shelf: Shelf, question: Question) -> Scanned:
        """The rows that the question lets through."""
        ...


@attrs.frozen
class Scanner:
    """Finds the nearest with a scan."""

    scan: Scan

    def nearest(self, connection: apsw.Connection, shelf: Shelf, question: Question) -> Found:
        """The best of a shelf."""
        scanned = self.scan(connection, shelf, question)
        memories = scanned.by_memory()
        also = read_chunks(connection, question, _asked(connection, shelf, question))
        values = scanned.scores if memories is None else list(memories.values())
        if question.layout.quantisation == "binary":
            chosen = [scanned.rows[n] for n in _candidates(scanned, memories, question.candidates)]
        elif len(values) > question.limit:
            kept = heapq.nlargest(question.limit, values)
            least = kept[-1] - TOLERANCE * _SCALE if kept else math.inf
            chosen = [scanned.rows[n] for n, score in enumerate(scanned.scores) if score >= least]
        else:
            chosen = list(scanned.rows)
        return Found(
            best=read_chunks(connection, question, chosen),
            also=also,
            compared=len(values),
        )


def _candidates(scanned: Scanned, memories: Mapping[int, float] | None, count: int) -> list[int]:
    """The places of what is compared exactly: of so many memories, by the best chunk of each, all that is as near as
    the farthest of them. Where there are fewer memories, so many chunks at least."""
    scores = scanned.scores
    if memories is None or scanned.firsts is None or len(scores) <= count:
        return _highest(scores, count)
    firsts, best = list(memories), list(memories.values())
    chosen = {firsts[n]: best[n] for n in _highest(best, count)}
    least = min(*chosen.values(), heapq.nlargest(count, scores)[-1])
    return [
        n
        for n, (first, score) in enumerate(zip(scanned.firsts, scores, strict=True))
        if score >= least and first in chosen
    ]


def _highest(scores: Sequence[float], count: int) -> list[int]:
    """The places of the highest scores; of those that are equal the first."""
    if len(scores) <= count:
        return list(range(len(scores)))
    least = heapq.nlargest(count, scores)[-1]
    above = [n for n, score in enumerate(scores) if score > least]
    equal = (n for n, score in enumerate(scores) if score == least)
    return above + list(itertools.islice(equal, count - len(above)))


def conditions(question: Question) -> Where:
    """Session, filter and expiry of a question."""
    where = Where((LIVE,), (question.at,))
    if question.session is not None:
        where = where.also("v.session = ?", question.session)
    if question.types:
        where = where.also(f"v.type IN ({', '.join('?' * len(question.types))})", *question.types)
    if question.created_from is not None:
        where = where.also("v.created_at >= ?", question.created_from)
    if question.created_before is not None:
        where = where.also("v.created_at < ?", question.created_before)
    return where


def scan_in_sql(connection: apsw.Connection, shelf: Shelf, question: Question) -> Scanned:
    """The scores that sqlite-vec gives."""
    has_parts = shelf.chunks != shelf.memories
    is_whole = question.is_open and not has_parts and not _has_expired(connection, shelf, question)
    where = Where() if is_whole else conditions(question)
    columns = ["score"] if is_whole else ["score", "row"]
    if has_parts:
        columns.append("coalesce(first, row)")
    gathered = ", ".join(f"json_group_array({column})" for column in columns)
    score = _DISTANCES[question.layout.quantisation].format(code=question.layout.code)
    # The limit keeps SQLite from putting the distance into the outer statement.
    statement = (
        f"SELECT {gathered} FROM (SELECT v.row, v.first, {score} AS score FROM {IN_RUNS} AND {where.sql} LIMIT -1)"
    )
    found = sql.rows(connection, statement, (question.query.code, shelf.number, *where.values))[0]
    scores, *others = map(json.loads, found)
    if is_whole:
        # The runs name exactly the rows that were read, in their order, so that these need not be written and read.
        chain = itertools.chain.from_iterable
        return Scanned(list(chain(range(low, high + 1) for low, high in runs(connection, shelf.number))), scores, None)
    return Scanned(others[0], scores, others[1] if has_parts else None)


def _has_expired(connection: apsw.Connection, shelf: Shelf, question: Question) -> bool:
    statement = "SELECT 1 FROM vectors WHERE expires_at <= ? AND shelf = ? LIMIT 1"
    return sql.value(connection, statement, (question.at, shelf.number)) is not None


def scan_in_python(connection: apsw.Connection, shelf: Shelf, question: Question) -> Scanned:
    """The scores of a loop."""
    where = conditions(question)
    statement = f"SELECT v.row, coalesce(v.first, v.row), {question.layout.code} FROM {IN_RUNS} AND {where.sql}"
    rows, firsts, scores = [], [], []
    score = _scoring(question)
    for row, first, code in connection.execute(statement, (shelf.number, *where.values)):
        rows.append(row)
        firsts.append(first)
        scores.append(score(code))
    return Scanned(rows, scores, firsts if shelf.chunks != shelf.memories else None)


def _scoring(question: Question) -> Any:
    quantisation = question.layout.quantisation
    if quantisation == "binary":
        bits = int.from_bytes(question.query.code)
        return lambda code: -(bits ^ int.from_bytes(code)).bit_count()
    numbers = encoding.coded(question.query.code, quantisation)
    norm = encoding.norm_of(numbers)
    return lambda code: _SCALE * encoding.cosine(encoding.coded(code, quantisation), numbers, norm=norm)


def _asked(connection: apsw.Connection, shelf: Shelf, question: Question) -> list[int]:
    """The rows of the memories in `also` that have not expired and lie in the session."""
    if not question.also:
        return []
    held = held_rows(connection, shelf.number, question.also)
    return [
        one.row
        for chunks in held.values()
        for one in chunks
        if (one.expires_at is None or one.expires_at > question.at) and question.session in {None, one.session}
    ]


Exact = Callable[[Sequence[bytes], Question], Sequence[float]]
"""Gives the cosine of each vector in double precision, rounded."""


def read_chunks(
    connection: apsw.Connection, question: Question, rows: Sequence[int], *, exact: Exact | None = None
) -> list[Chunk]:
    """Rows with their exact scores."""
    if not rows:
        return []
    layout = question.layout
    source, vector = "vectors AS v", layout.code
    if layout.quantisation == "binary":
        source, vector = "vectors AS v JOIN originals AS o ON o.row = v.row", layout.original
    found = sql.rows(
        connection,
        f"SELECT v.id, v.chunk, v.revision, {vector} FROM json_each(?) AS j CROSS JOIN {source} WHERE v.row = j.value",
        (listed(rows),),
    )
    scores = (exact or exact_in_python)([columns[-1] for columns in found], question)
    return [Chunk(-score, *columns[:-1]) for score, columns in zip(scores, found, strict=True)]


def exact_in_python(codes: Sequence[bytes], question: Question) -> list[float]:
    """Cosines in double precision."""
    quantisation = question.layout.quantisation
    kept = "none" if quantisation == "binary" else quantisation
    query = question.query.vector if quantisation == "binary" else question.query.code
    numbers = encoding.coded(query, kept)
    norm = encoding.norm_of(numbers)
    return [round(encoding.cosine(encoding.coded(code, kept), numbers, norm=norm), DECIMALS) for code in codes]
