"""How long a call may take, and when a store is left alone."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable

from .worlds import ALL, DEADLINE_SECONDS, PLAIN

WRITING = ("create", "create_many", "update", "delete", "delete_many", "put", "purge")


@clause("CH-10")
async def test_a_read_ends_within_the_deadline(worlds):
    """However many stores hang, a read as a whole keeps to the deadline, and a later store still answers."""
    world = worlds(replicas=(), fallbacks=("archive", "attic"), deadline_seconds=1.0, read_fallback=True)
    async with world.open() as memory:
        await world.add("attic", "x", "in the attic")
        world.down("notes", "hang")
        world.down("archive", "hang")
        began = time.monotonic()
        assert (await memory.get("x")).backend == "attic"
        assert time.monotonic() - began < 1.0
        began = time.monotonic()
        assert (await memory.count()).backend == "attic"
        assert time.monotonic() - began < 1.0


@clause("CH-10")
async def test_a_search_has_its_deadline_for_each_store(worlds):
    """A store that hangs is given up after the deadline, and the next one has all of it again."""
    world = worlds(replicas=(), fallbacks=("archive",), deadline_seconds=0.5)
    search = world["archive"].store.lexical

    async def slow(*arguments, **named):
        await asyncio.sleep(0.3)
        return await search(*arguments, **named)

    async with world.open() as memory:
        await world.add("archive", "x", "walnut")
        world.down("notes", "hang")
        world["archive"].store.lexical = slow
        began = time.monotonic()
        async with asyncio.timeout(5):
            assert [hit.memory.id for hit in (await memory.search("walnut")).hits] == ["x"]
        assert 0.7 < time.monotonic() - began < 1.0


@pytest.mark.parametrize(
    ("kind", "outcome", "is_done"), [("refused", "none", False), ("hang", "unknown", False), ("late", "unknown", True),
                                      ("reset", "unknown", False), ("lost", "unknown", True)]
)  # fmt: skip
@clause("CH-11")
async def test_what_is_known_of_a_failed_write(worlds, kind, outcome, is_done):
    """A write that was cut off or broke has an unknown outcome and names its id; repeating it with that id is safe."""
    world = worlds()
    async with world.open() as memory:
        world.down("notes", kind, spared=("health",))
        with pytest.raises(BackendUnavailable) as caught:
            await memory.create("one", id="a")
        assert caught.value.outcome == outcome
        assert caught.value.id == ("a" if outcome == "unknown" else None)
        assert bool(await world.contents("notes")) == is_done
        await world.back(memory)
        await memory.create("one", id="a")
        assert await world.contents("notes") == {"a": "one"}


@pytest.mark.parametrize("replicas", [(), ("team",)], ids=["alone", "with a replica"])
@clause("CH-11")
async def test_a_write_that_never_began(worlds, replicas):
    """A write to a store that cannot even be opened has changed nothing, and says so."""
    world = worlds(replicas=replicas)
    notes = world.stores.pop("notes")
    async with world.open() as memory:
        with pytest.raises(BackendUnavailable) as caught:
            await memory.create("one", id="a")
        assert (caught.value.outcome, caught.value.id) == ("none", None)
        world.stores["notes"] = notes
        assert (await memory.create("one", id="a")).backend == "notes"


@clause("CH-11")
async def test_a_caller_that_gives_up_a_try(worlds):
    """The one call that tries a store after a pause may be cancelled: then the next one tries it."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes", spared=("health",))
        for _ in range(3):
            await memory.get("a")
        world.down("notes", "hang", spared=("health",))
        await memory.health()
        trying = asyncio.create_task(memory.get("a"))
        await asyncio.sleep(0.02)
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying
        world.up()
        assert (await memory.get("a")).backend == "notes"


@clause("CH-11")
async def test_a_caller_that_gives_up(worlds):
    """A cancelled write leaves the chain usable and says nothing of the store's health; repeating it is safe."""
    world = worlds(deadline_seconds=5.0)
    async with world.open() as memory:
        world.down("notes", "late", spared=("health",))
        for _ in range(4):
            write = asyncio.create_task(memory.create("one", id="a"))
            await asyncio.sleep(0.02)
            write.cancel()
            with pytest.raises(asyncio.CancelledError):
                await write
        assert (await memory.status()).backends[0].breaker == "closed"
        world.up()
        assert (await memory.create("one", id="a")).backend == "notes"
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "one"}


@clause("CH-12", "CH-13")
async def test_a_store_that_keeps_failing_is_left_alone(worlds):
    """After three failures in a row a store is not called, which costs no time; after a pause one call tries it: while
    it fails the others stay away, and its success lets everybody in."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes", "hang")
        for n in range(1, 4):
            assert (await memory.get("a")).backend == "team"
            assert len(world["notes"].calls) == n
        world["notes"].calls.clear()
        began = time.monotonic()
        found = await memory.get("a")
        assert time.monotonic() - began < DEADLINE_SECONDS
        assert (found.backend, world["notes"].calls) == ("team", [])
        assert re.search(r"is left alone for (1\.0|0\.\d) s after: .*took longer", found.degraded[0])
        await asyncio.sleep(1.05)
        found = await asyncio.gather(*(memory.get("a") for _ in range(5)))
        assert len(world["notes"].calls) == 1
        assert {one.backend for one in found} == {"team"}
        found = await memory.get("a")  # twice as long by now
        assert re.search(r"is left alone for (2\.0|1\.[2-9]) s", found.degraded[0])
        assert len(world["notes"].calls) == 1
        world.up()
        get_many = world["notes"].store.get_many

        async def slowly(*arguments, **named):
            await asyncio.sleep(0.02)
            return await get_many(*arguments, **named)

        world["notes"].store.get_many = slowly
        await asyncio.sleep(2.05)
        assert (await memory.get("a")).backend == "notes"
        assert {one.backend for one in await asyncio.gather(*(memory.get("a") for _ in range(5)))} == {"notes"}


@clause("CH-12")
async def test_failures_that_are_not_in_a_row(worlds):
    """A store that works in between is never left alone, however often it fails."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        for _ in range(3):
            world.down("notes")
            for _ in range(2):
                assert "connection refused" in (await memory.get("a")).degraded[0]
            world.up()
            assert (await memory.get("a")).backend == "notes"


@clause("CH-13")
async def test_many_calls_that_meet_one_outage(worlds):
    """However many calls were under way when a store failed, its first pause is a short one."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes", "hang")
        await asyncio.gather(*(memory.get("a") for _ in range(8)))
        assert re.search(r"is left alone for (1\.0|0\.\d) s", (await memory.get("a")).degraded[0])


@clause("CH-14")
async def test_reading_goes_on_where_writing_fails(worlds):
    """A store that takes no writes is still read: each has a breaker of its own."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes", "refused", spared=("get_many", "health"))
        for _ in range(4):
            with pytest.raises(BackendUnavailable):
                await memory.create("two")
        assert (await memory.get("a")).backend == "notes"
        assert (await memory.status()).backends[0].breaker.startswith("open for writing: ")


@pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])
@clause("CH-12", "CH-14")
async def test_writing_goes_on_where_reading_fails(worlds, primary):
    """A store that cannot be read is still written, and no write makes it look readable: it stays left alone."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes", "refused", spared=("create", "health"))
        for n in range(3):
            await memory.create("more", id=f"b{n}")
            assert (await memory.get("a")).backend == "team"
        world["notes"].calls.clear()
        assert (await memory.create("two", id="c")).backend == "notes"
        assert "is left alone for" in (await memory.get("a")).degraded[0]
        assert world["notes"].calls == ["create"]


@clause("CH-15")
async def test_a_probe_lets_the_next_call_try(worlds):
    """As soon as a probe finds a store well again, the next call uses it, however long its pause was to be."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes")
        for _ in range(4):
            await memory.get("a")
        assert not (await memory.status()).backends[0].health.ok
        assert (await memory.status()).backends[0].breaker == "open for reading: connection refused"
        assert (await memory.get("a")).backend == "team"
        world.up()
        status = await memory.status()
        assert status.backends[0].health.ok
        assert status.backends[0].breaker == "open for reading: connection refused"  # no call has worked yet
        assert (await memory.get("a")).backend == "notes"
        assert (await memory.status()).backends[0].breaker == "closed"
