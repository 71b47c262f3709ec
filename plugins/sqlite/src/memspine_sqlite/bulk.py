"""Making many frozen values at once.

A question is answered with some hundred of them, and making each by its `__init__` would take longer than finding out
what is in them. Here every field of all of them is set in one loop that runs inside the interpreter.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def made(kind: type[T], count: int, **columns: Iterable[Any]) -> list[T]:
    """So many values of a frozen class with slots, from the values of each of its fields, of which none is left out."""
    values = list(map(kind.__new__, itertools.repeat(kind, count)))
    for name, column in columns.items():
        # A frozen class refuses to set a field by its name; its slots do not.
        deque(map(getattr(kind, name).__set__, values, column), maxlen=0)
    return values
