"""Spaces: made, activated, dropped."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, at
from memspine.conformance.vectors.tools import IDENTITY, filled, found, record, space, unit
from memspine.contracts import VectorStore
from memspine.errors import ConflictError, NotFoundError

SOURCE = {"plugin": "http", "url": "https://example.org/v1", "api_key": {"env": "KEY"}, "n": [1, 2.0, None, "é"]}


async def active(store: VectorStore) -> list[str]:
    """The ids of the active spaces."""
    return [space.id for space in await store.spaces() if space.active]


@clause("VS-1")
async def test_a_new_space_is_not_active(store: VectorStore) -> None:
    """Whatever it says of itself."""
    made = await store.open_space(space("a", active=True, source=SOURCE))
    assert made == space("a", active=False, source=SOURCE)
    assert await active(store) == []


@clause("VS-1")
async def test_the_space_that_is_there_wins(store: VectorStore) -> None:
    """Opening it again gives it back as it is, with its vectors and its activity."""
    await filled(store, record("m"))
    await store.activate("space")
    other = attrs.evolve(IDENTITY, model="other", dimension=3)
    again = await store.open_space(space(identity=other, source={"x": 1}, quantisation="int8"))
    assert again == space(active=True)
    assert await store.spaces() == (space(active=True),)
    assert await found(store) == ["m"]


@clause("VS-2")
async def test_spaces_come_oldest_first_as_they_were(store: VectorStore) -> None:
    """All of them, with identity, quantisation and source."""
    assert await store.spaces() == ()
    made = [
        space("z", source=SOURCE),
        space("a", identity=attrs.evolve(IDENTITY, dimension=3, prompt_scheme="e5")),
        space("m", quantisation="int8"),
        space("b", quantisation="binary"),
    ]
    for one in made:
        await store.open_space(one)
    assert list(await store.spaces()) == made


@clause("VS-3")
async def test_one_space_is_active(store: VectorStore) -> None:
    """The last one activated, and no other; an unknown one changes nothing."""
    for id in ("a", "b"):
        await store.open_space(space(id))
    for id in ("a", "b", "b", "a"):
        await store.activate(id)
        assert await active(store) == [id]
    with pytest.raises(NotFoundError):
        await store.activate("unknown")
    assert await active(store) == ["a"]


@clause("VS-3")
async def test_no_reader_sees_none_or_two_active(store: VectorStore) -> None:
    """While the active space changes, every reader sees exactly one."""
    for id in ("a", "b"):
        await store.open_space(space(id))
    await store.activate("a")

    async def switch() -> None:
        for number in range(20):
            await store.activate("ba"[number % 2])

    async def watch() -> list[int]:
        counts = []
        for _ in range(40):
            counts.append(len(await active(store)))
            await asyncio.sleep(0)
        return counts

    _, counts = await asyncio.gather(switch(), watch())
    assert set(counts) == {1}


@clause("VS-4")
async def test_a_dropped_space_is_gone_with_its_vectors(store: VectorStore) -> None:
    """The others stay; made again, it is empty."""
    await filled(store, record("m"), id="a")
    await filled(store, record("m"), id="b")
    await store.drop_space("a")
    assert [space.id for space in await store.spaces()] == ["b"]
    assert await found(store, id="b") == ["m"]
    await store.open_space(space("a"))
    assert await found(store, id="a") == []
    assert await store.missing("a", revisions={"m": 1}, scope=ALICE) == ("m",)


@clause("VS-4")
async def test_what_cannot_be_dropped_stays(store: VectorStore) -> None:
    """An unknown space is not found, the active one is a conflict."""
    await filled(store, record("m"))
    await store.activate("space")
    with pytest.raises(NotFoundError):
        await store.drop_space("unknown")
    with pytest.raises(ConflictError):
        await store.drop_space("space")
    assert await active(store) == ["space"]
    assert await found(store) == ["m"]


@clause("VS-5")
async def test_an_unknown_space_is_not_found(store: VectorStore) -> None:
    """By every call that names one."""
    await filled(store, record("m"))
    calls = (
        store.upsert("unknown", records=[record("m")]),
        store.search("unknown", vector=unit(1), scope=ALICE, filter=ALL, now=at(0), limit=1),
        store.missing("unknown", revisions={"m": 1}, scope=ALICE),
        store.count("unknown", scope=ALICE, now=at(0)),
        store.claim("unknown", ids=["m"], holder="h", now=at(0), lease_seconds=9),
    )
    for call in calls:
        with pytest.raises(NotFoundError):
            await call
    assert [space.id for space in await store.spaces()] == ["space"]
