"""Embedding to the end: the work of `reindex`, and of the commands that take in much at once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memspine.cli import engines

if TYPE_CHECKING:
    from memspine.cli.output import Output
    from memspine.engine import EngineStatus
    from memspine.indexing import Progress
    from memspine.maintenance import MaintenanceReport
    from memspine.manager import MemoryManager

_RECENT: Final = timedelta(hours=1)


class Indexed(NamedTuple):
    """What was embedded, and how far everything is now."""

    report: MaintenanceReport
    status: EngineStatus

    @property
    def failing(self) -> Progress | None:
        """The space of the configured source, if some memories cannot be embedded for it."""
        wanted = engines.wanted(self.status)
        return wanted if wanted is not None and wanted.failing else None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not every memory has a vector; empty when each has."""
        if self.failing is None:
            return self.report.troubles
        about = f"{self.failing.failing} memories cannot be embedded: {self.failing.reason}"
        return (*self.report.troubles, about)


async def index_all(memory: MemoryManager, out: Output, *, rebuild: bool = False) -> Indexed:
    """Give every memory its vector, and show on a terminal how far that is. Raises NoVectorsError without a source or a
    store for vectors, BackendUnavailable."""
    try:
        report = await memory.reindex(rebuild=rebuild, on_progress=lambda spaces: out.progress(_progress_text(spaces)))
    finally:
        out.progress("")
    return Indexed(report, await memory.engine())


async def index_imported(memory: MemoryManager, out: Output) -> Indexed | None:
    """The same for what was just stored, where there is a source: whatever keeps it from being done is worth a note,
    and no failure."""
    from memspine.errors import MemspineError, NoVectorsError

    try:
        indexed = await index_all(memory, out)
    except NoVectorsError:
        return None
    except MemspineError as error:
        out.note(f"not indexed: {error}; `memspine reindex` does it later")
        return None
    for reason in indexed.reasons:
        out.note(f"not indexed to the end: {reason}; `memspine reindex` goes on with it")
    return indexed


def indexed_to_wire(indexed: Indexed) -> dict[str, Any]:
    """What was done, what is left, and why."""
    return {
        "embedded": indexed.report.embedded,
        "pending": engines.pending(indexed.status),
        "complete": indexed.report.complete and not indexed.reasons,
        "troubles": list(indexed.reasons),
        "spaces": [engines.space_to_wire(progress) for progress in indexed.status.vectors.spaces],
    }


def _progress_text(spaces: tuple[Progress, ...]) -> str:
    """How far the spaces are that are being filled."""
    # Nobody fills those that were last wanted long ago; they wait for being dropped.
    recent = max((one.space.used_at for one in spaces), default=None)
    filling = [one for one in spaces if recent is not None and recent - one.space.used_at < _RECENT]
    unfinished = [one for one in filling if one.waiting] or filling[-1:]
    told = (
        f"{one.space.identity.model}: {one.held} of {one.total} memories"
        + (f", {one.leased} left to another process or to one that was killed" if one.leased else "")
        for one in unfinished
    )
    return f"indexing {', '.join(told)}" if unfinished else ""
