"""Opening, closing, reopening, many at once, health."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.crash import SPACE, Writer
from memspine.conformance.samples import ALICE, ALL, at
from memspine.conformance.subject import Place
from memspine.conformance.vectors.tools import (
    TURNS,
    Claimed,
    cancelled,
    claim,
    claimed,
    drawn,
    filled,
    find,
    found,
    mine,
    queue,
    record,
    space,
    unit,
    waiting,
)
from memspine.contracts import Capability, VectorRecord, VectorStore
from memspine.errors import CapabilityError, ClosedError
from memspine.model import KeywordQuery
from memspine.resources import ProviderContext, SharedResources


@clause("VS-40")
async def test_a_store_lives_in_its_context(place: Place) -> None:
    """Constructing it touches no file, and after leaving every call raises ClosedError."""
    async with AsyncExitStack() as stack:
        context = ProviderContext(
            "kit", config_folder=place.folder, data_folder=place.folder, resources=SharedResources(), stack=stack
        )
        manager = place.subject.construct(place.folder, context)
        assert list(place.folder.rglob("*")) == []
        async with manager as store:
            await filled(store, record("m"))
    now = at(1)
    calls = (
        store.spaces(),
        store.open_space(space()),
        store.complete_space("space"),
        store.activate("space"),
        store.drop_space("space"),
        store.upsert("space", records=[]),
        store.settle("space", revisions={}, holder="h"),
        store.delete([]),
        store.purge([], scope=ALICE),
        store.expire(now=now, limit=1),
        store.search("space", vector=unit(1), scope=ALICE, filter=ALL, now=now, limit=1),
        store.count("space", scope=ALICE, now=now),
        store.enqueue("space", revisions={}, position="p"),
        store.claim("space", holder="h", now=now, lease_seconds=1, limit=1),
        store.postpone("space", refs=[], holder="h", until=now, reason="r"),
        store.release("space", refs=[], holder="h"),
        store.backlog("space", now=now),
        store.health(),
    )
    for call in calls:
        with pytest.raises(ClosedError):
            await call


async def state(store: VectorStore) -> tuple[object, ...]:
    """What the tests look at: spaces, vectors and backlogs."""
    return (
        await store.spaces(),
        [await find(store, drawn(5), id=one.id) for one in await store.spaces()],
        [await store.backlog(one.id, now=at(1)) for one in await store.spaces()],
    )


@clause("VS-41")
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
async def test_health_is_ok_and_changes_nothing(store: VectorStore, deep: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A working store says so, empty or not, and is afterwards what it was."""
    assert (await store.health(deep=deep)).ok is True
    assert await store.spaces() == ()
    await filled(store, *(record(f"m{n}", drawn(n)) for n in range(20)))
    await queue(store, "a", "b")
    before = await state(store)
    assert (await store.health(deep=deep)).ok is True
    assert await state(store) == before


@clause("VS-42")
async def test_vectors_and_queues_outlive_the_store(place: Place) -> None:
    """Spaces, vectors, deletions, positions, leases and failures are there after opening again."""
    async with place.open() as store:
        await filled(store, *(record(f"m{n}", drawn(n), session="s", created_at=at(n)) for n in range(20)))
        await store.open_space(space("second", source={"a": 1}, used_at=at(5.001)))
        await store.activate("space")
        await store.complete_space("space")
        await store.delete(mine("m3"))
        await queue(store, "z", "leased", "free", position="p9")
        assert await claimed(store, limit=2) == ["z", "leased"]
        await store.postpone("space", refs=mine("z"), holder="one", until=at(30), reason="slow")
        before = await state(store)
    async with place.open() as store:
        assert await state(store) == before
        assert "m3" not in await found(store)
        assert await claim(store, "two", seconds=59, limit=5) == [Claimed("z", 1, 1), Claimed("free", 1)]
        await store.upsert("space", records=[record("leased"), record("z"), record("unknown")], holder="one")
        assert await waiting(store) == 2
        await store.release("space", refs=mine("free"), holder="two")
        assert await claimed(store, "three", seconds=59) == ["free"]


@clause("VS-43")
async def test_many_tasks_lose_nothing(store: VectorStore) -> None:
    """Batches that arrive at once are all there, each in its space, the newest revision of each memory."""
    for id in ("a", "b"):
        await store.open_space(space(id))

    def batch(number: int) -> Sequence[VectorRecord]:
        return [*(record(f"m{number}-{k}", drawn(number + k)) for k in range(5)), record("same", revision=number)]

    batches = [store.upsert("ab"[number % 2], records=batch(number)) for number in range(1, 31)]
    queued = [queue(store, f"q{number}", position=f"p{number}", id="ab"[number % 2]) for number in range(1, 31)]
    await asyncio.gather(*batches, *queued, *(claim(store, f"h{n}", limit=1, id="a") for n in range(9)))
    for id, rest in (("a", 0), ("b", 1)):
        hits = {hit.id: hit.revision for hit in await find(store, id=id)}
        assert hits.pop("same") == 30 - rest
        assert sorted(hits) == sorted(f"m{n}-{k}" for n in range(1, 31) if n % 2 == rest for k in range(5))
        ids = await claimed(store, seconds=100, id=id)
        assert sorted(ids) == sorted(f"q{n}" for n in range(1, 31) if n % 2 == rest)
    assert await found(store, id="a", limit=1) != []


@clause("VS-44")
@pytest.mark.parametrize("holder", [None, "one"])
async def test_a_cancelled_upsert_is_whole_or_absent(store: VectorStore, holder: str | None) -> None:
    """All of its vectors are there and settled, or none is, and the store works on."""
    await store.open_space(space("other"))
    for turns in TURNS:
        id = f"space{turns}"
        await store.open_space(space(id))
        ids = [f"m{n}" for n in range(30)]
        await store.enqueue(id, revisions=dict.fromkeys(mine(*ids), 1), position="p")
        assert len(await claimed(store, "one", id=id)) == 30
        records = [record(name, drawn(n)) for n, name in enumerate(ids)]
        done = await cancelled(store.upsert(id, records=records, holder=holder), turns=turns)
        await store.upsert("other", records=[record(f"after{turns}")])
        stored, left = len(await found(store, id=id)), await waiting(store, id=id)
        assert (stored, left) in ([(30, 0)] if done else [(0, 30), (30, 0)])
    assert len(await found(store, id="other")) == len(TURNS)


@clause("VS-45")
def test_what_was_acknowledged_outlives_a_kill(place: Place) -> None:
    """Killed in the middle of writing, a process leaves every acknowledged vector behind, and a store that works."""
    with Writer(place) as writer:
        acknowledged = writer.read(count=25)
        writer.kill()
        acknowledged += writer.rest()

    async def check() -> None:
        async with place.open() as store:
            assert (await store.health(deep=True)).ok is True
            stored = {hit.id for hit in await find(store, limit=10_000, id=SPACE)}
            queued = {item.id for item in await claim(store, limit=10_000, id=SPACE)}
            assert [id for id in acknowledged if id not in stored] == []
            assert [id for id in acknowledged if f"next-{id}" not in queued] == []
            await filled(store, record("after"), id=SPACE)
            assert "after" in await found(store, limit=10_000, id=SPACE)

    asyncio.run(check())


def capability_calls(store: VectorStore) -> dict[Capability, list[Coroutine[Any, Any, object]]]:
    """One call of each kind that a capability brings."""
    return {
        Capability.LEXICAL: [
            store.index_terms("space", records=[]),
            store.lexical("space", KeywordQuery(("a",)), filter=ALL, limit=1, scope=ALICE, now=at(0)),
            store.speakers("space", ["a"], scope=ALICE, now=at(0)),
        ]
    }


@clause("VS-46")
async def test_claims_are_declared(place: Place, store: VectorStore) -> None:
    """What an opened store claims is what its provider declares, or less."""
    assert store.capabilities <= place.subject.provider.capabilities
    assert all(isinstance(capability, Capability) for capability in store.capabilities)


@clause("VS-46")
async def test_what_is_not_claimed_raises(store: VectorStore) -> None:
    """Each call of a capability that is not claimed raises CapabilityError; of one that is claimed, none does."""
    await store.open_space(space())
    for capability, calls in capability_calls(store).items():
        for call in calls:
            if capability in store.capabilities:
                await call
            else:
                with pytest.raises(CapabilityError):
                    await call
