"""Keeps a source that fails from being waited for again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from memspine.errors import ModelError

PAUSE_SECONDS = 2.0
PAUSE_SECONDS_MAX = 300.0


class Breaker:
    """Remembers that a model is out of order. After a failure it is left alone for 2 s, then twice as long each time,
    up to 5 minutes, or as long as it asked for; the first success afterwards forgets it all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0
        self._reason = ""

    @property
    def pause_seconds(self) -> float:
        """How long the model will still be left alone; 0 when it may be asked."""
        return max(self._open_until - self._clock(), 0.0) if self._failures else 0.0

    @property
    def reason(self) -> str:
        """Why the model is left alone; empty when it is not."""
        return self._reason

    def fail(self, error: ModelError) -> None:
        """Note a failure."""
        pause = min(PAUSE_SECONDS * 2**self._failures, PAUSE_SECONDS_MAX)
        if error.retry_after_seconds is not None:
            pause = min(max(pause, error.retry_after_seconds), PAUSE_SECONDS_MAX)
        self._failures = min(self._failures + 1, 20)
        self._open_until = self._clock() + pause
        self._reason = str(error)

    def succeed(self) -> None:
        """Note a success."""
        self._failures, self._reason = 0, ""
