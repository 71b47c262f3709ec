"""Embeddings as OpenAI has them, and Ollama, llama.cpp, vLLM, LM Studio, Text Embeddings Inference and others after it.

They differ in small things: some leave `index` out, some answer in another order, some ignore `encoding_format`, and
llama.cpp's older path answers with a bare list whose vectors are nested once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs

from memspine.contracts import Role
from memspine_remote.config import RemoteEmbeddingConfig
from memspine_remote.failures import Refusal
from memspine_remote.shapes import RawVector, ShapeError
from memspine_remote.shapes.answers import in_order, listed
from memspine_remote.shapes.refusals import refusal_of

# OpenAI takes 2048 texts and 300 000 tokens. A server on the own machine computes a batch within one time-out.
_OPENAI_LIMITS: Final = (512, 250_000)
_OTHER_LIMITS: Final = (32, 16_000)


@attrs.frozen(kw_only=True)
class OpenAIEmbeddings:
    """POST /embeddings (`memspine_remote.shapes.EmbeddingShape`)."""

    base_url: ClassVar[str] = "https://api.openai.com/v1"
    path: ClassVar[str] = "/embeddings"

    model: str
    dimension: int | None
    encoding: str
    batch_texts: int
    batch_tokens: int
    prompt_scheme: str = "none"

    @classmethod
    def of(cls, config: RemoteEmbeddingConfig) -> OpenAIEmbeddings:
        """From the options. What OpenAI is known to take, others are not asked for."""
        is_openai = config.base_url.rstrip("/") in {"", cls.base_url}
        texts, tokens = _OPENAI_LIMITS if is_openai else _OTHER_LIMITS
        encoding = config.encoding
        if encoding == "auto":
            encoding = "base64" if is_openai else "float"
        return cls(
            model=config.model,
            dimension=config.dimension if config.send_dimension else None,
            # Floats are what everybody gives unasked, and not everybody knows the field.
            encoding="" if encoding == "float" else encoding,
            batch_texts=config.batch_texts or texts,
            batch_tokens=config.batch_tokens or tokens,
        )

    def body(self, texts: Sequence[str], *, role: Role) -> Mapping[str, object]:
        """The request; the role is not known to this API."""
        body: dict[str, object] = {"model": self.model, "input": list(texts)}
        if self.encoding:
            body["encoding_format"] = self.encoding
        if self.dimension is not None:
            body["dimensions"] = self.dimension
        return body

    def vectors(self, answer: object, count: int) -> Sequence[RawVector]:
        """The vectors in the order of the texts."""
        data = answer if isinstance(answer, list) else listed(answer, "data")
        return [_vector(item) for item in in_order(data, count)]

    def refusal(self, status: int, answer: object) -> Refusal:
        """What a refusal means."""
        return refusal_of(status, answer)


def _vector(item: Mapping[str, object]) -> RawVector:
    vector = item.get("embedding")
    if isinstance(vector, list) and vector and isinstance(vector[0], list):
        if len(vector) != 1:
            raise ShapeError(f"{len(vector)} vectors for one text: the server does not pool its tokens")
        vector = vector[0]
    if not isinstance(vector, (list, str)):
        raise ShapeError("an `embedding` that is neither an array nor base64")
    return vector
