"""Writes that wait for a primary."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable, ConflictError, InvalidMemoryError, JournalError, NotFoundError
from memspine.model import MemoryChanges, MemoryFilter, NewMemory

from .worlds import ALL, ME, PLAIN, Killed

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])


@pytest.fixture
def spooling(worlds):
    """Makes a world whose writes wait while the primary is down."""

    def make(**options):
        return worlds(on_write_failure="spool", **options)

    return make


@BOTH
@clause("CH-31", "CH-34", "CH-51")
async def test_a_write_waits_for_the_primary(spooling, primary):
    """While the primary is down creates, updates and deletes are acknowledged as pending, survive the process, and are
    done with the ids, keys and times that were acknowledged, in their order, when it is back."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.create("two", id="b")
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
    try:
        async with world.open() as memory:
            world["notes"].plan(kind, spared=set(dir(world["notes"].store)) - {name})
            await memory.maintain(["deliver"])
    except Killed:
        pass
    world.up()
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
        await memory.create("one", id="a", metadata={"n": 1})
        world.down("notes", "reset")
        await memory.create("new", id="n")
        changed = await memory.update("a", content="two")
        world.up()
        await world.add("notes", "n", "theirs")
        await world["notes"].store.update("a", _content("two"), scope=ME, now=world.clock() - timedelta(seconds=9))
        await world.back(memory)
        await world.quiet(memory)
        assert await memory.journal_entries() == ()
        assert await world.contents("notes") == {"a": "two", "n": "new"}
        assert (await memory.get("a")).memory.updated_at == changed.memory.updated_at


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
    create_many = world["notes"].store.create_many

    async def counted(memories, **named):
        sizes.append(len(memories))
        return await create_many(memories, **named)

    world["notes"].store.create_many = counted
    async with world.open() as memory:
        for seconds in (60.0, None):
            world.down("notes")
            await memory.create_many([NewMemory(content="one") for _ in range(500)])
            await world.back(memory)
            await memory.maintain(["deliver"], budget_seconds=seconds)
    assert sizes == [20, 40, 80, 160, 200, 500]
