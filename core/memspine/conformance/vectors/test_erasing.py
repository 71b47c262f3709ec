"""purge and expire."""

from __future__ import annotations

from pathlib import Path

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, BOB, EVERYONE, at
from memspine.conformance.subject import Place
from memspine.conformance.vectors.tools import (
    claimed,
    drawn,
    filled,
    find,
    found,
    near,
    queue,
    record,
    waiting,
)
from memspine.contracts import VectorStore
from memspine.errors import ScopeError
from memspine.model import GLOBAL_OWNER, MemoryRef, Scope


async def fill(store: VectorStore) -> None:
    """Two spaces that hold and await memories of two owners, with the same ids."""
    for id in ("a", "b"):
        for owner in ("alice", "bob"):
            records = [record(name, near(n * 10), owner=owner) for n, name in enumerate(("gone", "kept"))]
            await filled(store, *records, id=id)
            revisions = {MemoryRef(owner, name): 2 for name in ("gone", "queued", "kept")}
            await store.enqueue(id, revisions=revisions, position="p")
    await store.upsert("a", records=[record("only")])


@clause("VS-16")
@pytest.mark.parametrize("ids", [["gone", "queued", "only", "unknown"], None], ids=["some", "all of the owner"])
async def test_purge_erases_the_given_memories_alone(store: VectorStore, ids: list[str] | None) -> None:
    """They leave every space and every queue; everything else stays as it was."""
    await fill(store)
    before = [await find(store, scope=BOB, id=id) for id in ("a", "b")]
    receipt = await store.purge(ids, scope=ALICE)
    kept = ["kept"] if ids else []
    assert receipt.memories == 4 - len(kept)
    assert receipt.places
    assert all(place.place and (place.status == "erased" or place.detail) for place in receipt.places)
    assert [await found(store, id=id) for id in ("a", "b")] == [kept, kept]
    assert [await find(store, scope=BOB, id=id) for id in ("a", "b")] == before
    for id in ("a", "b"):
        work = await store.claim(id, holder="h", now=at(0), lease_seconds=9, limit=100)
        assert sorted(item.ref.id for item in work if item.ref.owner == "alice") == kept
        assert sorted(item.ref.id for item in work if item.ref.owner == "bob") == ["gone", "kept", "queued"]
        assert (await store.backlog(id, now=at(0))).position == "p"
    assert (await store.health(deep=True)).ok is True


@clause("VS-16")
@pytest.mark.parametrize("ids", [["in", "out", "queued", "moved"], None], ids=["some", "all"])
async def test_a_session_is_purged_alone(store: VectorStore, ids: list[str] | None) -> None:
    """What a space holds in the session goes from every space and queue; what is only queued belongs to none yet."""
    await filled(store, record("in", session="s"), record("out", near(10), session="t"), id="a")
    await filled(store, record("moved", session="s"), record("loose", near(20)), id="a")
    await filled(store, record("moved", near(30), session="t"), record("x", owner="bob", session="s"), id="b")
    await queue(store, "in", "out", "queued", "moved", revision=9, id="b")
    inside = Scope.of_session("alice", "s")
    assert (await store.purge(ids, scope=Scope.of_session("alice", "none"))).memories == 0
    assert (await store.purge(ids, scope=inside)).memories == 2
    assert (await found(store, id="a"), await found(store, id="b")) == (["out", "loose"], [])
    assert await found(store, id="b", scope=BOB) == ["x"]
    assert await claimed(store, id="b") == ["out", "queued"]
    assert (await store.purge(ids, scope=inside)).memories == 0


@clause("VS-16")
async def test_purging_nothing_erases_nothing(store: VectorStore) -> None:
    """No ids, no purge: an empty list is not the whole owner; and nobody purges for others."""
    await fill(store)
    assert (await store.purge([], scope=ALICE)).memories == 0
    assert (await store.purge(["unknown"], scope=ALICE)).memories == 0
    assert (await store.purge(None, scope=Scope.of_owner("alic"))).memories == 0
    for scope in (Scope.shared("alice"), EVERYONE):
        with pytest.raises(ScopeError):
            await store.purge(["gone"], scope=scope)
        with pytest.raises(ScopeError):
            await store.purge(None, scope=scope)
    assert await found(store, id="a") == ["gone", "only", "kept"]
    assert [await waiting(store, id=id) for id in ("a", "b")] == [6, 6]


CANARIES = ("Xylocopa9173-id", "Xylocopa9173-session")
"""An id and a session that stand nowhere else."""


def leftovers(folder: Path, *vectors: bytes) -> list[str]:
    """What of the canaries and the vectors stands in a file of the folder."""
    traces = {canary: canary.encode() for canary in CANARIES} | {vector.hex(): vector for vector in vectors}
    files = {file.name: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
    return [f"{name} in {file}" for file, data in files.items() for name, trace in traces.items() if trace in data]


@clause("VS-17")
async def test_no_byte_is_left(place: Place) -> None:
    """After the receipt says erased, no file holds a vector, an earlier one, the id or the session."""
    id, session = CANARIES
    vectors = [drawn(1000 + n) for n in range(4)]
    async with place.open() as store:
        await filled(store, *(record(f"other{n}", drawn(n)) for n in range(60)))
        for revision in (1, 2):
            chunks = enumerate(vectors[2 * revision - 2 : 2 * revision])
            await store.upsert(
                "space", records=[record(id, v, chunk=n, session=session, revision=revision) for n, v in chunks]
            )
        await queue(store, id, revision=3)
        assert await claimed(store) == [id]
        await store.search(
            "space", vector=vectors[2], scope=Scope.of_session("alice", session), filter=ALL, now=at(0), limit=5
        )
        receipt = await store.purge([id], scope=ALICE)
        assert receipt.memories == 1
        if any(erased.status != "erased" for erased in receipt.places):
            return  # what the receipt says of the other places is all that it promises
        assert leftovers(place.folder, *vectors) == [], "while the store is open"
        await store.upsert("space", records=[record(id, vectors[3], session=session, revision=3)], holder="one")
        assert leftovers(place.folder, *vectors) == [], "after what was claimed before came too late"
        assert len(await found(store)) == 60
    assert leftovers(place.folder, *vectors) == [], "after it was closed"


@clause("VS-18")
async def test_what_has_expired_is_removed(store: VectorStore) -> None:
    """From every space, at most so many memories at once, and nothing that lives."""
    records = [
        *(record(f"x{n}", drawn(n), chunk=k, expires_at=at(10)) for n in range(5) for k in range(2)),
        record("of-bob", owner="bob", expires_at=at(20)),
        record("later", expires_at=at(20.001)),
        record("stays"),
    ]
    await filled(store, *records, id="a")
    await filled(store, *records[:4], *records[-2:], id="b")
    assert await store.expire(now=at(9.999), limit=9) == 0
    assert await store.expire(now=at(20), limit=0) == 0
    assert [await store.expire(now=at(20), limit=2) for _ in range(4)] == [2, 2, 2, 0]
    for id in ("a", "b"):
        assert await found(store, seconds=0, id=id) == ["later", "stays"]
        assert await store.count(id, scope=EVERYONE, now=at(0)) == 2


@clause("VS-18")
async def test_expiry_leaves_the_queues(store: VectorStore) -> None:
    """A memory whose stored revision has expired may have a newer one that has not."""
    await filled(store, record("m", expires_at=at(10)), record("n", expires_at=at(10), owner=GLOBAL_OWNER))
    await queue(store, "m", "new", revision=2)
    assert await store.expire(now=at(10), limit=9) == 2
    assert await claimed(store) == ["m", "new"]
