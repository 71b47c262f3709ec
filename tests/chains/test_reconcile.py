"""Stores that went apart are made the same again, and the status tells where that is needed."""

from __future__ import annotations

import asyncio
import resource
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

from memspine.conformance.clauses import clause
from memspine.delivery.replica import replica_held
from memspine.errors import BackendUnavailable, InvalidMemoryError, JournalError, NotFoundError
from memspine.model import MemoryChanges, MemoryFilter

from .worlds import ALL, EVERYONE, ME, PLAIN

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])
PUT = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with put", "without put"])


async def apart(world, memory):
    """A primary and a replica that differ in every way that others can bring about."""
    for id in ("same", "both", "there", "gone", "gone-there", "deleted"):
        await memory.create(f"{id} at first", id=id)
    await world.quiet(memory)
    store, now = world["team"].store, world.clock()
    await store.update("both", MemoryChanges(content="theirs"), scope=ME, now=now)
    await store.update("there", MemoryChanges(content="theirs"), scope=ME, now=now)
    await store.update("gone", MemoryChanges(content="theirs"), scope=ME, now=now)
    await store.delete("gone-there", scope=ME, now=now)
    await world.add("team", "new-there", "put there by others")
    await memory.update("both", content="mine")
    await memory.update("gone-there", content="mine")
    await memory.delete("gone")
    await memory.delete("deleted")
    await memory.create("mine", id="new")
    await world.quiet(memory)


async def contents(world):
    """What the primary and the replica hold."""
    return await world.contents("notes"), await world.contents("team")


async def revisions(world, name):
    """At which revision a store has each memory."""
    return {ref: one.revision for ref, one in (await world.held(name)).items()}


@BOTH
@clause("CH-70")
async def test_without_a_side_nothing_is_decided(worlds, primary):
    """What one side alone has changed since is brought over; what others changed stays on both sides, in conflict."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await apart(world, memory)
        before = await contents(world)
        report = await memory.reconcile("team")
        assert await contents(world) == before
        assert (report.settled, report.deleted) == (0, 0)
        conflicts = {one.id for one in await memory.journal_entries() if one.state == "conflict"}
        assert conflicts == {"both", "there", "gone", "gone-there", "new-there"}
        assert report.conflicts == len(conflicts)
        assert (await memory.status()).backends[1].replica.conflicts == len(conflicts)


@BOTH
@clause("CH-71")
async def test_taking_the_primary(worlds, primary):
    """With the primary taken, the replica becomes what the primary is, and follows from then on."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await apart(world, memory)
        report = await memory.reconcile("team", take="primary")
        assert (report.settled, report.conflicts) == (5, 0)
        notes, team = await contents(world)
        assert notes == team == {
            "same": "same at first", "both": "mine", "there": "there at first", "gone-there": "mine", "new": "mine"
        }  # fmt: skip
        if primary is ALL:
            assert await revisions(world, "notes") == await revisions(world, "team")
        assert await memory.journal_entries() == ()
        for id in notes:
            await memory.update(id, content=f"{id} once more")
        await world.quiet(memory)
        notes, team = await contents(world)
        assert notes == team
        assert await memory.journal_entries() == ()


@PUT
@pytest.mark.parametrize("take", [None, "primary", "replica"])
@clause("CH-70", "CH-71", "CH-72")
async def test_a_key_that_both_sides_gave_away(worlds, primary, take):
    """Where both sides have another memory of one key, the report counts what is not settled; a side that is taken is
    what both have then, and nothing waits any more."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await world.add("team", "there", "theirs", key="k")
        await memory.create("mine", id="here", key="k")
        await memory.maintain(["deliver"])
        report = await memory.reconcile("team", take=take)
        notes, team = await contents(world)
        if take is None:
            assert (report.conflicts, report.refused) == (1, 1)
            assert (notes, team) == ({"a": "one", "here": "mine"}, {"a": "one", "there": "theirs"})
        else:
            assert (report.conflicts, report.refused) == (0, 0)
            assert notes == team == {"a": "one"} | {"here": "mine" if take == "primary" else "theirs"}
            assert await memory.journal_entries() == ()


@BOTH
@clause("CH-72")
async def test_taking_the_replica(worlds, primary):
    """With the replica taken, what it has and has deleted becomes a new revision of the primary, and the replica
    follows from then on."""
    world = worlds(primary=primary, fallbacks=("archive",))
    async with world.open() as memory:
        await apart(world, memory)
        await world.add("archive", "gone-there", "at first")
        before = {ref.id: one.revision for ref, one in (await world.held("notes")).items()}
        report = await memory.reconcile("team", take="replica")
        assert (report.settled, report.conflicts) == (5, 0)
        notes, team = await contents(world)
        assert notes == team == {
            "same": "same at first", "both": "theirs", "there": "theirs", "gone": "theirs", "new": "mine",
            "new-there": "put there by others",
        }  # fmt: skip
        held = {ref.id: one for ref, one in (await world.held("notes")).items()}
        assert held["both"].revision > before["both"]
        world.down("notes")
        with pytest.raises(BackendUnavailable):
            await memory.get("gone-there")
        await world.back(memory)
        await memory.delete("gone")
        for id in ("both", "there", "new-there"):
            await memory.update(id, content=f"{id} once more")
        await world.quiet(memory)
        notes, team = await contents(world)
        assert notes == team
        assert await memory.journal_entries() == ()


@BOTH
@pytest.mark.parametrize("store", ["notes", "team", "journal"])
@clause("CH-73")
async def test_a_reconcile_that_fails_forgets_nothing(worlds, primary, store):
    """Whichever call of a reconcile fails, done again it comes to the same, and no deletion or conflict is lost."""
    at = 0
    while True:
        at += 1
        world = worlds(primary=primary, is_quick=True)
        async with world.open() as memory:
            await apart(world, memory)
            await memory.delete("same")
            world[store].plan("refused", at=at, lasts=True)
            with suppress(BackendUnavailable, JournalError):
                await memory.reconcile("team")
            reached = len(world[store].calls) >= at
            await world.back(memory)
            await world.quiet(memory)
            assert "same" not in await world.contents("team"), at
            report = await memory.reconcile("team", take="primary")
            assert report.conflicts == 0, at
            notes, team = await contents(world)
            assert notes == team, at
        if not reached:
            break
    assert at > 5


@BOTH
@clause("CH-70", "CH-73")
async def test_what_is_stored_during_a_reconcile(worlds, primary):
    """What is stored behind the comparison's back arrives as well, by the time that it is over or with the next
    delivery."""
    world = worlds(primary=primary)
    store = world["team"].store
    listing = store.list

    async def late(*arguments, **named):
        found = await listing(*arguments, **named)
        store.list = listing
        await memory.create("late", id="late")
        return found

    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        store.list = late
        await memory.reconcile("team")
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "one", "late": "late"}


@clause("CH-74")
async def test_what_cannot_be_reconciled(worlds):
    """Only a replica of the chain can be reconciled, and only the two sides can be taken."""
    world = worlds(fallbacks=("archive",))
    async with world.open() as memory:
        for name in ("notes", "archive", "nobody"):
            with pytest.raises(NotFoundError, match="no replica"):
                await memory.reconcile(name)
        with pytest.raises(InvalidMemoryError):
            await memory.reconcile("team", take="both")
        world.down("team")
        with pytest.raises(BackendUnavailable):
            await memory.reconcile("team")


@BOTH
@clause("CH-70")
async def test_what_is_in_conflict_no_more(worlds, primary):
    """A reconcile looks at memories in conflict again: where nothing of others is in the way any more, the replica gets
    the primary's, and what neither has is settled."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await apart(world, memory)
        await world["team"].store.purge(["both"], scope=ME, now=world.clock())
        world["team"].store.state.shelf("me").tombstones.clear()
        await world["team"].store.delete("gone", scope=ME, now=world.clock())
        await memory.reconcile("team")
        assert (await world.contents("team"))["both"] == "mine"
        assert not {"both", "gone"} & {one.id for one in await memory.journal_entries()}


# ── status ──


@BOTH
@clause("CH-90")
async def test_the_status_says_how_everything_stands(worlds, primary):
    """Each backend with its role and its health of this moment, how far each replica is, what waits; and nothing is a
    problem when all is well."""
    world = worlds(primary=primary, fallbacks=("archive",), on_write_failure="spool")
    async with world.open() as memory:
        first = await memory.status()
        assert [(one.name, one.role) for one in first.backends] == [
            ("notes", "primary"), ("team", "replica"), ("archive", "fallback")
        ]  # fmt: skip
        assert (first.backends[1].replica.stage, first.backends[2].replica) == ("new", None)
        await memory.create("one", id="a")
        await world.quiet(memory)
        status = await memory.status()
        assert (status.backends[1].replica.stage, status.backends[1].replica.behind) == ("following", 0)
        await memory.update("a", content="two")
        await memory.create("three", id="b")
        assert (await memory.status()).backends[1].replica.behind == 2
        assert (await memory.status()).problems == ()
        world.down("notes")
        await memory.create("four", id="c")
        status = await memory.status()
        assert not status.backends[0].health.ok
        assert (status.journal.pending, status.journal.oldest_at is not None) == (1, True)
        assert "connection refused" in status.journal.reason
        assert status.backends[1].replica.behind is None
        assert [line.split(":")[0] for line in status.problems] == ["notes"]
        for _ in range(3):
            await memory.get("a")
        assert (await memory.status()).backends[0].breaker == "open for reading: connection refused"
        await world.back(memory)
        await world.quiet(memory)
        status = await memory.status()
        assert (status.problems, status.journal.pending, status.backends[1].replica.behind) == ((), 0, 0)


@pytest.mark.parametrize("kind", ["refused", "hang", "reset", "wrong"])
@clause("CH-90")
async def test_the_status_is_told_whatever_is_broken(worlds, kind):
    """With every store down and the journal unreadable there is a status, which says so line by line."""
    world = worlds(fallbacks=("archive",))
    async with world.open() as memory:
        await memory.create("one")
        await world.quiet(memory)
        for name in ("notes", "team", "archive"):
            world.down(name, kind)
        journal = memory._running.chain.journal  # noqa: SLF001 - its file is broken while it is in use
        await journal.close()
        journal.path.write_bytes(b"no database at all" * 100)
        status = await memory.status()
        assert [line.split(":")[0] for line in status.problems] == ["notes", "team", "archive", "journal"]
        assert status.journal.error


@clause("CH-90")
async def test_the_status_of_a_primary_whose_feed_is_broken(worlds):
    """Where the primary is well and its feed is not, nobody can say how far a replica is, and why is a problem."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one")
        await world.quiet(memory)
        world.down("notes", "reset", spared=set(dir(world["notes"].store)) - {"changes"})
        status = await memory.status()
        assert status.backends[1].replica.behind is None
        (problem,) = status.problems
        assert problem.startswith("team: ")
        assert "connection reset" in problem


@BOTH
@clause("CH-90")
async def test_the_status_counts_what_is_behind_page_by_page(worlds, monkeypatch, primary):
    """Of many changes a page is counted, and the status says that there are more; one that was begun counts as well."""
    monkeypatch.setattr("memspine.delivery.sources.PAGE_ROWS", 2)
    world = worlds(primary=primary)
    async with world.open() as memory:
        await world.quiet(memory)
        for n in range(3):
            await memory.create(f"m{n}", id=f"m{n}")
        replica = (await memory.status()).backends[1].replica
        assert (replica.behind, replica.behind_more) == (2, True)
        await world.quiet(memory)
        world.down("notes", "lost", spared=("health",))
        with pytest.raises(BackendUnavailable):
            await memory.update("m0", content="changed")
        await world.back(memory)
        replica = (await memory.status()).backends[1].replica
        assert (replica.behind, replica.behind_more) == (1, False)


@clause("CH-90")
async def test_the_status_of_a_journal_of_which_a_part_is_broken(worlds):
    """A journal that tells what waits but not how far a replica is, is a problem of the journal, and the status says
    so."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one")
        await world.quiet(memory)
        journal = memory._running.chain.journal  # noqa: SLF001 - its file is broken while it is in use
        await journal.write(lambda connection: connection.execute("DROP TABLE replicas"))
        status = await memory.status()
        assert [line.split(":")[0] for line in status.problems] == ["journal"]
        assert status.backends[1].replica is None


@pytest.mark.parametrize("is_there", [True, False], ids=["full", "not to be made"])
@clause("CH-90")
async def test_the_status_of_a_journal_that_cannot_be_written(worlds, is_there):
    """A journal into which nothing can be written now is a problem before anything has to be, beside what is known to
    wait; trying it writes nothing, makes no file, and passes when there is room again."""
    world = worlds(on_write_failure="spool")
    async with world.open() as memory:
        journal = memory._running.chain.journal  # noqa: SLF001 - its disk is filled while it is in use
        if is_there:
            world.down("notes")
            await memory.create("one")
            await world.back(memory)
            before = journal.path.read_bytes()
            with limited_files(100):
                status = await memory.status()
            assert status.journal.pending == 1
            assert journal.path.read_bytes() == before
        else:
            journal.path.parent.write_text("no folder")
            status = await memory.status()
            journal.path.parent.unlink()
        assert [line.split(":")[:2] for line in status.problems] == [["journal", " cannot be written to"]]
        assert (await memory.status()).problems == ()
        assert journal.path.exists() is is_there


@contextmanager
def limited_files(size):
    """No file grows beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@clause("CH-70", "CH-1")
async def test_a_reconcile_never_lists_for_callers(worlds):
    """Memories of everyone are compared, and those of every owner are brought over."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.create("of eve", id="a", owner="eve", management=True)
        report = await memory.reconcile("team")
        assert report.copied == 2
        await memory.update("a", content="changed")
        await memory.update("a", content="changed", owner="eve", management=True)
        world["notes"].store.state.feed.trim(None, before=world.clock() + timedelta(days=1), limit=100)
        report = await memory.reconcile("team")
        assert report.copied == 2
        assert {one.content for one in (await world.held("team")).values()} == {"changed"}
        page = await world["team"].store.list(MemoryFilter(), scope=EVERYONE, now=world.clock(), limit=10)
        assert {one.owner for one in page.memories} == {"me", "eve"}


@clause("CH-70", "CH-84")
async def test_a_reconcile_and_a_delivery_wait_for_each_other(worlds):
    """A reconcile waits while somebody else delivers to the replica, and says so when that takes too long; while it
    compares nobody delivers, so that nothing that is given meanwhile looks like a change of the replica's own."""
    world = worlds()
    async with world.open() as memory, world.open() as other:
        await apart(world, memory)
        journal = other._running.chain.journal  # noqa: SLF001 - what delivers holds this
        async with replica_held(journal, "team"):
            with pytest.raises(BackendUnavailable, match="somebody else was delivering"):
                await memory.reconcile("team")
        found, reports = world["team"].store.list, []

        async def listed(*arguments, **named):
            reports.append(await other.maintain(["deliver"]))
            return await found(*arguments, **named)

        world["team"].store.list = listed
        async with replica_held(journal, "team"):
            reconciling = asyncio.create_task(memory.reconcile("team", take="primary"))
            await asyncio.sleep(0.05)
        assert (await reconciling).conflicts == 0
        assert [report.delivered for report in reports] == [0] * len(reports) != []
        world["team"].store.list = found
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("notes")
