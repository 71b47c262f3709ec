"""What a replica does not take is set aside, and holds nothing up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import InvalidMemoryError
from memspine.model import NewMemory

from .worlds import ALL, ME, PLAIN, change, same

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])


@pytest.mark.parametrize("times", [1, 2])
@clause("CH-53")
async def test_a_replica_that_others_change_at_the_moment(worlds, times):
    """What others change in a replica between a look and the giving is in conflict at once."""
    world = worlds()
    store = world["team"].store
    get_many = store.get_many

    async def late(ids, **named):
        found = await get_many(ids, **named)
        store.get_many = get_many
        for _ in range(times):
            await change(world, "team", "a", "theirs")
        return found

    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.update("a", content="mine")
        store.get_many = late
        await memory.maintain(["deliver"])
        assert [one.state for one in await memory.journal_entries()] == ["conflict"]
        assert await world.contents("team") == {"a": "theirs"}


@BOTH
@clause("CH-53", "CH-90")
async def test_a_replica_that_others_changed_is_in_conflict(worlds, primary):
    """What others changed in a replica is not overwritten: both sides stay, it is counted and listed, nothing more of
    that memory is given, and all other memories go on."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.create("two", id="b")
        await world.quiet(memory)
        await change(world, "team", "a", "theirs")
        await memory.update("a", content="mine")
        await memory.update("a", content="mine still")
        await memory.update("b", content="two still")
        await world.quiet(memory)
        assert (await world.contents("team")) == {"a": "theirs", "b": "two still"}
        assert (await world.contents("notes"))["a"] == "mine still"
        (entry,) = await memory.journal_entries()
        assert (entry.kind, entry.state, entry.id, entry.replica) == ("delivery", "conflict", "a", "team")
        status = await memory.status()
        assert status.backends[1].replica.conflicts == 1
        assert any("1 in conflict" in line for line in status.problems)
        await memory.update("a", content="mine again")
        await world.quiet(memory)
        assert (await world.contents("team"))["a"] == "theirs"


@clause("CH-53")
async def test_what_a_new_replica_had_before(worlds):
    """A memory of others that a new replica has, older and at a higher revision than the primary's of the same id, is
    in conflict, and so is one whose namesake has expired; an older state of the primary's is brought up to date."""
    world = worlds()
    for id in ("theirs", "gone", "ours"):
        await world.add("team", id, "at first")
    for _ in range(3):
        await change(world, "team", "theirs", "theirs")
    world.clock.forward(60)
    async with world.open() as memory:
        await world.quiet(memory)
        await memory.create("mine", id="theirs")
        await memory.create("soon gone", id="gone", expires_at=world.clock() + timedelta(seconds=1))
        await memory.create("mine", id="ours")
        await memory.update("ours", content="mine anew")
        world.clock.forward(2)
        await world.quiet(memory)
        assert await world.contents("team") == {"theirs": "theirs", "gone": "at first", "ours": "mine anew"}
        assert {(one.id, one.state) for one in await memory.journal_entries()} == {
            ("theirs", "conflict"), ("gone", "conflict")
        }  # fmt: skip


@BOTH
@pytest.mark.parametrize("updates", [1, 2, 3])
@clause("CH-53")
async def test_a_memory_that_others_deleted_in_a_replica(worlds, primary, updates):
    """What others deleted in a replica is in conflict as well, however often the primary has changed it since."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await world["team"].store.delete("a", scope=ME, now=world.clock())
        for n in range(updates):
            await memory.update("a", content=f"mine {n}")
        await world.quiet(memory)
        assert await world.contents("team") == {}
        (entry,) = await memory.journal_entries()
        assert (entry.state, entry.id) == ("conflict", "a")


@BOTH
@clause("CH-53")
async def test_a_deletion_that_meets_a_change(worlds, primary):
    """What the primary deleted and others changed in the replica stays there, in conflict."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await change(world, "team", "a", "theirs")
        await memory.delete("a")
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "theirs"}
        assert [one.state for one in await memory.journal_entries()] == ["conflict"]


@clause("CH-54")
async def test_a_key_that_is_taken_in_the_replica(worlds):
    """A memory whose key another memory of the replica has is set aside, and arrives when the key is free."""
    world = worlds()
    async with world.open() as memory:
        await world.add("team", "other", "put there by others", key="k")
        await memory.create("one", id="a", key="k")
        await memory.create("two", id="b")
        await memory.maintain(["deliver"])
        assert set(await world.contents("team")) == {"other", "b"}
        (entry,) = await memory.journal_entries()
        assert (entry.state, entry.id) == ("pending", "a")
        assert "key" in entry.error
        await world["team"].store.delete("other", scope=ME, now=world.clock())
        world.clock.forward(400)
        await memory.maintain(["deliver"])
        assert await world.contents("team") == {"a": "one", "b": "two"}
        assert await memory.journal_entries() == ()


@clause("CH-55", "CH-90")
async def test_one_refused_memory_holds_nobody_up(worlds):
    """A memory that a replica does not take is set aside, tried again after a pause that stands in the journal, and
    dead after eight attempts; all others arrive."""
    world = worlds()
    put = world["team"].store.put
    world["team"].store.put = _poisoned(put)
    async with world.open() as memory:
        for n in range(7):
            await memory.create(f"m{n}", id=f"m{n}")
        await memory.create("poison", id="p")
        report = await memory.maintain(["deliver"])
        assert report.delivered == 7
        (entry,) = await memory.journal_entries()
        assert (entry.id, entry.attempts, entry.state) == ("p", 1, "pending")
        assert entry.next_attempt_at > world.clock()
    for _ in range(8):
        async with world.open() as memory:
            world["team"].calls.clear()
            await memory.maintain(["deliver"])
            assert "put" not in world["team"].calls
            world.clock.forward(400)
            await memory.maintain(["deliver"])
    async with world.open() as memory:
        (entry,) = await memory.journal_entries()
        assert (entry.attempts, entry.state) == (8, "dead")
        status = await memory.status()
        assert (status.backends[1].replica.dead, len(status.problems)) == (1, 1)
        world["team"].store.put = put
        assert await memory.retry() == 1
        assert await same(world, "team")


def _poisoned(put):
    async def poisoned(records, **named):
        if any(getattr(record, "content", "") == "poison" for record in records):
            raise ValueError("cannot be taken")
        return await put(records, **named)

    return poisoned


@clause("CH-40")
async def test_all_whose_turn_has_come_are_tried_in_one_go(worlds):
    """A retry tries every memory that a replica has refused, however many there are."""
    world = worlds()
    async with world.open() as memory:
        await memory.create_many([NewMemory(content=f"m{n}") for n in range(250)])
        store = world["team"].store
        put = store.put

        async def refuse(records, *, scope):
            raise InvalidMemoryError("content", "it", "something else")

        store.put = refuse
        await memory.maintain(["deliver"])
        assert len(await memory.journal_entries()) == 250
        store.put = put
        assert await memory.retry() == 250
        assert await same(world, "team")


@clause("CH-40", "CH-53")
async def test_a_retry_of_everything_leaves_conflicts_alone(worlds):
    """A memory in conflict is tried again only by its number."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await change(world, "team", "a", "theirs")
        await memory.update("a", content="mine")
        await world.quiet(memory)
        await world["team"].store.purge(["a"], scope=ME, now=world.clock())
        world["team"].store.state.shelf("me").tombstones.clear()  # so that nothing is in the way any more
        await memory.update("a", content="mine still")
        await world.quiet(memory)
        assert await world.contents("team") == {}
        (entry,) = await memory.journal_entries()
        assert await memory.retry() == 0
        assert [one.state for one in await memory.journal_entries()] == ["conflict"]
        assert await memory.retry([entry.number]) == 1
        assert await world.contents("team") == {"a": "mine still"}
