"""Recall: runs the legs, keeps to the rules and the budget, and can explain each step."""

from __future__ import annotations

import functools
import time
from collections import Counter

from memspine.chain import Answer, Chain
from memspine.indexing import VectorIndex
from memspine.model import LIMIT_MAX, MemoryFilter
from memspine.results import CUTS_LISTED_MAX, VECTORS_OFF, Cut, Resolution, SearchResult, Trace
from memspine.retrieval.found import Found
from memspine.retrieval.legs import Question, ask
from memspine.retrieval.picking import Candidate, allowed, looked_at_max, pick
from memspine.retrieval.request import RecallRequest
from memspine.retrieval.reranking import Reranked, Reranking
from memspine.retrieval.vectors import Nearest, Off, VectorLeg
from memspine.text import QueryTerms, TokenCounter, query_terms

CANDIDATES = 20
"""How many memories each of two legs proposes at least; one that is alone proposes twice as many."""
NO_VECTORS = f"{VECTORS_OFF}no vector store or no embedding source is configured"


class Retrieval:
    """Answers questions over a chain and its vector index.

    `why_no_vectors` says why there is no index, where there is none.
    """

    def __init__(
        self,
        chain: Chain,
        *,
        count_tokens: TokenCounter,
        index: VectorIndex | None = None,
        why_no_vectors: str = NO_VECTORS,
        reranking: Reranking | None = None,
    ) -> None:
        self._chain = chain
        self._count_tokens = count_tokens
        self._index = index
        self._why_no_vectors = why_no_vectors
        self._reranking = reranking

    async def recall(self, request: RecallRequest) -> SearchResult:
        """The best memories for a question, with the trace. Raises BackendUnavailable when no store answers."""
        started = time.perf_counter()
        terms = query_terms(request.text)
        wanted = self._first_round(request)
        waiting = await self._chain.waiting(request.scope)
        while True:
            answer, leg = await self._ask(request, terms, memories=wanted)
            found = answer.value
            memories = [candidate.memory for candidate in found.candidates]
            hidden = await self._chain.hidden(memories, scope=request.scope, backend=answer.backend, before=waiting)
            kept, refused = allowed(found.candidates, request, deleted=hidden.refs)
            # What the rules cut is replaced from further down, until the answer is full or nothing is left.
            is_enough = len(kept) >= (looked_at_max(request) if request.max_tokens is not None else request.limit)
            if is_enough or not found.more or wanted >= LIMIT_MAX:
                break
            wanted = min(wanted * 4, LIMIT_MAX)
        if self._index is not None and answer.backend == self._chain.primary.name:
            self._index.note_gone(found.gone)
        reranked = await self._reranked(kept, request)
        picked = pick(reranked.candidates, request, count_tokens=self._count_tokens)
        degraded = [*answer.degraded, *hidden.degraded, *found.degraded, *reranked.degraded]
        if not picked.is_full and found.more:
            degraded.append(f"only the best {wanted} of {found.matched} matches were looked at")
        cuts = (*_gone(found), *refused, *picked.cuts)
        trace = Trace(
            strategy=request.strategy,
            scope=str(request.scope),
            backend=answer.backend,
            degraded=tuple(dict.fromkeys(degraded)),
            legs=(*found.legs, *reranked.legs),
            fused_by=found.fused_by,
            terms=terms.terms,
            cuts=cuts[:CUTS_LISTED_MAX],
            cut_counts=dict(Counter(cut.reason for cut in cuts)),
            tokens=sum(hit.tokens for hit in picked.hits),
            max_tokens=request.max_tokens,
            milliseconds=(time.perf_counter() - started) * 1000,
            resolution=self._resolution(request, leg, reranked),
        )
        return SearchResult(picked.hits, trace)

    async def _ask(
        self, request: RecallRequest, terms: QueryTerms, *, memories: int
    ) -> tuple[Answer[Found], VectorLeg]:
        """The legs over the first store that answers."""
        candidates = max(
            CANDIDATES if self._index is not None and self._index.has_vectors else 2 * CANDIDATES, memories
        )
        leg = VectorLeg(self._index, request, why_none=self._why_no_vectors, limit=candidates)
        question = Question(
            request=request,
            terms=terms,
            candidates=candidates,
            memories=memories,
            vector=leg,
        )
        try:
            return await self._chain.search(functools.partial(ask, question), within_seconds=request.seconds), leg
        finally:
            await leg.close()

    async def _reranked(self, candidates: tuple[Candidate, ...], request: RecallRequest) -> Reranked:
        if self._reranking is None or request.strategy == "exact" or not request.text:
            return Reranked(candidates=candidates)
        return await self._reranking.apply(request.text, candidates)

    def _first_round(self, request: RecallRequest) -> int:
        """How many memories to ask for: where rules may cut some, more at once than the answer holds."""
        least = 0 if self._reranking is None else self._reranking.candidates
        if request.max_tokens is not None:
            return min(max(looked_at_max(request), least), LIMIT_MAX)
        may_cut = (
            request.retention_days or request.keyword_floor or request.vector_floor or request.filter != MemoryFilter()
        )
        return min(max(2 * request.limit, 50, least) if may_cut else max(request.limit, least), LIMIT_MAX)

    def _resolution(self, request: RecallRequest, leg: VectorLeg, reranked: Reranked) -> Resolution:
        near = leg.outcome
        if isinstance(near, Nearest) and self._index is not None:
            return Resolution(
                strategy_used=request.strategy,
                embedding_source=near.source,
                embedding_model=near.space.identity.model,
                vector_store=self._index.name,
                rerank_applied=reranked.is_applied,
                fallback_reason="; ".join(near.degraded),
            )
        used = request.strategy if near is None else "exact" if request.strategy == "exact" else "keyword"
        reason = near.reason if isinstance(near, Off) else ""
        return Resolution(strategy_used=used, rerank_applied=reranked.is_applied, fallback_reason=reason)


def _gone(found: Found) -> tuple[Cut, ...]:
    return tuple(
        Cut(id=ref.id, reason="gone", detail="deleted or expired since the index was read") for ref in found.gone
    )
