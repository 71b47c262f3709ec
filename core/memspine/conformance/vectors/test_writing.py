"""upsert, delete, missing, count, claim."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.reference.embeddings import packed
from memspine.conformance.samples import ALICE, BOB, EVERYONE, at
from memspine.conformance.vectors.tools import DIMENSION, filled, find, found, near, record, space, unit
from memspine.contracts import VectorStore
from memspine.errors import InvalidMemoryError
from memspine.model import GLOBAL_OWNER, Scope


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
@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_vector_is_refused(store: VectorStore, name: str) -> None:
    """Wherever in a call it stands, nothing of the call is stored; a question with it is refused too."""
    vector = UNUSABLE[name]
    await filled(store, record("old", near(10)))
    for records in ([record("bad", vector), record("good")], [record("good"), record("old", vector, revision=2)]):
        with pytest.raises(InvalidMemoryError):
            await store.upsert("space", records=records)
    with pytest.raises(InvalidMemoryError):
        await find(store, vector or b"-")
    assert [(hit.id, hit.revision) for hit in await find(store)] == [("old", 1)]


@clause("VS-12")
async def test_a_deleted_memory_is_gone_from_every_space(store: VectorStore) -> None:
    """All chunks, in all spaces, of this owner's memories alone; unknown ids are passed over."""
    mine = [record("m", chunk=0), record("m", chunk=1), record("stays")]
    both = [*mine, record("m", owner="bob"), record("of-bob", owner="bob")]
    await filled(store, *both, id="a")
    await filled(store, *both, id="b")
    await store.delete(["m", "unknown", "of-bob"], scope=ALICE)
    for id in ("a", "b"):
        assert await found(store, id=id) == ["stays"]
        assert await found(store, id=id, scope=BOB) == ["m", "of-bob"]
        assert await store.missing(id, revisions={"m": 1, "stays": 1}, scope=ALICE) == ("m",)
    await store.delete([], scope=ALICE)


@clause("VS-13")
async def test_spaces_do_not_see_each_other(store: VectorStore) -> None:
    """Vectors, revisions and counts are those of the one space."""
    await filled(store, record("m", near(10), revision=5), id="a")
    await filled(store, record("m", near(60), revision=2), record("n", near(70)), id="b")
    assert [(hit.id, hit.revision) for hit in await find(store, id="a")] == [("m", 5)]
    assert [(hit.id, hit.revision) for hit in await find(store, id="b")] == [("m", 2), ("n", 1)]
    assert await store.missing("b", revisions={"m": 3}, scope=ALICE) == ("m",)
    assert [await store.count(id, scope=ALICE, now=at(0)) for id in ("a", "b")] == [1, 2]


@clause("VS-30")
async def test_missing_is_what_is_not_there_or_too_old(store: VectorStore) -> None:
    """In the order asked, for the scope's owner."""
    await filled(
        store,
        record("held", revision=3),
        record("newer", revision=9),
        record("old", revision=2),
        record("x", owner="bob"),
    )
    revisions = {"z": 1, "x": 1, "old": 3, "newer": 4, "held": 3, "a": 1}
    assert await store.missing("space", revisions=revisions, scope=ALICE) == ("z", "x", "old", "a")
    assert await store.missing("space", revisions={}, scope=ALICE) == ()
    many = {f"n{n}": 1 for n in range(40_000)} | {"held": 3}
    assert len(await store.missing("space", revisions=many, scope=ALICE)) == 40_000


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


@clause("VS-32")
async def test_a_lease_is_one_holders_until_it_ends(store: VectorStore) -> None:
    """Others get what is free, the holder renews, and the end of the lease frees it."""
    for id in ("a", "b"):
        await store.open_space(space(id))

    async def claim(holder: str, seconds: float, *ids: str, lease: float = 60, id: str = "a") -> tuple[str, ...]:
        return await store.claim(id, ids=ids, holder=holder, now=at(seconds), lease_seconds=lease)

    assert await claim("one", 0, "y", "x") == ("y", "x")
    assert await claim("two", 59.999, "z", "x", "y", lease=1) == ("z",)
    assert await claim("two", 59.999, "x", id="b") == ("x",), "each space has its own leases"
    assert await claim("one", 50, "x") == ("x",), "its own are leased anew"
    assert await claim("two", 60, "x", "y") == ("y",)
    assert await claim("one", 110, "y", "x") == ("x",)
    assert await claim("three", 1000, "x", "y", "z") == ("x", "y", "z")
    assert await claim("three", 1000) == ()


@clause("VS-33")
async def test_simultaneous_claims_share_nothing(store: VectorStore) -> None:
    """Each id goes to one of many holders."""
    await store.open_space(space())
    ids = [f"m{n}" for n in range(50)]
    claims = (
        store.claim("space", ids=ids[n % 5 :] + ids[: n % 5], holder=f"h{n}", now=at(0), lease_seconds=60)
        for n in range(10)
    )
    given = [id for claim in await asyncio.gather(*claims) for id in claim]
    assert sorted(given) == sorted(ids)
