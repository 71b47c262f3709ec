"""Copy the memories of one backend of the configuration into another: with id, revision, times, metadata and history
as far as the target takes them, and what it does not keep is listed.

What is there already is left alone, so an interrupted copy is simply done again; what the source deletes meanwhile is
deleted in the target. Where the target gives ids of its own, --id-map writes down which memory got which, and another
copy with the same file finds them by it; without the file they are found by what they say, and --json lists the ids.

Exit code 9 when memories are in conflict, and both sides stay as they are, or when the target refused some; exit code 4
when the source holds nothing of the owner that was named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memspine.cli import options as shared
from memspine.cli.codes import Exit
from memspine.cli.opening import load

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.copying.idmap import IdMap
    from memspine.copying.reports import CopyReport


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--from", dest="source", required=True, metavar="NAME", help="the backend to copy from")
    parser.add_argument("--to", dest="target", required=True, metavar="NAME", help="the backend to copy to")
    parser.add_argument("--owner", help="only whose memories (default: everyone's)")
    parser.add_argument("--since", metavar="WHEN", help=f"only what changed since: {shared.WHEN}")
    parser.add_argument("--id-map", metavar="FILE", help="where the ids are kept that the target gives")
    parser.add_argument("--dry-run", action="store_true", help="count what would be done, and do nothing")


def run(options: argparse.Namespace, out: Output) -> int:
    """Copy."""
    import asyncio

    from memspine.cli.values import past
    from memspine.copying import opened_backends
    from memspine.copying.copy import Copy
    from memspine.plugins import Plugins

    config = load(options, out, Plugins())
    since = past(options.since, field="--since")

    async def work() -> tuple[CopyReport, IdMap]:
        async with opened_backends(config, options.source, options.target) as (source, target):
            ids = _ids(options)
            copy = Copy(
                source=source,
                target=target,
                owner=options.owner,
                since=since,
                is_dry=options.dry_run,
                on_progress=lambda done: out.progress(f"{done} memories"),
                ids=ids,
            )
            return await copy.run(), ids

    report, ids = asyncio.run(work())
    out.progress("")
    _answer(report, ids, options, out)
    if report.conflicts or report.refused:
        return Exit.PARTIAL
    if options.owner is not None and since is None and not (report.total or report.deleted):
        out.error(f"{options.source}: holds nothing of the owner {options.owner!r}", type="not_found")
        return Exit.NOT_FOUND
    return Exit.OK


def _ids(options: argparse.Namespace) -> IdMap:
    from memspine.copying.idmap import IdMap

    if options.id_map is None:
        return IdMap()
    from memspine.cli.files import named_path
    from memspine.cli.idfile import IdFile

    path = named_path(options.id_map)
    return IdFile(path, source=options.source, target=options.target, is_dry=options.dry_run)


def _answer(report: CopyReport, ids: IdMap, options: argparse.Namespace, out: Output) -> None:
    names = ("copied", "unchanged", "stale", "conflicts", "refused", "deleted", "renamed")
    counts = {name: getattr(report, name) for name in names}
    if out.json:
        document: dict[str, Any] = {
            **counts,
            "conflicting": [{"owner": ref.owner, "id": ref.id} for ref in report.conflicting],
            "refusals": [{"owner": one.ref.owner, "id": one.ref.id, "reason": one.reason} for one in report.refusals],
            "losses": [{"what": loss.what, "detail": loss.detail} for loss in report.losses],
        }
        if options.id_map is None:
            document["ids"] = [{"owner": ref.owner, "id": ref.id, "target_id": id} for ref, id in ids]
        out.data(document)
        return
    out.table(("what", "memories"), [(name, str(count)) for name, count in counts.items()])
    for loss in report.losses:
        out.note(f"not kept: {loss}")
    if report.renamed and options.id_map is None:
        out.note(f"{report.renamed} memories have other ids there; --id-map FILE writes them down, --json lists them")
    for ref in report.conflicting:
        out.error(f"{ref.id} of {ref.owner}: the target has something else under its id or key; both stay",
                  type="conflict")  # fmt: skip
    for one in report.refusals:
        out.error(f"{one.ref.id} of {one.ref.owner}: refused: {one.reason}", type="partial")
