"""The vector index: everything is embedded once, nothing is forgotten, nothing dead stays, switching is unseen."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine import times
from memspine.contracts import Capability, Vectors
from memspine.errors import EmbeddingError
from memspine.indexing import upkeep
from memspine.indexing.filling import LEASE_SECONDS
from memspine.model import MemoryChanges, NewMemory

from .sources import Source
from .worlds import EVERYONE, ME, answers, world

FAR = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("without", [(), (Capability.CHANGES,)])
def test_everything_is_embedded_once(without):
    """Every memory gets its vectors, with or without a feed; doing it again embeds nothing again."""

    async def run():
        here, source = world(without=without), Source()
        await here.add(*(f"a {n}" for n in range(30)))
        await here.add(*(f"b {n}" for n in range(7)), owner="other")
        index = here.index(source)
        done = await index.work()
        assert done.complete
        assert done.embedded == 37
        assert await here.held() == await here.alive()
        assert (await index.work()).embedded == 0
        assert set(Counter(source.embedded()).values()) == {1}

    asyncio.run(run())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "update", "touch", "delete", "purge", "recreate", "work", "work elsewhere", "trim"]),
        st.integers(0, 7),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_happens_the_index_follows(steps):
    """After any sequence of writes, deletions, purges, trimmed feeds and rounds of two processes, a last round leaves
    exactly the living memories at their revisions, and no revision was embedded twice."""

    async def run():
        here, source = world(), Source()
        indexes = {"work": here.index(source), "work elsewhere": here.index(source)}
        for number, (step, n) in enumerate(steps):
            now, id = times.now(), f"m{n}"
            is_there = await here.backend.get(id, scope=ME, now=now) is not None
            if step in ("create", "recreate") and not is_there:
                await here.backend.create(NewMemory(content=f"text {number}"), scope=ME, id=id, now=now)
            elif step == "update" and is_there:
                await here.backend.update(id, MemoryChanges(content=f"text {number}"), scope=ME, now=now)
            elif step == "touch" and is_there:
                await here.backend.update(id, MemoryChanges(session=f"s{number}"), scope=ME, now=now)
            elif step == "delete" and is_there:
                await here.backend.delete(id, scope=ME, now=now)
            elif step == "purge" and is_there:
                await here.backend.purge([id], scope=ME, now=now)
                await here.store.purge([id], scope=ME)
            elif step == "trim":
                await indexes["work"].work()  # a feed is trimmed behind those who read it
                await here.backend.trim_changes(scope=EVERYONE, before=FAR, limit=1000)
            elif step in indexes:
                await indexes[step].work()
        await indexes["work"].work()
        assert await here.held() == await here.alive()

    asyncio.run(run())


def test_a_new_source_takes_over_when_it_has_everything():
    """While the vectors of another source are made, the old ones answer, both get what is written, and the new ones
    answer as soon as they are complete, not before."""

    async def run():
        here, old, new = world(), Source(revision="old"), Source(revision="new")
        await here.add(*(f"a {n}" for n in range(20)))
        await here.index(old).work()
        index = here.index(new, known=[old])
        revisions = []

        def answer(texts):
            revisions.append(
                [shelf.space.identity.revision for shelf in here.store.shelves.values() if shelf.space.active]
            )
            return Vectors(4, b"".join(map(new.vector, texts)))

        new.answer = answer
        await here.add("written meanwhile")
        assert (await index.work()).complete
        assert revisions
        assert all(active == ["old"] for active in revisions)
        (answering, *_) = await answers(index)
        assert answering.space.identity.revision == "new"
        for shelf in here.store.shelves.values():
            assert len(shelf.chunks) == 21

    asyncio.run(run())


def test_going_back_computes_nothing_again():
    """The vectors of the earlier source are kept for a while: going back embeds only what was written since."""

    async def run():
        here, one, two = world(), Source(revision="1"), Source(revision="2")
        await here.add(*(f"a {n}" for n in range(10)))
        await here.index(one).work()
        await here.index(two).work()
        one.asked.clear()
        await here.add("late")
        index = here.index(one)
        await index.collect()
        await index.work()
        assert one.embedded() == ["late"]
        assert (await answers(index))[0].space.identity.revision == "1"

    asyncio.run(run())


def test_two_configurations_do_not_fight():
    """A manager hands over to its own source once: after another one has handed over to its own, it follows."""

    async def run():
        here, one, two = world(), Source(revision="1"), Source(revision="2")
        await here.add("a")
        first = here.index(one, two)
        await first.work()
        second = here.index(two, one)
        await second.work()
        await here.add("b")
        await first.work()
        await second.work()
        assert (await answers(first))[0].space.identity.revision == "2"
        assert two.embedded().count("b") == 1

    asyncio.run(run())


def test_a_dead_process_costs_one_batch(monkeypatch):
    """What a process had leased when it died is embedded by another once the lease is over, and not before."""

    async def run():
        here, source = world(), Source()
        await here.add(*(f"a {n}" for n in range(10)))
        other = here.index(source)
        await other.work(seconds=0.0)
        (space,) = await here.store.spaces()
        await here.store.enqueue(space.id, revisions=await here.alive(), position="")
        claimed = await here.store.claim(space.id, holder="dead", now=times.now(), lease_seconds=LEASE_SECONDS, limit=4)
        assert len(claimed) == 4
        done = await other.work()
        assert not done.complete
        assert len(source.embedded()) == 6
        later = times.now() + timedelta(seconds=LEASE_SECONDS)
        monkeypatch.setattr(times, "now", lambda: later)
        done = await other.work()
        assert done.complete
        assert done.embedded == 4

    asyncio.run(run())


def test_what_is_interrupted_is_free_again():
    """A round that is cancelled gives back what it had leased: the next one does all of it at once."""

    async def run():
        here, source = world(), Source()
        await here.add(*(f"a {n}" for n in range(10)))
        index = here.index(source)
        source.seconds = 60
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await index.work()
        source.seconds = 0
        done = await index.work()
        assert done.complete
        assert done.embedded == 10

    asyncio.run(run())


def test_a_trimmed_feed_loses_nothing():
    """What was written and trimmed from the feed before the index read it is embedded all the same; what was deleted
    then takes no place in an answer, and is gone from the index after it was missed once."""

    async def run():
        here, source = world(), Source()
        index = here.index(source)
        ids = await here.add("a", "b")
        await index.work()
        await here.add("c")
        await here.backend.delete(ids[0], scope=ME, now=times.now())
        await here.backend.trim_changes(scope=EVERYONE, before=FAR, limit=1000)
        await index.work()
        held = set(await here.held())
        assert set(await here.alive()) <= held
        index.note_gone(held - set(await here.alive()))
        await index.work()
        assert await here.held() == await here.alive()

    asyncio.run(run())


def test_other_weights_are_never_written_into_a_space():
    """When the files of a model change under its name, nothing more is written into the space of the old ones."""

    async def run():
        here, source = world(), Source(revision="old")
        await here.add("a")
        await here.index(source).work()
        (old,) = await here.store.spaces()
        source.revision = "new"
        index = here.index(source)
        index.sources.used["old"] = index.sources.used["new"]
        await here.add("b")
        await index.work()
        assert len(here.store.shelves[old.id].chunks) == 1
        assert (await answers(index))[0].space.identity.revision == "new"

    asyncio.run(run())


def test_a_source_that_failed_once_hands_nothing_over_later():
    """A second round while the source is left alone does not take its failures for memories that cannot be embedded."""

    async def run():
        here, source = world(), Source()
        await here.add("a", "b", "c")
        source.answer = ConnectionError("refused")
        for _ in range(3):
            assert not (await here.index(source).work()).complete
        (space,) = await here.store.spaces()
        assert not space.complete

    asyncio.run(run())


def test_a_bad_memory_blocks_nothing(monkeypatch):
    """Memories that cannot be embedded, also such as fill a batch, are put off, longer each time; all others are
    embedded, and the space counts as complete. They are tried again when they are due."""

    async def run():
        here, source = world(), Source()
        bad = [f"bad {n}" for n in range(8)]  # so many that a batch holds nothing else
        await here.add(*(f"a {n}" for n in range(9)), *bad, *(f"b {n}" for n in range(9)))
        good = source.vector

        def answer(texts):
            if any("bad" in text for text in texts):
                raise EmbeddingError("letters", "no such word", expected="another")
            return Vectors(4, b"".join(map(good, texts)))

        source.answer = answer
        index = here.index(source)
        assert (await index.work()).complete
        (progress,) = await index.progress()
        assert (progress.held, progress.total, progress.failing) == (18, 26, 8)
        assert "no such word" in progress.reason
        assert progress.space.complete
        source.asked.clear()
        await index.work()
        assert source.embedded() == []
        source.answer = None
        later = times.now() + timedelta(hours=1)
        monkeypatch.setattr(times, "now", lambda: later)
        await index.work()
        assert sorted(source.embedded()) == bad

    asyncio.run(run())


def test_a_source_that_does_not_work_hands_nothing_over():
    """While the new source fails, the old vectors go on answering, and the round says why it is not complete."""

    async def run():
        here, old, new = world(), Source(revision="old"), Source(revision="new")
        await here.add("a", "b")
        await here.index(old).work()
        new.answer = ConnectionError("refused")
        index = here.index(new, known=[old])
        for _ in range(3):
            done = await index.work()
            assert not done.complete
            assert "refused" in done.troubles[0]
        assert (await answers(index))[0].space.identity.revision == "old"

    asyncio.run(run())


def test_a_fallback_answers_only_when_it_is_complete():
    """The fallback's space stands behind the active one once it has everything, and not before."""

    async def run():
        here, first, second = world(), Source(revision="1"), Source(revision="2")
        await here.add("a")
        second.answer = ConnectionError("refused")
        index = here.index(first, second)
        await index.work()
        assert [one.space.identity.revision for one in await answers(index)] == ["1"]
        second.answer = None
        later = here.index(first, second)
        await later.work()
        assert [one.space.identity.revision for one in await answers(later)] == ["1", "2"]

    asyncio.run(run())


def test_what_is_purged_while_it_is_embedded_leaves_no_vector():
    """A memory that is purged between its reading and the storing of its vector has no vector afterwards."""

    async def run():
        here, source = world(), Source()
        (id,) = await here.add("a secret")
        embed = source.embed

        async def purging(texts, *, role):
            await here.backend.purge([id], scope=ME, now=times.now())
            await here.store.purge([id], scope=ME)
            return await embed(texts, role=role)

        source.embed = purging
        await here.index(source).work()
        assert await here.held() == {}

    asyncio.run(run())


def test_dead_spaces_are_collected(monkeypatch):
    """A space that neither answers nor was wanted for `keep_hours` is dropped with its vectors; the others stay."""

    async def run():
        here, one, two = world(), Source(revision="1"), Source(revision="2")
        await here.add("a")
        await here.index(one).work()
        index = here.index(two, keep_hours=24)
        await index.work()
        assert await index.collect() == 0
        later = times.now() + timedelta(hours=25)
        monkeypatch.setattr(times, "now", lambda: later)
        assert await index.collect() == 1
        (space,) = await here.store.spaces()
        assert space.identity.revision == "2"

    asyncio.run(run())


def test_rebuilding_answers_all_the_time():
    """A rebuild computes every vector anew in another space, which takes over at its end."""

    async def run():
        here, source = world(), Source()
        await here.add("a", "b")
        index = here.index(source)
        await index.work()
        before = (await answers(index))[0].space
        source.asked.clear()
        await index.rebuild()
        assert (await answers(index))[0].space.id == before.id
        await index.work()
        after = (await answers(index))[0].space
        assert after.id != before.id
        assert sorted(source.embedded()) == ["a", "b"]

    asyncio.run(run())


def test_a_limited_round_does_part_of_it():
    """A round whose time is over stops between batches, says so, and the next one goes on where it stopped."""

    async def run():
        here, source = world(), Source()
        await here.add(*(f"a {n}" for n in range(40)))
        index = here.index(source)
        done = await index.work(seconds=0.0)
        assert not done.complete
        while not done.complete:
            done = await index.work()
        assert set(Counter(source.embedded()).values()) == {1}
        assert len(source.embedded()) == 40

    asyncio.run(run())


def test_nothing_is_loaded_for_work_in_passing():
    """With `only_loaded`, a source that nobody has used yet is not opened."""

    async def run():
        here, source = world(), Source()
        await here.add("a")
        index = here.index(source)
        await index.work(only_loaded=True)
        assert source.openings == 0
        await index.work()
        await here.add("b")
        assert (await index.work(only_loaded=True)).embedded == 1

    asyncio.run(run())


def test_batches_are_as_large_as_the_source_is_fast(monkeypatch):
    """A batch never comes near the time of its lease: it grows while the source is fast and shrinks when it is slow."""

    async def run():
        here, source = world(), Source()
        clock = [0.0]
        monkeypatch.setattr(upkeep.time, "monotonic", lambda: clock[0])
        seconds_a_text = [0.01]

        def answer(texts):
            clock[0] += seconds_a_text[0] * len(texts)
            return Vectors(4, b"".join(map(source.vector, texts)))

        source.answer = answer
        index = here.index(source, batch_texts=128)
        await here.add(*(f"a {n}" for n in range(300)))
        await index.work()
        assert [len(texts) for _, texts in source.asked] == [16, 32, 64, 128, 60]
        source.asked.clear()
        seconds_a_text[0] = 1.0
        await here.add(*(f"b {n}" for n in range(250)))
        await index.work()
        assert [len(texts) for _, texts in source.asked] == [128, 64, 32, 16, 8, 2]

    asyncio.run(run())
