"""What a question of a manager without background work waits for, and what its answer says of the rest."""

from __future__ import annotations

import asyncio
import time

import pytest

from memspine import MemoryManager, times
from memspine.conformance.reference.embeddings import ReferenceEmbeddings
from memspine.errors import EmbeddingError
from memspine.model import NewMemory

LATE = "what was written just before may not be found yet"
SLOW_SECONDS = 0.5


@pytest.fixture
def asked(monkeypatch):
    """The batches of documents that the reference source was asked for; each takes longer than a question waits."""
    monkeypatch.setattr("memspine.catchup.WAIT_SECONDS_MAX", 0.1)
    batches, embed = [], ReferenceEmbeddings.embed

    async def slow(self, texts, *, role):
        if role == "document":
            batches.append(len(texts))
            await asyncio.sleep(SLOW_SECONDS)
        return await embed(self, texts, role=role)

    monkeypatch.setattr(ReferenceEmbeddings, "embed", slow)
    return batches


@pytest.fixture
def settings(settings):
    """A manager that finds by meaning."""
    return settings | {"vectors": {"plugin": "reference"}, "embedding": {"source": "reference"}}


def with_manager(settings, test):
    async def run():
        async with MemoryManager(settings, background=False) as memory:
            return await test(memory)

    return asyncio.run(run())


async def question(memory, **options):
    """What an answer says it may lack, and how long it took."""
    started = time.monotonic()
    result = await memory.search("duck", **options)
    return [text for text in result.trace.degraded if LATE in text], time.monotonic() - started


def test_an_answer_says_what_it_did_not_wait_for(settings, asked):
    """With a slow source one question waits and the next ones do not, each says what it may lack, also once the space
    was complete, and what was begun is finished: nothing is embedded twice, and in the end all is there."""

    async def test(memory):
        await memory.create("Juno eats duck")
        await memory.reindex()
        await memory.create_many([memory_of(n) for n in range(20)])
        asked.clear()
        told, spent = await question(memory)
        assert told == [f"{LATE}: it takes longer than 0.1 s"]
        assert 0.1 <= spent < SLOW_SECONDS
        told, spent = await question(memory)
        assert (len(told), spent < 0.1) == (1, True)
        ends = time.monotonic() + 10
        while (await question(memory))[0]:
            assert time.monotonic() < ends
            await asyncio.sleep(0.05)
        assert sum(asked) == 20
        spaces = (await memory.engine()).vectors.spaces
        assert [space.held for space in spaces] == [21]

    with_manager(settings, test)


def test_a_question_waits_again_after_something_succeeded(settings, asked, monkeypatch):
    """Once a round has come to something, the next question waits for what is new, and says nothing."""

    async def test(memory):
        await memory.create("Juno eats duck")
        assert (await question(memory))[0]
        await asyncio.sleep(SLOW_SECONDS + 0.1)
        monkeypatch.setattr(f"{__name__}.SLOW_SECONDS", 0.03)
        await memory.create("Juno eats potato")
        assert (await question(memory))[0] == []
        assert asked == [1, 1]

    with_manager(settings, test)


def test_what_others_write_is_no_reason_to_say_anything(settings, asked):
    """An answer of a manager that wrote nothing says nothing of what other processes wrote."""

    async def test(memory):
        backend = await memory._open.chain.primary.opened()  # noqa: SLF001 - another process, in this one
        await memory.reindex()
        scope = memory._open.policy.writing_scope(None, management=False)  # noqa: SLF001 - the same
        await backend.create(memory_of(1), scope=scope, id="m1", now=times.now())
        assert (await question(memory))[0] == []
        assert asked == [1]

    with_manager(settings, test)


def test_only_what_answers_counts(settings, asked, monkeypatch):
    """A source that only stands in for another may fail or lag behind: the answer lacks nothing for that, nor does one
    that comes from the words alone."""
    monkeypatch.setattr(f"{__name__}.SLOW_SECONDS", 0.0)
    settings["embedding"] |= {"fallback": "other", "other": {"plugin": "reference", "dimension": 7}}
    identity = ReferenceEmbeddings.identity

    async def broken(self):
        if self.name == "other":
            raise EmbeddingError("other", "is out of order", expected="it", kind="config")
        return await identity(self)

    monkeypatch.setattr(ReferenceEmbeddings, "identity", broken)

    async def test(memory):
        await memory.create("Juno eats duck")
        assert (await question(memory))[0] == []
        monkeypatch.setattr(f"{__name__}.SLOW_SECONDS", 1.0)
        await memory.create("Juno eats potato")
        assert (await question(memory, strategy="exact"))[0] == []
        assert len((await question(memory))[0]) == 1

    with_manager(settings, test)


def test_placed_memories_say_it_too(settings, asked):
    """A request that memories are placed into gets the same note with its trace."""

    async def test(memory):
        await memory.create("Juno eats duck")
        await memory.reindex()
        await memory.create("Juno eats potato")
        request = {"messages": [{"role": "user", "content": "What does Juno eat?"}]}
        placed = await memory.inject(request, shape="openai.chat")
        assert any(LATE in text for text in placed.trace.degraded)

    with_manager(settings, test)


def test_leaving_lets_a_batch_end(settings, asked, monkeypatch):
    """A batch that was begun before a manager is left is finished if that takes no longer than a question waits."""
    monkeypatch.setattr(f"{__name__}.SLOW_SECONDS", 0.15)
    held = []

    async def test(memory):
        await memory.create("Juno eats duck")
        assert (await question(memory))[0]
        held.append(await memory._open.index._store.opened())  # noqa: SLF001 - to look after it was closed

    with_manager(settings, test)
    assert [len(shelf.chunks) for shelf in held[0].shelves.values()] == [1]


def memory_of(number):
    return NewMemory(content=f"duck number {number}")


def test_questions_that_come_at_once_wait_alike(settings, asked, monkeypatch):
    """Of several questions that meet a round under way, each waits for the one that takes in what was written last."""
    monkeypatch.setattr("memspine.catchup.WAIT_SECONDS_MAX", 2.0)
    monkeypatch.setattr(f"{__name__}.SLOW_SECONDS", 0.1)

    async def test(memory):
        await memory.create("Juno eats walnuts")
        await memory.reindex()
        asked.clear()
        await memory.create("Juno eats duck")
        first = asyncio.create_task(question(memory))
        await asyncio.sleep(0.05)
        await memory.create("Juno eats potato")
        others = [question(memory) for _ in range(3)]
        assert [told for told, _ in await asyncio.gather(first, *others)] == [[]] * 4
        assert sum(asked) == 2

    with_manager(settings, test)


def test_a_mistake_is_raised_once(settings, monkeypatch):
    """A mistake in a round reaches one question, and the next one begins another round."""

    async def test(memory):
        await memory.create("Juno eats duck")
        running, calls = memory._open, []  # noqa: SLF001 - a mistake cannot be made from outside
        work = running.index.work

        async def mistaken(**options):
            calls.append(1)
            if len(calls) == 1:
                raise TypeError("a mistake")
            return await work(**options)

        monkeypatch.setattr(running.index, "work", mistaken)
        with pytest.raises(TypeError, match="a mistake"):
            await memory.search("duck")
        assert (await question(memory))[0] == []
        assert len(calls) == 2

    with_manager(settings, test)


def test_without_maintenance_questions_catch_up(settings):
    """A long-lived manager that keeps nothing up in the background indexes before its questions, as others do."""
    settings["maintenance"] = {"enabled": False}

    async def run():
        async with MemoryManager(settings) as memory:
            await memory.create("Juno eats duck")
            return (await memory.search("duck")).trace

    trace = asyncio.run(run())
    assert trace.degraded == ()
    assert {leg.leg: leg.status for leg in trace.legs} == {"keyword": "ran", "vector": "ran"}


def test_a_source_that_is_slower_than_its_time_is_not_late(settings, asked, monkeypatch):
    """A batch that ends after the time of its round and was all there was to do leaves nothing to say."""
    monkeypatch.setattr("memspine.catchup.WAIT_SECONDS_MAX", 2.0)
    monkeypatch.setattr(f"{__name__}.SLOW_SECONDS", 0.2)

    async def test(memory):
        await memory.create("Juno eats duck")
        await memory.reindex()
        for n in range(3):
            await memory.create(f"Juno eats potato {n}")
            assert (await question(memory))[0] == []

    with_manager(settings, test)
