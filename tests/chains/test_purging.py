"""A purge reaches the journal and every replica, whoever died in the middle of it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable

from .worlds import ALL, ME, PLAIN, Killed

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])
DAY = 86_400


async def _dies_in_purge(world, ids, *, store, kind, at=1):
    """A process that purges and ends, or fails, at a call of a store."""
    with suppress(Killed, BackendUnavailable):
        async with world.open() as memory:
            world[store].plan(kind, at=at, spared=("list",))
            await memory.purge(ids)
    world.up()


@pytest.mark.parametrize("point", [("notes", "done", 1), *(("journal", "killed", at) for at in (3, 4, 5))], ids=str)
@pytest.mark.parametrize("ids", [["a"], None], ids=["one", "all of the owner"])
@BOTH
@clause("CH-58", "CH-85")
async def test_a_purge_whose_process_died(worlds, primary, ids, point):
    """Where a process dies when the primary has purged, the replica and the journal are purged by maintenance, and what
    was written since stays."""
    store, kind, at = point
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("private", id="a")
        await memory.update("a", content="private still")
        await world.quiet(memory)
    await _dies_in_purge(world, ids, store=store, kind=kind, at=at)
    assert await world.contents("notes") == {}
    async with world.open() as memory:
        await memory.create("later", id="b")
        world.clock.forward(60)
        await world.quiet(memory)
        assert await world["team"].store.history("a", scope=ME) == ()
        assert await world.contents("team") == await world.contents("notes") == {"b": "later"}
        assert await memory.journal_entries() == ()


@pytest.mark.parametrize("ids", [["a"], None], ids=["one", "all of the owner"])
@pytest.mark.parametrize("end", ["killed", "refused", "not done", "stored again"])
@clause("CH-58")
async def test_a_purge_that_was_not_done_erases_nothing(worlds, end, ids):
    """Where the primary did not purge, or a memory was stored again by the time that is looked at, replicas keep it,
    with its history."""
    world = worlds()
    async with world.open() as memory:
        for content in ("one", "two"):
            await memory.create(content, id="a")
        await world.quiet(memory)
    kind = {"killed": "killed", "refused": "refused", "not done": "reset", "stored again": "done"}[end]
    await _dies_in_purge(world, ids, store="notes", kind=kind)
    async with world.open() as memory:
        world.clock.forward(10)
        await memory.create("three", id="a")
        world.clock.forward(60)
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("notes") == {"a": "three"}
        assert (await world["team"].store.history("a", scope=ME))[0].memory.content == "one"
        assert await memory.journal_entries() == ()
        assert (await memory.status()).problems == ()


@clause("CH-58", "CH-31")
async def test_a_purge_that_died_takes_no_write_that_came_after(worlds):
    """A write that was acknowledged after a purge whose process died is done, whenever the purge is settled."""
    world = worlds(on_write_failure="spool")
    async with world.open() as memory:
        await memory.create("private", id="a")
        await world.quiet(memory)
    await _dies_in_purge(world, None, store="notes", kind="done")
    async with world.open() as memory:
        world.clock.forward(60)
        world.down("notes", "reset", spared=("health", "list", "count", "get_many", "changes", "tombstones"))
        assert (await memory.create("later", id="b")).pending
        await memory.maintain(["deliver"])
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("notes") == {"b": "later"}


@clause("CH-58")
async def test_a_purge_reaches_a_replica_that_is_not_named(worlds):
    """A replica that the settings do not name any more is pending in the receipt, and erased when it is named again."""
    world = worlds(replicas=("team", "far"))
    async with world.open() as memory:
        await memory.create("private", id="a")
        await world.quiet(memory)
    async with world.open(fallbacks=["team"]) as memory:
        receipt = await memory.purge(["a"])
        assert {place.place: place.status for place in receipt.places}["replica far"] == "pending"
    async with world.open() as memory:
        await world.quiet(memory)
        assert await world["far"].store.history("a", scope=ME) == ()
        assert await memory.journal_entries() == ()
