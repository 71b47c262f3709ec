"""Before a question: what was written lately is indexed first, where no background work does it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from memspine.indexing import Round

WAIT_SECONDS_MAX: Final = 2.0
"""How long a question waits for it: loading a model, or a source that is slow, may take longer."""
PAUSE_SECONDS: Final = 1.0
"""How long what other processes write may go unnoticed."""


class CatchUp:
    """Rounds of work, one at a time, each begun by a question that waits for it.

    A round that takes longer than a question waits is not given up, for it was paid for: it goes on beside the answer,
    and no later question waits again before a round has come to something. `work` does a round, or gives None where
    that failed.
    """

    def __init__(self, work: Callable[[], Awaitable[Round | None]]) -> None:
        self._work = work
        self._written = 0
        self._indexed = 0
        self._round: asyncio.Task[None] | None = None
        self._begun_at = -PAUSE_SECONDS
        self._wait_seconds = WAIT_SECONDS_MAX
        self._reason = ""

    def note_changes(self) -> None:
        """Note that this process has written something."""
        self._written += 1

    async def before_question(self) -> str:
        """Have what is new indexed; returns why an answer may lack what this process wrote, empty where it does not.

        Others write all the time, and an answer owes them nothing.
        """
        written, ends_at = self._written, time.monotonic() + self._wait_seconds
        await self._wait(ends_at)  # for one that may have begun before what was written last
        if self._indexed < written or time.monotonic() - self._begun_at >= PAUSE_SECONDS:
            if not self._is_under_way:
                self._begun_at = time.monotonic()
                self._round = asyncio.create_task(self._do_round())
            await self._wait(ends_at)
        if self._is_under_way and time.monotonic() >= ends_at:
            self._wait_seconds = 0.0
        if self._indexed >= written:
            return ""
        reason = f"it takes longer than {WAIT_SECONDS_MAX:g} s" if self._is_under_way else self._reason
        return f"what was written just before may not be found yet: {reason}"

    async def close(self) -> None:
        """Let a round that is under way end, if it does so in time. Raises what it failed of, if that is a mistake."""
        task, self._round = self._round, None
        if task is not None:
            try:
                await asyncio.wait({task}, timeout=WAIT_SECONDS_MAX)
            finally:
                task.cancel()
            await asyncio.wait({task})
            _raise_mistake(task)

    @property
    def _is_under_way(self) -> bool:
        return self._round is not None and not self._round.done()

    async def _wait(self, ends_at: float) -> None:
        task = self._round
        if task is None:
            return
        await asyncio.wait({task}, timeout=max(ends_at - time.monotonic(), 0.0))
        if task.done() and self._round is task:
            self._round = None  # so that a mistake is raised once, and the next question begins another round
            _raise_mistake(task)

    async def _do_round(self) -> None:
        written = self._written
        done = await self._work()
        if done is not None and done.is_current:
            self._indexed = written
        if done is not None and (done.is_current or done.embedded):
            self._wait_seconds = WAIT_SECONDS_MAX
        self._reason = "indexing it failed" if done is None else "; ".join(done.troubles) or "it is not all indexed"


def _raise_mistake(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.result()
