"""The chain: who answers, who is asked next, and what an answer is worth."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from memspine.chain import Chain, Member
from memspine.errors import BackendUnavailable, ClosedError, InvalidMemoryError
from memspine.model import MemoryFilter, NewMemory, Scope

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ME = Scope.of_owner("me")


async def fill(store, id, content="text"):
    await store.create(NewMemory(content=content), scope=ME, id=id, now=NOW)


def create(id):
    return lambda backend: backend.create(NewMemory(content="new"), scope=ME, id=id, now=NOW)


def listing(backend):
    return backend.list(MemoryFilter(), scope=ME, now=NOW, limit=10)


def test_writes_reach_the_primary_alone(stores):
    """A write goes to the primary and to no fallback, also when the primary is down."""

    async def run():
        chain = stores("first", "second")
        await chain.chain.write("create", create("a"), ids=["a"])
        assert "create" in chain["first"].calls
        chain.down("first")
        with pytest.raises(BackendUnavailable):
            await chain.chain.write("create", create("b"), ids=["b"])
        assert chain["second"].calls == []

    asyncio.run(run())


def test_get_asks_fallbacks_for_what_the_primary_lacks(stores):
    """An id that the primary does not have is looked for in the fallbacks, in order."""

    async def run():
        chain = stores("first", "second", "third")
        await fill(chain["first"], "a", "of first")
        await fill(chain["third"], "b", "of third")
        answer = await chain.chain.get_many(["b", "a", "missing"], scope=ME, now=NOW)
        assert {id: memory.content for id, memory in answer.memories.items()} == {"b": "of third", "a": "of first"}
        assert list(answer.memories) == ["b", "a"]
        assert answer.failures == ()
        assert answer.backends == {"a": "first", "b": "third"}

    asyncio.run(run())


def test_get_from_a_fallback_after_a_failure_is_degraded(stores):
    """When the primary fails, a fallback's answer says so and names the cause."""

    async def run():
        chain = stores("first", "second")
        await fill(chain["second"], "a")
        chain.down("first")
        answer = await chain.chain.get_many(["a"], scope=ME, now=NOW)
        assert answer.backends == {"a": "second"}
        assert "first" in answer.failures[0]
        assert "connection refused" in answer.failures[0]

    asyncio.run(run())


def test_a_tombstone_of_the_primary_keeps_fallbacks_from_bringing_a_memory_back(stores):
    """What was deleted on the primary stays deleted, though a fallback still has it."""

    async def run():
        chain = stores("first", "second")
        for store in ("first", "second"):
            await fill(chain[store], "a")
        await chain["first"].delete("a", scope=ME, now=NOW)
        answer = await chain.chain.get_many(["a"], scope=ME, now=NOW)
        assert answer.memories == {}

    asyncio.run(run())


def test_a_primary_that_is_asked_alone_has_all_the_time(stores):
    """Where no fallback is to be asked, none is left time for."""

    async def run():
        chain = stores("first", "second", "third", deadline_seconds=1.0)
        await fill(chain["first"], "a")
        get_many = chain["first"].get_many

        async def slow(ids, **named):
            await asyncio.sleep(0.5)
            return await get_many(ids, **named)

        chain["first"].get_many = slow
        answer = await chain.chain.get_many(["a"], scope=ME, now=NOW, primary_only=True)
        assert answer.backends == {"a": "first"}

    asyncio.run(run())


def test_unreadable_tombstones_count_as_a_failure(stores):
    """When the primary cannot say what was deleted, no fallback is asked, and the answer says why."""

    async def run():
        chain = stores("first", "second")
        await fill(chain["second"], "a")

        async def fails(ids, *, scope):
            raise BackendUnavailable("first", "disk error")

        chain["first"].tombstones = fails
        answer = await chain.chain.get_many(["a"], scope=ME, now=NOW)
        assert answer.memories == {}
        assert "disk error" in answer.failures[0]

    asyncio.run(run())


def test_listing_stays_with_the_primary_unless_configured(stores):
    """`list` on a failed primary raises, unless `read_fallback` lets a fallback answer, marked as degraded."""

    async def run():
        chain = stores("first", "second")
        chain.down("first")
        with pytest.raises(BackendUnavailable):
            await chain.chain.read_listing("list", listing)
        chain = stores("first", "second", read_fallback=True)
        await fill(chain["second"], "a")
        chain.down("first")
        answer = await chain.chain.read_listing("list", listing)
        assert (answer.backend, len(answer.value.memories), len(answer.degraded)) == ("second", 1, 1)

    asyncio.run(run())


def test_search_never_leaves_a_store_because_it_found_nothing(stores):
    """An empty answer of the primary is the answer; fallbacks are asked only when it fails."""

    async def run():
        chain = stores("first", "second")
        await fill(chain["second"], "a")
        answer = await chain.chain.search(listing)
        assert (answer.backend, answer.value.memories) == ("first", ())
        chain.down("first")
        assert (await chain.chain.search(listing)).backend == "second"

    asyncio.run(run())


def test_when_all_fail_the_error_lists_each_cause(stores):
    """A search that nobody answers raises and names every store with its cause; it never answers with nothing."""

    async def run():
        chain = stores("first", "second")
        chain.down("first", BackendUnavailable("first", "no route"))
        chain.down("second", KeyError("oops"))
        with pytest.raises(BackendUnavailable) as caught:
            await chain.chain.search(listing)
        assert len(caught.value.causes) == 2
        assert "no route" in str(caught.value)
        assert "KeyError" in str(caught.value)

    asyncio.run(run())


def test_a_hanging_store_costs_its_deadline_and_no_more(stores):
    """A call that does not come back is given up at the deadline, and the fallback answers."""

    async def run():
        chain = stores("first", "second", deadline_seconds=0.05)
        chain.down("first", "hang")
        loop = asyncio.get_running_loop()
        started = loop.time()
        answer = await chain.chain.search(listing)
        assert answer.backend == "second"
        assert loop.time() - started < 20

    asyncio.run(run())


def test_a_write_that_was_given_up_has_an_unknown_outcome(stores):
    """A write cut off by the deadline says that its outcome is unknown and which id makes repeating it safe."""

    async def run():
        chain = stores("first", deadline_seconds=0.05)
        chain.down("first", "hang")
        with pytest.raises(BackendUnavailable) as caught:
            await chain.chain.write("create", create("a"), ids=["a"])
        assert (caught.value.outcome, caught.value.id) == ("unknown", "a")
        assert "'a'" in str(caught.value)

    asyncio.run(run())


def test_errors_of_the_caller_are_not_outages(stores):
    """An error that memspine raises for bad input passes unchanged and asks no other store."""

    async def run():
        chain = stores("first", "second")
        chain.down("first", InvalidMemoryError("field", 1, "other"))
        with pytest.raises(InvalidMemoryError):
            await chain.chain.search(listing)
        assert chain["second"].calls == []

    asyncio.run(run())


def test_opening_that_failed_is_tried_again():
    """A store that could not be opened is opened at a later call; closing twice does no harm."""

    async def run():
        from memspine.conformance.reference.backend import ReferenceBackend

        attempts = []

        @asynccontextmanager
        async def open():
            attempts.append(1)
            if len(attempts) == 1:
                raise OSError("not mounted")
            yield ReferenceBackend("late")

        chain = Chain([Member("late", open=open)], deadline_seconds=1)
        with pytest.raises(BackendUnavailable, match="not mounted"):
            await chain.search(listing)
        assert (await chain.search(listing)).backend == "late"
        assert len(attempts) == 2
        await chain.close()
        await chain.close()

    asyncio.run(run())


def test_a_slow_opening_goes_on_after_its_caller_gave_up():
    """An opening that outlasts a deadline is not stopped (a store may be migrating), and later calls use it."""

    async def run():
        from memspine.conformance.reference.backend import ReferenceBackend

        opened = []

        @asynccontextmanager
        async def open():
            await asyncio.sleep(0.2)
            opened.append(1)
            yield ReferenceBackend("slow")

        chain = Chain([Member("slow", open=open)], deadline_seconds=0.05)
        with pytest.raises(BackendUnavailable, match="longer than"):
            await chain.search(listing)
        await asyncio.sleep(0.3)
        assert (await chain.search(listing)).backend == "slow"
        assert opened == [1]
        await chain.close()

    asyncio.run(run())


def test_health_reports_every_member(stores):
    """A dead store is a line in the report, never an exception, and the others are probed."""

    async def run():
        chain = stores("first", "second")
        chain.down("first", RuntimeError("broken"))
        health = await chain.chain.health()
        assert list(health) == ["first", "second"]
        assert not health["first"].ok
        assert "broken" in health["first"].detail
        assert health["second"].ok

    asyncio.run(run())


@pytest.mark.parametrize("raised", [SystemExit(0), SystemExit(5), ValueError("bad"), OSError("gone")])
def test_whatever_opening_raises_is_an_outage(raised):
    """A store that ends the process or raises anything while it opens is unavailable, and others answer."""

    async def run():
        from memspine.conformance.reference.backend import ReferenceBackend

        @asynccontextmanager
        async def broken():
            raise raised
            yield

        @asynccontextmanager
        async def sound():
            yield ReferenceBackend("sound")

        chain = Chain([Member("broken", open=broken), Member("sound", open=sound)], deadline_seconds=1)
        answer = await chain.search(listing)
        assert (answer.backend, len(answer.degraded)) == ("sound", 1)
        with pytest.raises(BackendUnavailable):
            await chain.write("create", create("a"), ids=["a"])
        await chain.close()

    asyncio.run(run())


def test_a_store_that_fails_to_close_is_named():
    """An error of closing names its store, and the other stores are closed all the same."""

    async def run():
        from memspine.conformance.reference.backend import ReferenceBackend

        closed = []

        def store(name, *, fails):
            @asynccontextmanager
            async def open():
                yield ReferenceBackend(name)
                if fails:
                    raise RuntimeError("disk gone")
                closed.append(name)

            return Member(name, open=open)

        chain = Chain([store("first", fails=True), store("second", fails=False)], deadline_seconds=1)
        for member in chain.members:
            await member.opened()
        with pytest.raises(BackendUnavailable, match="first: closing failed"):
            await chain.close()
        assert closed == ["second"]

    asyncio.run(run())


def test_nothing_opens_after_closing(stores):
    """A call that comes after the chain was closed raises ClosedError and opens no store again."""

    async def run():
        chain = stores("first")
        await chain.chain.close()
        with pytest.raises(ClosedError):
            await chain.chain.search(listing)

    asyncio.run(run())
