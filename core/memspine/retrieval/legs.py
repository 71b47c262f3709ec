"""The two legs over one backend: by words and by meaning, fused, and turned into memories."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import attrs

from memspine.contracts import Capability, MemoryBackend, VectorHit
from memspine.model import LIMIT_MAX, KeywordMatches, KeywordQuery, Memory, MemoryRef, Scope
from memspine.results import LegScore, LegTrace
from memspine.retrieval.context import REACH
from memspine.retrieval.found import Found
from memspine.retrieval.fusion import Candidates, Ranked, nearness, rank, rank_unscored
from memspine.retrieval.guard import IndexFailed
from memspine.retrieval.own import newest, own_search
from memspine.retrieval.picking import Candidate
from memspine.retrieval.request import RankingRules, RecallRequest
from memspine.retrieval.vectors import Nearest, Off, VectorLeg, scores_of
from memspine.retrieval.words import Words, words_of
from memspine.text import TERMS_MAX, QueryTerms, without_words

PATIENCE_SECONDS = 0.03
"""How long the keyword leg waits for the vector leg, so that one reading of the keyword index serves both."""

NO_TERMS = "the question holds no word to look for"
CUT_OFF = f"only the first {TERMS_MAX} words of the question were looked for"


@attrs.frozen(kw_only=True)
class Question:
    """What every store is asked: the request, its terms, how many candidates each leg proposes, how many of the ranked
    ones are wanted as memories, and the vector leg, which they share."""

    request: RecallRequest
    terms: QueryTerms
    candidates: int
    memories: int
    vector: VectorLeg


async def ask(question: Question, backend: MemoryBackend) -> Found:
    """What one store and the vector index find. Raises what the store raises; where the index fails, the store answers
    without."""
    request, wanted = question.request, question.memories
    if request.strategy == "exact" and not request.text:
        return await newest(backend, request, candidates=wanted)
    if request.strategy != "exact" and request.native_hybrid and Capability.NATIVE_HYBRID in backend.capabilities:
        found = await own_search(backend, request, candidates=wanted)
        return attrs.evolve(found, fused_by="backend")
    failed: tuple[LegTrace, ...] = ()
    try:
        words, degraded = await words_of(backend, question.vector.index, request)
        found = await _answered(backend, words, question)
    except IndexFailed as error:
        degraded = (f"the keyword index failed: {error}",)
        failed = (LegTrace(leg="keyword", status="failed", detail=degraded[0]),)
        found = await _answered(backend, None, question)
    return attrs.evolve(found, legs=(*failed, *found.legs), degraded=(*degraded, *found.degraded))


async def _answered(backend: MemoryBackend, words: Words | None, question: Question) -> Found:
    """What is found with a keyword index, or without one. Raises IndexFailed if that index is kept by a vector store
    and fails."""
    if question.request.strategy != "exact":
        question.vector.begin(await _text_to_embed(words, question))
        return await _ranked(backend, words, question)
    if words is None:
        return await own_search(backend, question.request, candidates=question.memories)
    return await _by_time(backend, words, question)


async def _ranked(backend: MemoryBackend, words: Words | None, question: Question) -> Found:
    """By meaning alone where that was asked for and can be had, else by both legs as far as they are there."""
    if words is None:
        return await _unscored(backend, question)
    near = await question.vector.within(PATIENCE_SECONDS)
    if question.request.strategy == "semantic":
        near = near or await question.vector.ended()
        if isinstance(near, Nearest):
            return await _by_meaning(backend, question, near)
    return await _fused(backend, words, question, near)


async def _fused(backend: MemoryBackend, words: Words, question: Question, near: Nearest | Off | None) -> Found:
    """Both legs; either may be missing."""
    started = time.perf_counter()
    keyword = await _keyword(words, question, _refs(near), limit=question.candidates)
    milliseconds = (time.perf_counter() - started) * 1000
    if near is None:
        near = await question.vector.ended()
        known = {MemoryRef(match.owner, match.id) for match in keyword.matches}
        if late := [ref for ref in _refs(near) if ref not in known]:
            keyword = _joined(keyword, await _keyword(words, question, late, limit=0))
    near, candidates, hits = await _scored(question, keyword, near)
    nearest = near if isinstance(near, Nearest) else None
    ranked, count = rank(candidates, hits=hits, rules=question.request.ranking, limit=question.memories)
    found, gone = await _hydrated(backend, question, ranked)
    detail = NO_TERMS if not question.terms.terms else CUT_OFF if len(question.terms.terms) >= TERMS_MAX else ""
    trace = LegTrace(
        leg="keyword",
        status="ran",
        detail=detail,
        matched=keyword.matched,
        candidates=len(keyword.matches),
        milliseconds=milliseconds,
    )
    compared = 0 if nearest is None else nearest.matches.compared
    return Found(
        candidates=found,
        legs=(trace, _vector_trace(near)),
        more=question.memories < max(count, keyword.matched, compared),
        gone=gone,
        fused_by="" if nearest is None else question.request.ranking.method,
        degraded=_degraded(near),
    )


async def _by_meaning(backend: MemoryBackend, question: Question, near: Nearest) -> Found:
    ranked = [
        Ranked(ref=MemoryRef(hit.owner, hit.id), score=nearness(hit), hit=hit, vector_rank=place)
        for place, hit in enumerate(near.matches.hits, 1)
    ]
    ranked.sort(key=lambda one: (-one.score, one.ref.id, one.ref.owner))
    found, gone = await _hydrated(backend, question, ranked[: question.memories])
    return Found(
        candidates=found,
        legs=(_vector_trace(near),),
        more=question.memories < near.matches.compared,
        gone=gone,
        degraded=near.degraded,
    )


async def _unscored(backend: MemoryBackend, question: Question) -> Found:
    """A store that only ranks: its ranks and those of the vector leg."""
    near = await question.vector.ended()
    if question.request.strategy == "semantic" and isinstance(near, Nearest):
        return await _by_meaning(backend, question, near)
    own = await own_search(backend, question.request, candidates=question.memories)
    if not isinstance(near, Nearest):
        return attrs.evolve(own, legs=(*own.legs, _vector_trace(near)), degraded=_degraded(near))
    own_refs = [MemoryRef(candidate.memory.owner, candidate.memory.id) for candidate in own.candidates]
    memories = dict(zip(own_refs, own.candidates, strict=True))
    ranked = rank_unscored(own_refs, near.matches.hits, rules=question.request.ranking)
    rest, gone = await _hydrated(backend, question, [one for one in ranked if one.ref not in memories])
    there = {MemoryRef(one.memory.owner, one.memory.id): one for one in rest}
    found = []
    for one in ranked:
        known = memories.get(one.ref)
        if known is not None:
            legs = (*known.legs, *_legs(one))
            found.append(attrs.evolve(known, score=one.score, legs=legs, vector_revision=_revision(one)))
        elif one.ref in there:
            found.append(there[one.ref])
    return Found(
        candidates=tuple(found),
        legs=(*own.legs, _vector_trace(near)),
        more=own.more or question.memories < near.matches.compared,
        gone=gone,
        fused_by="rrf",
        degraded=near.degraded,
    )


async def _by_time(backend: MemoryBackend, words: Words, question: Question) -> Found:
    """What holds a word of the question, newest first."""
    started = time.perf_counter()
    keyword = await _keyword(words, question, (), limit=LIMIT_MAX, context=False)
    ranked, _ = rank(Candidates.of(keyword, has_context=False), rules=RankingRules(context=False))
    ranked.sort(key=lambda one: (one.created_at, one.ref.id), reverse=True)
    degraded: tuple[str, ...] = ()
    if keyword.matched > len(ranked):
        degraded = (f"only the best {len(ranked)} of {keyword.matched} matches were put in the order of time",)
    found, gone = await _hydrated(backend, question, ranked[: question.memories])
    trace = LegTrace(
        leg="keyword",
        status="ran",
        detail=NO_TERMS if not question.terms.terms else "",
        matched=keyword.matched,
        candidates=len(found),
        milliseconds=(time.perf_counter() - started) * 1000,
    )
    return Found(candidates=found, legs=(trace,), more=question.memories < len(ranked), gone=gone, degraded=degraded)


# ── the keyword leg ──


async def _keyword(
    words: Words, question: Question, also: Sequence[MemoryRef], *, limit: int, context: bool = True
) -> KeywordMatches:
    request = question.request
    has_context = context and request.ranking.context
    query = KeywordQuery(
        question.terms.terms,
        also=tuple(also),
        before=REACH if has_context else 0,
        after=REACH if has_context else 0,
    )
    return await words.lexical(query, scope=request.scope, filter=request.filter, now=request.now, limit=limit)


def _joined(keyword: KeywordMatches, more: KeywordMatches) -> KeywordMatches:
    """The matches, with what a second question told of further memories."""
    known = {(match.owner, match.id) for match in (*keyword.matches, *keyword.others)}
    others = tuple(match for match in more.others if (match.owner, match.id) not in known)
    return attrs.evolve(keyword, others=(*keyword.others, *others), neighbours=(*keyword.neighbours, *more.neighbours))


# ── the vector leg ──


async def _text_to_embed(words: Words | None, question: Question) -> str:
    """The question without the names of those who said what is remembered: nearly all that they said is near to their
    names, whatever it is about. Words find them better."""
    request, terms = question.request, question.terms
    if words is None or question.vector.index is None or not terms.terms:
        return request.text
    names = await words.speakers(terms.terms, scope=request.scope, now=request.now)
    return without_words(request.text, [w for w, term in zip(terms.words, terms.terms, strict=True) if term in names])


async def _scored(
    question: Question, keyword: KeywordMatches, near: Nearest | Off
) -> tuple[Nearest | Off, Candidates, Mapping[MemoryRef, VectorHit]]:
    """The candidates of both legs, and how near each is that has a vector. Where that cannot be had, the vector leg has
    failed: the cosines of the nearest alone would put all others too far up."""
    has_context = question.request.ranking.context
    candidates = Candidates.of(keyword, best=_refs(near), has_context=has_context)
    if not isinstance(near, Nearest) or question.vector.index is None:
        return near, candidates, {}
    hits = {MemoryRef(hit.owner, hit.id): hit for hit in near.matches.hits}
    unknown = [ref for ref in candidates.refs() if ref not in hits]
    try:
        others = await scores_of(question.vector.index, near, unknown, question.request)
    except IndexFailed as error:
        return question.vector.fail(str(error)), Candidates.of(keyword, has_context=has_context), {}
    return near, candidates, {**hits, **others}


def _refs(near: Nearest | Off | None) -> list[MemoryRef]:
    return [MemoryRef(hit.owner, hit.id) for hit in near.matches.hits] if isinstance(near, Nearest) else []


def _vector_trace(near: Nearest | Off) -> LegTrace:
    if isinstance(near, Nearest):
        return LegTrace(
            leg="vector",
            status="ran",
            detail=f"{near.space.identity.model} by {near.source}",
            matched=near.matches.compared,
            candidates=len(near.matches.hits),
            milliseconds=near.milliseconds,
        )
    return LegTrace(leg="vector", status="failed" if near.has_failed else "off", detail=near.reason)


def _degraded(near: Nearest | Off) -> tuple[str, ...]:
    return near.degraded if isinstance(near, Nearest) else (near.reason,)


# ── memories ──


async def _hydrated(
    backend: MemoryBackend, question: Question, ranked: Sequence[Ranked]
) -> tuple[tuple[Candidate, ...], tuple[MemoryRef, ...]]:
    """The memories of ranked candidates, and those that are not there."""
    memories = await _memories(backend, question, [one.ref for one in ranked])
    found, gone = [], []
    for one in ranked:
        memory = memories.get(one.ref)
        if memory is None:
            gone.append(one.ref)
        else:
            words: dict[str, None] = {}
            if one.match is not None:
                pairs = zip(question.terms.words, one.match.frequencies, strict=True)
                words = dict.fromkeys(word for word, n in pairs if n)
            found.append(
                Candidate(
                    memory=memory,
                    score=one.score,
                    legs=_legs(one),
                    matched=tuple(words),
                    vector_revision=_revision(one),
                )
            )
    return tuple(found), tuple(gone)


async def _memories(
    backend: MemoryBackend, question: Question, refs: Sequence[MemoryRef]
) -> Mapping[MemoryRef, Memory]:
    by_owner: dict[str, list[str]] = {}
    for ref in refs:
        by_owner.setdefault(ref.owner, []).append(ref.id)
    scope, now = question.request.scope, question.request.now
    memories: dict[MemoryRef, Memory] = {}
    for owner, ids in by_owner.items():
        # Two owners may have a memory of the same id, so that a wider scope could give the wrong one.
        mine = Scope.of_owner(owner) if scope.kind == "shared" else scope
        for id, memory in (await backend.get_many(ids, scope=mine, now=now)).items():
            memories[MemoryRef(owner, id)] = memory
    return memories


def _legs(one: Ranked) -> tuple[LegScore, ...]:
    legs = []
    if one.match is not None and one.keyword_rank:
        legs.append(LegScore(leg="keyword", rank=one.keyword_rank, score=one.keyword_score))
    if one.hit is not None and one.vector_rank:
        legs.append(LegScore(leg="vector", rank=one.vector_rank, score=one.hit.score))
    return tuple(legs) or (LegScore(leg="context", rank=0, score=one.score),)


def _revision(one: Ranked) -> int | None:
    return None if one.hit is None else one.hit.revision
