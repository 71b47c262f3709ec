"""What was acknowledged while the primary was away holds: times, ids, revisions, and what came in one call."""

from __future__ import annotations

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import BackendUnavailable, ConflictError, InvalidMemoryError, NotFoundError
from memspine.model import MemoryChanges, NewMemory

from .worlds import ALL, ME, PLAIN

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])


@pytest.fixture
def spooling(worlds):
    """Makes a world whose writes wait while the primary is down."""

    def make(**options):
        return worlds(on_write_failure="spool", **options)

    return make


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


@pytest.mark.parametrize("kind", ["reset", "lost", "late", "done", "killed"])
@clause("CH-34", "CH-38")
async def test_what_is_done_together_is_done_once(spooling, kind):
    """New memories that are done in one call, whose answer is lost or after which the process dies, are each done once
    and with their times; one that finds another in its place replaces that."""
    world = spooling()
    async with world.open() as memory:
        await memory.create("there", id="n1")
        world.down("notes")
        told = {}
        for n in range(6):
            world.clock.forward(60)
            told |= {f"n{n}": (await memory.create("new", id=f"n{n}")).memory}
    world.up()
    await world.deliver_meeting("notes", kind, call="put")
    async with world.open() as memory:
        await world.quiet(memory)
        held = {ref.id: one for ref, one in (await world.held("notes")).items()}
        assert {id: one.updated_at for id, one in held.items()} == {id: one.updated_at for id, one in told.items()}
        assert {id: one.revision for id, one in held.items()} == {**dict.fromkeys(told, 1), "n1": 2}
        assert await world.contents("team") == await world.contents("notes")
        assert await memory.journal_entries() == ()


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
@clause("CH-35", "CH-41", "CH-42")
async def test_who_waits_for_the_answer_is_told(spooling, primary):
    """What the primary answers to a write behind others, a refusal or another id, stands in no list beside that; the
    replica has what became of it."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("old", id="old", key="k")
        await world.quiet(memory)
        world.down("notes")
        await memory.create("one", id="a")
        await world.back(memory)
        made = await memory.create("new", id="mine", key="k")
        assert (made.memory.id, made.pending) == ("old", False)
        world.down("notes")
        await memory.create("two", id="b")
        await world.back(memory)
        create_many = world["notes"].store.create_many
        world["notes"].store.create_many = _poisoned(create_many, InvalidMemoryError("content", "poison", "no poison"))
        with pytest.raises(InvalidMemoryError):
            await memory.create_many([NewMemory(content="three"), NewMemory(content="poison")])
        assert await memory.journal_entries() == ()
        await world.quiet(memory)
        assert await world.contents("notes") == {"old": "new", "a": "one", "b": "two"}
        assert await world.contents("team") == await world.contents("notes")


@BOTH
@clause("CH-36", "CH-41")
async def test_what_cannot_be_read_is_refused_with_its_company(spooling, primary):
    """Where one of several memories of one call cannot be read in the journal, all of them are dead letters."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        world.down("notes")
        await memory.create_many([NewMemory(content="one")] * 3, ids=_ids(3))
        damage = "UPDATE entries SET body = '{' WHERE id = 'n1'"
        await memory._running.chain.journal.write(lambda connection: connection.execute(damage))  # noqa: SLF001
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == {}
        assert [one.state for one in await memory.journal_entries()] == ["dead"] * 3


@BOTH
@clause("CH-37", "CH-41")
async def test_what_was_created_together_waits_behind_one(spooling, primary):
    """Where an earlier write for one of several memories of one call has to wait, all of them wait behind it."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        world.down("notes")
        await memory.create("poison", id="n1", key="k")
        await memory.create_many([NewMemory(content="new")] * 3, ids=_ids(3))
        create = world["notes"].store.create
        world["notes"].store.create = _poisoned(create)
        await world.back(memory)
        for _ in range(2):
            assert not (await memory.maintain(["deliver"])).complete
            assert await world.contents("notes") == {}
        world["notes"].store.create = create
        world.clock.forward(400)
        await world.quiet(memory)
        assert await world.contents("notes") == dict.fromkeys(_ids(3), "new")


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
    await world.deliver_meeting("notes", kind, call="create")
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
        await world.deliver_meeting("journal", kind, at=at)
        async with world.open() as memory:
            await world.quiet(memory)
            held = await world.held("notes")
            assert [(one.id, one.content, one.revision) for one in held.values()] == [("old", "newer", 3)], at
            assert await world.contents("team") == {"old": "newer"}
            assert [one.state for one in await memory.journal_entries()] == ["renamed"]


@pytest.mark.parametrize("is_stepwise", [True, False], ids=["one by one", "at once"])
@BOTH
@clause("CH-42")
async def test_what_follows_another_id_up_to_its_deletion(spooling, primary, is_stepwise):
    """A delete of an acknowledged id deletes the memory that it became, for every reader; what is created with that id
    afterwards is a memory of its own. After 30 days nothing is told."""
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
        if is_stepwise:
            world.down("notes", spared=set(dir(world["notes"].store)) - {"update", "delete"})
        await memory.health()
        await memory.maintain(["deliver"])
        await world.back(memory)
        await world.quiet(memory)
        assert await world.contents("notes") == await world.contents("team") == {"mine": "after all"}
        assert [(one.id, one.state) for one in await memory.journal_entries()] == [("mine", "renamed")]
        world.clock.forward(29 * 86400)
        await world.quiet(memory)
        assert [one.id for one in await memory.journal_entries()] == ["mine"]
        world.clock.forward(2 * 86400)
        await world.quiet(memory)
        assert await memory.journal_entries() == ()
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
            await memory.create("walnut of all", id=id, owner="global", management=True, metadata={"n": 1})
        for id in ("a", "c"):
            await memory.create("walnut of mine", id=id)
        await world.quiet(memory)
        world.down("notes")
        await memory.delete("a")
        await memory.update("b", content="none of mine")
        await memory.create("anew", id="c", owner="global", management=True, metadata={"m": 2})
        await memory.delete("c")
        for is_back in (False, False, True):
            found = await memory.get_many(["a", "b", "c"], shared=True)
            assert {id: (one.memory.owner, one.memory.content, one.pending) for id, one in found.items()} == {
                "a": ("global", "walnut of all", False), "b": ("global", "walnut of all", False),
                "c": ("global", "anew", not is_back),
            }  # fmt: skip
            assert dict(found["c"].memory.metadata) == {"n": 1, "m": 2}
            assert list(await memory.get_many(["a", "c"])) == []
            page, hits = await memory.list(shared=True), await memory.search("walnut", shared=True)
            listed = {(one.owner, one.id) for one in page.memories}
            assert listed == {("global", "a"), ("global", "b"), ("global", "c")}
            expected = listed - ({("global", "c")} if is_back else set())
            assert {(hit.memory.owner, hit.memory.id) for hit in hits.hits} == expected
            if is_back or world["notes"].fault.spared:
                await world.back(memory)
                await world.quiet(memory)
            else:  # it can be read again, and not written yet
                world.down("notes", spared=set(dir(world["notes"].store)) - {"create", "update", "delete"})
                await memory.health()


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
        world.down("archive")
        with pytest.raises(BackendUnavailable):
            await memory.get("b", shared=True)
        world.up("archive")
        for _ in range(2):
            await memory.health()
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


@BOTH
@pytest.mark.parametrize("is_many", [False, True], ids=["create", "create_many"])
@clause("CH-51")
async def test_the_holder_of_a_key_arrives(spooling, primary, is_many):
    """A create with a key and an id of the caller's own, which changes the memory that has the key already, reaches the
    replica as a change of that one."""
    world = spooling(primary=primary)
    async with world.open() as memory:
        await memory.create("old", id="old", key="k")
        await world.quiet(memory)
        if is_many:
            (made,) = await memory.create_many([NewMemory(content="new", key="k")], ids=["mine"])
        else:
            made = await memory.create("new", id="mine", key="k")
        assert made.memory.id == "old"
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("notes") == {"old": "new"}
        assert await memory.journal_entries() == ()


def _content(text):
    return MemoryChanges(content=text)


def _poisoned(create, error=OSError("this one breaks it")):  # noqa: B008 - it is raised as it is
    async def poisoned(memories, **named):
        some = memories if isinstance(memories, (list, tuple)) else [memories]
        if any("poison" in one.content for one in some):
            raise error
        return await create(memories, **named)

    return poisoned
