"""Opening, closing, reopening, many at once, health."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, at
from memspine.conformance.subject import Place
from memspine.conformance.vectors.tools import drawn, filled, find, found, record, space, unit
from memspine.contracts import VectorRecord, VectorStore
from memspine.errors import ClosedError
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
        store.activate("space"),
        store.drop_space("space"),
        store.upsert("space", records=[]),
        store.delete([], scope=ALICE),
        store.search("space", vector=unit(1), scope=ALICE, filter=ALL, now=now, limit=1),
        store.missing("space", revisions={}, scope=ALICE),
        store.count("space", scope=ALICE, now=now),
        store.claim("space", ids=[], holder="h", now=now, lease_seconds=1),
        store.neighbours([], scope=ALICE, now=now, before=1, after=1),
        store.health(),
    )
    for call in calls:
        with pytest.raises(ClosedError):
            await call


@clause("VS-41")
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
async def test_health_is_ok_and_changes_nothing(store: VectorStore, deep: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A working store says so, empty or not, and is afterwards what it was."""
    assert (await store.health(deep=deep)).ok is True
    assert await store.spaces() == ()
    await filled(store, *(record(f"m{n}", drawn(n)) for n in range(20)))
    before = (await store.spaces(), await find(store))
    assert (await store.health(deep=deep)).ok is True
    assert (await store.spaces(), await find(store)) == before


@clause("VS-42")
async def test_vectors_outlive_the_store(place: Place) -> None:
    """Spaces, the active one, vectors and deletions are there after opening again."""
    async with place.open() as store:
        await filled(store, *(record(f"m{n}", drawn(n), session="s", created_at=at(n)) for n in range(20)))
        await store.open_space(space("second", source={"a": 1}))
        await store.activate("space")
        await store.delete(["m3"], scope=ALICE)
        before = (await store.spaces(), await find(store, drawn(5)))
    async with place.open() as store:
        assert (await store.spaces(), await find(store, drawn(5))) == before
        assert await store.missing("space", revisions={"m3": 1, "m4": 1}, scope=ALICE) == ("m3",)


@clause("VS-43")
async def test_many_tasks_lose_nothing(store: VectorStore) -> None:
    """Batches that arrive at once are all there, each in its space, the newest revision of each memory."""
    for id in ("a", "b"):
        await store.open_space(space(id))

    def batch(number: int) -> Sequence[VectorRecord]:
        return [*(record(f"m{number}-{k}", drawn(number + k)) for k in range(5)), record("same", revision=number)]

    batches = [store.upsert("ab"[number % 2], records=batch(number)) for number in range(1, 31)]
    claims = [store.claim("a", ids=["x"], holder=f"h{n}", now=at(0), lease_seconds=1) for n in range(9)]
    await asyncio.gather(*batches, *claims)
    for id, rest in (("a", 0), ("b", 1)):
        hits = {hit.id: hit.revision for hit in await find(store, id=id)}
        assert hits.pop("same") == 30 - rest
        assert sorted(hits) == sorted(f"m{n}-{k}" for n in range(1, 31) if n % 2 == rest for k in range(5))
    assert await found(store, id="a", limit=1) != []
