"""Purges that have to reach the journal and every replica, also those whose process died in their middle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from memspine import times
from memspine.chain import Chain, Member
from memspine.chain.bulk import PURGE
from memspine.chain.notes import forgotten_times
from memspine.copying.calls import held
from memspine.delivery.giving import Giving
from memspine.errors import BackendUnavailable, MemspineError
from memspine.journal import Journal, entries, intents, now_milliseconds, replicas
from memspine.model import MemoryFilter, MemoryRef, PurgedPlace, Scope

if TYPE_CHECKING:
    from sqlite3 import Connection

NOT_NAMED = "the settings do not name it any more; it is erased before anything else is delivered to it"


class Purging:
    """Has replicas and the journal follow the purges of a chain's primary."""

    def __init__(self, chain: Chain, journal: Journal) -> None:
        self._chain = chain
        self._journal = journal

    async def purge(self, ids: Sequence[str] | None, *, owner: str) -> list[PurgedPlace]:
        """Erase memories (None: all of an owner) from the journal and from every replica, once the primary has purged
        them; what cannot be reached is erased before anything else reaches it. Raises JournalError."""
        names = await self._ask(ids, owner=owner)
        places = [PurgedPlace(place="journal", status="erased")]
        for member in self._chain.replicas:
            places += await self._purge(member, ids, owner=owner)
        named = {member.name for member in self._chain.replicas}
        return places + [
            PurgedPlace(place=f"replica {name}", status="pending", detail=NOT_NAMED)
            for name in names
            if name not in named
        ]

    async def settle(self) -> None:
        """Have replicas and the journal follow purges whose process died: those of memories that the primary has no
        more. One that it has was not purged, or was stored again, and is nobody's to erase. Raises BackendUnavailable,
        LoopError, JournalError."""
        before, after = forgotten_times(self._chain.deadline_seconds)
        begun = partial(intents.begun_purges, before=before, after=after)
        if not await self._journal.read(begun):
            return
        async with self._journal.held(PURGE) as is_ours:
            if not is_ours:
                return  # whoever is at it may have begun them
            by_owner: defaultdict[str, dict[str, int]] = defaultdict(dict)
            for owner, id, begun_at in await self._journal.read(begun):
                by_owner[owner][id] = begun_at
            for owner, ids in by_owner.items():
                await self._settle(owner, list(ids), until=max(ids.values()))

    async def _settle(self, owner: str, ids: Sequence[str], *, until: int) -> None:
        if "" in ids and not await self._has_any(owner):
            await self._ask(None, owner=owner, until=until)
            return
        there = await held(self._chain, [MemoryRef(owner, id) for id in ids if id])
        if gone := [id for id in ids if id and MemoryRef(owner, id) not in there]:
            await self._ask(gone, owner=owner, until=until)
        await self._journal.write(partial(intents.end_purging, owner=owner, ids=ids))

    async def _has_any(self, owner: str) -> bool:
        scope, now = Scope.of_owner(owner), times.now()
        counts = await self._chain.call_primary(
            "count", lambda backend: backend.count(MemoryFilter(), scope=scope, now=now)
        )
        return counts.value.total > 0

    async def _ask(self, ids: Sequence[str] | None, *, owner: str, until: int | None = None) -> list[str]:
        """Erase in the journal, what was entered later apart, and note what every replica that there ever was has to
        erase; returns their names."""
        named = [member.name for member in self._chain.replicas]
        return await self._journal.write(partial(_asked, owner=owner, ids=ids, until=until, named=named))

    async def _purge(self, replica: Member, ids: Sequence[str] | None, *, owner: str) -> list[PurgedPlace]:
        place = f"replica {replica.name}"
        done = partial(entries.forget_purge, replica=replica.name, owner=owner, ids=ids)
        try:
            receipt = await Giving(replica, seconds=self._chain.deadline_seconds).purge(owner, ids)
        except BackendUnavailable as error:
            return [PurgedPlace(place=place, status="pending", detail=str(error))]
        except MemspineError as error:
            await self._journal.write(done)
            return [PurgedPlace(place=place, status="kept", detail=str(error))]
        await self._journal.write(done)
        return [attrs.evolve(one, place=f"{place}: {one.place}") for one in receipt.places]


def _asked(
    connection: Connection, *, owner: str, ids: Sequence[str] | None, until: int | None, named: Sequence[str]
) -> list[str]:
    """All at once: whoever dies before it leaves what was begun, and after it what every replica has to do."""
    entries.erase(connection, owner, ids, until=until)
    names = list(dict.fromkeys([*named, *replicas.names(connection)]))
    now = now_milliseconds()
    for name in names:
        entries.ask_purge(connection, name, owner, ids, now)
    intents.end_purging(connection, owner, ids)
    return names
