"""Judges texts against a question. The clauses are in `core/contract/reranker.md`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Reads question and text together, which no index can. What it needs is loaded at the first call."""

    name: str

    async def rerank(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """The relevance of each text, in the order of the texts; higher is better, comparable among texts that are
        judged against one question. Raises RerankError when any of them was not judged."""
        ...
