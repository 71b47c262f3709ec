"""The manager without async: the same calls, from any thread, also from inside a running event loop.

    from memspine.blocking import MemoryManager

    with MemoryManager() as memory:
        memory.create("Juno eats duck and potato now.")

The calls run on an event loop in a thread of the manager's own. After a fork they are refused: the child has neither
that thread nor the right to the parent's connections, and makes a manager of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from memspine.config import Config
from memspine.errors import BackendUnavailable, ClosedError
from memspine.manager import MemoryManager as AsyncMemoryManager
from memspine.plugins import Plugins
from memspine.text import TokenCounter, estimate_tokens

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[AsyncMemoryManager, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[MemoryManager, P], R]:
    def call(self: MemoryManager, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(method(self._manager, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class MemoryManager:
    """The blocking twin of `memspine.MemoryManager`; see there for the arguments and every call."""

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | Path | None = None,
        *,
        plugins: Plugins | None = None,
        count_tokens: TokenCounter = estimate_tokens,
        background: bool = True,
    ) -> None:
        self._make = functools.partial(
            AsyncMemoryManager, config, plugins=plugins, count_tokens=count_tokens, background=background
        )
        self._manager = self._make()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def initialize(self) -> None:
        """Read the configuration and start; a second call changes nothing. Raises ConfigError."""
        with self._lock:
            if self._loop is not None:
                return
            self._process = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="memspine", daemon=True)
            self._thread.start()
        try:
            self._run(self._manager.initialize())
        except BaseException:
            self._stop()
            raise

    def shutdown(self) -> None:
        """Write what is still in memory, close every store, end the thread; a second call changes nothing. Calls of
        other threads that are still under way end with ClosedError."""
        if self._loop is not None and os.getpid() != self._process:
            # The parent's, all of it, the lock as well: forget it, touch nothing.
            self._loop = self._thread = None
            self._lock = threading.Lock()
            self._manager = self._make()
            return
        with self._lock:
            if self._loop is None:
                return
            try:
                self._run(self._manager.shutdown())
            finally:
                self._stop()

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self._manager.config

    @property
    def injection_failures(self) -> int:
        """How many requests were left as they were because recalling or placing failed."""
        return self._manager.injection_failures

    create = _blocking(AsyncMemoryManager.create)
    create_many = _blocking(AsyncMemoryManager.create_many)
    update = _blocking(AsyncMemoryManager.update)
    delete = _blocking(AsyncMemoryManager.delete)
    delete_many = _blocking(AsyncMemoryManager.delete_many)
    restore = _blocking(AsyncMemoryManager.restore)
    put = _blocking(AsyncMemoryManager.put)
    purge = _blocking(AsyncMemoryManager.purge)
    status = _blocking(AsyncMemoryManager.status)
    journal_entries = _blocking(AsyncMemoryManager.journal_entries)
    retry = _blocking(AsyncMemoryManager.retry)
    adopt_journal = _blocking(AsyncMemoryManager.adopt_journal)
    drop = _blocking(AsyncMemoryManager.drop)
    reconcile = _blocking(AsyncMemoryManager.reconcile)
    get = _blocking(AsyncMemoryManager.get)
    get_many = _blocking(AsyncMemoryManager.get_many)
    list = _blocking(AsyncMemoryManager.list)
    count = _blocking(AsyncMemoryManager.count)
    search = _blocking(AsyncMemoryManager.search)
    history = _blocking(AsyncMemoryManager.history)
    inject = _blocking(AsyncMemoryManager.inject)
    health = _blocking(AsyncMemoryManager.health)
    engine = _blocking(AsyncMemoryManager.engine)
    flush = _blocking(AsyncMemoryManager.flush)
    maintain = _blocking(AsyncMemoryManager.maintain)
    reindex = _blocking(AsyncMemoryManager.reindex)
    backup = _blocking(AsyncMemoryManager.backup)

    def _run(self, call: Coroutine[Any, Any, R]) -> R:
        if self._loop is None:
            call.close()
            raise ClosedError("memory manager")
        if os.getpid() != self._process:
            call.close()
            raise BackendUnavailable(
                "memory manager",
                "this process was forked from the one that opened it",
                advice="open a new manager here",
            )
        try:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        except concurrent.futures.CancelledError:
            raise ClosedError("memory manager") from None

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _cancel_others() -> None:
    """End what other threads still wait for."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
