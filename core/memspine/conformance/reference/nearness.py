"""What of the reference vector store a question is about, and how near its vectors are: each of them is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from memspine.contracts import TermRecord, VectorHit, VectorMatches, VectorRecord, Vectors
from memspine.model import MemoryFilter, MemoryRef, Scope

Record = VectorRecord | TermRecord
"""What a space holds of a memory."""


def is_visible(record: Record, scope: Scope, now: datetime) -> bool:
    """Whether scope and expiry let it through."""
    return (
        (scope.owners is None or record.owner in scope.owners)
        and scope.session in (None, record.session)
        and not is_expired(record, now)
    )


def is_expired(record: Record, now: datetime) -> bool:
    """Whether it counts as absent."""
    return record.expires_at is not None and record.expires_at <= now


def fits(record: Record, filter: MemoryFilter) -> bool:
    """Whether the fields of the filter that an index knows let it through."""
    return (
        (not filter.types or record.type in filter.types)
        and (filter.created_from is None or filter.created_from <= record.created_at)
        and (filter.created_before is None or record.created_at < filter.created_before)
    )


def numbers_of(vector: bytes) -> Sequence[float]:
    """A vector as numbers."""
    return Vectors(len(vector) // 4, vector).row(0)


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """How near two vectors are."""
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    return product / math.sqrt(math.fsum(a * a for a in left) * math.fsum(b * b for b in right))


def best_chunk(chunks: Iterable[VectorRecord], question: Sequence[float]) -> VectorHit:
    """A memory by the nearest of its chunks, the first of them where several are as near."""
    scored = [(cosine(question, numbers_of(chunk.vector)), -chunk.chunk, chunk) for chunk in chunks]
    score, _, best = max(scored, key=lambda triple: triple[:2])
    return VectorHit(
        id=best.id,
        owner=best.owner,
        chunk=best.chunk,
        revision=best.revision,
        score=score,
    )


def matches_of(fitting: Iterable[VectorHit], *, limit: int, also: Iterable[VectorHit]) -> VectorMatches:
    """The best of those that fit, and the rest of those that were asked for."""
    ranked = sorted(fitting, key=lambda hit: (-hit.score, hit.id))
    hits = tuple(ranked[:limit])
    shown = {MemoryRef(hit.owner, hit.id) for hit in hits}
    return VectorMatches(
        hits=hits,
        others=tuple(hit for hit in also if MemoryRef(hit.owner, hit.id) not in shown),
        compared=len(ranked),
    )
