"""The options of the reference implementations."""

from __future__ import annotations

import attrs


@attrs.frozen
class ReferenceConfig:
    """There is nothing to set."""


@attrs.frozen(kw_only=True)
class ReferenceEmbeddingsConfig:
    """`dimension` is the number of buckets that words are hashed into; of a text the first `window_tokens` terms count,
    all of them if that is 0."""

    dimension: int = 256
    window_tokens: int = 0
