"""Turns texts into vectors. The clauses are in `core/contract/embedding.md`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

Role = Literal["document", "query"]
"""What a text is to a source: something to be found, or something to find it by."""


@attrs.frozen(kw_only=True)
class EmbeddingIdentity:
    """What makes two vectors comparable. `revision` is a hash of the weights, or the provider's version.

    `window_tokens` is how many tokens of a text one vector stands for; 0 means any number. The kernel cuts longer
    texts into chunks.
    """

    plugin: str
    model: str
    revision: str
    dimension: int
    prompt_scheme: str = "none"
    window_tokens: int = 0


@attrs.frozen
class Vectors:
    """Contiguous little-endian float32 of shape (len(self), dimension), each row of norm 1."""

    dimension: int
    data: bytes

    def __len__(self) -> int:
        return len(self.data) // (4 * self.dimension)

    def row_bytes(self, index: int) -> bytes:
        """One vector as little-endian float32."""
        return self.data[index * 4 * self.dimension : (index + 1) * 4 * self.dimension]

    def row(self, index: int) -> Sequence[float]:
        """One vector as floats."""
        values = array("f")
        values.frombytes(self.row_bytes(index))
        return values


class EmbeddingSource(Protocol):
    """Turns texts into vectors. What it needs is loaded at the first call that needs it; a load that failed is tried
    again by the next call."""

    name: str

    async def identity(self) -> EmbeddingIdentity:
        """The identity of the vectors that `embed` gives; the same until the source is closed."""
        ...

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """One vector a text, in their order. Raises EmbeddingError for the whole batch when any is unusable."""
        ...

    async def count_tokens(self, texts: Sequence[str]) -> tuple[int, ...]:
        """How much of the window each text takes, in their order; an estimate must not be too low."""
        ...
