"""Do the background work now, all of it: do writes that wait for the primary, deliver what changed to the replicas,
sweep expired memories, drop old history, tombstones and feed rows, drop vectors that nobody uses any more, embed what
has no vector yet.

Exit code 9 when something keeps any of it from being done; the rest is done all the same. While the primary is away
nothing but deliveries can be tried: exit code 7, or with --watch a note, and it goes on when the primary is back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.codes import Exit
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.maintenance import MaintenanceReport
    from memspine.manager import MemoryManager


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--watch", action="store_true", help="repeat it every `[maintenance] interval_seconds`")


def run(options: argparse.Namespace, out: Output) -> int:
    """Do it."""

    async def work(memory: MemoryManager) -> int:
        import asyncio

        while True:
            report = await memory.maintain()
            if report.failure is None or _has_done(report) or options.watch:
                _answer(report, out)
            if not options.watch:
                if report.failure is not None:
                    raise report.failure
                return Exit.PARTIAL if report.troubles else Exit.OK
            if report.failure is not None:
                out.note(f"not done to the end: {report.failure}")
            out.flush()
            await asyncio.sleep(memory.config.maintenance.interval_seconds)

    return with_memory(options, out, work, maintains=False)


def _has_done(report: MaintenanceReport) -> bool:
    """Whether there is anything to tell, before the failure that ended it."""
    return bool(report.executed or report.delivered or report.troubles or any(report.removed.values()))


def _answer(report: MaintenanceReport, out: Output) -> None:
    if out.json:
        data = {name: getattr(report, name) for name in ("embedded", "executed", "delivered", "complete")}
        failure = None if report.failure is None else str(report.failure)
        out.data({"removed": dict(report.removed), **data, "troubles": list(report.troubles), "failure": failure})
        return
    rows = [(kind, str(count)) for kind, count in report.removed.items()]
    done = {"embed": report.embedded, "execute": report.executed, "deliver": report.delivered}
    out.table(("kind", "done"), [*rows, *((kind, str(count)) for kind, count in done.items())])
    for trouble in report.troubles:
        out.note(f"not done to the end: {trouble}")
