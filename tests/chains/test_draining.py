"""Writes that waited are done, each once, and none holds others up."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from memspine.conformance.clauses import clause
from memspine.model import MemoryChanges, NewMemory

from .worlds import ALL, ME, PLAIN, Killed

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])


@BOTH
@clause("CH-36", "CH-90")
async def test_what_no_longer_fits_is_a_dead_letter(spooling, primary):
    """A waiting write keeps the revision that it was based on: changed meanwhile, it is a dead letter that says why,
    and all others are done, those of the same memory too."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        await memory.update("a", content="mine", expected_revision=1)
        await memory.delete("gone")
        await memory.delete("a", expected_revision=1)
        await memory.create("two", id="b")
        await world["notes"].store.update("a", _content("theirs"), scope=ME, now=world.clock())
        await memory.create("mine later", id="a")
        await world.back(memory)
        report = await memory.maintain(["deliver"])
        assert report.executed == 2
        entries = await memory.journal_entries()
        assert [(one.state, one.operation, one.id) for one in entries] == [
            ("dead", "update", "a"), ("dead", "delete", "gone"), ("dead", "delete", "a")
        ]  # fmt: skip
        assert "revision" in entries[0].error
        assert await world.contents("notes") == {"a": "mine later", "b": "two"}
        status = await memory.status()
        assert (status.journal.dead, status.journal.pending) == (3, 0)
        assert any("3 writes that did not go" in line for line in status.problems)


@clause("CH-37")
async def test_one_write_holds_nobody_up(spooling):
    """A write that fails while the primary works is put off, with those that follow it for the same memory; all others
    are done. Its pause stands in the journal and grows, and after eight attempts it is a dead letter."""
    world = spooling()
    async with world.open() as memory:
        world.down("notes")
        await memory.create("poison", id="p")
        await memory.update("p", content="poison still")
        await memory.create("one", id="a")
        await memory.create("of eve", id="e", owner="eve", management=True)
        world.up()
        create = world["notes"].store.create
        world["notes"].store.create = _poisoned(create)
        world["notes"].store.create_many = _poisoned(world["notes"].store.create_many)
        await memory.health()
        report = await memory.maintain(["deliver"])
        assert report.executed == 2
        assert not report.complete
        assert any("'p'" in trouble for trouble in report.troubles)
        assert await world.contents("notes") == {"a": "one", "e": "of eve"}
        first, second = await memory.journal_entries()
        assert (first.attempts, second.attempts, second.state) == (1, 0, "pending")
        assert first.next_attempt_at > world.clock()
    for attempt in range(2, 9):
        async with world.open() as memory:  # another process keeps to the pause
            calls = len(world["notes"].calls)
            await memory.maintain(["deliver"])
            assert "create" not in world["notes"].calls[calls:]
            world.clock.forward(400)
            await memory.maintain(["deliver"])
            first, second = await memory.journal_entries()
            assert first.attempts == attempt
            if attempt < 8:
                assert second.state == "pending"
                assert first.next_attempt_at - world.clock() > timedelta(seconds=0.4 * 2**attempt)
    async with world.open() as memory:
        first, *_ = await memory.journal_entries()
        assert (first.state, first.next_attempt_at) == ("dead", None)
        world["notes"].store.create = create
        world.clock.forward(400)
        assert await memory.retry([first.number]) == 1
        assert (await world.contents("notes"))["p"] in ("poison", "poison still")


@pytest.mark.parametrize("size", [1, 500])
@clause("CH-37")
async def test_what_is_put_off_stays_so_however_much_is_done_at_once(spooling, monkeypatch, size):
    """What follows a write that was put off waits also where it is executed with other writes, and new memories that
    are stored together with one that fails are stored."""
    monkeypatch.setattr("memspine.chain.spool.BATCH", size)
    world = spooling()
    async with world.open() as memory:
        world.down("notes")
        for id, content in (("a", "one"), ("p", "poison"), ("b", "two")):
            await memory.create(content, id=id)
        await memory.update("p", content="three")
        await memory.create("four", id="c")
        world.up()
        for name in ("create", "create_many"):
            setattr(world["notes"].store, name, _poisoned(getattr(world["notes"].store, name)))
        await memory.health()
        assert (await memory.maintain(["deliver"])).executed == 3
        assert await world.contents("notes") == {"a": "one", "b": "two", "c": "four"}
        entries = await memory.journal_entries()
        assert [(one.operation, one.state, one.attempts) for one in entries] == [
            ("create", "pending", 1), ("update", "pending", 0)
        ]  # fmt: skip


@pytest.mark.parametrize("kind", ["lost", "late", "done", "killed"])
@pytest.mark.parametrize("write", ["create", "several", "keyed", "update", "delete"])
@BOTH
@clause("CH-38")
async def test_a_waiting_write_is_done_once(spooling, primary, write, kind):
    """A process that dies, or whose answer is lost, between the primary's doing and the journal's noting leaves no
    second revision and no dead letter behind."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        calls = {
            "create": lambda: memory.create("new", id="n"),
            "several": lambda: memory.create_many([NewMemory(content="new"), NewMemory(content="newer")]),
            "keyed": lambda: memory.create("new", key="k"),
            "update": lambda: memory.update("a", content="two", expected_revision=1),
            "delete": lambda: memory.delete("a", expected_revision=1),
        }
        await calls[write]()
    name = {"keyed": "create", "several": "create_many"}.get(write, write)
    world.up()
    await world.deliver_meeting("notes", kind, call=name)
    async with world.open() as memory:
        await world.quiet(memory)
        assert await memory.journal_entries() == ()
        held = {one.content: one.revision for one in (await world.held("notes")).values()}
        assert held == {
            "create": {"one": 1, "new": 1}, "several": {"one": 1, "new": 1, "newer": 1},
            "keyed": {"one": 1, "new": 1}, "update": {"two": 2}, "delete": {},
        }[write]  # fmt: skip
        assert (await world.contents("team")) == (await world.contents("notes"))


@pytest.mark.parametrize("seconds", [None, 60.0])
@BOTH
@clause("CH-38")
async def test_all_that_a_dead_process_had_done_is_found(spooling, monkeypatch, primary, seconds):
    """Of several writes for one memory that were done when their process died none is done again, be there time for
    all of them or only for few."""
    monkeypatch.setattr("memspine.chain.spool.FIRST_BATCH", 1)
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        await memory.update("a", content="two")
        await memory.update("a", content="three")
    world.up()
    with suppress(Killed):
        async with world.open() as memory:
            world["journal"].plan("killed", at=2)
            await memory.maintain(["deliver"])
    assert (await world.held("notes"))["me", "a"].revision == 3
    world.up()
    async with world.open() as memory:
        await memory.maintain(["deliver"], budget_seconds=seconds)
        await world.quiet(memory)
        assert await memory.journal_entries() == ()
    held = (await world.held("notes"))["me", "a"]
    assert (held.content, held.revision) == ("three", 3)


@clause("CH-38")
async def test_what_others_stored_is_not_taken_for_done(spooling):
    """A write that may have been done is done if what is there is not what it makes, though it looks like it."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes", "reset")
        await memory.create("new", id="n")
        await world.add("notes", "n", "theirs")
        await world.back(memory)
        await world.quiet(memory)
        world.down("notes", "reset")
        changed = await memory.update("a", content="two")
        await world["notes"].store.update("a", _content("two"), scope=ME, now=world.clock() - timedelta(seconds=9))
        await world.back(memory)
        await world.quiet(memory)
        assert await memory.journal_entries() == ()
        assert await world.contents("notes") == {"a": "two", "n": "new"}
        assert (await memory.get("a")).memory.updated_at == changed.memory.updated_at


def _content(text):
    return MemoryChanges(content=text)


def _poisoned(create):
    async def poisoned(memories, **named):
        some = memories if isinstance(memories, (list, tuple)) else [memories]
        if any("poison" in one.content for one in some):
            raise OSError("this one breaks it")
        return await create(memories, **named)

    return poisoned


@clause("CH-37")
async def test_a_clock_that_was_put_back_holds_no_write_up(spooling):
    """A write that failed while the clock was a year ahead is done a few minutes after it was put right."""
    world = spooling()
    async with world.open() as memory:
        world.down("notes")
        await memory.create("one", id="a")
        world.clock.forward(365 * 86400)
        world.down("notes", spared=("health", "capabilities", "get_many"))
        await memory.health()
        await memory.maintain(["deliver"])
        (entry,) = await memory.journal_entries()
        assert entry.attempts == 1
        world.clock.forward(-365 * 86400)
        await world.back(memory)
        world.clock.forward(600)
        assert (await memory.maintain(["deliver"])).executed == 1
        assert await world.contents("notes") == {"a": "one"}


@clause("CH-36")
@pytest.mark.parametrize("body", ['{"now":', "[]", '{"now": "2026-01-02T03:04:05.678Z", "memory": {"unheard": 1}}'])
async def test_an_entry_that_cannot_be_read_holds_nobody_up(spooling, body):
    """A waiting write that is damaged, or of another version, is a dead letter with the reason; reading goes on and
    says so, and all other writes are done."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes")
        await memory.update("a", content="two")
        await memory.create("three", id="b")
        damage = "UPDATE entries SET body = ?, operation = 'create' WHERE id = 'a'"
        await memory._running.chain.journal.write(lambda connection: connection.execute(damage, [body]))  # noqa: SLF001
        found = await memory.get("a")
        assert found.memory.content == "one"
        assert any("can read" in line for line in found.degraded)
        await world.back(memory)
        await world.quiet(memory)
        (entry,) = await memory.journal_entries()
        assert (entry.id, entry.state, "can read" in entry.error) == ("a", "dead", True)
        assert await world.contents("team") == {"a": "one", "b": "three"}


@clause("CH-34")
async def test_little_time_is_spent_on_few_writes_first(spooling):
    """Where the time is limited few waiting writes are executed at first and more each time, so that processes which
    have a moment each get on, however large the memories are; without a limit as many as can be."""
    world = spooling(deadline_seconds=10.0)
    sizes = []
    put = world["notes"].store.put

    async def counted(records, **named):
        sizes.append(len(records))
        return await put(records, **named)

    world["notes"].store.put = counted
    async with world.open() as memory:
        for seconds in (60.0, None):
            world.down("notes")
            for _ in range(500):
                await memory.create("one")
            await world.back(memory)
            await memory.maintain(["deliver"], budget_seconds=seconds)
    assert sizes == [18, 40, 80, 160, 200, 498]  # the first two may have been done, and are done alone
