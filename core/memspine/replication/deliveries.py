"""All that a chain still owes: writes to its primary, and states to its replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.chain.spool import Drained
from memspine.errors import BackendUnavailable, LoopError, MemspineError
from memspine.journal import Journal, entries, intents, replicas
from memspine.model import PurgedPlace
from memspine.replication.delivery import Delivered, Delivery
from memspine.replication.giving import Giving

if TYPE_CHECKING:
    from sqlite3 import Connection


@attrs.frozen(kw_only=True)
class Delivering:
    """What a round came to: writes executed on the primary, records given to replicas, whether nothing is owed any
    more, and what is in the way."""

    executed: int = 0
    delivered: int = 0
    complete: bool = True
    troubles: tuple[str, ...] = ()


class Deliveries:
    """Works off what a chain owes."""

    def __init__(self, chain: Chain, journal: Journal) -> None:
        self._chain = chain
        self._journal = journal

    def delivery(self, replica: Member) -> Delivery:
        """The delivery to a replica of the chain."""
        return Delivery(self._chain, self._journal, replica)

    async def run(self, *, seconds: float | None) -> Delivering:
        """Execute what waits for the primary, then deliver to every replica, within so many seconds (None: to the end).
        What a store cannot take is told as a trouble. Raises JournalError."""
        ends_at = None if seconds is None else time.monotonic() + seconds
        drained = Drained() if self._chain.spool is None else await self._chain.spool.drain(seconds=seconds)
        troubles = list(drained.troubles)
        if self._chain.notes is not None:
            try:
                await self._chain.notes.settle_begun()
            except (BackendUnavailable, LoopError) as error:
                troubles.append(str(error))
        left = None if ends_at is None else max(ends_at - time.monotonic(), 0.0)
        rounds = await asyncio.gather(*(self._to(member, seconds=left) for member in self._chain.replicas))
        await self._trim()
        return Delivering(
            executed=drained.executed,
            delivered=sum(one.records for one in rounds),
            complete=drained.complete and all(one.complete for one in rounds),
            troubles=tuple(dict.fromkeys([*troubles, *(text for one in rounds for text in one.troubles)])),
        )

    async def purge(self, ids: Sequence[str] | None, *, owner: str) -> list[PurgedPlace]:
        """Erase memories (None: all of an owner) from the journal and from every replica; what cannot be reached is
        erased before anything else reaches it. Raises JournalError."""
        await self._journal.write(partial(entries.erase, owner=owner, ids=ids))
        places = [PurgedPlace(place="journal", status="erased")]
        for member in self._chain.replicas:
            places += await self._purge(member, ids, owner=owner)
        return places

    async def _purge(self, replica: Member, ids: Sequence[str] | None, *, owner: str) -> list[PurgedPlace]:
        name, place = replica.name, f"replica {replica.name}"
        now = times.to_milliseconds(times.now())
        await self._journal.write(partial(entries.ask_purge, replica=name, owner=owner, ids=ids, now=now))
        try:
            receipt = await Giving(replica, seconds=self._chain.deadline_seconds).purge(owner, ids)
        except BackendUnavailable as error:
            return [PurgedPlace(place=place, status="pending", detail=str(error))]
        except MemspineError as error:
            await self._journal.write(partial(entries.forget_purge, replica=name, owner=owner, ids=ids))
            return [PurgedPlace(place=place, status="kept", detail=str(error))]
        await self._journal.write(partial(entries.forget_purge, replica=name, owner=owner, ids=ids))
        return [attrs.evolve(one, place=f"{place}: {one.place}") for one in receipt.places]

    async def _to(self, replica: Member, *, seconds: float | None) -> Delivered:
        try:
            return await self.delivery(replica).run(seconds=seconds)
        except (BackendUnavailable, LoopError) as error:
            return Delivered(complete=False, troubles=(str(error),))

    async def _trim(self) -> None:
        """Drop what every replica has from the outbox."""
        cursors = await self._journal.read(replicas.cursors)
        names = {member.name for member in self._chain.replicas}
        if not names or not names <= cursors.keys():
            return
        places = [number for name in names if (number := intents.outbox_number(cursors[name])) is not None]
        has_rows = bool(await self._journal.read(partial(intents.outbox, after=0, limit=1)))
        if has_rows and len(places) == len(names):
            await self._journal.write(partial(_trimmed, up_to=min(places), names=names))


def _trimmed(connection: Connection, *, up_to: int, names: Collection[str]) -> None:
    intents.trim_outbox(connection, up_to)
    replicas.leave_behind(connection, names)
