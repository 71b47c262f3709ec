"""What was deleted stays deleted, whoever answers."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable, ConflictError, JournalError, NotFoundError
from memspine.journal import intents
from memspine.model import MemoryFilter, MemoryRef, Tombstone

from .worlds import ALL, PLAIN

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])


async def shown(memory):
    """The ids that any reading call shows."""
    seen = {one.id for one in (await memory.list()).memories}
    seen |= {hit.memory.id for hit in (await memory.search("walnut")).hits}
    for id in ("a", "b", "c"):
        with suppress(NotFoundError, BackendUnavailable):
            seen.add((await memory.get(id)).memory.id)
    return seen


async def three(world, memory):
    """Three memories, which the replica has by now, and a fallback that nobody writes to as well."""
    for id in ("a", "b", "c"):
        await memory.create(f"walnut {id}", id=id)
        await world.add("archive", id, f"walnut {id}")
    await world.quiet(memory)


@pytest.mark.parametrize("few", [0, 1, 2, 500])
@clause("CH-21")
async def test_however_many_were_deleted(worlds, monkeypatch, few):
    """What was deleted is in no fallback's answer, be the deletions few enough to be kept at hand or not."""
    monkeypatch.setattr("memspine.journal.intents.FEW", few)
    world = worlds(fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory:
        await three(world, memory)
        await memory.delete("a")
        await memory.delete("b")
        world.down("notes")
        assert [await shown(memory) for _ in range(2)] == [{"c"}] * 2


@clause("CH-21")
async def test_whoever_deleted_it_and_when(worlds):
    """What was deleted since the last answer is not in the next one, be it by this process or by another."""
    world = worlds(fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory, world.open() as other:
        await three(world, memory)
        for deletes, id, left in ((memory, "a", {"b", "c"}), (other, "b", {"c"})):
            world.down("notes")
            assert id in await shown(memory)
            await world.back(memory)
            await other.health()
            await deletes.delete(id)
            world.down("notes")
            assert await shown(memory) == left
            await world.back(memory)


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "later"])
@clause("CH-21")
async def test_a_replica_that_counts_higher_shows_nothing_deleted(worlds, waits):
    """A primary without a feed counts a memory that is made again from 1, and its replica goes on counting: what is
    deleted then stays deleted, though the replica's revision is above that of the deletion."""
    world = worlds(primary=PLAIN, read_fallback=True, on_write_failure="spool")
    async with world.open() as memory:
        for _ in range(2):
            await memory.create("walnut", id="a")
            await memory.update("a", content="walnut again")
            await world.quiet(memory)
            await memory.delete("a")
            await world.quiet(memory)
            world["notes"].store.state.shelf("me").tombstones.clear()  # a plain service keeps none
        await memory.create("walnut", id="a")
        await world.quiet(memory)
        world.down("team")
        if waits:
            world.down("notes")
        assert (await memory.delete("a")).pending == waits
        await world.back(memory, "notes")
        await memory.maintain(["deliver"])
        await world.back(memory)
        world.down("notes")
        assert await shown(memory) == set()


@BOTH
@pytest.mark.parametrize("way", ["delete", "delete later", "delete_many", "purge", "purge all", "put"])
@clause("CH-21", "CH-27")
async def test_a_deleted_memory_comes_back_from_nowhere(worlds, monkeypatch, primary, way):
    """After each kind of deletion no call shows the memory: not while the primary works, and not from a fallback that
    still has it while the primary is away."""
    monkeypatch.setattr("memspine.chain.bulk.LIMIT_MAX", 2)  # so that all of an owner are more than a page
    world = worlds(primary=primary, fallbacks=("archive",), read_fallback=True, on_write_failure="spool")
    left = {"b", "c"} if way != "purge all" else set()
    async with world.open() as memory:
        await three(world, memory)
        match way:
            case "delete":
                await memory.delete("a")
            case "delete later":
                world.down("notes")
                assert (await memory.delete("a")).pending
                await world.back(memory)
                await world.quiet(memory)
            case "delete_many":
                await memory.delete_many(MemoryFilter(text="walnut a"), dry_run=False)
            case "purge":
                await memory.purge(["a"])
            case "purge all":
                await memory.purge(None)
            case "put":
                await memory.put([Tombstone(id="a", owner="me", revision=9, deleted_at=world.clock())])
        assert await shown(memory) == left
        world.down("notes")
        assert await shown(memory) == left
        world.down("team")
        assert await shown(memory) == left
    async with world.open() as memory:  # another process knows it as well
        assert await shown(memory) == left


@BOTH
@clause("CH-27")
async def test_what_came_between_is_deleted_too(worlds, primary):
    """What was stored while a delete by a filter was under way, and deleted by it, stays deleted as well."""
    world = worlds(primary=primary, fallbacks=("archive",), read_fallback=True)
    store = world["notes"].store
    delete_many = store.delete_many

    async def between(*arguments, **named):
        found = await delete_many(*arguments, **named)
        if named["dry_run"]:
            await world.add("notes", "d", "walnut a too")
        return found

    async with world.open() as memory:
        await three(world, memory)
        await world.add("archive", "d", "walnut a too")
        store.delete_many = between
        assert await memory.delete_many(MemoryFilter(text="walnut a"), dry_run=False) == ("a", "d")
        world.down("notes")
        with pytest.raises(BackendUnavailable):
            await memory.get("d")
        world.down("team")
        assert await shown(memory) == {"b", "c"}


@BOTH
@clause("CH-20")
async def test_no_tombstone_no_delete(worlds, primary):
    """The tombstone stands in the journal before the primary deletes: where it cannot be written, nothing is."""
    world = worlds(primary=primary, fallbacks=("archive",))
    async with world.open() as memory:
        await three(world, memory)
        world["notes"].calls.clear()
        world.down("journal")
        for call in (
            memory.delete("a"), memory.delete_many(MemoryFilter(), dry_run=False), memory.purge(["a"])
        ):  # fmt: skip
            with pytest.raises(JournalError):
                await call
        assert set(await world.contents("notes")) == {"a", "b", "c"}
        assert not {"delete", "purge"} & set(world["notes"].calls)


@BOTH
@pytest.mark.parametrize("way", ["delete", "delete_many", "purge", "put"])
@clause("CH-20")
async def test_the_tombstone_comes_first(worlds, primary, way):
    """At the moment in which the primary deletes, the journal has a tombstone that is only begun."""
    world = worlds(primary=primary, fallbacks=("archive",))
    store, ref, found = world["notes"].store, MemoryRef("me", "a"), []
    async with world.open() as memory:
        await three(world, memory)
        journal, delete = memory._running.chain.journal, getattr(store, way)  # noqa: SLF001 - as another process sees it

        async def seen(*arguments, **named):
            if not named.get("dry_run"):
                found.append(await journal.read(partial(intents.stones, refs=[ref])))
            return await delete(*arguments, **named)

        setattr(store, way, seen)
        match way:
            case "delete":
                await memory.delete("a")
            case "delete_many":
                await memory.delete_many(MemoryFilter(text="walnut a"), dry_run=False)
            case "purge":
                await memory.purge(["a"])
            case "put":
                await memory.put([Tombstone(id="a", owner="me", revision=9, deleted_at=world.clock())])
    assert [stones[ref].is_begun for stones in found] == [True]


@BOTH
@pytest.mark.parametrize(("kind", "is_done"), [("lost", True), ("reset", False)])
@clause("CH-22", "CH-28")
async def test_a_delete_that_nobody_knows_of(worlds, primary, kind, is_done):
    """While nobody can say whether a delete was done, no fallback shows the memory, and asking for it says why; as soon
    as the primary can be asked, it is settled."""
    world = worlds(primary=primary, fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory:
        await three(world, memory)
        world.down("notes", kind)
        with pytest.raises(BackendUnavailable) as caught:
            await memory.delete("a")
        assert caught.value.outcome == "unknown"
        world.down("notes")
        assert await shown(memory) == {"b", "c"}
        with pytest.raises(BackendUnavailable, match="nobody can say whether it was done"):
            await memory.get("a")
        await world.back(memory)
        await world.quiet(memory)
        expected = {"b", "c"} if is_done else {"a", "b", "c"}
        assert await shown(memory) == expected
        assert set(await world.contents("team")) == expected
        world.down("notes")
        assert await shown(memory) == expected
        if is_done:
            with pytest.raises(BackendUnavailable) as caught:
                await memory.get("a")
            assert "nobody can say" not in str(caught.value)


@BOTH
@pytest.mark.parametrize("again", ["done before", "refused", "conflict"])
@clause("CH-22", "CH-23")
async def test_a_delete_that_nobody_knows_of_is_repeated(worlds, primary, again):
    """A delete of which nobody knows the outcome hides the memory until the primary was asked, whatever becomes of the
    delete that repeats it."""
    world = worlds(primary=primary, fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory:
        await three(world, memory)
        world.down("notes", "lost" if again == "done before" else "reset")
        with pytest.raises(BackendUnavailable):
            await memory.delete("a")
        await world.back(memory)
        if again == "refused":
            world.down("notes")
        with pytest.raises((BackendUnavailable, NotFoundError, ConflictError)):
            await memory.delete("a", expected_revision=7)
        world.down("notes")
        assert await shown(memory) == {"b", "c"}
        await world.back(memory)
        await world.quiet(memory)
        world.down("notes")
        assert await shown(memory) == ({"b", "c"} if again == "done before" else {"a", "b", "c"})


@clause("CH-22")
async def test_a_delete_of_what_was_deleted_before_has_its_time(worlds):
    """A delete that may still be under way is not settled, though the memory was deleted once long ago."""
    world = worlds(fallbacks=("archive",))
    async with world.open() as memory:
        await three(world, memory)
        await memory.delete("a")
        await memory.create("walnut anew", id="a")
        await world.quiet(memory)
        world.down("notes", "reset")
        with pytest.raises(BackendUnavailable):
            await memory.delete("a")
        await world.back(memory)
        await memory.maintain(["deliver"])
        world.down("notes")
        with pytest.raises(BackendUnavailable, match="nobody can say whether it was done"):
            await memory.get("a")


@clause("CH-28")
async def test_a_delete_that_a_circle_keeps_open(worlds):
    """A primary that only leads back to us is a trouble of maintenance, which fails nothing else, and a delete of
    unknown outcome is settled when the circle is gone."""
    world = worlds(fallbacks=("archive",))
    async with world.open() as memory:
        await three(world, memory)
        world.down("notes", "lost")
        with pytest.raises(BackendUnavailable):
            await memory.delete("a")
        world.down("notes", "loop")
        world.clock.forward(60)
        report = await memory.maintain(["deliver"])
        assert any("lead to each other" in trouble for trouble in report.troubles)
        await world.back(memory)
        await world.quiet(memory)
        assert set(await world.contents("team")) == {"b", "c"}


@BOTH
@clause("CH-23")
async def test_a_refused_delete_leaves_nothing(worlds, primary):
    """A delete that the primary refused, or that never reached it, hides nothing, be it of a memory that was deleted
    before or not; and what an earlier delete hides stays hidden. Of one that is not even tried nothing is noted."""
    world = worlds(primary=primary, fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory:
        await three(world, memory)
        await memory.delete("c")
        await memory.create("walnut anew", id="c")
        await memory.create("walnut gone", id="d")
        await world.quiet(memory)
        await memory.delete("d")
        for id, error in (("a", ConflictError), ("c", ConflictError), ("d", NotFoundError)):
            with pytest.raises(error):
                await memory.delete(id, expected_revision=7)
        world.down("notes", "refused")
        for id in ("b", "c", "d"):
            with pytest.raises(BackendUnavailable):
                await memory.delete(id)
        assert await shown(memory) == {"a", "b", "c"}
        world["journal"].calls.clear()
        with pytest.raises(BackendUnavailable, match="is left alone"):
            await memory.delete("b")
        assert world["journal"].calls == []


@BOTH
@clause("CH-24")
async def test_what_is_stored_again_is_shown_again(worlds, primary):
    """A memory that was deleted and created again is shown by the primary at once, by replicas once they have it."""
    world = worlds(primary=primary, fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory:
        await three(world, memory)
        await world.quiet(memory)
        await memory.delete("a")
        await memory.create("walnut anew", id="a")
        await world.quiet(memory)
        assert (await memory.get("a")).memory.content == "walnut anew"
        world.down("notes")
        found = await memory.get("a")
        assert (found.memory.content, found.backend) == ("walnut anew", "team")
        assert await shown(memory) == {"a", "b", "c"}


@BOTH
@clause("CH-24")
async def test_what_is_stored_again_under_a_lower_revision(worlds, primary):
    """A memory that was deleted, made again for a moment, swept, and made again with its revisions counted anew is
    shown by a replica once it has it, and is hidden when it is deleted again."""
    world = worlds(primary=primary, read_fallback=True)
    async with world.open() as memory:
        await memory.create("walnut", id="a")
        await memory.update("a", content="walnut two")
        await memory.delete("a")
        await world.quiet(memory)
        await memory.create("walnut three", id="a", expires_at=world.clock() + timedelta(seconds=1))
        world.clock.forward(2)
        await memory.maintain(["expire"])
        assert (await memory.create("walnut anew", id="a")).memory.revision == 1
        await world.quiet(memory)
        world.down("notes")
        assert await shown(memory) == {"a"}
        await world.back(memory)
        world.down("team")
        await memory.delete("a")
        await world.back(memory, "team")
        world.down("notes")
        assert await shown(memory) == set()


@BOTH
@clause("CH-24")
async def test_what_waits_to_be_stored_again_is_shown_again(worlds, primary):
    """The same of a create that had to wait for the primary."""
    world = worlds(primary=primary, fallbacks=("archive",), read_fallback=True, on_write_failure="spool")
    async with world.open() as memory:
        await three(world, memory)
        await memory.delete("a")
        await world.quiet(memory)
        world.down("notes")
        assert (await memory.create("walnut anew", id="a")).pending
        await world.back(memory)
        await world.quiet(memory)
        world.down("notes")
        found = await memory.get("a")
        assert (found.memory.content, found.backend) == ("walnut anew", "team")
        assert await shown(memory) == {"a", "b", "c"}


@clause("CH-25")
async def test_who_cannot_tell_what_was_deleted_asks_nobody_else(worlds):
    """A primary that does not say what it deleted, or a journal that cannot be read, keeps fallbacks from answering."""
    world = worlds(fallbacks=("archive",), read_fallback=True)
    async with world.open() as memory:
        await three(world, memory)
        await memory.delete("a")
        world["notes"].store.tombstones = _broken
        with pytest.raises(BackendUnavailable, match="no tombstones today"):
            await memory.get("a")
        world.down("notes")
        memory._running.chain.journal.read = _unreadable  # noqa: SLF001 - a disk that fails while it is used
        with pytest.raises(BackendUnavailable, match="cannot be read"):
            await memory.get("b")
        for call in (memory.search("walnut"), memory.list()):
            with pytest.raises(JournalError):
                await call


async def _broken(*_, **__):
    raise OSError("no tombstones today")


async def _unreadable(_):
    raise JournalError("waiting.journal", "cannot be read", advice="look at the disk")


@clause("CH-24")
async def test_what_is_stored_again_outlives_a_delete_whose_answer_was_lost(worlds):
    """A delete that the primary had done when its answer was lost hides what was deleted then, and not what is stored
    under the same key later."""
    world = worlds(on_write_failure="spool")
    async with world.open() as memory:
        old = await memory.create("one", key="k")
        await world.quiet(memory)
        world.down("notes", "lost", spared=("capabilities",))
        assert (await memory.delete(old.memory.id)).pending
        await world.back(memory)
        await world.quiet(memory)
        await memory.create("two", key="k")
        await world.quiet(memory)
        world.down("notes")
        assert (await memory.get(old.memory.id)).memory.content == "two"


@clause("CH-86", "CH-22")
async def test_a_delete_whose_end_cannot_be_noted(worlds):
    """A delete that the primary has done is acknowledged though the journal broke meanwhile; the answer says so, no
    fallback shows the memory, and it is settled when the journal works again."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world["journal"].plan("refused", at=2)
        deleted = await memory.delete("a")
        assert (deleted.revision, deleted.backend) == (2, "notes")
        assert "not noted yet in the journal" in deleted.degraded[0]
        world.down("notes")
        with pytest.raises(BackendUnavailable, match="nobody can say"):
            await memory.get("a")
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("team") == {}


@BOTH
@clause("CH-21", "CH-24")
async def test_what_was_deleted_and_made_again_is_not_shown_as_it_was_before(worlds, primary):
    """A fallback that has a memory from before it was deleted shows it no more, also when it was made again: a replica
    shows it once it has what was made since, in whichever order they get it; one that is no replica does not."""
    world = worlds(primary=primary, replicas=("team", "far"), fallbacks=("archive",))
    names = ("team", "far", "archive")
    await world.add("archive", "a", "old")
    async with world.open() as memory:
        await memory.create("old", id="a")
        await world.quiet(memory)
        for up in ((), ("team",), ("team", "far")):
            world.up()
            await memory.delete("a")
            await memory.create("new", id="a")
            for name in names:
                if name not in up:
                    world.down(name)
            await memory.maintain(["deliver"])
            for name in names:
                world.down("notes")
                for other in names:
                    world.down(other) if other != name else world.up(other)
                await memory.health()
                if name in up:
                    assert (await memory.get("a")).memory.content == "new"
                    continue
                with pytest.raises(BackendUnavailable):
                    await memory.get("a")
                assert (await memory.search("old new")).hits == ()
            world.up()
            await memory.health()
            await world.quiet(memory)
