"""Pages and groups, made here from all memories of an owner."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from memspine import times
from memspine.errors import CursorError
from memspine.model import Counts, KeywordMatch, KeywordStatistics, Memory, MemoryPage, ScoredMemory
from memspine.ranking import keyword_scores
from memspine.text import memory_terms, query_terms

Position = tuple[str, str, int, str]
"""Where a memory stands in a list: creation, id, and for equal ones the rank and name of its owner."""

_OLDEST: Final = "oldest"
_NEWEST: Final = "newest"


def in_order(memories: Iterable[Memory], owners: Sequence[str] | None) -> list[Memory]:
    """Memories in (created_at, id) order."""
    return sorted(memories, key=lambda memory: _position(memory, owners))


def page_of(
    memories: Iterable[Memory],
    *,
    owners: Sequence[str] | None,
    limit: int,
    cursor: str | None,
    newest_first: bool,
    backend: str,
) -> MemoryPage:
    """The page behind a cursor. Raises CursorError."""
    order = _NEWEST if newest_first else _OLDEST
    ordered = in_order(memories, owners)
    if newest_first:
        ordered.reverse()
    if cursor is not None:
        last = _read(cursor, order, backend)
        ordered = [
            memory
            for memory in ordered
            if (_position(memory, owners) < last if newest_first else _position(memory, owners) > last)
        ]
    page = ordered[:limit]
    more = len(ordered) > limit > 0
    return MemoryPage(tuple(page), _written(_position(page[-1], owners), order) if more else None)


def counted(memories: Sequence[Memory], by: Literal["type", "session", "owner"] | None) -> Counts:
    """How many there are, in all and by group."""
    return Counts(len(memories), Counter(str(getattr(memory, by)) for memory in memories) if by else {})


def found_here(memories: Sequence[Memory], text: str, *, limit: int) -> list[ScoredMemory]:
    """The best of these memories by the words they share with a question."""
    terms = query_terms(text).terms
    matches: list[KeywordMatch] = []
    by_place = {(memory.owner, memory.id): memory for memory in memories}
    total = 0
    for memory in memories:
        words = Counter(
            memory_terms(memory.content, key=memory.key, metadata=memory.metadata, created_at=memory.created_at)
        )
        total += words.total()
        if any(term in words for term in terms):
            matches.append(
                KeywordMatch(
                    id=memory.id,
                    owner=memory.owner,
                    session=memory.session,
                    created_at=memory.created_at,
                    length=words.total(),
                    frequencies=tuple(words[term] for term in terms),
                )
            )
    frequencies = tuple(sum(match.frequencies[place] > 0 for match in matches) for place in range(len(terms)))
    statistics = KeywordStatistics(documents=len(memories), total_length=total, document_frequencies=frequencies)
    scored = keyword_scores(matches, statistics)
    return [ScoredMemory(by_place[match.owner, match.id], score) for score, match in scored][:limit]


def _position(memory: Memory, owners: Sequence[str] | None) -> Position:
    rank = owners.index(memory.owner) if owners else 0
    return (times.to_text(memory.created_at), memory.id, rank, memory.owner)


def _written(position: Position, order: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([order, *position]).encode()).decode()


def _read(cursor: str, order: str, backend: str) -> Position:
    try:
        made, created, id, rank, owner = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError) as error:
        raise CursorError(backend, cursor, "one that this store made") from error
    if made != order:
        raise CursorError(backend, cursor, f"one of a list with the {order} first")
    if not (isinstance(created, str) and isinstance(id, str) and isinstance(rank, int) and isinstance(owner, str)):
        raise CursorError(backend, cursor, "one that this store made")
    return (created, id, rank, owner)
