"""Replicas that are away, are left behind, or have to forget."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from memspine import times
from memspine.conformance.clauses import clause
from memspine.contracts import Capability
from memspine.errors import BackendUnavailable, CapabilityError
from memspine.model import MemoryFilter, NewMemory, Scope

from .worlds import ALL, ME, PLAIN, Killed, same

BOTH = pytest.mark.parametrize("primary", [ALL, PLAIN], ids=["with a feed", "without a feed"])
DAY = 86_400


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


@pytest.mark.parametrize("ids", [["a"], None])
@clause("CH-58")
async def test_a_purge_leaves_nothing_in_the_journal(worlds, ids):
    """A write that did not go is erased with its memory, down to the file, and that of another owner stays."""
    world = worlds(on_write_failure="spool")
    async with world.open() as memory:
        await memory.create("one", id="a")
        await memory.create("one", id="a", owner="eve", management=True)
        world.down("notes")
        await memory.update("a", content="a secret", expected_revision=7)
        await memory.update("a", content="another", expected_revision=7, owner="eve", management=True)
        await world.back(memory)
        await world.quiet(memory)
        assert [one.state for one in await memory.journal_entries()] == ["dead", "dead"]
        await memory.purge(ids)
        assert [one.owner for one in await memory.journal_entries()] == ["eve"]
        assert b"a secret" not in memory._running.chain.journal.path.read_bytes()  # noqa: SLF001


@clause("CH-58", "CH-70")
async def test_a_reconcile_erases_first(worlds):
    """What a replica has to erase is erased before a reconcile brings it anything, though it failed lately."""
    world = worlds()
    async with world.open() as memory:
        await memory.create("private", id="a")
        await world.quiet(memory)
        world.down("team")
        await memory.purge(["a"])
        await memory.create("later", id="b")
        await memory.maintain(["deliver"])
        await world.back(memory)
        world["team"].calls.clear()
        await memory.reconcile("team")
        assert next(name for name in world["team"].calls if name in ("put", "purge")) == "purge"
        assert await world.contents("team") == {"b": "later"}


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


async def _noted(memory):
    """How many changes the outbox holds."""
    return await memory._running.chain.journal.read(  # noqa: SLF001 - nothing else tells it
        lambda connection: connection.execute("SELECT count(*) FROM outbox").fetchone()[0]
    )


@pytest.mark.parametrize("is_away", ["down", "not named"])
@pytest.mark.parametrize("days", [29, 31])
@clause("CH-51", "CH-57")
async def test_a_replica_that_is_away_for_long(worlds, is_away, days):
    """A replica of a primary without a feed that is away follows when it is back, or, where it was away for longer than
    `feed_days`, is left behind: then the changes are dropped, and a reconcile brings them."""
    world = worlds(primary=PLAIN, replicas=("team", "far"))
    async with world.open() as memory:
        await memory.create("one", id="a")
        await world.quiet(memory)
    if is_away == "down":
        world.down("team")
    async with world.open(fallbacks=["team", "far"] if is_away == "down" else ["far"]) as memory:
        await memory.create("two", id="b")
        await memory.delete("a")
        await memory.maintain(["deliver"])
        assert await world.contents("far") == {"b": "two"}
        world.clock.forward(days * DAY)
        assert await _noted(memory) == 2
        await memory.maintain(["history"])
        assert await _noted(memory) == (2 if days < 30 else 0)
    async with world.open() as memory:
        await world.back(memory)
        await memory.maintain(["deliver"])
        stages = [one.replica.stage for one in (await memory.status()).backends[1:]]
        assert stages == ["following" if days < 30 else "left behind", "following"]
        if days > 30:
            assert any("needs reconcile" in line for line in (await memory.status()).problems)
            assert await world.contents("team") == {"a": "one"}
            await memory.reconcile("team")
        await world.quiet(memory)
        assert await world.contents("team") == await world.contents("far") == {"b": "two"}
        assert await _noted(memory) == 0


@clause("CH-57")
async def test_only_what_is_old_is_dropped(worlds):
    """Of the changes that a replica has not read the old ones are dropped, in whatever steps, with the replica in its
    copying or behind it; one that has read these follows the others."""
    world = worlds(primary=PLAIN, replicas=("team", "far", "new"))
    async with world.open(fallbacks=["team", "far"]) as memory:
        await world.quiet(memory)
    async with world.open(fallbacks=["far", "new"]) as memory:
        world.down("new")
        await memory.create("one", id="a")
        await memory.maintain(["deliver"])  # which begins with the copy
        await memory.create_many([NewMemory(content=str(n)) for n in range(600)])
        world.clock.forward(31 * DAY)
        await memory.maintain(["deliver"])
        world.down("far")
        await memory.delete("a")
        await memory.maintain(["history"])
        assert await _noted(memory) == 1
        assert [one.replica.stage for one in (await memory.status()).backends[1:]] == ["following", "left behind"]
    async with world.open() as memory:
        await world.back(memory)
        stages = [one.replica.stage for one in (await memory.status()).backends[1:]]
        assert stages == ["left behind", "following", "left behind"]
        for name in ("team", "new"):
            await memory.reconcile(name)
        await world.quiet(memory)
        assert await same(world, "team", "far", "new", revisions=False)
