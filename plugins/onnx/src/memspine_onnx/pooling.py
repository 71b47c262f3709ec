"""Makes one vector of the vectors of a text's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memspine_onnx.settings import Pooling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pooled(tokens: NDArray[np.float32], modes: Sequence[Pooling]) -> NDArray[np.float32]:
    """One vector for a text of `tokens` (tokens, width), padding left out: (modes x width,), not normalised."""
    import numpy as np

    vector: NDArray[np.float32] = np.concatenate([_pooled(tokens, mode) for mode in modes])
    return vector


def _pooled(tokens: NDArray[np.float32], mode: Pooling) -> NDArray[np.float32]:
    import numpy as np

    vector: NDArray[np.float32]
    match mode:
        case "cls":
            vector = tokens[0]
        case "lasttoken":
            vector = tokens[-1]
        case "max":
            vector = tokens.max(axis=0)
        case "mean":
            vector = tokens.mean(axis=0)
        case "mean_sqrt_len":
            vector = tokens.sum(axis=0) / np.float32(np.sqrt(len(tokens)))
        case "weightedmean":
            # Later tokens have seen more of the text, in models that read forwards.
            weights = np.arange(1, len(tokens) + 1, dtype=np.float32)
            vector = weights @ tokens / weights.sum()
    return vector
