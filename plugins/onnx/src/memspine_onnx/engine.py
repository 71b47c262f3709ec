"""Loads a model when it is first needed, and runs its work in threads, away from the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

from memspine_onnx.trouble import ModelTrouble

M = TypeVar("M")
T = TypeVar("T")


class EngineClosed(Exception):
    """The engine was closed before the work was done."""


class Engine(Generic[M]):
    """A model that is loaded once for all who share it; a load that failed is tried again by the next call.

    Calls of one batch and the batches of large calls have threads of their own, so that a question does not wait until
    a thousand documents are done.
    """

    def __init__(self, load: Callable[[], M], *, threads: int) -> None:
        self._load = load
        self._threads = threads
        self._lock = threading.Lock()
        self._loading: Future[M] | None = None
        self._is_closed = True
        self._process = 0

    async def __aenter__(self) -> Self:
        self._calls = ThreadPoolExecutor(self._threads, "memspine-onnx")
        self._batches = ThreadPoolExecutor(self._threads, "memspine-onnx-batch")
        self._process = os.getpid()
        self._is_closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_closed = True  # what waits in the queues ends at once, and what runs is one batch
        await asyncio.to_thread(self._shut_down)
        self._loading = None

    async def loaded(self) -> M:
        """The model. Raises ModelTrouble when it cannot be loaded, EngineClosed after leaving."""
        self._check()
        with self._lock:
            loading = self._loading
            if loading is None or (loading.done() and loading.exception() is not None):
                loading = self._loading = self._calls.submit(self._unless_closed, self._load)
        if loading.done():  # every call but the first, which should not wait for the loop to come round
            return loading.result()
        # Shielded, because others may wait for the same load.
        return await asyncio.shield(asyncio.wrap_future(loading))

    async def call(self, work: Callable[[], T]) -> T:
        """The result of something short."""
        self._check()
        return await asyncio.wrap_future(self._calls.submit(self._unless_closed, work))

    async def call_all(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """The results of many such works, as many at once as there are threads. The first error ends all of it."""
        self._check()
        futures = [asyncio.wrap_future(self._batches.submit(self._unless_closed, work)) for work in works]
        try:
            return list(await asyncio.gather(*futures))
        finally:
            for future in futures:
                future.cancel()

    def _check(self) -> None:
        if self._is_closed:
            raise EngineClosed
        if self._process != os.getpid():
            reason = f"the model was opened by process {self._process}, and this is a fork of it"
            raise ModelTrouble(reason, expected="each process to open it anew")

    def _unless_closed(self, work: Callable[[], T]) -> T:
        if self._is_closed:
            raise EngineClosed
        return work()

    def _shut_down(self) -> None:
        for pool in (self._calls, self._batches):
            pool.shutdown(wait=True)
