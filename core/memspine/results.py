"""What the manager answers with: memories, and how they were found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

import attrs

from memspine.model import Memory


@attrs.frozen(kw_only=True)
class LegTrace:
    """One way of finding memories: whether it ran, how many it found, how many of those were looked at."""

    leg: str
    status: Literal["ran", "off", "failed"]
    detail: str = ""
    matched: int = 0
    candidates: int = 0
    milliseconds: float = 0.0


@attrs.frozen(kw_only=True)
class Resolution:
    """What answered a question, by name; empty for what was not there. `fallback_reason` says why it was not what the
    configuration asks for."""

    strategy_used: str
    embedding_source: str = ""
    embedding_model: str = ""
    vector_store: str = ""
    rerank_applied: bool = False
    fallback_reason: str = ""


@attrs.frozen(kw_only=True)
class Cut:
    """A candidate that was found and not returned, and why."""

    id: str
    reason: Literal["floor", "retention", "budget", "gone", "changed", "filter", "deleted"]
    detail: str = ""


@attrs.frozen(kw_only=True)
class Trace:
    """How an answer came about. `degraded` says what was missing, and why; it is empty when nothing was. `cuts` lists
    the first `CUTS_LISTED_MAX` candidates that were left out, `cut_counts` counts all of them by reason."""

    strategy: str
    scope: str
    backend: str
    degraded: tuple[str, ...] = ()
    legs: tuple[LegTrace, ...] = ()
    fused_by: str = ""
    terms: tuple[str, ...] = ()
    cuts: tuple[Cut, ...] = ()
    cut_counts: Mapping[str, int] = attrs.field(factory=dict)
    tokens: int = 0
    max_tokens: int | None = None
    milliseconds: float = 0.0
    resolution: Resolution | None = None


VECTORS_OFF: Final = "vector leg off: "
"""How it begins in `Trace.degraded` that there were no vectors, before the reason."""

CUTS_LISTED_MAX: Final = 50


@attrs.frozen(kw_only=True)
class LegScore:
    """Where one leg ranked a memory (from 1), by its own raw score."""

    leg: str
    rank: int
    score: float


@attrs.frozen(kw_only=True)
class Hit:
    """A recalled memory. `score` is what the answer is ordered by, `matched` the question's words that it holds."""

    memory: Memory
    score: float
    rank: int
    tokens: int
    legs: tuple[LegScore, ...] = ()
    matched: tuple[str, ...] = ()

    @property
    def tier(self) -> str:
        """The leg that found the memory; "hybrid" when words and meaning both did."""
        found = [leg.leg for leg in self.legs if leg.leg != "rerank"]
        return "hybrid" if len(found) > 1 else next(iter(found), "")

    def leg_score(self, leg: str) -> float | None:
        """The raw score that a leg gave; None when it did not find the memory."""
        return next((found.score for found in self.legs if found.leg == leg), None)


@attrs.frozen
class SearchResult:
    """Recalled memories, best first, and how they were found."""

    hits: tuple[Hit, ...]
    trace: Trace


@attrs.frozen(kw_only=True)
class MemoryResult:
    """A memory, the backend that gave or took it, what was degraded, and what was changed in the caller's text.

    `created` is None for reads and updates; for a create it is False when an earlier memory was replaced. A `pending`
    one waits in the journal for the primary: its revision is 0, which an update or a delete may expect as long as it
    waits, and it is not found by searching yet. Where the primary has its key under another id, that one is kept, and
    `journal_entries` names both.
    """

    memory: Memory
    backend: str
    degraded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    created: bool | None = None
    pending: bool = False


@attrs.frozen(kw_only=True)
class DeleteResult:
    """A deleted memory: the revision and the time of its deletion, and the backend that did it. A `pending` one waits
    in the journal for the primary: its revision is 0, and it is hidden everywhere already."""

    id: str
    owner: str
    revision: int
    deleted_at: datetime
    backend: str
    pending: bool = False
    degraded: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class PageResult:
    """A page of memories, how many there are in all, and the cursor of the next page (None at the end)."""

    memories: tuple[Memory, ...]
    total: int
    cursor: str | None
    backend: str
    degraded: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class InjectionResult:
    """A chat request with memories placed, or as it was, and then `reason` says why. `block` is the text that was
    placed, `tokens` what it costs by the manager's token counter."""

    request: Mapping[str, Any]
    block: str = ""
    tokens: int = 0
    hits: tuple[Hit, ...] = ()
    trace: Trace | None = None
    reason: str = ""
