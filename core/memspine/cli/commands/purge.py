"""Erase memories for good: content, history and index entries, from every place that the store knows.

The receipt names each place and what became of it. This cannot be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared
from memspine.cli.codes import Exit, UsageError
from memspine.cli.opening import with_memory
from memspine.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.model import PurgeReceipt


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--all", action="store_true", dest="everything", help="everything that the owner has")
    parser.add_argument("--yes", action="store_true", help="with --all: do not ask")
    shared.add_scope(parser, session="only if they belong to this session")


def run(options: argparse.Namespace, out: Output) -> int:
    """Erase them."""
    if bool(options.ids) == options.everything:
        raise UsageError("name ids, or say --all")
    if options.everything and options.session is not None:
        raise UsageError("--all is everything of the owner; to erase a session, name its ids")

    async def work(memory: MemoryManager) -> int:
        from memspine.cli.sessions import require_sessions

        if options.everything and not await _agreed(memory, options):
            out.remark("nothing was erased")
            return Exit.OK
        await require_sessions(memory, options.ids, options.session, owner=options.owner)
        ids = None if options.everything else options.ids
        receipt = await memory.purge(ids, owner=options.owner, management=True)
        _answer(receipt, out)
        if ids is not None and not receipt.memories:
            raise NotFoundError(memory.config.primary.name, ", ".join(ids))
        unknown = ids is not None and receipt.memories < len(set(ids))
        pending = any(place.status == "pending" for place in receipt.places)
        return Exit.PARTIAL if pending or unknown else Exit.OK

    return with_memory(options, out, work)


async def _agreed(memory: MemoryManager, options: argparse.Namespace) -> bool:
    from memspine.cli.asking import confirm

    owner = memory.config.memory.owner if options.owner is None else options.owner
    if options.yes:
        return True
    total = (await memory.count(owner=owner)).total
    return confirm(f"Erase everything of {owner!r} (memories: {total}) for good?", yes=False)


def _answer(receipt: PurgeReceipt, out: Output) -> None:
    if out.json:
        places = [{"place": p.place, "status": p.status, "detail": p.detail} for p in receipt.places]
        out.data({"memories": receipt.memories, "places": places})
        return
    out.cells("memories", "purged", str(receipt.memories))
    out.table(("place", "status", "detail"), [(p.place, p.status, p.detail or "-") for p in receipt.places])
