"""Registers the reference implementations, so that the kit has something to run against without any plugin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memspine.conformance.reference.config import ReferenceConfig, ReferenceEmbeddingsConfig
from memspine.contracts import Capability, EmbeddingSource, MemoryBackend, Provider, Reranker, VectorStore
from memspine.hookspecs import hookimpl

_SUMMARY = "in memory, for tests: what is stored is gone when it is closed"


@hookimpl
def memspine_memory_backends() -> Iterable[Provider[MemoryBackend, Any]]:
    """The reference backend."""
    claimed = (Capability.PUT, Capability.CHANGES, Capability.LEXICAL, Capability.HISTORY, Capability.PURGE)
    return [
        Provider(
            name="reference",
            config_type=ReferenceConfig,
            open="memspine.conformance.reference.backend:open_backend",
            capabilities=frozenset(claimed),
            summary=_SUMMARY,
        )
    ]


@hookimpl
def memspine_embedding_sources() -> Iterable[Provider[EmbeddingSource, Any]]:
    """The reference embeddings."""
    return [
        Provider(
            name="reference",
            config_type=ReferenceEmbeddingsConfig,
            open="memspine.conformance.reference.embeddings:open_source",
            summary="hashed words, for tests: texts that share words are near each other, nothing else is",
        )
    ]


@hookimpl
def memspine_vector_stores() -> Iterable[Provider[VectorStore, Any]]:
    """The reference vector store."""
    return [
        Provider(
            name="reference",
            config_type=ReferenceConfig,
            open="memspine.conformance.reference.vectors:open_store",
            capabilities=frozenset({Capability.LEXICAL}),
            summary=_SUMMARY,
        )
    ]


@hookimpl
def memspine_rerankers() -> Iterable[Provider[Reranker, Any]]:
    """The reference reranker."""
    return [
        Provider(
            name="reference",
            config_type=ReferenceConfig,
            open="memspine.conformance.reference.reranker:open_reranker",
            summary="shared words, for tests",
        )
    ]
