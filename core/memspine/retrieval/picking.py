"""From ranked candidates to an answer: the rules for what may be returned, and the token budget."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import attrs

from memspine.model import Memory, MemoryRef
from memspine.results import Cut, Hit, LegScore
from memspine.retrieval.request import RecallRequest
from memspine.text import TokenCounter


@attrs.frozen(kw_only=True)
class Candidate:
    """A memory that the legs propose, before the rules for returning it are applied. `vector_revision` is the one that
    its vector was made of, None without a vector."""

    memory: Memory
    score: float
    legs: tuple[LegScore, ...] = ()
    matched: tuple[str, ...] = ()
    vector_revision: int | None = None


@attrs.frozen(kw_only=True)
class Picked:
    """An answer and what was left out of it. `is_full` says that further candidates could add nothing."""

    hits: tuple[Hit, ...]
    cuts: tuple[Cut, ...]
    is_full: bool


def looked_at_max(request: RecallRequest) -> int:
    """How far down smaller memories are looked for when larger ones do not fit the budget."""
    return max(5 * request.limit, 50) if request.limit else 0


def allowed(
    candidates: tuple[Candidate, ...], request: RecallRequest, *, deleted: Collection[MemoryRef] = ()
) -> tuple[tuple[Candidate, ...], tuple[Cut, ...]]:
    """The candidates that may be returned, in their order, and why the others may not; `deleted` are those that a
    fallback still has, or that are about to be."""
    kept: list[Candidate] = []
    cuts: list[Cut] = []
    for candidate in candidates:
        memory = candidate.memory
        if MemoryRef(memory.owner, memory.id) in deleted:
            cuts.append(Cut(id=memory.id, reason="deleted", detail="deleted in the primary, about to be, or expired"))
        elif cut := _refused(candidate, request):
            cuts.append(cut)
        else:
            kept.append(candidate)
    return tuple(kept), tuple(cuts)


def pick(candidates: tuple[Candidate, ...], request: RecallRequest, *, count_tokens: TokenCounter) -> Picked:
    """The best candidates that fit: what is too large for the rest of the budget gives way to smaller ones."""
    hits: list[Hit] = []
    cuts: list[Cut] = []
    left = request.max_tokens
    furthest = looked_at_max(request)
    for candidate in candidates[:furthest]:
        if len(hits) >= request.limit:
            break
        memory = candidate.memory
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
    is_full = len(hits) >= request.limit or len(candidates) >= furthest
    return Picked(hits=tuple(hits), cuts=tuple(cuts), is_full=is_full)


def _refused(candidate: Candidate, request: RecallRequest) -> Cut | None:
    """Why a candidate may not be returned; None when it may."""
    memory = candidate.memory
    if cut := _below_floor(candidate, request):
        return cut
    if not request.filter.holds_for(memory):
        return Cut(id=memory.id, reason="filter", detail="the filter does not hold for it")
    stale = candidate.vector_revision is not None and candidate.vector_revision < memory.revision
    if stale and all(leg.leg in ("vector", "context") for leg in candidate.legs):
        return Cut(id=memory.id, reason="changed", detail="changed since its vector was made")
    if request.retention_days:
        seen_at = max(memory.updated_at, memory.last_accessed_at or memory.updated_at)
        if seen_at < request.now - timedelta(days=request.retention_days):
            return Cut(id=memory.id, reason="retention", detail=f"last changed or recalled {seen_at:%Y-%m-%d}")
    return None


def _below_floor(candidate: Candidate, request: RecallRequest) -> Cut | None:
    """A candidate needs one leg that finds it relevant enough; the others may find it less so."""
    floors = {"keyword": request.keyword_floor, "vector": request.vector_floor}
    judged = [leg for leg in candidate.legs if leg.leg != "context"]
    if not any(floors.values()) or any(leg.score >= floors.get(leg.leg, 0.0) for leg in judged):
        return None
    told = ", ".join(f"{leg.leg} {leg.score:.3f} < {floors[leg.leg]:g}" for leg in judged)
    return Cut(id=candidate.memory.id, reason="floor", detail=told or "only its context was found")
