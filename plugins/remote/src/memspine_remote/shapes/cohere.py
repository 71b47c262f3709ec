"""Embeddings and reranking as Cohere has them in the second version of its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs

from memspine.contracts import Role
from memspine_remote.config import RemoteEmbeddingConfig
from memspine_remote.failures import Refusal
from memspine_remote.shapes import RawVector, ShapeError
from memspine_remote.shapes.answers import field, listed, scores_in_order
from memspine_remote.shapes.refusals import refusal_of

_BATCH_TEXTS_MAX: Final = 96
_BATCH_TOKENS: Final = 100_000
_INPUT_TYPES: Final[Mapping[Role, str]] = {"document": "search_document", "query": "search_query"}


@attrs.frozen(kw_only=True)
class CohereEmbeddings:
    """POST /embed (`memspine_remote.shapes.EmbeddingShape`)."""

    base_url: ClassVar[str] = "https://api.cohere.com/v2"
    path: ClassVar[str] = "/embed"

    model: str
    dimension: int | None
    encoding: str
    batch_texts: int
    batch_tokens: int
    prompt_scheme: str = "input_type"

    @classmethod
    def of(cls, config: RemoteEmbeddingConfig) -> CohereEmbeddings:
        """From the options."""
        return cls(
            model=config.model,
            dimension=config.dimension if config.send_dimension else None,
            encoding="base64" if config.encoding == "base64" else "float",
            batch_texts=min(config.batch_texts or _BATCH_TEXTS_MAX, _BATCH_TEXTS_MAX),
            batch_tokens=config.batch_tokens or _BATCH_TOKENS,
        )

    def body(self, texts: Sequence[str], *, role: Role) -> Mapping[str, object]:
        """The request. What is too long shall be refused, not cut: the kernel cuts, and knows where."""
        body: dict[str, object] = {
            "model": self.model,
            "texts": list(texts),
            "input_type": _INPUT_TYPES[role],
            "embedding_types": [self.encoding],
            "truncate": "NONE",
        }
        if self.dimension is not None:
            body["output_dimension"] = self.dimension
        return body

    def vectors(self, answer: object, count: int) -> Sequence[RawVector]:
        """The vectors, which this API gives in the order of the texts and without numbers."""
        rows = listed(field(answer, "embeddings"), self.encoding)
        if len(rows) != count:
            raise ShapeError(f"{len(rows)} vectors for {count} texts")
        vectors: list[RawVector] = [row for row in rows if isinstance(row, (list, str))]
        if len(vectors) != count:
            raise ShapeError("a vector that is neither an array nor base64")
        return vectors

    def refusal(self, status: int, answer: object) -> Refusal:
        """What a refusal means."""
        return refusal_of(status, answer)


@attrs.frozen
class CohereRerank:
    """POST /rerank (`memspine_remote.shapes.RerankShape`)."""

    base_url: ClassVar[str] = "https://api.cohere.com/v2"
    path: ClassVar[str] = "/rerank"

    model: str

    def body(self, query: str, texts: Sequence[str]) -> Mapping[str, object]:
        """The request; all texts are to be scored."""
        return {"model": self.model, "query": query, "documents": list(texts), "top_n": len(texts)}

    def scores(self, answer: object, count: int) -> Sequence[float]:
        """The scores in the order of the texts."""
        return scores_in_order(listed(answer, "results"), count)

    def refusal(self, status: int, answer: object) -> Refusal:
        """What a refusal means."""
        return refusal_of(status, answer)
