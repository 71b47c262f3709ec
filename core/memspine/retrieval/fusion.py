"""Pure ranking of candidates: words, meaning and context become one order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

import attrs

from memspine.contracts import VectorHit
from memspine.model import KeywordMatch, KeywordMatches, MemoryRef
from memspine.ranking import KeywordScale
from memspine.retrieval.context import Lines, Place, conversation_scores, word_scores
from memspine.retrieval.request import RankingRules

K = TypeVar("K")

SPREAD: Final = 0.15
"""What one standard deviation of the cosines is worth beside a keyword score of 1."""
LATER_CHUNK: Final = 0.1


@attrs.frozen(kw_only=True)
class Ranked:
    """A candidate with its score, and what each leg knows of it. A rank of 0 says that the leg did not propose it."""

    ref: MemoryRef
    score: float
    created_at: datetime | None = None
    match: KeywordMatch | None = None
    keyword_score: float = 0.0
    keyword_rank: int = 0
    hit: VectorHit | None = None
    vector_rank: int = 0


def nearness(hit: VectorHit) -> float:
    """The cosine of a memory for ranking. Of many chunks one is near to anything, so that one beyond the first counts
    less."""
    return hit.score - LATER_CHUNK if hit.chunk else hit.score


@attrs.frozen(kw_only=True)
class Candidates:
    """What is to be ranked: what the keyword leg matched, what the vector leg proposes, and what stands next to these.

    `matches` are all memories that the keyword index told of, those that it proposes first; `places` say which of them
    are candidates. `best` is what the vector leg proposes, the nearest first.
    """

    keyword: KeywordMatches
    matches: Sequence[KeywordMatch]
    places: Sequence[Place]
    lines: Lines
    best: Sequence[MemoryRef]

    @classmethod
    def of(cls, keyword: KeywordMatches, *, best: Sequence[MemoryRef] = (), has_context: bool) -> Candidates:
        """The candidates of both legs; what stands next to them only with `has_context`."""
        matches = (*keyword.matches, *keyword.others)
        proposed = set(best)
        core = [*range(len(keyword.matches))]
        core += (n for n in range(len(core), len(matches)) if (matches[n].owner, matches[n].id) in proposed)
        lines = Lines.of(matches, keyword.neighbours if has_context else ())
        return cls(keyword=keyword, matches=matches, places=lines.with_neighbours(core), lines=lines, best=best)

    def refs(self) -> list[MemoryRef]:
        """Which memories they are, in the order of `places`."""
        return [MemoryRef(self.matches[place].owner, self.matches[place].id) for place in self.places]


def rank(
    candidates: Candidates,
    *,
    hits: Mapping[MemoryRef, VectorHit] | None = None,
    rules: RankingRules,
    limit: int | None = None,
) -> tuple[list[Ranked], int]:
    """The best `limit` candidates (None: all), best first, ties by id, and how many there are. `hits` are the vectors
    of all that have one.

    `scaled` adds two scores that are on one scale because both are relative to the candidates of this question: the
    keyword score as a share of the best one's, and the cosine by how many standard deviations it is above their mean.
    Fusing scores and not ranks keeps how clearly a leg prefers what it prefers. `weighted` adds the plain scores,
    `rrf` the reciprocal ranks (Cormack, Clarke and Büttcher, 2009).
    """
    matches, places = candidates.matches, candidates.places
    scale = KeywordScale.of(candidates.keyword.statistics)
    if rules.context:
        words = word_scores(matches, places, candidates.lines, shares=scale.shares)
    else:
        words = {place: scale.score(matches[place]) for place in places}
    near = _by_place(candidates, hits or {})
    if rules.method == "scaled":
        scores = _scaled(words, near, weight=rules.vector_weight)
        if rules.context:
            scores = conversation_scores(scores, matches)
    elif rules.method == "weighted":
        scores = _weighted(words, near, weight=rules.vector_weight)
    else:
        scores = _reciprocal(_in_order(words, matches), _in_order(_cosines(near), matches), k=rules.rrf_k)
    found = [place for place in scores if words[place] or place in near]
    found.sort(key=lambda place: (-scores[place], matches[place].id, matches[place].owner))
    vector_ranks = {ref: rank for rank, ref in enumerate(candidates.best, 1)}
    proposed = len(candidates.keyword.matches)
    ranked = []
    for place in found[:limit]:
        match = matches[place]
        ref = MemoryRef(match.owner, match.id)
        ranked.append(
            Ranked(
                ref=ref,
                score=scores[place],
                created_at=match.created_at,
                match=match,
                keyword_score=scale.score(match),
                keyword_rank=place + 1 if place < proposed else 0,
                hit=near.get(place),
                vector_rank=vector_ranks.get(ref, 0),
            )
        )
    return ranked, len(found)


def rank_unscored(own: Sequence[MemoryRef], near: Iterable[VectorHit], *, rules: RankingRules) -> list[Ranked]:
    """By reciprocal ranks, for a store whose scores mean nothing beside others."""
    hits = {MemoryRef(hit.owner, hit.id): (place, hit) for place, hit in enumerate(near, 1)}
    scores = _reciprocal(own, list(hits), k=rules.rrf_k)
    ranked = []
    for ref, score in scores.items():
        place, hit = hits.get(ref, (0, None))
        ranked.append(Ranked(ref=ref, score=score, hit=hit, vector_rank=place))
    return sorted(ranked, key=lambda one: (-one.score, one.ref.id, one.ref.owner))


def _by_place(candidates: Candidates, hits: Mapping[MemoryRef, VectorHit]) -> dict[Place, VectorHit]:
    near: dict[Place, VectorHit] = {}
    if hits:
        for place in candidates.places:
            match = candidates.matches[place]
            hit = hits.get((match.owner, match.id))  # type: ignore[call-overload]  # a MemoryRef is such a pair
            if hit is not None:
                near[place] = hit
    return near


def _scaled(words: Mapping[Place, float], near: Mapping[Place, VectorHit], *, weight: float) -> dict[Place, float]:
    """A candidate without a vector counts as one of the mean cosine: that it has none says nothing about it."""
    best = max(words.values(), default=0.0) or 1.0
    if not near:
        return {place: score / best for place, score in words.items()}
    cosines = _cosines(near)
    mean = math.fsum(cosines.values()) / len(cosines)
    deviation = math.sqrt(math.fsum((cosine - mean) ** 2 for cosine in cosines.values()) / len(cosines))
    slope = 2 * weight * SPREAD / deviation if deviation else 0.0
    share = 2 * (1 - weight) / best
    return {place: share * score + slope * (cosines.get(place, mean) - mean) for place, score in words.items()}


def _weighted(words: Mapping[Place, float], near: Mapping[Place, VectorHit], *, weight: float) -> dict[Place, float]:
    if not near:
        return dict(words)
    cosines = _cosines(near)
    return {place: (1 - weight) * score + weight * max(cosines.get(place, 0.0), 0.0) for place, score in words.items()}


def _cosines(near: Mapping[Place, VectorHit]) -> dict[Place, float]:
    return {place: nearness(hit) for place, hit in near.items()}


def _reciprocal(*legs: Sequence[K], k: int) -> dict[K, float]:
    scores: dict[K, float] = {}
    for leg in legs:
        for place, one in enumerate(leg, 1):
            scores[one] = scores.get(one, 0.0) + 1 / (k + place)
    return scores


def _in_order(scores: Mapping[Place, float], matches: Sequence[KeywordMatch]) -> list[Place]:
    """Those that have a score, best first."""
    having = (place for place, score in scores.items() if score)
    return sorted(having, key=lambda place: (-scores[place], matches[place].id, matches[place].owner))
