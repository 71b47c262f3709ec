"""Show what a question would recall, at what cost, and what would answer it; this does not count as a recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memspine.cli.opening import with_memory
from memspine.cli.recalling import add_question as configure
from memspine.cli.recalling import recall

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.results import Hit, SearchResult

__all__ = ["configure", "run"]

_COLUMNS: Final = ("rank", "score", "tier", "tokens", "vector", "keyword", "id", "content")


def run(options: argparse.Namespace, out: Output) -> int:
    """Show it."""
    from memspine.cli.options import chosen_filter

    filter = chosen_filter(options)

    async def work(memory: MemoryManager) -> int:
        _answer(await recall(memory, options, filter=filter, preview=True), out, explains=options.explain)
        return 0

    return with_memory(options, out, work)


def _answer(result: SearchResult, out: Output, *, explains: bool) -> None:
    from memspine.cli import explain
    from memspine.wire import preview_to_wire

    if out.json:
        out.data(preview_to_wire(result))
        return
    if result.hits or not out.is_terminal:
        out.table(_COLUMNS, [_row(hit) for hit in result.hits])
    if not result.hits:
        out.remark("nothing relevant found")
    trace = result.trace
    for line in explain.trace_lines(trace) if explains else explain.resolution_lines(trace):
        out.line(line)
    if not explains:
        out.line(f"cost: {explain.cost(trace)}")


def _row(hit: Hit) -> tuple[str, ...]:
    return (
        str(hit.rank),
        f"{hit.score:z.3f}",
        hit.tier or "-",
        str(hit.tokens),
        _score(hit.leg_score("vector")),
        _score(hit.leg_score("keyword")),
        hit.memory.id,
        hit.memory.content,
    )


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:z.3f}"
