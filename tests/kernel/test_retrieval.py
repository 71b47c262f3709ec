"""Recall: what is returned, what is cut, and that the trace tells both."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from memspine.model import NewMemory, Scope
from memspine.retrieval import NO_VECTORS, RecallRequest, Retrieval
from memspine.text import estimate_tokens

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ME = Scope.of_owner("me")


async def filled(stores, texts, *, at=NOW, without=()):
    chain = stores("store", without=without)
    for number, text in enumerate(texts):
        when = at + timedelta(minutes=number)
        await chain["store"].create(NewMemory(content=text), scope=ME, id=f"m{number:04}", now=when)
    return chain


def recall(chain, text, **options):
    request = RecallRequest(text=text, scope=ME, now=NOW + timedelta(days=1), **options)
    return Retrieval(chain.chain, count_tokens=estimate_tokens).recall(request)


def contents(result):
    return [hit.memory.content for hit in result.hits]


def test_keyword_leg_answers_and_says_that_vectors_are_off(stores):
    """A hybrid question is answered by keywords, with the matched words, and the missing vector leg is named."""

    async def run():
        chain = await filled(stores, ["the dog eats kibble", "a cat sleeps", "the dogs bark at the cat"])
        result = await recall(chain, "What do dogs eat?")
        assert contents(result)[0] == "the dog eats kibble"
        assert result.hits[0].matched == ("dogs", "eat")
        assert [leg.status for leg in result.trace.legs] == ["ran", "off"]
        assert result.trace.degraded == (NO_VECTORS,)
        assert result.trace.legs[0].matched == 2

    asyncio.run(run())


def test_exact_without_a_question_is_newest_first(stores):
    """Strategy exact with an empty question lists the newest memories, and misses nothing by design."""

    async def run():
        chain = await filled(stores, ["one", "two", "three"])
        result = await recall(chain, "", strategy="exact", limit=2)
        assert contents(result) == ["three", "two"]
        assert result.trace.degraded == ()

    asyncio.run(run())


def test_exact_with_a_question_filters_by_keyword_and_keeps_the_order_of_time(stores):
    """Strategy exact with a question gives the memories that hold a word of it, newest first, whatever their score."""

    async def run():
        chain = await filled(stores, ["dog dog dog", "cat", "a dog among many other words here"])
        result = await recall(chain, "dog", strategy="exact")
        assert contents(result) == ["a dog among many other words here", "dog dog dog"]

    asyncio.run(run())


def test_a_question_without_words_finds_nothing_and_says_so(stores):
    """Punctuation alone is no error: the answer is empty and the trace says why."""

    async def run():
        chain = await filled(stores, ["text"])
        result = await recall(chain, "?! ... \"'()")
        assert result.hits == ()
        assert "no word" in result.trace.legs[0].detail

    asyncio.run(run())


def test_a_store_without_keyword_index_is_used_and_marked(stores):
    """Without the capability lexical the store's own search answers, marked as unranked by us."""

    async def run():
        chain = await filled(stores, ["the dog eats kibble"], without=("store",))
        result = await recall(chain, "dog")
        assert contents(result) == ["the dog eats kibble"]
        assert "unranked" in result.trace.legs[0].detail

    asyncio.run(run())


def test_retention_hides_and_the_answer_grows_to_its_limit(stores):
    """Memories beyond the retention are cut and counted, and candidates are taken from further down instead."""

    async def run():
        chain = stores("store")
        old, new = NOW - timedelta(days=400), NOW
        for number in range(300):
            when = old if number < 280 else new
            memory = NewMemory(content="dog " + "filler " * (number // 10))
            await chain["store"].create(memory, scope=ME, id=f"m{number:04}", now=when)
        result = await recall(chain, "dog", limit=10, retention_days=30)
        assert len(result.hits) == 10
        assert all(hit.memory.updated_at == new for hit in result.hits)
        assert result.trace.cut_counts["retention"] == 280
        assert len(result.trace.cuts) == 50

    asyncio.run(run())


def test_retention_counts_from_the_last_recall(stores):
    """An old memory that was recalled lately is not hidden."""

    async def run():
        chain = await filled(stores, ["dog"], at=NOW - timedelta(days=400))
        await chain["store"].record_access({"m0000": 1}, scope=ME, now=NOW)
        assert len((await recall(chain, "dog", retention_days=30)).hits) == 1

    asyncio.run(run())


def test_floor_cuts_weak_answers(stores):
    """A keyword score under the floor is no answer, and nothing relevant is a valid result."""

    async def run():
        chain = await filled(stores, ["dog " * 3, "a dog once, in a long text about something else entirely " * 5])
        both = await recall(chain, "dog eats kibble")
        result = await recall(chain, "dog eats kibble", keyword_floor=both.hits[0].leg_score("keyword"))
        assert len(result.hits) == 1
        assert result.trace.cut_counts == {"floor": 1}

    asyncio.run(run())


@given(
    lengths=st.lists(st.integers(1, 400), min_size=1, max_size=12),
    budget=st.integers(0, 300),
)
def test_the_budget_is_never_exceeded_and_smaller_ones_are_tried(lengths, budget):
    """The tokens of an answer never exceed the budget, 0 gives nothing, and whatever was left out did not fit."""
    from memspine.model import Memory
    from memspine.retrieval.picking import Candidate, pick

    candidates = tuple(
        Candidate(
            memory=Memory(id=f"m{n}", owner="me", content="x" * length, created_at=NOW, updated_at=NOW), score=1.0
        )
        for n, length in enumerate(lengths)
    )
    request = RecallRequest(text="x", scope=ME, now=NOW, limit=100, max_tokens=budget)
    picked = pick(candidates, request, count_tokens=estimate_tokens)
    spent = sum(hit.tokens for hit in picked.hits)
    assert spent <= budget
    assert len(picked.hits) + len(picked.cuts) == len(lengths)
    left = budget
    kept = {hit.memory.id for hit in picked.hits}
    for candidate in candidates:
        tokens = estimate_tokens(candidate.memory.content)
        if candidate.memory.id in kept:
            left -= tokens
        else:
            assert tokens > left


def test_a_limit_of_zero_gives_nothing(stores):
    """Limit 0 is a valid question with an empty answer."""

    async def run():
        chain = await filled(stores, ["dog"])
        assert (await recall(chain, "dog", limit=0)).hits == ()

    asyncio.run(run())


def test_the_answer_of_a_fallback_is_degraded(stores):
    """A search that a fallback answers says which store failed and why."""

    async def run():
        chain = stores("first", "second")
        await chain["second"].create(NewMemory(content="dog"), scope=ME, id="a", now=NOW)
        chain.down("first")
        result = await recall(chain, "dog")
        assert result.trace.backend == "second"
        assert "connection refused" in result.trace.degraded[0]
        assert contents(result) == ["dog"]

    asyncio.run(run())


def test_exact_stays_newest_first_beyond_what_is_ranked_at_once(stores, monkeypatch):
    """When more memories match than can be put in order at once, the answer is degraded and says so."""
    monkeypatch.setattr("memspine.retrieval.legs.LIMIT_MAX", 5)

    async def run():
        chain = await filled(stores, ["dog"] * 8)
        result = await recall(chain, "dog", strategy="exact", limit=2)
        assert "5 of 8" in result.trace.degraded[0]
        assert result.trace.legs[0].matched == 8

    asyncio.run(run())


def test_what_does_not_fit_takes_no_place(stores):
    """With limit 1 and a best match too large for the budget, the next one that fits is the answer."""

    async def run():
        chain = await filled(stores, ["dog " * 500, "a dog"])
        result = await recall(chain, "dog", limit=1, max_tokens=20)
        assert contents(result) == ["a dog"]
        assert result.trace.cut_counts == {"budget": 1}

    asyncio.run(run())


def test_two_owners_may_share_an_id(stores):
    """In a shared scope a match of `global` is found though the caller has another memory with the same id."""

    async def run():
        chain = stores("store")
        for owner, text in (("me", "a cat"), ("global", "a dog")):
            await chain["store"].create(NewMemory(content=text), scope=Scope.of_owner(owner), id="same", now=NOW)
        request = RecallRequest(text="dog", scope=Scope.shared("me"), now=NOW)
        result = await Retrieval(chain.chain, count_tokens=estimate_tokens).recall(request)
        assert contents(result) == ["a dog"]

    asyncio.run(run())


def test_a_question_that_is_cut_off_says_so(stores):
    """Of a very long question only so many words are looked for, and the trace tells."""

    async def run():
        chain = await filled(stores, ["dog"])
        result = await recall(chain, "dog " + " ".join(f"w{n}" for n in range(100)))
        assert "first 64 words" in result.trace.legs[0].detail

    asyncio.run(run())
