"""Capability lexical: keyword candidates with the numbers that ranking needs."""

from __future__ import annotations

import pytest

from memspine.conformance.backend.tools import add, pages
from memspine.conformance.clauses import clause
from memspine.conformance.lexical.indexed import opening_of
from memspine.conformance.lexical.tools import FILTERS, QUESTIONS, SCOPES, ask, fill, in_order, rounded
from memspine.conformance.reference.keywords import terms_of
from memspine.conformance.samples import ALICE, ALL, at
from memspine.conformance.subject import Opening, Place
from memspine.contracts import MemoryBackend
from memspine.model import KeywordStatistics, MemoryChanges, NewMemory, Scope
from memspine.ranking import length_code
from memspine.text import query_terms


@pytest.fixture
def store(place: Place) -> Opening:
    """What keeps the keyword index, as a backend."""
    return opening_of(place)


@clause("MB-120", "VS-120")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("name", FILTERS)
async def test_every_memory_with_a_term_is_found(store: MemoryBackend, scope: Scope, name: str) -> None:
    """All of scope and filter that hold a term, with exact frequencies, and their number."""
    await fill(store)
    memories = await pages(store, scope, filter=FILTERS[name], now=at(100))
    for question in QUESTIONS:
        terms = query_terms(question).terms
        found = await ask(store, *terms, scope=scope, filter=FILTERS[name])
        expected = {}
        for memory in memories:
            counts = terms_of(memory)
            if any(counts[term] for term in terms):
                frequencies = tuple(counts[term] for term in terms)
                length = length_code(counts.total())
                expected[memory.owner, memory.id] = (memory.session, memory.created_at, frequencies, length)
        assert {
            (match.owner, match.id): (match.session, match.created_at, match.frequencies, length_code(match.length))
            for match in found.matches
        } == expected
        assert (found.matched, len(found.matches)) == (len(expected), len(expected))
        assert (await ask(store, *terms, scope=scope, filter=FILTERS[name], limit=2)).matched == len(expected)


@clause("MB-120", "VS-120")
async def test_no_terms_find_nothing(store: MemoryBackend) -> None:
    """A question without terms, or with one that nothing holds, matches nothing."""
    await fill(store)
    assert (await ask(store)).matches == ()
    found = await ask(store, "zebra")
    assert (found.matches, found.matched, found.statistics.document_frequencies) == ((), 0, (0,))


@clause("MB-121", "VS-121")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("name", FILTERS)
async def test_statistics_are_the_owners(store: MemoryBackend, scope: Scope, name: str) -> None:
    """Documents, lengths and frequencies of the live memories of the scope's owners, whatever filter and session."""
    await fill(store)
    whole = Scope.of_owner(scope.owner) if scope.kind == "session" else scope
    counts = [terms_of(memory) for memory in await pages(store, whole, now=at(100))]
    lengths = [count.total() for count in counts]
    for question in QUESTIONS:
        terms = query_terms(question).terms
        statistics = (await ask(store, *terms, scope=scope, filter=FILTERS[name], limit=1)).statistics
        assert statistics.documents == len(counts)
        assert statistics.total_length in (sum(lengths), sum(map(rounded, lengths)))
        assert statistics.document_frequencies == tuple(sum(term in count for count in counts) for term in terms)


@clause("MB-122", "VS-122")
@pytest.mark.parametrize("scope", SCOPES[:3], ids=str)
async def test_the_best_come_first(store: MemoryBackend, scope: Scope) -> None:
    """The matches are the best by the kernel's score, in that order, at most `limit`."""
    await fill(store)
    for question in QUESTIONS:
        terms = query_terms(question).terms
        found = await ask(store, *terms, scope=scope)
        best = in_order(found.matches, found.statistics)
        for limit in (0, 1, 2, 3, 5, 8, 1000):
            few = await ask(store, *terms, scope=scope, limit=limit)
            assert [match.id for match in few.matches] == best[:limit]


@clause("MB-122", "VS-122")
async def test_ties_are_broken_by_id(store: MemoryBackend) -> None:
    """Of equal memories the first by id are kept, whatever the order of writing."""
    for id in ("m", "z", "a", "q", "b"):
        await add(store, id, "walnut tree")
    found = await ask(store, "walnut", limit=3)
    assert [match.id for match in found.matches] == ["a", "b", "m"]
    assert found.matched == 5


@clause("MB-123", "VS-123")
async def test_what_is_gone_is_gone_at_once(store: MemoryBackend) -> None:
    """After a replacement, an update, a delete and an expiry neither matches nor statistics know the old words."""
    await add(store, "replaced", "walnut old", key="k")
    await add(store, "updated", "walnut old")
    await add(store, "deleted", "walnut old")
    await add(store, "many", "walnut old", session="s")
    await add(store, "expired", "walnut old", expires_at=at(50))
    await add(store, "stays", "walnut")
    await store.create(NewMemory(content="hazel", key="k"), scope=ALICE, id="x", now=at(1))
    await store.update("updated", MemoryChanges(content="hazel new"), scope=ALICE, now=at(1))
    await store.delete("deleted", scope=ALICE, now=at(1))
    await store.delete_many(ALL, scope=Scope.of_session("alice", "s"), now=at(1), dry_run=False)
    live = await store.get_many(["replaced", "updated", "stays"], scope=ALICE, now=at(100))
    lengths = [terms_of(memory).total() for memory in live.values()]
    for _ in range(2):
        found = await ask(store, "walnut", "old", "hazel")
        assert {match.id: match.frequencies for match in found.matches} == {
            "replaced": (0, 0, 1),
            "updated": (0, 0, 1),
            "stays": (1, 0, 0),
        }
        assert found.statistics == KeywordStatistics(
            documents=3, total_length=sum(lengths), document_frequencies=(1, 0, 2)
        )
        await store.expire(scope=ALICE, now=at(60), limit=9)


@clause("MB-123", "VS-123")
async def test_key_and_speaker_are_indexed_anew(store: MemoryBackend) -> None:
    """An update of key or speaker alone changes what is found."""
    await add(store, "a", "hazel", key="walnut", metadata={"speaker": "Almond"})
    await store.update("a", MemoryChanges(key="ladder"), scope=ALICE, now=at(1))
    await store.update("a", MemoryChanges(metadata={"speaker": "Garden"}), scope=ALICE, now=at(2))
    found = await ask(store, "walnut", "almond", "ladder", "garden", "hazel")
    (match,) = found.matches
    assert match.frequencies == (0, 0, 1, 1, 1)
    assert found.statistics.document_frequencies == (0, 0, 1, 1, 1)
