"""The shapes of the APIs: what a request says, what an answer holds, what a refusal means. One module for each.

A shape does no I/O, so that it serves whatever carries the request: a call today, a line of a batch job another day.
To add one, write its class beside the others and name it in `embedding_shape` or `rerank_shape`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from memspine.contracts import Role
from memspine_remote.config import RemoteEmbeddingConfig, RemoteRerankerConfig
from memspine_remote.failures import Refusal

RawVector: TypeAlias = "list[object] | str"
"""One vector as an answer has it: numbers, or base64 of little-endian float32. Nobody has looked at it yet."""


class ShapeError(ValueError):
    """An answer that is not of the shape; the text says how it differs, and quotes nothing of it."""


class Shape(Protocol):
    """What all shapes have."""

    @property
    def base_url(self) -> str:
        """The provider's own."""
        ...

    @property
    def path(self) -> str:
        """What comes behind any base URL."""
        ...

    def refusal(self, status: int, answer: object) -> Refusal:
        """What an HTTP status of 300 or more means; `answer` is the JSON that came with it, or None."""
        ...


class EmbeddingShape(Shape, Protocol):
    """The shape of an API for embeddings."""

    @property
    def batch_texts(self) -> int:
        """How many texts one request holds at most."""
        ...

    @property
    def batch_tokens(self) -> int:
        """How many tokens, as they are estimated, one request holds at most."""
        ...

    @property
    def prompt_scheme(self) -> str:
        """What the API makes of the role; "none" if it does not know of roles."""
        ...

    def body(self, texts: Sequence[str], *, role: Role) -> Mapping[str, object]:
        """The request for the vectors of these texts."""
        ...

    def vectors(self, answer: object, count: int) -> Sequence[RawVector]:
        """The vectors in the order of the texts, of which there were `count`. Raises ShapeError."""
        ...


class RerankShape(Shape, Protocol):
    """The shape of an API for reranking."""

    def body(self, query: str, texts: Sequence[str]) -> Mapping[str, object]:
        """The request for the relevance of these texts."""
        ...

    def scores(self, answer: object, count: int) -> Sequence[float]:
        """The scores in the order of the texts, of which there were `count`. Raises ShapeError."""
        ...


def embedding_shape(config: RemoteEmbeddingConfig) -> EmbeddingShape:
    """The shape that the options name."""
    from memspine_remote.shapes.cohere import CohereEmbeddings
    from memspine_remote.shapes.openai import OpenAIEmbeddings

    return CohereEmbeddings.of(config) if config.api == "cohere" else OpenAIEmbeddings.of(config)


def rerank_shape(config: RemoteRerankerConfig) -> RerankShape:
    """The shape that the options name."""
    from memspine_remote.shapes.cohere import CohereRerank
    from memspine_remote.shapes.jina import JinaRerank

    return CohereRerank(config.model) if config.api == "cohere" else JinaRerank(config.model)
