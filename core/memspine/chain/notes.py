"""What the journal is told around a write of the primary, so that deletes hold and no replica misses a change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from memspine import times
from memspine.chain.members import Member
from memspine.contracts import Capability
from memspine.errors import BackendUnavailable, JournalError, MemspineError
from memspine.journal import Journal, intents
from memspine.model import Scope, Tombstone

if TYPE_CHECKING:
    from sqlite3 import Connection

FORGOTTEN_SECONDS: Final = 5.0
"""How much longer than its deadline a write may take before it counts as one whose process died."""
ROWS: Final = 500


@attrs.frozen(kw_only=True)
class Touched:
    """The memories of an owner that a write is about, and whether it deletes them."""

    owner: str
    ids: tuple[str, ...]
    deletes: bool = False


@attrs.define
class Noted:
    """A write that was noted. Whoever does it may fill in at which revisions memories were deleted; `trouble` says why
    its end could not be noted."""

    deleted: Mapping[str, int] | None = None
    trouble: str = ""


class Notes:
    """Keeps the journal in step with a primary that has fallbacks, some of which may be replicas."""

    def __init__(self, journal: Journal, primary: Member, *, replicates: bool, deadline_seconds: float) -> None:
        self._journal = journal
        self._primary = primary
        self._replicates = replicates
        self._deadline_seconds = deadline_seconds

    async def has_feed(self) -> bool:
        """Whether the primary says by itself what changed. Raises BackendUnavailable."""
        return Capability.CHANGES in await self._primary.capabilities(seconds=self._deadline_seconds)

    @asynccontextmanager
    async def around(self, touched: Touched) -> AsyncIterator[Noted]:
        """Note a write before it begins, and what became of it after. Raises JournalError before it begins."""
        noted = Noted()
        has_feed = await self.has_feed()
        in_outbox = self._replicates and not has_feed
        if not touched.deletes and not in_outbox:
            yield noted
            return
        numbers = await self._journal.write(partial(_begin, touched=touched, in_outbox=in_outbox))
        try:
            yield noted
        except BackendUnavailable as error:
            if error.outcome == "none":
                await self._journal.write(partial(_withdraw, touched=touched, numbers=numbers))
            raise  # an unknown outcome stays begun, until the primary can be asked
        except MemspineError:
            await self._journal.write(partial(_withdraw, touched=touched, numbers=numbers))
            raise
        try:
            await self._settle(touched, numbers, has_feed=has_feed, deleted=noted.deleted)
        except (BackendUnavailable, JournalError) as error:
            noted.trouble = f"done, but not noted yet in the journal: {error}"

    async def settle_begun(self) -> None:
        """Ask the primary what became of writes whose end nobody noted. Raises BackendUnavailable, LoopError,
        JournalError."""
        patience = int((self._deadline_seconds + FORGOTTEN_SECONDS) * 1000)
        before, after = _now() - patience, _now() + patience
        rows = await self._journal.read(partial(intents.begun, before=before, after=after, limit=ROWS))
        forgotten = partial(intents.has_forgotten, before=before, after=after)
        has_forgotten = self._replicates and await self._journal.read(forgotten)
        if not rows and not has_forgotten:
            return
        has_feed = await self.has_feed()
        if has_forgotten:
            await self._journal.write(partial(intents.settle_forgotten, before=before, after=after))
        by_owner: defaultdict[str, list[str]] = defaultdict(list)
        for owner, id in rows:
            by_owner[owner].append(id)
        for owner, ids in by_owner.items():
            await self._settle(Touched(owner=owner, ids=tuple(ids), deletes=True), [], has_feed=has_feed, deleted=None)

    async def _settle(
        self, touched: Touched, numbers: Sequence[int], *, has_feed: bool, deleted: Mapping[str, int] | None
    ) -> None:
        """Note what a write has deleted and changed: as it was told, else as the primary shows it."""
        owner, ids = touched.owner, touched.ids
        gone: dict[str, int | None] = {**(deleted or {})}
        if not has_feed:
            # Its revisions are not those of the replicas, which go on counting where it begins anew.
            gone = dict.fromkeys(gone)
        there: Mapping[str, object] = {}
        if deleted is None and ids:
            scope, now = Scope.of_owner(owner), times.now()
            there = await self._primary.call(
                "get", lambda backend: backend.get_many(ids, scope=scope, now=now), seconds=self._deadline_seconds
            )
            missing = [id for id in ids if id not in there]
            if touched.deletes and has_feed:
                gone = {id: stone.revision for id, stone in (await self._tombstones(missing, scope)).items()}
            elif touched.deletes:
                gone = dict.fromkeys(missing)  # at which revisions nobody can say
        await self._journal.write(
            partial(
                _settled,
                touched=touched,
                gone=gone,
                back=() if has_feed else tuple(there),
                numbers=numbers,
                in_outbox=self._replicates and not has_feed,
            )
        )

    async def _tombstones(self, ids: Sequence[str], scope: Scope) -> Mapping[str, Tombstone]:
        if not ids:
            return {}
        return await self._primary.call(
            "tombstones", lambda backend: backend.tombstones(ids, scope=scope), seconds=self._deadline_seconds
        )


def _begin(connection: Connection, *, touched: Touched, in_outbox: bool) -> list[int]:
    if touched.deletes:
        intents.begin_deleting(connection, touched.owner, touched.ids, _now())
    return intents.begin_changing(connection, touched.owner, touched.ids, _now()) if in_outbox else []


def _withdraw(connection: Connection, *, touched: Touched, numbers: Sequence[int]) -> None:
    if touched.deletes:
        intents.withdraw_deleting(connection, touched.owner, touched.ids)
    intents.settle_changed(connection, numbers, ())


def _settled(
    connection: Connection,
    *,
    touched: Touched,
    gone: Mapping[str, int | None],
    back: Sequence[str],
    numbers: Sequence[int],
    in_outbox: bool,
) -> None:
    if touched.deletes:
        intents.settle_kept(connection, touched.owner, [id for id in touched.ids if id not in gone])
        intents.settle_deleted(connection, touched.owner, gone, _now())
    intents.lift(connection, touched.owner, back)
    if in_outbox:
        intents.settle_changed(connection, numbers, [(touched.owner, id) for id in touched.ids])


def _now() -> int:
    return times.to_milliseconds(times.now())
