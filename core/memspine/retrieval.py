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
    KeywordMatch,
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
from memspine.text import TERMS_MAX, QueryTerms, TokenCounter, query_terms

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


@attrs.frozen(kw_only=True)
class Candidate:
    """A memory that a leg proposes, before the rules for returning it are applied."""

    memory: Memory
    score: float
    legs: tuple[LegScore, ...] = ()
    matched: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Found:
    """What one round of asking a store gave: candidates best first, of `matched` that it told of, and whether there
    are more that a further round would bring."""

    candidates: tuple[Candidate, ...]
    matched: int
    more: bool
    leg: str
    gone: tuple[str, ...] = ()
    fused_by: str = ""
    detail: str = ""
    degraded: tuple[str, ...] = ()


class Retrieval:
    """Answers questions over a chain."""

    def __init__(self, chain: Chain, *, count_tokens: TokenCounter) -> None:
        self._chain = chain
        self._count_tokens = count_tokens

    async def recall(self, request: RecallRequest) -> SearchResult:
        """The best memories for a question, with the trace. Raises BackendUnavailable when no store answers."""
        started = time.perf_counter()
        terms = query_terms(request.text)
        wanted = _first_round(request)
        while True:
            answer = await self._chain.search(functools.partial(_ask, request, terms, wanted))
            found = answer.value
            picked = _pick(found, request, count_tokens=self._count_tokens)
            # What the rules cut is replaced from further down, until the answer is full or nothing is left.
            if picked.is_full or not found.more or wanted >= LIMIT_MAX:
                break
            wanted = min(wanted * 4, LIMIT_MAX)
        if not picked.is_full and found.more:
            reason = f"only the best {wanted} of {found.matched} matches were looked at"
            found = attrs.evolve(found, degraded=(*found.degraded, reason))
        spent = (time.perf_counter() - started) * 1000
        return SearchResult(
            picked.hits,
            Trace(
                strategy=request.strategy,
                scope=str(request.scope),
                backend=answer.backend,
                degraded=(*answer.degraded, *found.degraded, *_degradations(request, found)),
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


def _first_round(request: RecallRequest) -> int:
    """How many candidates to ask for: where rules may cut some, more at once than the answer holds."""
    if request.max_tokens is not None:
        return min(_looked_at_max(request), LIMIT_MAX)
    may_cut = request.retention_days or request.keyword_floor
    return max(2 * request.limit, 50) if may_cut else request.limit


def _looked_at_max(request: RecallRequest) -> int:
    """How far down smaller memories are looked for when larger ones do not fit the budget."""
    return max(5 * request.limit, 50) if request.limit else 0


async def _ask(request: RecallRequest, terms: QueryTerms, candidates: int, backend: MemoryBackend) -> Found:
    if request.strategy == "exact" and not request.text:
        return await _newest(backend, request, candidates=candidates)
    if request.strategy != "exact" and Capability.NATIVE_HYBRID in backend.capabilities:
        found = await _own_search(backend, request, candidates=candidates)
        return attrs.evolve(found, fused_by="backend")
    if Capability.LEXICAL not in backend.capabilities:
        return await _own_search(backend, request, candidates=candidates)
    if not terms.terms:
        detail = "the question holds no word to look for"
        return Found(candidates=(), matched=0, more=False, leg="keyword", detail=detail)
    return await _keyword(backend, request, terms, candidates=candidates)


async def _newest(backend: MemoryBackend, request: RecallRequest, *, candidates: int) -> Found:
    page = await backend.list(request.filter, scope=request.scope, now=request.now, limit=candidates, newest_first=True)
    found = tuple(
        Candidate(memory=memory, score=0.0, legs=(LegScore(leg="newest", rank=rank, score=0.0),))
        for rank, memory in enumerate(page.memories, 1)
    )
    return Found(candidates=found, matched=len(found), more=page.cursor is not None, leg="newest")


async def _own_search(backend: MemoryBackend, request: RecallRequest, *, candidates: int) -> Found:
    by_time = request.strategy == "exact"
    limit = LIMIT_MAX if by_time else candidates
    query = SearchQuery(text=request.text, limit=limit, filter=request.filter)
    scored = await backend.search(query, scope=request.scope, now=request.now)
    found = tuple(
        Candidate(memory=item.memory, score=item.score, legs=(LegScore(leg="backend", rank=rank, score=item.score),))
        for rank, item in enumerate(scored, 1)
    )
    if by_time:
        found = tuple(sorted(found, key=lambda c: (c.memory.created_at, c.memory.id), reverse=True))
    detail = "the store's own search, unranked by us"
    return Found(candidates=found, matched=len(found), more=len(found) >= limit, leg="backend", detail=detail)


async def _keyword(backend: MemoryBackend, request: RecallRequest, terms: QueryTerms, *, candidates: int) -> Found:
    by_time = request.strategy == "exact"
    answer = await backend.lexical(
        KeywordQuery(terms.terms),
        scope=request.scope,
        filter=request.filter,
        now=request.now,
        limit=LIMIT_MAX if by_time else candidates,
    )
    scored = list(enumerate(keyword_scores(answer.matches, answer.statistics), 1))
    degraded: tuple[str, ...] = ()
    if by_time:
        scored.sort(key=lambda item: (item[1][1].created_at, item[1][1].id), reverse=True)
        if answer.matched > len(scored):
            degraded = (f"only the best {len(scored)} of {answer.matched} matches were put in the order of time",)
    wanted = scored[:candidates]
    memories = await _hydrate(backend, [match for _, (_, match) in wanted], request)
    found, gone = [], []
    for rank, (score, match) in wanted:
        memory = memories.get((match.owner, match.id))
        if memory is None:
            gone.append(match.id)
        else:
            found.append(_candidate(memory, match, rank=rank, score=score, terms=terms))
    cut_off = f"only the first {TERMS_MAX} words of the question were looked for"
    return Found(
        candidates=tuple(found),
        detail=cut_off if len(terms.terms) >= TERMS_MAX else "",
        matched=answer.matched,
        more=len(wanted) < (len(scored) if by_time else answer.matched),
        leg="keyword",
        gone=tuple(gone),
        degraded=degraded,
    )


async def _hydrate(
    backend: MemoryBackend, matches: Sequence[KeywordMatch], request: RecallRequest
) -> dict[tuple[str, str], Memory]:
    """The memories of matches by owner and id, which two owners may share."""
    memories: dict[tuple[str, str], Memory] = {}
    for owner in dict.fromkeys(match.owner for match in matches):
        scope = Scope.of_owner(owner) if request.scope.kind == "shared" else request.scope
        ids = [match.id for match in matches if match.owner == owner]
        for id, memory in (await backend.get_many(ids, scope=scope, now=request.now)).items():
            memories[owner, id] = memory
    return memories


def _candidate(memory: Memory, match: KeywordMatch, *, rank: int, score: float, terms: QueryTerms) -> Candidate:
    words = dict.fromkeys(word for word, n in zip(terms.words, match.frequencies, strict=True) if n)
    leg = LegScore(leg="keyword", rank=rank, score=score)
    return Candidate(memory=memory, score=score, legs=(leg,), matched=tuple(words))


@attrs.frozen(kw_only=True)
class _Picked:
    hits: tuple[Hit, ...]
    cuts: tuple[Cut, ...]
    is_full: bool
    """Whether a further round could add nothing."""


def _pick(found: Found, request: RecallRequest, *, count_tokens: TokenCounter) -> _Picked:
    hits: list[Hit] = []
    cuts = [Cut(id=id, reason="gone", detail="deleted or expired since the index was read") for id in found.gone]
    left = request.max_tokens
    looked_at = 0
    for candidate in found.candidates:
        if len(hits) >= request.limit or looked_at >= _looked_at_max(request):
            break
        memory = candidate.memory
        if cut := _refused(candidate, request, leg=found.leg):
            cuts.append(cut)
            continue
        looked_at += 1
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
    is_full = len(hits) >= request.limit or looked_at >= _looked_at_max(request)
    return _Picked(hits=tuple(hits), cuts=tuple(cuts), is_full=is_full)


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
