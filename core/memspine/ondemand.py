"""Something a plugin opens, opened when it is first needed and kept until it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from memspine.errors import BackendUnavailable, ClosedError, MemspineError, describe

T = TypeVar("T")
R = TypeVar("R")


class CallFailed(Exception):
    """A plugin raised what is no error of ours, or took too long. `reason` says so without credentials, `has_begun`
    that the provider was open by then."""

    def __init__(self, reason: str, *, has_begun: bool, is_late: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.has_begun, self.is_late = reason, has_begun, is_late


class OnDemand(Generic[T]):
    """One opened provider; a failed opening is tried again at the next need.

    `redact` takes credentials out of a text that a plugin wrote.
    """

    def __init__(
        self,
        name: str,
        *,
        open: Callable[[], AbstractAsyncContextManager[T]],
        redact: Callable[[str], str] = str,
    ) -> None:
        self.name = name
        self.redact = redact
        self._open = open
        self._holder: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[T] | None = None
        self._leave = asyncio.Event()
        self._is_closed = False

    async def opened(self) -> T:
        """What the provider opened. Raises whatever opening it raises, ClosedError once it is closed, and
        BackendUnavailable where its opening was given up.

        A caller that gives up waiting does not stop the opening: a store may be migrating its data just then.
        """
        if self._is_closed:
            raise ClosedError(self.name)
        if self._holder is not None and self._holder.done() and not self._holder.cancelled():
            self._holder.exception()  # looked at: a store that broke down while it was open is opened anew
        if self._ready is None or self._holder is None or self._holder.done():
            ready = self._ready = asyncio.get_running_loop().create_future()
            self._holder = asyncio.create_task(self._hold(ready))
            # Not in the task itself, which may be cancelled before its first step.
            self._holder.add_done_callback(lambda _: self._give_up(ready))
        return await asyncio.shield(self._ready)

    @property
    def is_open(self) -> bool:
        """Whether it is open now, so that a call finds it without waiting for an opening."""
        ready = self._ready
        is_ready = ready is not None and ready.done() and not ready.cancelled() and ready.exception() is None
        return is_ready and self._holder is not None and not self._holder.done()

    async def ask(self, call: Callable[[T], Awaitable[R]], *, seconds: float | None = None) -> R:
        """The result of a call of the provider, opened if need be, within so many seconds (None: however long it
        takes). Raises our own errors as they are, and CallFailed for everything else: a plugin may raise anything."""
        has_begun = False
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                value = await self.opened()
                has_begun = True
                return await call(value)
        except MemspineError:
            raise
        except TimeoutError as error:
            late = deadline.expired()
            reason = f"took longer than {seconds:g} s" if late else self.redact(f"failed: {describe(error)}")
            raise CallFailed(reason, has_begun=has_begun, is_late=late) from error
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            raise CallFailed(self.redact(f"failed: {describe(error)}"), has_begun=has_begun) from error

    async def close(self, *, patience_seconds: float) -> None:
        """Close it for good; an opening that is under way may end first, or is given up in time. Raises
        BackendUnavailable when closing failed."""
        self._is_closed = True
        self._leave.set()
        if (holder := self._holder) is None:
            return
        await asyncio.wait([holder], timeout=patience_seconds)
        holder.cancel()
        # Waited for and not awaited: its cancellation is not that of whoever closes.
        await asyncio.wait([holder])
        self._holder = None
        if not holder.cancelled():
            holder.result()

    async def _hold(self, ready: asyncio.Future[T]) -> None:
        """Open and close in one task, as stores with tasks of their own need it."""
        try:
            async with self._open() as value:
                ready.set_result(value)
                await self._leave.wait()
        except (Exception, SystemExit) as error:
            if ready.done():
                text = self.redact(f"closing failed: {describe(error)}")
                raise BackendUnavailable(self.name, text) from error
            ready.set_exception(error if isinstance(error, Exception) else RuntimeError(f"SystemExit({error})"))
            ready.exception()  # looked at, because whoever asked for it may have given up waiting

    def _give_up(self, ready: asyncio.Future[T]) -> None:
        """Whatever ended the opening, whoever waits for it hears of it."""
        if not ready.done():
            reason = "its opening was given up"
            ready.set_exception(ClosedError(self.name) if self._is_closed else BackendUnavailable(self.name, reason))
            ready.exception()


def _is_cancelled() -> bool:
    """Whether the running task was asked to end; a cancellation may also come from within a plugin."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
