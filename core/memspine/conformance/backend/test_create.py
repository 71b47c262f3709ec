"""create and create_many."""

from __future__ import annotations

import asyncio

import pytest

from memspine.conformance.backend.tools import OLD, POISONING, Poisoned, add, aged, listed, pages, said, snapshot, the
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, at
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import InvalidMemoryError
from memspine.model import METADATA_BYTES_MAX, MemoryType, NewMemory

NEW = {"replaced": {"other": 2}, "removed": None, "added": 3}
MERGED = {"kept": 1, "replaced": {"other": 2}, "null": None, "added": 3}


@clause("MB-10")
async def test_a_new_memory_begins_at_revision_one(store: MemoryBackend) -> None:
    """Given id, revision 1, now as creation and update, no accesses, created."""
    written = await store.create(NewMemory(content="c"), scope=ALICE, id="a:1", now=at(0))
    memory = written.memory
    assert written.created is True
    assert (memory.id, memory.owner, memory.revision) == ("a:1", "alice", 1)
    assert (memory.created_at, memory.updated_at) == (at(0), at(0))
    assert (memory.access_count, memory.last_accessed_at, memory.expires_at) == (0, None, None)
    assert said(await the(store, "a:1")) == said(memory)


@clause("MB-10")
async def test_a_memory_may_say_when_it_was_created(store: MemoryBackend) -> None:
    """The memory's own created_at wins over now, which stays the time of the update."""
    memory = await add(store, "a", created_at=at(-1000))
    assert (memory.created_at, memory.updated_at) == (at(-1000), at(0))
    assert said(await the(store, "a")) == said(memory)


@clause("MB-11")
async def test_a_known_key_replaces(store: MemoryBackend) -> None:
    """Content, type, session and expiry are the new ones; id, creation and telemetry are kept; one revision more."""
    old = await aged(store)
    new = NewMemory(content="new words", key="k", type=MemoryType.EPISODIC, session="new", created_at=at(1))
    written = await store.create(new, scope=ALICE, id="b", now=at(10))
    memory = written.memory
    assert written.created is False
    assert (memory.content, memory.type, memory.session, memory.key) == ("new words", MemoryType.EPISODIC, "new", "k")
    assert (memory.expires_at, memory.updated_at, memory.revision) == (None, at(10), old.revision + 1)
    assert (memory.id, memory.created_at) == ("a", old.created_at)
    assert (memory.access_count, memory.last_accessed_at) == (3, at(5))
    assert said(await the(store, "a")) == said(memory)
    assert await listed(store) == ["a"]


@clause("MB-12")
async def test_a_replacement_merges_metadata(store: MemoryBackend) -> None:
    """New entries win whole, null removes, the others stay; a first create stores null as null."""
    old = await aged(store)
    assert dict(old.metadata) == OLD
    memory = await add(store, "b", time=10, key="k", metadata=NEW)
    assert dict(memory.metadata) == MERGED
    assert dict((await the(store, "a")).metadata) == MERGED


@clause("MB-12")
@pytest.mark.parametrize("by", ["key", "id"])
async def test_merged_metadata_stays_within_its_limit(store: MemoryBackend, by: str) -> None:
    """What would exceed 64 KiB together is refused, alone or in a batch, and nothing changes; what fits is stored."""
    half = METADATA_BYTES_MAX // 2
    await add(store, "a", key="k", metadata={"old": "o" * half})
    before = await snapshot(store, "a", "b")
    id, key = ("b", "k") if by == "key" else ("a", "")
    large, fresh = NewMemory(content="n", key=key, metadata={"new": "n" * half}), NewMemory(content="fresh")
    with pytest.raises(InvalidMemoryError):
        await store.create(large, scope=ALICE, id=id, now=at(10))
    with pytest.raises(InvalidMemoryError):
        await store.create_many([fresh, large], scope=ALICE, ids=["c", id], now=at(10))
    assert await snapshot(store, "a", "b") == before
    fits = {"new": "n" * (METADATA_BYTES_MAX - half - len('{"old":"","new":""}'))}
    assert len((await add(store, id, key=key, metadata=fits)).metadata["new"]) == len(fits["new"])
    swapped = await add(store, id, key=key, metadata={"new": None, "old": "ö" * (half - 10)})
    assert sorted(swapped.metadata) == ["old"]


@clause("MB-13")
async def test_without_a_key_nothing_else_is_touched(store: MemoryBackend) -> None:
    """Memories without a key stand side by side, and beside those with one."""
    old = await aged(store)
    await add(store, "b", "same", key="")
    await add(store, "c", "same", key="")
    assert sorted(await listed(store)) == ["a", "b", "c"]
    assert said(await the(store, "a")) == said(old)


@clause("MB-14")
@pytest.mark.parametrize("key", ["", "fresh"])
async def test_a_known_id_replaces(store: MemoryBackend, key: str) -> None:
    """A create with a known id replaces that memory and its key, and merges its metadata."""
    old = await aged(store)
    written = await store.create(NewMemory(content="n", key=key, metadata=NEW), scope=ALICE, id="a", now=at(10))
    memory = written.memory
    assert written.created is False
    assert (memory.id, memory.content, memory.key, memory.session) == ("a", "n", key, "")
    assert (memory.revision, memory.created_at, memory.access_count) == (old.revision + 1, old.created_at, 3)
    assert dict(memory.metadata) == MERGED
    assert said(await the(store, "a")) == said(memory)
    await add(store, "b", time=11, key="k")
    assert await listed(store) == ["a", "b"], "the old key is free again"


@clause("MB-14")
async def test_repeating_a_create_is_safe(store: MemoryBackend) -> None:
    """The same create twice leaves one memory with the same content."""
    for key in ("", "k"):
        for _ in range(2):
            await add(store, f"id{key}", "once", key=key)
    assert [(m.id, m.content) for m in await pages(store)] == [("id", "once"), ("idk", "once")]


@clause("MB-15")
async def test_the_key_wins_over_the_id(store: MemoryBackend) -> None:
    """When key and id name two memories, the one with the key is replaced and the other stays."""
    await add(store, "a", "has the key", key="k")
    other = await add(store, "b", "has the id", key="other", metadata={"x": 1})
    written = await store.create(NewMemory(content="new", key="k"), scope=ALICE, id="b", now=at(10))
    assert (written.memory.id, written.created) == ("a", False)
    assert (await the(store, "a")).content == "new"
    assert said(await the(store, "b")) == said(other)


@clause("MB-16")
@pytest.mark.parametrize(("id", "key"), [("b", "k"), ("a", "k"), ("a", "")], ids=["by key", "by both", "by id"])
async def test_an_expired_memory_starts_afresh(store: MemoryBackend, id: str, key: str) -> None:
    """Same id, new creation, nothing merged, no accesses, created, a higher revision."""
    old = await aged(store, expires_at=at(6), key=key or "gone")
    assert await store.get("a", scope=ALICE, now=at(6)) is None
    written = await store.create(NewMemory(content="new", key=key, metadata=NEW), scope=ALICE, id=id, now=at(10))
    memory = written.memory
    assert written.created is True
    assert (memory.id, memory.created_at, memory.updated_at, memory.expires_at) == ("a", at(10), at(10), None)
    assert dict(memory.metadata) == NEW
    assert (memory.access_count, memory.last_accessed_at) == (0, None)
    assert memory.revision > old.revision
    assert said(await the(store, "a")) == said(memory)


@clause("MB-17")
async def test_a_create_after_a_delete_goes_on_counting(store: MemoryBackend) -> None:
    """Where tombstones are kept, the revision goes on behind the tombstone's."""
    await add(store, "a")
    tombstone = await store.delete("a", scope=ALICE, now=at(1))
    written = await store.create(NewMemory(content="again"), scope=ALICE, id="a", now=at(2))
    assert written.created is True
    kept = bool(store.capabilities & {Capability.CHANGES, Capability.HISTORY})
    assert written.memory.revision in ({tombstone.revision + 1} if kept else {1, tombstone.revision + 1})


@clause("MB-18")
async def test_simultaneous_creates_of_a_key_leave_one_memory(store: MemoryBackend) -> None:
    """Of many creates with one key exactly one says created, and all name the same memory."""
    writes = (store.create(NewMemory(content=f"w{n}", key="k"), scope=ALICE, id=f"id{n}", now=at(n)) for n in range(20))
    written = await asyncio.gather(*writes)
    assert [w.created for w in written].count(True) == 1
    assert len({w.memory.id for w in written}) == 1
    assert sorted(w.memory.revision for w in written) == list(range(1, 21))
    assert len(await listed(store)) == 1


@clause("MB-19")
async def test_a_batch_equals_single_creates(store: MemoryBackend) -> None:
    """Results come in the order of the batch, and a key that comes twice is written twice."""
    new = [
        NewMemory(content="first", key="k", metadata={"a": 1}),
        NewMemory(content="second"),
        NewMemory(content="third", key="k", metadata={"b": 2}),
    ]
    written = await store.create_many(new, scope=ALICE, ids=["a", "b", "c"], now=at(0))
    assert [(w.memory.id, w.memory.content, w.memory.revision, w.created) for w in written] == [
        ("a", "first", 1, True),
        ("b", "second", 1, True),
        ("a", "third", 2, False),
    ]
    assert [(m.id, m.content, dict(m.metadata)) for m in await pages(store)] == [
        ("a", "third", {"a": 1, "b": 2}),
        ("b", "second", {}),
    ]


@clause("MB-19")
async def test_an_empty_batch_gives_an_empty_result(store: MemoryBackend) -> None:
    """Nothing in, nothing out, nothing stored."""
    assert await store.create_many([], scope=ALICE, ids=[], now=at(0)) == ()
    assert await listed(store) == []


@clause("MB-19")
async def test_a_batch_that_fails_stores_nothing(store: MemoryBackend) -> None:
    """When one memory of a batch fails, those before it are not stored either."""
    await add(store, "a", "old", key="k")
    before = await snapshot(store, "a", "b", "c")
    new = [
        NewMemory(content="new", key="k"),
        NewMemory(content="b"),
        NewMemory(content="c", metadata=Poisoned()),
        NewMemory(content="d"),
    ]
    with pytest.raises(POISONING):
        await store.create_many(new, scope=ALICE, ids=["x", "b", "c", "d"], now=at(1))
    assert await snapshot(store, "a", "b", "c") == before
