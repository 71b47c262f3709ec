"""Primary and fallbacks as one store."""

from __future__ import annotations

from memspine.chain.answers import Answer
from memspine.chain.members import Member
from memspine.chain.notes import Touched
from memspine.chain.operations import Create, Delete, Outcome, Update
from memspine.chain.routing import Chain

__all__ = [
    "Answer", "Chain", "Create", "Delete", "Member", "Outcome", "Touched", "Update",
]  # fmt: skip
