"""A vector store that fails in the middle of a question: the store of the memories answers with what remains."""

from __future__ import annotations

import asyncio
import itertools

import attrs
import pytest

from memspine import times
from memspine.chain import Chain, Member
from memspine.conformance.reference.vectors import ReferenceVectorStore
from memspine.contracts import Capability
from memspine.errors import BackendUnavailable, ClosedError, NotFoundError
from memspine.model import MemoryFilter, NewMemory, Scope
from memspine.retrieval import RankingRules, RecallRequest, Retrieval
from memspine.text import estimate_tokens

from .conftest import Flaky
from .sources import Source
from .worlds import World, opener

ME = Scope.of_owner("me")
TEXTS = ("aaab dog", "aaa", "dog", *(f"aaa{n}" for n in range(30)))
"""Words find the first three, and the vector leg rather the others."""
SECONDS = 1.0
TROUBLES = {
    "unavailable": BackendUnavailable("vectors", "disk gone"),
    "dropped": NotFoundError("vectors", "s", what="space"),
    "broken": OSError("disk gone"),
    "closed": ClosedError("the disk gone"),
    "hanging": None,
}


class Failing(ReferenceVectorStore):
    """The reference store, whose calls fail from the `first` one on, counted from 0, up to the `last`."""

    first = last = 10**9
    trouble: object = None
    calls: list[str]

    def __init__(self, name):
        super().__init__(name)
        self.calls = []

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args, **kwargs):
            number = len(self.calls)
            self.calls.append(name)
            if self.first <= number <= self.last:
                if self.trouble is None:
                    await asyncio.sleep(60)
                raise self.trouble
            return await found(*args, **kwargs)

        return call


class Place:
    """A primary, a fallback that holds nothing but one memory, and an index that holds all of the primary."""

    def __init__(self, *, has_words, is_complete=True):
        self.primary, self.fallback = Flaky("primary"), Flaky("fallback")
        if not has_words:
            for backend in (self.primary, self.fallback):
                backend.capabilities = frozenset(backend.capabilities - {Capability.LEXICAL})
        self.here = World(self.primary, Failing("vectors"))
        self.index = self.here.index(Source())
        self.is_complete = is_complete

    async def fill(self):
        await self.here.add(*TEXTS)
        await self.fallback.create(NewMemory(content="aaab dog"), scope=ME, id="m00000", now=times.now())
        await self.index.work()
        if not self.is_complete:
            await self.here.add("late")
        for shelf in self.here.store.shelves.values():
            shelf.space = attrs.evolve(shelf.space, complete=self.is_complete)
        self.here.store.calls.clear()

    async def ask(self, strategy="hybrid"):
        members = [Member(backend.name, open=opener(backend)) for backend in (self.primary, self.fallback)]
        chain = Chain(members, deadline_seconds=SECONDS)
        request = RecallRequest(
            text="aaa dog",
            scope=ME,
            now=times.now(),
            strategy=strategy,
            ranking=RankingRules(vector_weight=0.5),
            filter=MemoryFilter(),
            seconds=SECONDS,
            vector_seconds=SECONDS / 2,
        )
        return await Retrieval(chain, count_tokens=estimate_tokens, index=self.index).recall(request)


def contents(result):
    return {hit.memory.content for hit in result.hits}


def statuses(result):
    return {leg.leg: leg.status for leg in result.trace.legs}


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("has_words", [True, False])
@pytest.mark.parametrize(
    ("trouble", "strategy"),
    [
        *itertools.product(("unavailable", "dropped", "broken", "closed"), ("hybrid", "semantic", "exact")),
        ("hanging", "hybrid"),  # each of its questions costs as long as it may take
    ],
)
def test_any_call_may_fail(trouble, has_words, is_complete, strategy):
    """Whichever call of a question the vector store begins to fail at, and however, the primary itself answers; what
    was not had is told, and no leg that failed is said to have run."""

    async def run(first, *, lasts):
        place = Place(has_words=has_words, is_complete=is_complete)
        await place.fill()
        place.here.store.first, place.here.store.trouble = first, TROUBLES[trouble]
        if not lasts:
            place.here.store.last = first
        result = await place.ask(strategy)
        assert result.trace.backend == "primary"
        assert strategy == "semantic" or {"aaab dog", "dog"} <= contents(result)
        assert result.hits
        return result, len(place.here.store.calls)

    async def check():
        well, count = await run(10**9, lasts=True)
        assert all("33 of 34 memories" in reason for reason in well.trace.degraded)
        assert bool(well.trace.degraded) == (not is_complete and count > 0)
        assert set(statuses(well).values()) == {"ran"}
        for first in range(count):
            result, _ = await run(first, lasts=True)
            told = " ".join(result.trace.degraded)
            assert "took longer" in told if trouble == "hanging" else "disk gone" in told or "no space" in told
            near = next((leg for leg in result.trace.legs if leg.leg == "vector"), None)
            if near is not None and near.status == "failed":
                assert result.trace.resolution.strategy_used == "keyword"
                assert result.trace.resolution.fallback_reason == near.detail
                assert not any(leg.leg == "vector" for hit in result.hits for leg in hit.legs)
            if trouble != "hanging":
                await run(first, lasts=False)

    asyncio.run(check())


@pytest.mark.parametrize("trouble", TROUBLES)
def test_cosines_that_cannot_be_had_leave_the_words_alone(trouble):
    """Where the second question to the vector store fails, the answer is that of the words, as if there were no vector
    leg, and it says so."""

    async def run():
        place = Place(has_words=True)
        await place.fill()
        place.here.store.first = 0
        place.here.store.trouble = TROUBLES["unavailable"]
        expected = await place.ask()
        place.here.store.calls.clear()
        place.here.store.first, place.here.store.trouble = 2, TROUBLES[trouble]
        result = await place.ask()
        assert place.here.store.calls == ["spaces", "search", "search"]
        assert [(hit.memory.id, hit.score, hit.legs) for hit in result.hits] == [
            (hit.memory.id, hit.score, hit.legs) for hit in expected.hits
        ]
        assert statuses(result) == {"keyword": "ran", "vector": "failed"}
        assert result.trace.fused_by == ""

    asyncio.run(run())


@pytest.mark.parametrize("call", ["speakers", "lexical"])
def test_a_kept_keyword_index_that_fails_leaves_meaning_and_the_own_search(call):
    """Where the keyword index fails in the middle, the store's own search and the vectors answer together."""

    async def run():
        place = Place(has_words=False)
        await place.fill()
        broken = ("speakers", "lexical") if call == "speakers" else ("lexical",)

        async def fail(*args, **options):
            raise TROUBLES["unavailable"]

        for name in broken:
            setattr(place.here.store, name, fail)
        result = await place.ask()
        assert statuses(result) == {"keyword": "failed", "backend": "ran", "vector": "ran"}
        assert result.trace.degraded == ("the keyword index failed: vectors: disk gone",)
        assert {"aaab dog", "aaa0"} <= contents(result)

    asyncio.run(run())


@pytest.mark.parametrize("trouble", [BackendUnavailable("primary", "refused"), "hang"])
@pytest.mark.parametrize("is_dead_too", [True, False])
@pytest.mark.parametrize("has_words", [True, False])
def test_a_primary_that_fails_is_not_asked_on(has_words, is_dead_too, trouble):
    """A failure of the primary leads to the fallback, whether the vector store works or not; that nobody can say how
    much an index lacks then is a remark, and the index answers all the same."""

    async def run():
        place = Place(has_words=has_words, is_complete=False)
        await place.fill()
        place.primary.trouble = trouble
        if is_dead_too:
            place.here.store.first, place.here.store.trouble = 0, TROUBLES["unavailable"]
        result = await place.ask()
        assert result.trace.backend == "fallback"
        assert contents(result) == {"aaab dog"}
        told = " ".join(result.trace.degraded)
        assert "primary: " in told
        if is_dead_too:
            assert statuses(result)["vector"] == "failed"
        else:
            assert statuses(result) == {"keyword": "ran", "vector": "ran"}
            assert "the vectors of letters are not complete yet: how much is missing is not known" in told
            assert ("the keyword index is not complete yet: how much is" in told) == (not has_words)

    asyncio.run(run())
