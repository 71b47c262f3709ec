"""Do the background work now, all of it: sweep expired memories, drop old history, tombstones and feed rows, drop
vectors that nobody uses any more, embed what has no vector yet.

Exit code 9 when something keeps memories from being embedded; the rest is done all the same.
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
            _answer(report, out)
            if not options.watch:
                return Exit.PARTIAL if report.troubles else Exit.OK
            out.flush()
            await asyncio.sleep(memory.config.maintenance.interval_seconds)

    return with_memory(options, out, work, maintains=False)


def _answer(report: MaintenanceReport, out: Output) -> None:
    if out.json:
        data = {"removed": dict(report.removed), "embedded": report.embedded, "complete": report.complete}
        out.data({**data, "troubles": list(report.troubles)})
        return
    rows = [(kind, str(count)) for kind, count in report.removed.items()]
    out.table(("kind", "done"), [*rows, ("embed", str(report.embedded))])
    for trouble in report.troubles:
        out.note(f"not embedded to the end: {trouble}")
