"""Searching a space: which shelves, and which of the best.

An engine proposes: it compares every vector of a shelf, as exactly as it can, and hands over the best with scores that
were computed anew in double precision, always in the same way. So all engines give the same answer, and vectors that
are equal have equal scores wherever they lie.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import apsw
import attrs

from memspine.contracts import VectorHit, VectorMatches
from memspine.model import MemoryFilter, MemoryRef, Scope
from memspine.times import to_milliseconds
from memspine_sqlite import bulk, encoding, rows, shelves, spaces, storing
from memspine_sqlite.encoding import Query
from memspine_sqlite.shelves import Shelf
from memspine_sqlite.spaces import Layout
from memspine_sqlite.transactions import Transaction

DECIMALS = 9
"""Scores are rounded to so many: sums in another order differ behind them."""
TOLERANCE = 4e-6
"""By how much the cosine that an engine proposes by may be wrong, twice."""

_CANDIDATES_MIN = 400
_CANDIDATES_PER_HIT = 3


class Chunk(NamedTuple):
    """One chunk with its score, which comes first and negative, so that sorting brings the best to the front."""

    negative: float
    id: str
    chunk: int
    revision: int


@attrs.frozen(kw_only=True)
class Question:
    """What is asked of one shelf. `session` is its number; the filter's fields are as rows have them."""

    layout: Layout
    query: Query
    limit: int
    at: int
    session: int | None
    types: tuple[int, ...]
    created_from: int | None
    created_before: int | None
    also: Collection[str]

    @property
    def is_open(self) -> bool:
        """Whether all of the shelf is asked for, but for what has expired."""
        return self.session is None and not self.types and self.created_from is None and self.created_before is None

    @property
    def candidates(self) -> int:
        """How many memories of a binary space are compared exactly, and how many chunks at least."""
        return max(_CANDIDATES_MIN, _CANDIDATES_PER_HIT * self.limit)


@attrs.frozen(kw_only=True)
class Found:
    """What a shelf has: its best chunks, in any order and maybe several of a memory or more than asked for; the
    chunks of those in `also`; how many memories were compared."""

    best: Sequence[Chunk]
    also: Sequence[Chunk]
    compared: int


class Comparer(Protocol):
    """What compares the vectors of a shelf with that of a question."""

    def nearest(self, connection: apsw.Connection, shelf: Shelf, question: Question) -> Found:
        """The best of a shelf."""
        ...


def search(
    transaction: Transaction,
    space_id: str,
    *,
    vector: bytes,
    scope: Scope,
    filter: MemoryFilter,
    now: datetime,
    limit: int,
    also: Sequence[MemoryRef],
    comparer: Comparer,
) -> VectorMatches:
    """The nearest memories of a scope."""
    connection = transaction.connection
    layout = spaces.layout(transaction, space_id)
    checked = encoding.checked(vector, dimension=layout.dimension)
    query = Query(checked, encoding.encoded(checked, layout.quantisation))
    asked = rows.by_owner(also)
    found: list[tuple[str, Found]] = []
    for name in scope.require_readable("search"):
        owner = rows.owner_number(connection, name)
        shelf = None if owner is None else shelves.find(connection, space=layout.number, owner=owner)
        if owner is None or shelf is None:
            continue
        session = None
        if scope.session is not None:
            session = storing.session_number(connection, owner, scope.session)
            if session is None:
                continue
        question = Question(
            layout=layout,
            query=query,
            limit=limit,
            at=to_milliseconds(now),
            session=session,
            types=tuple(storing.TYPES.index(kind.value) for kind in filter.types),
            created_from=rows.optional_milliseconds(filter.created_from),
            created_before=rows.optional_milliseconds(filter.created_before),
            also=asked.get(name, ()),
        )
        found.append((name, comparer.nearest(connection, shelf, question)))
    return _answer(found, also, limit=limit)


def _answer(found: Sequence[tuple[str, Found]], also: Sequence[MemoryRef], *, limit: int) -> VectorMatches:
    """The best of all shelves together, ties by id, then the caller's own first."""
    best = [(owner, chunk) for owner, one in found for chunk in sorted(_best_chunks(one.best))]
    if len(found) > 1:
        # Sorting keeps the order of what is equal.
        best.sort(key=lambda pair: pair[1][:2])
    hits = best[:limit]
    others: list[tuple[str, Chunk]] = []
    if also:
        known = {owner: {chunk.id: chunk for chunk in _best_chunks(one.also)} for owner, one in found}
        for owner, chunk in hits:
            known[owner].pop(chunk.id, None)
        others = [
            (owner, known[owner][id]) for owner, id in dict.fromkeys(also) if owner in known and id in known[owner]
        ]
    made = _hits((*hits, *others))
    return VectorMatches(
        hits=tuple(made[: len(hits)]),
        others=tuple(made[len(hits) :]),
        compared=sum(one.compared for _, one in found),
    )


def _best_chunks(chunks: Sequence[Chunk]) -> Iterable[Chunk]:
    """The best chunk of each memory, the first of those that are equal."""
    memories = {chunk.id: chunk for chunk in chunks}
    return (
        chunks if len(memories) == len(chunks) else {chunk.id: chunk for chunk in sorted(chunks, reverse=True)}.values()
    )


def _hits(chunks: Sequence[tuple[str, Chunk]]) -> list[VectorHit]:
    """The hits of chunks, each with its owner."""
    if not chunks:
        return []
    owners, pairs = zip(*chunks, strict=True)
    negatives, ids, numbers, revisions = zip(*pairs, strict=True)
    return bulk.made(
        VectorHit,
        len(chunks),
        id=ids,
        owner=owners,
        chunk=numbers,
        revision=revisions,
        score=map(operator.neg, negatives),
    )
