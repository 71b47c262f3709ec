"""Reference embeddings: hashed bags of words."""

from __future__ import annotations

import hashlib
import math
import sys
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from memspine.conformance.reference.config import ReferenceEmbeddingsConfig
from memspine.contracts import Context, EmbeddingIdentity, Role, Vectors
from memspine.errors import ClosedError
from memspine.text import document_terms


@asynccontextmanager
async def open_source(config: ReferenceEmbeddingsConfig, context: Context) -> AsyncIterator[ReferenceEmbeddings]:
    """The reference embeddings."""
    source = ReferenceEmbeddings(context.name, dimension=config.dimension, window_tokens=config.window_tokens)
    try:
        yield source
    finally:
        source.close()


class ReferenceEmbeddings:
    """An EmbeddingSource whose vectors count words. Texts that share words are near each other, nothing else is."""

    def __init__(self, name: str, *, dimension: int, window_tokens: int = 0) -> None:
        self.name = name
        self._dimension = dimension
        self._window_tokens = window_tokens
        self._closed = False

    def close(self) -> None:
        """Refuse every further call."""
        self._closed = True

    async def identity(self) -> EmbeddingIdentity:
        """What makes these vectors comparable."""
        self._require_open()
        return EmbeddingIdentity(
            plugin="reference",
            model="hashed-words",
            revision="1",
            dimension=self._dimension,
            prompt_scheme="none",
            window_tokens=self._window_tokens,
        )

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """One vector a text."""
        self._require_open()
        return Vectors(self._dimension, b"".join(self.vector(text) for text in texts))

    async def count_tokens(self, texts: Sequence[str]) -> tuple[int, ...]:
        """How many terms each text has."""
        self._require_open()
        return tuple(len(document_terms(text)) for text in texts)

    def vector(self, text: str) -> bytes:
        """The vector of one text: each term counts in a bucket of its own hash; a text without terms has one more."""
        counts = [0.0] * self._dimension
        for term in document_terms(text)[: self._window_tokens or None] or [""]:
            digest = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest())
            counts[digest % self._dimension] += 1.0
        norm = math.sqrt(math.fsum(count * count for count in counts))
        return packed([count / norm for count in counts])

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError(self.name)


def packed(values: Sequence[float]) -> bytes:
    """Numbers as little-endian float32."""
    numbers = array("f", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
