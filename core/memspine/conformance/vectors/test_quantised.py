"""What holds in a space of any quantisation, and how exact each of them has to be."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.reference.nearness import cosine, numbers_of
from memspine.conformance.samples import ALICE, at
from memspine.conformance.vectors.tools import (
    CLUSTERED,
    IDENTITY,
    QUANTISATIONS,
    Clusters,
    beside,
    filled,
    find,
    matches,
    mine,
    near,
    record,
)
from memspine.contracts import Quantisation, VectorStore
from memspine.model import MemoryFilter, MemoryType, Scope

TOLERANCE = 0.02


async def clustered(store: VectorStore, quantisation: Quantisation) -> Clusters:
    """A space of this quantisation that holds clustered vectors of Alice's, and the vectors."""
    clusters = Clusters.drawn()
    records = [record(id, vector) for id, vector in clusters.vectors.items()]
    identity = attrs.evolve(IDENTITY, dimension=CLUSTERED)
    await filled(store, *records, quantisation=quantisation, identity=identity)
    return clusters


def scores_of(clusters: Clusters, question: bytes) -> dict[str, float]:
    """The cosine of every vector with a question."""
    numbers = numbers_of(question)
    return {id: cosine(numbers, numbers_of(vector)) for id, vector in clusters.vectors.items()}


@clause("VS-27")
async def test_bytes_are_nearly_exact(store: VectorStore) -> None:
    """All scores, those of what was asked for too."""
    clusters = await clustered(store, "int8")
    for question in clusters.questions:
        exact = scores_of(clusters, question)
        answer = await matches(store, question, limit=150, also=mine(*exact))
        told = {hit.id: hit.score for hit in (*answer.hits, *answer.others)}
        assert told == {id: pytest.approx(score, abs=TOLERANCE) for id, score in exact.items()}
        assert answer.compared == len(exact)


@clause("VS-28")
async def test_bits_find_nearly_all_of_the_best(store: VectorStore) -> None:
    """Nine of ten of the best, with scores that are as exact as those of bytes."""
    clusters = await clustered(store, "binary")
    kept = 0
    for question in clusters.questions:
        exact = scores_of(clusters, question)
        best = sorted(exact, key=lambda name: (-exact[name], name))[:10]
        answer = await matches(store, question, limit=10, also=mine("v000", "v001", "v111"))
        assert len(answer.hits) == 10
        for hit in (*answer.hits, *answer.others):
            assert hit.score == pytest.approx(exact[hit.id], abs=TOLERANCE)
        assert answer.compared == len(exact)
        kept += len({hit.id for hit in answer.hits}.intersection(best))
    assert kept / (10 * len(clusters.questions)) >= 0.9


@clause("VS-28")
async def test_bits_of_a_long_memory_hide_nothing(store: VectorStore) -> None:
    """A thousand nearer chunks, all of one memory, take one place among the best."""
    clusters = await clustered(store, "binary")
    question = clusters.questions[0]
    chunks = [beside(question, seed=n) for n in range(1000)]
    await store.upsert("space", records=[record("long", vector, chunk=n) for n, vector in enumerate(chunks)])
    exact = scores_of(clusters, question)
    best = sorted(exact, key=lambda name: (-exact[name], name))[:10]
    first, *others = await find(store, question, limit=11)
    numbers = numbers_of(question)
    assert first.id == "long"
    assert first.score == pytest.approx(max(cosine(numbers, numbers_of(chunk)) for chunk in chunks), abs=TOLERANCE)
    assert len(others) == 10
    for hit in others:
        assert hit.score == pytest.approx(exact[hit.id], abs=TOLERANCE)
    assert len({hit.id for hit in others}.intersection(best)) >= 9


FEW = {f"few{n}": 35.0 + 10 * n for n in range(5)}
"""The memories that have to be found, and how far they are: farther than all of the crowd."""

MANY = 300

EPISODIC = MemoryFilter(types=(MemoryType.EPISODIC,))
RECENT = MemoryFilter(created_from=at(50))
CROWDS: dict[str, tuple[dict[str, Any], Scope, MemoryFilter]] = {
    "owner": ({"owner": "bob"}, ALICE, MemoryFilter()),
    "shared scope": ({"owner": "bob"}, Scope.shared("alice"), MemoryFilter()),
    "session": ({"session": "other"}, Scope.of_session("alice", "s"), MemoryFilter()),
    "expiry": ({"expires_at": at(100)}, ALICE, MemoryFilter()),
    "type": ({"type": "semantic"}, ALICE, EPISODIC),
    "creation": ({"created_at": at(49.999)}, ALICE, RECENT),
}


@clause("VS-29")
@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize("name", CROWDS)
async def test_a_crowd_hides_nothing(store: VectorStore, name: str, quantisation: Quantisation) -> None:
    """Five memories behind three hundred nearer ones that do not belong to the answer: all five are found."""
    crowd, scope, filter = CROWDS[name]
    fields: dict[str, Any] = {"session": "s", "type": "episodic", "created_at": at(50)}
    await filled(
        store,
        *(record(f"many{n}", near(n / 30), **{**fields, **crowd}) for n in range(MANY)),
        *(record(id, near(angle), **fields) for id, angle in FEW.items()),
        quantisation=quantisation,
    )
    for limit in (5, 100):
        hits = await find(store, scope=scope, filter=filter, limit=limit)
        assert [hit.id for hit in hits] == [*FEW]
