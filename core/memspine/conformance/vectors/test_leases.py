"""Storing as a holder of leases, and release."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, at
from memspine.conformance.vectors.tools import (
    Claimed,
    claim,
    claimed,
    filled,
    find,
    found,
    mine,
    near,
    queue,
    record,
    waiting,
)
from memspine.contracts import Backlog, VectorStore
from memspine.errors import InvalidMemoryError
from memspine.model import MemoryRef, Scope


@clause("VS-19")
async def test_a_holder_stores_what_is_leased_to_it(store: VectorStore) -> None:
    """All chunks of it; what is leased to others or to nobody, or is not queued, stays as it was, queued and held."""
    await filled(store, record("held", near(80)))
    await queue(store, "mine", "too", "theirs", "free", "held", revision=2)
    assert await claimed(store, "one", limit=2) == ["mine", "too"]
    assert await claimed(store, "two", limit=1) == ["theirs"]
    ids = ("mine", "theirs", "free", "held", "unknown")
    records = [record(id, near(10 - 10 * n), chunk=n, revision=2) for id in ids for n in range(2)]
    await store.upsert("space", records=records, holder="nobody")
    await store.upsert("space", records=records, holder="")
    assert [(hit.id, hit.revision) for hit in await find(store)] == [("held", 1)]
    assert await waiting(store) == 5
    await store.upsert("space", records=records, holder="one")
    assert [(hit.id, hit.chunk, hit.revision) for hit in await find(store)] == [("mine", 1, 2), ("held", 0, 1)]
    await store.upsert("space", records=[record("mine", near(0), chunk=2, revision=3)], holder="one")
    assert [(hit.id, hit.revision) for hit in await find(store)] == [("mine", 2), ("held", 1)], "it is done"
    assert await store.backlog("space", now=at(0)) == Backlog(position="p", waiting=4, leased=2)
    await store.upsert("space", records=[], holder="one")
    await store.upsert("space", records=records, holder="two")
    assert await found(store) == ["mine", "theirs", "held"]
    assert await claim(store, seconds=60) == [Claimed("too", 2), Claimed("free", 2), Claimed("held", 2)]


@clause("VS-19")
async def test_without_a_holder_leases_do_not_matter(store: VectorStore) -> None:
    """What nobody or somebody has a lease on is stored and done; who had the lease has it no more."""
    await filled(store)
    await queue(store, "leased", "free")
    assert await claimed(store, limit=1) == ["leased"]
    await store.upsert("space", records=[record("leased"), record("free", near(10)), record("unknown", near(20))])
    assert await found(store) == ["leased", "free", "unknown"]
    assert await waiting(store) == 0
    await store.upsert("space", records=[record("leased", revision=2)], holder="one")
    assert [hit.revision for hit in await find(store, limit=1)] == [1]


@clause("VS-19")
async def test_a_lease_that_ended_stores_nothing(store: VectorStore) -> None:
    """Whether it was given back or taken over; one that has run out is still the last holder's."""
    await filled(store)
    await queue(store, "late", "taken", "failed", "released")
    assert len(await claim(store, "one")) == 4
    await store.postpone("space", refs=mine("failed"), holder="one", until=at(30), reason="slow")
    await store.release("space", refs=mine("released"), holder="one")
    await store.upsert("space", records=[record("failed"), record("released")], holder="one")
    assert await found(store) == []
    assert await claimed(store, "two", seconds=30) == ["failed", "released"]
    await store.upsert("space", records=[record("late")], holder="one")
    assert await claimed(store, "two", seconds=60) == ["taken"]
    records = [record(id) for id in ("taken", "failed", "released")]
    await store.upsert("space", records=records, holder="one")
    assert await found(store) == ["late"]
    assert await store.backlog("space", now=at(60)) == Backlog(position="p", waiting=3, leased=3)
    await store.upsert("space", records=records, holder="two")
    assert await found(store) == ["failed", "late", "released", "taken"]


Removal = Callable[[VectorStore], Awaitable[None]]


async def delete(store: VectorStore) -> None:
    """Delete the two memories."""
    await store.delete(mine("m", "n"))


async def purge_ids(store: VectorStore) -> None:
    """Purge them by their ids."""
    await store.purge(["m", "n"], scope=ALICE)


async def purge_owner(store: VectorStore) -> None:
    """Purge all that the owner has."""
    await store.purge(None, scope=ALICE)


async def purge_session(store: VectorStore) -> None:
    """Purge the session that holds them."""
    await store.purge(None, scope=Scope.of_session("alice", "s"))


@clause("VS-19")
@pytest.mark.parametrize("remove", [delete, purge_ids, purge_owner, purge_session])
async def test_what_was_removed_since_stays_away(store: VectorStore, remove: Removal) -> None:
    """Also when it was queued again: the lease went with it."""
    records = [record(id, revision=2, session="s") for id in ("m", "n")]
    await filled(store, record("m", session="s"), record("n", session="s"))
    await queue(store, "m", "n", revision=2)
    assert await claimed(store) == ["m", "n"]
    await remove(store)
    await store.upsert("space", records=records, holder="one")
    assert (await found(store), await waiting(store)) == ([], 0)
    await queue(store, "m", revision=2)
    await store.upsert("space", records=records, holder="one")
    assert (await found(store), await claim(store, "two")) == ([], [Claimed("m", 2)])


@clause("VS-19")
async def test_a_dropped_space_ends_its_leases(store: VectorStore) -> None:
    """Made again, it knows nothing of them; those of other spaces hold."""
    for id in ("a", "b"):
        await filled(store, id=id)
        await queue(store, "m", id=id)
        assert await claimed(store, id=id) == ["m"]
    await store.drop_space("a")
    await filled(store, id="a")
    for id in ("a", "b"):
        await store.upsert(id, records=[record("m")], holder="one")
    assert (await found(store, id="a"), await found(store, id="b")) == ([], ["m"])


@clause("VS-19")
async def test_leases_are_looked_at_in_the_step_that_stores(store: VectorStore) -> None:
    """A memory that is deleted or taken over meanwhile is there whole and done, or not at all."""
    await filled(store)
    for n in range(20):
        (ref,) = mine(f"m{n}")
        await queue(store, ref.id)
        assert await claimed(store, "one") == [ref.id]
        calls = [store.upsert("space", records=[record(ref.id)], holder="one"), store.delete([ref])]
        await asyncio.gather(*(calls if n % 2 else reversed(calls)))
        assert await found(store) == []
        await queue(store, ref.id)
        assert await claimed(store, "one") == [ref.id]
        taking = claimed(store, "two", seconds=60)
        storing = store.upsert("space", records=[record(ref.id)], holder="one")
        both = (taking, storing) if n % 2 else (storing, taking)
        answers = await asyncio.gather(*both)
        taken = ref.id in (answers[0] or answers[1] or [])
        assert await found(store) == ([] if taken else [ref.id])
        await store.delete([ref])


@clause("VS-19", "VS-11")
async def test_a_holder_is_refused_as_anybody(store: VectorStore) -> None:
    """An unusable vector refuses the call, also of a memory that would be passed over; the leases hold."""
    await filled(store)
    await queue(store, "m")
    assert await claimed(store) == ["m"]
    with pytest.raises(InvalidMemoryError):
        await store.upsert("space", records=[record("m"), record("unknown", b"-")], holder="one")
    assert await found(store) == []
    assert await claimed(store, "two", seconds=59.999) == []
    await store.upsert("space", records=[record("m")], holder="one")
    assert await found(store) == ["m"]


@clause("VS-15")
@pytest.mark.parametrize("holder", [None, "one"])
async def test_what_is_queued_at_a_newer_revision_is_free(store: VectorStore, holder: str | None) -> None:
    """Whoever stored the older one, it is in its old place, for everybody, with no failure counted."""
    await filled(store)
    await queue(store, "a", "raised", "z")
    assert await claimed(store, limit=2) == ["a", "raised"]
    await queue(store, "raised", revision=3)
    assert await claimed(store, "two", limit=1) == ["z"]
    await queue(store, "last")
    await store.upsert("space", records=[record("raised", revision=2)], holder=holder)
    assert [(hit.id, hit.revision) for hit in await find(store)] == [("raised", 2)]
    assert await store.backlog("space", now=at(0)) == Backlog(position="p", waiting=4, leased=2)
    await store.upsert("space", records=[record("raised", revision=3)], holder="one")
    assert [hit.revision for hit in await find(store)] == [2], "the lease has ended"
    assert await claim(store, "three") == [Claimed("raised", 3), Claimed("last", 1)]


@clause("VS-15")
async def test_what_failed_at_a_newer_revision_waits_on(store: VectorStore) -> None:
    """An older vector does not undo its failure."""
    await filled(store)
    await queue(store, "m", revision=2)
    assert await claimed(store) == ["m"]
    await store.postpone("space", refs=mine("m"), holder="one", until=at(30), reason="slow")
    await store.upsert("space", records=[record("m")])
    assert await store.backlog("space", now=at(0)) == Backlog(
        position="p", waiting=1, postponed=1, next_at=at(30), reason="slow"
    )
    assert await claim(store, seconds=29.999) == []
    assert await claim(store, seconds=30) == [Claimed("m", 2, 1)]


@clause("VS-58")
async def test_what_is_released_is_due_at_once(store: VectorStore) -> None:
    """In its old place, for everybody, its last holder too, with the failures it had and none more."""
    await filled(store)
    await queue(store, "a", "b", "c", "d")
    assert await claimed(store, limit=3) == ["a", "b", "c"]
    await store.postpone("space", refs=mine("b"), holder="one", until=at(10), reason="slow")
    assert await claim(store, seconds=10, limit=1) == [Claimed("b", 1, 1)]
    await store.release("space", refs=mine("b", "c", "b"), holder="one")
    assert await store.backlog("space", now=at(10)) == Backlog(position="p", waiting=4, leased=1)
    assert await claim(store, "two", seconds=10, limit=2) == [Claimed("b", 1, 1), Claimed("c", 1)]
    await store.release("space", refs=mine("a"), holder="one")
    assert await claim(store, "one", seconds=10) == [Claimed("a", 1), Claimed("d", 1)]
    await store.release("space", refs=[], holder="one")
    assert await store.backlog("space", now=at(10)) == Backlog(position="p", waiting=4, leased=4)


@clause("VS-58")
async def test_a_holder_releases_its_own_alone(store: VectorStore) -> None:
    """What is not queued, free, failed, taken over or leased to others is passed over."""
    await filled(store)
    await queue(store, "late", "failed", "theirs", "free")
    assert await claimed(store, lease=5, limit=1) == ["late"]
    assert await claimed(store, limit=1) == ["failed"]
    await store.postpone("space", refs=mine("failed"), holder="one", until=at(30), reason="slow")
    assert await claimed(store, "two", limit=1) == ["theirs"]
    assert await claimed(store, "two", seconds=5, limit=1) == ["late"]
    expected = await store.backlog("space", now=at(5))
    for holder in ("one", "nobody", ""):
        await store.release("space", refs=mine("late", "failed", "theirs", "free", "unknown"), holder=holder)
        assert await store.backlog("space", now=at(5)) == expected
    assert await claimed(store, "one", seconds=29.999) == ["free"]
    assert await claim(store, "one", seconds=30) == [Claimed("failed", 1, 1)]


@clause("VS-58")
async def test_what_was_raised_is_released_at_its_new_revision(store: VectorStore) -> None:
    """Without waiting for the end of the lease, also when it had failed before."""
    await filled(store)
    await queue(store, "m")
    assert await claimed(store) == ["m"]
    await store.postpone("space", refs=mine("m"), holder="one", until=at(10), reason="slow")
    assert await claim(store, seconds=10) == [Claimed("m", 1, 1)]
    await queue(store, "m", revision=2)
    await store.release("space", refs=mine("m"), holder="one")
    assert await claim(store, "two", seconds=10) == [Claimed("m", 2)]


@clause("VS-58")
async def test_any_number_is_released(store: VectorStore) -> None:
    """Forty thousand in one call, those that are queued among them."""
    await filled(store)
    await queue(store, "n7", "n39999")
    assert await claimed(store) == ["n7", "n39999"]
    await store.release("space", refs=mine(*(f"n{number}" for number in range(40_000))), holder="one")
    assert await claimed(store, "two") == ["n7", "n39999"]


@clause("VS-59")
async def test_what_is_settled_is_held_no_more(store: VectorStore) -> None:
    """It leaves queue and space, at its revision or an older one; other spaces keep it, and their queues."""
    for id in ("space", "other"):
        await filled(store, record("m"), record("n", near(10)), record("rest", near(20)), id=id)
        await queue(store, "m", "n", revision=2, id=id)
        assert await claimed(store, id=id) == ["m", "n"]
    await store.settle("space", revisions=dict.fromkeys(mine("m", "unknown", "rest"), 2), holder="one")
    assert (await found(store), await waiting(store)) == (["n", "rest"], 1)
    assert (await found(store, id="other"), await waiting(store, id="other")) == (["m", "n", "rest"], 2)
    await store.settle("space", revisions={}, holder="one")
    assert await claim(store, seconds=60) == [Claimed("n", 2)]


@clause("VS-59")
async def test_a_holder_settles_what_is_leased_to_it(store: VectorStore) -> None:
    """What is leased to others or to nobody stays queued and held."""
    await filled(store, record("theirs"), record("free", near(10)), record("ended", near(20)))
    await queue(store, "ended", "theirs", "free", revision=2)
    assert await claimed(store, limit=1) == ["ended"]
    await store.release("space", refs=mine("ended"), holder="one")
    assert await claimed(store, "two", limit=2) == ["ended", "theirs"]
    await store.postpone("space", refs=mine("ended"), holder="two", until=at(30), reason="slow")
    for holder in ("one", "nobody", ""):
        await store.settle("space", revisions=dict.fromkeys(mine("theirs", "free", "ended"), 2), holder=holder)
    assert (await found(store), await waiting(store)) == (["theirs", "free", "ended"], 3)


@clause("VS-59")
async def test_what_is_newer_is_not_settled(store: VectorStore) -> None:
    """What is queued at a newer revision is free at once, and what is held at one stays."""
    await filled(store, record("raised"), record("stored", near(10)))
    await queue(store, "raised", "stored", revision=2)
    assert await claimed(store) == ["raised", "stored"]
    await queue(store, "raised", revision=3)
    await store.upsert("space", records=[record("stored", near(10), revision=4)])
    await queue(store, "stored", revision=5)
    assert await claimed(store) == ["stored"]
    await store.settle("space", revisions=dict.fromkeys(mine("raised", "stored"), 2), holder="one")
    assert [(hit.id, hit.revision) for hit in await find(store)] == [("stored", 4)]
    assert await claim(store) == [Claimed("raised", 3), Claimed("stored", 5)]


@clause("VS-59")
async def test_equal_ids_are_settled_apart(store: VectorStore) -> None:
    """Of two owners' memories with one id only the one that was named."""
    await filled(store, record("m"), record("m", owner="bob"))
    refs = [MemoryRef("alice", "m"), MemoryRef("bob", "m")]
    await store.enqueue("space", revisions=dict.fromkeys(refs, 2), position="p")
    work = await store.claim("space", holder="one", now=at(0), lease_seconds=60, limit=9)
    assert {one.ref for one in work} == set(refs)
    await store.settle("space", revisions={refs[1]: 2}, holder="one")
    assert (await found(store), await found(store, scope=Scope.of_owner("bob")), await waiting(store)) == (["m"], [], 1)
