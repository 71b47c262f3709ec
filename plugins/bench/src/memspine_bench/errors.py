"""What keeps a measurement from being made."""

from __future__ import annotations

from collections.abc import Iterable

from memspine.errors import MemspineError


class DataError(MemspineError):
    """A file of conversations that cannot be used; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class RequestError(MemspineError):
    """Settings or options that do not go together, or that are not there."""


class MeasureError(MemspineError):
    """A store or a source that did not do what the figures would rely on."""
