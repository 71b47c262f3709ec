"""Opening, closing, crashing, many at once, capabilities."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from memspine.conformance.backend.tools import add, listed, pages, said
from memspine.conformance.clauses import clause
from memspine.conformance.crash import Writer
from memspine.conformance.samples import ALICE, ALL, BOB, at
from memspine.conformance.subject import Place
from memspine.contracts import Capability, MemoryBackend
from memspine.errors import CapabilityError, ClosedError, ConflictError
from memspine.model import KeywordQuery, MemoryChanges, NewMemory, SearchQuery
from memspine.resources import ProviderContext, SharedResources


def base_calls(store: MemoryBackend) -> list[Coroutine[Any, Any, object]]:
    """One call of each kind that every backend has."""
    now = at(1)
    return [
        store.create(NewMemory(content="c"), scope=ALICE, id="a", now=now),
        store.create_many([], scope=ALICE, ids=[], now=now),
        store.get("a", scope=ALICE, now=now),
        store.get_many(["a"], scope=ALICE, now=now),
        store.update("a", MemoryChanges(content="x"), scope=ALICE, now=now),
        store.delete("a", scope=ALICE, now=now),
        store.delete_many(ALL, scope=ALICE, now=now, dry_run=True),
        store.list(ALL, scope=ALICE, now=now, limit=1),
        store.count(ALL, scope=ALICE, now=now),
        store.search(SearchQuery(text="a", limit=1), scope=ALICE, now=now),
        store.record_access({"a": 1}, scope=ALICE, now=now),
        store.expire(scope=ALICE, now=now, limit=1),
        store.health(),
    ]


def capability_calls(store: MemoryBackend, folder: Path) -> dict[Capability, list[Coroutine[Any, Any, object]]]:
    """One call of each kind that a capability brings."""
    now = at(1)
    return {
        Capability.PUT: [store.put([], scope=ALICE)],
        Capability.CHANGES: [
            store.changes(scope=ALICE, limit=1),
            store.tombstones(["a"], scope=ALICE),
            store.trim_changes(scope=ALICE, before=now, limit=1),
        ],
        Capability.LEXICAL: [
            store.lexical(KeywordQuery(("a",)), scope=ALICE, filter=ALL, now=now, limit=1),
            store.speakers(["a"], scope=ALICE, now=now),
        ],
        Capability.HISTORY: [
            store.history("a", scope=ALICE),
            store.trim_history(scope=ALICE, before=now, tombstones_before=now, limit=1),
        ],
        Capability.PURGE: [store.purge(["a"], scope=ALICE, now=now)],
        Capability.BACKUP: [store.backup(folder / "backup")],
        Capability.NATIVE_HYBRID: [],
    }


@clause("MB-80")
async def test_opening_happens_on_entering(place: Place) -> None:
    """Constructing the context manager touches no file; nothing is there until it is entered."""
    async with AsyncExitStack() as stack:
        context = ProviderContext(
            "kit", config_folder=place.folder, data_folder=place.folder, resources=SharedResources(), stack=stack
        )
        manager = place.subject.construct(place.folder, context)
        assert list(place.folder.rglob("*")) == []
        async with manager as store:
            await add(store, "a")
            assert await listed(store) == ["a"]


@clause("MB-80")
async def test_a_closed_store_refuses_every_call(place: Place) -> None:
    """After leaving, each call raises ClosedError."""
    async with place.open() as store:
        await add(store, "a")
        claimed = store.capabilities
    calls = base_calls(store)
    for capability, more in capability_calls(store, place.folder).items():
        if capability in claimed:
            calls += more
        else:
            for call in more:
                call.close()
    for call in calls:
        with pytest.raises(ClosedError):
            await call


@clause("MB-81")
async def test_what_was_written_is_there_after_reopening(place: Place) -> None:
    """Memories, telemetry and deletions outlive closing and opening."""
    async with place.open() as store:
        for id in ("a", "b", "c"):
            await add(store, id, f"walnut {id}\r\n", key=id, metadata={"n": 2**53 + 1}, session="s")
        await store.update("b", MemoryChanges(content="walnut changed"), scope=ALICE, now=at(1))
        await store.delete("c", scope=ALICE, now=at(2))
        await store.record_access({"a": 3}, scope=ALICE, now=at(3))
        before = [said(memory) for memory in await pages(store)]
        hits = await store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(4))
    async with place.open() as store:
        assert [said(memory) for memory in await pages(store)] == before
        assert await store.search(SearchQuery(text="walnut", limit=5), scope=ALICE, now=at(4)) == hits


@clause("MB-81")
def test_what_was_acknowledged_outlives_a_kill(place: Place) -> None:
    """Killed in the middle of writing, a process leaves every acknowledged write behind, and a store that works."""
    with Writer(place) as writer:
        acknowledged = writer.read(count=25)
        writer.kill()
        acknowledged += writer.rest()

    async def check() -> None:
        async with place.open() as store:
            assert (await store.health(deep=True)).ok is True
            found = {memory.id: memory.content for memory in await pages(store)}
            lost = [id for id in acknowledged if found.get(id) != f"content of {id}"]
            assert lost == []
            await add(store, "after", "walnut")
            assert "after" in await listed(store)

    asyncio.run(check())


@clause("MB-82")
async def test_many_tasks_lose_nothing(store: MemoryBackend) -> None:
    """Creates, updates and counts from many tasks at once are all done, each once."""
    await add(store, "shared")
    creates = [
        store.create(NewMemory(content=f"content of n{n}", key=f"k{n}"), scope=ALICE, id=f"n{n}", now=at(1))
        for n in range(60)
    ]
    updates = [store.update("shared", MemoryChanges(content=f"update {n}"), scope=ALICE, now=at(2)) for n in range(30)]
    accesses = [store.record_access({"shared": 1}, scope=ALICE, now=at(3)) for _ in range(30)]
    foreign = [add(store, f"n{n}", f"content of bob's n{n}", scope=BOB) for n in range(30)]
    _, updated, _, _ = await asyncio.gather(
        asyncio.gather(*creates), asyncio.gather(*updates), asyncio.gather(*accesses), asyncio.gather(*foreign)
    )
    found = {memory.id: memory for memory in await pages(store)}
    shared = found.pop("shared")
    assert {id: memory.content for id, memory in found.items()} == {f"n{n}": f"content of n{n}" for n in range(60)}
    assert len(await listed(store, BOB)) == 30
    assert sorted(memory.revision for memory in updated) == list(range(2, 32)), "no two updates made one revision"
    assert (shared.revision, shared.access_count) == (31, 30)


@clause("MB-82")
async def test_only_one_of_many_expecting_tasks_wins(store: MemoryBackend) -> None:
    """Of many updates that expect the same revision exactly one is done, the others are conflicts."""
    await add(store, "a")
    updates = [
        store.update("a", MemoryChanges(content=f"update {n}"), scope=ALICE, now=at(1), expected_revision=1)
        for n in range(20)
    ]
    done = await asyncio.gather(*updates, return_exceptions=True)
    assert sum(isinstance(result, ConflictError) for result in done) == 19
    (memory,) = await pages(store)
    assert (memory.revision, memory) == (2, next(result for result in done if not isinstance(result, BaseException)))


@clause("MB-83")
async def test_claims_are_declared(place: Place, store: MemoryBackend) -> None:
    """What an opened store claims is what its provider declares, or less."""
    assert store.capabilities <= place.subject.provider.capabilities
    assert all(isinstance(capability, Capability) for capability in store.capabilities)


@clause("MB-83")
@pytest.mark.parametrize("capability", Capability)
async def test_what_is_not_claimed_raises(place: Place, store: MemoryBackend, capability: Capability) -> None:
    """Each call of a capability that is not claimed raises CapabilityError; of one that is claimed, none does."""
    for other, calls in capability_calls(store, place.folder).items():
        for call in calls:
            if other is not capability:
                call.close()
            elif capability in store.capabilities:
                await call
            else:
                with pytest.raises(CapabilityError):
                    await call


@clause("MB-84")
async def test_a_cancelled_batch_is_whole_or_absent(store: MemoryBackend) -> None:
    """Wherever a batch is cancelled, all of it is stored or nothing, and the store works on."""
    for turns in (0, 1, 2, 3, 5, 8, 13, 40):
        ids = [f"t{turns}-{n}" for n in range(30)]
        new = [NewMemory(content=f"content of {id}") for id in ids]
        task = asyncio.ensure_future(store.create_many(new, scope=ALICE, ids=ids, now=at(0)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await add(store, f"after{turns}", scope=BOB)
        stored = await store.get_many(ids, scope=ALICE, now=at(1))
        assert len(stored) in (0, len(ids)), f"{len(stored)} of {len(ids)} after {turns} turns"
        if not task.cancelled():
            assert len(stored) == len(ids)
    assert len(await listed(store, BOB)) == 8


@clause("MB-84")
async def test_a_cancelled_change_is_whole_or_absent(store: MemoryBackend) -> None:
    """A cancelled replacement leaves the old state or the new one, in every index."""
    for turns in (0, 1, 2, 3, 5, 8):
        id = f"a{turns}"
        await add(store, id, "walnut")
        task = asyncio.ensure_future(
            store.update(id, MemoryChanges(content="hazel", metadata={"x": 1}), scope=ALICE, now=at(1))
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await add(store, f"after{turns}", scope=BOB)
        memory = await store.get(id, scope=ALICE, now=at(2))
        assert memory is not None
        assert (memory.content, dict(memory.metadata), memory.revision) in (
            ("walnut", {}, 1),
            ("hazel", {"x": 1}, 2),
        )
        hits = await store.search(SearchQuery(text=memory.content, limit=99), scope=ALICE, now=at(2))
        assert id in [hit.memory.id for hit in hits]
        await store.delete(id, scope=ALICE, now=at(3))
