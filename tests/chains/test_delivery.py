"""What the primary has arrives in every replica."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

import attrs
import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable
from memspine.model import MemoryFilter, Scope, Tombstone

from .worlds import ALL, ME, PLAIN, Killed, same

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])
DAY = 86_400


@BOTH
@clause("CH-50")
async def test_a_new_replica_gets_everything(worlds, primary):
    """What was there before there was a replica is copied with ids, revisions, times, keys, metadata and expiry, of
    every owner; what was deleted while it was copied is not there."""
    world = worlds(primary=primary)
    async with world.open(fallbacks=[]) as memory:
        for n in range(3):
            await memory.create(f"m{n}", id=f"m{n}", metadata={"n": n}, session="s")
        await memory.update("m1", content="changed")
        await memory.create("keyed", key="k", expires_at=world.clock() + timedelta(days=1))
        await memory.create("of eve", id="m0", owner="eve", management=True)
    async with world.open() as memory:
        await world.quiet(memory)
        assert len(await world.held("team")) == 5
        assert await same(world, "team")
        assert (await memory.status()).backends[1].replica.stage == "following"


@pytest.fixture
def small_pages(monkeypatch):
    """Pages of two memories or changes, so that few are many."""
    for module in ("copying.calls", "delivery.sources"):
        monkeypatch.setattr(f"memspine.{module}.PAGE_ROWS", 2)


@BOTH
@clause("CH-50")
async def test_what_changes_while_it_is_copied(worlds, small_pages, primary):
    """A copy that takes several pages, each in a round of its own, comes to its end, and what was changed or deleted
    behind it meanwhile arrives as it is by then."""
    world = worlds(primary=primary)
    async with world.open(fallbacks=[]) as memory:
        for n in range(5):
            await memory.create(f"m{n}", id=f"m{n}")
    async with world.open() as memory:
        debts = memory._running.debts  # noqa: SLF001 - a round that has time for one page
        await debts.run(seconds=0.0)
        assert set(await world.contents("team")) == {"m0", "m1"}
        await memory.delete("m0")
        for _ in range(2):
            await debts.run(seconds=0.0)
        replica = (await memory.status()).backends[1].replica
        assert (replica.stage, replica.behind, replica.behind_more) == ("following", 1, False)
        await memory.update("m1", content="changed")
        await debts.run(seconds=0.0)
        assert await world.contents("team") == await world.contents("notes")
        assert set(await world.contents("team")) == {"m1", "m2", "m3", "m4"}


@BOTH
@clause("CH-51")
async def test_all_changes_arrive_in_one_go(worlds, small_pages, primary):
    """A round that has time brings all changes, however many pages they are."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await world.quiet(memory)
        for n in range(5):
            await memory.create(f"m{n}", id=f"m{n}")
        report = await memory.maintain(["deliver"])
        assert (report.delivered, report.complete) == (5, True)


@BOTH
@clause("CH-51")
async def test_a_change_that_nobody_knows_of_arrives(worlds, primary):
    """A write whose answer was lost arrives in the replica if it was done, and then nothing is behind any more."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes", "lost", spared=("health",))
        with pytest.raises(BackendUnavailable):
            await memory.update("a", content="two")
        await world.back(memory)
        await memory.maintain(["deliver"])
        assert await world.contents("team") == {"a": "two"}
        await world.quiet(memory)
        assert (await memory.status()).backends[1].replica.behind == 0


@BOTH
@clause("CH-51")
async def test_every_change_arrives(worlds, primary):
    """Creates, replacements, updates, deletes, bulk deletes, restored states and purges arrive in each replica, with
    the revisions of a primary that counts them."""
    world = worlds(primary=primary, replicas=("team", "far"))
    async with world.open() as memory:
        for n in range(6):
            await memory.create(f"m{n}", id=f"m{n}")
        await world.quiet(memory)
        await memory.update("m0", content="changed")
        await memory.update("m0", content="changed again")
        await memory.create("one", key="k")
        await memory.create("two", key="k")
        await memory.delete("m1")
        await memory.delete("m2")
        await memory.create("m2 again", id="m2")
        await memory.delete_many(MemoryFilter(text="m3"), dry_run=False)
        await memory.purge(["m4"])
        await world.quiet(memory)
        assert await same(world, "team", "far", revisions=primary is ALL)
        assert set((await world.contents("team")).values()) == {"changed again", "two", "m2 again", "m5"}
        await memory.delete("m0")
        await memory.restore("m0", revision=2)
        await world.quiet(memory)
        assert await same(world, "team", "far", revisions=primary is ALL)
        assert "m0" in await world.contents("far")


@BOTH
@pytest.mark.parametrize("forgets", [False, True])
@clause("CH-51")
async def test_a_deletion_is_one_there(worlds, primary, forgets):
    """What the primary has deleted is deleted in the replica, with a tombstone, though the primary keeps none."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.delete("a")
        if forgets:
            world["notes"].store.state.shelf("me").tombstones.clear()
        await world.quiet(memory)
        assert set(await world["team"].store.tombstones(["a"], scope=ME)) == {"a"}


@clause("CH-51")
async def test_a_primary_that_counts_nothing(worlds):
    """All states of a primary whose revisions are always the same arrive, and deletions among them."""
    world = worlds(primary=PLAIN)
    store = world["notes"].store
    get_many = store.get_many

    async def uncounted(ids, **named):
        return {id: attrs.evolve(one, revision=1) for id, one in (await get_many(ids, **named)).items()}

    store.get_many = uncounted
    async with world.open() as memory:
        for content in ("one", "two", None, "three", "four", None, "two"):
            if content is None:
                await memory.delete("a")
            else:
                await memory.create(content, id="a")
            await world.quiet(memory)
            assert await world.contents("team") == ({} if content is None else {"a": content})
            assert await memory.journal_entries() == ()


@clause("CH-51")
async def test_states_in_between_arrive_too(worlds):
    """A replica that keeps history gets every state of a memory, in order."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.update("a", content="two")
        await world.quiet(memory)
        await memory.update("a", content="three")
        await memory.update("a", content="four")
        await world.quiet(memory)
        states = await world["team"].store.history("a", scope=ME)
        assert [one.memory.content for one in states] == ["one", "two", "three", "four"]


@BOTH
@clause("CH-51")
async def test_a_key_that_moves(worlds, primary):
    """A key that one memory let go of and another took arrives, in whatever order the memories are told."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="z", key="k")
        await memory.create("two", id="a")
        await world.quiet(memory)
        await memory.update("z", key="")
        await memory.update("a", key="k")
        await memory.update("z", content="one still")
        await world.quiet(memory)
        assert await same(world, "team", revisions=primary is ALL)
        assert await memory.journal_entries() == ()


@BOTH
@clause("CH-52")
async def test_nothing_is_given_twice(worlds, primary):
    """What a replica has is not given again: not by the next round, not by another process at the same time."""
    world = worlds(primary=primary)
    async with world.open() as memory, world.open() as other:
        for n in range(5):
            await memory.create(f"m{n}", id=f"m{n}")
        reports = await asyncio.gather(*(one.maintain(["deliver"]) for one in (memory, other, memory)))
        assert sum(report.delivered for report in reports) == 5
        assert world["team"].calls.count("put") == 1
        await other.update("m0", content="changed")
        reports = await asyncio.gather(*(one.maintain(["deliver"]) for one in (memory, other)))
        assert sum(report.delivered for report in reports) == 1
        await world.quiet(memory)
        await world.quiet(other)
        assert world["team"].calls.count("put") == 2
        assert await same(world, "team", revisions=primary is ALL)
        assert (await memory.status()).backends[1].replica.behind == 0


@BOTH
@pytest.mark.parametrize("last", ["changed", "changed again", None])
@clause("CH-52")
async def test_a_delivery_that_died(worlds, primary, last):
    """What a delivery had given when it died is not given again, and is no change of others, though the primary has
    gone on since."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.update("a", content="changed")
    with suppress(Killed):
        async with world.open() as memory:
            world["team"].plan("done", spared=set(dir(world["team"].store)) - {"put"})
            await memory.maintain(["deliver"])
    world.up()
    assert await world.contents("team") == {"a": "changed"}
    async with world.open() as memory:
        if last is None:
            await memory.delete("a")
        elif last != "changed":
            await memory.update("a", content=last)
        puts = world["team"].calls.count("put")
        await world.quiet(memory)
        assert (world["team"].calls.count("put") == puts) == (last == "changed")
        assert await world.contents("team") == ({} if last is None else {"a": last})
        assert await memory.journal_entries() == ()


@clause("CH-52")
async def test_a_deletion_is_given_once(worlds):
    """A deletion that has arrived is not given again, though the memory is deleted once more."""
    world = worlds(primary=PLAIN)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.delete("a")
        await world.quiet(memory)
        puts = world["team"].calls.count("put")
        await memory.put([Tombstone(id="a", owner="me", revision=2, deleted_at=world.clock())])
        await world.quiet(memory)
        assert world["team"].calls.count("put") == puts


@BOTH
@clause("CH-51")
async def test_what_expired_in_the_primary_expires_there(worlds, primary):
    """What has expired is shown by no replica, whether it was swept from the primary before it was delivered or not."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("soon gone", id="a", expires_at=world.clock() + timedelta(seconds=60))
        await memory.create("stays", id="b")
        await world.quiet(memory)
        world.clock.forward(100_000)
        await memory.maintain()
        await world.quiet(memory)
        assert await world.contents("team") == {"b": "stays"}
        await memory.create("afresh", id="a")
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "afresh", "b": "stays"}
        assert await memory.journal_entries() == ()


@BOTH
@clause("CH-51")
async def test_what_was_made_again_takes_the_place_of_what_expired(worlds, primary):
    """A memory that the primary was told to let expire, swept, and was given again arrives in a replica that has heard
    of none of it and counted further."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.update("a", content="two")
        await memory.update("a", content="three")
        await world.quiet(memory)
        await memory.update("a", expires_at=world.clock() + timedelta(seconds=1))
        world.clock.forward(2)
        await memory.maintain(["expire"])
        assert (await memory.create("afresh", id="a")).memory.revision == 1
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "afresh"}
        assert await memory.journal_entries() == ()


@pytest.mark.parametrize("way", ["deleted before", "deleted before by one that died", "deleted after"])
@BOTH
@clause("CH-51")
async def test_a_deletion_and_a_life_that_was_forgotten(worlds, primary, way):
    """Where a memory expired and was swept before it was made again, so that its revisions began anew, a deletion that
    came before or after that is in no state's way."""
    world = worlds(primary=primary)

    async def forgotten(memory):
        await memory.create("for a moment", id="a", expires_at=world.clock() + timedelta(seconds=1))
        world.clock.forward(2)
        await memory.maintain(["expire"])

    async with world.open() as memory:
        await memory.create("one", id="a")
        for n in range(3):
            await memory.update("a", content=f"one {n}")
        await world.quiet(memory)
        if way == "deleted before":
            await memory.delete("a")
            await world.quiet(memory)
            await forgotten(memory)
        elif way == "deleted before by one that died":
            await memory.delete("a")
            world["team"].plan("lost", spared=set(dir(world["team"].store)) - {"put"})
            await memory.maintain(["deliver"])
            await world.back(memory)
            await forgotten(memory)
        else:
            await forgotten(memory)
            await memory.create("afresh", id="a")
            await memory.delete("a")
            await world.quiet(memory)
            assert await world.contents("team") == {}
        for content in ("made again", "and changed", None, "once more"):
            if content is None:
                await memory.delete("a")
            else:
                await memory.create(content, id="a")
            await world.quiet(memory)
            assert await world.contents("team") == ({} if content is None else {"a": content})
            assert await memory.journal_entries() == ()
        assert await same(world, "team", revisions=primary is ALL)


@pytest.mark.parametrize("updates", [0, 2])
@BOTH
@clause("CH-51")
async def test_what_expired_twice_expires_there(worlds, primary, updates):
    """What a replica has of a memory goes away when the primary's has expired, was swept, made again and expired once
    more, though its revisions began anew."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        for n in range(updates):
            await memory.update("a", content=f"one {n}")
        await world.quiet(memory)
        for _ in range(2):
            await memory.create("for a moment", id="a", expires_at=world.clock() + timedelta(seconds=1))
            world.clock.forward(2)
            await memory.maintain(["expire"])
        await world.quiet(memory)
        assert await world.contents("team") == {}
        await memory.create("afresh", id="a")
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "afresh"}
        assert await memory.journal_entries() == ()


@BOTH
@clause("CH-50")
async def test_a_new_replica_that_is_not_empty(worlds, primary):
    """What a new replica has from before and the primary has deleted is deleted there too, for every owner; what is in
    the replica alone stays."""
    world = worlds(primary=primary, replicas=("team", "far"))
    async with world.open(fallbacks=["team"]) as memory:
        for owner in ("me", "eve"):
            for id in "ab":
                await memory.create(id, id=id, owner=owner, management=True)
        await memory.update("a", content="changed")
        await world.quiet(memory)
        for one in (await world.held("team")).values():
            await world["far"].store.put([one], scope=Scope.of_owner(one.owner))
        await world.add("far", "c", "of the replica alone")
        await memory.delete("a")
        await memory.delete("b", owner="eve", management=True)
    async with world.open() as memory:
        await world.quiet(memory)
        assert {(ref.owner, ref.id) for ref in await world.held("far")} == {("me", "b"), ("me", "c"), ("eve", "a")}
        assert await memory.journal_entries() == ()


@pytest.mark.parametrize("spools", [False, True], ids=["at once", "spooled"])
@clause("CH-51")
async def test_a_key_that_another_memory_has(worlds, spools):
    """A create whose key a memory of another id has changes that memory, and so it arrives, the primary having no
    feed."""
    world = worlds(primary=PLAIN, on_write_failure="spool")
    async with world.open() as memory:
        await world.add("notes", "mine", "old", key="k")
        await world.quiet(memory)
        if spools:
            world.down("notes")
        await memory.create("new", key="k")
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == await world.contents("team") == {"mine": "new"}
