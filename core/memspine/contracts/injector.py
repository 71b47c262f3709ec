"""Places memories into chat requests. The clauses are in `core/contract/injector.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Injector(Protocol):
    """Places a block of memories into one shape of chat request. Pure: requests are never changed in place."""

    name: str
    shape: str

    def query_text(self, request: Mapping[str, Any]) -> str:
        """What the user asks now; empty when the request holds no words of the user's."""
        ...

    def inject(self, request: Mapping[str, Any], block: str, *, options: Mapping[str, Any]) -> dict[str, Any]:
        """A new request with the block placed; every other field is kept as it was."""
        ...

    def texts(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts of the request in which an earlier block may stand."""
        ...

    def without(self, request: Mapping[str, Any], block: str) -> dict[str, Any]:
        """A new request with this block taken out."""
        ...
