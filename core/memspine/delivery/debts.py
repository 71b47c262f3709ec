"""All that a chain still owes: writes to its primary, and states to its replicas."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.chain.spool import Drained
from memspine.delivery.purging import Purging
from memspine.delivery.replica import ReplicaDelivery, ReplicaReport, replica_held
from memspine.errors import BackendUnavailable, LoopError
from memspine.journal import Journal, entries, intents, now_milliseconds, replicas
from memspine.model import PurgedPlace

if TYPE_CHECKING:
    from sqlite3 import Connection


@attrs.frozen(kw_only=True)
class DebtsReport:
    """What working off came to: writes executed on the primary, records given to replicas, whether nothing is owed any
    more, and what is in the way."""

    executed: int = 0
    delivered: int = 0
    complete: bool = True
    troubles: tuple[str, ...] = ()


class Debts:
    """What a chain owes: writes to its primary, purges and states to its replicas. Nothing of it is kept here."""

    def __init__(self, chain: Chain, journal: Journal) -> None:
        self._chain = chain
        self._journal = journal
        self._purging = Purging(chain, journal)

    def delivery(self, replica: Member) -> ReplicaDelivery:
        """The delivery to a replica of the chain."""
        return ReplicaDelivery(self._chain, self._journal, replica)

    async def run(self, *, seconds: float | None) -> DebtsReport:
        """Execute what waits for the primary, then deliver to every replica, within so many seconds (None: to the end).
        What a store cannot take is told as a trouble. Raises JournalError."""
        ends_at = None if seconds is None else time.monotonic() + seconds
        drained = Drained() if self._chain.spool is None else await self._chain.spool.drain(seconds=seconds)
        troubles = list(drained.troubles)
        try:
            if self._chain.notes is not None:
                await self._chain.notes.settle_begun()
            await self._purging.settle()
        except (BackendUnavailable, LoopError) as error:
            troubles.append(str(error))
        left = None if ends_at is None else max(ends_at - time.monotonic(), 0.0)
        rounds = await asyncio.gather(*(self._to(member, seconds=left) for member in self._chain.replicas))
        await self._trim()
        return DebtsReport(
            executed=drained.executed,
            delivered=sum(one.records for one in rounds),
            complete=drained.complete and all(one.complete for one in rounds),
            troubles=tuple(dict.fromkeys([*troubles, *(text for one in rounds for text in one.troubles)])),
        )

    async def purge(self, ids: Sequence[str] | None, *, owner: str) -> list[PurgedPlace]:
        """Erase memories (None: all of an owner) from the journal and from every replica; what cannot be reached is
        erased before anything else reaches it. Raises JournalError."""
        return await self._purging.purge(ids, owner=owner)

    async def _to(self, replica: Member, *, seconds: float | None) -> ReplicaReport:
        try:
            return await self.delivery(replica).run(seconds=seconds)
        except (BackendUnavailable, LoopError) as error:
            return ReplicaReport(complete=False, troubles=(str(error),))

    async def trim(self, before: datetime, *, limit: int) -> int:
        """Drop so many changes from before a time, oldest first, from the outbox; returns how many. Replicas that have
        not read all that is so old are left behind. Raises JournalError."""
        moment = times.to_milliseconds(before)
        end = await self._journal.read(partial(intents.old_end, before=moment))
        if not end:
            return 0
        places = await self._journal.read(replicas.outbox_places)
        async with contextlib.AsyncExitStack() as stack:
            for name in (name for name, number in places.items() if number < end):
                if not await stack.enter_async_context(replica_held(self._journal, name)):
                    return 0  # it is just reading
            return await self._journal.write(partial(_trimmed, before=moment, limit=limit))

    async def _trim(self) -> None:
        """Drop what every replica has from the outbox, those that these settings do not name among them, and what was
        told of other ids for long enough."""
        if await self._journal.read(_has_old):
            await self._journal.write(_trim_old)


def _read_by_all(connection: Connection) -> int:
    """The number up to which every replica has read the outbox: all of it, where none reads it."""
    places = replicas.outbox_places(connection)
    return min(places.values()) if places else intents.outbox_end(connection)


def _has_old(connection: Connection) -> bool:
    first = intents.outbox(connection, after=0, limit=1)
    has_read = bool(first) and first[0][0] <= _read_by_all(connection)
    return has_read or entries.has_old_renamed(connection, now_milliseconds())


def _trim_old(connection: Connection) -> None:
    intents.trim_outbox(connection, _read_by_all(connection))
    entries.forget_renamed(connection, now_milliseconds())


def _trimmed(connection: Connection, *, before: int, limit: int) -> int:
    end = intents.old_end(connection, before)
    late = [name for name, number in replicas.outbox_places(connection).items() if number < end]
    replicas.leave_behind(connection, late)
    return intents.trim_old(connection, before, limit)
