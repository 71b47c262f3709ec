"""Bring an earlier revision back, as a new one. A deleted memory comes back with its id."""

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
    parser.add_argument("--revision", type=int, required=True, metavar="N", help="as `history` numbers them")
    shared.add_scope(parser, session="only if it belongs to this session")


def run(options: argparse.Namespace, out: Output) -> int:
    """Bring it back."""
    from memspine.cli.render import answer
    from memspine.cli.sessions import require_sessions

    async def work(memory: MemoryManager) -> int:
        await require_sessions(memory, [options.id], options.session, owner=options.owner)
        result = await memory.restore(options.id, revision=options.revision, owner=options.owner, management=True)
        answer(result, out, said=f"revision {options.revision} is back, as revision {result.memory.revision}")
        return 0

    return with_memory(options, out, work)
