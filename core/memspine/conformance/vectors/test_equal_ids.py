"""Two owners' memories with the same id."""

from __future__ import annotations

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, BOB, at
from memspine.conformance.vectors.tools import filled, find, matches, near, record
from memspine.contracts import VectorStore, Work
from memspine.model import GLOBAL_OWNER, MemoryRef, Scope

SHARED = Scope.shared("alice")
OWN, COMMON, FOREIGN = (MemoryRef(owner, "same") for owner in ("alice", GLOBAL_OWNER, "bob"))


async def fill(store: VectorStore) -> None:
    """One id of three owners, each memory with a place, an age and a revision of its own."""
    await filled(
        store,
        record("same", near(40), session="s", created_at=at(1), revision=3),
        record("same", near(20), owner=GLOBAL_OWNER, session="t", created_at=at(2), revision=5),
        record("same", near(60), owner="bob", session="s", created_at=at(3), revision=1),
        record("mine", near(70), session="s", created_at=at(4)),
        record("ours", near(80), owner=GLOBAL_OWNER, session="t", created_at=at(5)),
    )


@clause("VS-14")
async def test_vectors_stay_apart(store: VectorStore) -> None:
    """Each owner's memory is found with what is its own, and the shared scope sees two."""
    await fill(store)
    for scope, expected in (
        (ALICE, [("alice", 3)]),
        (BOB, [("bob", 1)]),
        (SHARED, [(GLOBAL_OWNER, 5), ("alice", 3)]),
    ):
        hits = [hit for hit in await find(store, scope=scope) if hit.id == "same"]
        assert [(hit.owner, hit.revision) for hit in hits] == expected
    await store.upsert("space", records=[record("same", near(10), revision=4)])
    assert [hit.owner for hit in await find(store, scope=SHARED, limit=2)] == ["alice", GLOBAL_OWNER]
    await store.delete([COMMON])
    assert [(hit.owner, hit.id) for hit in await find(store, scope=SHARED)] == [
        ("alice", "same"),
        ("alice", "mine"),
        (GLOBAL_OWNER, "ours"),
    ]
    assert [hit.owner for hit in await find(store, scope=BOB)] == ["bob"]


@clause("VS-14")
async def test_those_asked_for_stay_apart(store: VectorStore) -> None:
    """Asking for one of them tells of that one, also where the other is among the best."""
    await fill(store)
    for asked, limit, expected in (
        ([OWN], 1, [OWN]),
        ([COMMON], 1, []),
        ([OWN, COMMON], 0, [OWN, COMMON]),
        ([COMMON, OWN, FOREIGN], 0, [COMMON, OWN]),
        ([COMMON, FOREIGN], 0, [COMMON]),
    ):
        answer = await matches(store, scope=SHARED, limit=limit, also=asked)
        assert [MemoryRef(hit.owner, hit.id) for hit in answer.others] == expected
        for hit in answer.others:
            assert hit.score == pytest.approx(0.766 if hit.owner == "alice" else 0.940, abs=0.001)
    assert (await matches(store, limit=0, also=[COMMON])).others == ()


@clause("VS-14")
async def test_queues_keep_them_apart(store: VectorStore) -> None:
    """Held, queued, leased, failed and settled are each owner's own."""
    await fill(store)
    assert await store.enqueue("space", revisions={OWN: 3, COMMON: 6}, position="p") == 1
    assert await store.enqueue("space", revisions={FOREIGN: 2}, position="p") == 1
    (first,) = await store.claim("space", holder="one", now=at(0), lease_seconds=60, limit=1)
    assert first == Work(ref=COMMON, revision=6)
    await store.postpone("space", refs=[OWN, FOREIGN], holder="one", until=at(9), reason="r")
    assert (await store.backlog("space", now=at(0))).postponed == 0
    (second,) = await store.claim("space", holder="one", now=at(0), lease_seconds=60, limit=9)
    assert second == Work(ref=FOREIGN, revision=2)
    await store.postpone("space", refs=[FOREIGN], holder="one", until=at(9), reason="r")
    await store.upsert("space", records=[record("same", revision=9)])
    assert (await store.backlog("space", now=at(0))).waiting == 2
    await store.upsert("space", records=[record("same", revision=6, owner=GLOBAL_OWNER)])
    work = await store.claim("space", holder="two", now=at(99), lease_seconds=60, limit=9)
    assert work == (Work(ref=FOREIGN, revision=2, failures=1),)


@clause("VS-14")
async def test_leases_keep_them_apart(store: VectorStore) -> None:
    """Stored by a holder and released is each owner's own."""
    await fill(store)
    await store.enqueue("space", revisions={COMMON: 6}, position="p")
    await store.enqueue("space", revisions={OWN: 6}, position="p")
    for holder, ref in (("one", COMMON), ("two", OWN)):
        work = await store.claim("space", holder=holder, now=at(0), lease_seconds=60, limit=1)
        assert work == (Work(ref=ref, revision=6),)
    records = [record("same", near(10), owner=owner, revision=6) for owner in ("alice", GLOBAL_OWNER, "bob")]
    await store.release("space", refs=[OWN, FOREIGN], holder="one")
    assert (await store.backlog("space", now=at(0))).leased == 2
    await store.upsert("space", records=records, holder="one")
    hits = [*await find(store, scope=SHARED), *await find(store, scope=BOB)]
    assert [(hit.owner, hit.revision) for hit in hits if hit.id == "same"] == [
        (GLOBAL_OWNER, 6),
        ("alice", 3),
        ("bob", 1),
    ]
    await store.release("space", refs=[COMMON, OWN], holder="two")
    work = await store.claim("space", holder="one", now=at(0), lease_seconds=60, limit=9)
    assert work == (Work(ref=OWN, revision=6),)


@clause("VS-14", "VS-16")
async def test_a_purge_takes_one_owners(store: VectorStore) -> None:
    """The others' stay, held and queued."""
    await fill(store)
    await store.enqueue("space", revisions={OWN: 9, COMMON: 9, FOREIGN: 9}, position="p")
    assert (await store.purge(["same"], scope=ALICE)).memories == 1
    assert [hit.owner for hit in await find(store, scope=SHARED) if hit.id == "same"] == [GLOBAL_OWNER]
    assert [hit.owner for hit in await find(store, scope=BOB)] == ["bob"]
    work = await store.claim("space", holder="one", now=at(0), lease_seconds=60, limit=9)
    assert {item.ref for item in work} == {COMMON, FOREIGN}
