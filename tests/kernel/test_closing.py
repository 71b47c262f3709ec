"""Closing: all that was opened is closed, and nobody is left waiting or robbed of a cancellation."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from memspine import MemoryManager
from memspine.chain import Chain, Member
from memspine.closing import close_all
from memspine.config import config_from_mapping
from memspine.conformance.reference.backend import ReferenceBackend
from memspine.conformance.reference.embeddings import ReferenceEmbeddings
from memspine.conformance.reference.vectors import ReferenceVectorStore
from memspine.contracts import EmbeddingIdentity
from memspine.embedding import Sources
from memspine.errors import BackendUnavailable, ClosedError
from memspine.indexing import IndexSettings, VectorIndex
from memspine.ondemand import CallFailed, OnDemand
from memspine.plugins import Plugins
from memspine.resources import open_provider

from .sources import Source


class Places:
    """Opens things by name, those of `broken` fail when they are closed; `closed` are those that ended."""

    def __init__(self, *broken):
        self.broken = broken
        self.closed = []

    @asynccontextmanager
    async def open(self, name, value):
        yield value
        self.closed.append(name)
        if name in self.broken:
            raise RuntimeError(f"disk of {name} gone")

    def member(self, name, value):
        return OnDemand(name, open=lambda: self.open(name, value))


def test_all_are_closed_and_the_first_error_is_raised():
    """Whatever fails, and however often, each is closed, and the error is that of the first that failed."""

    async def run():
        closed = []

        async def close(name, error=None):
            await asyncio.sleep(0)
            closed.append(name)
            if error is not None:
                raise error

        with pytest.raises(ValueError, match="first"):
            await close_all([close("a"), close("b", ValueError("first")), close("c", OSError("second")), close("d")])
        assert sorted(closed) == ["a", "b", "c", "d"]

    asyncio.run(run())


def test_a_source_that_fails_to_close_leaves_nothing_open():
    """The other sources of an index, and its vector store, are closed although closing one source fails."""

    async def run():
        config = config_from_mapping(
            {
                "backends": {"store": {"plugin": "reference"}},
                "embedding": {
                    "source": "one",
                    "fallback": "two",
                    "one": {"plugin": "reference"},
                    "two": {"plugin": "reference", "dimension": 8},
                },
            },
            plugins=Plugins(),
        )
        places = Places("one")
        sources = Sources(config, Plugins(), open=lambda settings: places.open(settings.name, Source()))
        chain = Chain(
            [Member("primary", open=lambda: places.open("primary", ReferenceBackend("primary")))], deadline_seconds=1
        )
        store = places.member("vectors", ReferenceVectorStore("vectors"))
        index = VectorIndex(chain, store=store, sources=sources, settings=IndexSettings())
        await store.opened()
        for chosen in (sources.configured(), sources.fallback()):
            await chosen.embedder.identity()
        with pytest.raises(BackendUnavailable, match="one: closing failed: RuntimeError: disk of one gone"):
            await index.close()
        assert sorted(places.closed) == ["one", "two", "vectors"]

    asyncio.run(run())


@pytest.mark.parametrize("broken", ["openai.chat", "looks", "meanings", "vectors", "store"])
def test_a_manager_closes_everything(settings, monkeypatch, broken):
    """Whichever of its parts fails to close, a manager closes the others, and the error is told."""
    opened, closed = [], []

    @asynccontextmanager
    async def opening(provider, options, *, name, **context):
        async with open_provider(provider, options, name=name, **context) as value:
            opened.append(name)
            yield value
        closed.append(name)
        if name == broken:
            raise RuntimeError(f"disk of {name} gone")

    monkeypatch.setattr("memspine.running.open_provider", opening)
    settings |= {
        "vectors": {"plugin": "reference"},
        "embedding": {"source": "meanings", "meanings": {"plugin": "reference"}},
        "rerank": {"source": "looks", "looks": {"plugin": "reference"}},
    }

    async def run():
        async with MemoryManager(settings) as memory:
            await memory.create("Juno eats duck")
            request = {"messages": [{"role": "user", "content": "What does Juno eat?"}]}
            assert "duck" in (await memory.inject(request, shape="openai.chat")).block

    with pytest.raises(BackendUnavailable, match=f"closing failed: RuntimeError: disk of {broken} gone"):
        asyncio.run(run())
    assert len(opened) == 5
    assert sorted(closed) == sorted(opened)


# ── nobody is left waiting ──


class Refusing:
    """An opening that never ends; `reached` says that it has begun."""

    def __init__(self, *, raising=None):
        self.raising = raising
        self.reached = asyncio.Event()

    @asynccontextmanager
    async def open(self):
        self.reached.set()
        if self.raising is not None:
            raise self.raising
        await asyncio.Event().wait()
        yield None


async def _closed(member, holder):
    await member.close(patience_seconds=0.01)


async def _cancelled(member, holder):
    holder.cancel()


@pytest.mark.parametrize(("end", "told"), [(_closed, ClosedError), (_cancelled, BackendUnavailable)])
@pytest.mark.parametrize("is_begun", [True, False])
def test_whoever_waits_for_an_opening_that_is_given_up_is_told(end, told, is_begun):
    """However an opening ends, before or after its first step, a caller without a deadline hears of it."""

    async def run():
        opening = Refusing()
        member = OnDemand("late", open=opening.open)
        before = asyncio.all_tasks()
        waiting = asyncio.create_task(member.ask(lambda value: value))
        await asyncio.sleep(0)
        (holder,) = asyncio.all_tasks() - before - {waiting}
        if is_begun:
            await opening.reached.wait()
        await end(member, holder)
        with pytest.raises(told, match="late"):
            await asyncio.wait_for(waiting, 5)

    asyncio.run(run())


def test_a_cancellation_of_the_providers_own_is_a_failure():
    """A provider that is cancelled from within, while it opens or while it is asked, has failed: that is no
    cancellation of whoever asks, and the next call opens it again."""

    async def run():
        opening = Refusing(raising=asyncio.CancelledError())
        member = OnDemand("torn", open=opening.open)
        with pytest.raises(BackendUnavailable, match="torn: its opening was given up"):
            await asyncio.wait_for(member.ask(lambda value: value), 5)

        async def torn(value):
            inner = asyncio.create_task(asyncio.sleep(60))
            inner.cancel()
            await inner

        sound = Places().member("sound", None)
        with pytest.raises(CallFailed, match="CancelledError"):
            await sound.ask(torn)
        await sound.close(patience_seconds=1)

    asyncio.run(run())


@pytest.mark.parametrize("moment", ["while it is waited for", "after it was given up"])
def test_closing_can_be_cancelled(moment):
    """Whoever gives up closing is not kept from it: a cancellation of the caller's own is passed on, and closing again
    does the rest."""

    async def run():
        is_given_up, may_end = asyncio.Event(), asyncio.Event()

        @asynccontextmanager
        async def open():
            yield None
            try:
                await asyncio.Event().wait()
            finally:
                is_given_up.set()
                await may_end.wait()

        member = OnDemand("slow", open=open)
        await member.opened()
        patience = 60 if moment == "while it is waited for" else 0.01
        closing = asyncio.create_task(member.close(patience_seconds=patience))
        await (asyncio.sleep(0.01) if patience == 60 else is_given_up.wait())
        closing.cancel()
        asyncio.get_running_loop().call_later(0.05, may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await closing
        await member.close(patience_seconds=0.01)
        assert is_given_up.is_set()

    asyncio.run(run())


# ── background work ──


def by_meaning(settings):
    """A manager that finds by meaning."""
    return settings | {"vectors": {"plugin": "reference"}, "embedding": {"source": "reference"}}


@pytest.mark.parametrize("said", [None, EmbeddingIdentity(plugin="p", model="m", revision="1", dimension=0)])
def test_background_work_survives_its_plugins(settings, monkeypatch, said):
    """A source that says nonsense of itself is told by health and ends no background work: once it is sound, what was
    written meanwhile is embedded, and health has nothing to tell."""
    monkeypatch.setattr("memspine.breaker.PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("memspine.running.INDEX_PAUSE_SECONDS", 0.01)
    sound = ReferenceEmbeddings.identity

    async def nonsense(self):
        return said

    monkeypatch.setattr(ReferenceEmbeddings, "identity", nonsense)

    async def run():
        async with MemoryManager(by_meaning(settings)) as memory:
            await memory.create("Juno eats duck")

            async def told():
                return [finding.text for finding in (await memory.health())["store"].findings]

            await eventually(told)
            assert "embedding: " in (await told())[0]
            assert "identity" in (await told())[0]
            monkeypatch.setattr(ReferenceEmbeddings, "identity", sound)

            async def is_embedded():
                return [space.held for space in (await memory.engine()).vectors.spaces] == [1] and not await told()

            await eventually(is_embedded)

    asyncio.run(run())


def test_a_mistake_that_ends_background_work_comes_to_light(settings, monkeypatch):
    """What ends background work for good is raised when the manager is left, after everything was closed."""

    async def mistaken(self, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(VectorIndex, "work", mistaken)

    async def run():
        memory = MemoryManager(by_meaning(settings))
        await memory.initialize()
        await memory.create("Juno eats duck")
        primary = memory._open.chain.primary  # noqa: SLF001 - to look whether it was closed
        await asyncio.sleep(0.01)
        with pytest.raises(ZeroDivisionError):
            await memory.shutdown()
        with pytest.raises(ClosedError):
            await primary.opened()

    asyncio.run(run())


async def eventually(holds):
    for _ in range(1000):
        if await holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError
