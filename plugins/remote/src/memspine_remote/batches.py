"""Which texts go into one request, and several requests at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from memspine_remote.failures import RequestError

T = TypeVar("T")


def batches(tokens: Sequence[int], *, texts_max: int, tokens_max: int) -> Iterator[range]:
    """The places of the texts of each request, in order, given how many tokens each text takes.

    A text of more than `tokens_max` tokens goes alone: whether it is too long is for the provider to say. Texts of no
    tokens are limited by their number only.
    """
    start, total = 0, 0
    for place, count in enumerate(tokens):
        if place > start and (place - start >= texts_max or total + count > tokens_max):
            yield range(start, place)
            start, total = place, 0
        total += count
    if start < len(tokens):
        yield range(start, len(tokens))


async def together(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """The results of these calls, in their order, made at once; the first that fails ends the others.

    Raises RequestError, the one that came first.
    """
    if len(calls) == 1:
        return [await calls[0]()]
    first: BaseException | None = None
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(call()) for call in calls]
    except* RequestError as failures:
        first = failures.exceptions[0]
    if first is not None:
        raise first
    return [task.result() for task in tasks]
