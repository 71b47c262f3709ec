"""What can go wrong with a request, and the one place where it becomes an error of memspine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from memspine.errors import BackendUnavailable, LoopError

T = TypeVar("T")


class ShapeError(Exception):
    """An answer that is no use; its text says what was wrong with it, without quoting it."""


class RequestError(Exception):
    """A request that came to nothing, or of which that cannot be told.

    `outcome` is what became of a write: "none" when the service did nothing. `passes` says that it may go well later;
    `retry_after_seconds` is what the service asked for; `is_too_long` that an answer was longer than is read;
    `is_unreached` that there was no connection, so that nothing was sent; `is_loop` that the request had passed the
    service already.
    """

    def __init__(
        self,
        reason: str,
        *,
        advice: str = "",
        outcome: Literal["none", "unknown"] = "none",
        passes: bool = False,
        retry_after_seconds: float | None = None,
        is_too_long: bool = False,
        is_unreached: bool = False,
        is_loop: bool = False,
    ) -> None:
        self.reason, self.advice, self.outcome, self.passes = reason, advice, outcome, passes
        self.retry_after_seconds, self.is_too_long = retry_after_seconds, is_too_long
        self.is_unreached, self.is_loop = is_unreached, is_loop
        super().__init__(reason)


async def translated(
    call: Awaitable[T], backend: str, *, ids: Sequence[str] = (), has_written: Callable[[], bool] = lambda: False
) -> T:
    """The result of a call, whose RequestError is raised as BackendUnavailable or LoopError. `ids` are those of a write
    of several requests; `has_written` tells whether an earlier one of them did something."""
    try:
        return await call
    except RequestError as caught:
        failure = caught
    # Raised out here so that it has no context: the errors of the client carry the request, and with it the credential,
    # to whoever walks from one error to the next.
    if failure.is_loop:
        raise LoopError(backend, failure.reason)
    outcome: Literal["none", "unknown"] = "unknown" if has_written() else failure.outcome
    raise BackendUnavailable(
        backend,
        failure.reason,
        outcome=outcome,
        ids=ids if outcome == "unknown" else (),
        advice=failure.advice,
    )
