"""Spaces: made, activated, dropped."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, ALL, at
from memspine.conformance.vectors.tools import IDENTITY, filled, found, mine, queue, record, space, unit, waiting
from memspine.contracts import Backlog, VectorStore
from memspine.errors import ConflictError, NotFoundError

SOURCE = {"plugin": "http", "url": "https://example.org/v1", "api_key": {"env": "KEY"}, "n": [1, 2.0, None, "é"]}


async def active(store: VectorStore) -> list[str]:
    """The ids of the active spaces."""
    return [space.id for space in await store.spaces() if space.active]


@clause("VS-1")
async def test_a_new_space_is_neither_active_nor_complete(store: VectorStore) -> None:
    """Whatever it says of itself."""
    made = await store.open_space(space("a", active=True, complete=True, source=SOURCE))
    assert made == space("a", active=False, complete=False, source=SOURCE)
    assert await store.spaces() == (made,)


@clause("VS-1")
async def test_the_space_that_is_there_wins(store: VectorStore) -> None:
    """Opening it again gives it back as it is, with its vectors, its queue and its activity."""
    await filled(store, record("m"))
    await queue(store, "n", position="p7")
    await store.activate("space")
    other = attrs.evolve(IDENTITY, model="other", dimension=3)
    again = await store.open_space(
        space(identity=other, source={"x": 1}, quantisation="int8", chunk_tokens=9, complete=True)
    )
    assert again == space(active=True)
    assert await store.spaces() == (space(active=True),)
    assert await found(store) == ["m"]
    backlog = await store.backlog("space", now=at(0))
    assert (backlog.position, backlog.waiting) == ("p7", 1)


@clause("VS-2")
async def test_spaces_come_oldest_first_as_they_were(store: VectorStore) -> None:
    """All of them, with identity, quantisation, chunk size, source and time of use."""
    assert await store.spaces() == ()
    made = [
        space("z", source=SOURCE, used_at=at(9.001)),
        space("a", identity=attrs.evolve(IDENTITY, dimension=3, prompt_scheme="e5", window_tokens=0)),
        space("m", quantisation="int8", chunk_tokens=256),
        space("b", quantisation="binary", used_at=at(-99_999)),
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
    """The others stay; made again, it is empty, with nothing queued and nothing noted."""
    for id in ("a", "b"):
        await filled(store, record("m"), id=id)
        await queue(store, "n", id=id)
        await store.complete_space(id)
    await store.drop_space("a")
    assert [space.id for space in await store.spaces()] == ["b"]
    assert await found(store, id="b") == ["m"]
    assert await waiting(store, id="b") == 1
    assert await store.open_space(space("a")) == space("a")
    assert await found(store, id="a") == []
    assert await store.backlog("a", now=at(0)) == Backlog()
    assert await queue(store, "m", "n", id="a") == 2


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
    """By every call that names one, also by those that have nothing to do."""
    await filled(store, record("m"))
    calls = (
        store.upsert("unknown", records=[record("m")]),
        store.upsert("unknown", records=[]),
        store.upsert("unknown", records=[record("m")], holder="h"),
        store.upsert("unknown", records=[], holder="h"),
        store.settle("unknown", revisions={mine("m")[0]: 1}, holder="h"),
        store.settle("unknown", revisions={}, holder="h"),
        store.search("unknown", vector=unit(1), scope=ALICE, filter=ALL, now=at(0), limit=1),
        store.count("unknown", scope=ALICE, now=at(0)),
        store.enqueue("unknown", revisions={mine("m")[0]: 1}, position="p"),
        store.enqueue("unknown", revisions={}, position="p"),
        store.claim("unknown", holder="h", now=at(0), lease_seconds=9, limit=1),
        store.postpone("unknown", refs=mine("m"), holder="h", until=at(9), reason="r"),
        store.release("unknown", refs=mine("m"), holder="h"),
        store.release("unknown", refs=[], holder="h"),
        store.backlog("unknown", now=at(0)),
    )
    for call in calls:
        with pytest.raises(NotFoundError):
            await call
    assert [space.id for space in await store.spaces()] == ["space"]


@clause("VS-6")
async def test_a_complete_space_stays_complete(store: VectorStore) -> None:
    """Until it is dropped, whatever is queued or opened; the others, and what is active, stay as they were."""
    for id in ("a", "b"):
        await store.open_space(space(id))
    await store.activate("b")
    for _ in range(2):
        await store.complete_space("a")
        assert await store.spaces() == (space("a", complete=True), space("b", active=True))
    await queue(store, "m", id="a")
    assert await store.open_space(space("a")) == space("a", complete=True)
    await store.activate("a")
    assert await store.spaces() == (space("a", complete=True, active=True), space("b"))
    await store.activate("b")
    await store.drop_space("a")
    assert (await store.open_space(space("a"))).complete is False
    with pytest.raises(NotFoundError):
        await store.complete_space("unknown")


@clause("VS-7")
async def test_a_later_use_is_taken_over(store: VectorStore) -> None:
    """An earlier one is not; nothing else of the space changes."""
    await store.open_space(space("a", used_at=at(10), source=SOURCE))
    await store.open_space(space("b", used_at=at(10)))
    for asked, kept in ((5, 10), (20.001, 20.001), (20, 20.001)):
        opened = await store.open_space(space("a", used_at=at(asked), source={}))
        assert opened == space("a", used_at=at(kept), source=SOURCE)
        assert await store.spaces() == (opened, space("b", used_at=at(10)))
