"""Capability put: whole records, as replicas, copies and restores need them."""

from __future__ import annotations

import attrs
import pytest

from memspine.conformance.backend.tools import add, listed, pages, record, said, snapshot, tombstone
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, at
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import ScopeError
from memspine.model import Memory, PutOutcome, SearchQuery, Tombstone

APPLIED, STALE, CONFLICT = PutOutcome.APPLIED, PutOutcome.STALE, PutOutcome.CONFLICT


@clause("MB-100")
async def test_a_new_record_is_stored_as_it_is(store: MemoryBackend) -> None:
    """Id, revision, times and telemetry are those of the record, and it is found like any other."""
    assert await store.put([record()], scope=ALICE) == (APPLIED,)
    assert [said(memory) for memory in await pages(store)] == [said(record())]
    (hit,) = await store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(0))
    assert said(hit.memory) == said(record())
    assert await store.put([], scope=ALICE) == ()


@clause("MB-101")
async def test_a_higher_revision_replaces(store: MemoryBackend) -> None:
    """All fields are the new record's, but telemetry where the stored one is higher."""
    await store.put([record()], scope=ALICE)
    newer = record(revision=9, content="hazel", key="", metadata={}, session="", access_count=1, last_accessed_at=None,
                   expires_at=None, created_at=at(-800), updated_at=at(-200))  # fmt: skip
    assert await store.put([newer], scope=ALICE) == (APPLIED,)
    kept = attrs.evolve(newer, access_count=4, last_accessed_at=at(-100))
    assert [said(memory) for memory in await pages(store)] == [said(kept)]
    busier = record(revision=10, access_count=90, last_accessed_at=at(3))
    await store.put([busier], scope=ALICE)
    assert [said(memory) for memory in await pages(store)] == [said(busier)]
    assert await store.search(SearchQuery(text="hazel", limit=5), scope=ALICE, now=at(0)) == ()


@clause("MB-102")
async def test_what_is_there_already_is_applied(store: MemoryBackend) -> None:
    """The same record again is applied and a lower revision is stale; neither changes anything."""
    await store.put([record()], scope=ALICE)
    before = await snapshot(store, "a")
    assert await store.put([record(), record()], scope=ALICE) == (APPLIED, APPLIED)
    assert await store.put([record(access_count=0, last_accessed_at=None)], scope=ALICE) == (APPLIED,)
    assert await store.put([record(revision=6, content="older")], scope=ALICE) == (STALE,)
    assert await snapshot(store, "a") == before


@clause("MB-103")
async def test_two_contents_of_one_revision_are_a_conflict(store: MemoryBackend) -> None:
    """Same revision, other content hash: conflict, and nothing changes."""
    await store.put([record()], scope=ALICE)
    before = await snapshot(store, "a")
    for other in ({"content": "other"}, {"metadata": {"x": [1, None]}}, {"updated_at": at(-1)}, {"key": ""}):
        assert await store.put([record(**other)], scope=ALICE) == (CONFLICT,), other
    assert await snapshot(store, "a") == before


@clause("MB-102")
@pytest.mark.parametrize("revision", [1, 7, 9], ids=["lower", "same", "higher"])
async def test_what_has_expired_is_in_nobodys_way(store: MemoryBackend, revision: int) -> None:
    """A record of any revision takes the place of what had expired by its `updated_at`, and not a moment earlier."""
    await store.put([record(expires_at=at(-200))], scope=ALICE)
    early, late = (record(revision=revision, content="new", updated_at=at(time)) for time in (-200.001, -200))
    if revision <= 7:
        assert await store.put([early], scope=ALICE) == (STALE if revision < 7 else CONFLICT,)
    assert await store.put([late], scope=ALICE) == (APPLIED,)
    assert [said(memory) for memory in await pages(store, now=at(0))] == [said(late)]


@clause("MB-103")
async def test_a_taken_key_is_a_conflict(store: MemoryBackend) -> None:
    """A record whose key another memory has is a conflict, new or newer."""
    await store.put([record(), record(id="b", key="l")], scope=ALICE)
    before = await snapshot(store, "a", "b", "c")
    assert await store.put([record(id="c")], scope=ALICE) == (CONFLICT,)
    assert await store.put([record(id="b", revision=8)], scope=ALICE) == (CONFLICT,)
    assert await snapshot(store, "a", "b", "c") == before


@clause("MB-103")
@pytest.mark.parametrize("revision", [None, 8], ids=["new", "newer"])
async def test_an_expired_holder_lets_go_of_its_key(store: MemoryBackend, revision: int | None) -> None:
    """A holder that had expired by the record's `updated_at` gives way and is gone; a moment earlier it keeps it."""
    await store.put([record(expires_at=at(-200)), record(id="b", key="l")], scope=ALICE)
    id = "c" if revision is None else "b"
    early, late = (record(id=id, revision=revision or 1, updated_at=at(time)) for time in (-200.001, -200))
    assert await store.put([early], scope=ALICE) == (CONFLICT,)
    assert await store.put([late], scope=ALICE) == (APPLIED,)
    assert sorted(await listed(store, now=at(-300))) == sorted({"b", id})
    assert [said(memory) for memory in await pages(store, now=at(0)) if memory.key == "k"] == [said(late)]


@clause("MB-104")
async def test_a_tombstone_deletes_lower_revisions(store: MemoryBackend) -> None:
    """A tombstone above the memory deletes it; one at its revision or below is stale."""
    await store.put([record()], scope=ALICE)
    before = await snapshot(store, "a")
    assert await store.put([tombstone(6), tombstone(7)], scope=ALICE) == (STALE, STALE)
    assert await snapshot(store, "a") == before
    assert await store.put([tombstone(8)], scope=ALICE) == (APPLIED,)
    assert await listed(store) == []
    assert await store.put([tombstone(8)], scope=ALICE) == (APPLIED,), "it is there already"


@clause("MB-104")
async def test_a_kept_tombstone_holds_older_records_off(store: MemoryBackend) -> None:
    """Where tombstones are kept, a record at or below one is stale, also if the memory was never there."""
    assert await store.put([tombstone(8)], scope=ALICE) == (APPLIED,)
    if Capability.CHANGES not in store.capabilities:
        return
    assert await store.tombstones(["a"], scope=ALICE) == {"a": tombstone(8)}
    assert await store.put([record(revision=7), record(revision=8)], scope=ALICE) == (STALE, STALE)
    assert await listed(store) == []
    assert await store.put([record(revision=9)], scope=ALICE) == (APPLIED,)
    assert await store.tombstones(["a"], scope=ALICE) == {}
    assert await listed(store) == ["a"]


@clause("MB-105")
async def test_records_are_applied_in_order(store: MemoryBackend) -> None:
    """Each record meets what those before it left."""
    records: list[Memory | Tombstone] = [
        record(revision=1), record(revision=3, content="third"), record(revision=2), tombstone(4),
        record(id="b", revision=1), record(revision=5, key="k5"),
    ]  # fmt: skip
    outcomes = await store.put(records, scope=ALICE)
    assert outcomes == (APPLIED, APPLIED, STALE, APPLIED, APPLIED, APPLIED)
    assert [(memory.id, memory.revision, memory.key) for memory in await pages(store)] == [
        ("a", 5, "k5"),
        ("b", 1, "k"),
    ]


@clause("MB-105")
async def test_a_foreign_record_stores_nothing(store: MemoryBackend) -> None:
    """A record of another owner raises ScopeError, wherever it stands, and nothing of the call is stored."""
    await add(store, "x", content="old")
    before = await snapshot(store, "a", "b", "x")
    for foreign in (record(id="b", owner="bob"), tombstone(9, id="x", owner="bob")):
        for records in ([record(), foreign], [foreign, record()]):
            with pytest.raises(ScopeError):
                await store.put(records, scope=ALICE)
    assert await snapshot(store, "a", "b", "x") == before
