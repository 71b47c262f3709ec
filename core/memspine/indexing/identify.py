"""Which space a source's vectors belong in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from memspine.contracts import EmbeddingIdentity, Quantisation, Space
from memspine.embedding.documents import TEXT_VERSION
from memspine.model import canonical_json
from memspine.text import ANALYSIS_VERSION

TERMS: Final = EmbeddingIdentity(plugin="memspine", model="terms", revision=str(ANALYSIS_VERSION), dimension=1)
"""The identity of the space that holds terms instead of vectors: the keyword index of a primary that has none."""


@attrs.frozen(kw_only=True)
class SpaceShape:
    """All that decides whether vectors are comparable: who makes them, how they are kept, how texts are cut."""

    identity: EmbeddingIdentity
    quantisation: Quantisation = "none"
    chunk_tokens: int = 0

    def fits(self, space: Space) -> bool:
        """Whether a space is of this shape, whichever its generation."""
        return space.id.rpartition(".")[0] == self._digest()

    def newest(self, spaces: Sequence[Space]) -> Space | None:
        """The last of the spaces that are of this shape."""
        return max(filter(self.fits, spaces), key=_generation, default=None)

    def space(self, *, source: Mapping[str, Any], now: datetime, after: Space | None = None) -> Space:
        """A space of this shape; beside `after`, one of the next generation, to build the same vectors anew."""
        generation = _generation(after) + 1 if after else 1
        return Space(
            id=f"{self._digest()}.{generation}",
            identity=self.identity,
            quantisation=self.quantisation,
            chunk_tokens=self.chunk_tokens,
            source=source,
            used_at=now,
        )

    def _digest(self) -> str:
        fields = [*attrs.astuple(self.identity), self.quantisation, self.chunk_tokens, TEXT_VERSION]
        return hashlib.sha256(canonical_json(fields).encode()).hexdigest()[:32]


def is_superseded(space: Space, spaces: Sequence[Space]) -> bool:
    """Whether one of the spaces is of the same shape, built later, and holds all."""
    shape = space.id.rpartition(".")[0]
    return any(
        other.complete and other.id.rpartition(".")[0] == shape and _generation(other) > _generation(space)
        for other in spaces
    )


def _generation(space: Space) -> int:
    number = space.id.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() else 0
