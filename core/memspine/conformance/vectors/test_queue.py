"""The queue: enqueue, claim, postpone, backlog."""

from __future__ import annotations

import asyncio

from memspine.conformance.clauses import clause
from memspine.conformance.samples import at
from memspine.conformance.vectors.tools import (
    TURNS,
    Claimed,
    cancelled,
    claim,
    claimed,
    filled,
    mine,
    queue,
    record,
    space,
    waiting,
)
from memspine.contracts import Backlog, VectorStore
from memspine.model import MemoryRef


@clause("VS-50")
async def test_what_is_not_held_is_queued(store: VectorStore) -> None:
    """Unknown, or held at an older revision; of several chunks the revision of the memory counts."""
    await filled(
        store,
        record("held", revision=3),
        record("newer", revision=9),
        record("old", revision=2),
        record("old", chunk=1, revision=2),
        record("x", owner="bob", revision=5),
    )
    revisions = {"held": 3, "newer": 4, "old": 3, "x": 1, "unknown": 1}
    asked = {MemoryRef("alice", id): revision for id, revision in revisions.items()}
    assert await store.enqueue("space", revisions=asked, position="p") == 3
    assert await store.enqueue("space", revisions=asked, position="p") == 0, "they are queued already"
    assert await store.enqueue("space", revisions=asked | dict.fromkeys(mine("more"), 1), position="p") == 1
    work = await claim(store)
    assert sorted(work, key=lambda item: item.id) == [
        Claimed("more", 1),
        Claimed("old", 3),
        Claimed("unknown", 1),
        Claimed("x", 1),
    ]


@clause("VS-50")
async def test_any_number_is_queued(store: VectorStore) -> None:
    """Forty thousand in one call, and no more than that."""
    await filled(store, record("n7"))
    many = dict.fromkeys(mine(*(f"n{number}" for number in range(40_000))), 1)
    assert await store.enqueue("space", revisions=many, position="p") == 39_999
    assert await waiting(store) == 39_999
    assert len(await claim(store, limit=50)) == 50


@clause("VS-51")
async def test_the_position_is_noted(store: VectorStore) -> None:
    """The last one, also of a call that has nothing to queue; any text."""
    await filled(store, record("held"))
    assert (await store.backlog("space", now=at(0))).position == ""
    for position, revisions in (("p1", {"new": 1}), ("é:2/…", {"held": 1}), ("", {}), ("x" * 500, {})):
        asked = {MemoryRef("alice", id): revision for id, revision in revisions.items()}
        await store.enqueue("space", revisions=asked, position=position)
        assert (await store.backlog("space", now=at(0))).position == position
    assert await claimed(store) == ["new"]


@clause("VS-51", "VS-44")
async def test_position_and_memories_go_together(store: VectorStore) -> None:
    """Wherever a call is cancelled, both are there or neither is."""
    await store.open_space(space())
    for turns in TURNS:
        id = f"space{turns}"
        await store.open_space(space(id))
        call = store.enqueue(id, revisions=dict.fromkeys(mine(*(f"m{n}" for n in range(30))), 1), position="new")
        done = await cancelled(call, turns=turns)
        await queue(store, f"after{turns}")
        backlog = await store.backlog(id, now=at(0))
        assert (backlog.position, backlog.waiting) in ([("new", 30)] if done else [("", 0), ("new", 30)])


@clause("VS-52")
async def test_a_newer_revision_raises_the_queued_one(store: VectorStore) -> None:
    """It keeps its place and counts once; the same and older ones change nothing."""
    await filled(store)
    await queue(store, "a", "b", "c", revision=2)
    assert await queue(store, "b", revision=5) == 0
    assert await queue(store, "a", "b", revision=2) == 0
    assert await queue(store, "c", "b", revision=1) == 0
    assert await waiting(store) == 3
    assert await claim(store) == [Claimed("a", 2), Claimed("b", 5), Claimed("c", 2)]


@clause("VS-52")
async def test_raising_ends_no_lease(store: VectorStore) -> None:
    """Who works on a memory finds the newer revision queued behind the lease."""
    await filled(store)
    await queue(store, "m", "n")
    assert await claimed(store, limit=1) == ["m"]
    assert await queue(store, "m", revision=2) == 0
    assert await claimed(store, "two", seconds=59.999) == ["n"]
    assert await claim(store, "two", seconds=60) == [Claimed("m", 2)]


@clause("VS-52")
async def test_what_is_raised_has_not_failed(store: VectorStore) -> None:
    """It is due at once, in its place, and no failure of the earlier text is told."""
    await filled(store)
    await queue(store, "a", "b", "c")
    assert await claimed(store) == ["a", "b", "c"]
    await store.postpone("space", refs=mine("b", "c"), holder="one", until=at(90), reason="too long")
    assert await queue(store, "b", revision=2) == 0
    assert await queue(store, "c") == 0
    assert await store.backlog("space", now=at(0)) == Backlog(
        position="p", waiting=3, leased=1, postponed=1, next_at=at(90), reason="too long"
    )
    assert await queue(store, "c", revision=2) == 0
    assert await store.backlog("space", now=at(0)) == Backlog(position="p", waiting=3, leased=1)
    assert await queue(store, "a", revision=2) == 0
    assert await claim(store, "two", seconds=0) == [Claimed("b", 2), Claimed("c", 2)]
    assert await claim(store, "two", seconds=60, limit=1) == [Claimed("a", 2)]
    await store.postpone("space", refs=mine("b"), holder="two", until=at(95), reason="slow")
    assert await claim(store, "three", seconds=95, limit=2) == [Claimed("b", 2, 1), Claimed("c", 2)]


@clause("VS-53")
async def test_the_longest_queued_come_first(store: VectorStore) -> None:
    """At most so many at once; what failed comes back in its old place."""
    await filled(store)
    await queue(store, "z", "m", "a", "q", "b", position="p")
    assert await claim(store, limit=0) == []
    assert await claim(store, limit=2) == [Claimed("z", 1), Claimed("m", 1)]
    await queue(store, "y", "c")
    await store.postpone("space", refs=mine("m"), holder="one", until=at(10), reason="r")
    assert await claim(store, "two", seconds=9.999, limit=1) == [Claimed("a", 1)]
    assert await claim(store, "two", seconds=10, limit=3) == [Claimed("m", 1, 1), Claimed("q", 1), Claimed("b", 1)]
    assert await claimed(store, "three", seconds=10) == ["y", "c"]
    assert await claimed(store, "three", seconds=10) == []


@clause("VS-54")
async def test_a_lease_holds_until_it_ends(store: VectorStore) -> None:
    """Neither others nor the holder get the memory before; from its end on anybody does."""
    await filled(store)
    await queue(store, "a", "b", "c")
    assert await claimed(store, "one", lease=60, limit=1) == ["a"]
    assert await claimed(store, "one", lease=0.5, limit=1) == ["b"]
    assert await claimed(store, "two", seconds=0.499) == ["c"]
    assert await claimed(store, "one", seconds=0.5) == ["b"]
    assert await claimed(store, "one", seconds=59.999) == []
    assert await claimed(store, "two", seconds=60, lease=1) == ["a"]
    assert await claimed(store, "one", seconds=60.5) == ["b", "c"]
    assert await claimed(store, "one", seconds=61) == ["a"]


@clause("VS-55")
async def test_simultaneous_claims_share_nothing(store: VectorStore) -> None:
    """Each of the queued memories goes to one of many calls, whoever makes them."""
    await filled(store)
    ids = [f"m{n:02}" for n in range(50)]
    await queue(store, *ids)
    claims = (claimed(store, f"holder{n % 4}", limit=9) for n in range(10))
    given = [id for some in await asyncio.gather(*claims) for id in some]
    assert sorted(given) == ids


@clause("VS-56")
async def test_what_failed_waits(store: VectorStore) -> None:
    """It is free at the time given, not before, and each failure counts."""
    await filled(store)
    await queue(store, "m", "n")
    assert await claimed(store) == ["m", "n"]
    await store.postpone("space", refs=mine("m"), holder="one", until=at(30), reason="r")
    assert await claim(store, seconds=29.999) == []
    assert await claim(store, "two", seconds=30) == [Claimed("m", 1, 1)]
    await store.postpone("space", refs=mine("m"), holder="two", until=at(31), reason="r")
    assert await claim(store, seconds=31) == [Claimed("m", 1, 2)]
    assert await claim(store, seconds=60) == [Claimed("n", 1)], "the lease that was not given back ran on"
    await store.postpone("space", refs=mine("m"), holder="one", until=at(-5), reason="r")
    assert await claim(store, seconds=60) == [Claimed("m", 1, 3)]
    await store.postpone("space", refs=[], holder="one", until=at(99), reason="r")


@clause("VS-56")
async def test_a_holder_postpones_its_own_alone(store: VectorStore) -> None:
    """What is not queued, free, already given back or leased to others is passed over."""
    await filled(store)
    await queue(store, "m", "other")
    assert await claimed(store, "one", limit=1) == ["m"]
    assert await claimed(store, "two", limit=1) == ["other"]
    await queue(store, "free")
    refs = mine("m", "other", "free", "unknown")
    for _ in range(2):
        await store.postpone("space", refs=refs, holder="one", until=at(10), reason="r")
    assert await store.backlog("space", now=at(0)) == Backlog(
        position="p", waiting=3, leased=1, postponed=1, next_at=at(10), reason="r"
    )
    assert await claim(store, seconds=10) == [Claimed("m", 1, 1), Claimed("free", 1)]
    assert await claim(store, "three", seconds=60) == [Claimed("other", 1)]
    await store.postpone("space", refs=mine("other"), holder="two", until=at(1000), reason="r")
    assert await claim(store, "two", seconds=200) == [Claimed("m", 1, 1), Claimed("other", 1), Claimed("free", 1)]


@clause("VS-57")
async def test_the_backlog_adds_up(store: VectorStore) -> None:
    """Waiting in all, leased and postponed at the given time, the first that is due, the last reason."""
    await filled(store, record("held"))
    assert await store.backlog("space", now=at(0)) == Backlog()
    await queue(store, "held", "a", "b", "c", "d", "e", position="p1")
    assert await store.backlog("space", now=at(0)) == Backlog(position="p1", waiting=5)
    assert await claimed(store, limit=4) == ["a", "b", "c", "d"]
    assert await store.backlog("space", now=at(0)) == Backlog(position="p1", waiting=5, leased=4)
    await store.postpone("space", refs=mine("c", "a"), holder="one", until=at(30), reason="too many")
    await store.postpone("space", refs=mine("b"), holder="one", until=at(40), reason="no answer")
    expected = {
        0: Backlog(position="p1", waiting=5, leased=1, postponed=3, next_at=at(30), reason="no answer"),
        29.999: Backlog(position="p1", waiting=5, leased=1, postponed=3, next_at=at(30), reason="no answer"),
        30: Backlog(position="p1", waiting=5, leased=1, postponed=1, next_at=at(40), reason="no answer"),
        40: Backlog(position="p1", waiting=5, leased=1),
        60: Backlog(position="p1", waiting=5),
    }
    for seconds, backlog in expected.items():
        assert await store.backlog("space", now=at(seconds)) == backlog
    await store.upsert("space", records=[record("b"), record("d")])
    assert await store.backlog("space", now=at(0)) == Backlog(
        position="p1", waiting=3, postponed=2, next_at=at(30), reason="too many"
    )
    await store.delete(mine("a", "c"))
    assert await store.backlog("space", now=at(0)) == Backlog(position="p1", waiting=1)
