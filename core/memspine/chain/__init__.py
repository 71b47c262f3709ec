"""Primary and fallbacks as one store."""

from __future__ import annotations

from memspine.chain.answers import JOURNAL, Answer, Gathered, Hidden
from memspine.chain.journals import chain_journal
from memspine.chain.members import Member
from memspine.chain.notes import Touched
from memspine.chain.operations import Create, Delete, Outcome, Update, Write
from memspine.chain.routing import Chain

__all__ = [
    "JOURNAL", "Answer", "Chain", "Create", "Delete", "Gathered", "Hidden", "Member", "Outcome", "Touched",
    "Update", "Write", "chain_journal",
]  # fmt: skip
