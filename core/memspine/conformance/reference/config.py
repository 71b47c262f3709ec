"""The options of the reference implementations."""

from __future__ import annotations

import attrs


@attrs.frozen
class ReferenceConfig:
    """There is nothing to set."""


@attrs.frozen(kw_only=True)
class ReferenceEmbeddingsConfig:
    """`dimension` is the number of buckets that words are hashed into."""

    dimension: int = 256
