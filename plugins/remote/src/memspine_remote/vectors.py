"""From the numbers of an answer to vectors that can be compared: checked, and of norm 1."""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Sequence
from typing import Final

from memspine_remote.shapes import RawVector, ShapeError

_NUMBERS: Final = frozenset({float, int})
# Float32 rounds more than this; a vector so near to norm 1 stays, bit by bit, what the provider gave.
_NORM_TOLERANCE: Final = 1e-6


def packed_rows(vectors: Sequence[RawVector], *, dimension: int | None) -> tuple[int, bytes]:
    """The dimension of the vectors, and all of them as little-endian float32 of norm 1, one after the other.

    Raises ShapeError if any has another dimension, or the zero vector, or a number that is not finite.
    """
    rows = []
    for vector in vectors:
        numbers = _numbers(vector)
        dimension = dimension or len(numbers)
        if len(numbers) != dimension or not numbers:
            raise ShapeError(f"a vector of dimension {len(numbers)} where {dimension or 'at least 1'} was expected")
        rows.append(_unit(numbers))
    return dimension or 0, b"".join(rows)


def _numbers(vector: RawVector) -> array[float]:
    """The numbers as they came: base64 holds float32, JSON may hold more digits."""
    if isinstance(vector, str):
        try:
            data = base64.b64decode(vector, validate=True)
        except ValueError:
            raise ShapeError("a vector that is no base64") from None
        if len(data) % 4:
            raise ShapeError("a vector in base64 that is no row of float32")
        numbers = array("f", data)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers
    # By type, for booleans are integers to Python, and by all at once, which is faster than one by one.
    if not _NUMBERS.issuperset(map(type, vector)):
        raise ShapeError("a vector that holds something other than numbers")
    try:
        return array("d", vector)  # type: ignore[arg-type]  # just checked
    except OverflowError:
        raise ShapeError("a vector with a number that is not finite") from None


def _unit(numbers: array[float]) -> bytes:
    norm = math.hypot(*numbers)
    # One NaN or infinity makes the norm one.
    if not math.isfinite(norm):
        raise ShapeError("a vector with a number that is not finite")
    if norm == 0:
        raise ShapeError("a zero vector, which is near to nothing")
    if abs(norm - 1) > _NORM_TOLERANCE:
        numbers = array("d", [number / norm for number in numbers])
    row = numbers if numbers.typecode == "f" else array("f", numbers)
    if sys.byteorder == "big":
        row = row[:]
        row.byteswap()
    return row.tobytes()
