"""The backend: the calls of the contract, made of those of the protocol."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, TypeVar

from memspine.contracts import Capability, Context, MemoryBackendDefaults
from memspine.errors import CursorError, ScopeError
from memspine.model import (
    LIMIT_MAX,
    ChangePage,
    Counts,
    Health,
    Memory,
    MemoryChanges,
    MemoryFilter,
    MemoryPage,
    NewMemory,
    PurgeReceipt,
    PutOutcome,
    Revision,
    Scope,
    ScoredMemory,
    SearchQuery,
    Tombstone,
    Written,
)
from memspine_http.client import Client
from memspine_http.config import HttpConfig
from memspine_http.extended import Protocol
from memspine_http.failures import RequestError, translated
from memspine_http.listing import counted, found_here, in_order, page_of
from memspine_http.plain import ForeignIdError
from memspine_http.turns import Turns
from memspine_http.writing import ATTEMPTS_MAX, Change, PlainWriter, Step, WholeWriter, Writer, buried, is_visible

T = TypeVar("T")

# From so many on, one list of all that an owner has is cheaper than asking for each.
_MANY_IDS: Final = 32
_SEARCH_MARGIN: Final = 2


@asynccontextmanager
async def open_backend(config: HttpConfig, context: Context) -> AsyncIterator[HttpBackend]:
    """The backend of a configuration, open until the context is left. The service is asked what it can do, and nothing
    else. Raises BackendUnavailable when it cannot be asked."""
    client = Client(config, name=context.name, config_folder=context.config_folder)
    protocol = Protocol(client, config)
    turns = Turns()
    try:
        claimed = frozenset[Capability]()
        if config.asks_capabilities:
            claimed = await translated(protocol.capabilities(), context.name)
        async with turns.ending():
            yield HttpBackend(context.name, config, protocol, turns, claimed)
    finally:
        await client.close()


class HttpBackend(MemoryBackendDefaults):
    """A REST memory service (`memspine.contracts.MemoryBackend`)."""

    def __init__(
        self, name: str, config: HttpConfig, protocol: Protocol, turns: Turns, capabilities: frozenset[Capability]
    ) -> None:
        self.name, self.capabilities = name, capabilities
        self._protocol, self._turns = protocol, turns
        self._sends_own_fields = config.sends_own_fields
        self.mints_ids = Capability.PUT not in capabilities and not config.sends_own_fields
        self._writer: Writer = (
            WholeWriter(protocol)
            if Capability.PUT in capabilities
            else PlainWriter(protocol, sends_own_fields=config.sends_own_fields)
        )

    # ── writing ──

    async def create(self, memory: NewMemory, *, scope: Scope, id: str, now: datetime) -> Written:
        """Store a memory, or replace the one that has its key or id."""
        self._protocol.client.require_open()
        owner = scope.require_owner("create")
        (written,) = await self._change(
            owner, lambda change: change.create([memory], scope=scope, ids=[id], now=now), ids=[id]
        )
        return written

    async def create_many(
        self, memories: Sequence[NewMemory], *, scope: Scope, ids: Sequence[str], now: datetime
    ) -> tuple[Written, ...]:
        """Store all of them in order. What cannot be stored is noticed before the first is sent."""
        self._protocol.client.require_open()
        owner = scope.require_owner("create_many")
        return await self._change(owner, lambda change: change.create(memories, scope=scope, ids=ids, now=now), ids=ids)

    async def update(
        self, id: str, changes: MemoryChanges, *, scope: Scope, now: datetime, expected_revision: int | None = None
    ) -> Memory:
        """Replace the named fields. Raises CapabilityError for an expected revision where the service tells none."""
        self._protocol.client.require_open()
        owner = scope.require_owner("update")
        return await self._change(
            owner,
            lambda change: change.update(id, changes, scope=scope, now=now, expected_revision=expected_revision),
            ids=[id],
        )

    async def delete(self, id: str, *, scope: Scope, now: datetime, expected_revision: int | None = None) -> Tombstone:
        """Delete for good. Raises CapabilityError for an expected revision where the service tells none."""
        self._protocol.client.require_open()
        owner = scope.require_owner("delete")
        return await self._change(
            owner,
            lambda change: change.delete(id, scope=scope, now=now, expected_revision=expected_revision),
            ids=[id],
        )

    async def delete_many(self, filter: MemoryFilter, *, scope: Scope, now: datetime, dry_run: bool) -> tuple[str, ...]:
        """Delete all that match: in one step where the service has `put`, else one after the other."""
        self._protocol.client.require_open()
        owner = scope.require_owner("delete_many")
        if dry_run:
            found = await self._matching(filter, scope=scope, now=now)
            return tuple(memory.id for memory in in_order(found, scope.owners))
        return await self._change(owner, lambda change: self._delete_all(change, filter, scope=scope, now=now))

    async def _delete_all(
        self, change: Change, filter: MemoryFilter, *, scope: Scope, now: datetime
    ) -> tuple[str, ...]:
        gone: dict[str, Memory] = {}
        for _ in range(ATTEMPTS_MAX):
            found = in_order(await self._read_all(scope.owner, filter=filter, scope=scope, now=now), scope.owners)
            outcomes = await change.write([Step(memory, buried(memory, now=now)) for memory in found])
            late = [outcome for outcome in outcomes if outcome.outcome is not PutOutcome.APPLIED]
            gone |= {
                memory.id: memory
                for memory, outcome in zip(found, outcomes, strict=True)
                if outcome.outcome is PutOutcome.APPLIED
            }
            if not late:
                return tuple(memory.id for memory in in_order(gone.values(), scope.owners))
        raise change.give_up("delete_many", ())

    async def record_access(self, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
        """Count accesses; nowhere, if the service is to be sent nothing of memspine's own."""
        self._protocol.client.require_open()
        owner = scope.require_owner("record_access")
        if not counts:
            return
        if Capability.PUT in self.capabilities:
            await self._write(owner, partial(self._protocol.record_access, counts, scope=scope, now=now))
        elif self._sends_own_fields:
            await self._change(owner, lambda change: change.record_access(counts, scope=scope, now=now))

    async def expire(self, *, scope: Scope, now: datetime, limit: int) -> int:
        """Remove what has expired."""
        self._protocol.client.require_open()
        owner = None if scope.kind == "everyone" else scope.require_owner("expire")
        if Capability.PUT in self.capabilities:
            return await self._write(owner or "", partial(self._protocol.expire, scope=scope, now=now, limit=limit))
        read = await translated(self._protocol.all(owner), self.name)
        expired: dict[str, builtins.list[str]] = {}
        for memory in [one.memory for one in read if one.memory.is_expired(now)]:
            if scope.session in (None, memory.session) and sum(map(len, expired.values())) < limit:
                expired.setdefault(memory.owner, []).append(memory.id)
        gone = 0
        for who, ids in expired.items():
            gone += await self._change(who, partial(Change.expire, ids=ids, now=now))
        return gone

    async def _change(
        self, owner: str, work: Callable[[Change], Coroutine[Any, Any, T]], *, ids: Sequence[str] = ()
    ) -> T:
        """The result of a change that is worked out here."""
        change = Change(self._protocol, self._writer, owner=owner, backend=self.name)
        return await self._turns.take(
            owner, lambda: translated(work(change), self.name, ids=ids, has_written=change.has_written)
        )

    async def _write(self, owner: str, write: Callable[[], Coroutine[Any, Any, T]], *, ids: Sequence[str] = ()) -> T:
        """The result of one request that changes something."""
        return await self._turns.take(owner, lambda: translated(write(), self.name, ids=ids))

    # ── reading ──

    async def get(self, id: str, *, scope: Scope, now: datetime) -> Memory | None:
        """The memory, or None."""
        return (await self.get_many([id], scope=scope, now=now)).get(id)

    async def get_many(self, ids: Sequence[str], *, scope: Scope, now: datetime) -> dict[str, Memory]:
        """Those that are there, in the order asked: a request for each, or for many, a list of all."""
        self._protocol.client.require_open()
        owners = scope.require_readable("get")
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        found: dict[str, Memory] = {}
        for owner in owners:
            await self._turns.settled(owner)
            missing = [id for id in wanted if id not in found]
            for memory in await translated(self._read_some(missing, owner=owner), self.name):
                if is_visible(memory, scope=scope, now=now):
                    found[memory.id] = memory
        return {id: found[id] for id in wanted if id in found}

    async def _read_some(self, ids: Sequence[str], *, owner: str) -> builtins.list[Memory]:
        if len(ids) > _MANY_IDS:
            chosen = frozenset(ids)
            return [one.memory for one in await self._protocol.all(owner) if one.memory.id in chosen]
        return [memory for memory in await _together([self._read_one(id, owner=owner) for id in ids]) if memory]

    async def _read_one(self, id: str, *, owner: str) -> Memory | None:
        try:
            found = await self._protocol.get(id, owner=owner)
        except ForeignIdError:
            return None
        return None if found is None else found.memory

    async def list(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        limit: int,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> MemoryPage:
        """A page, made of all that the service lists."""
        self._protocol.client.require_open()
        found = await self._matching(filter, scope=scope, now=now)
        return page_of(
            found, owners=scope.owners, limit=limit, cursor=cursor, newest_first=newest_first, backend=self.name
        )

    async def count(
        self,
        filter: MemoryFilter,
        *,
        scope: Scope,
        now: datetime,
        by: Literal["type", "session", "owner"] | None = None,
    ) -> Counts:
        """How many match, counted in all that the service lists."""
        self._protocol.client.require_open()
        return counted(await self._matching(filter, scope=scope, now=now), by)

    async def search(self, query: SearchQuery, *, scope: Scope, now: datetime) -> tuple[ScoredMemory, ...]:
        """The service's own best answers. It gives no scores: they are 1, 1/2, 1/3 … by place."""
        self._protocol.client.require_open()
        owners = scope.require_readable("search")
        if not query.text.strip() or query.limit < 1:
            return ()
        if not self._protocol.has_search:
            found = await self._matching(query.filter, scope=scope, now=now)
            return tuple(found_here(found, query.text, limit=query.limit))
        hits: builtins.list[ScoredMemory] = []
        for owner in owners:
            await self._turns.settled(owner)
            answer = await translated(self._search(query, owner=owner, scope=scope, now=now), self.name)
            hits += [ScoredMemory(memory, 1 / place) for place, memory in enumerate(answer, 1)]
        hits.sort(key=lambda hit: (-hit.score, hit.memory.id))
        return tuple(hits[: query.limit])

    async def _search(self, query: SearchQuery, *, owner: str, scope: Scope, now: datetime) -> builtins.list[Memory]:
        """The best that the filter lets through; where it takes too many away, more are asked for."""
        limit = query.limit
        while True:
            answer = await self._protocol.search(query.text, owner=owner, limit=limit)
            distinct = {memory.id: memory for memory in answer}
            kept = [
                memory
                for memory in distinct.values()
                if is_visible(memory, scope=scope, now=now) and query.filter.holds_for(memory)
            ]
            if len(kept) >= query.limit or len(answer) < limit or limit >= LIMIT_MAX:
                return kept[: query.limit]
            limit = min(limit * _SEARCH_MARGIN + 10, LIMIT_MAX)

    async def health(self, *, deep: bool = False) -> Health:
        """Whether the service says that it works. What it stores, nobody can check from here."""
        self._protocol.client.require_open()
        facts = {
            "service": self._protocol.client.endpoint.authority,
            "capabilities": ", ".join(sorted(self.capabilities)) or "none: a plain service",
        }
        try:
            await self._protocol.health()
        except RequestError as error:
            return Health(ok=False, detail=error.reason, facts=facts)
        return Health(ok=True, facts=facts)

    async def _matching(self, filter: MemoryFilter, *, scope: Scope, now: datetime) -> builtins.list[Memory]:
        await self._turns.settled(*scope.owners or ())
        found: builtins.list[Memory] = []
        for owner in scope.owners or (None,):
            found += await translated(self._read_all(owner, filter=filter, scope=scope, now=now), self.name)
        return found

    async def _read_all(
        self, owner: str | None, *, filter: MemoryFilter, scope: Scope, now: datetime
    ) -> builtins.list[Memory]:
        type = filter.types[0].value if len(filter.types) == 1 else None
        read = await self._protocol.all(owner, key=filter.key or None, session=scope.session, type=type)
        return [
            one.memory for one in read if is_visible(one.memory, scope=scope, now=now) and filter.holds_for(one.memory)
        ]

    # ── capabilities ──

    async def put(self, records: Sequence[Memory | Tombstone], *, scope: Scope) -> tuple[PutOutcome, ...]:
        """Store whole records, in one request."""
        self._require(Capability.PUT, "put")
        owner = scope.require_owner("put")
        if foreign := next((record.owner for record in records if record.owner != owner), None):
            raise ScopeError(f"put of a record of {foreign!r}", scope, "records of the scope's owner alone")
        ids = tuple(record.id for record in records)
        outcomes = await self._write(owner, partial(self._protocol.put, records, owner=owner), ids=ids)
        return tuple(outcome.outcome for outcome in outcomes)

    async def changes(self, *, scope: Scope, limit: int, cursor: str | None = None) -> ChangePage:
        """The feed behind a cursor of the service's own."""
        self._require(Capability.CHANGES, "changes")
        await self._turns.settled(*scope.owners or ())
        page = await translated(self._protocol.changes(owners=scope.owners, limit=limit, cursor=cursor), self.name)
        if page is None:
            raise CursorError(self.name, cursor or "", "one that this service made, behind what it has trimmed")
        return page

    async def tombstones(self, ids: Sequence[str], *, scope: Scope) -> dict[str, Tombstone]:
        """The tombstones of those ids that were deleted."""
        self._require(Capability.CHANGES, "tombstones")
        owners = scope.require_readable("tombstones")
        found: dict[str, Tombstone] = {}
        for owner in reversed(owners if ids else ()):  # the caller's own last: it wins
            await self._turns.settled(owner)
            found |= await translated(self._protocol.tombstones(ids, owner=owner), self.name)
        return found

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        """Drop old changes."""
        self._require(Capability.CHANGES, "trim_changes")
        owner = "" if scope.kind == "everyone" else scope.require_owner("trim_changes")
        return await self._write(owner, partial(self._protocol.trim_changes, scope=scope, before=before, limit=limit))

    async def history(self, id: str, *, scope: Scope) -> tuple[Revision, ...]:
        """All states of a memory."""
        self._require(Capability.HISTORY, "history")
        for owner in scope.require_readable("history"):
            await self._turns.settled(owner)
            states = await translated(self._protocol.history(id, owner=owner), self.name)
            if states and scope.session in (None, states[-1].memory.session):
                return states
        return ()

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        """Drop old states and old tombstones."""
        self._require(Capability.HISTORY, "trim_history")
        owner = "" if scope.kind == "everyone" else scope.require_owner("trim_history")
        return await self._write(
            owner,
            partial(
                self._protocol.trim_history,
                scope=scope,
                before=before,
                tombstones_before=tombstones_before,
                limit=limit,
            ),
        )

    async def purge(self, ids: Sequence[str] | None, *, scope: Scope, now: datetime) -> PurgeReceipt:
        """Erase memories with all that was kept of them; in the scope of a session, those that are in it."""
        self._require(Capability.PURGE, "purge")
        owner = scope.require_owner("purge")
        if scope.session is not None:
            read = await translated(self._protocol.all(owner, session=scope.session), self.name)
            inside = [one.memory.id for one in read if one.memory.session == scope.session]
            ids = [id for id in inside if ids is None or id in {*ids}]
        return await self._write(owner, partial(self._protocol.purge, ids, owner=owner, now=now))

    def _require(self, capability: Capability, operation: str) -> None:
        """Raises ClosedError, CapabilityError."""
        self._protocol.client.require_open()
        if capability not in self.capabilities:
            raise self._unclaimed(capability, operation)


async def _together(calls: Sequence[Coroutine[Any, Any, T]]) -> builtins.list[T]:
    """The results of calls that run at once; when one fails, the others are given up."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
