"""One question to the memory, with everything that decides its answer."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import attrs

from memspine.model import MemoryFilter, Scope

Strategy = Literal["exact", "semantic", "hybrid"]
Method = Literal["scaled", "rrf", "weighted"]


@attrs.frozen(kw_only=True)
class RankingRules:
    """How words and meaning become one order: their scores on one scale, their ranks, or their plain scores.

    `vector_weight` is the share of meaning in a scaled or weighted score, `rrf_k` the constant of reciprocal rank
    fusion; `context` says whether neighbours and the session count.
    """

    method: Method = "scaled"
    vector_weight: float = 0.55
    rrf_k: int = 60
    context: bool = True


@attrs.frozen(kw_only=True)
class RecallRequest:
    """One question, checked. `max_tokens` None means no budget, `retention_days` 0 no limit, a floor of 0 none.

    `vector_seconds` is how long the vector of the question may take, `seconds` how long each store may.
    """

    text: str
    scope: Scope
    now: datetime
    strategy: Strategy = "hybrid"
    filter: MemoryFilter = attrs.field(factory=MemoryFilter)
    limit: int = 10
    max_tokens: int | None = None
    retention_days: int = 0
    keyword_floor: float = 0.0
    vector_floor: float = 0.0
    native_hybrid: bool = True
    ranking: RankingRules = attrs.field(factory=RankingRules)
    seconds: float = 5.0
    vector_seconds: float = 5.0
