"""Recall the memories that answer a question, best first. Words are words: no character is query syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli.opening import with_memory
from memspine.cli.recalling import add_question as configure
from memspine.cli.recalling import recall

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.results import SearchResult

__all__ = ["configure", "run"]


def run(options: argparse.Namespace, out: Output) -> int:
    """Search."""
    from memspine.cli.options import chosen_filter

    filter = chosen_filter(options)

    async def work(memory: MemoryManager) -> int:
        _answer(await recall(memory, options, filter=filter), out, explains=options.explain)
        return 0

    return with_memory(options, out, work)


def _answer(result: SearchResult, out: Output, *, explains: bool) -> None:
    from memspine.cli import explain
    from memspine.cli.render import tell_degraded
    from memspine.wire import result_to_wire

    if out.json:
        out.data(result_to_wire(result))
        return
    if result.hits or not out.is_terminal:
        rows = [explain.hit_row(hit, explains=explains) for hit in result.hits]
        out.table(explain.columns(explains=explains), rows)
    if not result.hits:
        out.remark("nothing relevant found")
    if explains:
        for line in explain.trace_lines(result.trace):
            out.line(line)
    else:
        tell_degraded(explain.worth_telling(result.trace), out)
