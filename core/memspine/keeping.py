"""What keeps a memory in order: health, maintenance, the vector index, backup, purging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memspine import times
from memspine.errors import MemspineError
from memspine.intake import Intake
from memspine.model import Health, PurgedPlace, PurgeReceipt

if TYPE_CHECKING:
    from memspine.engine import EngineStatus
    from memspine.indexing import Progress
    from memspine.maintenance import Kind, MaintenanceReport
    from memspine.running import Running


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
        `only_loaded`, nothing is embedded by a model that was not used yet."""
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

        The receipt names each place; fallbacks, which callers never write to, are listed as kept.
        """
        running = self._open
        known = None if ids is None else Intake().ids(ids)
        scope, now = running.policy.writing_scope(owner, management=management), times.now()
        running.forget_accesses(scope.owner, known)
        answer = await running.chain.unhurried(
            "purge", lambda backend: backend.purge(known, scope=scope, now=now), ids=known or ()
        )
        places = list(answer.value.places)
        if running.index is not None:
            try:
                places += (await running.index.purge(known, scope=scope)).places
            except MemspineError as error:
                places.append(
                    PurgedPlace(place=f"vectors in {running.index.name}", status="pending", detail=str(error))
                )
        places += (
            PurgedPlace(place=f"fallback {member.name}", status="kept", detail="fallbacks are not written to")
            for member in running.chain.members[1:]
        )
        return PurgeReceipt(answer.value.memories, tuple(places))

    async def backup(self, target: str | Path) -> None:
        """Write a consistent copy of the primary to a new file while it is in use. Raises CapabilityError."""
        path = Path(target)
        await self._open.chain.unhurried("backup", lambda backend: backend.backup(path), ids=None)
