"""Registers the backend. Imports nothing that is needed only when a store is opened."""

from __future__ import annotations

from typing import Any

from memspine.contracts import Capability, MemoryBackend, Provider
from memspine.hookspecs import hookimpl
from memspine_sqlite.config import SQLiteConfig


@hookimpl
def memspine_memory_backends() -> list[Provider[MemoryBackend, Any]]:
    """The one backend of this distribution."""
    return [
        Provider(
            name="sqlite",
            config_type=SQLiteConfig,
            open="memspine_sqlite.backend:open_backend",
            capabilities=frozenset(
                {
                    Capability.PUT,
                    Capability.CHANGES,
                    Capability.LEXICAL,
                    Capability.HISTORY,
                    Capability.PURGE,
                    Capability.BACKUP,
                }
            ),
            summary="memories and their keyword index in one SQLite file",
        )
    ]
