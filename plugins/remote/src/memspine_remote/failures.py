"""What can go wrong with a request, and the one place where it becomes an error of memspine."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

import attrs

from memspine.errors import ModelError, Trouble

T = TypeVar("T")

_EXPECTED: Final[Mapping[Trouble, str]] = {
    "auth": "a credential that the provider accepts for this model, in `api_key` or `secret_headers`",
    "quota": "an account with something left; nothing is gained by trying again",
    "rate": "fewer calls; try again later, or lower `concurrency`",
    "too_long": "texts within what the model takes; set `window_tokens` to it",
    "transient": "an answer; try again later",
    "config": "options that fit the provider; check `base_url`, `model` and the others",
    "invalid": "an answer in the shape that `api` names",
}


@attrs.frozen(kw_only=True)
class Refusal:
    """What a provider's refusal means. `is_batch` says that it was the number of texts, or all of them together."""

    kind: Trouble
    text: str = ""
    is_batch: bool = False


class RequestError(Exception):
    """A request that came to nothing, before it is known which kind of model it was for."""

    def __init__(
        self,
        kind: Trouble,
        reason: str,
        *,
        expected: str = "",
        retry_after_seconds: float | None = None,
        is_batch: bool = False,
    ) -> None:
        self.kind, self.reason, self.expected = kind, reason, expected or _EXPECTED[kind]
        self.retry_after_seconds, self.is_batch = retry_after_seconds, is_batch
        super().__init__(reason)


async def translated(call: Awaitable[T], error: type[ModelError], source: str) -> T:
    """The result of a call, whose RequestError is raised as an error of this kind of model."""
    try:
        return await call
    except RequestError as caught:
        failure = caught
    # Raised out here so that it has no context, which raising in a context manager would give it: the errors of the
    # client carry the request, and with it the credential, to whoever walks from one error to the next.
    raise error(
        source,
        failure.reason,
        expected=failure.expected,
        kind=failure.kind,
        retry_after_seconds=failure.retry_after_seconds,
    )
