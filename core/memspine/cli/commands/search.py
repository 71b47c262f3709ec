"""Recall the memories that answer a question, best first. Words are words: no character is query syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.model import SearchResult, Trace


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("query", nargs="+", metavar="QUERY", help="the question")
    parser.add_argument("--limit", type=int, metavar="N", help="the most memories (default: `[retrieval] limit`)")
    parser.add_argument("--strategy", help="hybrid, semantic, exact or recent (default: `[retrieval] strategy`)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the token budget of all memories together")
    parser.add_argument("--explain", action="store_true", help="say how they were found, and what was left out")
    shared.add_filter(parser)
    shared.add_scope(parser, session="only this session")
    shared.add_shared(parser)


def run(options: argparse.Namespace, out: Output) -> int:
    """Search."""
    filter = shared.chosen_filter(options)

    async def work(memory: MemoryManager) -> int:
        result = await memory.search(
            " ".join(options.query),
            strategy=options.strategy,
            filter=filter,
            limit=options.limit,
            max_tokens=options.max_tokens,
            owner=options.owner,
            session=options.session,
            shared=options.shared or None,
        )
        _answer(result, out, explains=options.explain)
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
        tell_degraded(_worth_telling(result.trace), out)


def _worth_telling(trace: Trace) -> Sequence[str]:
    """What was degraded. That there are no vectors is so every time, and missed only by a search by meaning alone."""
    from memspine.retrieval import NO_VECTORS

    return [reason for reason in trace.degraded if reason != NO_VECTORS or trace.strategy == "semantic"]
