"""Keeps what fails from being waited for again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PAUSE_SECONDS: Final = 2.0
PAUSE_SECONDS_MAX: Final = 300.0


class Breaker:
    """Remembers that something is out of order. After `failures` in a row it is left alone for `pause_seconds` (2 s),
    after each further one twice as long, longer where it asked for that, and never longer than `pause_seconds_max`; the
    first success afterwards forgets it all."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        failures: int = 1,
        pause_seconds: float | None = None,
        pause_seconds_max: float = PAUSE_SECONDS_MAX,
    ) -> None:
        self._clock = clock
        self._failures_max = failures
        self._pause_seconds = PAUSE_SECONDS if pause_seconds is None else pause_seconds
        self._pause_seconds_max = pause_seconds_max
        self._failures = 0
        self._pauses = 0
        self._open_until = 0.0
        self._reason = ""
        self._is_trying = False

    @property
    def pauses(self) -> int:
        """How often it was begun to be left alone, ever."""
        return self._pauses

    @property
    def is_open(self) -> bool:
        """Whether it has failed too often and not worked since."""
        return self._failures >= self._failures_max

    @property
    def pause_seconds(self) -> float:
        """How long it will still be left alone; 0 when it may be asked."""
        return max(self._open_until - self._clock(), 0.0) if self.is_open else 0.0

    @property
    def reason(self) -> str:
        """Why it failed last; empty when it did not since it last worked."""
        return self._reason

    @property
    def refuses(self) -> bool:
        """Whether `admit` would say no now."""
        return self.is_open and (self._is_trying or self.pause_seconds > 0)

    def admit(self) -> bool:
        """Whether a call may be made: all while it works; after a pause one at a time, whose end `succeed`, `fail` or
        `abandon` tells."""
        if self.refuses:
            return False
        self._is_trying = self.is_open
        return True

    def abandon(self) -> None:
        """Note that a call that was admitted was given up by its caller, so that it says nothing."""
        self._is_trying = False

    def relent(self) -> None:
        """Let the next call try at once."""
        self._open_until = 0.0

    def fail(self, reason: str, *, pauses: int, retry_after_seconds: float | None = None) -> None:
        """Note the failure of a call; `pauses` is how many there had been when it began. One that began before the last
        pause says nothing new: of all calls that an outage meets, the first count."""
        if pauses != self._pauses:
            return
        self._is_trying = False
        self._failures = min(self._failures + 1, self._failures_max + 20)
        self._reason = reason
        if not self.is_open:
            return
        pause = self._pause_seconds * 2.0 ** (self._failures - self._failures_max)
        self._pauses += 1
        self._open_until = self._clock() + min(max(pause, retry_after_seconds or 0.0), self._pause_seconds_max)

    def succeed(self) -> None:
        """Note a success."""
        self._failures, self._reason, self._is_trying = 0, "", False
