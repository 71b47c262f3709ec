"""List memories by the time of their creation, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.results import PageResult


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    shared.add_filter(parser)
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="the most of one page (default 50)")
    parser.add_argument("--cursor", help="where the page before ended")
    parser.add_argument("--oldest-first", action="store_true", help="oldest first")
    shared.add_scope(parser, session="only this session; empty for those without one")
    shared.add_shared(parser)
    shared.add_everyone(parser)


def run(options: argparse.Namespace, out: Output) -> int:
    """List them."""
    shared.check_everyone(options)
    filter = shared.chosen_filter(options)

    async def work(memory: MemoryManager) -> int:
        page = await memory.list(
            filter,
            limit=options.limit,
            cursor=options.cursor,
            newest_first=not options.oldest_first,
            owner=options.owner,
            session=options.session,
            shared=options.shared,
            everyone=options.everyone,
            management=True,
        )
        _answer(page, out, everyone=options.everyone)
        return 0

    return with_memory(options, out, work)


def _answer(page: PageResult, out: Output, *, everyone: bool) -> None:
    from memspine.cli.render import COLUMNS, row, tell_degraded
    from memspine.wire import memory_to_wire

    if out.json:
        out.data(
            {
                "data": [memory_to_wire(memory) for memory in page.memories],
                "total": page.total,
                "cursor": page.cursor,
                "backend": page.backend,
                "degraded": list(page.degraded),
            }
        )
        return
    columns = ("owner", *COLUMNS) if everyone else COLUMNS
    if page.memories or not out.is_terminal:
        out.table(columns, (((m.owner, *row(m)) if everyone else row(m)) for m in page.memories))
    if page.cursor is not None:
        out.remark(f"{len(page.memories)} of {page.total}; the next: --cursor {page.cursor}")
    elif len(page.memories) != page.total or out.is_terminal:
        out.remark(f"{len(page.memories)} of {page.total}")
    tell_degraded(page.degraded, out)
