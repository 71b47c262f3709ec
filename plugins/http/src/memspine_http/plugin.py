"""Registers the backend. Imports nothing that is needed only when one is opened."""

from __future__ import annotations

from typing import Any

from memspine.contracts import Capability, MemoryBackend, Provider
from memspine.hookspecs import hookimpl
from memspine_http.config import HttpConfig, place


@hookimpl
def memspine_memory_backends() -> list[Provider[MemoryBackend, Any]]:
    """A REST memory service; what it can do beyond the base it says itself, at `GET /capabilities`."""
    return [
        Provider(
            name="http",
            config_type=HttpConfig,
            open="memspine_http.backend:open_backend",
            capabilities=frozenset({Capability.PUT, Capability.CHANGES, Capability.HISTORY, Capability.PURGE}),
            place=place,
            summary="any REST memory service, or another memspine",
        )
    ]
