"""Tell what finds memories and in which state it is: words, the embedding source, vector spaces, reranking.

Nothing is loaded or asked for that, unless --probe says so. Exit code 7 when a probe fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.codes import Exit
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--probe", action="store_true", help="ask source and reranker for an answer: may load a model, or cost a call"
    )


def run(options: argparse.Namespace, out: Output) -> int:
    """Tell."""

    async def work(memory: MemoryManager) -> int:
        from memspine.cli.engines import engine_rows, engine_to_wire

        status = await memory.engine(probe=options.probe)
        if out.json:
            out.data(engine_to_wire(status))
        else:
            out.table(("what", "name", "state"), engine_rows(status))
        troubles = status.embedding.trouble or status.rerank.trouble
        return Exit.UNAVAILABLE if options.probe and troubles else Exit.OK

    return with_memory(options, out, work, maintains=False)
