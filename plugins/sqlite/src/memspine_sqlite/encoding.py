"""Vectors as they come, checked, and as a space keeps them.

A vector is kept with norm 1. `none` keeps its numbers as float32; `int8` a byte a number, of which the largest is 127;
`binary` one bit a number, set where it is not negative, and the numbers themselves beside them. A cosine does not
depend on the scale of either vector, so that no scale has to be kept.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from typing import Final

import attrs

from memspine.errors import InvalidMemoryError

FLOAT_BYTES: Final = 4
INT8_MAX: Final = 127
# So near to 1 that making it 1 would change the last digit only.
_NORM_TOLERANCE = 1e-6
_SIGNS = b"1" * 128 + b"0" * 128


@attrs.frozen
class Query:
    """The vector that is asked about: as float32 bytes of norm 1, and the code that a space compares it by."""

    vector: bytes
    code: bytes


def code_bytes(quantisation: str, dimension: int) -> int:
    """How many bytes a space keeps of each vector to compare it by."""
    if quantisation == "int8":
        return dimension
    return (dimension + 7) // 8 if quantisation == "binary" else FLOAT_BYTES * dimension


def checked(vector: bytes, *, dimension: int, index: int | None = None) -> bytes:
    """A vector with norm 1. Raises InvalidMemoryError for another dimension, numbers that are not finite, norm 0."""
    if len(vector) != FLOAT_BYTES * dimension:
        raise InvalidMemoryError("vector", f"{len(vector)} bytes", f"{dimension} numbers of 4 bytes", index=index)
    numbers = floats(vector)
    # Scaled inside, so that no square is too large or too small; NaN and infinity come through.
    norm = math.hypot(*numbers)
    if not 0 < norm < math.inf:
        raise InvalidMemoryError("vector", list(numbers[:4]), "finite numbers that are not all 0", index=index)
    if abs(norm - 1) <= _NORM_TOLERANCE:
        return vector
    return _bytes_of(array("f", [number / norm for number in numbers]))


def encoded(vector: bytes, quantisation: str) -> bytes:
    """What a space compares a checked vector by."""
    if quantisation == "int8":
        return _in_bytes(vector)
    return signs(vector) if quantisation == "binary" else vector


def _in_bytes(vector: bytes) -> bytes:
    numbers = floats(vector)
    scale = INT8_MAX / max(map(abs, numbers))
    if "numpy" in sys.modules:
        # The same numbers, ten times faster; importing it would cost more than a batch.
        import numpy as np

        return np.rint(np.asarray(numbers, np.float64) * scale).astype(np.int8).tobytes()
    return array("b", [round(number * scale) for number in numbers]).tobytes()


def signs(vector: bytes) -> bytes:
    """A bit for each number, the first is the highest of the first byte: 1 where the number has no minus sign."""
    # The sign is the highest bit of the last byte of each number.
    digits = vector[FLOAT_BYTES - 1 :: FLOAT_BYTES].translate(_SIGNS)
    size = (len(digits) + 7) // 8
    return int(digits.ljust(8 * size, b"0"), 2).to_bytes(size)


def floats(vector: bytes) -> array[float]:
    """The numbers of a vector."""
    return _swapped(array("f", vector))


def coded(code: bytes, quantisation: str) -> tuple[float, ...]:
    """The numbers that a code stands for, in any scale; those of `binary` are in `originals`."""
    return tuple(array("b", code) if quantisation == "int8" else floats(code))


def cosine(left: tuple[float, ...], right: tuple[float, ...], *, norm: float) -> float:
    """The cosine of two vectors, `norm` is that of the right one."""
    # From the three sides of the triangle: each is one call, where a sum of products would be a loop.
    side, distance = math.hypot(*left), math.dist(left, right)
    found: float = (side * side + norm * norm - distance * distance) / (2 * side * norm)
    return found


def norm_of(numbers: Sequence[float]) -> float:
    """The length of a vector."""
    return math.hypot(*numbers)


def _bytes_of(numbers: array[float]) -> bytes:
    return _swapped(numbers).tobytes()


def _swapped(numbers: array[float]) -> array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
