"""search: what every store can answer, and no text that it reads as syntax."""

from __future__ import annotations

import pytest

from memspine.conformance.backend.tools import add
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, PROBES, at
from memspine.contracts import Capability, MemoryBackend
from memspine.model import KeywordQuery, MemoryFilter, MemoryType, Scope, ScoredMemory, SearchQuery
from memspine.text import query_terms


async def ask(
    store: MemoryBackend, text: str, *, limit: int = 10, scope: Scope = ALICE, filter: MemoryFilter = ALL
) -> tuple[ScoredMemory, ...]:
    """Search, and check what holds for every answer."""
    found = await store.search(SearchQuery(text=text, limit=limit, filter=filter), scope=scope, now=at(100))
    assert len(found) <= limit
    order = [(-hit.score, hit.memory.id) for hit in found]
    assert order == sorted(order)
    places = [(hit.memory.owner, hit.memory.id) for hit in found]
    assert len(set(places)) == len(places)
    return found


@clause("MB-50")
async def test_answers_are_few_falling_and_distinct(store: MemoryBackend) -> None:
    """At most `limit` memories of scope and filter, scores falling, ties by id, none twice."""
    for number in (3, 1, 2, 0):
        await add(store, f"same{number}", "walnut tree in the garden")
    await add(store, "much", "walnut walnut walnut")
    await add(store, "long", "a walnut among " + " ".join(f"word{n}" for n in range(200)))
    await add(store, "typed", "walnut", type=MemoryType.EPISODIC, session="s")
    await add(store, "expired", "walnut", expires_at=at(50))
    await add(store, "foreign", "walnut", scope=Scope.of_owner("bob"))
    everything = [hit.memory.id for hit in await ask(store, "walnut")]
    assert sorted(everything) == ["long", "much", "same0", "same1", "same2", "same3", "typed"]
    for limit in (0, 1, 2, 3, 7):
        assert [hit.memory.id for hit in await ask(store, "walnut", limit=limit)] == everything[:limit]
    episodic = MemoryFilter(types=(MemoryType.EPISODIC,))
    assert [hit.memory.id for hit in await ask(store, "walnut", filter=episodic)] == ["typed"]
    session = Scope.of_session("alice", "s")
    assert [hit.memory.id for hit in await ask(store, "walnut", scope=session)] == ["typed"]


@clause("MB-50")
async def test_ties_are_broken_by_id(store: MemoryBackend) -> None:
    """Equal memories come in the order of their ids, whatever the order of writing, and the limit cuts the last."""
    for id in ("m", "z", "a", "q", "b"):
        await add(store, id, "walnut")
    assert [hit.memory.id for hit in await ask(store, "walnut", limit=3)] == ["a", "b", "m"]


WORDS = {
    "plain": ("She planted a walnut last spring.", "walnut"),
    "stemmed": ("I was running to the station.", "run"),
    "accent": ("We met at the café.", "cafe"),
    "identifier": ("The C++ build is broken.", "C++"),
    "address": ("Write to user@example.com instead.", "user@example.com"),
    "Chinese": ("我昨天去了東京", "東京"),
    "one character": ("我昨天去了東京", "京"),
    "Cyrillic": ("Мы посадили орех", "орех"),
    "numbers": ("Flight LH1234 at 10:45", "LH1234"),
}


@clause("MB-51")
@pytest.mark.parametrize("name", WORDS)
async def test_the_only_word_of_a_question_is_found(store: MemoryBackend, name: str) -> None:
    """The memory that holds it is found, and none that has nothing in common stands before it."""
    content, question = WORDS[name]
    for number in range(20):
        await add(store, f"other{number}", f"Unrelated remark number {number} about weather and trains")
    await add(store, "wanted", content)
    found = await ask(store, question)
    assert found
    assert found[0].memory.id == "wanted"


@clause("MB-52")
@pytest.mark.parametrize("text", PROBES, ids=range(len(PROBES)))
async def test_no_text_is_syntax(store: MemoryBackend, text: str) -> None:
    """Any question gets an answer, also as index terms and as a filter."""
    await add(store, "a", "secret: multi-agent C++ don't 50% NEAR the end")
    await add(store, "b", text or "empty")
    await ask(store, text)
    await ask(store, "secret", filter=MemoryFilter(text=text, key=text, category=text))
    if Capability.LEXICAL in store.capabilities:
        for terms in (query_terms(text).terms, (text,)):
            await store.lexical(KeywordQuery(terms), scope=ALICE, filter=MemoryFilter(), now=at(9), limit=5)


@clause("MB-52")
async def test_wildcards_find_nothing_by_themselves(store: MemoryBackend) -> None:
    """A question of wildcards alone does not give everything away."""
    await add(store, "a", "walnut")
    for text in ("*", "%", "_", '"', "wal*", "wal%"):
        assert await ask(store, text) == (), text
