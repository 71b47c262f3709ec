"""Reranking as Jina has it, and llama.cpp, vLLM, OmniRoute and others after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from memspine_remote.failures import Refusal
from memspine_remote.shapes.answers import listed, scores_in_order
from memspine_remote.shapes.refusals import refusal_of


@attrs.frozen
class JinaRerank:
    """POST /rerank (`memspine_remote.shapes.RerankShape`)."""

    base_url: ClassVar[str] = "https://api.jina.ai/v1"
    path: ClassVar[str] = "/rerank"

    model: str

    def body(self, query: str, texts: Sequence[str]) -> Mapping[str, object]:
        """The request; all texts are to be scored. Only the fields that every server of this shape knows."""
        return {"model": self.model, "query": query, "documents": list(texts), "top_n": len(texts)}

    def scores(self, answer: object, count: int) -> Sequence[float]:
        """The scores in the order of the texts."""
        return scores_in_order(listed(answer, "results"), count)

    def refusal(self, status: int, answer: object) -> Refusal:
        """What a refusal means."""
        return refusal_of(status, answer)
