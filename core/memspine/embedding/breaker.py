"""Keeps a source that fails from being waited for again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from memspine.errors import ModelError

PAUSE_SECONDS = 2.0
PAUSE_SECONDS_MAX = 300.0


class Breaker:
    """Remembers that a model is out of order. After a failure it is left alone for 2 s, then twice as long each time,
    longer where it asked for that, and never longer than 5 minutes; the first success afterwards forgets it all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._pauses = 0
        self._open_until = 0.0
        self._reason = ""

    @property
    def pauses(self) -> int:
        """How often the model was begun to be left alone, ever."""
        return self._pauses

    @property
    def pause_seconds(self) -> float:
        """How long the model will still be left alone; 0 when it may be asked."""
        return max(self._open_until - self._clock(), 0.0) if self._failures else 0.0

    @property
    def reason(self) -> str:
        """Why the model is left alone; empty when it is not."""
        return self._reason

    def fail(self, error: ModelError, *, pauses: int) -> None:
        """Note the failure of a call; `pauses` is how many there had been when it began. One that began before the last
        pause says nothing new: of all calls that an outage meets, the first counts."""
        if pauses != self._pauses:
            return
        pause = min(PAUSE_SECONDS * 2**self._failures, PAUSE_SECONDS_MAX)
        if error.retry_after_seconds is not None:
            pause = min(max(pause, error.retry_after_seconds), PAUSE_SECONDS_MAX)
        self._failures = min(self._failures + 1, 20)
        self._pauses += 1
        self._open_until = self._clock() + pause
        self._reason = str(error)

    def succeed(self) -> None:
        """Note a success."""
        self._failures, self._reason = 0, ""
