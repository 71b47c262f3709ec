"""Writes that wait for a primary."""

from __future__ import annotations

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
@clause("CH-31", "CH-34")
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
        changed = await memory.update("a", content="one again")
        gone = await memory.delete("b")
        assert (changed.pending, gone.pending, gone.revision, gone.backend) == (True, True, 0, "journal")
        again = await memory.create("three again", key="k", id="c", metadata={"m": 2})
        many = await memory.create_many([NewMemory(content="d"), NewMemory(content="e")], ids=["d", "e"])
        assert [one.pending for one in many] == [True, True]
        assert not again.created
        entries = await memory.journal_entries()
        assert [(one.operation, one.id) for one in entries] == [
            ("create", "c"), ("update", "a"), ("delete", "b"), ("create", "c"), ("create", "d"), ("create", "e")
        ]  # fmt: skip
    world.clock.forward(3600)
    world.up()
    async with world.open() as memory:
        report = await memory.maintain(["deliver"])
        assert (report.executed, report.complete, report.troubles) == (6, True, ())
        held = {ref.id: one for ref, one in (await world.held("notes")).items()}
        assert {id: one.content for id, one in held.items()} == {
            "a": "one again", "c": "three again", "d": "d", "e": "e"
        }  # fmt: skip
        assert held["c"].metadata == {"n": 1, "m": 2}
        assert (held["c"].updated_at, held["a"].updated_at) == (again.memory.updated_at, changed.memory.updated_at)
        assert held["d"].created_at == many[0].memory.created_at
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
        await memory.create("walnut one", id="a")
        await memory.create("walnut two", id="b")
        await world.quiet(memory)
        world.down("notes")
        await memory.create("walnut three", id="c")
        await memory.update("a", content="walnut anew")
        await memory.delete("b")
        found = await memory.get_many(["a", "b", "c"])
        assert {id: (one.memory.content, one.pending, one.backend) for id, one in found.items()} == {
            "a": ("walnut anew", True, "journal"), "c": ("walnut three", True, "journal")
        }  # fmt: skip
        with pytest.raises(NotFoundError):
            await memory.get("b")
        with pytest.raises(NotFoundError):
            await memory.update("b", content="too late")
        page, counts, hits = await memory.list(), await memory.count(), await memory.search("walnut")
        assert [one.id for one in page.memories] == ["a"]
        assert [hit.memory.id for hit in hits.hits] == ["a"]
        for told in (page.degraded, counts.degraded, hits.trace.degraded):
            assert any("3 writes wait for the primary" in text for text in told)
        await world.back(memory)
        await world.quiet(memory)
        found = await memory.get("a")
        assert (found.memory.content, found.pending, found.backend, found.memory.revision) == (
            "walnut anew", False, "notes", 2
        )  # fmt: skip


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


@BOTH
@clause("CH-36")
async def test_what_no_longer_fits_is_a_dead_letter(spooling, primary):
    """A waiting write keeps the revision that it was based on: changed meanwhile, it is a dead letter that says why,
    and all others are done, those of the same memory too."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        await memory.update("a", content="mine", expected_revision=1)
        await memory.delete("gone")
        await memory.create("two", id="b")
        await world["notes"].store.update("a", _content("theirs"), scope=ME, now=world.clock())
        await world.back(memory)
        report = await memory.maintain(["deliver"])
        assert report.executed == 1
        entries = await memory.journal_entries()
        assert [(one.state, one.operation, one.id) for one in entries] == [
            ("dead", "update", "a"), ("dead", "delete", "gone")
        ]  # fmt: skip
        assert "revision" in entries[0].error
        assert await world.contents("notes") == {"a": "theirs", "b": "two"}
        status = await memory.status()
        assert (status.journal.dead, status.journal.pending) == (2, 0)
        assert any("2 writes that did not go" in line for line in status.problems)


@clause("CH-37")
async def test_one_write_holds_nobody_up(spooling):
    """A write that fails while the primary works is put off, with those that follow it for the same memory; all others
    are done. Its pause stands in the journal, and after eight attempts it is a dead letter."""
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
        assert (first.attempts, second.attempts) == (1, 0)
        assert first.next_attempt_at > world.clock()
    for attempt in range(2, 9):
        async with world.open() as memory:  # another process keeps to the pause
            calls = len(world["notes"].calls)
            await memory.maintain(["deliver"])
            assert "create" not in world["notes"].calls[calls:]
            world.clock.forward(400)
            await memory.maintain(["deliver"])
            assert (await memory.journal_entries())[0].attempts == attempt
    async with world.open() as memory:
        first, *_ = await memory.journal_entries()
        assert (first.state, first.next_attempt_at) == ("dead", None)
        world["notes"].store.create = create
        world.clock.forward(400)
        assert await memory.retry([first.number]) == 1
        assert (await world.contents("notes"))["p"] in ("poison", "poison still")


@pytest.mark.parametrize("kind", ["lost", "late", "done", "killed"])
@pytest.mark.parametrize("write", ["create", "keyed", "update", "delete"])
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
            "keyed": lambda: memory.create("new", key="k"),
            "update": lambda: memory.update("a", content="two", expected_revision=1),
            "delete": lambda: memory.delete("a", expected_revision=1),
        }
        await calls[write]()
    name = {"keyed": "create"}.get(write, write)
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
            "create": {"one": 1, "new": 1}, "keyed": {"one": 1, "new": 1}, "update": {"two": 2}, "delete": {}
        }[write]  # fmt: skip
        assert (await world.contents("team")) == (await world.contents("notes"))


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


@clause("CH-34")
async def test_what_is_done_together_keeps_its_times(spooling):
    """New memories that waited are done in few calls, and each has the times that it was acknowledged with."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("gone", id="n7")
        await memory.delete("n7")
        world.down("notes")
        told = {}
        for n in range(10):
            world.clock.forward(60)
            told |= {f"n{n}": (await memory.create("new", id=f"n{n}")).memory}
        await world.back(memory)
        world["notes"].calls.clear()
        await world.quiet(memory)
        held = {ref.id: one for ref, one in (await world.held("notes")).items()}
        times = {id: (one.created_at, one.updated_at) for id, one in held.items()}
        assert times == {id: (one.created_at, one.updated_at) for id, one in told.items()}
        assert held["n7"].revision > 2
        assert world["notes"].calls.count("put") == 1
        assert await world.contents("team") == await world.contents("notes")


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "left"])
@BOTH
@clause("CH-35", "CH-41")
async def test_what_was_created_together_is_refused_together(spooling, primary, is_told):
    """Memories that were created in one call are all done or none: where the primary refuses one, all of them are
    raised to who waits for the answer, or are dead letters; tried again when it fits, all are done, also by one
    number."""
    world = spooling(primary=primary)
    new = [NewMemory(content=f"new {n}", key=f"k{n}", metadata={"n": "x" * 40_000}) for n in range(3)]
    async with world.open() as memory:
        old = await memory.create("old", key="k1", metadata={"m": "x" * 40_000})
        world.down("notes")
        await memory.create("one", id="a")
        if not is_told:
            assert all(one.pending for one in await memory.create_many(new))
        await world.back(memory)
        if is_told:
            with pytest.raises(InvalidMemoryError, match="metadata"):
                await memory.create_many(new)
        await world.quiet(memory)
        assert set((await world.contents("notes")).values()) == {"old", "one"}
        found = await memory.journal_entries()
        assert [one.state for one in found] == ([] if is_told else ["dead"] * 3)
        if not is_told:
            await memory.delete(old.memory.id)
            assert await memory.retry([found[2].number]) == 3
            assert set((await world.contents("notes")).values()) == {"one", "new 0", "new 1", "new 2"}


@BOTH
@clause("CH-37", "CH-41")
async def test_what_was_created_together_waits_together(spooling, primary):
    """A primary that works and cannot bear one of several memories of one call has none of them, whatever is before or
    behind them, and all when it can; a write for one of them waits behind them."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        world.down("notes")
        await memory.create("before", id="a")
        await memory.create_many([NewMemory(content="poison"), *[NewMemory(content="new")] * 700], ids=_ids(701))
        await memory.update("n600", content="changed")
        await memory.create("behind", id="b")
        create_many = world["notes"].store.create_many
        world["notes"].store.create_many = _poisoned(create_many)
        await world.back(memory)
        await memory.maintain(["deliver"])
        assert await world.contents("notes") == {"a": "before", "b": "behind"}
        assert {one.attempts for one in (await memory.journal_entries())} == {0, 1}
        world["notes"].store.create_many = create_many
        world.clock.forward(400)
        await world.quiet(memory)
        contents = await world.contents("notes")
        assert (len(contents), contents["n0"], contents["n600"]) == (703, "poison", "changed")


@pytest.mark.parametrize("kind", ["", "lost", "late", "done", "killed"])
@BOTH
@clause("CH-38", "CH-42")
async def test_an_acknowledged_id_that_is_another(spooling, primary, kind):
    """A create whose key has, unknown to who acknowledged it, another memory becomes that memory, once, whatever the
    process meets then; the journal tells which one it is, and what was entered behind it goes there."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("old", id="old", key="k")
        world.down("notes")
        world.down("team")
        made = await memory.create("new", id="mine", key="k")
        assert made.memory.id == "mine"
        assert any("keep its id" in text for text in made.degraded)
        await memory.update("mine", content="newer", expected_revision=0)
        await memory.create("other", id="b")
    world.up()
    try:
        async with world.open() as memory:
            if kind:
                world["notes"].plan(kind, spared=set(dir(world["notes"].store)) - {"create"})
            await memory.maintain(["deliver"])
    except Killed:
        pass
    world.up()
    async with world.open() as memory:
        await world.quiet(memory)
        held = {ref.id: (one.content, one.revision) for ref, one in (await world.held("notes")).items()}
        assert held == {"old": ("newer", 3), "b": ("other", 1)}
        assert await world.contents("team") == await world.contents("notes")
        (entry,) = await memory.journal_entries()
        assert (entry.id, entry.state, "'old'" in entry.error) == ("mine", "renamed", True)
        assert (await memory.retry(), await memory.retry([entry.number])) == (0, 0)
        assert [one.state for one in await memory.journal_entries()] == ["renamed"]
        with pytest.raises(NotFoundError):
            await memory.get("mine")
        assert await memory.drop([entry.number]) == 1


@pytest.mark.parametrize("kind", ["killed", "done"])
@BOTH
@clause("CH-38", "CH-42", "CH-85")
async def test_an_id_that_is_another_is_noted_once(spooling, primary, kind):
    """A process that dies before or after any of its notes leaves neither a write undone nor one done twice."""
    for at in range(1, 6):
        world = spooling(primary=primary)
        async with world.open() as memory:
            await memory.create("old", id="old", key="k")
            world.down("notes")
            world.down("team")
            await memory.create("new", id="mine", key="k")
            await memory.update("mine", content="newer", expected_revision=0)
        world.up()
        try:
            async with world.open() as memory:
                world["journal"].plan(kind, at=at)
                await memory.maintain(["deliver"])
        except Killed:
            pass
        world.up()
        async with world.open() as memory:
            await world.quiet(memory)
            held = await world.held("notes")
            assert [(one.id, one.content, one.revision) for one in held.values()] == [("old", "newer", 3)], at
            assert await world.contents("team") == {"old": "newer"}
            assert [one.state for one in await memory.journal_entries()] == ["renamed"]


@BOTH
@clause("CH-42")
async def test_what_follows_another_id_up_to_its_deletion(spooling, primary):
    """A delete of an acknowledged id deletes the memory that it became, for every reader; what is created with that id
    afterwards is a memory of its own. So it is when they are executed one by one. After 30 days nothing is told."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("old", id="old", key="k")
        await world.quiet(memory)
        world.down("notes")
        world.down("team")
        await memory.create("new", id="mine", key="k")
        await memory.update("mine", content="newer")
        await memory.delete("mine")
        await memory.create("after", id="mine")
        await memory.update("mine", content="after all")
        world.up()
        world.down("notes", spared=set(dir(world["notes"].store)) - {"update", "delete"})
        await memory.health()
        await memory.maintain(["deliver"])
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == await world.contents("team") == {"mine": "after all"}
        assert [(one.id, one.state) for one in await memory.journal_entries()] == [("mine", "renamed")]
        world.clock.forward(31 * 86400)
        await memory.create("old", id="old", key="k")
        world.down("notes")
        await memory.create("new", id="his", key="k")
        await world.back(memory)
        await world.quiet(memory)
        assert [(one.id, one.state) for one in await memory.journal_entries()] == [("his", "renamed")]


@BOTH
@clause("CH-36", "CH-43")
async def test_a_revision_that_waited(spooling, primary):
    """A memory that waits is changed by its revision 0 as long as it waits: the change is done if nothing else came
    between, also where the writes are done in steps. Where it waits no more, revision 0 is a conflict."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="b")
        world.down("notes")
        await memory.create("one", id="a")
        for id, content in (("a", "two"), ("a", "three"), ("b", "two")):
            waiting = await memory.get("a")
            expected = waiting.memory.revision if id == "a" else None
            assert (await memory.update(id, content=content, expected_revision=expected)).pending
        await memory.update("b", content="mine", expected_revision=0)
        world.down("notes", spared=set(dir(world["notes"].store)) - {"update"})
        await memory.health()
        await memory.maintain(["deliver"])  # the create, and no update
        await world.back(memory)
        world.down("notes", spared=set(dir(world["notes"].store)) - {"delete"})
        await memory.health()
        await memory.maintain(["deliver"])
        world.clock.forward(400)
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == {"a": "three", "b": "mine"}
        assert await memory.journal_entries() == ()
        for write in (memory.update("a", content="four", expected_revision=0), memory.delete("b", expected_revision=0)):
            with pytest.raises(ConflictError, match="waits no more"):
                await write
        with pytest.raises(NotFoundError):
            await memory.update("c", content="four", expected_revision=0)
        world.down("notes")
        with pytest.raises(ConflictError, match="waited for the primary"):
            await memory.update("b", content="four", expected_revision=0)
        assert await memory.journal_entries() == ()


@BOTH
@clause("CH-36", "CH-43")
async def test_a_revision_that_never_came_to_be(spooling, primary):
    """What was based on a write that became a dead letter, or over which others wrote before it, is a dead letter too;
    all are done in their order when they fit and are tried again."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("notes")
        await memory.update("a", content="two", expected_revision=1)
        await memory.update("a", content="three", expected_revision=0)
        await world["notes"].store.update("a", _content("theirs"), scope=ME, now=world.clock())
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == {"a": "theirs"}
        assert [one.state for one in await memory.journal_entries()] == ["dead", "dead"]
        await memory.drop([one.number for one in await memory.journal_entries()])
        world.down("notes")
        await memory.update("a", content="four")
        await memory.update("a", content="five", expected_revision=0)
        world.up()
        await _executed_alone(world, memory)
        await world["notes"].store.update("a", _content("theirs again"), scope=ME, now=world.clock())
        await world.quiet(memory)
        assert await world.contents("notes") == {"a": "theirs again"}
        assert [one.state for one in await memory.journal_entries()] == ["dead"]


async def _executed_alone(world, memory):
    """Have the first update that waits executed, and none that follows."""
    update = world["notes"].store.update

    async def once(*arguments, **named):
        world.down("notes")
        return await update(*arguments, **named)

    world["notes"].store.update = once
    await memory.health()
    await memory.maintain(["deliver"])
    world["notes"].store.update = update
    await world.back(memory)


def _ids(count):
    return [f"n{n}" for n in range(count)]


@BOTH
@clause("CH-9", "CH-33")
async def test_a_waiting_delete_hides_no_memory_of_others(spooling, primary):
    """A memory of one's own that is to be deleted, or a write for one that there is not, leaves a memory of `global`
    with the same id where it was: in get, list and search, from the primary and from a replica."""
    world = spooling(primary=primary, read_fallback=True)
    async with world.open() as memory:
        for id in ("a", "b", "c"):
            await memory.create("walnut of all", id=id, owner="global", management=True)
        for id in ("a", "c"):
            await memory.create("walnut of mine", id=id)
        await world.quiet(memory)
        world.down("notes")
        await memory.delete("a")
        await memory.update("b", content="none of mine")
        await memory.update("c", content="anew", owner="global", management=True)
        await memory.delete("c")
        for is_back in (False, True):
            found = await memory.get_many(["a", "b", "c"], shared=True)
            assert {id: (one.memory.owner, one.memory.content, one.pending) for id, one in found.items()} == {
                "a": ("global", "walnut of all", False), "b": ("global", "walnut of all", False),
                "c": ("global", "anew", not is_back),
            }  # fmt: skip
            assert list(await memory.get_many(["a", "c"])) == []
            page, hits = await memory.list(shared=True), await memory.search("walnut", shared=True)
            listed = {(one.owner, one.id) for one in page.memories}
            assert listed == {("global", "a"), ("global", "b"), ("global", "c")}
            expected = listed - ({("global", "c")} if is_back else set())
            assert {(hit.memory.owner, hit.memory.id) for hit in hits.hits} == expected
            await world.back(memory)
            await world.quiet(memory)


@clause("CH-6", "CH-21", "CH-33")
async def test_a_deletion_of_ones_own_says_nothing_of_others(spooling):
    """A memory of `global` that only a fallback has is found also where one's own of that id was deleted or is about
    to be; where nobody can say whether it is there, that is said."""
    world = spooling(fallbacks=("archive",), replicas=())
    async with world.open() as memory:
        for id in ("a", "b"):
            await memory.create("mine", id=id)
            await world.add("archive", id, "mine of old")
            await world.add("archive", id, "of all", owner="global")
        await memory.delete("a")
        world.down("notes")
        await memory.delete("b")
        for _ in range(2):
            found = await memory.get_many(["a", "b"], shared=True)
            assert {id: (one.memory.owner, one.memory.content) for id, one in found.items()} == {
                "a": ("global", "of all"), "b": ("global", "of all")
            }  # fmt: skip
            await world.back(memory)
            await world.quiet(memory)
        world.down("archive")
        for id in ("a", "b"):
            with pytest.raises(BackendUnavailable):
                await memory.get(id, shared=True)
        for id in ("a", "b"):
            with pytest.raises(NotFoundError):
                await memory.get(id)
