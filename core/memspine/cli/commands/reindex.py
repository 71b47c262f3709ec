"""Give every memory a vector of the configured model, to the end, and let those vectors answer.

What was embedded already is not embedded again, so that an interrupted run can be repeated at any time. Exit code 7
when the source does not work, 9 when some memories cannot be embedded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.codes import Exit
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse

    from memspine.cli.indexing import Indexed
    from memspine.cli.output import Output
    from memspine.manager import MemoryManager


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--rebuild", action="store_true", help="compute all vectors anew; the present ones answer until then"
    )


def run(options: argparse.Namespace, out: Output) -> int:
    """Do it."""

    async def work(memory: MemoryManager) -> int:
        from memspine.cli.indexing import index_all

        indexed = await index_all(memory, out, rebuild=options.rebuild)
        _answer(indexed, out)
        return Exit.UNAVAILABLE if indexed.report.troubles else Exit.PARTIAL if indexed.reasons else Exit.OK

    return with_memory(options, out, work, maintains=False)


def _answer(indexed: Indexed, out: Output) -> None:
    from memspine.cli.engines import space_text
    from memspine.cli.indexing import indexed_to_wire

    if out.json:
        out.data(indexed_to_wire(indexed))
        return
    spaces = indexed.status.vectors.spaces
    out.table(("model", "state"), [(one.space.identity.model, space_text(one)) for one in spaces])
    out.remark(f"{indexed.report.embedded} memories embedded")
    for reason in indexed.reasons:
        out.error(reason, type="unavailable")
