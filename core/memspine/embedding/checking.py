"""What a source answered, held against what it promised: nothing else ever reaches an index."""

from __future__ import annotations

import math
from array import array
from operator import mul

from memspine.contracts import EmbeddingIdentity, Vectors
from memspine.errors import EmbeddingError

NORM_TOLERANCE = 1e-3


def checked(vectors: object, *, source: str, identity: EmbeddingIdentity, count: int) -> list[bytes]:
    """The vectors of `count` texts, each as little-endian float32. Raises EmbeddingError for anything else than `count`
    finite vectors of the identity's dimension and of norm 1: of kind "config" where the shape is wrong, which is no
    text's fault, of kind "invalid" where a number is."""
    dimension = identity.dimension
    if not isinstance(vectors, Vectors):
        reason = f"answered {type(vectors).__name__}"
        raise EmbeddingError(source, reason, expected="memspine.contracts.Vectors", kind="config")
    if vectors.dimension != dimension or len(vectors.data) != 4 * dimension * count:
        got = f"answered {len(vectors.data)} bytes of dimension {vectors.dimension}"
        expected = f"{count} × {dimension} float32, {4 * dimension * count} bytes"
        raise EmbeddingError(source, got, expected=expected, kind="config")
    rows = [vectors.row_bytes(place) for place in range(count)]
    for place, row in enumerate(rows):
        norm = _norm(row)
        if not abs(norm - 1) <= NORM_TOLERANCE:  # in this form NaN is refused too
            got = f"vector {place} of {count} has norm {norm:.6g}"
            raise EmbeddingError(source, got, expected=f"1, to {NORM_TOLERANCE:g}")
    return rows


def _norm(row: bytes) -> float:
    values = array("f", row)
    return math.sqrt(math.fsum(map(mul, values, values))) if _is_finite(values) else math.nan


def _is_finite(values: array[float]) -> bool:
    return math.isfinite(sum(values))
