"""Copy the memories of one backend of the configuration into another: with id, revision, times, metadata and history
as far as the target takes them, and what it does not keep is listed.

What is there already is left alone, so an interrupted copy is simply done again; what the source deletes meanwhile is
deleted in the target. Exit code 9 when memories are in conflict: both sides stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared
from memspine.cli.codes import Exit
from memspine.cli.opening import load

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.replication import CopyReport


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--from", dest="source", required=True, metavar="NAME", help="the backend to copy from")
    parser.add_argument("--to", dest="target", required=True, metavar="NAME", help="the backend to copy to")
    parser.add_argument("--owner", help="only whose memories (default: everyone's)")
    parser.add_argument("--since", metavar="WHEN", help=f"only what changed since: {shared.WHEN}")
    parser.add_argument("--dry-run", action="store_true", help="count what would be done, and do nothing")


def run(options: argparse.Namespace, out: Output) -> int:
    """Copy."""
    import asyncio

    from memspine.cli.values import past
    from memspine.plugins import Plugins
    from memspine.replication import Copy, opened_backends

    config = load(options, out, Plugins())
    since = past(options.since, field="--since")

    async def work() -> CopyReport:
        async with opened_backends(config, options.source, options.target) as (source, target):
            return await Copy(
                source=source,
                target=target,
                owner=options.owner,
                since=since,
                is_dry=options.dry_run,
                on_progress=lambda done: out.progress(f"{done} memories"),
                on_renamed=lambda ref, name: out.note(f"{ref.id} of {ref.owner} is {name} there"),
            ).run()

    report = asyncio.run(work())
    out.progress("")
    _answer(report, out)
    return Exit.PARTIAL if report.conflicts else Exit.OK


def _answer(report: CopyReport, out: Output) -> None:
    counts = {name: getattr(report, name) for name in ("copied", "unchanged", "stale", "conflicts", "deleted")}
    if out.json:
        conflicting = [{"owner": ref.owner, "id": ref.id} for ref in report.conflicting]
        out.data({**counts, "conflicting": conflicting, "losses": list(report.losses)})
        return
    out.table(("what", "memories"), [(name, str(count)) for name, count in counts.items()])
    for loss in report.losses:
        out.note(f"not kept: {loss}")
    for ref in report.conflicting:
        out.error(f"{ref.id} of {ref.owner}: the target has another state of this revision; both stay", type="conflict")
