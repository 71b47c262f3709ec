"""Show one memory, all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("id", metavar="ID")
    shared.add_scope(parser, session="only if it belongs to this session")
    shared.add_shared(parser)


def run(options: argparse.Namespace, out: Output) -> int:
    """Show it."""
    from memspine.cli.render import result_data, show, tell_degraded
    from memspine.cli.sessions import require_session

    async def work(memory: MemoryManager) -> int:
        result = await memory.get(options.id, owner=options.owner, shared=options.shared)
        require_session(result.memory, options.session, backend=result.backend)
        if out.json:
            out.data(result_data(result))
        else:
            show(result.memory, out, pending=result.pending)
            tell_degraded(result.degraded, out)
        return 0

    return with_memory(options, out, work)
