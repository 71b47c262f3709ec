"""Which services a piece of work has passed, so that a request that comes back to one of them is noticed.

Two services can each have the other as their store. A request would go round until a deadline ends it. So each service
takes a random id when it starts. It reads the header of a request (`read_via`), answers 508 where its own id is in it,
and else does the work inside `passing(*ids, own_id)`; what runs in the background of a service is inside
`passing(own_id)`. A client sends what `via` gives. Who is no service is in no circle, and needs none of this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

VIA_HEADER: Final = "Memspine-Via"
"""The header with the ids of the services that a request has passed, the last one last, with commas in between."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_passed: Final[ContextVar[tuple[str, ...]]] = ContextVar("memspine_passed", default=())


def read_via(text: str) -> tuple[str, ...]:
    """The ids in such a header; what is no id of 1 to 64 characters `A-Z a-z 0-9 - _` is left out."""
    return tuple(id for part in text.split(",") if _ID.fullmatch(id := part.strip()))


def via() -> str:
    """What the header of a request has to say here; empty where no service was passed."""
    return ", ".join(_passed.get())


@contextmanager
def passing(*ids: str) -> Iterator[None]:
    """What is done inside, and in tasks begun there, has passed these services."""
    token = _passed.set(ids)
    try:
        yield
    finally:
        _passed.reset(token)
