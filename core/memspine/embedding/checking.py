"""What a source answered, held against what it promised: nothing else ever reaches an index."""

from __future__ import annotations

import math
from array import array
from operator import mul

from memspine.contracts import EmbeddingIdentity, Vectors
from memspine.errors import EmbeddingError, shorten

NORM_TOLERANCE = 1e-3


def checked_identity(identity: object, *, source: str) -> EmbeddingIdentity:
    """What a source says of its vectors. Raises EmbeddingError of kind "config" for what cannot name them."""
    if not isinstance(identity, EmbeddingIdentity):
        reason = f"answered {type(identity).__name__} as its identity"
        raise EmbeddingError(source, reason, expected="memspine.contracts.EmbeddingIdentity", kind="config")
    names = (identity.plugin, identity.model, identity.revision, identity.prompt_scheme)
    numbers = ((identity.dimension, 1), (identity.window_tokens, 0))
    if not all(map(_is_name, names)) or not all(_is_number(number, least=least) for number, least in numbers):
        reason = f"answered the identity {shorten(identity, length_max=200)}"
        expected = "names that are not empty, a dimension of 1 or more, a window of 0 or more"
        raise EmbeddingError(source, reason, expected=expected, kind="config")
    return identity


def checked_counts(counts: object, *, source: str, count: int) -> tuple[int, ...]:
    """How many tokens each of `count` texts has. Raises EmbeddingError of kind "config" for anything else."""
    found = tuple(counts) if isinstance(counts, (tuple, list)) else ()
    if len(found) != count or not all(_is_number(number, least=0) for number in found):
        reason = f"answered {shorten(counts)} as token counts of {count} texts"
        raise EmbeddingError(source, reason, expected="one each, 0 or more", kind="config")
    return found


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


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != "" and not any("\ud800" <= character <= "\udfff" for character in name)


def _is_number(number: object, *, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def _norm(row: bytes) -> float:
    values = array("f", row)
    return math.sqrt(math.fsum(map(mul, values, values))) if _is_finite(values) else math.nan


def _is_finite(values: array[float]) -> bool:
    return math.isfinite(sum(values))
