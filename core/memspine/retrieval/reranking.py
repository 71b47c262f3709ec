"""A second look at the best candidates: a reranker reads question and text together. It never costs an answer."""

from __future__ import annotations

import math
import time

import attrs

from memspine.breaker import Breaker
from memspine.contracts import Reranker
from memspine.errors import MemspineError, RerankError
from memspine.ondemand import CallFailed, OnDemand
from memspine.results import LegScore, LegTrace
from memspine.retrieval.picking import Candidate


@attrs.frozen(kw_only=True)
class Reranked:
    """The candidates in their final order, and whether a reranker made it."""

    candidates: tuple[Candidate, ...]
    is_applied: bool = False
    legs: tuple[LegTrace, ...] = ()
    degraded: tuple[str, ...] = ()


class Reranking:
    """Puts the best `candidates` in the order of a reranker, within `seconds`; whatever fails leaves their order."""

    def __init__(self, member: OnDemand[Reranker], *, candidates: int, seconds: float, breaker: Breaker) -> None:
        self.candidates = candidates
        self._member = member
        self._seconds = seconds
        self._breaker = breaker
        self.has_worked = False

    @property
    def name(self) -> str:
        """The name that the configuration gives the reranker."""
        return self._member.name

    async def apply(self, question: str, candidates: tuple[Candidate, ...]) -> Reranked:
        """The candidates, the best of them reranked; those further down follow as they are."""
        best, rest = candidates[: self.candidates], candidates[self.candidates :]
        if not best:
            return Reranked(candidates=candidates)
        started = time.perf_counter()
        try:
            scores = await self._scores(question, [candidate.memory.content for candidate in best])
        except RerankError as error:
            reason = f"not reranked: {error}"
            leg = LegTrace(leg="rerank", status="failed", detail=reason, milliseconds=_since(started))
            return Reranked(candidates=candidates, legs=(leg,), degraded=(reason,))
        order = sorted(range(len(best)), key=lambda place: (-scores[place], place))
        judged = tuple(
            attrs.evolve(
                best[place],
                score=scores[place],
                legs=(*best[place].legs, LegScore(leg="rerank", rank=rank, score=scores[place])),
            )
            for rank, place in enumerate(order, 1)
        )
        leg = LegTrace(
            leg="rerank",
            status="ran",
            detail=self.name,
            matched=len(candidates),
            candidates=len(best),
            milliseconds=_since(started),
        )
        return Reranked(candidates=(*judged, *rest), is_applied=True, legs=(leg,))

    @property
    def trouble(self) -> str:
        """Why it did not work the last time; empty when it did, or was never asked."""
        return self._breaker.reason

    async def probe(self) -> str:
        """Ask it about a text now; returns why it does not work, empty when it does."""
        try:
            await self._scores("probe", ["probe"])
        except RerankError as error:
            return str(error)
        return ""

    async def close(self) -> None:
        """Close the reranker."""
        await self._member.close(patience_seconds=1.0)

    async def _scores(self, question: str, texts: list[str]) -> tuple[float, ...]:
        """A finite score for each text. Raises RerankError for whatever keeps them from being had."""
        pauses = self._breaker.pauses
        if pause := self._breaker.pause_seconds:
            reason = f"left alone for another {pause:.0f} s after: {self._breaker.reason}"
            raise RerankError(self.name, reason, expected="a reranker that works", kind="transient")
        try:
            answer = await self._member.ask(lambda reranker: reranker.rerank(question, texts), seconds=self._seconds)
            scores = self._checked(answer, count=len(texts))
        except RerankError as error:
            self._breaker.fail(str(error), pauses=pauses, retry_after_seconds=error.retry_after_seconds)
            raise
        except (MemspineError, CallFailed) as error:
            reason = error.reason if isinstance(error, CallFailed) else f"failed: {error}"
            failure = RerankError(self.name, reason, expected="an answer", kind="transient")
            self._breaker.fail(str(failure), pauses=pauses, retry_after_seconds=failure.retry_after_seconds)
            raise failure from error
        self._breaker.succeed()
        self.has_worked = True
        return scores

    def _checked(self, answer: object, *, count: int) -> tuple[float, ...]:
        scores = tuple(answer) if isinstance(answer, (list, tuple)) else ()
        if len(scores) != count or not all(isinstance(score, float) and math.isfinite(score) for score in scores):
            reason = f"answered {len(scores)} scores for {count} texts"
            raise RerankError(self.name, reason, expected="a finite one for each")
        return scores


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
