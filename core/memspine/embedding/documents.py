"""The text of a memory that is embedded."""

from __future__ import annotations

from memspine.model import Memory
from memspine.text import speaker_of

TEXT_VERSION = 1
"""Raised when the same memory yields another text than before: vectors of both are not comparable."""


def document_text(memory: Memory) -> str:
    """What a source is given of a memory: its content, and before it who said it, as a transcript has it."""
    speaker = speaker_of(memory.metadata)
    return f"{speaker}: {memory.content}" if speaker else memory.content
