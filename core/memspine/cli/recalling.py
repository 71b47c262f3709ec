"""The question that `search` and `preview` ask: their arguments, and the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memspine.cli import options as shared

if TYPE_CHECKING:
    import argparse

    from memspine.manager import MemoryManager
    from memspine.model import MemoryFilter
    from memspine.results import SearchResult


def add_question(parser: argparse.ArgumentParser) -> None:
    """The question, and everything that decides what answers it."""
    parser.add_argument("query", nargs="+", metavar="QUERY", help="the question")
    parser.add_argument("--limit", type=int, metavar="N", help="the most memories (default: `[retrieval] limit`)")
    parser.add_argument("--strategy", help="hybrid, semantic, exact or recent (default: `[retrieval] strategy`)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the token budget of all memories together")
    parser.add_argument("--explain", action="store_true", help="say how they were found, and what was left out")
    shared.add_filter(parser)
    shared.add_scope(parser, session="only this session")
    shared.add_shared(parser)


async def recall(
    memory: MemoryManager, options: argparse.Namespace, *, filter: MemoryFilter, preview: bool = False
) -> SearchResult:
    """What the question recalls; a preview does not count as a recall."""
    return await memory.search(
        " ".join(options.query),
        strategy=options.strategy,
        filter=filter,
        limit=options.limit,
        max_tokens=options.max_tokens,
        preview=preview,
        owner=options.owner,
        session=options.session,
        shared=options.shared or None,
    )
