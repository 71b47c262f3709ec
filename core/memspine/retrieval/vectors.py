"""The vector leg: the question's vector, and the memories that are nearest to it."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Mapping, Sequence

import attrs

from memspine.contracts import Space, VectorHit, VectorMatches
from memspine.errors import MemspineError, NotFoundError
from memspine.indexing import Answering, VectorIndex, require_identity
from memspine.model import MemoryRef
from memspine.results import VECTORS_OFF
from memspine.retrieval.guard import guarded, held_so_far
from memspine.retrieval.request import RecallRequest


@attrs.frozen(kw_only=True)
class Nearest:
    """What the vector leg found, in which space, by whose vector. `degraded` says why it is not what was asked for."""

    space: Space
    source: str
    vector: bytes
    matches: VectorMatches
    degraded: tuple[str, ...] = ()
    milliseconds: float = 0.0


@attrs.frozen(kw_only=True)
class Off:
    """Why there is no vector leg: it could not run, or it failed."""

    reason: str
    has_failed: bool = False


class VectorLeg:
    """The vector leg of one question, begun by the first store that asks for it and shared by all."""

    def __init__(self, index: VectorIndex | None, request: RecallRequest, *, why_none: str, limit: int) -> None:
        self.index = index
        self._nearest = functools.partial(nearest, index, request, why_none=why_none, limit=limit)
        self._task: asyncio.Task[Nearest | Off] | None = None
        self._failed: Off | None = None

    @property
    def outcome(self) -> Nearest | Off | None:
        """What it came to; None while it is not known."""
        if self._failed is not None:
            return self._failed
        task = self._task
        return task.result() if task is not None and task.done() and not task.cancelled() else None

    def begin(self, text: str) -> None:
        """Look for what is near to a text; only the first call does."""
        if self._task is None:
            self._task = asyncio.create_task(self._nearest(text=text))

    async def within(self, seconds: float) -> Nearest | Off | None:
        """What it comes to once it has begun, or None if that takes longer; it goes on then."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=seconds)
        return self.outcome

    async def ended(self) -> Nearest | Off:
        """What it comes to once it has begun."""
        if self._failed is not None:
            return self._failed
        return Off(reason=f"{VECTORS_OFF}it was not begun") if self._task is None else await asyncio.shield(self._task)

    def fail(self, reason: str) -> Off:
        """Give up what it came to, which is no use for this reason; returns what it comes to now."""
        self._failed = _failed(reason)
        return self._failed

    async def close(self) -> None:
        """Give it up if it is still under way."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})


async def nearest(
    index: VectorIndex | None, request: RecallRequest, *, text: str, why_none: str, limit: int
) -> Nearest | Off:
    """The `limit` memories that are nearest to a text, from the first space that can answer."""
    if index is None or not index.has_vectors:
        return Off(reason=why_none)
    if not text:
        return Off(reason=f"{VECTORS_OFF}the question is empty")
    started = time.perf_counter()
    reasons: list[str] = []
    try:
        async with asyncio.timeout(request.vector_seconds):
            found = await _first_answer(index, request, text=text, limit=limit, reasons=reasons)
    except MemspineError as error:
        reasons.append(str(error))
    except TimeoutError:
        reasons.append(f"the vector of the question took longer than {request.vector_seconds:g} s")
    else:
        if found is not None:
            instead = (f"{'; '.join(reasons)}; answered by {found.source} instead",) if reasons else ()
            spent = (time.perf_counter() - started) * 1000
            degraded = (*instead, *await _shortcomings(index, found.space, request))
            return attrs.evolve(found, degraded=degraded, milliseconds=spent)
    if not reasons and (trouble := index.trouble):
        reasons.append(trouble)
    if not reasons:
        return Off(reason=f"{VECTORS_OFF}nothing is indexed yet; `memspine reindex` does it now")
    return _failed("; ".join(reasons))


def _failed(reason: str) -> Off:
    return Off(reason=f"vector leg failed: {reason}", has_failed=True)


async def _first_answer(
    index: VectorIndex, request: RecallRequest, *, text: str, limit: int, reasons: list[str]
) -> Nearest | None:
    """What the first space finds that can answer; `reasons` gets why others could not. Raises BackendUnavailable,
    EmbeddingError."""
    for attempt in range(2):
        try:
            async for answering in index.answering():
                try:
                    return await _ask(index, answering, request, text=text, limit=limit)
                except NotFoundError:
                    raise
                except MemspineError as error:
                    reasons.append(str(error))
        except NotFoundError as error:  # dropped since it was read which one answers
            if attempt:
                reasons.append(str(error))
        else:
            break
    return None


async def scores_of(
    index: VectorIndex, near: Nearest, refs: Sequence[MemoryRef], request: RecallRequest
) -> Mapping[MemoryRef, VectorHit]:
    """How near these memories are; those that have no vector are left out. Raises IndexFailed."""
    if not refs:
        return {}
    call = index.call(
        "search",
        lambda store: store.search(
            near.space.id,
            vector=near.vector,
            scope=request.scope,
            filter=request.filter,
            now=request.now,
            limit=0,
            also=refs,
        ),
    )
    found = await guarded(call, request)
    return {MemoryRef(hit.owner, hit.id): hit for hit in found.others}


async def _ask(index: VectorIndex, answering: Answering, request: RecallRequest, *, text: str, limit: int) -> Nearest:
    space, embedder = answering.space, answering.embedder()
    await require_identity(embedder, space)
    vector = await embedder.query_vector(text)
    matches = await index.call(
        "search",
        lambda store: store.search(
            space.id, vector=vector, scope=request.scope, filter=request.filter, now=request.now, limit=limit
        ),
    )
    return Nearest(space=space, source=embedder.name, vector=vector, matches=matches)


async def _shortcomings(index: VectorIndex, space: Space, request: RecallRequest) -> tuple[str, ...]:
    """What a space that answers lacks, and why."""
    told = index.shortcomings(space)
    if held := await held_so_far(index, space, request):
        so_far = f"the vectors of {space.identity.model} are not complete yet: {held}"
        return (f"{so_far}; `memspine reindex` completes them", *told)
    return told
