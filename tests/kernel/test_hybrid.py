"""Both legs and the reranker: what they answer together, and what the answer says when one is missing."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine import times
from memspine.breaker import Breaker
from memspine.chain import Chain, Member
from memspine.contracts import Capability, Vectors
from memspine.engine import embedding_engine, rerank_engine
from memspine.errors import BackendUnavailable, EmbeddingError, RerankError
from memspine.model import MemoryChanges, MemoryFilter, MemoryType, Scope
from memspine.ondemand import OnDemand
from memspine.retrieval import RankingRules, RecallRequest, Reranking, Retrieval
from memspine.text import estimate_tokens

from .sources import Source
from .worlds import Chosens, opener, world

ME = Scope.of_owner("me")


@attrs.define
class Asking:
    """A world, its index, and questions to both."""

    here: object
    index: object
    reranking: object = None

    async def ask(self, text, **options):
        chain = Chain([Member("primary", open=opener(self.here.backend))], deadline_seconds=5)
        request = RecallRequest(text=text, scope=options.pop("scope", ME), now=times.now(), **options)
        retrieval = Retrieval(
            chain, count_tokens=estimate_tokens, index=self.index, reranking=options.get("reranking", self.reranking)
        )
        return await retrieval.recall(request)


async def asking(*texts, source=None, without=(), reranking=None, **options):
    here = world(without=without)
    if without:
        here.store.capabilities = frozenset()  # no keyword index of the vector store's steps in
    await here.add(*texts)
    index = here.index(source or Source(), **options)
    await index.work()
    return Asking(here, index, reranking)


def contents(result):
    return [hit.memory.content for hit in result.hits]


def test_meaning_finds_what_words_do_not():
    """A memory that shares no word with the question is found by its vector, and the hit says so."""

    async def run():
        memory = await asking("aaab", "zzz", "ccc")
        result = await memory.ask("aaa")
        assert contents(result)[0] == "aaab"
        assert result.hits[0].tier == "vector"
        assert result.hits[0].matched == ()
        assert result.trace.degraded == ()
        assert result.trace.resolution.embedding_model == "letters"
        assert [leg.status for leg in result.trace.legs] == ["ran", "ran"]

    asyncio.run(run())


@pytest.mark.parametrize("method", ["scaled", "rrf", "weighted"])
def test_both_legs_count_in_every_fusion(method):
    """A memory that words and meaning find comes before those that only one of them finds, and tells both ranks."""

    async def run():
        memory = await asking("aaa dog", "aaa", "dog", "zzz")
        result = await memory.ask("dog aaa", ranking=RankingRules(method=method))
        assert contents(result)[0] == "aaa dog"
        assert {leg.leg for leg in result.hits[0].legs} == {"keyword", "vector"}
        assert result.hits[0].tier == "hybrid"
        assert result.trace.fused_by == method
        assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)

    asyncio.run(run())


def test_a_slow_source_costs_no_more_than_its_time():
    """A vector that does not come in time leaves an answer by words, and the trace says what was missing."""

    async def run():
        source = Source()
        memory = await asking("dog", source=source)
        source.seconds = 60
        started = time.perf_counter()
        result = await memory.ask("dog", vector_seconds=0.1)
        assert time.perf_counter() - started < 5
        assert contents(result) == ["dog"]
        assert "longer than 0.1 s" in result.trace.degraded[0]
        assert result.trace.legs[1].status == "failed"
        assert result.trace.resolution.strategy_used == "keyword"
        await memory.index.close()

    asyncio.run(run())


def test_a_late_vector_still_counts():
    """A vector that needs longer than the keyword leg waits for it is fused all the same."""

    async def run():
        source = Source()
        memory = await asking("aaab", "dog", source=source)
        source.seconds = 0.15
        result = await memory.ask("aaa dog")
        assert set(contents(result)) == {"dog", "aaab"}
        assert result.trace.degraded == ()
        assert result.trace.fused_by == "scaled"

    asyncio.run(run())


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
def test_a_source_that_is_down_degrades_and_returns(strategy):
    """While the source fails, words answer and the trace names the cause; afterwards the vectors are back."""

    async def run():
        source = Source()
        memory = await asking("dog aa", "zz", source=source)
        source.answer = ConnectionError("refused")
        result = await memory.ask("dog", strategy=strategy)
        assert contents(result)[0] == "dog aa"
        assert "refused" in result.trace.degraded[0]
        source.answer = None
        memory.index.sources.used["1"].breaker.succeed()
        result = await memory.ask("dog", strategy=strategy)
        assert result.trace.degraded == ()
        assert result.trace.resolution.embedding_source == "letters"

    asyncio.run(run())


def test_the_fallback_answers_and_says_so():
    """When the active space's source fails, the complete space of the fallback answers, and the answer is degraded."""

    async def run():
        here, first, second = world(), Source(revision="1"), Source(revision="2")
        await here.add("aaab", "zzz")
        index = here.index(first, second)
        await index.work()
        first.answer = ConnectionError("refused")
        result = await Asking(here, index).ask("aaa")
        assert contents(result)[0] == "aaab"
        assert "refused" in result.trace.degraded[0]
        assert "instead" in result.trace.degraded[0]

    asyncio.run(run())


def test_an_incomplete_space_says_so():
    """While the first space fills, the answer says how much of it is there."""

    async def run():
        here, source = world(), Source()
        await here.add(*(f"a {n}" for n in range(9)))
        index = here.index(source)
        await index.work(seconds=0.0)
        result = await Asking(here, index).ask("a")
        assert any("0 of 9" in reason for reason in result.trace.degraded)
        await index.work()
        assert (await Asking(here, index).ask("a")).trace.degraded == ()

    asyncio.run(run())


def test_other_weights_never_answer_for_these():
    """When the files of a model change under its name, its old vectors are not asked with new ones; words answer until
    the new space is complete."""

    async def run():
        here, source = world(), Source(revision="old")
        await here.add("dog")
        await here.index(source).work()
        source.revision = "new"
        index = here.index(source)
        index.sources.used["old"] = index.sources.used["new"]
        result = await Asking(here, index).ask("dog")
        assert contents(result) == ["dog"]
        assert "others than its vectors were made with" in result.trace.degraded[0]
        await index.work()
        assert (await Asking(here, index).ask("dog")).trace.degraded == ()

    asyncio.run(run())


def test_a_vector_of_an_earlier_text_finds_nothing():
    """A memory that changed since it was embedded is not found by what it said before."""

    async def run():
        memory = await asking("aaab", "ccc")
        await memory.here.backend.update("m00000", MemoryChanges(content="other"), scope=ME, now=times.now())
        result = await memory.ask("aaa")
        assert "other" not in contents(result)
        assert result.trace.cut_counts == {"changed": 1}
        await memory.index.work()
        assert (await memory.ask("aaa")).trace.cut_counts == {}

    asyncio.run(run())


def test_what_was_deleted_since_is_not_returned():
    """A deleted memory whose vector is still there takes no place in the answer."""

    async def run():
        memory = await asking("aaab", "aaac", "zz")
        await memory.here.backend.delete("m00000", scope=ME, now=times.now())
        result = await memory.ask("aaa", limit=2)
        assert contents(result) == ["aaac", "zz"]

    asyncio.run(run())


def test_a_space_that_is_dropped_meanwhile_is_not_missed():
    """A question that read which space answers just before it was dropped asks the one that answers now."""

    async def run():
        here, one, two = world(), Source(revision="1"), Source(revision="2")
        await here.add("aaab")
        await here.index(one).work()
        index = here.index(two, known=[one])
        await index.work()
        spaces = here.store.spaces
        stale = [attrs.evolve(space, active=space.identity.revision == "1") for space in await spaces()]
        answers = [tuple(stale)]

        async def stale_once():
            if answers:
                old = next(space for space in await spaces() if space.identity.revision == "1")
                await here.store.drop_space(old.id)
                return answers.pop()
            return await spaces()

        here.store.spaces = stale_once
        result = await Asking(here, index).ask("aaa")
        assert contents(result) == ["aaab"]
        assert result.trace.degraded == ()

    asyncio.run(run())


def test_the_filter_holds_for_every_leg():
    """Neither vectors nor context bring in what the filter leaves out, whichever of its fields is set."""

    async def run():
        memory = await asking("aaab", "aaac", "aaad")
        await memory.here.backend.update(
            "m00000", MemoryChanges(key="k", metadata={"category": "x"}), scope=ME, now=times.now()
        )
        await memory.here.backend.update("m00001", MemoryChanges(type=MemoryType.SEMANTIC), scope=ME, now=times.now())
        await memory.index.work()
        for filter, expected in (
            (MemoryFilter(key="k"), {"aaab"}),
            (MemoryFilter(category="x"), {"aaab"}),
            (MemoryFilter(text="AAAD"), {"aaad"}),
            (MemoryFilter(types=(MemoryType.SEMANTIC,)), {"aaac"}),
            (MemoryFilter(updated_before=times.now() - timedelta(days=1)), set()),
        ):
            for strategy in ("hybrid", "semantic"):
                result = await memory.ask("aaa", filter=filter, strategy=strategy)
                assert set(contents(result)) == expected

    asyncio.run(run())


def test_floors_are_per_leg():
    """A memory needs one leg that finds it relevant enough."""

    async def run():
        memory = await asking("aaaaaaaab", "dog", "ccc")
        result = await memory.ask("aaaaaa dog", vector_floor=0.95, keyword_floor=0.2)
        assert set(contents(result)) == {"aaaaaaaab", "dog"}
        assert result.trace.cut_counts["floor"] == 1

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "   ", "the of and", "🙂🙂", "a" * 50_000, "dog " * 12_500])
@pytest.mark.parametrize("limit", [0, 1, 10_000])
def test_any_question_is_answered(text, limit):
    """Whatever is asked, and however much of it, is answered without an error."""

    async def run():
        memory = await asking("aaab", "dog", "🙂")
        for strategy in ("hybrid", "semantic", "exact"):
            result = await memory.ask(text, limit=limit, strategy=strategy)
            assert len(result.hits) <= limit

    asyncio.run(run())


def test_a_store_that_only_ranks_is_fused_by_ranks():
    """Without keyword statistics the store's own order and the vectors' are fused by their ranks, and the trace says
    that the scores are not ours."""

    async def run():
        memory = await asking("aaab", "aaa dog", "dog", without=(Capability.LEXICAL,))
        result = await memory.ask("aaa dog")
        assert contents(result)[0] == "aaa dog"
        assert set(contents(result)) == {"aaab", "aaa dog", "dog"}
        assert result.trace.fused_by == "rrf"
        assert "unranked" in result.trace.legs[0].detail

    asyncio.run(run())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(alphabet="abc dg", min_size=1, max_size=12), min_size=1, max_size=12), st.data())
def test_strangers_change_nothing(texts, data):
    """With both legs, the memories of other owners change no hit, no score and no order."""

    async def run():
        question = data.draw(st.text(alphabet="abc dg", min_size=1, max_size=8))
        alone = await asking(*texts)
        before = await alone.ask(question)
        await alone.here.add(*(f"{question} {text}" for text in texts), owner="stranger")
        await alone.index.work()
        after = await alone.ask(question)
        assert [(hit.memory.id, hit.score, hit.legs) for hit in before.hits] == [
            (hit.memory.id, hit.score, hit.legs) for hit in after.hits
        ]

    asyncio.run(run())


class Judge:
    """A reranker that prefers short texts, or does what it is told."""

    name = "judge"

    def __init__(self):
        self.asked = []
        self.answer = None
        self.seconds = 0.0

    async def rerank(self, query, texts):
        self.asked.append(tuple(texts))
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer if self.answer is not None else tuple(-float(len(text)) for text in texts)

    def reranking(self, **options):
        @asynccontextmanager
        async def open():
            yield self

        options = {"candidates": 2, "seconds": 0.1, **options}
        return Reranking(OnDemand(self.name, open=open), breaker=Breaker(), **options)


@pytest.mark.parametrize(
    "answer",
    [
        EmbeddingError("letters", "not that", expected="another", kind="invalid"),
        lambda texts: Vectors(4, b""),
        lambda texts: Vectors(2, b"\0" * 8),
        lambda texts: "no vectors",
    ],
)
def test_a_probe_tells_what_a_source_refuses(answer):
    """A source that does not give a good vector for a plain text does not work, whatever it says of the text."""

    async def run():
        source = Source()
        sources = Chosens(source)
        assert (await embedding_engine(sources, probe=False)).is_available is None
        assert (await embedding_engine(sources, probe=True)).is_available is True
        source.answer = answer
        status = await embedding_engine(sources, probe=True)
        assert status.is_available is False
        assert status.trouble

    asyncio.run(run())


def test_a_probe_asks_the_reranker():
    """Whether a reranker works is known once it was asked, and why it does not."""

    async def run():
        judge = Judge()
        reranking = judge.reranking()
        assert (await rerank_engine(reranking, probe=False)).is_available is None
        assert (await rerank_engine(reranking, probe=True)).is_available is True
        judge.answer = RerankError("judge", "out of order", expected="order", kind="config")
        status = await rerank_engine(reranking, probe=True)
        assert status.is_available is False
        assert "out of order" in status.trouble
        assert "out of order" in (await rerank_engine(reranking, probe=False)).trouble
        assert (await rerank_engine(None, probe=True)).source == ""

    asyncio.run(run())


def test_the_reranker_orders_the_best():
    """The best candidates come in the reranker's order, those beyond them follow, and the trace says that it ran."""

    async def run():
        judge = Judge()
        memory = await asking("dog dog dog long", "dog", "zz dog other words here", reranking=judge.reranking())
        plain = contents(await Asking(memory.here, memory.index).ask("dog"))
        result = await memory.ask("dog")
        assert contents(result) == [*sorted(plain[:2], key=len), *plain[2:]]
        assert result.trace.resolution.rerank_applied
        assert result.hits[0].leg_score("rerank") == -len(contents(result)[0])
        assert [leg.leg for leg in result.trace.legs][-1] == "rerank"
        assert all(len(texts) == 2 for texts in judge.asked)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ((1.0,), 0),
        ((math.nan, 1.0), 0),
        ((math.inf, 1.0), 0),
        (RerankError("judge", "no", expected="yes"), 0),
        (ConnectionError("refused"), 0),
        (SystemExit(1), 0),
        (None, 60),
    ],
)
def test_a_reranker_never_costs_an_answer(answer, seconds):
    """Whatever a reranker does wrong, the order stays as it was and the trace says why; it is left alone after that."""

    async def run():
        judge = Judge()
        memory = await asking("dog dog", "dog", reranking=judge.reranking())
        plain = contents(await Asking(memory.here, memory.index).ask("dog"))
        judge.answer, judge.seconds = answer, seconds
        result = await memory.ask("dog")
        assert contents(result) == plain
        assert not result.trace.resolution.rerank_applied
        assert any("not reranked" in reason for reason in result.trace.degraded)
        asked = len(judge.asked)
        assert "left alone" in str((await memory.ask("dog")).trace.degraded)
        assert len(judge.asked) == asked

    asyncio.run(run())


def test_a_dead_vector_store_leaves_the_words():
    """When the vector store fails, the keyword leg answers, and says so."""

    async def run():
        memory = await asking("dog")

        async def broken():
            raise BackendUnavailable("vectors", "disk gone")

        memory.here.store.spaces = broken
        result = await memory.ask("dog")
        assert contents(result) == ["dog"]
        assert "disk gone" in result.trace.degraded[0]

    asyncio.run(run())
