"""How a vector is cut so that pages are full.

A page of 8 KiB holds whole rows, unless one is larger than a page. One vector of 1024 numbers would take a page for
itself and leave half of it empty; without its last 86 bytes two fit. So where much would be left empty, the end of a
vector is kept in a table of its own, whose rows fill its pages as well.
"""

from __future__ import annotations

import math
from typing import Final

TABLES: Final = ("rest_1", "rest_2")
"""Where the second and the third piece are. Rows of about one size fill the pages of each."""

# A page of 8192 bytes as SQLite uses it: for cells, for an overflow page, and the largest payload without one.
_PAGE, _CELLS, _OVERFLOW, _LOCAL_MAX, _LOCAL_MIN = 8192, 8184, 8188, 8157, 1003
_POINTER = 2
BESIDE_CODE: Final = 80
"""Bytes of a row of `vectors` beside the code, with an id of up to 50 characters."""
BESIDE_PIECE: Final = 14
"""Bytes of a row that has nothing but its number and a piece."""
# A second piece is one more look-up for each vector that is scanned: it has to be worth it.
_GAIN_MIN = 0.1


def pieces(size: int, *, beside: int) -> tuple[int, ...]:
    """The sizes of the pieces that a vector of `size` bytes is kept in, one to three."""
    head = _head(size, beside=beside)
    if _cost(size, beside) - _cost_of(head, size, beside) < _GAIN_MIN * size:
        return (size,)
    rest = size - head
    second = _head(rest, beside=BESIDE_PIECE)
    if _cost(rest, BESIDE_PIECE) - _cost_of(second, rest, BESIDE_PIECE) < _GAIN_MIN * rest:
        return head, rest
    return head, second, rest - second


def cut(vector: bytes, sizes: tuple[int, ...]) -> list[bytes]:
    """A vector in its pieces."""
    found, start = [], 0
    for size in sizes:
        found.append(vector[start : start + size])
        start += size
    return found


def whole(column: str, row: str, sizes: tuple[int, ...]) -> str:
    """The expression for a whole vector whose first piece is in a column, and the others under a row's number."""
    if len(sizes) == 1:
        return column
    others = [f"(SELECT piece FROM {table} WHERE row = {row})" for table in TABLES[: len(sizes) - 1]]
    # Putting together makes a text of the bytes, unchanged, which the cast makes bytes again.
    return f"CAST({' || '.join([column, *others])} AS BLOB)"


def _head(size: int, *, beside: int) -> int:
    """How much of a vector to keep in its row, so that all takes least."""
    fitting = [_CELLS // count - _POINTER - beside for count in range(1, 60)]
    spilling = [_LOCAL_MIN + _OVERFLOW * count - beside for count in range(1, size // _OVERFLOW + 1)]
    heads = [head for head in (*fitting, *spilling) if 0 < head < size]
    return min(heads, key=lambda head: _cost_of(head, size, beside), default=size)


def _cost_of(head: int, size: int, beside: int) -> float:
    return _cost(head, beside) + (_cost(size - head, BESIDE_PIECE) if head < size else 0.0)


def _cost(size: int, beside: int) -> float:
    """The bytes of the file that a row takes."""
    payload = size + beside
    if payload <= _LOCAL_MAX:
        return _PAGE / (_CELLS // (payload + _POINTER))
    local = _LOCAL_MIN + (payload - _LOCAL_MIN) % _OVERFLOW
    if local > _LOCAL_MAX:
        local = _LOCAL_MIN
    return math.ceil((payload - local) / _OVERFLOW) * _PAGE + _PAGE / (_CELLS // (local + _POINTER))
