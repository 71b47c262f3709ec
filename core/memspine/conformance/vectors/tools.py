"""What the tests of vector stores are written with."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import attrs

from memspine.conformance.reference.embeddings import packed
from memspine.conformance.reference.nearness import numbers_of
from memspine.conformance.samples import ALICE, ALL, at
from memspine.contracts import (
    EmbeddingIdentity,
    Quantisation,
    Space,
    VectorHit,
    VectorMatches,
    VectorRecord,
    VectorStore,
)
from memspine.model import MemoryFilter, MemoryRef, Scope

DIMENSION: Final = 8
IDENTITY: Final = EmbeddingIdentity(plugin="kit", model="drawn", revision="1", dimension=DIMENSION, window_tokens=512)
QUANTISATIONS: Final[tuple[Quantisation, ...]] = ("none", "int8", "binary")


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


def mine(*ids: str) -> list[MemoryRef]:
    """Memories of Alice's."""
    return [MemoryRef("alice", id) for id in ids]


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
    values: dict[str, Any] = {"identity": IDENTITY, "used_at": at(0)}
    return Space(id=id, **values | fields)


async def filled(store: VectorStore, *records: VectorRecord, id: str = "space", **fields: Any) -> VectorStore:
    """The store with a space that holds these records."""
    await store.open_space(space(id, **fields))
    await store.upsert(id, records=records)
    return store


async def matches(
    store: VectorStore,
    vector: bytes | None = None,
    *,
    scope: Scope = ALICE,
    filter: MemoryFilter = ALL,
    seconds: float = 100,
    limit: int = 100,
    also: Sequence[MemoryRef] = (),
    id: str = "space",
) -> VectorMatches:
    """Search, and check what holds for every answer."""
    answer = await store.search(
        id, vector=vector or unit(1), scope=scope, filter=filter, now=at(seconds), limit=limit, also=also
    )
    assert len(answer.hits) <= limit
    shown = [(hit.owner, hit.id) for hit in (*answer.hits, *answer.others)]
    assert len(set(shown)) == len(shown)
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    return answer


async def find(store: VectorStore, vector: bytes | None = None, **options: Any) -> tuple[VectorHit, ...]:
    """The best memories of a search."""
    return (await matches(store, vector, **options)).hits


async def found(store: VectorStore, vector: bytes | None = None, **options: Any) -> list[str]:
    """The ids of what a search finds."""
    return [hit.id for hit in await find(store, vector, **options)]


@attrs.frozen
class Claimed:
    """Queued work, easy to read in a report."""

    id: str
    revision: int
    failures: int = 0


async def queue(store: VectorStore, *ids: str, revision: int = 1, position: str = "p", id: str = "space") -> int:
    """Queue memories of Alice's, one call each, so that their order is known."""
    counts = [await store.enqueue(id, revisions={ref: revision}, position=position) for ref in mine(*ids)]
    return sum(counts)


async def claim(
    store: VectorStore,
    holder: str = "one",
    *,
    seconds: float = 0,
    lease: float = 60,
    limit: int = 100,
    id: str = "space",
) -> list[Claimed]:
    """What a holder is given, all of it Alice's."""
    work = await store.claim(id, holder=holder, now=at(seconds), lease_seconds=lease, limit=limit)
    assert len(work) <= limit
    assert {item.ref.owner for item in work} <= {"alice"}
    return [Claimed(item.ref.id, item.revision, item.failures) for item in work]


async def claimed(store: VectorStore, holder: str = "one", **options: Any) -> list[str]:
    """The ids of what a holder is given."""
    return [work.id for work in await claim(store, holder, **options)]


TURNS: Final = (0, 1, 2, 3, 5, 8, 13, 40)
"""After so many turns of the loop the tests cancel what they began."""


async def cancelled(call: Coroutine[Any, Any, object], *, turns: int) -> bool:
    """Begin a call and cancel it after so many turns; returns whether it had been answered."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return not task.cancelled()


async def waiting(store: VectorStore, *, seconds: float = 0, id: str = "space") -> int:
    """How many memories are queued."""
    return (await store.backlog(id, now=at(seconds))).waiting


CLUSTERED: Final = 256
"""The dimension of the vectors that `clusters` draws."""


@attrs.frozen
class Clusters:
    """Vectors as models give them: all in one part of the space, those about one thing close together."""

    vectors: Mapping[str, bytes]
    questions: tuple[bytes, ...]

    @classmethod
    def drawn(cls, *, count: int = 200, topics: int = 12, questions: int = 20, seed: int = 1) -> Clusters:
        """So many vectors, and questions about some of them."""
        numbers = random.Random(seed)  # noqa: S311 - no secret

        def around(centre: Sequence[float], spread: float) -> list[float]:
            return [value + spread * numbers.gauss(0, 1) for value in centre]

        common = around([0.0] * CLUSTERED, 1.0)
        centres = [around(common, 0.8) for _ in range(topics)]
        vectors = {f"v{number:03}": around(centres[number % topics], 0.6) for number in range(count)}
        asked = [around(vector, 0.4) for vector in list(vectors.values())[:questions]]
        return cls({id: _packed(vector) for id, vector in vectors.items()}, tuple(map(_packed, asked)))


def beside(vector: bytes, *, seed: int) -> bytes:
    """A vector that is nearer to this one than any that `Clusters` draws."""
    numbers = random.Random(seed)  # noqa: S311 - no secret
    return _packed([value + 0.01 * numbers.gauss(0, 1) for value in numbers_of(vector)])


def _packed(values: Sequence[float]) -> bytes:
    norm = math.sqrt(math.fsum(value * value for value in values))
    return packed([value / norm for value in values])
