"""One backend of a chain: opened when it is first needed, called within a deadline, left alone while it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal, TypeVar

from memspine.breaker import Breaker
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import BackendUnavailable, MemspineError
from memspine.model import Scope, Tombstone
from memspine.ondemand import CallFailed, OnDemand

T = TypeVar("T")

FAILURES_MAX: Final = 3
"""After so many failures in a row a backend is left alone for a while."""
PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 30.0
ADVICE: Final = "see `memspine status`"

RECORDS_PER_DEADLINE: Final = 100
"""So many records more may take a whole deadline more."""

Way = Literal["read", "write"]
"""Reading and writing have a breaker each: a full disk can still be read."""


class Member:
    """One backend of a chain. `replicates` says that it receives every change of the primary, and `store` is the mark
    of a replica's store; `redact` takes credentials out of a text that a plugin wrote."""

    def __init__(
        self,
        name: str,
        *,
        open: Callable[[], AbstractAsyncContextManager[MemoryBackend]],
        redact: Callable[[str], str] = str,
        replicates: bool = False,
        store: str = "",
    ) -> None:
        self.name = name
        self.store = store
        self.replicates = replicates
        self._provider = OnDemand(name, open=open, redact=redact)
        self._breakers: dict[Way, Breaker] = {"read": _breaker(), "write": _breaker()}

    async def opened(self) -> MemoryBackend:
        """The backend. Raises whatever opening it raises."""
        return await self._provider.opened()

    async def close(self, *, patience_seconds: float) -> None:
        """Close it for good. Raises BackendUnavailable when closing failed."""
        await self._provider.close(patience_seconds=patience_seconds)

    async def call(
        self,
        operation: str,
        call: Callable[[MemoryBackend], Awaitable[T]],
        *,
        seconds: float | None,
        write_ids: Sequence[str] | None = None,
    ) -> T:
        """The result of one call, within so many seconds (None: however long it takes).

        Whatever it raises that is not ours becomes BackendUnavailable; of a write that had begun (`write_ids` is not
        None) the outcome is "unknown" then. A backend that failed again and again is not called for a while.
        """
        breaker = self._breakers["read" if write_ids is None else "write"]
        if not breaker.admit():
            raise self._left_alone(operation, breaker)
        pauses = breaker.pauses
        try:
            value = await self._provider.ask(call, seconds=seconds)
        except CallFailed as failure:
            error = self._unavailable(operation, failure, write_ids=write_ids)
            breaker.fail(error.reason, pauses=pauses)
            raise error from failure.__cause__
        except BackendUnavailable as error:
            breaker.fail(error.reason, pauses=pauses)
            raise
        except MemspineError:
            breaker.succeed()  # it answered, though not what was hoped for
            raise
        except asyncio.CancelledError:
            breaker.abandon()
            raise
        breaker.succeed()
        return value

    async def capabilities(self, *, seconds: float | None) -> frozenset[Capability]:
        """What the backend claims, opened if need be. Raises BackendUnavailable.

        Of one that is open it says nothing about how it works: no breaker keeps it back, and none counts it.
        """
        if not self._provider.is_open:
            return await self.call("capabilities", _capabilities, seconds=seconds)
        try:
            return await self._provider.ask(_capabilities, seconds=seconds)
        except CallFailed as failure:
            raise self._unavailable("capabilities", failure, write_ids=None) from failure.__cause__

    async def probe(
        self, call: Callable[[MemoryBackend], Awaitable[T]], *, seconds: float | None, operation: str = "health"
    ) -> T:
        """The result of a call that is made in any case; if it succeeds, the next call of any kind is tried at once."""
        try:
            value = await self._provider.ask(call, seconds=seconds)
        except CallFailed as failure:
            raise self._unavailable(operation, failure, write_ids=None) from failure.__cause__
        for breaker in self._breakers.values():
            breaker.relent()
        return value

    def refusal(self, operation: str, *ways: Way) -> BackendUnavailable | None:
        """Why a call would not be made now, as it would be raised; None where it would be made in each of the ways."""
        found = next((breaker for way in ways if (breaker := self._breakers[way]).refuses), None)
        return None if found is None else self._left_alone(operation, found)

    @property
    def breaker_state(self) -> str:
        """The state of this process's breakers: "closed", or which is open and why."""
        for way, breaker in self._breakers.items():
            if breaker.is_open:
                return f"open for {'reading' if way == 'read' else 'writing'}: {breaker.reason}"
        return "closed"

    def _left_alone(self, operation: str, breaker: Breaker) -> BackendUnavailable:
        wait = f"is left alone for {max(breaker.pause_seconds, 0.1):.1f} s"
        return BackendUnavailable(self.name, f"{operation}: {wait} after: {breaker.reason}", advice=ADVICE)

    def _unavailable(
        self, operation: str, failure: CallFailed, *, write_ids: Sequence[str] | None
    ) -> BackendUnavailable:
        reason = f"{operation} {failure.reason}"
        if failure.has_begun and write_ids is not None:
            return BackendUnavailable(self.name, reason, outcome="unknown", ids=write_ids, advice=ADVICE)
        return BackendUnavailable(self.name, reason, advice=ADVICE)


def bulk_seconds(deadline_seconds: float, records: int) -> float:
    """How long one call with so many records may take."""
    return deadline_seconds * (1 + records / RECORDS_PER_DEADLINE)


def share_seconds(ends_at: float, members: int) -> float:
    """The time of one store, when so many may still have to be asked until a moment of the monotonic clock."""
    return max(ends_at - time.monotonic(), 0.0) / members


async def tombstones(backend: MemoryBackend, ids: Iterable[str], *, scope: Scope) -> Mapping[str, Tombstone]:
    """The deletions of these memories, by id, that a store remembers; none of a store that remembers none."""
    return await backend.tombstones(tuple(ids), scope=scope) if Capability.CHANGES in backend.capabilities else {}


def _breaker() -> Breaker:
    return Breaker(failures=FAILURES_MAX, pause_seconds=PAUSE_SECONDS, pause_seconds_max=PAUSE_SECONDS_MAX)


async def _capabilities(backend: MemoryBackend) -> frozenset[Capability]:
    return backend.capabilities
