"""The calls beyond the plain protocol, which a service has that lists them at `GET /capabilities`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from memspine import times
from memspine.contracts import Capability
from memspine.model import ChangePage, Memory, PurgeReceipt, Revision, Scope, Tombstone
from memspine_http.plain import PlainProtocol
from memspine_http.records import (
    Outcome,
    change_page,
    count,
    items,
    outcome,
    receipt,
    revision,
    tombstone,
    whole,
)

KNOWN: Final = frozenset({Capability.PUT, Capability.CHANGES, Capability.HISTORY, Capability.PURGE})
_NO_SUCH_CALL: Final = frozenset({404, 405, 501})
_CURSOR_MAX: Final = 1024


class Protocol(PlainProtocol):
    """The whole protocol. Each call raises RequestError."""

    async def capabilities(self) -> frozenset[Capability]:
        """What the service can do, as far as it is known here; nothing for one that has no such call."""
        answer = await self.ask("capabilities", told=_NO_SUCH_CALL)
        if not answer.is_success:
            return frozenset()
        names = self.read(lambda: _names(answer.data))
        return frozenset(capability for capability in KNOWN if capability.value in names)

    # ── put ──

    async def put(self, records: Sequence[Memory | Tombstone], *, owner: str) -> list[Outcome]:
        """Store whole records in one step; what became of each."""
        if not records:
            return []
        if len(records) == 1:
            answer = await self.change("put", whole(records[0]), id=records[0].id, owner=owner, is_repeatable=True)
            return [self.read(lambda: outcome(answer.data), writes=True)]
        body = {"apiKeyId": owner, "records": [whole(record) for record in records]}
        answer = await self.change("put_many", body, owner=owner, is_repeatable=True)
        outcomes = self.read(lambda: [outcome(item) for item in items(answer.data, "outcomes")], writes=True)
        if len(outcomes) != len(records):
            raise self.client.useless(f"{len(outcomes)} outcomes for {len(records)} records", writes=True)
        return outcomes

    async def record_access(self, counts: Mapping[str, int], *, scope: Scope, now: datetime) -> None:
        """Count accesses."""
        body = {**_who(scope), "counts": dict(counts), "now": times.to_text(now)}
        await self.change("accesses", body, owner=scope.owner)

    async def expire(self, *, scope: Scope, now: datetime, limit: int) -> int:
        """Remove what has expired; how many that were."""
        body = {**_who(scope), "now": times.to_text(now), "limit": limit}
        answer = await self.change("expire", body, owner=scope.owner or None)
        return self.read(lambda: count(answer.data, "expired"), writes=True)

    # ── changes ──

    async def changes(self, *, owners: Sequence[str] | None, limit: int, cursor: str | None) -> ChangePage | None:
        """A page of the feed; None when the service cannot resume at this cursor."""
        if cursor is not None and not _can_be_cursor(cursor):
            return None
        params = [*(("apiKeyId", owner) for owner in owners or ()), ("cursor", cursor), ("limit", str(limit))]
        told = frozenset({410}) if cursor is not None else frozenset[int]()
        answer = await self.ask("changes", owner=owners[0] if owners else None, params=params, told=told)
        if not answer.is_success:
            return None
        page = self.read(lambda: change_page(answer.data))
        self.require_owners((change.owner for change in page.changes), owners or ())
        if len(page.changes) > limit or (page.more and not page.changes and limit):
            raise self.client.useless("a page of the feed that is too long, or empty in its middle")
        return page

    async def tombstones(self, ids: Sequence[str], *, owner: str) -> dict[str, Tombstone]:
        """The tombstones of those ids that were deleted."""
        answer = await self.ask("tombstones", owner=owner, body={"apiKeyId": owner, "ids": list(ids)})
        found = self.read(lambda: [tombstone(item) for item in items(answer.data, "tombstones")])
        self.require_owners((stone.owner for stone in found), (owner,))
        by_id = {stone.id: stone for stone in found}
        return {id: by_id[id] for id in ids if id in by_id}

    async def trim_changes(self, *, scope: Scope, before: datetime, limit: int) -> int:
        """Drop old changes; how many."""
        body = {**_who(scope), "before": times.to_text(before), "limit": limit}
        return await self._trimmed("trim_changes", body, scope=scope)

    # ── history ──

    async def history(self, id: str, *, owner: str) -> tuple[Revision, ...]:
        """All kept states of a memory, oldest first."""
        answer = await self.ask("history", id=id, owner=owner, params=[("apiKeyId", owner)], told=frozenset({404}))
        if not answer.is_success:
            return ()
        states = self.read(lambda: tuple(revision(item) for item in items(answer.data, "revisions")))
        self.require_owners((state.memory.owner for state in states), (owner,))
        return states

    async def trim_history(self, *, scope: Scope, before: datetime, tombstones_before: datetime, limit: int) -> int:
        """Drop old states and tombstones; how many."""
        moments = {"before": times.to_text(before), "tombstonesBefore": times.to_text(tombstones_before)}
        return await self._trimmed("trim_history", {**_who(scope), **moments, "limit": limit}, scope=scope)

    # ── purge ──

    async def purge(self, ids: Sequence[str] | None, *, owner: str, now: datetime) -> PurgeReceipt:
        """Erase memories from every place."""
        body = {"apiKeyId": owner, "ids": None if ids is None else list(ids), "now": times.to_text(now)}
        answer = await self.change("purge", body, owner=owner)
        return self.read(lambda: receipt(answer.data), writes=True)

    async def _trimmed(self, call: str, body: object, *, scope: Scope) -> int:
        answer = await self.change(call, body, owner=scope.owner or None)
        return self.read(lambda: count(answer.data, "trimmed"), writes=True)


def _who(scope: Scope) -> dict[str, str | None]:
    """Owner and session of a scope; null stands for all."""
    return {"apiKeyId": scope.owner or None, "sessionId": scope.session}


def _names(data: object) -> frozenset[str]:
    return frozenset(name for name in items(data, "capabilities") if isinstance(name, str))


def _can_be_cursor(text: str) -> bool:
    try:
        return 0 < len(text.encode()) <= _CURSOR_MAX
    except UnicodeEncodeError:
        return False
