"""search and neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, BOB, EVERYONE, NEAR_OWNERS, at
from memspine.conformance.vectors.tools import drawn, filled, find, found, near, record, unit
from memspine.contracts import VectorStore
from memspine.errors import ScopeError
from memspine.model import GLOBAL_OWNER, MemoryFilter, MemoryType, Scope


@clause("VS-20")
async def test_the_nearest_come_first(store: VectorStore) -> None:
    """Scores are cosines, from the same direction to the opposite one; the limit cuts the farthest."""
    angles = {"d": 0, "b": 25, "e": 60, "a": 90, "c": 180}
    await filled(store, *(record(id, near(angle)) for id, angle in sorted(angles.items())))
    hits = await find(store)
    assert [hit.id for hit in hits] == [*angles]
    for hit in hits:
        assert hit.score == pytest.approx(math.cos(math.radians(angles[hit.id])), abs=0.001)
    for limit in (0, 1, 3, 5):
        assert await found(store, limit=limit) == [*angles][:limit]


@clause("VS-20")
async def test_an_empty_space_finds_nothing(store: VectorStore) -> None:
    """Nothing in it, nothing found."""
    await filled(store)
    assert await find(store) == ()


@clause("VS-20")
async def test_ties_are_broken_by_id(store: VectorStore) -> None:
    """Equal vectors come in the order of their ids, and the limit cuts the last."""
    vector = drawn(1)
    await filled(store, *(record(id, vector) for id in ("m", "z", "a", "q", "b")))
    assert await found(store, drawn(2), limit=3) == ["a", "b", "m"]


@clause("VS-21")
async def test_a_memory_comes_once_by_its_best_chunk(store: VectorStore) -> None:
    """The limit counts memories; the hit names chunk, revision, owner, session and creation."""
    await filled(
        store,
        *(record("long", near(angle), chunk=n, revision=4, session="s", created_at=at(7))
          for n, angle in enumerate((40, 5, 10, 6, 8))),
        *(record("short", near(20), chunk=n) for n in range(3)),
        record("far", near(70)),
    )  # fmt: skip
    best, *others = await find(store, limit=3)
    assert (best.id, best.chunk, best.revision, best.owner, best.session, best.created_at) == (
        "long", 1, 4, "alice", "s", at(7),
    )  # fmt: skip
    assert best.score == pytest.approx(math.cos(math.radians(5)), abs=0.001)
    assert [hit.id for hit in others] == ["short", "far"]


@clause("VS-22")
async def test_walls_hold_inside_the_search(store: VectorStore) -> None:
    """A thousand nearer vectors of others do not hide the one of the scope."""
    crowd = [record(f"m{n}", near(n / 500), owner=f"o{n % 7}", session="s") for n in range(1000)]
    await filled(store, *crowd, record("m1", near(80), session="s"), record("out", near(1)))
    await store.upsert("space", records=[record(f"in{n}", near(2)) for n in range(100)])
    assert [(hit.id, hit.owner) for hit in await find(store, scope=Scope.of_session("alice", "s"), limit=5)] == [
        ("m1", "alice")
    ]
    assert len(await find(store, limit=200)) == 102
    assert await found(store, scope=Scope.of_owner("nobody")) == []


@clause("VS-22")
async def test_owners_and_sessions_are_compared_exactly(store: VectorStore) -> None:
    """Prefixes, cases, blanks and wildcards make others."""
    names = ("a", *NEAR_OWNERS)
    await filled(store, *(record("m", drawn(n), owner=name, session=name) for n, name in enumerate(names)))
    for name in names:
        for scope in (Scope.of_owner(name), Scope.of_session(name, name)):
            assert [hit.owner for hit in await find(store, scope=scope)] == [name]
    assert await found(store, scope=Scope.of_session("a", "")) == []


@clause("VS-22")
async def test_shared_sees_ones_own_and_the_global(store: VectorStore) -> None:
    """Both of them, also with the same id; everyone is for nobody's search."""
    await filled(
        store, record("both", near(10)), record("both", near(20), owner=GLOBAL_OWNER), record("x", owner="bob")
    )
    hits = await find(store, scope=Scope.shared("alice"))
    assert [(hit.id, hit.owner) for hit in hits] == [("both", "alice"), ("both", GLOBAL_OWNER)]
    with pytest.raises(ScopeError):
        await find(store, scope=EVERYONE)
    with pytest.raises(ScopeError):
        await store.neighbours(["both"], scope=EVERYONE, now=at(0), before=1, after=1)
    with pytest.raises(ScopeError):
        await store.delete(["both"], scope=EVERYONE)


@clause("VS-23")
async def test_filter_and_expiry_hold_inside_the_search(store: VectorStore) -> None:
    """Type and creation hold however many nearer ones do not fit; what has expired is not found."""
    crowd = [record(f"n{n:03}", near(1 + n / 500)) for n in range(300)]
    gone = [record(f"x{n}", near(n / 500), expires_at=at(50), created_at=at(15)) for n in range(300)]
    episodic, procedural = MemoryType.EPISODIC, MemoryType.PROCEDURAL
    await filled(
        store,
        *crowd,
        *gone,
        record("a", near(60), type="episodic", created_at=at(10)),
        record("b", near(70), type="procedural", created_at=at(20)),
        record("c", near(80), type="semantic", created_at=at(30), expires_at=at(100.001)),
    )
    cases: dict[tuple[MemoryType, ...], list[str]] = {
        (): ["n000", "n001", "n002"],
        (MemoryType.FACTUAL,): ["n000", "n001", "n002"],
        (episodic,): ["a"],
        (procedural, episodic): ["a", "b"],
    }
    for types, expected in cases.items():
        assert await found(store, filter=MemoryFilter(types=types), limit=3) == expected
    assert await found(store, filter=MemoryFilter(created_from=at(20)), limit=3) == ["b", "c"]
    assert await found(store, filter=MemoryFilter(created_from=at(1), created_before=at(20)), limit=3) == ["a"]
    late = MemoryFilter(created_from=at(1))
    assert await found(store, filter=late, seconds=100.001, limit=3) == ["a", "b"]
    assert len(await find(store, filter=late, seconds=49.999, limit=400)) == 303


@clause("VS-23")
async def test_other_fields_of_a_filter_are_passed_over(store: VectorStore) -> None:
    """What the index does not hold is checked by whoever reads the memory."""
    await filled(store, record("a"))
    filter = MemoryFilter(key="k", category="c", text="t", updated_before=at(-5))
    assert await found(store, filter=filter) == ["a"]


@clause("VS-24")
async def test_others_change_nothing(store: VectorStore) -> None:
    """Scores and order of an owner's answers stay when others add vectors."""
    await filled(store, *(record(f"m{n}", drawn(n)) for n in range(30)))
    before = [await find(store, drawn(seed), limit=10) for seed in range(100, 105)]
    for start in range(0, 2000, 500):
        names = ("bob", "alic", "Alice")
        strangers = [record(f"m{n}", drawn(n * 3), owner=names[n % 3]) for n in range(start, start + 500)]
        await store.upsert("space", records=strangers)
    assert [await find(store, drawn(seed), limit=10) for seed in range(100, 105)] == before


@clause("VS-34")
async def test_neighbours_stand_around_a_memory_in_its_session(store: VectorStore) -> None:
    """In (created_at, id) order with their offsets, for each id in the order asked; unknown ids have none."""
    times = {"d": 1, "a": 2, "c": 2, "b": 3, "e": 9}
    await filled(
        store,
        *(record(id, drawn(n), session="s", created_at=at(time)) for n, (id, time) in enumerate(sorted(times.items()))),
        *(record("c", drawn(n), chunk=n, session="s", created_at=at(2)) for n in (1, 2)),
        record("other", session="t", created_at=at(2)),
        record("x", owner="bob", session="s", created_at=at(2)),
        record("gone", session="s", created_at=at(2.5), expires_at=at(50)),
    )

    async def around(*ids: str, before: int, after: int, scope: Scope = ALICE) -> list[Around]:
        neighbours = await store.neighbours(ids, scope=scope, now=at(50), before=before, after=after)
        return [Around(n.of, n.offset, n.id) for n in neighbours]

    assert await around("c", before=1, after=1) == [Around("c", -1, "a"), Around("c", 1, "b")]
    assert await around("b", "unknown", "d", before=2, after=1) == [
        Around("b", -2, "a"),
        Around("b", -1, "c"),
        Around("b", 1, "e"),
        Around("d", 1, "a"),
    ]
    assert await around("d", before=5, after=0) == []
    assert await around("other", before=5, after=5) == []
    assert await around("gone", before=5, after=5) == []
    assert await around("x", before=5, after=5) == []
    assert await around("c", before=9, after=9, scope=Scope.of_session("alice", "t")) == []
    assert await around(before=1, after=1) == []
    assert await around("x", before=5, after=5, scope=BOB) == []
    assert await found(store, unit(1), scope=BOB) == ["x"]


@dataclass(frozen=True)
class Around:
    """A neighbour, easy to read in a report."""

    of: str
    offset: int
    id: str
