"""What leaves an index: what the primary does not have, and nothing else, however late the news of it is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from memspine import times
from memspine.contracts import Capability
from memspine.indexing import reading
from memspine.model import MemoryChanges, MemoryRef, NewMemory

from .sources import Source
from .worlds import ME, world


async def recreated(here, id, text):
    """A memory that is deleted and stored again under its id."""
    await here.backend.delete(id, scope=ME, now=times.now())
    await here.backend.create_many([NewMemory(content=text)], scope=ME, ids=[id], now=times.now())


def test_old_news_of_a_deletion_takes_nothing_new(monkeypatch):
    """A space that reads of a deletion late leaves the others what was stored again under the same id."""
    monkeypatch.setattr(reading, "PAGE_ROWS", 1)

    async def run():
        here, one, two = world(), Source(revision="1"), Source(revision="2")
        (id, _) = await here.add("a", "b")
        await here.index(one).work()
        slow = here.index(two, known=[one])
        await slow.work()
        await recreated(here, id, "c")
        await here.index(one).work()
        assert await here.held() == await here.alive()
        await slow.work()
        assert await here.held() == await here.alive()
        for shelf in here.store.shelves.values():
            assert {ref: shelf.revision(ref) for ref in shelf.chunks} == await here.alive()

    asyncio.run(run())


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_comes_back_while_it_is_deleted_is_indexed(moment):
    """A memory that is stored again between the look at the primary and the deletion, or right after it, is indexed in
    every space."""

    async def run():
        here, source = world(), Source()
        index = here.index(source)
        (id,) = await here.add("a")
        await index.work()
        await here.backend.delete(id, scope=ME, now=times.now())
        delete = here.store.delete

        async def meanwhile(refs):
            if moment == "after":
                await delete(refs)
            await here.backend.create_many([NewMemory(content="b")], scope=ME, ids=[id], now=times.now())
            await here.index(source).work()
            if moment == "before":
                await delete(refs)
            here.store.delete = delete

        here.store.delete = meanwhile
        index.note_gone([MemoryRef("me", id)])
        await index.work()
        await index.work()
        assert await here.held() == await here.alive()

    asyncio.run(run())


def test_what_an_answer_missed_may_still_be_there():
    """A memory that was missed in an answer, which may have looked elsewhere for it, stays in the index and the queue
    as long as the primary has it."""

    async def run():
        here, source = world(), Source()
        index = here.index(source)
        (id, other) = await here.add("a", "b")
        await index.work()
        await here.backend.update(id, MemoryChanges(content="c"), scope=ME, now=times.now())
        index.note_gone([MemoryRef("me", id), MemoryRef("me", other)])
        await index.work()
        assert await here.held() == await here.alive()
        assert source.embedded() == ["a", "b", "c"]

    asyncio.run(run())


def test_a_blank_memory_leaves_its_own_space_alone():
    """A memory of blanks has no vector, of an earlier revision neither; what other spaces hold of it stays, and it is
    neither counted as embedded nor told as waiting."""

    async def run():
        here, source = world(without=[Capability.LEXICAL]), Source()
        index = here.index(source)
        (id, _) = await here.add("a", "b")
        await index.work()
        await here.backend.update(id, MemoryChanges(content=" \n "), scope=ME, now=times.now())
        assert (await index.work()).embedded == 1, "its terms"
        terms, vectors = sorted(await index.progress(), key=lambda one: -one.held)
        assert (terms.held, terms.waiting) == (2, 0)
        assert (vectors.held, vectors.total, vectors.waiting, vectors.failing) == (1, 2, 0, 0)
        await here.add("c")
        assert [one.waiting for one in await index.progress()] == [1, 2]

    asyncio.run(run())


@pytest.mark.parametrize("is_complete", [False, True])
def test_what_is_wanted_is_not_collected(monkeypatch, is_complete):
    """However long nobody was there, the keyword index and the configured spaces stay, whether they are complete."""

    async def run():
        here, one, two = world(without=[Capability.LEXICAL]), Source(revision="1"), Source(revision="2")
        await here.add("a", "b")
        await here.index(one).work()
        both = here.index(two, one)
        await both.work(seconds=None if is_complete else 0.0)
        before = [space.id for space in await here.store.spaces()]
        assert len(before) == 3
        late = times.now() + timedelta(days=30)
        monkeypatch.setattr(times, "now", lambda: late)
        assert await here.index(two, one).collect() == 0
        assert [space.id for space in await here.store.spaces()] == before

    asyncio.run(run())


def test_what_was_built_anew_is_dropped_at_once():
    """Of spaces that were built one after the other for one source the last that is whole stays, and what is newer."""

    async def run():
        here, source = world(without=[Capability.LEXICAL]), Source()
        index = here.index(source)
        await here.add("a", "b")
        await index.work()
        before = [space.id for space in await here.store.spaces()]
        await index.rebuild()
        assert await index.collect() == 0
        await index.work()
        await index.rebuild()
        assert await index.collect() == 2
        left = [space.id for space in await here.store.spaces()]
        assert len(left) == 4
        assert not set(left) & set(before)

    asyncio.run(run())


def test_a_space_that_was_left_is_kept_from_then_on(monkeypatch):
    """The hours for which one can go back begin when the other space takes over, however long it took to fill."""

    async def run():
        here, one, two = world(), Source(revision="1"), Source(revision="2")
        await here.add("a", "b")
        await here.index(one).work()
        now = times.now() + timedelta(hours=50)
        monkeypatch.setattr(times, "now", lambda: now)
        index = here.index(two, keep_hours=24, known=[one])
        await index.work()
        assert await index.collect() == 0
        assert len(await here.store.spaces()) == 2

    asyncio.run(run())


def test_a_space_that_is_kept_otherwise_is_not_wanted(monkeypatch):
    """Of one source the space of the present quantisation is wanted, and one that was tried meanwhile is dropped."""

    async def run():
        here, source = world(), Source()
        await here.add("a", "b")
        for quantisation in ("none", "int8", "none"):
            await here.index(source, quantisation=quantisation).work()
        late = times.now() + timedelta(days=30)
        monkeypatch.setattr(times, "now", lambda: late)
        assert await here.index(source, quantisation="none").collect() == 1
        assert [space.quantisation for space in await here.store.spaces()] == ["none"]

    asyncio.run(run())
