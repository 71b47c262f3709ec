"""Telemetry, expiry, health."""

from __future__ import annotations

import pytest

from memspine.conformance.backend.tools import add, listed, pages, snapshot
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, BOB, EVERYONE, at
from memspine.contracts import Capability, MemoryBackend
from memspine.model import MemoryChanges


@clause("MB-70")
async def test_accesses_add_up_and_move_nothing_else(store: MemoryBackend) -> None:
    """Counts add, the last access is the latest, and update time, revision and content hash stay."""
    old = await add(store, "a", key="k", metadata={"x": 1})
    await add(store, "b")
    await store.record_access({"a": 2, "unknown": 4}, scope=ALICE, now=at(20))
    await store.record_access({"a": 3, "b": 1}, scope=ALICE, now=at(10))
    first, second = await pages(store)
    assert (first.access_count, first.last_accessed_at) == (5, at(20)), "an access never moves back"
    assert (second.access_count, second.last_accessed_at) == (1, at(10))
    assert (first.updated_at, first.revision, first.content_hash) == (old.updated_at, 1, old.content_hash)


@clause("MB-70")
async def test_accesses_outlive_changes(store: MemoryBackend) -> None:
    """An update keeps what was counted before it."""
    await add(store, "a")
    await store.record_access({"a": 2}, scope=ALICE, now=at(5))
    changed = await store.update("a", MemoryChanges(content="x"), scope=ALICE, now=at(6))
    assert (changed.access_count, changed.last_accessed_at) == (2, at(5))


@clause("MB-70")
async def test_what_is_absent_is_not_accessed(store: MemoryBackend) -> None:
    """Expired, deleted and foreign ids are passed over without an error, the others of the call are counted."""
    await add(store, "expired", expires_at=at(10))
    await add(store, "deleted")
    await store.delete("deleted", scope=ALICE, now=at(1))
    await add(store, "foreign", scope=BOB)
    await add(store, "here")
    counts = {"expired": 1, "deleted": 1, "foreign": 1, "unknown": 1, "here": 1}
    await store.record_access(counts, scope=ALICE, now=at(10))
    found = {memory.id: memory.access_count for memory in await pages(store, EVERYONE, now=at(9))}
    assert found == {"expired": 0, "foreign": 0, "here": 1}
    await store.record_access({}, scope=ALICE, now=at(10))


@clause("MB-71")
async def test_expire_removes_what_has_expired(store: MemoryBackend) -> None:
    """Only what has expired at `now` goes, with its history, without a tombstone, and the number comes back."""
    for _ in range(2):
        await add(store, "early", expires_at=at(10))
    await add(store, "edge", expires_at=at(20))
    await add(store, "late", expires_at=at(20.001))
    await add(store, "never")
    await add(store, "foreign", scope=BOB, expires_at=at(10))
    assert await store.expire(scope=ALICE, now=at(20), limit=100) == 2
    assert await listed(store, EVERYONE, now=at(0)) == ["foreign", "late", "never"], "gone at any time"
    if Capability.CHANGES in store.capabilities:
        assert await store.tombstones(["early", "edge"], scope=ALICE) == {}
    if Capability.HISTORY in store.capabilities:
        assert await store.history("early", scope=ALICE) == ()
        assert len(await store.history("late", scope=ALICE)) == 1
    assert await store.expire(scope=EVERYONE, now=at(20), limit=100) == 1
    assert await store.expire(scope=EVERYONE, now=at(20), limit=100) == 0


@clause("MB-71")
async def test_expire_stops_at_its_limit(store: MemoryBackend) -> None:
    """At most `limit` memories go in one call; several calls reach the end."""
    for number in range(7):
        await add(store, f"m{number}", expires_at=at(10))
    assert await store.expire(scope=ALICE, now=at(20), limit=0) == 0
    assert await store.expire(scope=ALICE, now=at(20), limit=3) == 3
    assert len(await listed(store, now=at(0))) == 4
    assert await store.expire(scope=ALICE, now=at(20), limit=3) == 3
    assert await store.expire(scope=ALICE, now=at(20), limit=3) == 1
    assert await listed(store, now=at(0)) == []


@clause("MB-72")
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
async def test_health_is_ok_and_changes_nothing(store: MemoryBackend, deep: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A working store says so, empty or not, and is afterwards what it was."""
    assert (await store.health(deep=deep)).ok is True
    for number in range(20):
        await add(store, f"m{number}", f"walnut {number}", key=f"k{number}", expires_at=at(10) if number == 3 else None)
    await store.delete("m5", scope=ALICE, now=at(1))
    before = await snapshot(store, "m5", "m6")
    assert (await store.health(deep=deep)).ok is True
    assert await snapshot(store, "m5", "m6") == before
    assert (await store.count(ALL, scope=EVERYONE, now=at(11))).total == 18
