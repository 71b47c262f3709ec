"""Memories as JSON: the names that the REST API, the command line and exports use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memspine import times
from memspine.errors import InvalidMemoryError
from memspine.model import Memory, MemoryType, Revision, Tombstone
from memspine.results import Hit, LegTrace, Resolution, SearchResult, Trace


def memory_to_wire(memory: Memory) -> dict[str, Any]:
    """All fields of a memory under their wire names, times as canonical text."""
    return {
        "id": memory.id,
        "apiKeyId": memory.owner,
        "sessionId": memory.session,
        "type": memory.type.value,
        "key": memory.key,
        "content": memory.content,
        "metadata": dict(memory.metadata),
        "createdAt": times.to_text(memory.created_at),
        "updatedAt": times.to_text(memory.updated_at),
        "expiresAt": _optional(memory.expires_at),
        "revision": memory.revision,
        "contentHash": memory.content_hash,
        "accessCount": memory.access_count,
        "lastAccessedAt": _optional(memory.last_accessed_at),
    }


def memory_from_wire(data: Mapping[str, Any]) -> Memory:
    """The memory that `memory_to_wire` gave. Raises InvalidMemoryError for missing or mistyped fields, and when a
    `contentHash` is there that does not fit."""
    memory = Memory(
        id=_field(data, "id", str),
        owner=_field(data, "apiKeyId", str),
        session=_field(data, "sessionId", str, default=""),
        type=_type(data),
        key=_field(data, "key", str, default=""),
        content=_field(data, "content", str),
        metadata=_field(data, "metadata", dict, default={}),
        created_at=_time(data, "createdAt"),
        updated_at=_time(data, "updatedAt"),
        expires_at=_time(data, "expiresAt") if data.get("expiresAt") is not None else None,
        revision=_count(data, "revision", least=1, default=1),
        access_count=_count(data, "accessCount", least=0, default=0),
        last_accessed_at=_time(data, "lastAccessedAt") if data.get("lastAccessedAt") is not None else None,
    )
    stated = data.get("contentHash")
    if stated is not None and stated != memory.content_hash:
        raise InvalidMemoryError("contentHash", stated, f"{memory.content_hash}, the hash of what the line holds")
    return memory


def tombstone_to_wire(tombstone: Tombstone) -> dict[str, Any]:
    """What stays of a deleted memory."""
    return {
        "id": tombstone.id,
        "apiKeyId": tombstone.owner,
        "revision": tombstone.revision,
        "deletedAt": times.to_text(tombstone.deleted_at),
    }


def revision_to_wire(revision: Revision) -> dict[str, Any]:
    """One state of a memory, with the time it was replaced (null for the current one)."""
    return {
        "memory": memory_to_wire(revision.memory),
        "replacedAt": _optional(revision.replaced_at),
        "deleted": revision.deleted,
    }


def hit_to_wire(hit: Hit) -> dict[str, Any]:
    """A recalled memory: its fields, and how it was found."""
    return {
        **memory_to_wire(hit.memory),
        "score": hit.score,
        "rank": hit.rank,
        "tokens": hit.tokens,
        "legs": [{"leg": leg.leg, "rank": leg.rank, "score": leg.score} for leg in hit.legs],
        "matched": list(hit.matched),
    }


def trace_to_wire(trace: Trace) -> dict[str, Any]:
    """How an answer came about."""
    return {
        "strategy": trace.strategy,
        "scope": trace.scope,
        "backend": trace.backend,
        "degraded": list(trace.degraded),
        "legs": [_leg_to_wire(leg) for leg in trace.legs],
        "fusedBy": trace.fused_by,
        "terms": list(trace.terms),
        "cuts": [{"id": cut.id, "reason": cut.reason, "detail": cut.detail} for cut in trace.cuts],
        "cutCounts": dict(trace.cut_counts),
        "tokens": trace.tokens,
        "maxTokens": trace.max_tokens,
        "milliseconds": round(trace.milliseconds, 3),
        "resolution": None if trace.resolution is None else resolution_to_wire(trace.resolution),
    }


def resolution_to_wire(resolution: Resolution) -> dict[str, Any]:
    """What answered a question, by name; null for what was not there."""
    return {
        "embeddingSource": resolution.embedding_source or None,
        "embeddingModel": resolution.embedding_model or None,
        "vectorStore": resolution.vector_store or None,
        "strategyUsed": resolution.strategy_used,
        "rerankApplied": resolution.rerank_applied,
        "fallbackReason": resolution.fallback_reason or None,
    }


def result_to_wire(result: SearchResult) -> dict[str, Any]:
    """A search's answer."""
    return {"results": [hit_to_wire(hit) for hit in result.hits], "trace": trace_to_wire(result.trace)}


def preview_to_wire(result: SearchResult) -> dict[str, Any]:
    """What a question would recall, at what cost, and what answered it."""
    trace = result.trace
    return {
        "memories": [_previewed_to_wire(hit) for hit in result.hits],
        "resolution": None if trace.resolution is None else resolution_to_wire(trace.resolution),
        "totalTokensUsed": trace.tokens,
        "budgetMaxTokens": trace.max_tokens,
    }


def _previewed_to_wire(hit: Hit) -> dict[str, Any]:
    memory = hit.memory
    return {
        "id": memory.id,
        "type": memory.type.value,
        "key": memory.key,
        "content": memory.content,
        "score": hit.score,
        "tokens": hit.tokens,
        "tier": hit.tier or None,
        "vecScore": hit.leg_score("vector"),
        "ftsScore": hit.leg_score("keyword"),
    }


def _leg_to_wire(leg: LegTrace) -> dict[str, Any]:
    return {
        "leg": leg.leg,
        "status": leg.status,
        "detail": leg.detail,
        "matched": leg.matched,
        "candidates": leg.candidates,
        "milliseconds": round(leg.milliseconds, 3),
    }


def _optional(value: datetime | None) -> str | None:
    return None if value is None else times.to_text(value)


_MISSING = object()


def _field(data: Mapping[str, Any], name: str, type_: type[Any], *, default: object = _MISSING) -> Any:
    value = data.get(name, default)
    if value is _MISSING:
        raise InvalidMemoryError(name, None, f"{type_.__name__}, which is missing")
    if not isinstance(value, type_):
        raise InvalidMemoryError(name, value, type_.__name__)
    return value


def _count(data: Mapping[str, Any], name: str, *, least: int, default: int) -> int:
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidMemoryError(name, value, f"a whole number from {least}")
    return value


def _type(data: Mapping[str, Any]) -> MemoryType:
    value = data.get("type", MemoryType.FACTUAL.value)
    if value not in tuple(MemoryType):
        raise InvalidMemoryError("type", value, f"one of {', '.join(MemoryType)}")
    return MemoryType(value)


def _time(data: Mapping[str, Any], name: str) -> datetime:
    return times.from_text(_field(data, name, str), field=name)
