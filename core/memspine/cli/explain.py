"""Why a memory was recalled, and why another was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memspine.model import Hit, LegTrace, Trace

_COLUMNS = ("rank", "score", "created", "id", "content")
_CUTS_SHOWN = 10


def columns(*, explains: bool) -> tuple[str, ...]:
    """The headings of `hit_row`."""
    return (*_COLUMNS[:-1], "matched", "legs", _COLUMNS[-1]) if explains else _COLUMNS


def hit_row(hit: Hit, *, explains: bool) -> tuple[str, ...]:
    """One recalled memory, with `explains` also the words and the legs that found it."""
    created = f"{hit.memory.created_at.date().isoformat()}"
    start = (str(hit.rank), f"{hit.score:.3f}", created, hit.memory.id)
    why = (", ".join(hit.matched) or "-", legs_text(hit)) if explains else ()
    return (*start, *why, hit.memory.content)


def legs_text(hit: Hit) -> str:
    """Where each leg ranked it."""
    return ", ".join(f"{leg.leg} #{leg.rank} ({leg.score:.3f})" for leg in hit.legs) or "-"


def trace_lines(trace: Trace) -> list[str]:
    """How an answer came about, a line each."""
    budget = "no token budget" if trace.max_tokens is None else f"{trace.tokens} of {trace.max_tokens} tokens"
    spent = f"{trace.milliseconds:.1f} ms"
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
    lines += [f"degraded: {reason}" for reason in trace.degraded if reason not in told]
    return lines


def _leg_line(leg: LegTrace) -> str:
    if leg.status != "ran":
        return leg.detail or f"{leg.leg} leg {leg.status}"
    said = f" ({leg.detail})" if leg.detail else ""
    return f"{leg.leg} leg: {leg.matched} matched, {leg.candidates} looked at, {leg.milliseconds:.1f} ms{said}"
