"""Stores that answer by themselves: newest first, or by their own search."""

from __future__ import annotations

from memspine.contracts import MemoryBackend
from memspine.model import LIMIT_MAX, SearchQuery
from memspine.results import LegScore, LegTrace
from memspine.retrieval.found import Found
from memspine.retrieval.picking import Candidate
from memspine.retrieval.request import RecallRequest

UNRANKED = "the store's own search, unranked by us"


async def newest(backend: MemoryBackend, request: RecallRequest, *, candidates: int) -> Found:
    """The newest memories."""
    page = await backend.list(request.filter, scope=request.scope, now=request.now, limit=candidates, newest_first=True)
    found = tuple(
        Candidate(memory=memory, score=0.0, legs=(LegScore(leg="newest", rank=rank, score=0.0),))
        for rank, memory in enumerate(page.memories, 1)
    )
    leg = LegTrace(leg="newest", status="ran", matched=len(found), candidates=len(found))
    return Found(candidates=found, legs=(leg,), more=page.cursor is not None)


async def own_search(backend: MemoryBackend, request: RecallRequest, *, candidates: int) -> Found:
    """What the store's own search finds; for the strategy "exact" in the order of time."""
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
    leg = LegTrace(leg="backend", status="ran", detail=UNRANKED, matched=len(found), candidates=len(found))
    return Found(candidates=found, legs=(leg,), more=len(found) >= limit)
