"""Why a memory was recalled, and why another was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from memspine.results import Hit, LegTrace, Trace

_COLUMNS = ("rank", "score", "created", "id", "content")
_CUTS_SHOWN = 10


def columns(*, explains: bool) -> tuple[str, ...]:
    """The headings of `hit_row`."""
    return (*_COLUMNS[:-1], "matched", "legs", _COLUMNS[-1]) if explains else _COLUMNS


def hit_row(hit: Hit, *, explains: bool) -> tuple[str, ...]:
    """One recalled memory, with `explains` also the words and the legs that found it."""
    created = f"{hit.memory.created_at.date().isoformat()}"
    start = (str(hit.rank), f"{hit.score:z.3f}", created, hit.memory.id)
    why = (", ".join(hit.matched) or "-", legs_text(hit)) if explains else ()
    return (*start, *why, hit.memory.content)


def legs_text(hit: Hit) -> str:
    """Where each leg ranked it."""
    told = (f"{leg.leg} #{leg.rank}" if leg.rank else leg.leg for leg in hit.legs)
    return ", ".join(f"{name} ({leg.score:z.3f})" for name, leg in zip(told, hit.legs, strict=True)) or "-"


def trace_lines(trace: Trace) -> list[str]:
    """How an answer came about, a line each."""
    spent = f"{trace.milliseconds:.1f} ms"
    budget = cost(trace)
    lines = [
        f"strategy {trace.strategy} in {trace.scope}, answered by {trace.backend} in {spent}, {budget}",
        f"terms: {', '.join(trace.terms) or 'none'}",
    ]
    lines += map(_leg_line, trace.legs)
    if trace.fused_by:
        lines.append(f"fused by: {trace.fused_by}")
    if trace.cut_counts:
        lines.append("left out: " + ", ".join(f"{count} by {reason}" for reason, count in trace.cut_counts.items()))
        lines += [f"  {cut.id} by {cut.reason}: {cut.detail}" for cut in trace.cuts[:_CUTS_SHOWN]]
    told = {leg.detail for leg in trace.legs}
    lines += resolution_lines(trace, told=told)
    told |= {trace.resolution.fallback_reason} if trace.resolution else set()
    lines += [f"degraded: {reason}" for reason in trace.degraded if reason not in told]
    return lines


def resolution_lines(trace: Trace, *, told: Collection[str] = ()) -> list[str]:
    """What answered, a line each, but for a reason that was told already."""
    resolution = trace.resolution
    if resolution is None:
        return []
    vectors = f"{resolution.embedding_model} by {resolution.embedding_source}, kept in {resolution.vector_store}"
    lines = [
        f"strategy used: {resolution.strategy_used}",
        f"vectors: {vectors if resolution.embedding_source else 'none'}",
        f"reranked: {'yes' if resolution.rerank_applied else 'no'}",
    ]
    if resolution.fallback_reason and resolution.fallback_reason not in told:
        lines.append(f"fallback reason: {resolution.fallback_reason}")
    return lines


def cost(trace: Trace) -> str:
    """What an answer costs, and what it may cost."""
    return (
        f"{trace.tokens} tokens, no token budget"
        if trace.max_tokens is None
        else f"{trace.tokens} of {trace.max_tokens} tokens"
    )


def worth_telling(trace: Trace) -> list[str]:
    """What was degraded. That there are no vectors is so every time, and missed only by a search by meaning alone."""
    off = {leg.detail for leg in trace.legs if leg.leg == "vector" and leg.status == "off"}
    return [
        reason
        for reason in trace.degraded
        # What names a command that helps is more than that there are none.
        if reason not in off or trace.strategy == "semantic" or "`memspine " in reason
    ]


def _leg_line(leg: LegTrace) -> str:
    if leg.status != "ran":
        return leg.detail or f"{leg.leg} leg {leg.status}"
    said = f" ({leg.detail})" if leg.detail else ""
    return f"{leg.leg} leg: {leg.matched} matched, {leg.candidates} looked at, {leg.milliseconds:.1f} ms{said}"
