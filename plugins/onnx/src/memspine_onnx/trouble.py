"""What goes wrong with a model, before it is known for whom: the source and the reranker have their own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memspine.errors import Trouble, describe


class ModelTrouble(Exception):
    """A model did not do its work: what happened, what was expected instead, and of what kind that is."""

    def __init__(self, reason: str, *, expected: str, kind: Trouble = "config") -> None:
        self.reason, self.expected, self.kind = reason, expected, kind
        super().__init__(f"{reason}; expected {expected}")


@contextmanager
def translated(doing: str, *, expected: str, kind: Trouble = "config") -> Iterator[None]:
    """Whatever a library raises in the block becomes ModelTrouble that names the cause.

    Both libraries raise bare `Exception` or children of it that they do not document.
    """
    try:
        yield
    except ModelTrouble:
        raise
    except Exception as error:
        raise ModelTrouble(f"{doing}: {describe(error)}", expected=expected, kind=kind) from error
