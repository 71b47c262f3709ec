"""Registers the backend and the vector store. Imports nothing that is needed only when a store is opened."""

from __future__ import annotations

from typing import Any

from memspine.contracts import Capability, MemoryBackend, Provider, VectorStore
from memspine.hookspecs import hookimpl
from memspine_sqlite.config import SQLiteConfig, SQLiteVectorsConfig, lean, place


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
            lean=lean,
            place=place,
            summary="memories and their keyword index in one SQLite file",
        )
    ]


@hookimpl
def memspine_vector_stores() -> list[Provider[VectorStore, Any]]:
    """The one vector store of this distribution."""
    return [
        Provider(
            name="sqlite",
            config_type=SQLiteVectorsConfig,
            open="memspine_sqlite.store:open_store",
            capabilities=frozenset({Capability.LEXICAL}),
            summary="vectors in one SQLite file, the backend's own or another",
        )
    ]
