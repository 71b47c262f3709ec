"""search."""

from __future__ import annotations

import math

import attrs
import pytest

from memspine.conformance.clauses import clause
from memspine.conformance.samples import ALICE, BOB, EVERYONE, NEAR_OWNERS, at
from memspine.conformance.vectors.tools import drawn, filled, find, found, matches, mine, near, record
from memspine.contracts import VectorStore
from memspine.errors import ScopeError
from memspine.model import GLOBAL_OWNER, MemoryFilter, MemoryRef, MemoryType, Scope


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
    """The limit counts memories; the hit names chunk, revision and owner."""
    await filled(
        store,
        *(record("long", near(angle), chunk=n, revision=4, session="s", created_at=at(7))
          for n, angle in enumerate((40, 5, 10, 6, 8))),
        *(record("short", near(20), chunk=n) for n in range(3)),
        record("far", near(70)),
    )  # fmt: skip
    best, *others = await find(store, limit=3)
    assert (best.id, best.chunk, best.revision, best.owner) == ("long", 1, 4, "alice")
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
    """Scores, order and numbers of an owner's answers stay when others add vectors."""
    await filled(store, *(record(f"m{n}", drawn(n)) for n in range(30)))
    asked = mine("m7", "m29", "m3000")
    before = [await matches(store, drawn(seed), limit=10, also=asked) for seed in range(100, 105)]
    for start in range(0, 2000, 500):
        names = ("bob", "alic", "Alice")
        strangers = [record(f"m{n}", drawn(n * 3), owner=names[n % 3]) for n in range(start, start + 500)]
        await store.upsert("space", records=strangers)
    assert [await matches(store, drawn(seed), limit=10, also=asked) for seed in range(100, 105)] == before


@clause("VS-25")
async def test_those_asked_for_are_told(store: VectorStore) -> None:
    """In the order asked, once, by their best chunk, and only those that are not among the best."""
    angles = {"a": 10, "b": 20, "c": 30, "d": 40, "e": 50}
    await filled(store, *(record(id, near(angle)) for id, angle in angles.items()))
    await store.upsert(
        "space",
        records=[
            record("f", near(a), chunk=n, revision=3, session="s", created_at=at(7)) for n, a in ((0, 80), (1, 60))
        ],
    )
    plain = await matches(store, limit=2)
    asked = mine("f", "b", "unknown", "d", "f", "c", "a")
    answer = await matches(store, limit=2, also=asked)
    assert [hit.id for hit in answer.others] == ["f", "d", "c"]
    told = answer.others[0]
    assert (told.chunk, told.revision, told.owner) == (1, 3, "alice")
    assert [hit.score for hit in answer.others] == [
        pytest.approx(math.cos(math.radians(angle)), abs=0.001) for angle in (60, 40, 30)
    ]
    assert attrs.evolve(answer, others=()) == plain
    assert plain.others == ()
    assert [hit.id for hit in (await matches(store, limit=0, also=asked)).others] == ["f", "b", "d", "c", "a"]
    assert (await matches(store, limit=6, also=asked)).others == ()


@clause("VS-25")
async def test_any_number_may_be_asked_for(store: VectorStore) -> None:
    """Forty thousand, most of them unknown."""
    await filled(store, record("n7", near(10)), record("n39999", near(20)))
    answer = await matches(store, limit=1, also=mine(*(f"n{number}" for number in range(40_000))))
    assert [hit.id for hit in answer.others] == ["n39999"]


@clause("VS-25")
async def test_scope_and_expiry_hold_for_those_asked_for(store: VectorStore) -> None:
    """The filter does not: what it leaves out is told when it was asked for."""
    await filled(
        store,
        record("typed", near(10), type="episodic", created_at=at(50)),
        record("in", near(20), session="s"),
        record("gone", near(30), expires_at=at(100)),
        record("common", near(40), owner=GLOBAL_OWNER),
        record("foreign", near(50), owner="bob"),
    )
    names = {"typed": "alice", "in": "alice", "gone": "alice", "common": GLOBAL_OWNER, "foreign": "bob"}
    asked = [MemoryRef(owner, id) for id, owner in names.items()]
    nothing = MemoryFilter(types=(MemoryType.SEMANTIC,), created_from=at(60), created_before=at(70))
    cases = {
        ALICE: ["typed", "in"],
        Scope.of_session("alice", "s"): ["in"],
        Scope.shared("alice"): ["typed", "in", "common"],
        BOB: ["foreign"],
        Scope.of_owner("nobody"): [],
    }
    for scope, expected in cases.items():
        answer = await matches(store, scope=scope, filter=nothing, also=asked)
        assert (answer.hits, [hit.id for hit in answer.others]) == ((), expected)
        assert answer.compared == 0
    living = await matches(store, filter=nothing, also=asked, seconds=99.999)
    assert [hit.id for hit in living.others] == ["typed", "in", "gone"]


@clause("VS-26")
async def test_all_that_fits_is_counted(store: VectorStore) -> None:
    """Whatever the limit and whatever was asked for: what scope and filter let through, each memory once."""
    angles = {f"m{n}": 4.0 * n for n in range(40)}
    await filled(
        store,
        *(record(id, near(angle), type="episodic" if angle > 80 else "factual") for id, angle in angles.items()),
        *(record(id, near(angle + 90), chunk=1) for id, angle in angles.items() if angle <= 80),
        record("in", near(170), session="s"),
        record("gone", near(170), expires_at=at(100)),
        record("foreign", near(170), owner="bob"),
    )
    cases: dict[tuple[MemoryType, ...], int] = {
        (): 41,
        (MemoryType.EPISODIC,): 19,
        (MemoryType.SEMANTIC,): 0,
    }
    for types, compared in cases.items():
        for limit in (0, 1, 7, 100):
            answer = await matches(store, filter=MemoryFilter(types=types), limit=limit, also=mine("m1", "m30"))
            assert answer.compared == compared
    session = await matches(store, scope=Scope.of_session("alice", "s"), limit=0)
    assert session.compared == 1
