"""What a question does when the vector store fails it: it goes on with what remains."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from memspine.contracts import Space
from memspine.errors import MemspineError
from memspine.indexing import VectorIndex
from memspine.retrieval.request import RecallRequest

T = TypeVar("T")

INDEX_SHARE: Final = 1 / 4
"""How much of a store's time one call of the vector store may take. With the vector leg, which may take half, and a
remark on what is missing, that leaves a store time to answer by itself when everything else hangs."""
REMARK_SHARE: Final = 1 / 8


class IndexFailed(Exception):
    """The vector store failed, took too long, or has given up the space. It is no error of ours, so that no chain takes
    it for a failure of the store that it asks."""


async def guarded(call: Awaitable[T], request: RecallRequest, *, share: float = INDEX_SHARE) -> T:
    """What a call of the vector index gives. Raises IndexFailed."""
    seconds = request.seconds * share
    try:
        async with asyncio.timeout(seconds):
            return await call
    except MemspineError as error:
        raise IndexFailed(str(error)) from error
    except TimeoutError:
        raise IndexFailed(f"it took longer than {seconds:g} s") from None


async def held_so_far(index: VectorIndex, space: Space, request: RecallRequest) -> str:
    """How much of the question's scope a space holds; empty when that is everything. That it cannot be told is no
    reason to do without the space."""
    if space.complete:
        return ""
    try:
        held, total = await guarded(index.coverage(space, scope=request.scope), request, share=REMARK_SHARE)
    except IndexFailed as error:
        return f"how much is missing is not known ({error})"
    return f"{held} of {total} memories" if held < total else ""
