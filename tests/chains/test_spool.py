"""Writes that wait for a primary."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import (
    BackendUnavailable,
    ConflictError,
    InvalidMemoryError,
    JournalError,
    NotFoundError,
    PluginLoadError,
)
from memspine.model import MemoryFilter, NewMemory

from .worlds import ALL, PLAIN

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])


@BOTH
@clause("CH-31", "CH-34", "CH-51")
async def test_a_write_waits_for_the_primary(spooling, primary):
    """While the primary is down creates, updates and deletes are acknowledged as pending, survive the process, and are
    done with the ids, keys and times that were acknowledged, in their order, when it is back."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.create("two", id="b")
        await world.quiet(memory)
        world.down("notes")
        made = await memory.create("three", id="c", key="k", metadata={"n": 1})
        assert (made.pending, made.backend, made.memory.revision, made.created) == (True, "journal", 0, True)
        assert "connection refused" in made.degraded[0]
        world.clock.forward(60)
        changed = await memory.update("a", content="one again")
        gone = await memory.delete("b")
        assert (changed.pending, changed.memory.revision) == (True, 0)
        assert (gone.pending, gone.revision, gone.backend) == (True, 0, "journal")
        again = await memory.create("three again", key="k", id="c", metadata={"m": 2})
        many = await memory.create_many([NewMemory(content="d"), NewMemory(content="e")], ids=["d", "e"])
        assert [one.pending for one in many] == [True, True]
        world.clock.forward(60)
        ends_at = world.clock() + timedelta(days=9)
        late = await memory.create("f", id="f", expires_at=ends_at)
        assert not again.created
        entries = await memory.journal_entries()
        assert [(one.operation, one.id) for one in entries] == [
            ("create", "c"), ("update", "a"), ("delete", "b"), ("create", "c"), ("create", "d"), ("create", "e"),
            ("create", "f"),
        ]  # fmt: skip
    world.clock.forward(3600)
    world.up()
    async with world.open() as memory:
        report = await memory.maintain(["deliver"])
        assert (report.executed, report.complete, report.troubles) == (7, True, ())
        held = {ref.id: one for ref, one in (await world.held("notes")).items()}
        assert {id: one.content for id, one in held.items()} == {
            "a": "one again", "c": "three again", "d": "d", "e": "e", "f": "f"
        }  # fmt: skip
        assert held["c"].metadata == {"n": 1, "m": 2}
        assert (held["c"].updated_at, held["a"].updated_at) == (again.memory.updated_at, changed.memory.updated_at)
        assert (held["d"].created_at, held["f"].created_at) == (many[0].memory.created_at, late.memory.created_at)
        assert held["f"].expires_at == late.memory.expires_at is not None
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("notes")
        assert await memory.journal_entries() == ()


@clause("CH-12", "CH-31", "CH-35")
async def test_a_write_asks_a_primary_that_is_left_alone_for_nothing(spooling):
    """Once a primary that hangs is left alone, writes are acknowledged without a call of it; when it is back, the next
    one has all of them done, in their order."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes", "hang")
        for n in range(6):
            assert (await memory.create(f"late {n}", id="b")).pending
        world["notes"].calls.clear()
        assert (await memory.create("later", id="b")).pending
        assert (await memory.create_many([NewMemory(content="many")], ids=["c"]))[0].pending
        assert world["notes"].calls == []
        await world.back(memory)
        last = await memory.update("b", content="last")
        assert (last.backend, last.pending, await memory.journal_entries()) == ("notes", False, ())
        assert await world.contents("notes") == {"a": "one", "b": "last", "c": "many"}


@clause("CH-35")
async def test_a_primary_that_cannot_be_read_is_not_asked_for_what_waits(spooling):
    """A write behind others asks nothing of a primary that is left alone for reading only: it waits as well."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes")
        assert (await memory.create("two", id="b")).pending
        for _ in range(3):
            await memory.get("a")
        world.up()
        world["notes"].calls.clear()
        assert (await memory.create("three", id="c")).pending
        assert world["notes"].calls == []
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == {"a": "one", "b": "two", "c": "three"}


@clause("CH-32")
async def test_what_needs_the_primary_does_not_wait(spooling):
    """What only the primary can answer is refused while it is down: nothing is kept of it."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        for write in (
            memory.delete_many(MemoryFilter(), dry_run=False), memory.purge(["a"]), memory.put([]),
            memory.restore("a", revision=1),
        ):  # fmt: skip
            with pytest.raises(BackendUnavailable):
                await write
        assert await memory.journal_entries() == ()


@clause("CH-33")
async def test_what_waits_is_seen_by_get(spooling):
    """`get` shows memories as the waiting writes will make them, marked as pending; what is to be deleted is absent
    from get, list and search; what only waits is not found yet, and the answers say that there is more."""
    world = spooling(replicas=("team",), read_fallback=True)
    async with world.open() as memory:
        for id, content in (("a", "walnut one"), ("b", "walnut two"), ("d", "walnut four")):
            await memory.create(content, id=id)
        await world.quiet(memory)
        world.down("notes")
        await memory.create("walnut three", id="c")
        await memory.update("a", content="walnut new")
        await memory.update("a", content="walnut anew")
        await memory.delete("b")
        await memory.delete("d")
        await memory.create("walnut four again", id="d")
        assert (await memory.get("d")).memory.content == "walnut four again"
        found = await memory.get_many(["a", "b", "c"])
        assert {id: (one.memory.content, one.pending, one.backend) for id, one in found.items()} == {
            "a": ("walnut anew", True, "journal"), "c": ("walnut three", True, "journal")
        }  # fmt: skip
        with pytest.raises(NotFoundError):
            await memory.get("b")
        with pytest.raises(NotFoundError):
            await memory.update("b", content="too late")
        world.down("team")
        with pytest.raises(BackendUnavailable):
            await memory.get("a")  # what it changes cannot be read
        assert (await memory.get("c")).memory.content == "walnut three"
        await world.back(memory, "team")
        page, counts, hits = await memory.list(), await memory.count(), await memory.search("walnut")
        assert {one.id for one in page.memories} == {"a", "d"}
        assert {hit.memory.id for hit in hits.hits} == {"a", "d"}
        for told in (page.degraded, counts.degraded, hits.trace.degraded):
            assert any("6 writes wait for the primary" in text for text in told)
        await world.back(memory)
        await world.quiet(memory)
        found = await memory.get("a")
        assert (found.memory.content, found.pending, found.backend, found.memory.revision) == (
            "walnut anew", False, "notes", 3
        )  # fmt: skip


@BOTH
@clause("CH-33")
async def test_what_was_deleted_and_waits_to_be_made_again_is_shown(spooling, primary):
    """A create that waits for an id which was deleted before is shown by get, marked as pending, also where shared
    memories are asked for, and the primary works again."""
    world = spooling(primary=primary, replicas=("team",), fallbacks=("archive",))
    async with world.open() as memory, world.open() as other:
        await memory.create("one", id="a")
        await memory.delete("a")
        await world.quiet(memory)
        world.down("notes")
        await memory.create("anew", id="a")
        for is_up in (False, True):
            if is_up:
                world.up()
            for shared in (False, True):
                found = await other.get("a", shared=shared)
                assert (found.memory.content, found.pending) == ("anew", True)
            await other.health()


def after(store, name, work):
    """Have `work` done once, when a call of a store has its answer and before it is given."""
    found = getattr(store, name)

    async def call(*arguments, **named):
        delattr(store, name)
        answer = await found(*arguments, **named)
        await work()
        return answer

    setattr(store, name, call)


@clause("CH-33")
async def test_a_read_shows_what_is_done_while_it_reads(spooling):
    """A read that begins after a write was acknowledged shows it, also where it waited then and is done by another
    process just after the primary was asked."""
    world = spooling()
    async with world.open() as memory, world.open() as other:
        for id in "abcd":
            await memory.create(f"walnut {id}", id=id)
        asked = {
            "get_many": ("a", lambda: other.get_many(["a", "b", "c", "d"])),
            "list": ("b", other.list),
            "lexical": ("c", lambda: other.search("walnut")),
        }
        for call, (gone, read) in asked.items():
            world.down("notes")
            await memory.delete(gone)
            await memory.update("d", content=f"walnut and {gone}")
            await world.back(memory)
            after(world.stores["notes"].store, call, lambda: memory.maintain(["deliver"]))
            answer = await read()
            assert await memory.journal_entries() == ()
            if call == "get_many":
                assert (gone not in answer, answer["d"].memory.content) == (True, "walnut and a")
            elif call == "list":
                assert gone not in {one.id for one in answer.memories}
            else:
                assert gone not in {hit.memory.id for hit in answer.hits}


@clause("CH-33")
async def test_what_waits_for_a_shared_memory_changes_no_other(spooling):
    """Among memories of the caller and shared ones of the same id, a waiting write changes the one that it is for, and
    the caller's own comes first."""
    world = spooling()
    everybodys = {"owner": "global", "management": True}
    async with world.open() as memory:
        await memory.create("mine", id="a")
        await memory.create("ours", id="a", **everybodys)
        await memory.create("ours", id="b", **everybodys)
        await world.quiet(memory)
        world.down("notes")
        await memory.update("a", content="ours anew", **everybodys)
        await memory.create("mine", id="b")
        for id in ("a", "b"):
            found = (await memory.get(id, shared=True)).memory
            assert (found.owner, found.content) == ("me", "mine")
        assert (await memory.get("a", owner="global")).memory.content == "ours anew"


@clause("CH-35")
async def test_no_write_overtakes_another(spooling):
    """A write of an owner whose writes wait goes behind them, even when the primary is back: all are done at once, and
    the answer is the primary's."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        await memory.update("a", content="two")
        await world.back(memory)
        answer = await memory.update("a", content="three")
        assert (answer.pending, answer.backend, answer.memory.revision) == (False, "notes", 3)
        assert await memory.journal_entries() == ()
        assert [state.memory.content for state in await memory.history("a")] == ["one", "two", "three"]


@clause("CH-35")
async def test_a_refusal_behind_others_is_the_callers(spooling):
    """What the primary refuses of a write that went behind others is raised as ever."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        await memory.create("two", id="b")
        await world.back(memory)
        with pytest.raises(ConflictError):
            await memory.update("a", content="x", expected_revision=7)
        assert await memory.journal_entries() == ()


@clause("CH-39")
async def test_nothing_is_acknowledged_that_is_not_kept(spooling):
    """Where the journal cannot be written, a write that would have to wait raises JournalError, and nothing of it
    comes to be."""
    world = spooling()
    async with world.open() as memory:
        world.down("notes")
        world.down("journal")
        with pytest.raises(JournalError):
            await memory.create("one", id="a")
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == {}


@clause("CH-40")
async def test_retry_and_drop(spooling):
    """A dead letter is done when it is tried again and fits by then, and given up when it is dropped; unknown numbers
    raise NotFoundError, what is no list InvalidMemoryError, and nothing is done then."""
    world = spooling()
    async with world.open() as memory:
        world.down("notes")
        await memory.update("a", content="two")
        await memory.update("b", content="two")
        await world.back(memory)
        await world.quiet(memory)
        first, second = await memory.journal_entries()
        assert {first.state, second.state} == {"dead"}
        for call in (memory.retry([first.number, 77]), memory.drop([first.number, 77])):
            with pytest.raises(NotFoundError):
                await call
        for call in (memory.retry, memory.drop):
            with pytest.raises(InvalidMemoryError, match="a list of whole numbers"):
                await call(first.number)
        await world.add("notes", "a", "one")
        assert await memory.retry() == 1
        assert (await memory.get("a")).memory.content == "two"
        assert await memory.drop([second.number]) == 1
        assert await memory.journal_entries() == ()


@clause("CH-31", "CH-34")
async def test_clocks_that_disagree(spooling):
    """A process whose clock goes wrong, forward or back, loses no waiting write and does none twice."""
    world = spooling()
    async with world.open() as memory:
        world.down("notes")
        await memory.create("one", id="a")
        world.clock.forward(-7200)
        await memory.update("a", content="two")
        world.clock.forward(86400)
        await memory.create("three", id="b", expires_at=world.clock() + timedelta(days=1))
        world.clock.forward(-80000)
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == {"a": "two", "b": "three"}
        assert await world.contents("team") == await world.contents("notes")
        assert await memory.journal_entries() == ()


@clause("CH-31", "CH-35")
@pytest.mark.parametrize("replicas", [(), ("team",)], ids=["alone", "with a replica"])
async def test_what_waits_is_done_after_writes_wait_no_more(spooling, replicas):
    """Writes that were acknowledged are shown, counted and done also after `on_write_failure` became "refuse", before
    any later write of the same memory; and a later one is still refused while the primary is down."""
    world = spooling(replicas=replicas)
    async with world.open() as memory:
        for id in ("a", "b", "c"):
            await memory.create("one", id=id)
        world.down("notes")
        await memory.create("two", id="d")
        await memory.update("a", content="two")
        await memory.delete("b")
    async with world.open(on_write_failure="refuse") as memory:
        assert (await memory.status()).journal.pending == 3
        assert (await memory.get("d")).pending
        with pytest.raises(BackendUnavailable):
            await memory.update("c", content="two")
        await world.back(memory)
        assert "b" not in {one.id for one in (await memory.list()).memories}
        assert (await memory.update("a", content="three")).backend == "notes"
        assert await world.contents("notes") == {"a": "three", "c": "one", "d": "two"}
        assert await memory.journal_entries() == ()


@clause("CH-35")
async def test_what_cannot_wait_overtakes_nothing(spooling):
    """A restore, a put and a delete by a filter come after the writes that wait; where those cannot be done yet they
    are refused, because they would be undone."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        old = (await memory.update("a", content="two")).memory
        world.down("notes")
        await memory.delete("a")
        await world.back(memory)
        assert (await memory.restore("a", revision=1)).memory.content == "one"
        world.down("notes")
        await memory.create("three", id="b")
        await world.back(memory)
        assert await memory.delete_many(MemoryFilter(text="three"), dry_run=False) == ("b",)
        world.down("notes")
        await memory.update("a", content="four")
        await world.back(memory)
        world.down("notes", spared=("health", "capabilities"))
        for write in (memory.restore("a", revision=1), memory.put([old])):
            with pytest.raises(BackendUnavailable, match="done over it"):
                await write
        world.up()
        await world.quiet(memory)
        assert await world.contents("notes") == {"a": "four"}


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("how", [OSError("no such socket"), "hang"], ids=["an error", "hang"])
@clause("CH-31", "CH-34")
async def test_a_primary_that_cannot_be_opened_is_down(spooling, how, is_damaged):
    """A process that cannot open the primary, however that fails, acknowledges writes in time, says what is the matter,
    and loses none, also behind one that cannot be read."""
    world = spooling()
    world["notes"].shut = how
    async with world.open() as memory, asyncio.timeout(10):
        assert (await memory.create("first", id="a")).pending
        if is_damaged:
            damage = "UPDATE entries SET body = '{'"
            await memory._running.chain.journal.write(lambda connection: connection.execute(damage))  # noqa: SLF001
            await memory.maintain(["deliver"])
        for id in ("b", "c"):
            assert (await memory.create("next", id=id)).pending
        report = await memory.maintain(["deliver"])
        assert any("does not take what waits" in text for text in report.troubles)
    world["notes"].shut = None
    async with world.open() as memory:
        await world.quiet(memory)
        held = {"b", "c"} if is_damaged else {"a", "b", "c"}
        assert set(await world.contents("notes")) == set(await world.contents("team")) == held


@clause("CH-36")
async def test_a_primary_that_cannot_be_loaded_refuses_nothing(spooling):
    """Where the primary's plugin cannot be loaded any more, what was acknowledged waits, and is no dead letter."""
    world = spooling(replicas=())
    async with world.open() as memory:
        world.down("notes")
        await memory.create("one", id="a")
    world.up()
    world["notes"].shut = PluginLoadError(
        "switched", distribution="switched", step="open", cause="no module named driver", advice="install it"
    )
    async with world.open() as memory:
        report = await memory.maintain(["deliver"])
        assert any("no module named driver" in text for text in report.troubles)
        assert [one.state for one in await memory.journal_entries()] == ["pending"]
    world["notes"].shut = None
    async with world.open() as memory:
        await world.quiet(memory)
        assert await world.contents("notes") == {"a": "one"}
