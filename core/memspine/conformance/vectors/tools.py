"""What the tests of vector stores are written with."""

from __future__ import annotations

import math
import random
from typing import Any, Final

from memspine.conformance.reference.embeddings import packed
from memspine.conformance.samples import ALICE, ALL, at
from memspine.contracts import EmbeddingIdentity, Space, VectorHit, VectorRecord, VectorStore
from memspine.model import MemoryFilter, Scope

DIMENSION: Final = 8
IDENTITY: Final = EmbeddingIdentity(plugin="kit", model="drawn", revision="1", dimension=DIMENSION)


def unit(*numbers: float) -> bytes:
    """A vector of norm 1 with these first numbers."""
    norm = math.sqrt(math.fsum(number * number for number in numbers))
    return packed([number / norm for number in numbers] + [0.0] * (DIMENSION - len(numbers)))


def near(degrees: float) -> bytes:
    """A vector at this angle from `unit(1)`."""
    return unit(math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))


def drawn(seed: int) -> bytes:
    """A vector in any direction, the same for the same seed."""
    numbers = random.Random(seed)  # noqa: S311 - no secret
    return unit(*(numbers.gauss(0, 1) for _ in range(DIMENSION)))


def record(id: str, vector: bytes = unit(1), *, owner: str = "alice", **fields: Any) -> VectorRecord:
    """One chunk of a memory."""
    values: dict[str, Any] = {
        "chunk": 0,
        "revision": 1,
        "session": "",
        "type": "factual",
        "created_at": at(0),
        "expires_at": None,
    }
    return VectorRecord(id=id, owner=owner, vector=vector, **values | fields)


def space(id: str = "space", **fields: Any) -> Space:
    """A space."""
    return Space(id=id, **{"identity": IDENTITY} | fields)


async def filled(store: VectorStore, *records: VectorRecord, id: str = "space") -> VectorStore:
    """The store with a space that holds these records."""
    await store.open_space(space(id))
    await store.upsert(id, records=records)
    return store


async def find(
    store: VectorStore,
    vector: bytes | None = None,
    *,
    scope: Scope = ALICE,
    filter: MemoryFilter = ALL,
    seconds: float = 100,
    limit: int = 100,
    id: str = "space",
) -> tuple[VectorHit, ...]:
    """Search, and check what holds for every answer."""
    hits = await store.search(id, vector=vector or unit(1), scope=scope, filter=filter, now=at(seconds), limit=limit)
    assert len(hits) <= limit
    assert len({(hit.owner, hit.id) for hit in hits}) == len(hits)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    return hits


async def found(store: VectorStore, vector: bytes | None = None, **options: Any) -> list[str]:
    """The ids of what a search finds."""
    return [hit.id for hit in await find(store, vector, **options)]
