"""Keyword search by reading every memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from memspine.model import KeywordMatch, KeywordMatches, KeywordStatistics, Memory
from memspine.ranking import keyword_scores
from memspine.text import memory_terms


def terms_of(memory: Memory) -> Counter[str]:
    """How often a memory holds each of its terms."""
    return Counter(memory_terms(memory.content, key=memory.key, metadata=memory.metadata, created_at=memory.created_at))


def keyword_matches(
    terms: Sequence[str], *, candidates: Iterable[Memory], collection: Sequence[Memory], limit: int
) -> KeywordMatches:
    """The best of the candidates, with the statistics of the whole collection."""
    counts = [terms_of(memory) for memory in collection]
    statistics = KeywordStatistics(
        documents=len(counts),
        total_length=sum(count.total() for count in counts),
        document_frequencies=tuple(sum(term in count for count in counts) for term in terms),
    )
    found = []
    for memory in candidates:
        count = terms_of(memory)
        frequencies = tuple(count[term] for term in terms)
        if any(frequencies):
            found.append(
                KeywordMatch(
                    id=memory.id,
                    owner=memory.owner,
                    session=memory.session,
                    created_at=memory.created_at,
                    length=count.total(),
                    frequencies=frequencies,
                )
            )
    best = [match for _, match in keyword_scores(found, statistics)][:limit]
    return KeywordMatches(tuple(best), statistics, len(found))
