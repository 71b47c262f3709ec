"""Put the memories that fit the user's question into a chat request: JSON on standard input, JSON on standard output.

When that fails, the request comes out as it came in, and standard error says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memspine.cli import options as shared
from memspine.cli.opening import with_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from memspine.cli.output import Output
    from memspine.manager import MemoryManager
    from memspine.results import InjectionResult


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--shape", default="openai.chat", help="the shape of the request (default openai.chat)")
    parser.add_argument("--limit", type=int, metavar="N", help="the most memories (default: `[injection] limit`)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the budget (default: `[retrieval] max_tokens`)")
    parser.add_argument("--placement", choices=("system", "user"), help="the message that gets them")
    shared.add_scope(parser, session="the conversation whose earlier block is replaced")
    shared.add_shared(parser)


def run(options: argparse.Namespace, out: Output) -> int:
    """Place them."""
    request = _request()

    async def work(memory: MemoryManager) -> int:
        result = await memory.inject(
            request,
            shape=options.shape,
            owner=options.owner,
            session=options.session,
            shared=options.shared or None,
            limit=options.limit,
            max_tokens=options.max_tokens,
            placement=options.placement,
        )
        _answer(result, out)
        return 0

    return with_memory(options, out, work)


def _request() -> Mapping[str, Any]:
    from memspine.cli import values

    return values.json_object(values.read_text(), field="standard input")


def _answer(result: InjectionResult, out: Output) -> None:
    if not out.json:
        out.data(result.request)
        if result.reason:
            out.note(result.reason)
        return
    from memspine.wire import hit_to_wire, trace_to_wire

    out.data(
        {
            "request": result.request,
            "block": result.block,
            "tokens": result.tokens,
            "results": [hit_to_wire(hit) for hit in result.hits],
            "trace": None if result.trace is None else trace_to_wire(result.trace),
            "reason": result.reason,
        }
    )
