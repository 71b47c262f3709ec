"""What one round of asking gave."""

from __future__ import annotations

import attrs

from memspine.model import MemoryRef
from memspine.results import LegTrace
from memspine.retrieval.picking import Candidate


@attrs.frozen(kw_only=True)
class Found:
    """Candidates best first, and how they were found.

    `more` says whether asking for more candidates would bring any. `gone` are memories that an index named and the
    store does not have. `fused_by` names what made one order of several legs.
    """

    candidates: tuple[Candidate, ...]
    legs: tuple[LegTrace, ...]
    more: bool
    gone: tuple[MemoryRef, ...] = ()
    fused_by: str = ""
    degraded: tuple[str, ...] = ()

    @property
    def matched(self) -> int:
        """How many memories the leg that found the most of them found."""
        return max((leg.matched for leg in self.legs), default=0)
