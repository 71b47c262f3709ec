"""Who is asked, in which order, and what an answer is worth."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable, ConflictError, CursorError, InvalidMemoryError, NotFoundError
from memspine.model import Memory, MemoryFilter, NewMemory

from .worlds import ME

WRITING = ("create", "create_many", "update", "delete", "delete_many", "put", "purge")


async def every_write(memory):
    """One of each kind."""
    a = await memory.create("one", id="a")
    await memory.update("a", content="two")
    await memory.create_many([], ids=[])
    await memory.delete("a")
    await memory.restore("a", revision=1)
    await memory.put(
        [Memory(id="p", owner="me", content="p", created_at=a.memory.created_at, updated_at=a.memory.created_at)]
    )
    await memory.delete_many(MemoryFilter(text="p"), dry_run=False)


@clause("CH-1")
async def test_writes_go_to_the_primary_alone(worlds):
    """No write of a caller reaches a fallback, replica or not; what reaches a replica is delivered."""
    world = worlds(fallbacks=("archive",))
    async with world.open() as memory:
        await every_write(memory)
        assert not set(WRITING) & {*world["team"].calls, *world["archive"].calls}
        await memory.create("two", id="b")
        await world.quiet(memory)
        await memory.purge(["a"])
        assert set(WRITING) & set(world["archive"].calls) == set()
        assert set(WRITING) & set(world["team"].calls) == {"put", "purge"}


@clause("CH-1", "CH-30")
async def test_a_write_without_a_primary_is_refused(worlds):
    """Where writes do not wait, each raises BackendUnavailable while the primary is down, and nothing is kept."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        for write in (
            memory.create("two"), memory.update("a", content="x"), memory.delete("a"), memory.purge(["a"]),
            memory.delete_many(MemoryFilter(), dry_run=False), memory.restore("a", revision=1), memory.put([]),
            memory.create_many([NewMemory(content="two")]),
        ):  # fmt: skip
            with pytest.raises(BackendUnavailable) as caught:
                await write
            assert caught.value.outcome == "none"
        assert await memory.journal_entries() == ()
        await world.back(memory)
        assert (await memory.get("a")).memory.content == "one"


@clause("CH-2")
async def test_a_replica_is_asked_only_when_the_primary_failed(worlds):
    """A primary that answers "none" is believed over a replica; one that fails is not needed for what a replica has."""
    world = worlds()
    async with world.open() as memory:
        await world.add("team", "other", "put there by others")
        await memory.create("one", id="a")
        await world.quiet(memory)
        world["team"].calls.clear()
        with pytest.raises(NotFoundError):
            await memory.get("other")
        assert world["team"].calls == []
        world.down("notes")
        found = await memory.get("a")
        assert (found.memory.content, found.backend) == ("one", "team")
        assert (await memory.get("other")).backend == "team"


@clause("CH-2", "CH-3")
async def test_a_fallback_has_what_the_primary_lacks(worlds):
    """What the primary does not have comes from the fallbacks in order, unless the primary has deleted it."""
    world = worlds(replicas=(), fallbacks=("archive", "attic"))
    async with world.open() as memory:
        await world.add("archive", "x", "archived")
        await world.add("attic", "x", "older")
        await world.add("attic", "y", "in the attic")
        await world.add("attic", "z", "deleted")
        await memory.create("here", id="here")
        await memory.create("z", id="z")
        await world["notes"].store.delete("z", scope=ME, now=world.clock())  # by another client: no journal knows
        found = await memory.get_many(["y", "z", "x"])
        assert [(id, one.memory.content, one.backend) for id, one in found.items()] == [
            ("y", "in the attic", "attic"), ("x", "archived", "archive")
        ]  # fmt: skip
        assert all(not one.degraded for one in found.values())
        world["archive"].calls.clear()
        assert (await memory.get("here")).backend == "notes"
        assert world["archive"].calls == []


@pytest.mark.parametrize("read_fallback", [False, True])
@clause("CH-4", "CH-8")
async def test_list_and_count(worlds, read_fallback):
    """Only with read_fallback do fallbacks answer list and count, in order, and then they say so."""
    world = worlds(fallbacks=("archive",), read_fallback=read_fallback)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes")
        if not read_fallback:
            for call in (memory.list(), memory.count()):
                with pytest.raises(BackendUnavailable):
                    await call
            return
        page, counts = await memory.list(), await memory.count()
        assert ([one.id for one in page.memories], page.backend) == (["a"], "team")
        assert (counts.total, counts.backend) == (1, "team")
        assert "connection refused" in page.degraded[0]
        assert "connection refused" in counts.degraded[0]


@clause("CH-5", "CH-8")
async def test_search_goes_on_only_after_a_failure(worlds):
    """An empty answer is the answer; after a failure the next store is asked, and the answer says which and why; when
    all fail, the error names each cause."""
    world = worlds(fallbacks=("archive",))
    async with world.open() as memory:
        await world.add("archive", "x", "walnut")
        found = await memory.search("walnut")
        assert (found.hits, found.trace.backend) == ((), "notes")
        world.down("notes")
        world.down("team", "hang")
        found = await memory.search("walnut")
        assert ([hit.memory.id for hit in found.hits], found.trace.backend) == (["x"], "archive")
        assert "connection refused" in found.trace.degraded[0]
        assert "took longer" in found.trace.degraded[1]
        world.down("archive", "reset")
        with pytest.raises(BackendUnavailable) as caught:
            await memory.search("walnut")
        assert [cause.split(":")[0] for cause in caught.value.causes] == ["notes", "team", "archive"]


@pytest.mark.parametrize("store", ["notes", "archive"])
@clause("CH-6", "CH-8")
async def test_a_miss_during_an_outage_is_no_absence(worlds, store):
    """What is found nowhere while a store failed that should have been asked may exist: the error says so; what is
    found elsewhere is given, with the failure told."""
    world = worlds(replicas=(), fallbacks=("archive", "attic"))
    async with world.open() as memory:
        await world.add("attic", "x", "in the attic")
        world.down(store)
        with pytest.raises(BackendUnavailable, match="was not found where it could be looked for"):
            await memory.get("gone")
        found = await memory.get("x")
        assert found.backend == "attic"
        assert any("connection refused" in reason for reason in found.degraded)
        world.up()
        await memory.health()
        with pytest.raises(NotFoundError):
            await memory.get("gone")


@clause("CH-7")
async def test_refusals_are_no_outages(worlds):
    """What a store refuses is the caller's error: no other store is asked, and no breaker counts it."""
    world = worlds(on_write_failure="spool")
    async with world.open() as memory:
        await memory.create("one", id="a")
        world["team"].calls.clear()
        for _ in range(5):
            with pytest.raises(NotFoundError):
                await memory.update("gone", content="x")
            with pytest.raises(ConflictError):
                await memory.update("a", content="x", expected_revision=7)
            with pytest.raises(InvalidMemoryError):
                await memory.create("")
        assert (world["team"].calls, await memory.journal_entries()) == ([], ())
        assert (await memory.status()).backends[0].breaker == "closed"


@clause("CH-7")
async def test_a_refused_reading_is_asked_of_nobody_else(worlds):
    """A get, a list or a search that a store refuses is refused, and no other store is asked."""
    world = worlds(fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world["team"].calls.clear()
        world["notes"].store.get_many = world["notes"].store.lexical = _refused
        for call in (memory.get("a"), memory.search("one")):
            with pytest.raises(InvalidMemoryError, match="a shorter one"):
                await call
        with pytest.raises(CursorError):
            await memory.list(cursor="nonsense")
        assert (world["team"].calls, world["archive"].calls) == ([], [])


async def _refused(*_, **__):
    raise InvalidMemoryError("id", "a", "a shorter one")


@pytest.mark.parametrize("down", [None, "notes"])
@clause("CH-9")
async def test_no_store_shows_what_is_anothers(worlds, down):
    """Ids, contents, counts and pending writes of another owner are seen through no store of the chain."""
    world = worlds(fallbacks=("archive",), read_fallback=True, on_write_failure="spool")
    async with world.open() as memory:
        await memory.create("walnut of eve", id="e", owner="eve", management=True)
        await world.add("archive", "old", "walnut of eve", owner="eve")
        await world.quiet(memory)
        if down:
            world.down(down)
            await memory.create("walnut of eve", id="late", owner="eve", management=True)
        for id in ("e", "old", "late"):
            with pytest.raises((NotFoundError, BackendUnavailable)):
                await memory.get(id)
        page, counts, hits = await memory.list(), await memory.count(), await memory.search("walnut")
        assert (page.memories, counts.total, hits.hits) == ((), 0, ())
        for told in (page.degraded, counts.degraded, hits.trace.degraded):
            assert not any("wait" in text for text in told)


@clause("CH-26")
async def test_what_expired_is_shown_by_nobody(worlds, clock):
    """A fallback's copy of what has expired is not shown, also where the primary is down."""
    world = worlds(fallbacks=("archive",))
    async with world.open() as memory:
        await memory.create("soon gone", id="a", expires_at=clock() + timedelta(seconds=60))
        await world.quiet(memory)
        world.clock.forward(120)
        with pytest.raises(NotFoundError):
            await memory.get("a")
        world.down("notes")
        with pytest.raises(BackendUnavailable):
            await memory.get("a")
        assert (await memory.search("soon")).hits == ()
        assert await world["team"].store.get("a", scope=ME, now=clock()) is None


@clause("CH-26")
async def test_what_expired_is_shown_by_no_store_whose_clock_is_behind(worlds, clock):
    """A fallback that does not see yet that a memory has expired shows it in no answer."""
    world = worlds(read_fallback=True)
    store = world["team"].store

    def behind(found):
        async def call(*arguments, now, **named):
            return await found(*arguments, now=now - timedelta(seconds=100), **named)

        return call

    async with world.open() as memory:
        await memory.create("walnut soon gone", id="a", expires_at=clock() + timedelta(seconds=60))
        await memory.create("walnut", id="b")
        await memory.maintain(["deliver"])
        for name in ("get_many", "list", "lexical"):
            setattr(store, name, behind(getattr(store, name)))
        world.clock.forward(70)
        world.down("notes")
        assert await store.get_many(["a"], scope=ME, now=clock()) != {}
        with pytest.raises(BackendUnavailable):
            await memory.get("a")
        assert [one.id for one in (await memory.list()).memories] == ["b"]
        assert [hit.memory.id for hit in (await memory.search("walnut")).hits] == ["b"]
