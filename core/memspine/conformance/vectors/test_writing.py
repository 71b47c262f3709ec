"""upsert, delete, count."""

from __future__ import annotations

from typing import Final

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.reference.embeddings import packed
from memspine.conformance.samples import ALICE, BOB, EVERYONE, at
from memspine.conformance.vectors.tools import (
    DIMENSION,
    QUANTISATIONS,
    Claimed,
    claim,
    claimed,
    filled,
    find,
    found,
    mine,
    near,
    queue,
    record,
    unit,
)
from memspine.contracts import Backlog, Quantisation, VectorStore
from memspine.errors import InvalidMemoryError
from memspine.model import GLOBAL_OWNER, MemoryRef, Scope


@clause("VS-10")
async def test_a_newer_revision_replaces_all_chunks(store: VectorStore) -> None:
    """Fewer chunks than before leave none of the old ones behind."""
    await filled(store, *(record("m", near(10 * n), chunk=n) for n in range(4)), record("other", near(50)))
    await store.upsert("space", records=[record("m", near(60), chunk=0, revision=2)])
    hits = await find(store)
    assert [(hit.id, hit.chunk, hit.revision) for hit in hits] == [("other", 0, 1), ("m", 0, 2)]


@clause("VS-10")
async def test_an_older_revision_is_passed_over(store: VectorStore) -> None:
    """What arrives late changes nothing, also for chunks that the newer revision does not have."""
    await filled(store, record("m", near(60), revision=3))
    await store.upsert("space", records=[record("m", near(0), revision=2), record("m", near(0), chunk=5, revision=1)])
    assert [(hit.chunk, hit.revision) for hit in await find(store)] == [(0, 3)]
    assert (await find(store))[0].score == pytest.approx(0.5, abs=0.001)


@clause("VS-10")
async def test_chunks_of_one_revision_add_up(store: VectorStore) -> None:
    """In one call or in several; the same chunk again is replaced."""
    await filled(store, record("m", near(40), chunk=0), record("m", near(30), chunk=1))
    await store.upsert("space", records=[record("m", near(20), chunk=2)])
    assert [(hit.chunk) for hit in await find(store)] == [2]
    await store.upsert("space", records=[record("m", near(80), chunk=2)])
    assert [(hit.chunk) for hit in await find(store)] == [1]
    await store.upsert("space", records=[])


NAN, INFINITY = float("nan"), float("inf")
UNUSABLE: Final = {
    "too short": packed([1.0] * (DIMENSION - 1)),
    "too long": packed([1.0] * (DIMENSION + 1)),
    "no whole number": unit(1)[:-1],
    "empty": b"",
    "not a number": packed([NAN, *[0.5] * (DIMENSION - 1)]),
    "infinite": packed([0.5] * (DIMENSION - 1) + [INFINITY]),
    "zero": packed([0.0] * DIMENSION),
}


@clause("VS-11")
@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_vector_is_refused(store: VectorStore, name: str, quantisation: Quantisation) -> None:
    """Wherever in a call it stands, nothing of the call is stored; a question with it is refused too."""
    vector = UNUSABLE[name]
    await filled(store, record("old", near(10)), quantisation=quantisation)
    for records in ([record("bad", vector), record("good")], [record("good"), record("old", vector, revision=2)]):
        with pytest.raises(InvalidMemoryError):
            await store.upsert("space", records=records)
    with pytest.raises(InvalidMemoryError):
        await find(store, vector or b"-")
    assert [(hit.id, hit.revision) for hit in await find(store)] == [("old", 1)]


@clause("VS-12")
async def test_a_deleted_memory_is_gone_from_every_space_and_queue(store: VectorStore) -> None:
    """All chunks, in all spaces and queues, of exactly these memories; unknown ones are passed over."""
    some = [record("m", chunk=0), record("m", chunk=1), record("stays"), record("of-bob", owner="bob")]
    for id in ("a", "b"):
        await filled(store, *some, id=id)
        await queue(store, "m", "stays", "new", "queued", revision=2, id=id)
    await claim(store, id="b")
    await store.delete([*mine("m", "queued", "unknown"), MemoryRef("bob", "stays")])
    for id in ("a", "b"):
        assert await found(store, id=id) == ["stays"]
        assert await found(store, id=id, scope=BOB) == ["of-bob"]
        assert await claimed(store, seconds=100, id=id) == ["stays", "new"]
    assert await queue(store, "m", "queued", id="a") == 2, "what was deleted is not held any more"
    await store.delete([])


@clause("VS-12")
async def test_any_number_is_deleted(store: VectorStore) -> None:
    """Forty thousand in one call, most of them unknown."""
    await filled(store, record("n7"), record("stays"), record("n39999"))
    await store.delete(mine(*(f"n{number}" for number in range(40_000))))
    assert await found(store) == ["stays"]


@clause("VS-13")
async def test_spaces_do_not_see_each_other(store: VectorStore) -> None:
    """Vectors, revisions, counts, queues, leases and positions are those of the one space."""
    await filled(store, record("m", near(10), revision=5), id="a")
    await filled(store, record("m", near(60), revision=2), record("n", near(70)), id="b")
    assert [(hit.id, hit.revision) for hit in await find(store, id="a")] == [("m", 5)]
    assert [(hit.id, hit.revision) for hit in await find(store, id="b")] == [("m", 2), ("n", 1)]
    assert [await store.count(id, scope=ALICE, now=at(0)) for id in ("a", "b")] == [1, 2]
    assert [await queue(store, "m", "x", revision=3, position=id, id=id) for id in ("a", "b")] == [1, 2]
    assert await claimed(store, id="a") == ["x"]
    assert await claimed(store, limit=1, id="b") == ["m"], "a lease in one space is none in another"
    assert await claimed(store, limit=1, id="b") == ["x"]
    await store.release("a", refs=mine("x"), holder="one")
    await store.upsert("a", records=[record("m", revision=6), record("x", revision=3)])
    assert await claimed(store, "two", id="b") == [], "leases of the other space hold"
    await store.release("b", refs=mine("x"), holder="one")
    await store.postpone("b", refs=mine("m"), holder="one", until=at(9), reason="slow")
    assert await store.backlog("a", now=at(0)) == Backlog(position="a")
    assert await store.backlog("b", now=at(0)) == Backlog(
        position="b", waiting=2, postponed=1, next_at=at(9), reason="slow"
    )


@clause("VS-15")
async def test_what_is_stored_is_queued_no_more(store: VectorStore) -> None:
    """Leased, postponed or free; at the revision that was queued, or a newer one."""
    await filled(store)
    await queue(store, "leased", "postponed")
    assert await claimed(store, limit=2) == ["leased", "postponed"]
    await store.postpone("space", refs=mine("postponed"), holder="one", until=at(90), reason="slow")
    await queue(store, "free", "newer", "stays")
    await store.upsert("space", records=[record("leased"), record("postponed"), record("free", chunk=1)])
    await store.upsert("space", records=[record("newer", revision=7)])
    assert await claimed(store, seconds=100) == ["stays"]
    assert (await store.backlog("space", now=at(0))).waiting == 1


@clause("VS-15")
async def test_what_is_queued_at_a_newer_revision_stays(store: VectorStore) -> None:
    """An older vector does not settle it, and ends its lease."""
    await filled(store)
    await queue(store, "m", "n", revision=2)
    assert await claimed(store, limit=1) == ["m"]
    await store.upsert("space", records=[record("m"), record("n")])
    assert await claim(store, "two") == [Claimed("m", 2), Claimed("n", 2)]


@clause("VS-15", "VS-11")
async def test_a_refused_upsert_settles_nothing(store: VectorStore) -> None:
    """What could not be stored is still to be done."""
    await filled(store)
    await queue(store, "m", "n")
    with pytest.raises(InvalidMemoryError):
        await store.upsert("space", records=[record("m"), record("n", UNUSABLE["zero"])])
    assert await claimed(store) == ["m", "n"]


@clause("VS-31")
async def test_count_counts_living_memories(store: VectorStore) -> None:
    """Not chunks, not what has expired, not what is outside the scope."""
    await filled(
        store,
        *(record("chunks", chunk=n) for n in range(5)),
        record("session", session="s"),
        record("expired", expires_at=at(10)),
        record("of-bob", owner="bob"),
        record("common", owner=GLOBAL_OWNER),
    )
    scopes = (ALICE, Scope.of_session("alice", "s"), Scope.shared("alice"), BOB, EVERYONE, Scope.of_owner("al"))
    assert [await store.count("space", scope=scope, now=at(10)) for scope in scopes] == [2, 1, 3, 1, 4, 0]
    assert await store.count("space", scope=ALICE, now=at(9)) == 3
