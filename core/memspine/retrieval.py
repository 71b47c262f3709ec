"""Recall: runs the legs, ranks, hydrates, keeps to the budget, and can explain each step."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import attrs

from memspine.chain import Chain
from memspine.contracts import Capability, MemoryBackend
from memspine.model import (
    CUTS_LISTED_MAX,
    LIMIT_MAX,
    Cut,
    Hit,
    KeywordMatches,
    KeywordQuery,
    LegScore,
    LegTrace,
    Memory,
    MemoryFilter,
    Scope,
    SearchQuery,
    SearchResult,
    Trace,
)
from memspine.ranking import keyword_scores
from memspine.text import QueryTerms, TokenCounter, query_terms

Strategy = Literal["exact", "semantic", "hybrid"]

NO_VECTORS = "vector leg off: no embedding source is configured"


@attrs.frozen(kw_only=True)
class RecallRequest:
    """One question to the memory, checked. `max_tokens` None means no budget, `retention_days` 0 means no limit."""

    text: str
    scope: Scope
    now: datetime
    strategy: Strategy = "hybrid"
    filter: MemoryFilter = attrs.field(factory=MemoryFilter)
    limit: int = 10
    max_tokens: int | None = None
    retention_days: int = 0
    keyword_floor: float = 0.0
    native_hybrid: bool = True


@attrs.frozen(kw_only=True)
class Candidate:
    """A memory that a leg proposes, before the rules for returning it are applied."""

    memory: Memory
    score: float
    legs: tuple[LegScore, ...] = ()
    matched: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Found:
    """What one round of asking a store gave: candidates best first, of `matched` in all."""

    candidates: tuple[Candidate, ...]
    matched: int
    leg: str
    gone: tuple[str, ...] = ()
    fused_by: str = ""
    detail: str = ""


class Retrieval:
    """Answers questions over a chain."""

    def __init__(self, chain: Chain, *, count_tokens: TokenCounter) -> None:
        self._chain = chain
        self._count_tokens = count_tokens

    async def recall(self, request: RecallRequest) -> SearchResult:
        """The best memories for a question, with the trace. Raises BackendUnavailable when no store answers."""
        started = time.perf_counter()
        terms = query_terms(request.text)
        # Where rules may cut candidates, more are asked for at once than one round needs.
        may_cut = request.retention_days or request.keyword_floor
        wanted = max(2 * request.limit, 50) if may_cut else request.limit
        while True:
            answer = await self._chain.search(functools.partial(_ask, request, terms, wanted))
            found = answer.value
            picked = _pick(found, request, count_tokens=self._count_tokens)
            # What the rules cut is replaced from further down, until the answer is full or nothing is left.
            exhausted = wanted >= min(found.matched, LIMIT_MAX) or not found.candidates
            if picked.considered >= request.limit or exhausted:
                break
            wanted = min(wanted * 4, LIMIT_MAX)
        spent = (time.perf_counter() - started) * 1000
        return SearchResult(
            picked.hits,
            Trace(
                strategy=request.strategy,
                scope=str(request.scope),
                backend=answer.backend,
                degraded=(*answer.degraded, *_degradations(request, found)),
                legs=_legs(request, found, milliseconds=spent),
                fused_by=found.fused_by,
                terms=terms.terms,
                cuts=picked.cuts[:CUTS_LISTED_MAX],
                cut_counts=dict(Counter(cut.reason for cut in picked.cuts)),
                tokens=sum(hit.tokens for hit in picked.hits),
                max_tokens=request.max_tokens,
                milliseconds=spent,
            ),
        )


async def _ask(request: RecallRequest, terms: QueryTerms, candidates: int, backend: MemoryBackend) -> Found:
    if request.strategy == "exact" and not request.text:
        return await _newest(backend, request, candidates=candidates)
    if request.strategy != "exact" and request.native_hybrid and Capability.NATIVE_HYBRID in backend.capabilities:
        found = await _own_search(backend, request, candidates=candidates)
        return attrs.evolve(found, fused_by="backend")
    if Capability.LEXICAL not in backend.capabilities:
        return await _own_search(backend, request, candidates=candidates)
    if not terms.terms:
        return Found(candidates=(), matched=0, leg="keyword", detail="the question holds no word to look for")
    if request.strategy == "exact":
        return _by_time(await _keyword(backend, request, terms, candidates=LIMIT_MAX))
    return await _keyword(backend, request, terms, candidates=candidates)


async def _newest(backend: MemoryBackend, request: RecallRequest, *, candidates: int) -> Found:
    page = await backend.list(request.filter, scope=request.scope, now=request.now, limit=candidates, newest_first=True)
    found = tuple(
        Candidate(memory=memory, score=0.0, legs=(LegScore(leg="newest", rank=rank, score=0.0),))
        for rank, memory in enumerate(page.memories, 1)
    )
    matched = len(found) if page.cursor is None else LIMIT_MAX
    return Found(candidates=found, matched=matched, leg="newest")


async def _own_search(backend: MemoryBackend, request: RecallRequest, *, candidates: int) -> Found:
    query = SearchQuery(text=request.text, limit=candidates, filter=request.filter)
    scored = await backend.search(query, scope=request.scope, now=request.now)
    found = tuple(
        Candidate(memory=item.memory, score=item.score, legs=(LegScore(leg="backend", rank=rank, score=item.score),))
        for rank, item in enumerate(scored, 1)
    )
    matched = len(found) if len(found) < candidates else LIMIT_MAX
    found_by = Found(candidates=found, matched=matched, leg="backend", detail="the store's own search, unranked by us")
    return _by_time(found_by) if request.strategy == "exact" else found_by


async def _keyword(backend: MemoryBackend, request: RecallRequest, terms: QueryTerms, *, candidates: int) -> Found:
    matches = await backend.lexical(
        KeywordQuery(terms.terms), scope=request.scope, filter=request.filter, now=request.now, limit=candidates
    )
    memories = await backend.get_many([match.id for match in matches.matches], scope=request.scope, now=request.now)
    found = _scored(matches, memories, terms)
    gone = tuple(match.id for match in matches.matches if match.id not in memories)
    return Found(candidates=found, matched=matches.matched, leg="keyword", gone=gone)


def _scored(matches: KeywordMatches, memories: dict[str, Memory], terms: QueryTerms) -> tuple[Candidate, ...]:
    candidates = []
    for rank, (score, match) in enumerate(keyword_scores(matches.matches, matches.statistics), 1):
        memory = memories.get(match.id)
        if memory is None or memory.owner != match.owner:
            continue
        words = dict.fromkeys(word for word, n in zip(terms.words, match.frequencies, strict=True) if n)
        leg = LegScore(leg="keyword", rank=rank, score=score)
        candidates.append(Candidate(memory=memory, score=score, legs=(leg,), matched=tuple(words)))
    return tuple(candidates)


def _by_time(found: Found) -> Found:
    newest_first = sorted(found.candidates, key=lambda c: (c.memory.created_at, c.memory.id), reverse=True)
    # All that a store can be asked for at once was asked for: there is no further round to grow into.
    return attrs.evolve(found, candidates=tuple(newest_first), matched=len(newest_first))


@attrs.frozen(kw_only=True)
class _Picked:
    hits: tuple[Hit, ...]
    cuts: tuple[Cut, ...]
    considered: int
    """How many candidates passed every rule but the budget."""


def _pick(found: Found, request: RecallRequest, *, count_tokens: TokenCounter) -> _Picked:
    hits: list[Hit] = []
    cuts = [Cut(id=id, reason="gone", detail="deleted or expired since the index was read") for id in found.gone]
    left = request.max_tokens
    considered = 0
    for candidate in found.candidates:
        if considered >= request.limit:
            break
        memory = candidate.memory
        if cut := _refused(candidate, request, leg=found.leg):
            cuts.append(cut)
            continue
        considered += 1
        tokens = count_tokens(memory.content)
        if left is not None:
            if tokens > left:
                cuts.append(Cut(id=memory.id, reason="budget", detail=f"{tokens} tokens, {left} left"))
                continue
            left -= tokens
        hits.append(
            Hit(
                memory=memory,
                score=candidate.score,
                rank=len(hits) + 1,
                tokens=tokens,
                legs=candidate.legs,
                matched=candidate.matched,
            )
        )
    return _Picked(hits=tuple(hits), cuts=tuple(cuts), considered=considered)


def _refused(candidate: Candidate, request: RecallRequest, *, leg: str) -> Cut | None:
    memory = candidate.memory
    if leg == "keyword" and candidate.score < request.keyword_floor:
        return Cut(id=memory.id, reason="floor", detail=f"{candidate.score:.3f} < {request.keyword_floor:g}")
    if request.retention_days:
        seen_at = max(memory.updated_at, memory.last_accessed_at or memory.updated_at)
        if seen_at < request.now - timedelta(days=request.retention_days):
            return Cut(id=memory.id, reason="retention", detail=f"last changed or recalled {seen_at:%Y-%m-%d}")
    return None


def _degradations(request: RecallRequest, found: Found) -> Sequence[str]:
    if request.strategy == "exact" or found.fused_by:
        return ()
    return (NO_VECTORS,)


def _legs(request: RecallRequest, found: Found, *, milliseconds: float) -> tuple[LegTrace, ...]:
    ran = LegTrace(
        leg=found.leg,
        status="ran",
        detail=found.detail,
        matched=found.matched,
        candidates=len(found.candidates),
        milliseconds=milliseconds,
    )
    if request.strategy == "exact" or found.fused_by:
        return (ran,)
    return (ran, LegTrace(leg="vector", status="off", detail=NO_VECTORS))
