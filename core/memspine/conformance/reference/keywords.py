"""Keyword search by reading the terms of every memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from memspine.conformance.reference.lines import around, lines_of
from memspine.contracts import TermRecord
from memspine.model import KeywordMatch, KeywordMatches, KeywordQuery, KeywordStatistics, Memory, MemoryRef, Scope
from memspine.ranking import keyword_scores
from memspine.text import asks, memory_terms, speaker_terms


def terms_of(memory: Memory) -> Counter[str]:
    """How often a memory holds each of its terms."""
    return Counter(memory_terms(memory.content, key=memory.key, metadata=memory.metadata, created_at=memory.created_at))


def record_of(memory: Memory) -> TermRecord:
    """What a keyword index holds of a memory."""
    return TermRecord(
        id=memory.id,
        owner=memory.owner,
        revision=memory.revision,
        session=memory.session,
        type=memory.type.value,
        created_at=memory.created_at,
        expires_at=memory.expires_at,
        terms=terms_of(memory),
        speaker=speaker_terms(memory.metadata),
        asks=asks(memory.content),
    )


def whole(scope: Scope) -> Scope:
    """All that the owners of a scope have, whatever the session."""
    return attrs.evolve(scope, kind="owner", session_name="") if scope.kind == "session" else scope


def keyword_matches(
    terms: Sequence[str], *, candidates: Iterable[TermRecord], collection: Sequence[TermRecord], limit: int
) -> KeywordMatches:
    """The best of the candidates, with the statistics of the whole collection."""
    statistics = KeywordStatistics(
        documents=len(collection),
        total_length=sum(sum(record.terms.values()) for record in collection),
        document_frequencies=tuple(sum(term in record.terms for record in collection) for term in terms),
    )
    found = [match for match in (match_of(record, terms) for record in candidates) if any(match.frequencies)]
    best = [match for _, match in keyword_scores(found, statistics)][:limit]
    return KeywordMatches(tuple(best), statistics, len(found))


def match_of(record: TermRecord, terms: Sequence[str]) -> KeywordMatch:
    """The numbers of a memory, whether it holds any of the terms or not."""
    return KeywordMatch(
        id=record.id,
        owner=record.owner,
        session=record.session,
        created_at=record.created_at,
        length=sum(record.terms.values()),
        frequencies=tuple(record.terms.get(term, 0) for term in terms),
        speaker=tuple(place for place, term in enumerate(terms) if term in record.speaker),
        asks=record.asks,
    )


def with_surroundings(found: KeywordMatches, query: KeywordQuery, *, visible: Iterable[TermRecord]) -> KeywordMatches:
    """The matches, the neighbours of these and of what was asked for, and the numbers of all that are no matches.

    `visible` are the live memories of the scope, whatever the filter, in the order of their arrival.
    """
    members = {MemoryRef(record.owner, record.id): record for record in visible}
    lines = lines_of(members.values())
    told = [MemoryRef(match.owner, match.id) for match in found.matches]
    asked = [ref for ref in query.also if ref in members]
    neighbours = [
        neighbour
        for ref in dict.fromkeys([*told, *asked])
        for neighbour in around(members[ref], lines, before=query.before, after=query.after)
    ]
    named = dict.fromkeys([*asked, *(MemoryRef(n.of.owner, n.id) for n in neighbours)])
    return attrs.evolve(
        found,
        others=tuple(match_of(members[ref], query.terms) for ref in named if ref not in told),
        neighbours=tuple(neighbours),
    )
