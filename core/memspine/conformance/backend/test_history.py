"""Capability history: the states that a memory has had."""

from __future__ import annotations

from memspine.conformance.backend.tools import add, said
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, BOB, EVERYONE, at
from memspine.contracts import MemoryBackend
from memspine.model import MemoryChanges, NewMemory, Revision

STATE = tuple[str, int, object, bool]


async def states(store: MemoryBackend, id: str = "a") -> list[STATE]:
    """Content, revision, time of replacement and deletion of each state."""
    return [
        (state.memory.content, state.memory.revision, state.replaced_at, state.deleted)
        for state in await store.history(id, scope=ALICE)
    ]


async def live_a_life(store: MemoryBackend) -> None:
    """A memory that is created, updated and replaced."""
    await add(store, "a", "first", key="k", metadata={"x": [1]})
    await store.update("a", MemoryChanges(content="second", metadata={}), scope=ALICE, now=at(10))
    await store.create(NewMemory(content="third", key="k"), scope=ALICE, id="b", now=at(20))


@clause("MB-130")
async def test_history_is_every_state_in_order(store: MemoryBackend) -> None:
    """Oldest first, each with the time of its replacement, the current one last without."""
    first = await add(store, "a", "first", key="k", metadata={"x": [1]}, session="s", created_at=at(-5))
    assert [said(state.memory) for state in await store.history("a", scope=ALICE)] == [said(first)]
    await store.update("a", MemoryChanges(content="second", metadata={}), scope=ALICE, now=at(10))
    await store.create(NewMemory(content="third", key="k"), scope=ALICE, id="b", now=at(20))
    assert await states(store) == [
        ("first", 1, at(10), False),
        ("second", 2, at(20), False),
        ("third", 3, None, False),
    ]
    oldest = (await store.history("a", scope=ALICE))[0].memory
    assert said(oldest) == said(first), "a state is the whole memory as it was"
    current = (await store.history("a", scope=ALICE))[-1]
    assert current == Revision(memory=(await store.get_many(["a"], scope=ALICE, now=at(21)))["a"])


@clause("MB-130")
async def test_history_of_a_deleted_memory_ends_with_its_deletion(store: MemoryBackend) -> None:
    """After a delete the last state says so, with the time; a new life goes on behind it."""
    await live_a_life(store)
    await store.delete("a", scope=ALICE, now=at(30))
    ended = [("first", 1, at(10), False), ("second", 2, at(20), False), ("third", 3, at(30), True)]
    assert await states(store) == ended
    await add(store, "a", "again", time=40)
    assert await states(store) == [*ended, ("again", 5, None, False)]


@clause("MB-130")
async def test_an_unknown_id_has_no_history(store: MemoryBackend) -> None:
    """What was never there has no states."""
    await live_a_life(store)
    assert await store.history("b", scope=ALICE) == ()


@clause("MB-131")
async def test_trimming_drops_old_states_only(store: MemoryBackend) -> None:
    """States replaced before `before` go, current ones never; at most `limit` rows a call."""
    await live_a_life(store)
    await add(store, "still", "current for ages")

    async def trim(before: float, *, limit: int) -> int:
        return await store.trim_history(scope=ALICE, before=at(before), tombstones_before=at(0), limit=limit)

    assert await trim(10, limit=9) == 0
    assert await trim(10.001, limit=9) == 1
    assert [content for content, *_ in await states(store)] == ["second", "third"]
    assert await trim(900, limit=0) == 0
    assert await trim(900, limit=9) == 1
    assert await states(store) == [("third", 3, None, False)]
    assert await states(store, "still") == [("current for ages", 1, None, False)]
    assert (await store.get("a", scope=ALICE, now=at(21))) is not None


@clause("MB-131")
async def test_trimming_drops_old_tombstones_only(store: MemoryBackend) -> None:
    """A tombstone outlives its states until `tombstones_before`; then a create starts counting again."""
    for id, time in (("old", 10), ("new", 20)):
        await add(store, id, key=id)
        await store.delete(id, scope=ALICE, now=at(time))
    assert await store.trim_history(scope=ALICE, before=at(30), tombstones_before=at(0), limit=9) == 2
    assert await states(store, "old") == []
    assert await store.trim_history(scope=EVERYONE, before=at(0), tombstones_before=at(20), limit=9) == 1
    written = [(await add(store, id, time=40)).revision for id in ("old", "new")]
    assert written == [1, 3]


@clause("MB-132")
async def test_history_has_walls(store: MemoryBackend) -> None:
    """Another owner's memory has no history, living or deleted, also beside one's own of the same id."""
    await live_a_life(store)
    assert await store.history("a", scope=BOB) == ()
    await add(store, "a", "of bob", scope=BOB)
    assert [state.memory.content for state in await store.history("a", scope=BOB)] == ["of bob"]
    await store.delete("a", scope=ALICE, now=at(30))
    assert [state.memory.content for state in await store.history("a", scope=BOB)] == ["of bob"]
    assert len(await store.history("a", scope=ALICE)) == 3
