"""Forget memories: those that are named, or all that a filter fits.

With a filter nothing is deleted without --yes: the command only tells which would be. A deleted memory's history stays
for `[memory] history_days`, and `restore` brings it back; `purge` leaves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memspine.cli import options as shared
from memspine.cli.codes import Exit, UsageError, exit_code
from memspine.cli.opening import with_memory
from memspine.errors import MemspineError

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.results import DeleteResult


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--expected-revision", type=int, metavar="N", help="only if it still has this revision")
    shared.add_filter(parser)
    shared.add_scope(parser, session="only this session; empty for those without one")
    parser.add_argument("--yes", action="store_true", help="with a filter: do it")


def run(options: argparse.Namespace, out: Output) -> int:
    """Delete them."""
    filters = shared.has_filter(options)
    if options.ids and filters:
        raise UsageError("ids and a filter exclude each other")
    if options.ids:
        return with_memory(options, out, lambda memory: _delete(memory, options, out))
    if not filters and options.session is None:
        raise UsageError("name ids or a filter (--type, --key, --category, --text, --since, --before, --session)")
    return with_memory(options, out, lambda memory: _delete_many(memory, options, out))


async def _delete(memory: MemoryManager, options: argparse.Namespace, out: Output) -> int:
    from memspine.cli.render import tell_degraded
    from memspine.cli.report import as_data, tell
    from memspine.cli.sessions import require_sessions

    deleted: list[DeleteResult] = []
    failed: list[dict[str, Any]] = []
    code: int = Exit.OK
    for id in options.ids:
        try:
            await require_sessions(memory, [id], options.session, owner=options.owner)
            result = await memory.delete(
                id, expected_revision=options.expected_revision, owner=options.owner, management=True
            )
        except MemspineError as error:
            if len(options.ids) == 1:
                raise
            code = code or exit_code(error)
            failed.append({"id": id, "error": as_data(error)})
            if not out.json:
                tell(error, out)
        else:
            deleted.append(result)
            if not out.json:
                out.cells(result.id, "pending" if result.pending else "deleted")
            tell_degraded(result.degraded, out)
    if out.json:
        out.data({"deleted": [_as_data(result) for result in deleted], "failed": failed})
    return Exit.PARTIAL if deleted and failed else code


def _as_data(result: DeleteResult) -> dict[str, Any]:
    from memspine.model import Tombstone
    from memspine.wire import tombstone_to_wire

    stone = Tombstone(id=result.id, owner=result.owner, revision=result.revision, deleted_at=result.deleted_at)
    more: dict[str, Any] = {"pending": True} if result.pending else {}
    if result.degraded:
        more["degraded"] = list(result.degraded)
    return {**tombstone_to_wire(stone), **more}


async def _delete_many(memory: MemoryManager, options: argparse.Namespace, out: Output) -> int:
    ids = await memory.delete_many(
        shared.chosen_filter(options),
        session=options.session,
        dry_run=not options.yes,
        owner=options.owner,
        management=True,
    )
    if out.json:
        out.data({"ids": list(ids), "total": len(ids), "dryRun": not options.yes})
        return Exit.OK
    for id in ids:
        out.line(id)
    out.remark(f"{len(ids)} deleted" if options.yes else f"{len(ids)} would be deleted; --yes does it")
    return Exit.OK
