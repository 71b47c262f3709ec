"""get and get_many."""

from __future__ import annotations

from memspine.conformance.backend.tools import add
from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, BOB, at
from memspine.contracts import MemoryBackend


@clause("MB-20")
async def test_what_is_not_there_is_not_there_for_one_reason(store: MemoryBackend) -> None:
    """Unknown, expired, deleted and foreign memories are absent alike."""
    await add(store, "here")
    await add(store, "expired", expires_at=at(10))
    await add(store, "deleted")
    await store.delete("deleted", scope=ALICE, now=at(1))
    await add(store, "foreign", scope=BOB)
    ids = ["unknown", "expired", "deleted", "foreign", "here"]
    for id in ids[:-1]:
        assert await store.get(id, scope=ALICE, now=at(10)) is None, id
    assert list(await store.get_many(ids, scope=ALICE, now=at(10))) == ["here"]
    assert await store.get("expired", scope=ALICE, now=at(9.999)) is not None


@clause("MB-21")
async def test_get_many_keeps_the_order_of_the_question(store: MemoryBackend) -> None:
    """The answer is in the order of first mention, each memory once."""
    for id in ("a", "b", "c"):
        await add(store, id)
    found = await store.get_many(["c", "x", "a", "c", "b", "a"], scope=ALICE, now=at(1))
    assert list(found) == ["c", "a", "b"]
    assert [memory.id for memory in found.values()] == ["c", "a", "b"]
    assert await store.get_many([], scope=ALICE, now=at(1)) == {}


@clause("MB-21")
async def test_get_many_takes_any_number(store: MemoryBackend) -> None:
    """Forty thousand ids are one question."""
    for id in ("n39999", "n0", "n20000"):
        await add(store, id)
    ids = [f"n{n}" for n in range(40_000)]
    assert list(await store.get_many(ids, scope=ALICE, now=at(1))) == ["n0", "n20000", "n39999"]
