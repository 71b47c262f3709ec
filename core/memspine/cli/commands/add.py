"""Remember a text; `-` stands for the whole of standard input, as in `cat notes.txt | memspine add -`."""

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
    parser.add_argument("text", nargs="+", metavar="TEXT", help="what to remember, or - for standard input")
    shared.add_fields(parser)
    parser.add_argument("--created", metavar="WHEN", help=f"for what happened earlier: {shared.WHEN}")
    parser.add_argument("--id", help="an id of your own; repeating the command with it is safe")
    shared.add_scope(parser, session="the session it belongs to (default: `[memory] session`)")


def run(options: argparse.Namespace, out: Output) -> int:
    """Remember it."""
    from memspine.cli import values
    from memspine.cli.render import answer

    text = values.content(options.text)
    metadata = None if options.metadata is None else values.json_object(options.metadata, field="--metadata")
    expires_at = values.future(options.expires, field="--expires")
    created_at = values.past(options.created, field="--created")

    async def work(memory: MemoryManager) -> int:
        result = await memory.create(
            text,
            type=options.type or "factual",
            key=options.key or "",
            session=options.session,
            metadata=metadata,
            expires_at=expires_at,
            created_at=created_at,
            id=options.id,
            owner=options.owner,
            management=True,
        )
        answer(result, out, said="created" if result.created else "replaced", with_id=True)
        return 0

    return with_memory(options, out, work)
