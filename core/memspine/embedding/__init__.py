"""Embedding sources in use: which one, its answers checked and cached, its failures remembered."""

from memspine.embedding.cache import EmbeddingCache
from memspine.embedding.embedder import Embedder
from memspine.embedding.sources import Chosen, Sources

__all__ = ["Chosen", "Embedder", "EmbeddingCache", "Sources"]
