"""Do the background work now, all of it: sweep expired memories, drop old history, tombstones and feed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
            _answer(await memory.maintain(), out)
            if not options.watch:
                return 0
            out.flush()
            await asyncio.sleep(memory.config.maintenance.interval_seconds)

    return with_memory(options, out, work, maintains=False)


def _answer(report: MaintenanceReport, out: Output) -> None:
    if out.json:
        out.data({"removed": dict(report.removed), "complete": report.complete})
    else:
        out.table(("kind", "removed"), [(kind, str(count)) for kind, count in report.removed.items()])
