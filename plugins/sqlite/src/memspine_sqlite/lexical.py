"""Keyword search: posting lists from the index, statistics of the owner, scores by the kernel's ranking."""

from __future__ import annotations

import json
from collections import Counter
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
    Scope,
    ScoredMemory,
    SearchQuery,
)
from memspine.ranking import best_documents
from memspine.text import query_terms
from memspine.times import from_milliseconds, to_milliseconds
from memspine_sqlite import filters, keywords, sql
from memspine_sqlite.filters import Where
from memspine_sqlite.rows import STATE, memory_of
from memspine_sqlite.transactions import Transaction

# Reading a row by its number costs about as much as walking this many entries of an index.
_WALKED_PER_ROW = 15

Postings = list[dict[int, int]]


@attrs.frozen
class _Best:
    """One of the best documents: its score, its number in the index, whose it is, and the columns asked for."""

    score: float
    number: int
    owner: str
    columns: tuple[Any, ...]


@attrs.frozen
class _Ranked:
    """The best documents of a question, best first, with the numbers they were ranked by."""

    best: tuple[_Best, ...]
    postings: Sequence[Mapping[int, int]]
    statistics: KeywordStatistics
    matched: int


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
    ranked = _rank(transaction, question, columns="id, session, created_at, terms")
    matches = []
    for best in ranked.best:
        id, session, created, terms = best.columns
        match = KeywordMatch(
            id=id,
            owner=best.owner,
            session=session,
            created_at=from_milliseconds(created),
            length=terms,
            frequencies=tuple(posting.get(best.number, 0) for posting in ranked.postings),
        )
        matches.append(match)
    return KeywordMatches(tuple(matches), ranked.statistics, ranked.matched)


def search(transaction: Transaction, query: SearchQuery, *, scope: Scope, now: datetime) -> tuple[ScoredMemory, ...]:
    """The memories that answer a question best."""
    question = _Question(
        terms=query_terms(query.text).terms,
        scope=scope,
        filter=query.filter,
        at=to_milliseconds(now),
        limit=query.limit,
    )
    ranked = _rank(transaction, question, columns=STATE)
    return tuple(ScoredMemory(memory_of(best.columns, best.owner), best.score) for best in ranked.best)


def _rank(transaction: Transaction, question: _Question, *, columns: str) -> _Ranked:
    """The best documents with these columns of their rows; `id` is the first of them."""
    postings: Postings = [{} for _ in question.terms]
    documents = total_length = 0
    owners: dict[int, str] = {}
    for name in question.scope.owners or ():
        known = sql.first(
            transaction.connection, "SELECT number, documents, total_length FROM owners WHERE name = ?", (name,)
        )
        if known is None:
            continue
        owner, count, length = known
        owners[owner] = name
        dead, dead_length = _expired(transaction, owner, question.at)
        documents += count - len(dead)
        total_length += length - dead_length
        for place, term in enumerate(question.terms):
            token = transaction.tokens.token(owner, term)
            posting = Counter(keywords.documents_with(transaction.connection, token))
            for number in posting.keys() & dead if dead else ():
                del posting[number]
            postings[place] = {**postings[place], **posting} if postings[place] else posting
    statistics = KeywordStatistics(
        documents=documents, total_length=total_length, document_frequencies=tuple(map(len, postings))
    )
    postings = _within(transaction, postings, owners, scope=question.scope, filter=question.filter)
    found = best_documents(postings, statistics=statistics, limit=question.limit)
    best = _cut(transaction, found.best, owners, limit=question.limit, columns=columns)
    return _Ranked(best, postings, statistics, found.matched)


def _expired(transaction: Transaction, owner: int, at: int) -> tuple[set[int], int]:
    """The documents of an owner that have expired and were not swept yet, and their length in all."""
    rows = sql.rows(
        transaction.connection, "SELECT row, terms FROM memories WHERE owner = ? AND expires_at <= ?", (owner, at)
    )
    return {keywords.document(row, terms) for row, terms in rows}, sum(terms for _, terms in rows)


def _within(
    transaction: Transaction, postings: Postings, owners: Mapping[int, str], *, scope: Scope, filter: MemoryFilter
) -> Postings:
    """The postings of those documents alone that lie in the session of the scope and match the filter."""
    if scope.session is None and filter == MemoryFilter():
        return postings
    candidates = {number >> 8: number for posting in postings for number in posting}
    if not candidates:
        return postings
    allowed: set[int] = set()
    for owner in owners:
        rows = _allowed(transaction, owner, candidates, session=scope.session, filter=filter)
        allowed.update(candidates[row] for row in rows if row in candidates)
    return [{number: posting[number] for number in posting.keys() & allowed} for posting in postings]


def _allowed(
    transaction: Transaction, owner: int, candidates: Collection[int], *, session: str | None, filter: MemoryFilter
) -> list[int]:
    """Rows of an owner that lie in the session and match the filter, among them all such candidates.

    Either an index of the owner's memories is walked, or the candidates' rows are read: what costs less.
    """
    walked, read = filters.of_owner(owner, session=session).join(filters.indexed(filter)), filters.unindexed(filter)
    most = len(candidates) if read.conditions else len(candidates) * _WALKED_PER_ROW
    index = "memories_owner" if session is None else "memories_session"
    walk = f"FROM memories INDEXED BY {index} WHERE {walked.sql}"
    counted = f"SELECT count(*) FROM (SELECT 1 {walk} LIMIT ?)"
    if sql.value(transaction.connection, counted, (*walked.values, most + 1)) <= most:
        statement, where = f"SELECT json_group_array(row) {walk} AND {read.sql}", walked.join(read)
    else:
        among = Where(("row IN (SELECT value FROM json_each(?))",), (filters.listed(list(candidates)),))
        where = among.join(walked).join(read)
        statement = f"SELECT json_group_array(row) FROM memories WHERE {where.sql}"
    rows: list[int] = json.loads(sql.value(transaction.connection, statement, where.values))
    return rows


def _cut(
    transaction: Transaction,
    found: Sequence[tuple[float, int]],
    owners: Mapping[int, str],
    *,
    limit: int,
    columns: str,
) -> tuple[_Best, ...]:
    """The best `limit`, ties by id, then the caller's own memory first."""
    if not found:
        return ()
    last = found[min(limit, len(found)) - 1][0]
    sure = [pair for pair in found if pair[0] > last]
    tied = [pair for pair in found if pair[0] == last]
    if len(sure) + len(tied) > limit:
        tied = _first_by_id(transaction, tied, own=next(iter(owners)), limit=limit - len(sure))
    chosen = {number >> 8: (score, number) for score, number in (*sure, *tied)}
    rows = sql.rows(
        transaction.connection,
        f"SELECT row, owner, {columns} FROM memories WHERE row IN (SELECT value FROM json_each(?))",
        (filters.listed(list(chosen)),),
    )
    places = list(owners.values())
    best = [_Best(*chosen[row], owners[owner], tuple(values)) for row, owner, *values in rows]
    return tuple(sorted(best, key=lambda one: (-one.score, one.columns[0], places.index(one.owner))))


def _first_by_id(
    transaction: Transaction, tied: Sequence[tuple[float, int]], *, own: int, limit: int
) -> list[tuple[float, int]]:
    """Of memories with the same score those with the smallest ids; there may be any number of them."""
    rows = sql.rows(
        transaction.connection,
        "SELECT row FROM memories WHERE row IN (SELECT value FROM json_each(?)) ORDER BY id, owner = ? DESC LIMIT ?",
        (filters.listed([number >> 8 for _, number in tied]), own, limit),
    )
    kept = {row for (row,) in rows}
    return [pair for pair in tied if pair[1] >> 8 in kept]
