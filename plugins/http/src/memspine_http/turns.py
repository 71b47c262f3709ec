"""Writes take turns, one owner's after the other, and once begun they are finished.

The plain protocol has no revisions, so a change is read, made and written back; two at once would lose one. And a call
may be several requests: a caller who gives up in its middle must not leave half of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Turns:
    """The writes that are under way, by owner."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._left: dict[asyncio.Task[Any], str] = {}

    async def take(self, owner: str, write: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of a write. Cancelled while it waits for its turn, nothing of it is done; later, all of it."""
        lock = self._locks.setdefault(owner, asyncio.Lock())
        await lock.acquire()
        task = asyncio.create_task(write())
        task.add_done_callback(lambda _: lock.release())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self._left[task] = owner
                task.add_done_callback(self._forget)
            raise

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._left.pop(task, None)
        if not task.cancelled():
            task.exception()  # looked at: nobody waits for it any more

    async def settled(self, *owners: str) -> None:
        """Wait for what was left by callers who gave up, of these owners (none: of all), so that a reader sees it
        done."""
        left = [task for task, owner in self._left.items() if not owners or owner in owners]
        if left:
            await asyncio.wait(left)

    @asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        """At its end, wait for what was left; whoever gives that up as well takes the writes with them."""
        try:
            yield
        finally:
            try:
                await self.settled()
            finally:
                for task in self._left:
                    task.cancel()
