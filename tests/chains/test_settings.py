"""A replica misses nothing of what is written under settings that do not name it."""

from __future__ import annotations

import pytest

from memspine.config import config_from_mapping
from memspine.conformance.clauses import clause
from memspine.copying import opened_backends
from memspine.copying.copy import Copy
from memspine.errors import BackendUnavailable
from memspine.model import MemoryFilter, NewMemory

from .worlds import ALL, PLAIN

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])
DAY = 86_400


async def _without_fallbacks(world):
    """Somebody whose settings name no fallback."""
    async with world.open(fallbacks=[]) as memory:
        await memory.create("new", id="n")
        await memory.create_many([NewMemory(content="of many")])
        await memory.update("m0", content="changed")
        await memory.delete("m1")
        await memory.delete_many(MemoryFilter(), session="s", dry_run=False)


async def _spooled(world):
    """Somebody without fallbacks, whose writes waited for the primary."""
    async with world.open(fallbacks=[], on_write_failure="spool") as memory:
        world.down("notes")
        await memory.create("new", id="n")
        await memory.update("m0", content="changed")
        await memory.delete("m1")
        await world.back(memory)
        await memory.maintain(["deliver"])


async def _copied(world):
    """A copy into the primary."""
    async with opened_backends(config_from_mapping(world.settings, plugins=world.plugins), "far", "notes") as places:
        await world.add("far", "n", "new")
        source, target = places
        await Copy(source=source, target=target).run()


@pytest.mark.parametrize("write", [_without_fallbacks, _spooled, _copied])
@clause("CH-51")
async def test_no_settings_hide_a_change(worlds, write):
    """What is written without a word of the replica arrives in it, though the primary has no feed."""
    world = worlds(primary=PLAIN, fallbacks=("far",))
    world.settings["backends"]["notes"]["plugin"] = "plain"
    async with world.open() as memory:
        for n in range(4):
            await memory.create(f"m{n}", id=f"m{n}", session="s" if n > 1 else "")
        await world.quiet(memory)
    before = await world.contents("team")
    await write(world)
    assert await world.contents("notes") != before
    async with world.open() as memory:
        assert (await memory.status()).backends[1].replica.behind
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("notes")
        assert (await memory.status()).problems == ()


@clause("CH-51")
async def test_a_replica_that_comes_while_others_write(worlds):
    """What a process writes that was there before there was a journal arrives in a replica that came later."""
    world = worlds(primary=PLAIN)
    async with world.open(fallbacks=[]) as early:
        await early.create("old", id="a")
        async with world.open() as memory:
            await world.quiet(memory)
            await early.create("new", id="b")
            await early.delete("a")
            await world.quiet(memory)
            assert await world.contents("team") == {"b": "new"}


@clause("CH-51")
async def test_a_replica_that_comes_in_the_middle_of_a_write(worlds):
    """What was being written while a replica listed the primary, by somebody who knew of no replica, arrives."""
    world = worlds(primary=PLAIN)
    async with world.open(fallbacks=[]) as early, world.open() as memory:
        create = world["notes"].store.create

        async def late(*arguments, **named):
            await world.quiet(memory)
            return await create(*arguments, **named)

        world["notes"].store.create = late
        await early.create("new", id="a")
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "new"}


@BOTH
@clause("CH-21")
async def test_no_settings_hide_a_deletion(worlds, primary):
    """What was deleted without a word of the replica is not shown by it while the primary is away."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("walnut", id="a")
        await world.quiet(memory)
    async with world.open(fallbacks=[]) as memory:
        await memory.delete("a")
    async with world.open() as memory:
        world.down("notes")
        with pytest.raises(BackendUnavailable):
            await memory.get("a")
        assert (await memory.search("walnut")).hits == ()
