"""Keyword search: posting lists from the index, statistics of the owner, scores by the kernel's ranking."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs

from memspine.model import (
    KeywordMatch,
    KeywordMatches,
    KeywordQuery,
    KeywordStatistics,
    MemoryFilter,
    MemoryRef,
    Neighbour,
    Scope,
    ScoredMemory,
    SearchQuery,
)
from memspine.text import query_terms
from memspine.times import to_milliseconds
from memspine_sqlite import bulk, filters, keywords, neighbours, postings, rows, sql
from memspine_sqlite.filters import Where
from memspine_sqlite.neighbours import Near
from memspine_sqlite.postings import Postings
from memspine_sqlite.rows import time_of
from memspine_sqlite.transactions import Transaction

# Reading a row by its number costs about as much as walking this many entries of an index.
_WALKED_PER_ROW = 15
_ANY = MemoryFilter()

_COLUMNS = "id, session, created_at, asks, speaker, terms"


@attrs.frozen
class _Ranked:
    """The best documents of a question: their scores and rows, best first; the postings of all that is alive, filtered
    or not; how many matched; whose number is whose; and whether more is there that has expired."""

    best: Sequence[tuple[float, tuple[Any, ...]]]
    postings: Postings
    statistics: KeywordStatistics
    matched: int
    owners: Mapping[int, str]
    has_expired: bool


@attrs.frozen(kw_only=True)
class _Question:
    """What is asked, and where."""

    terms: Sequence[str]
    scope: Scope
    filter: MemoryFilter
    at: int
    limit: int


def lexical(
    transaction: Transaction, query: KeywordQuery, *, scope: Scope, filter: MemoryFilter, now: datetime, limit: int
) -> KeywordMatches:
    """The best matches of a question, with statistics of all memories of the scope's owners."""
    question = _Question(terms=query.terms, scope=scope, filter=filter, at=to_milliseconds(now), limit=limit)
    ranked = _rank(transaction, question, columns=_COLUMNS)
    best = [columns for _, columns in ranked.best]
    if not query.also and query.before <= 0 and query.after <= 0:
        matches = _matches(transaction, query.terms, ranked, best)
        return KeywordMatches(tuple(matches), ranked.statistics, ranked.matched)
    matched = [columns[0] for columns in best]
    # What has expired costs a look at each row, so it is only looked for where there is any.
    at = question.at if ranked.has_expired else None
    also = _also(transaction, query.also, ranked.owners, session=scope.session, at=at)
    near = neighbours.around(
        transaction.connection,
        list(dict.fromkeys((*matched, *also))),
        before=query.before,
        after=query.after,
        at=at,
        documents=transaction.tables.documents,
    )
    known = set(matched)
    others = [row for row in dict.fromkeys((*also, *near.rows)) if row not in known]
    rows = [*best, *_read(transaction, others, columns=_COLUMNS)]
    matches = _matches(transaction, query.terms, ranked, rows)
    return KeywordMatches(
        tuple(matches[: len(best)]),
        ranked.statistics,
        ranked.matched,
        others=tuple(matches[len(best) :]),
        neighbours=_neighbours(near, rows, ranked.owners),
    )


def _neighbours(near: Near, rows: Sequence[tuple[Any, ...]], owners: Mapping[int, str]) -> tuple[Neighbour, ...]:
    """The neighbours of rows, all of which were read with `_COLUMNS`."""
    by_row = {columns[0]: columns for columns in rows}
    refs = {row: MemoryRef(owners[by_row[row][1]], by_row[row][2]) for row in dict.fromkeys(near.of)}
    return tuple(
        bulk.made(
            Neighbour,
            len(near.of),
            of=map(refs.__getitem__, near.of),
            id=[by_row[row][2] for row in near.rows],
            offset=near.offsets,
        )
    )


class _Places(dict[str, tuple[int, ...]]):
    """The places of a question's terms that are in a speaker's name, by the column `speaker`; few people speak."""

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__({"": ()})
        self._tokens = tokens

    def __missing__(self, speaker: str) -> tuple[int, ...]:
        named = set(speaker.split())
        places = self[speaker] = tuple([place for place, token in enumerate(self._tokens) if token in named])
        return places


def _matches(
    transaction: Transaction, terms: Sequence[str], ranked: _Ranked, rows: Sequence[tuple[Any, ...]]
) -> list[KeywordMatch]:
    """The matches of rows that were read with the columns `_COLUMNS`, in their order."""
    if not rows:
        return []
    numbers, owners, ids, sessions, created, asks, speakers, lengths = zip(*rows, strict=True)
    documents = list(map(keywords.document, numbers, lengths))
    places = _Places([transaction.tokens.hashed(term) for term in terms])
    return bulk.made(
        KeywordMatch,
        len(rows),
        id=ids,
        owner=map(ranked.owners.__getitem__, owners),
        session=sessions,
        created_at=map(time_of, created),
        length=lengths,
        frequencies=ranked.postings.frequencies(documents),
        speaker=map(places.__getitem__, speakers),
        asks=map(bool, asks),
    )


def _also(
    transaction: Transaction,
    refs: Sequence[MemoryRef],
    owners: Mapping[int, str],
    *,
    session: str | None,
    at: int | None,
) -> list[int]:
    """The rows of those memories that the scope has, in the order asked."""
    asked = rows.by_owner(refs)
    live = functools.partial(
        neighbours.live_rows, transaction.connection, session=session, at=at, documents=transaction.tables.documents
    )
    if len(asked) == 1 == len(owners):
        ((owner, name),) = owners.items()
        return [row for row, _ in live(owner, asked.get(name, ()))]
    found = {}
    for owner, name in owners.items():
        known = live(owner, asked.get(name, ()))
        found.update({MemoryRef(name, id): row for row, id in known})
    return [found[ref] for ref in dict.fromkeys(refs) if ref in found]


def search(transaction: Transaction, query: SearchQuery, *, scope: Scope, now: datetime) -> tuple[ScoredMemory, ...]:
    """The memories that answer a question best."""
    question = _Question(
        terms=query_terms(query.text).terms,
        scope=scope,
        filter=query.filter,
        at=to_milliseconds(now),
        limit=query.limit,
    )
    ranked = _rank(transaction, question, columns=rows.STATE)
    return tuple(
        ScoredMemory(rows.memory_of(state, ranked.owners[owner]), score) for score, (_, owner, *state) in ranked.best
    )


def _rank(transaction: Transaction, question: _Question, *, columns: str) -> _Ranked:
    """The best documents with these columns of their rows; `id` is the first of them."""
    connection = transaction.connection
    documents = total_length = 0
    dead: set[int] = set()
    owners: dict[int, str] = {}
    for name in question.scope.owners or ():
        known = transaction.tables.owner(connection, name)
        if known is None:
            continue
        owner, count, length = known
        owners[owner] = name
        expired, expired_length = _expired(transaction, owner, question.at)
        dead |= expired
        documents += count - len(expired)
        total_length += length - expired_length
    tokens = [[transaction.tokens.token(owner, term) for owner in owners] for term in question.terms]
    found = postings.read(connection, tokens, dead=dead, vocabulary=transaction.tables.vocabulary)
    statistics = KeywordStatistics(
        documents=documents, total_length=total_length, document_frequencies=found.document_frequencies
    )
    within = _within(transaction, found, owners, scope=question.scope, filter=question.filter)
    ranked = within.best(statistics, limit=question.limit)
    best = _cut(transaction, ranked.best, owners, limit=question.limit, columns=columns)
    return _Ranked(best, found, statistics, ranked.matched, owners, bool(dead))


def _expired(transaction: Transaction, owner: int, at: int) -> tuple[set[int], int]:
    """The documents of an owner that have expired and were not swept yet, and their length in all."""
    found = sql.rows(
        transaction.connection,
        f"SELECT row, terms FROM {transaction.tables.documents} WHERE owner = ? AND expires_at <= ?",
        (owner, at),
    )
    return {keywords.document(row, terms) for row, terms in found}, sum(terms for _, terms in found)


def _within(
    transaction: Transaction, found: Postings, owners: Mapping[int, str], *, scope: Scope, filter: MemoryFilter
) -> Postings:
    """The postings of those documents alone that lie in the session of the scope and match the filter."""
    if scope.session is None and filter == _ANY:
        return found
    candidates = {number >> 8: number for number in found.documents}
    if not candidates:
        return found
    allowed: set[int] = set()
    for owner in owners:
        fitting = _allowed(transaction, owner, candidates, session=scope.session, filter=filter)
        allowed.update(candidates[row] for row in fitting if row in candidates)
    return found.within(allowed)


def _allowed(
    transaction: Transaction, owner: int, candidates: Collection[int], *, session: str | None, filter: MemoryFilter
) -> list[int]:
    """Rows of an owner that lie in the session and match the filter, among them all such candidates.

    Either an index of the owner's memories is walked, or the candidates' rows are read: what costs less.
    """
    walked, read = filters.of_owner(owner, session=session).join(filters.indexed(filter)), filters.unindexed(filter)
    most = len(candidates) if read.conditions else len(candidates) * _WALKED_PER_ROW
    documents = transaction.tables.documents
    index = f"{documents}_owner" if session is None else f"{documents}_session"
    walk = f"FROM {documents} AS memories INDEXED BY {index} WHERE {walked.sql}"
    counted = f"SELECT count(*) FROM (SELECT 1 {walk} LIMIT ?)"
    if sql.value(transaction.connection, counted, (*walked.values, most + 1)) <= most:
        statement, where = f"SELECT json_group_array(row) {walk} AND {read.sql}", walked.join(read)
    else:
        among = Where(("row IN (SELECT value FROM json_each(?))",), (filters.listed(list(candidates)),))
        where = among.join(walked).join(read)
        statement = f"SELECT json_group_array(row) FROM {documents} AS memories WHERE {where.sql}"
    found: list[int] = json.loads(sql.value(transaction.connection, statement, where.values))
    return found


def _cut(
    transaction: Transaction,
    found: Sequence[tuple[float, int]],
    owners: Mapping[int, str],
    *,
    limit: int,
    columns: str,
) -> list[tuple[float, tuple[Any, ...]]]:
    """The best `limit` with their rows, ties by id, then the caller's own memory first."""
    if not found:
        return []
    last = found[min(limit, len(found)) - 1][0]
    sure = [pair for pair in found if pair[0] > last]
    tied = [pair for pair in found if pair[0] == last]
    if len(sure) + len(tied) > limit:
        tied = _first_by_id(transaction, tied, own=next(iter(owners)), limit=limit - len(sure))
    scores = {number >> 8: score for score, number in (*sure, *tied)}
    places = list(owners)
    best = [(scores[values[0]], values) for values in _read(transaction, list(scores), columns=columns)]
    return sorted(best, key=lambda one: (-one[0], one[1][2], places.index(one[1][1])))


def _read(transaction: Transaction, numbers: Sequence[int], *, columns: str) -> list[tuple[Any, ...]]:
    """Rows, whose they are, and the columns asked for, in the order of the rows' numbers as given."""
    if not numbers:
        return []
    return sql.rows(
        transaction.connection,
        f"SELECT row, owner, {columns} "
        f"FROM (SELECT value AS wanted FROM json_each(?)) CROSS JOIN {transaction.tables.documents} WHERE row = wanted",
        (filters.listed(numbers),),
    )


def _first_by_id(
    transaction: Transaction, tied: Sequence[tuple[float, int]], *, own: int, limit: int
) -> list[tuple[float, int]]:
    """Of memories with the same score those with the smallest ids; there may be any number of them."""
    kept = sql.rows(
        transaction.connection,
        f"SELECT row FROM {transaction.tables.documents} WHERE row IN (SELECT value FROM json_each(?)) "
        "ORDER BY id, owner = ? DESC LIMIT ?",
        (filters.listed([number >> 8 for _, number in tied]), own, limit),
    )
    chosen = {row for (row,) in kept}
    return [pair for pair in tied if pair[1] >> 8 in chosen]
