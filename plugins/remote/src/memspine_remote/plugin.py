"""Registers the embedding source and the reranker. Imports nothing that is needed only when one is opened."""

from __future__ import annotations

from typing import Any

from memspine.contracts import EmbeddingSource, Provider, Reranker
from memspine.hookspecs import hookimpl
from memspine_remote.config import RemoteEmbeddingConfig, RemoteRerankerConfig


@hookimpl
def memspine_embedding_sources() -> list[Provider[EmbeddingSource, Any]]:
    """Embeddings of a provider, or of a server on the own machine."""
    return [
        Provider(
            name="remote",
            config_type=RemoteEmbeddingConfig,
            open="memspine_remote.source:open_source",
            summary="embeddings over HTTP: OpenAI, Ollama, llama.cpp, vLLM and the like, Cohere",
        )
    ]


@hookimpl
def memspine_rerankers() -> list[Provider[Reranker, Any]]:
    """Rerankers of a provider, or of a server on the own machine."""
    return [
        Provider(
            name="remote",
            config_type=RemoteRerankerConfig,
            open="memspine_remote.reranker:open_reranker",
            summary="reranking over HTTP: Jina, llama.cpp, vLLM and the like, Cohere",
        )
    ]
