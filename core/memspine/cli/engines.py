"""The state of what finds memories, as JSON, as rows for people, and as findings for `memspine doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memspine.results import VECTORS_OFF

if TYPE_CHECKING:
    from memspine.engine import EmbeddingEngine, EngineStatus, KeywordEngine, RerankEngine
    from memspine.indexing import Progress

NONE = "none"

# ── as JSON ──


def engine_to_wire(status: EngineStatus) -> dict[str, Any]:
    """Words, embeddings, vectors and reranking."""
    return {
        "keyword": _keyword_to_wire(status.keyword),
        "embedding": _embedding_to_wire(status.embedding),
        "vectorStore": _vectors_to_wire(status),
        "rerank": _rerank_to_wire(status.rerank),
    }


def space_to_wire(progress: Progress) -> dict[str, Any]:
    """A vector space, and how far it is."""
    space = progress.space
    return {
        "id": space.id,
        "model": space.identity.model,
        "dimensions": space.identity.dimension,
        "quantisation": space.quantisation,
        "active": space.active,
        "complete": space.complete,
        "held": progress.held,
        "total": progress.total,
        "waiting": progress.waiting,
        "leased": progress.leased,
        "failing": progress.failing,
        "failingReason": progress.reason or None,
    }


def _keyword_to_wire(keyword: KeywordEngine) -> dict[str, Any]:
    return {"available": keyword.is_available, "backend": keyword.backend, "reason": keyword.reason}


def _embedding_to_wire(embedding: EmbeddingEngine) -> dict[str, Any]:
    return {
        "source": embedding.source,
        "model": embedding.model or None,
        "dimensions": embedding.dimension,
        "available": embedding.is_available,
        "reason": embedding.reason,
        "trouble": embedding.trouble or None,
        "fallback": embedding.fallback or None,
        "cacheStats": {
            "hits": embedding.cache_hits,
            "misses": embedding.cache_misses,
            "size": embedding.cache_entries,
        },
    }


def _vectors_to_wire(status: EngineStatus) -> dict[str, Any]:
    vectors, active = status.vectors, answering(status)
    return {
        "backend": vectors.store,
        "available": vectors.is_available,
        "rowCount": 0 if active is None else active.held,
        "needsReindex": pending(status),
        "reason": vectors.reason,
        "spaces": [space_to_wire(progress) for progress in vectors.spaces],
    }


def _rerank_to_wire(rerank: RerankEngine) -> dict[str, Any]:
    return {
        "enabled": bool(rerank.source),
        "provider": rerank.source or None,
        "available": rerank.is_available,
        "trouble": rerank.trouble or None,
    }


# ── for people ──


def engine_rows(status: EngineStatus) -> list[tuple[str, str, str]]:
    """The same as rows: what, its name, and what there is to say about it."""
    keyword, embedding, vectors = status.keyword, status.embedding, status.vectors
    rows = [("keyword", keyword.backend, "works" if keyword.is_available else f"off: {keyword.reason}")]
    rows += _embedding_rows(embedding)
    if vectors.store == NONE:
        rows.append(("vectors", NONE, f"off: {vectors.reason.removeprefix(VECTORS_OFF)}"))
    else:
        said = "works" if vectors.is_available else f"does not work: {vectors.reason}"
        rows.append(("vectors", vectors.store, said))
    rows += [("space", progress.space.identity.model, space_text(progress)) for progress in vectors.spaces]
    rerank = status.rerank
    states = {True: "works", False: f"fails: {rerank.trouble}", None: "not used yet"}
    rows.append(("rerank", rerank.source or NONE, states[rerank.is_available] if rerank.source else "off"))
    return rows


def _embedding_rows(embedding: EmbeddingEngine) -> list[tuple[str, str, str]]:
    if embedding.source == NONE:
        return [("embedding", NONE, f"off: {embedding.reason.removeprefix(VECTORS_OFF)}")]
    states = {True: "works", False: f"fails: {embedding.trouble}", None: "not used yet; --probe asks it for a vector"}
    rows = [
        ("embedding", embedding.source, states[embedding.is_available]),
        ("embedding chosen", embedding.source, embedding.reason),
    ]
    if embedding.model:
        rows.append(("embedding model", embedding.model, f"{embedding.dimension} dimensions"))
    if embedding.fallback:
        rows.append(("embedding fallback", embedding.fallback, "answers with vectors of its own while the first fails"))
    cached = f"{embedding.cache_hits} hits, {embedding.cache_misses} misses, {embedding.cache_entries} entries"
    return [*rows, ("embedding cache", embedding.source, cached)]


def space_text(progress: Progress) -> str:
    """How far a space is, and what it is for."""
    space = progress.space
    parts: list[str] = [] if space.quantisation == "none" else [space.quantisation]
    parts.append(f"{progress.held} of {progress.total} memories")
    if progress.leased:
        parts.append(f"{progress.leased} with another process")
    if progress.waiting:
        parts.append(f"{progress.waiting} waiting")
    if progress.failing:
        parts.append(f"{progress.failing} failing: {progress.reason}")
    if (rest := progress.total - progress.held - progress.waiting - progress.failing) > 0:
        parts.append(f"{rest} with nothing in them to index")
    parts.append("complete" if space.complete else "not complete yet")
    parts.append("answers" if space.active else "does not answer")
    return ", ".join(parts)


# ── what the numbers mean ──


def answering(status: EngineStatus) -> Progress | None:
    """The space that answers questions; None before there is one."""
    return next((progress for progress in status.vectors.spaces if progress.space.active), None)


def wanted(status: EngineStatus) -> Progress | None:
    """The space of the configured source: the last of its model. While nobody knows the model, the one that answers."""
    of_model = [one for one in status.vectors.spaces if one.space.identity.model == status.embedding.model]
    if of_model or status.embedding.model:
        return of_model[-1] if of_model else None
    return answering(status)


def pending(status: EngineStatus) -> int:
    """How many memories have no vector of the configured source yet."""
    progress = wanted(status)
    return 0 if progress is None else progress.waiting + progress.failing
