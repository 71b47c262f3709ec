"""What finds memories by words, by meaning and by a second look, and in which state it is."""

from __future__ import annotations

import attrs

from memspine.embedding import Sources
from memspine.errors import EmbeddingError, MemspineError
from memspine.indexing import Progress, VectorIndex
from memspine.retrieval import Reranking


@attrs.frozen(kw_only=True)
class KeywordEngine:
    """The keyword index of the primary."""

    backend: str
    is_available: bool
    reason: str = ""


@attrs.frozen(kw_only=True)
class EmbeddingEngine:
    """The configured embedding source. `is_available` is None while nobody has used it: nothing was loaded or asked."""

    source: str
    reason: str
    is_available: bool | None
    model: str = ""
    dimension: int | None = None
    trouble: str = ""
    fallback: str = ""
    cache_hits: int = 0
    cache_misses: int = 0
    cache_entries: int = 0


@attrs.frozen(kw_only=True)
class VectorEngine:
    """The vector store and its spaces, oldest first."""

    store: str
    is_available: bool
    reason: str = ""
    spaces: tuple[Progress, ...] = ()


@attrs.frozen(kw_only=True)
class RerankEngine:
    """The reranker; its name is empty when there is none. `trouble` is why it does not work, as far as is known."""

    source: str = ""
    is_available: bool | None = None
    trouble: str = ""


@attrs.frozen(kw_only=True)
class EngineStatus:
    """The state of everything that answers questions."""

    keyword: KeywordEngine
    embedding: EmbeddingEngine
    vectors: VectorEngine
    rerank: RerankEngine


async def embedding_engine(sources: Sources, *, probe: bool) -> EmbeddingEngine:
    """The state of the configured source; with `probe` it is asked for a vector now, which may load a model or cost a
    call."""
    chosen, fallback = sources.configured(), sources.fallback()
    embedder = chosen.embedder
    if embedder is None:
        return EmbeddingEngine(source=chosen.name, reason=chosen.reason, is_available=False)
    trouble = embedder.breaker.reason
    if probe:
        try:
            (answer,) = await embedder.document_vectors(["probe"], chunk_tokens=0)
            trouble = str(answer) if isinstance(answer, EmbeddingError) else ""
        except MemspineError as error:
            trouble = str(error)
    identity = await embedder.identity() if embedder.is_loaded else None
    return EmbeddingEngine(
        source=chosen.name,
        reason=chosen.reason,
        is_available=False if trouble else None if identity is None else True,
        model="" if identity is None else identity.model,
        dimension=None if identity is None else identity.dimension,
        trouble=trouble,
        fallback="" if fallback is None else fallback.name,
        cache_hits=sources.cache.hits,
        cache_misses=sources.cache.misses,
        cache_entries=len(sources.cache),
    )


async def rerank_engine(reranking: Reranking | None, *, probe: bool) -> RerankEngine:
    """The state of the reranker; with `probe` it is asked now, which may load a model or cost a call."""
    if reranking is None:
        return RerankEngine()
    tried = await reranking.probe() if probe else None
    trouble = reranking.trouble if tried is None else tried
    is_available = False if trouble else True if reranking.has_worked else None
    return RerankEngine(source=reranking.name, is_available=is_available, trouble=trouble)


async def vector_engine(index: VectorIndex) -> VectorEngine:
    """The state of the vector store."""
    try:
        spaces = await index.progress()
    except MemspineError as error:
        return VectorEngine(store=index.name, is_available=False, reason=str(error))
    return VectorEngine(store=index.name, is_available=True, spaces=spaces)
