"""The health of stores as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memspine.model import Finding, Health


def health_to_wire(health: Health) -> dict[str, Any]:
    """Whether a store works, its facts and findings."""
    return {
        "ok": health.ok,
        "detail": health.detail,
        "facts": dict(health.facts),
        "findings": [finding_to_wire(finding) for finding in health.findings],
    }


def finding_to_wire(finding: Finding, *, about: str = "") -> dict[str, str]:
    """One finding; `about` says what it is about where that is not clear."""
    data = {"level": finding.level, "text": finding.text, "advice": finding.advice}
    return {"about": about, **data} if about else data
