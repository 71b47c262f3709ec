"""The reference reranker: the share of the question's words that a text holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from memspine.conformance.reference.config import ReferenceConfig
from memspine.contracts import Context
from memspine.errors import ClosedError
from memspine.text import document_terms, query_terms


@asynccontextmanager
async def open_reranker(_: ReferenceConfig, context: Context) -> AsyncIterator[ReferenceReranker]:
    """The reference reranker."""
    reranker = ReferenceReranker(context.name)
    try:
        yield reranker
    finally:
        reranker.close()


class ReferenceReranker:
    """A Reranker that counts shared words, whatever they mean."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._closed = False

    def close(self) -> None:
        """Refuse every further call."""
        self._closed = True

    async def rerank(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """One score a text."""
        if self._closed:
            raise ClosedError(self.name)
        terms = frozenset(query_terms(query).terms)
        return tuple(self.score(terms, text) for text in texts)

    def score(self, terms: frozenset[str], text: str) -> float:
        """The share of the terms that the text holds, 0 for a question without any."""
        return len(terms.intersection(document_terms(text))) / max(len(terms), 1)
