"""A store that cannot rank by words, beside SQLite that keeps a keyword index for it."""

from __future__ import annotations

import asyncio
import sys
import types
from contextlib import asynccontextmanager

import attrs
import pytest

import memspine
from memspine.blocking import MemoryManager
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.contracts import Capability, Provider
from memspine.hookspecs import hookimpl
from memspine.model import MemoryFilter, MemoryType
from memspine.plugins import PluginEntry, Plugins, installed_entries

WORDLESS = ReferenceBackend.capabilities - {Capability.LEXICAL}
TEXTS = (
    "Juno is a brown dog and likes duck.",
    "The bicycle has a flat tyre.",
    "Juno the dog went to the vet on Monday, and the vet said that the dog is well.",
    "A recipe of duck with walnuts.",
)


@attrs.frozen
class Config:
    """There is nothing to set."""


class Wordless(ReferenceBackend):
    """The reference backend without a keyword index, whose own search finds nothing."""

    capabilities = WORDLESS

    async def search(self, query, *, scope, now):
        return ()

    async def lexical(self, query, **question):
        raise AssertionError("a call of what is not claimed")

    speakers = lexical


@asynccontextmanager
async def open_wordless(config, context):
    backend = Wordless(context.name)
    yield backend
    backend.close()


@pytest.fixture
def plugins(monkeypatch):
    """All that is installed, and a backend without a keyword index."""
    module = types.ModuleType("wordless_plugin")
    provider = Provider(name="wordless", config_type=Config, open=open_wordless, capabilities=WORDLESS)
    module.memspine_memory_backends = hookimpl(lambda: [provider], specname="memspine_memory_backends")
    monkeypatch.setitem(sys.modules, "wordless_plugin", module)
    return Plugins(find=lambda: [*installed_entries(), PluginEntry(name="wordless", module="wordless_plugin")])


def settings(tmp_path, source):
    """A backend without an index and a store of vectors in SQLite."""
    return {
        "backends": {"x": {"plugin": "wordless"}},
        "vectors": {"plugin": "sqlite", "path": str(tmp_path / "v.db")},
        "embedding": {"source": source},
    }


def opened(tmp_path, plugins, source):
    """A manager over them."""
    return MemoryManager(settings(tmp_path, source), plugins=plugins, background=False)


@pytest.fixture(params=["none", "reference"])
def memory(request, tmp_path, plugins):
    """An open manager, with and without an embedding source."""
    with opened(tmp_path, plugins, request.param) as manager:
        manager.source = request.param
        yield manager


def found(memory, question, **options):
    """What a question finds once everything is indexed."""
    memory.maintain(kinds=["embed"])
    return [hit.memory.content for hit in memory.search(question, **options).hits]


def test_words_are_ranked_by_us(memory):
    """The keyword leg ranks what the kept index tells, and nothing is wrong with the answer."""
    for text in TEXTS:
        memory.create(text)
    result = memory.search("what did the vet say about the dog?")
    assert result.hits[0].memory.content == TEXTS[2]
    assert {"vet", "dog"} <= set(result.hits[0].matched)
    keyword, vector = result.trace.legs
    assert (keyword.leg, keyword.status, keyword.matched) == ("keyword", "ran", 2)
    if memory.source == "none":
        assert vector.status == "off"
        assert result.trace.degraded == (vector.detail,)
        assert result.trace.resolution.strategy_used == "keyword"
    else:
        assert vector.status == "ran"
        assert result.trace.degraded == ()
        assert result.trace.fused_by
    assert memory.search("vet", strategy="exact").trace.degraded == ()
    assert found(memory, "dog", strategy="exact") == [TEXTS[2], TEXTS[0]]


def test_the_answer_is_that_of_a_backend_with_an_index(memory, tmp_path):
    """The same memories in a SQLite backend, which ranks by itself, give the same hits with the same scores."""
    with_index = {
        "backends": {"x": {"plugin": "sqlite", "path": str(tmp_path / "own.db")}},
        "embedding": {"source": memory.source},
    }
    with MemoryManager(with_index, background=False) as own:
        for manager in (memory, own):
            for n, text in enumerate(TEXTS):
                manager.create(text, session="s", metadata={"speaker": ["Ann", "Bob"][n % 2]})
        for question in ("dog", "what did Ann say about the duck?", "vet on Monday", "nothing of that"):
            for strategy in ("hybrid", "exact"):
                kept, expected = (m.search(question, strategy=strategy) for m in (memory, own))
                assert [(hit.memory.content, hit.score) for hit in kept.hits] == [
                    (hit.memory.content, hit.score) for hit in expected.hits
                ]
                assert kept.trace.degraded == expected.trace.degraded


def test_changes_are_followed(memory):
    """What is updated is found by its new words alone, what is deleted, purged or expired by none."""
    ids = [memory.create(text).memory.id for text in TEXTS]
    assert found(memory, "bicycle", strategy="exact") == [TEXTS[1]]
    memory.update(ids[1], content="The bicycle was sold.")
    memory.update(ids[3], content="A recipe of tyre soup.")
    memory.delete(ids[0])
    memory.purge([ids[2]])
    assert found(memory, "bicycle", strategy="exact") == ["The bicycle was sold."]
    assert found(memory, "tyre", strategy="exact") == ["A recipe of tyre soup."]
    for question in ("dog", "duck", "vet", "flat"):
        assert found(memory, question, strategy="exact") == []
        trace = memory.search(question, strategy="exact").trace
        assert (trace.degraded, trace.cuts, trace.legs[0].matched) == ((), (), 0)
    again = memory.create(TEXTS[0]).memory
    assert found(memory, "dog", strategy="exact") == [TEXTS[0]]
    memory.delete(again.id)
    assert found(memory, "dog", strategy="exact") == []


def test_filters_and_sessions_hold(memory):
    """Within a session, and of a type or a text, what lies there is found, whether the index knows the field or not."""
    memory.create(TEXTS[0], session="s", type="episodic")
    memory.create(TEXTS[2], session="t")
    assert found(memory, "dog", session="s") == [TEXTS[0]]
    assert found(memory, "dog", session="none") == []
    assert found(memory, "dog", filter=MemoryFilter(types=(MemoryType.FACTUAL,))) == [TEXTS[2]]
    assert found(memory, "dog", filter=MemoryFilter(text="brown")) == [TEXTS[0]]


def test_strangers_change_nothing(memory):
    """However much others store, an owner's hits, their order and their scores stay as they were."""
    for text in TEXTS:
        memory.create(text)

    def answers():
        results = [memory.search(question) for question in ("the dog and the vet", "duck", "tyre")]
        return [[(hit.memory.content, hit.score) for hit in result.hits] for result in results]

    before = answers()
    for n in range(40):
        memory.create(f"duck, duck and a dog of number {n}", owner=f"stranger{n % 3}")
    assert answers() == before
    assert found(memory, "number", owner="stranger0", limit=3, strategy="exact") != []
    assert found(memory, "number", strategy="exact") == []


def test_an_index_that_is_not_complete_is_told_of(tmp_path, plugins, monkeypatch):
    """Before everything is indexed the answer says so; once it is, it says nothing."""
    with opened(tmp_path, plugins, "none") as memory:
        for text in TEXTS:
            memory.create(text)
        with monkeypatch.context() as patched:
            patched.setattr("memspine.running.CATCH_UP_SECONDS", 0.0)
            early = memory.search("dog")
        assert "the keyword index is not complete yet: 0 of 4 memories" in early.trace.degraded[0]
        assert early.hits == ()
        assert found(memory, "dog") == [TEXTS[2], TEXTS[0]]
        late = memory.search("dog")
        assert [text for text in late.trace.degraded if "keyword" in text] == []


def test_rebuilding_answers_all_the_time(tmp_path, plugins):
    """A rebuild makes the keyword index anew beside the one that answers, which the new one then replaces."""

    async def run():
        asked = []
        async with memspine.MemoryManager(settings(tmp_path, "reference"), plugins=plugins, background=False) as memory:
            for text in TEXTS:
                await memory.create(text)
            await memory.reindex()
            report = await memory.reindex(
                rebuild=True,
                on_progress=lambda spaces: asked.append(asyncio.create_task(memory.search("vet", strategy="exact"))),
            )
            assert report.complete
            answers = [await task for task in asked]
            assert answers
            for answer in (*answers, await memory.search("vet", strategy="exact")):
                assert ([hit.memory.content for hit in answer.hits], answer.trace.degraded) == ([TEXTS[2]], ())
            spaces = (await memory.engine()).vectors.spaces
            return [(one.held, one.space.complete) for one in spaces if one.space.identity.model == "terms"]

    assert asyncio.run(run()) == [(4, True)] * 2


def test_the_index_is_there_after_opening_again(tmp_path, plugins):
    """What it holds of a backend that is empty now is no hit, and what is new is indexed beside it."""
    with opened(tmp_path, plugins, "none") as memory:
        memory.create(TEXTS[0])
        assert found(memory, "dog") == [TEXTS[0]]
    with opened(tmp_path, plugins, "none") as memory:
        assert found(memory, "dog") == []
        memory.create(TEXTS[2])
        assert found(memory, "dog") == [TEXTS[2]]
