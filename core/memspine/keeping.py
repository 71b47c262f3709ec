"""What keeps a memory in order: health, maintenance, the vector index, backup, purging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from memspine import times
from memspine.chain.bulk import purge
from memspine.errors import MemspineError, NotFoundError
from memspine.intake import Intake
from memspine.model import LIMIT_MAX, Health, PurgedPlace, PurgeReceipt

if TYPE_CHECKING:
    from memspine.engine import EngineStatus
    from memspine.indexing import Progress
    from memspine.maintenance import Kind, MaintenanceReport
    from memspine.running import Running
    from memspine.status import Adoption, ChainStatus, JournalEntry, ReconcileReport


class Keeping:
    """The part of the manager that callers need now and then."""

    @property
    def _open(self) -> Running:
        raise NotImplementedError

    async def health(self, *, deep: bool = False) -> dict[str, Health]:
        """A read-only probe of every backend, by name, primary first, then of the vector store (`vectors in …`); `deep`
        checks all that is stored."""
        return await self._open.health(deep=deep)

    async def engine(self, *, probe: bool = False) -> EngineStatus:
        """What finds memories, and in which state it is. With `probe` the embedding source is asked for a vector now,
        which may load a model or cost a call; without it nothing is loaded."""
        return await self._open.engine(probe=probe)

    async def flush(self) -> None:
        """Write the recalls counted so far, which otherwise happens within 5 s and when the manager is left."""
        await self._open.flush_accesses()

    async def maintain(
        self, kinds: Sequence[Kind] | None = None, *, budget_seconds: float | None = None, only_loaded: bool = False
    ) -> MaintenanceReport:
        """Do the background work now, of these kinds or of all: to its end, or as much as the time allows. With
        `only_loaded`, nothing is embedded by a model that was not used yet. A primary that is away is the report's
        `failure`. Raises JournalError."""
        return await self._open.maintain(kinds, budget_seconds=budget_seconds, only_loaded=only_loaded)

    async def reindex(
        self, *, rebuild: bool = False, on_progress: Callable[[tuple[Progress, ...]], None] | None = None
    ) -> MaintenanceReport:
        """Embed everything that has no vector of the configured model yet, to the end, and let its vectors answer.

        With `rebuild` all vectors are computed anew, beside those that answer until then. `on_progress` is called
        after every step. What keeps it from coming to its end is in the report's `troubles`. Raises NoVectorsError
        where no source or no store is configured.
        """
        return await self._open.reindex(rebuild=rebuild, on_progress=on_progress)

    async def purge(
        self, ids: Sequence[str] | None, *, owner: str | None = None, management: bool = False
    ) -> PurgeReceipt:
        """Erase memories (None: all of the owner) from every place that the chain knows. Raises CapabilityError.

        The receipt names each place: replicas are purged as well, those that cannot be reached before anything else is
        delivered to them; other fallbacks, which nobody writes to, are listed as kept.
        """
        running = self._open
        known = None if ids is None else Intake().ids(ids)
        scope, now = running.policy.writing_scope(owner, management=management), times.now()
        running.forget_accesses(scope.owner, known)
        answer = await purge(running.chain, known, scope=scope, now=now)
        places = list(answer.value.places)
        if running.index is not None:
            try:
                places += (await running.index.purge(known, scope=scope)).places
            except MemspineError as error:
                places.append(
                    PurgedPlace(place=f"vectors in {running.index.name}", status="pending", detail=str(error))
                )
        if running.debts is not None:
            places += await running.debts.purge(known, owner=scope.owner)
        places += (
            PurgedPlace(place=f"fallback {member.name}", status="kept", detail="fallbacks are not written to")
            for member in running.chain.members[1:]
            if not member.replicates
        )
        return PurgeReceipt(answer.value.memories, tuple(places))

    async def backup(self, target: str | Path) -> None:
        """Write a consistent copy of the primary to a new file while it is in use. Raises CapabilityError."""
        path = Path(target)
        await self._open.chain.call_primary("backup", lambda backend: backend.backup(path), unhurried=True)

    # ── the chain ──

    async def status(self) -> ChainStatus:
        """Every backend, asked now, and what waits in the journal for the primary and for each replica."""
        from memspine.chain.journals import stray_journals
        from memspine.delivery import chain_status

        strays = await asyncio.to_thread(stray_journals, self._open.config)
        return attrs.evolve(await chain_status(self._open.chain), strays=strays)

    async def journal_entries(self, *, limit: int = LIMIT_MAX) -> tuple[JournalEntry, ...]:
        """What waits in the journal, by number. Raises JournalError."""
        from memspine.journal import entries

        journal = self._open.chain.journal
        size = Intake().limit(limit)
        return () if journal is None else await journal.read(lambda connection: entries.listed(connection, size))

    async def retry(self, numbers: Sequence[int] | None = None) -> int:
        """Try entries of the journal again now, dead ones too (None: all that are not in conflict); returns how many of
        them are gone. Raises NotFoundError, JournalError."""
        from memspine.delivery import retry

        running = self._open
        if running.chain.journal is None or running.debts is None:
            return self._no_entries(numbers)
        return await retry(running.chain.journal, running.debts, self._numbers(numbers))

    async def drop(self, numbers: Sequence[int]) -> int:
        """Give entries of the journal up for good; returns how many. Raises NotFoundError, JournalError."""
        from memspine.delivery import drop

        journal = self._open.chain.journal
        return self._no_entries(numbers) if journal is None else await drop(journal, self._numbers(numbers) or ())

    async def adopt_journal(self, *, dry_run: bool = True) -> Adoption:
        """Make the journal, which belongs to another chain, this one's: what waits in it goes into this primary from
        then on. That is for a store that was moved or renamed. With `dry_run` it is only told whose it is. Raises
        JournalError."""
        from memspine.chain.journals import chain_journal
        from memspine.delivery import adopt

        journal = self._open.chain.journal or chain_journal(self._open.config)
        return await adopt(journal, dry_run=dry_run)

    async def reconcile(self, replica: str, *, take: Literal["primary", "replica"] | None = None) -> ReconcileReport:
        """Make a replica the same as the primary again; what both have changed stays in conflict, unless one side is
        taken. Raises NotFoundError for a name that is no replica of this chain, BackendUnavailable, JournalError."""
        from memspine.delivery import Reconciling

        running = self._open
        if take is not None:
            Intake().choice("take", take, ("primary", "replica"))
        found = {member.name: member for member in running.chain.replicas}
        if running.chain.journal is None or running.debts is None or replica not in found:
            raise NotFoundError(running.chain.primary.name, replica, what="replica")
        delivery = running.debts.delivery(found[replica])
        return await Reconciling(running.chain, running.chain.journal, found[replica], delivery).run(take=take)

    @staticmethod
    def _numbers(numbers: Sequence[int] | None) -> Sequence[int] | None:
        return None if numbers is None else Intake().numbers(numbers)

    def _no_entries(self, numbers: Sequence[int] | None) -> int:
        if numbers:
            raise NotFoundError("journal", str(numbers[0]), what="entry")
        return 0
