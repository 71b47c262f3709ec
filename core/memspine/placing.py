"""One chat request through recall and placement; whatever fails leaves the request as it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import attrs

from memspine.contracts import Injector
from memspine.errors import MemspineError, describe
from memspine.injection import Fence, render_block
from memspine.results import InjectionResult, SearchResult
from memspine.text import TokenCounter


@attrs.frozen(kw_only=True)
class Placement:
    """How a block is made: its heading, the most memories and tokens in it, where it goes, who signs it."""

    heading: str
    limit: int
    max_tokens: int
    where: Literal["system", "user"]
    fence: Callable[[], Fence]
    count_tokens: TokenCounter


async def place_memories(
    request: Mapping[str, Any],
    *,
    injector: Injector,
    recall: Callable[[str], Awaitable[SearchResult]],
    placement: Placement,
) -> tuple[InjectionResult, bool]:
    """The request with the memories that its question recalls, and whether all went well.

    An earlier block of the same fence is taken out first, so that no block is ever there twice or counts as a
    question.
    """
    try:
        fence = placement.fence()
        bare = dict(request)
        for earlier in dict.fromkeys(found for text in injector.texts(request) for found in fence.find(text)):
            bare = injector.without(bare, earlier)
        question = injector.query_text(bare)
        if not question:
            return InjectionResult(request=bare, reason="the request holds no words of the user's"), True
        result = await recall(question)
        block = render_block(
            result.hits,
            fence=fence,
            heading=placement.heading,
            limit=placement.limit,
            max_tokens=placement.max_tokens,
            count_tokens=placement.count_tokens,
        )
        if not block.text:
            reason = "no memory fits the budget" if result.hits else "no memory fits the question"
            return InjectionResult(request=bare, trace=result.trace, reason=reason), True
        placed = injector.inject(bare, block.text, options={"placement": placement.where})
    except Exception as error:  # neither an injector nor a token counter may cost the user an answer
        cause = str(error) if isinstance(error, MemspineError) else describe(error)
        return InjectionResult(request=request, reason=f"not injected: {cause}"), False
    return InjectionResult(
        request=placed, block=block.text, tokens=block.tokens, hits=block.hits, trace=result.trace
    ), True
