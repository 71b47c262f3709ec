"""What the journal is told around a write of the primary, so that deletes hold and no replica misses a change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from memspine import times
from memspine.chain.members import Member, bulk_seconds
from memspine.contracts import Capability
from memspine.errors import BackendUnavailable, JournalError, MemspineError
from memspine.journal import Journal, intents, now_milliseconds, replicas
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
    """A write that was noted. Whoever does it may fill in at which revisions memories were deleted, and which others it
    came to than it was about; `trouble` says why its end could not be noted."""

    deleted: Mapping[str, int] | None = None
    others: tuple[str, ...] = ()
    trouble: str = ""


class Notes:
    """Keeps the journal in step with a primary that has fallbacks, some of which may be replicas, or that had replicas
    under another configuration: these follow it still, and come back one day."""

    def __init__(
        self, journal: Journal, primary: Member, *, has_fallbacks: bool, replicates: bool, deadline_seconds: float
    ) -> None:
        self.journal = journal
        self._primary = primary
        self._has_fallbacks = has_fallbacks
        self._replicates = replicates
        self._deadline_seconds = deadline_seconds

    async def has_feed(self) -> bool:
        """Whether the primary says by itself what changed. Raises BackendUnavailable."""
        return Capability.CHANGES in await self._primary.capabilities(seconds=self._deadline_seconds)

    async def are_kept(self) -> bool:
        """Whether deletes are noted."""
        return self._has_fallbacks or await self._is_followed()

    async def _is_followed(self) -> bool:
        """Whether there are replicas, of this configuration or of another one."""
        if self._replicates:
            return True
        try:
            return self.journal.is_there() and await self.journal.kept(replicas.are_followed)
        except JournalError:
            return False  # this chain needs none, and the status tells what is the matter

    @asynccontextmanager
    async def around(self, touched: Touched) -> AsyncIterator[Noted]:
        """Note a write before it begins, and what became of it after. Raises JournalError before it begins."""
        noted = Noted()
        has_feed = await self.has_feed()
        if has_feed and not touched.deletes:
            yield noted
            return
        is_followed = await self._is_followed()
        if not is_followed and not (touched.deletes and self._has_fallbacks):
            yield noted
            await self._note_late(touched, noted, has_feed=has_feed)
            return
        in_outbox = is_followed and not has_feed
        numbers = await self.journal.write(partial(_begin, touched=touched, in_outbox=in_outbox))
        try:
            yield noted
        except BackendUnavailable as error:
            if error.outcome == "none":
                await self.journal.write(partial(_withdraw, touched=touched, numbers=numbers))
            raise  # an unknown outcome stays begun, until the primary can be asked
        except MemspineError:
            await self.journal.write(partial(_withdraw, touched=touched, numbers=numbers))
            raise
        touched = attrs.evolve(touched, ids=(*touched.ids, *noted.others))
        try:
            await self._settle(touched, numbers, has_feed=has_feed, deleted=noted.deleted)
        except (BackendUnavailable, JournalError) as error:
            noted.trouble = f"done, but not noted yet in the journal: {error}"

    async def _note_late(self, touched: Touched, noted: Noted, *, has_feed: bool) -> None:
        """Note a write for a replica that began to follow while it was done: it may have been listed before."""
        try:
            if not has_feed and await self._is_followed():
                changed = [(touched.owner, id) for id in (*touched.ids, *noted.others)]
                await self.journal.write(
                    partial(intents.settle_changed, numbers=(), changed=changed, now=now_milliseconds())
                )
        except JournalError as error:
            noted.trouble = f"done, but not noted in the journal: {error}"

    async def settle_begun(self) -> None:
        """Ask the primary what became of writes whose end nobody noted. Raises BackendUnavailable, LoopError,
        JournalError."""
        before, after = forgotten_times(self._deadline_seconds)
        rows = await self.journal.read(partial(intents.begun, before=before, after=after, limit=ROWS))
        has_forgotten = await self.journal.read(partial(intents.has_forgotten, before=before, after=after))
        if not rows and not has_forgotten:
            return
        has_feed = await self.has_feed()
        if has_forgotten:
            await self.journal.write(
                partial(intents.settle_forgotten, before=before, after=after, now=now_milliseconds())
            )
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
            seconds = bulk_seconds(self._deadline_seconds, len(ids))
            there = await self._primary.call(
                "get", lambda backend: backend.get_many(ids, scope=scope, now=now), seconds=seconds
            )
            missing = [id for id in ids if id not in there]
            if touched.deletes and has_feed:
                gone = {id: stone.revision for id, stone in (await self._tombstones(missing, scope)).items()}
            elif touched.deletes:
                gone = dict.fromkeys(missing)  # at which revisions nobody can say
        await self.journal.write(
            partial(
                _settled,
                touched=touched,
                gone=gone,
                back=() if has_feed else tuple(there),
                numbers=numbers,
                in_outbox=not has_feed and await self._is_followed(),
            )
        )

    async def _tombstones(self, ids: Sequence[str], scope: Scope) -> Mapping[str, Tombstone]:
        if not ids:
            return {}
        return await self._primary.call(
            "tombstones", lambda backend: backend.tombstones(ids, scope=scope), seconds=self._deadline_seconds
        )


def forgotten_times(deadline_seconds: float) -> tuple[int, int]:
    """Before and after which times (milliseconds) a write was begun whose process died: the later one is still to come,
    and the clock was put back since."""
    now, patience = now_milliseconds(), int((deadline_seconds + FORGOTTEN_SECONDS) * 1000)
    return now - patience, now + patience


def _begin(connection: Connection, *, touched: Touched, in_outbox: bool) -> list[int]:
    if touched.deletes:
        intents.begin_deleting(connection, touched.owner, touched.ids, now_milliseconds())
    return intents.begin_changing(connection, touched.owner, touched.ids, now_milliseconds()) if in_outbox else []


def _withdraw(connection: Connection, *, touched: Touched, numbers: Sequence[int]) -> None:
    if touched.deletes:
        intents.withdraw_deleting(connection, touched.owner, touched.ids)
    intents.settle_changed(connection, numbers, (), now_milliseconds())


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
        intents.settle_deleted(connection, touched.owner, gone, now_milliseconds())
    if in_outbox:
        intents.settle_changed(connection, numbers, [(touched.owner, id) for id in touched.ids], now_milliseconds())
    intents.note_back(connection, touched.owner, back)
