"""Primary and fallbacks as one store: who is asked, in which order, for how long, and what the answer is worth.

Writes go to the primary alone. Reads go to the primary first; which failures and absences send them on is the
routing table of `core/adr/0003-chain.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Generic, TypeVar

import attrs

from memspine.closing import close_all
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import BackendUnavailable, MemspineError
from memspine.model import Health, Memory, Scope
from memspine.ondemand import CallFailed, OnDemand

T = TypeVar("T")


@attrs.frozen
class Answer(Generic[T]):
    """What a store answered, which one it was, and why it was not a better one."""

    value: T
    backend: str
    degraded: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Gathered:
    """Memories by id in the order asked, the store that gave each, and each store that failed; an id that is missing
    may exist there."""

    memories: dict[str, Memory]
    backends: dict[str, str]
    failures: tuple[str, ...]


Member = OnDemand[MemoryBackend]
"""One backend of a chain."""


class Chain:
    """Routes calls over a primary and ordered fallbacks, each call within `deadline_seconds` per store."""

    def __init__(self, members: Sequence[Member], *, deadline_seconds: float, read_fallback: bool = False) -> None:
        self._members = tuple(members)
        self._deadline_seconds = deadline_seconds
        self._read_fallback = read_fallback

    @property
    def primary(self) -> Member:
        """The member that takes all writes."""
        return self._members[0]

    @property
    def members(self) -> tuple[Member, ...]:
        """The primary, then the fallbacks in order."""
        return self._members

    async def close(self) -> None:
        """Close every member, also when closing one fails. Raises the first error, after all were closed."""
        await close_all(member.close(patience_seconds=self._deadline_seconds) for member in self._members)

    async def write(
        self, operation: str, call: Callable[[MemoryBackend], Awaitable[T]], *, ids: Sequence[str] = ()
    ) -> Answer[T]:
        """Call the primary. Raises BackendUnavailable; with outcome "unknown" when the call had begun, and then
        `ids` are what makes repeating it safe."""
        return Answer(await self._call(self.primary, operation, call, write_ids=tuple(ids)), self.primary.name)

    async def call_primary(self, operation: str, call: Callable[[MemoryBackend], Awaitable[T]]) -> Answer[T]:
        """Read from the primary alone."""
        return Answer(await self._call(self.primary, operation, call), self.primary.name)

    async def read_listing(self, operation: str, call: Callable[[MemoryBackend], Awaitable[T]]) -> Answer[T]:
        """Read what only a whole store can answer (list, count): fallbacks are asked only if `read_fallback` is set."""
        members = self._members if self._read_fallback else self._members[:1]
        return await self._first_answer(members, operation, call)

    async def search(
        self, call: Callable[[MemoryBackend], Awaitable[T]], *, within_seconds: float | None = None
    ) -> Answer[T]:
        """Ask in order until one answers, each within `within_seconds` if that is shorter than the chain's deadline; an
        empty answer is an answer. Raises BackendUnavailable naming each cause."""
        return await self._first_answer(self._members, "search", call, within_seconds=within_seconds)

    async def get_many(
        self, ids: Sequence[str], *, scope: Scope, now: datetime, primary_only: bool = False
    ) -> Gathered:
        """Memories by id, those that the primary lacks from the fallbacks, unless the primary has their tombstone."""
        found: dict[str, Memory] = {}
        backends: dict[str, str] = {}
        failures: list[str] = []
        missing = list(dict.fromkeys(ids))
        for member in self._members[:1] if primary_only else self._members:
            if not missing:
                break
            try:
                got = await self._call(member, "get", _getter(missing, scope=scope, now=now))
            except BackendUnavailable as error:
                failures.append(str(error))
                continue
            found |= got
            backends |= dict.fromkeys(got, member.name)
            missing = [id for id in missing if id not in got]
            if member is self.primary:
                try:
                    deleted = await self._deleted(missing, scope=scope)
                except BackendUnavailable as error:
                    # Not knowing what was deleted, a fallback could only bring it back.
                    failures.append(str(error))
                    break
                missing = [id for id in missing if id not in deleted]
        in_order = {id: found[id] for id in ids if id in found}
        return Gathered(memories=in_order, backends=backends, failures=tuple(failures))

    async def health(self, *, deep: bool = False) -> dict[str, Health]:
        """A probe of every member, by name, primary first; a member that fails is reported, not raised."""

        async def probe(member: Member) -> Health:
            try:
                return await self._call(member, "health", lambda backend: backend.health(deep=deep), unhurried=deep)
            except MemspineError as error:
                return Health(ok=False, detail=str(error))

        results = await asyncio.gather(*map(probe, self._members))
        return {member.name: health for member, health in zip(self._members, results, strict=True)}

    async def unhurried(
        self, operation: str, call: Callable[[MemoryBackend], Awaitable[T]], *, ids: Sequence[str] | None
    ) -> Answer[T]:
        """Call the primary without a deadline, for work that grows with the store. `ids` as in `write`; None for what
        changes no memory (backup)."""
        write_ids = None if ids is None else tuple(ids)
        return Answer(
            await self._call(self.primary, operation, call, write_ids=write_ids, unhurried=True), self.primary.name
        )

    async def _deleted(self, ids: Sequence[str], *, scope: Scope) -> frozenset[str]:
        """Those of the ids that the primary remembers as deleted. No fallback may bring them back."""
        if not ids or len(self._members) == 1:
            return frozenset()
        backend = await self.primary.opened()
        if Capability.CHANGES not in backend.capabilities:
            return frozenset()
        tombstones = await self._call(self.primary, "tombstones", lambda primary: primary.tombstones(ids, scope=scope))
        return frozenset(tombstones)

    async def _first_answer(
        self,
        members: Sequence[Member],
        operation: str,
        call: Callable[[MemoryBackend], Awaitable[T]],
        *,
        within_seconds: float | None = None,
    ) -> Answer[T]:
        failures: list[BackendUnavailable] = []
        for member in members:
            try:
                value = await self._call(member, operation, call, within_seconds=within_seconds)
            except BackendUnavailable as error:
                failures.append(error)
            else:
                return Answer(value, member.name, tuple(map(str, failures)))
        if len(failures) == 1:
            raise failures[0]
        causes = tuple(map(str, failures))
        names = ", ".join(member.name for member in members)
        raise BackendUnavailable(names, f"{operation}: none of them answered: " + "; ".join(causes), causes=causes)

    async def _call(
        self,
        member: Member,
        operation: str,
        call: Callable[[MemoryBackend], Awaitable[T]],
        *,
        write_ids: Sequence[str] | None = None,
        unhurried: bool = False,
        within_seconds: float | None = None,
    ) -> T:
        """One call of one member; whatever it raises that is not ours becomes BackendUnavailable."""
        seconds = None if unhurried else min(self._deadline_seconds, within_seconds or self._deadline_seconds)
        try:
            return await member.ask(call, seconds=seconds)
        except CallFailed as error:
            reason = f"{operation} {error.reason}"
            raise self._unavailable(member, reason, began=error.has_begun, write_ids=write_ids) from error.__cause__

    def _unavailable(
        self, member: Member, reason: str, *, began: bool, write_ids: Sequence[str] | None
    ) -> BackendUnavailable:
        advice = "see `memspine doctor`"
        if began and write_ids is not None:
            return BackendUnavailable(member.name, reason, outcome="unknown", ids=write_ids, advice=advice)
        return BackendUnavailable(member.name, reason, advice=advice)


def _getter(
    ids: Sequence[str], *, scope: Scope, now: datetime
) -> Callable[[MemoryBackend], Awaitable[dict[str, Memory]]]:
    wanted = tuple(ids)
    return lambda backend: backend.get_many(wanted, scope=scope, now=now)
