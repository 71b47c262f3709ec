"""Reads safetensors files as memory-mapped arrays, so that only the rows that are used are read from the disk."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from memspine_static.failures import ModelFilesError

HEADER_BYTES_MAX: Final = 100_000_000
TYPES: Final = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
}
"""The types of numbers that numpy knows, by their name in the file."""

Array = npt.NDArray[Any]


@attrs.frozen
class Place:
    """Where a tensor stands in the file: its type, its shape, and the bytes from the end of the header."""

    type: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_tensors(path: Path) -> dict[str, Array]:
    """All tensors of a file by name, read-only. Raises ModelFilesError for a file that is not whole."""
    try:
        # The view is a plain array: every slice of a memmap object costs as much as looking at forty rows.
        data = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    except FileNotFoundError:
        raise ModelFilesError(path, "is missing") from None
    except (OSError, ValueError) as error:  # numpy says ValueError of an empty file
        raise ModelFilesError(path, f"cannot be read ({error})") from error
    size = int.from_bytes(data[:8].tobytes(), "little")
    if len(data) < 8 or size > min(HEADER_BYTES_MAX, len(data) - 8):
        raise ModelFilesError(path, f"is cut off: it has {len(data)} bytes and its header does not fit in")
    places = _places(path, data[8 : 8 + size].tobytes())
    body = data[8 + size :]
    if missing := max((place.end for place in places.values()), default=0) - len(body):
        if missing > 0:
            raise ModelFilesError(path, f"is cut off: {missing} bytes are missing at its end")
        raise ModelFilesError(path, f"has {-missing} bytes too many at its end")
    return {name: body[p.begin : p.end].view(TYPES[p.type]).reshape(p.shape) for name, p in places.items()}


def _places(path: Path, header: bytes) -> dict[str, Place]:
    """Where the tensors stand, checked against their shapes."""
    try:
        entries = json.loads(header)
        places = {
            name: Place(str(e["dtype"]), tuple(map(int, e["shape"])), *map(int, e["data_offsets"]))
            for name, e in entries.items()
            if name != "__metadata__"
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFilesError(path, "has a header that is none of a safetensors file") from error
    for name, place in places.items():
        if place.type not in TYPES:
            expected = f"one of {', '.join(TYPES)}; convert the model"
            raise ModelFilesError(path, f"holds {name!r} as {place.type}", expected=expected)
        length = math.prod(place.shape) * np.dtype(TYPES[place.type]).itemsize
        if place.begin < 0 or min(place.shape, default=0) < 0 or place.end - place.begin != length:
            raise ModelFilesError(path, f"says of {name!r} a shape that its bytes do not have")
    return places
