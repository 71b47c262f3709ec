"""What the primary has arrives in every replica."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

import attrs
import pytest

from memspine import times
from memspine.conformance.clauses import clause
from memspine.contracts import Capability
from memspine.errors import BackendUnavailable, CapabilityError, InvalidMemoryError
from memspine.model import MemoryChanges, MemoryFilter, NewMemory, Scope, Tombstone

from .worlds import ALL, ME, PLAIN, Killed

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])


async def same(world, *names, revisions=True):
    """Whether replicas hold what the primary holds."""
    states = [
        {ref: (one.content_hash, one.revision if revisions else 0) for ref, one in (await world.held(name)).items()}
        for name in ("notes", *names)
    ]
    return all(state == states[0] for state in states)


async def change(world, name, id, content, *, owner="me"):
    """A change behind the chain's back."""
    scope = Scope.of_owner(owner)
    await world[name].store.update(id, MemoryChanges(content=content), scope=scope, now=world.clock())


@BOTH
@clause("CH-50")
async def test_a_new_replica_gets_everything(worlds, primary):
    """What was there before there was a replica is copied with ids, revisions, times, keys, metadata and expiry, of
    every owner; what was deleted while it was copied is not there."""
    world = worlds(primary=primary)
    async with world.open(fallbacks=[]) as memory:
        for n in range(3):
            await memory.create(f"m{n}", id=f"m{n}", metadata={"n": n}, session="s")
        await memory.update("m1", content="changed")
        await memory.create("keyed", key="k", expires_at=world.clock() + timedelta(days=1))
        await memory.create("of eve", id="m0", owner="eve", management=True)
    async with world.open() as memory:
        await world.quiet(memory)
        assert len(await world.held("team")) == 5
        assert await same(world, "team")
        assert (await memory.status()).backends[1].replica.stage == "following"


@pytest.fixture
def small_pages(monkeypatch):
    """Pages of two memories or changes, so that few are many."""
    for module in ("calls", "sources"):
        monkeypatch.setattr(f"memspine.replication.{module}.PAGE_ROWS", 2)


@BOTH
@clause("CH-50")
async def test_what_changes_while_it_is_copied(worlds, small_pages, primary):
    """A copy that takes several pages, each in a round of its own, comes to its end, and what was changed or deleted
    behind it meanwhile arrives as it is by then."""
    world = worlds(primary=primary)
    async with world.open(fallbacks=[]) as memory:
        for n in range(5):
            await memory.create(f"m{n}", id=f"m{n}")
    async with world.open() as memory:
        deliveries = memory._running.deliveries  # noqa: SLF001 - a round that has time for one page
        await deliveries.run(seconds=0.0)
        assert set(await world.contents("team")) == {"m0", "m1"}
        await memory.delete("m0")
        await memory.update("m1", content="changed")
        for _ in range(4):
            await deliveries.run(seconds=0.0)
        assert await world.contents("team") == await world.contents("notes")
        assert set(await world.contents("team")) == {"m1", "m2", "m3", "m4"}


@BOTH
@clause("CH-51")
async def test_all_changes_arrive_in_one_go(worlds, small_pages, primary):
    """A round that has time brings all changes, however many pages they are."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await world.quiet(memory)
        for n in range(5):
            await memory.create(f"m{n}", id=f"m{n}")
        report = await memory.maintain(["deliver"])
        assert (report.delivered, report.complete) == (5, True)


@BOTH
@clause("CH-51")
async def test_a_change_that_nobody_knows_of_arrives(worlds, primary):
    """A write whose answer was lost arrives in the replica if it was done, and then nothing is behind any more."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("notes", "lost", spared=("health",))
        with pytest.raises(BackendUnavailable):
            await memory.update("a", content="two")
        await world.back(memory)
        await memory.maintain(["deliver"])
        assert await world.contents("team") == {"a": "two"}
        await world.quiet(memory)
        assert (await memory.status()).backends[1].replica.behind == 0


@BOTH
@clause("CH-51")
async def test_every_change_arrives(worlds, primary):
    """Creates, replacements, updates, deletes, bulk deletes, restored states and purges arrive in each replica, with
    the revisions of a primary that counts them."""
    world = worlds(primary=primary, replicas=("team", "far"))
    async with world.open() as memory:
        for n in range(6):
            await memory.create(f"m{n}", id=f"m{n}")
        await world.quiet(memory)
        await memory.update("m0", content="changed")
        await memory.update("m0", content="changed again")
        await memory.create("one", key="k")
        await memory.create("two", key="k")
        await memory.delete("m1")
        await memory.delete("m2")
        await memory.create("m2 again", id="m2")
        await memory.delete_many(MemoryFilter(text="m3"), dry_run=False)
        await memory.purge(["m4"])
        await world.quiet(memory)
        assert await same(world, "team", "far", revisions=primary is ALL)
        assert set((await world.contents("team")).values()) == {"changed again", "two", "m2 again", "m5"}
        await memory.delete("m0")
        await memory.restore("m0", revision=2)
        await world.quiet(memory)
        assert await same(world, "team", "far", revisions=primary is ALL)
        assert "m0" in await world.contents("far")


@BOTH
@pytest.mark.parametrize("forgets", [False, True])
@clause("CH-51")
async def test_a_deletion_is_one_there(worlds, primary, forgets):
    """What the primary has deleted is deleted in the replica, with a tombstone, though the primary keeps none."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.delete("a")
        if forgets:
            world["notes"].store.state.shelf("me").tombstones.clear()
        await world.quiet(memory)
        assert set(await world["team"].store.tombstones(["a"], scope=ME)) == {"a"}


@clause("CH-51")
async def test_a_primary_that_counts_nothing(worlds):
    """All states of a primary whose revisions are always the same arrive, and deletions among them."""
    world = worlds(primary=PLAIN)
    store = world["notes"].store
    get_many = store.get_many

    async def uncounted(ids, **named):
        return {id: attrs.evolve(one, revision=1) for id, one in (await get_many(ids, **named)).items()}

    store.get_many = uncounted
    async with world.open() as memory:
        for content in ("one", "two", None, "three", "four", None, "two"):
            if content is None:
                await memory.delete("a")
            else:
                await memory.create(content, id="a")
            await world.quiet(memory)
            assert await world.contents("team") == ({} if content is None else {"a": content})
            assert await memory.journal_entries() == ()


@clause("CH-51")
async def test_states_in_between_arrive_too(worlds):
    """A replica that keeps history gets every state of a memory, in order."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.update("a", content="two")
        await world.quiet(memory)
        await memory.update("a", content="three")
        await memory.update("a", content="four")
        await world.quiet(memory)
        states = await world["team"].store.history("a", scope=ME)
        assert [one.memory.content for one in states] == ["one", "two", "three", "four"]


@BOTH
@clause("CH-51")
async def test_a_key_that_moves(worlds, primary):
    """A key that one memory let go of and another took arrives, in whatever order the memories are told."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="z", key="k")
        await memory.create("two", id="a")
        await world.quiet(memory)
        await memory.update("z", key="")
        await memory.update("a", key="k")
        await memory.update("z", content="one still")
        await world.quiet(memory)
        assert await same(world, "team", revisions=primary is ALL)
        assert await memory.journal_entries() == ()


@BOTH
@clause("CH-52")
async def test_nothing_is_given_twice(worlds, primary):
    """What a replica has is not given again: not by the next round, not by another process at the same time."""
    world = worlds(primary=primary)
    async with world.open() as memory, world.open() as other:
        for n in range(5):
            await memory.create(f"m{n}", id=f"m{n}")
        reports = await asyncio.gather(*(one.maintain(["deliver"]) for one in (memory, other, memory)))
        assert sum(report.delivered for report in reports) == 5
        assert world["team"].calls.count("put") == 1
        await other.update("m0", content="changed")
        reports = await asyncio.gather(*(one.maintain(["deliver"]) for one in (memory, other)))
        assert sum(report.delivered for report in reports) == 1
        await world.quiet(memory)
        await world.quiet(other)
        assert world["team"].calls.count("put") == 2
        assert await same(world, "team", revisions=primary is ALL)
        assert (await memory.status()).backends[1].replica.behind == 0


@BOTH
@pytest.mark.parametrize("last", ["changed again", None])
@clause("CH-52")
async def test_a_delivery_that_died(worlds, primary, last):
    """What a delivery had given when it died is no change of others, though the primary has gone on since."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.update("a", content="changed")
    with suppress(Killed):
        async with world.open() as memory:
            world["team"].plan("done", spared=set(dir(world["team"].store)) - {"put"})
            await memory.maintain(["deliver"])
    world.up()
    assert await world.contents("team") == {"a": "changed"}
    async with world.open() as memory:
        if last is None:
            await memory.delete("a")
        else:
            await memory.update("a", content=last)
        await world.quiet(memory)
        assert await world.contents("team") == ({} if last is None else {"a": last})
        assert await memory.journal_entries() == ()


@clause("CH-52")
async def test_a_deletion_is_given_once(worlds):
    """A deletion that has arrived is not given again, though the memory is deleted once more."""
    world = worlds(primary=PLAIN)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.delete("a")
        await world.quiet(memory)
        puts = world["team"].calls.count("put")
        await memory.put([Tombstone(id="a", owner="me", revision=2, deleted_at=world.clock())])
        await world.quiet(memory)
        assert world["team"].calls.count("put") == puts


@clause("CH-53")
async def test_a_replica_that_others_change_at_the_moment(worlds):
    """What others change in a replica between a look and the giving is in conflict at once."""
    world = worlds()
    store = world["team"].store
    get_many = store.get_many

    async def late(ids, **named):
        found = await get_many(ids, **named)
        store.get_many = get_many
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


@BOTH
@pytest.mark.parametrize("kind", ["refused", "hang", "reset"])
@clause("CH-56", "CH-60", "CH-90")
async def test_a_replica_that_is_away(worlds, primary, kind):
    """A replica that does not answer costs no write anything; it is left alone for a pause that every process keeps to,
    and gets everything when it is back."""
    world = worlds(primary=primary, replicas=("team", "far"))
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        world.down("team", kind)
        for n in range(3):
            assert (await memory.create(f"m{n}", id=f"m{n}")).degraded == ()
        await memory.delete("m2")
        assert world["team"].calls == []
        report = await memory.maintain(["deliver"])
        assert not report.complete
        assert report.troubles[0].startswith("team: ")
    async with world.open() as memory:
        status = await memory.status()
        replica = status.backends[1].replica
        assert (replica.attempts, replica.next_attempt_at > world.clock()) == (1, True)
        assert any(line.startswith("team: ") for line in status.problems)
        world["team"].calls.clear()
        await memory.maintain(["deliver"])
        assert world["team"].calls == []
        assert await same(world, "far", revisions=primary is ALL)
        for attempts in range(2, 6):
            world.clock.forward(400)
            await memory.maintain(["deliver"])
            replica = (await memory.status()).backends[1].replica
            assert replica.attempts == attempts
            assert replica.next_attempt_at - world.clock() > timedelta(seconds=0.4 * 2 ** (attempts - 1))
        await world.back(memory)
        world.clock.forward(400)
        await world.quiet(memory)
        assert await same(world, "team", "far", revisions=primary is ALL)
        assert (await memory.status()).problems == ()


@clause("CH-56")
async def test_a_replica_that_is_well_and_takes_nothing(worlds):
    """Where nothing that a replica is given arrives, it is the replica that is left alone, and no memory is set
    aside."""
    world = worlds()
    async with world.open() as memory:
        for n in range(5):
            await memory.create(f"m{n}", id=f"m{n}")
        world.down("team", "reset", spared=set(dir(world["team"].store)) - {"put"})
        await memory.maintain(["deliver"])
        assert await memory.journal_entries() == ()
        assert (await memory.status()).backends[1].replica.attempts == 1
        world.up()
        await world.quiet(memory)
        assert await same(world, "team")


@clause("CH-57", "CH-90")
async def test_a_replica_that_the_feed_left_behind(worlds):
    """Where the part of the feed that a replica had to follow was trimmed, nothing more is given and the status asks
    for a reconcile, which finds all that was changed and deleted."""
    world = worlds()
    async with world.open() as memory:
        for n in range(4):
            await memory.create(f"m{n}", id=f"m{n}")
        await world.quiet(memory)
        await memory.delete("m0")
        await memory.update("m1", content="changed")
        await memory.create("new", id="n")
        world["notes"].store.state.feed.trim(None, before=world.clock() + timedelta(days=1), limit=100)
        assert (await memory.status()).backends[1].replica.stage == "left behind"
        report = await memory.maintain(["deliver"])
        assert not report.complete
        assert any("left behind" in trouble for trouble in report.troubles)
        assert set(await world.contents("team")) == {"m0", "m1", "m2", "m3"}
        assert any("needs reconcile" in line for line in (await memory.status()).problems)
        done = await memory.reconcile("team")
        assert (done.conflicts, done.deleted) == (0, 1)
        assert await same(world, "team")
        await memory.update("m1", content="changed again")
        await world.quiet(memory)
        assert await same(world, "team")
        assert (await memory.status()).problems == ()


@pytest.mark.parametrize("loses", [True, False], ids=["loses its feed", "gets a feed"])
@clause("CH-51", "CH-57")
async def test_a_primary_whose_feed_comes_or_goes(worlds, loses):
    """Where the primary has no feed any more, or has one by now, a replica's place means nothing: it is left behind,
    and a reconcile brings what changed meanwhile."""
    before, after = (ALL, ALL - {Capability.CHANGES})[:: 1 if loses else -1]
    world = worlds(primary=before)
    async with world.open() as memory:
        for n in range(4):
            await memory.create(f"m{n}", id=f"m{n}")
        await world.quiet(memory)
        world["notes"].store.capabilities = frozenset(after)
        await memory.create("new", id="n")
        assert (await memory.status()).backends[1].replica.stage == "left behind"
        report = await memory.maintain(["deliver"])
        assert any("left behind" in trouble for trouble in report.troubles)
        await memory.reconcile("team")
        await memory.update("m1", content="changed")
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("notes")


@BOTH
@clause("CH-58")
async def test_a_purge_reaches_replicas_and_journal(worlds, primary):
    """A purge erases in every replica and in the journal, and the receipt names each; a replica that is away is
    pending, and erased before anything else reaches it."""
    world = worlds(primary=primary, replicas=("team", "far"), fallbacks=("archive",))
    async with world.open() as memory:
        await memory.create("private", id="a")
        await memory.create("other", id="b")
        await world.quiet(memory)
        world.down("far")
        receipt = await memory.purge(["a"])
        places = {place.place: place.status for place in receipt.places}
        assert places["journal"] == "erased"
        assert places["replica far"] == "pending"
        assert places["fallback archive"] == "kept"
        assert "erased" in {status for place, status in places.items() if place.startswith("replica team")}
        assert await world["team"].store.history("a", scope=ME) == ()
        await memory.update("b", content="other still")
        await world.back(memory)
        world["far"].calls.clear()
        await world.quiet(memory)
        changing = [name for name in world["far"].calls if name in ("put", "purge")]
        assert changing[0] == "purge"
        assert await world["far"].store.history("a", scope=ME) == ()
        assert await same(world, "team", "far", revisions=primary is ALL)
        assert await memory.journal_entries() == ()


@clause("CH-58")
async def test_a_purge_of_all_reaches_replicas_that_were_away(worlds):
    """When all of an owner is purged, a replica that is away is rid of it when it is back, and others' stay."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("private", id="a", owner="eve", management=True)
        await memory.create("other", id="a")
        await world.quiet(memory)
        world.down("team")
        await memory.purge(None, owner="eve", management=True)
        await world.back(memory)
        await world.quiet(memory)
        assert await world["team"].store.history("a", scope=Scope.of_owner("eve")) == ()
        assert await world.contents("team") == {"a": "other"}


@clause("CH-58")
async def test_nothing_that_waited_comes_after_a_purge(worlds):
    """What waited when a memory was purged does not bring it back, though the process died in the purge."""
    world = worlds(on_write_failure="spool")
    with suppress(Killed):
        async with world.open() as memory:
            await memory.create("private", id="a")
            world.down("notes")
            await memory.create("private still", id="a")
            await world.back(memory)
            world["notes"].plan("done", spared=set(dir(world["notes"].store)) - {"purge"})
            await memory.purge(["a"])
    world.up()
    async with world.open() as memory:
        await world.quiet(memory)
        assert await world.contents("notes") == await world.contents("team") == {}
        assert await memory.journal_entries() == ()


async def cannot_purge(ids, *, scope, now):
    raise CapabilityError(Capability.PURGE, operation="purge", store="team")


@clause("CH-58")
async def test_a_purge_that_a_replica_cannot_do_holds_nothing_up(worlds):
    """A replica that was away at a purge and turns out to be unable to purge gets the deletion and all that follows,
    and what it could not erase is listed as dead, with the reason."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("private", id="a")
        await world.quiet(memory)
        world.down("team")
        await memory.purge(["a"])
        world["team"].store.purge = cannot_purge
        await memory.create("later", id="b")
        await world.back(memory)
        await world.quiet(memory)
        page = await world["team"].store.list(MemoryFilter(), scope=ME, now=times.now(), limit=9)
        assert [one.id for one in page.memories] == ["b"]
        (entry,) = await memory.journal_entries()
        assert (entry.operation, entry.state, entry.id) == ("purge", "dead", "a")
        assert "purge" in entry.error


@clause("CH-59", "CH-90")
async def test_a_replica_that_cannot_be_one(worlds):
    """A store that turns out to take no whole records when it is opened is told as a trouble; nothing is forgotten."""
    world = worlds()
    world["team"].store.capabilities = ALL - {Capability.PUT}
    async with world.open() as memory:
        await memory.create("one", id="a")
        report = await memory.maintain(["deliver"])
        assert "put" in report.troubles[0]
        assert (await memory.status()).problems != ()
        world["team"].store.capabilities = ALL
        world.clock.forward(400)
        await world.quiet(memory)
        assert await same(world, "team")


@BOTH
@clause("CH-51")
async def test_what_expired_in_the_primary_expires_there(worlds, primary):
    """What has expired is shown by no replica, whether it was swept from the primary before it was delivered or not."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("soon gone", id="a", expires_at=world.clock() + timedelta(seconds=60))
        await memory.create("stays", id="b")
        await world.quiet(memory)
        world.clock.forward(100_000)
        await memory.maintain()
        await world.quiet(memory)
        assert await world.contents("team") == {"b": "stays"}
        await memory.create("afresh", id="a")
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "afresh", "b": "stays"}
        assert await memory.journal_entries() == ()


@BOTH
@clause("CH-51")
async def test_what_was_made_again_takes_the_place_of_what_expired(worlds, primary):
    """A memory that the primary was told to let expire, swept, and was given again arrives in a replica that has heard
    of none of it and counted further."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.update("a", content="two")
        await memory.update("a", content="three")
        await world.quiet(memory)
        await memory.update("a", expires_at=world.clock() + timedelta(seconds=1))
        world.clock.forward(2)
        await memory.maintain(["expire"])
        assert (await memory.create("afresh", id="a")).memory.revision == 1
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "afresh"}
        assert await memory.journal_entries() == ()


@pytest.mark.parametrize("updates", [0, 2])
@BOTH
@clause("CH-51")
async def test_what_expired_twice_expires_there(worlds, primary, updates):
    """What a replica has of a memory goes away when the primary's has expired, was swept, made again and expired once
    more, though its revisions began anew."""
    world = worlds(primary=primary)
    async with world.open() as memory:
        await memory.create("one", id="a")
        for n in range(updates):
            await memory.update("a", content=f"one {n}")
        await world.quiet(memory)
        for _ in range(2):
            await memory.create("for a moment", id="a", expires_at=world.clock() + timedelta(seconds=1))
            world.clock.forward(2)
            await memory.maintain(["expire"])
        await world.quiet(memory)
        assert await world.contents("team") == {}
        await memory.create("afresh", id="a")
        await world.quiet(memory)
        assert await world.contents("team") == {"a": "afresh"}
        assert await memory.journal_entries() == ()


@clause("CH-28", "CH-56")
async def test_a_clock_that_was_put_back_holds_nothing_up(worlds):
    """What failed while the clock was a year ahead is tried again a few minutes after it was put right: deliveries, and
    deletions whose outcome nobody knows."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
        await memory.create("two", id="b")
        world.clock.forward(365 * 86400)
        world.down("team")
        await memory.maintain(["deliver"])
        world.down("notes", "reset", spared=("capabilities",))
        with pytest.raises(BackendUnavailable):
            await memory.delete("a")
        world.clock.forward(-365 * 86400)
        await world.back(memory)
        world.clock.forward(600)
        assert (await memory.maintain(["deliver"])).complete
        assert await world.contents("team") == {"a": "one", "b": "two"}
        world.down("notes")
        assert (await memory.get("a")).memory.content == "one"


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


@clause("CH-40")
async def test_a_retry_waits_for_no_pause(worlds):
    """A retry tries a replica that is left alone at once."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("one", id="a")
        world.down("team")
        await memory.maintain(["deliver"])
        world.up()
        await memory.maintain(["deliver"])
        assert await world.contents("team") == {}
        await memory.retry()
        assert await world.contents("team") == {"a": "one"}


@clause("CH-40")
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
        (entry,) = await memory.journal_entries()
        assert await memory.retry() == 0
        assert [one.state for one in await memory.journal_entries()] == ["conflict"]
        assert await memory.retry([entry.number]) == 1
        assert await world.contents("team") == {"a": "mine"}


@clause("CH-57")
async def test_a_replica_that_comes_back_does_not_follow_what_was_dropped(worlds):
    """A replica that was taken out of the chain of a primary without a feed, and put in again, is left behind by what
    was delivered to the others meanwhile, and a reconcile brings it all."""
    world = worlds(primary=PLAIN, replicas=("team", "far"))
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
    async with world.open(fallbacks=["far"]) as memory:
        await memory.create("two", id="b")
        await memory.delete("a")
        await world.quiet(memory)
    async with world.open() as memory:
        await memory.maintain(["deliver"])
        status = await memory.status()
        assert [one.replica.stage for one in status.backends[1:]] == ["left behind", "following"]
        assert any("reconcile" in line for line in status.problems)
        await memory.reconcile("team")
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("far") == {"b": "two"}
