import asyncio
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memspine.errors import InvalidMemoryError
from memspine.model import MemoryFilter, MemoryRef, MemoryType, Scope
from memspine_sqlite import engines
from memspine_sqlite.connections import Settings

from .tools import ALICE, START, at, child, run
from .vectors import ENGINES, QUANTISATIONS, drawn, found, opened_vectors, packed, record, refs, same, space

FAST = Settings(synchronous="OFF")
OWNERS = ("alice", "bob", "global")
SESSIONS = ("", "s", "t")
TYPES = ("factual", "episodic")


@st.composite
def stores(draw):
    """A few memories of a few owners, with more than one chunk and equal vectors among them, and what is done later."""
    numbers = st.integers(0, 12)
    memories = draw(
        st.lists(
            st.tuples(
                st.sampled_from(OWNERS), numbers, st.sampled_from(SESSIONS), st.sampled_from(TYPES),
                st.integers(0, 3), st.one_of(st.none(), st.integers(1, 4)), st.lists(numbers, min_size=1, max_size=3),
            ),
            min_size=1, max_size=25, unique_by=lambda one: one[:2],
        )
    )  # fmt: skip
    return memories, draw(st.lists(st.sampled_from(range(len(memories))), max_size=8, unique=True))


questions = st.tuples(
    st.integers(0, 12),
    st.sampled_from(
        [ALICE, Scope.of_owner("bob"), Scope.shared("alice"), Scope.shared("bob"), Scope.of_session("alice", "s")]
    ),
    st.sampled_from(
        [
            MemoryFilter(),
            MemoryFilter(types=(MemoryType.FACTUAL,)),
            MemoryFilter(types=(MemoryType.SEMANTIC,)),
            MemoryFilter(created_from=at(1), created_before=at(3)),
        ]
    ),
    st.integers(0, 5),
    st.integers(0, 8),
)


def records_of(memory, *, revision=1):
    owner, number, session, type, created, expires, vectors = memory
    ends = None if expires is None else at(expires)
    return [
        record(
            f"m{number}", drawn(vector), owner=owner, chunk=chunk, session=session, type=type, revision=revision,
            created_at=at(created), expires_at=ends,
        )
        for chunk, vector in enumerate(vectors)
    ]  # fmt: skip


async def answers(store, asked):
    """What each engine says to the same question, asked twice."""
    seed, scope, filter, now, limit = asked
    also = [MemoryRef(owner, f"m{n}") for owner in OWNERS for n in range(13)]
    for engine in ENGINES:
        store.engines = store.by_name[engine]
        for _ in range(2):
            yield await found(store, drawn(seed), scope=scope, filter=filter, now=at(now), limit=limit, also=also)


def expected_of(memories, asked):
    """Ids, owners and chunks of the hits as a loop over everything finds them."""
    seed, scope, filter, now, limit = asked
    best = []
    for owner, number, session, type, created, expires, vectors in memories:
        if owner not in scope.owners or scope.session not in {None, session} or (expires or 9) <= now:
            continue
        if (filter.types and type not in filter.types) or (
            filter.created_from is not None and not filter.created_from <= at(created) < filter.created_before
        ):
            continue
        scores = [float(np.dot(np.frombuffer(drawn(v), "f4"), np.frombuffer(drawn(seed), "f4"))) for v in vectors]
        best.append((-round(max(scores), 6), f"m{number}", owner != scope.owner, owner))
    return [(id, owner) for _, id, _, owner in sorted(best)][:limit], len(best)


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_all_engines_give_the_same_answer(tmp_path_factory, quantisation):
    """Order, scores and numbers agree between numpy, sqlite-vec, Python and a plain loop, also after changes."""

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(stores(), st.lists(questions, min_size=1, max_size=4))
    def check(made, asked):
        memories, changed = made

        async def go():
            folder = tmp_path_factory.mktemp("engines")
            async with opened_vectors(folder / "store.db", FAST) as store:
                store.by_name = {name: engines.Engines(name) for name in ENGINES}
                await store.open_space(space(quantisation=quantisation))
                half = len(memories) // 2
                held = dict(enumerate(memories[:half]))
                await store.upsert("space", records=[r for memory in memories[:half] for r in records_of(memory)])
                await agree(store, list(held.values()), asked)
                await store.upsert("space", records=[r for memory in memories[half:] for r in records_of(memory)])
                held = dict(enumerate(memories))
                for place in changed:
                    owner, number, *_ = memories[place]
                    if place % 2:
                        await store.delete(refs(f"m{number}", owner=owner))
                        del held[place]
                    else:
                        held[place] = (*memories[place][:6], [place % 13])
                        await store.upsert("space", records=records_of(held[place], revision=2))
                await agree(store, list(held.values()), asked)
                assert (await store.health(deep=True)).ok

        async def agree(store, held, asked):
            for question in asked:
                first, *others = [answer async for answer in answers(store, question)]
                for other in others:
                    same(first, other)
                wanted, compared = expected_of(held, question)
                assert first.compared == compared
                if quantisation != "int8":
                    assert [(hit.id, hit.owner) for hit in first.hits] == wanted

        run(go())

    check()


@pytest.mark.parametrize("dimension", [40, 1024, 1536, 3072])
@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_engines_agree_on_many(tmp_path, quantisation, dimension):
    """With many vectors, where only the best are compared anew, whole or in pieces, all engines give one answer."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space(dimension=dimension, quantisation=quantisation))
            count = 3000 if dimension < 100 else 600
            vectors = [drawn(n, dimension) for n in range(count * 5 // 6)]
            records = [
                record(f"m{n // 2}" if n % 10 < 2 else f"n{n}", vectors[n % len(vectors)], chunk=n % 2)
                for n in range(count)
            ]
            await store.upsert("space", records=records)
            await store.upsert("space", records=[record("m0", vectors[7], chunk=3)])
            for seed in range(3):
                said = []
                for engine in ENGINES:
                    store.engines = engines.Engines(engine)
                    asked = drawn(9000 + seed, dimension)
                    said += [await found(store, asked, limit=30, also=refs("n7", f"n{count - 1}", "m0"))]
                same(said[0], said[1])
                same(said[0], said[2])
                assert len(said[0].hits) == 30
                assert said[0].compared == len({one.id for one in records})
            assert (await store.health(deep=True)).ok

    run(go())


@pytest.mark.parametrize("others", [50, 600])
@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_a_long_memory_takes_one_place(tmp_path, quantisation, others):
    """However many near chunks a memory has, all engines give as many hits as were asked for, the same ones."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space(dimension=40, quantisation=quantisation))
            asked = drawn("q", 40)
            near = np.frombuffer(asked, "<f4") + 0.01 * clustered(450, dimension=40, seed=3)
            long = [record("long", row.astype("<f4").tobytes(), chunk=n) for n, row in enumerate(near)]
            short = [record(f"m{n}", drawn(f"{n} {c}", 40), chunk=c) for n in range(others) for c in range(3)]
            await store.upsert("space", records=[*short, *long])
            said = []
            for engine in ENGINES:
                store.engines = engines.Engines(engine)
                said.append(await found(store, asked, limit=20))
            same(said[0], said[1])
            same(said[0], said[2])
            assert said[0].hits[0].id == "long"
            assert (len(said[0].hits), said[0].compared) == (20, others + 1)

    run(go())


def clustered(count, *, dimension, seed):
    """Vectors in groups with unequal directions, as embeddings of texts are."""
    random = np.random.default_rng(seed)
    spread = random.uniform(0.3, 1.5, dimension)
    centres = random.standard_normal((40, dimension)) * spread + 0.15
    vectors = centres[random.integers(0, 40, count)] + 0.7 * spread * random.standard_normal((count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")


@pytest.mark.parametrize(("quantisation", "least"), [("int8", 0.95), ("binary", 0.99)])
def test_what_quantising_loses(tmp_path, quantisation, least):
    """Of the ten nearest of 8000 vectors int8 finds at least 95 %, binary with its rescoring at least 99 %."""

    async def go():
        vectors, asked = clustered(8000, dimension=256, seed=1), clustered(40, dimension=256, seed=1)
        asked = asked + 0.02 * clustered(40, dimension=256, seed=2)
        exact = vectors @ asked.T
        shared = 0
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space(dimension=256, quantisation=quantisation))
            await store.upsert("space", records=[record(f"m{n}", row.tobytes()) for n, row in enumerate(vectors)])
            for n, vector in enumerate(asked):
                hits = (await found(store, vector.astype("<f4").tobytes())).hits
                best = {f"m{place}" for place in np.argsort(-exact[:, n])[:10]}
                shared += len(best & {hit.id for hit in hits})
                norm = float(np.linalg.norm(vector))
                errors = [abs(hit.score - exact[int(hit.id[1:]), n] / norm) for hit in hits]
                assert max(errors) < (0.01 if quantisation == "int8" else 1e-6)
        return shared / (10 * len(asked))

    assert run(go()) >= least


@pytest.mark.parametrize(
    ("name", "vector"),
    [
        ("short", packed([1.0] * 7)),
        ("empty", b""),
        ("zero", packed([0.0] * 8)),
        ("NaN", packed([math.nan, *[1.0] * 7])),
        ("infinite", packed([*[1.0] * 7, -math.inf])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_vectors_that_cannot_be_compared(tmp_path, name, vector):
    """Another dimension, what is not finite and norm 0 are refused with their place in the batch, and nothing stays."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space())
            with pytest.raises(InvalidMemoryError, match="item 1: vector"):
                await store.upsert("space", records=[record("a"), record("b", vector)])
            with pytest.raises(InvalidMemoryError, match="vector"):
                await found(store, vector)
            assert await store.count("space", scope=ALICE, now=START) == 0

    run(go())


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1.0, 7.0, 1e30])
def test_the_length_of_a_vector_does_not_matter(tmp_path, quantisation, scale):
    """Vectors of any length, however small or large their numbers, have the cosine of their direction."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space(quantisation=quantisation))
            numbers = [scale * number for number in (3, 4, 0, 0, 0, 0, 0, 0)]
            await store.upsert("space", records=[record("a", packed(numbers))])
            for engine in ENGINES:
                store.engines = engines.Engines(engine)
                (hit,) = (await found(store, packed([number * scale for number in [1, *[0] * 7]]))).hits
                assert hit.score == pytest.approx(0.6, abs=0.003)

    run(go())


def test_a_first_question_is_scanned(tmp_path):
    """A shelf is scanned when it is asked about for the first time, and kept in memory from the second on."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record(f"m{n}") for n in range(50)])
            kept = []
            for _ in range(3):
                await found(store, drawn(1))
                kept.append((await store.health()).facts["matrices in memory"])
            assert kept[0] == "0"
            assert kept[1] == kept[2] != "0"

    run(go())


def test_matrices_stay_within_their_memory(tmp_path):
    """However many owners are asked about, the matrices take no more than `matrix_mb`; a larger one is never made."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST, engine="numpy", matrix_mb=1) as store:
            await store.open_space(space(dimension=256))
            for owner in range(10):
                records = [record(f"m{n}", drawn(n, 256), owner=f"o{owner}") for n in range(200)]
                await store.upsert("space", records=records)
            await store.upsert("space", records=[record(f"m{n}", drawn(n % 9, 256), owner="large") for n in range(900)])
            for _ in range(2):
                for owner in ("large", *(f"o{n}" for n in range(10))):
                    hits = await found(store, drawn(3, 256), scope=Scope.of_owner(owner), limit=1)
                    assert hits.hits[0].score == pytest.approx(1)
                    assert 0 <= store.engines.kept_bytes <= 1 << 20
            assert store.engines.kept_bytes > 1 << 19

    run(go())


def test_many_tasks_and_changes_at_once(tmp_path):
    """Searches while others write see every memory that was there before them, never a removed one, never a mixture."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", Settings(readers=4), engine="numpy") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record(f"stays{n}") for n in range(40)])

            async def write(worker):
                for n in range(30):
                    await store.upsert("space", records=[record(f"w{worker}-{n}"), record(f"x{worker}-{n}")])
                    await store.delete(refs(f"x{worker}-{n}"))

            async def read():
                for _ in range(40):
                    answer = await found(store, drawn(1), limit=1000)
                    ids = {hit.id for hit in answer.hits}
                    assert len(ids) == answer.compared
                    assert {f"stays{n}" for n in range(40)} <= ids

            await asyncio.gather(*(write(n) for n in range(3)), *(read() for _ in range(4)))
            answer = await found(store, drawn(1), limit=1000)
            assert {hit.id for hit in answer.hits} == {
                *(f"stays{n}" for n in range(40)), *(f"w{w}-{n}" for w in range(3) for n in range(30)),
            }  # fmt: skip

    run(go())


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, *_):
        if name in sys.argv[2].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in sys.argv[2].split(",") else real(name, *rest)
import asyncio
from datetime import UTC, datetime
from memspine.contracts import EmbeddingIdentity, Space, VectorRecord
from memspine.model import MemoryFilter, Scope
from memspine_sqlite.database import Database
from memspine_sqlite.engines import Engines
from memspine_sqlite.store import SQLiteVectors
from pathlib import Path
from array import array
NOW = datetime(2026, 1, 2, tzinfo=UTC)

async def main():
    async with Database(Path(sys.argv[1])) as database:
        store = SQLiteVectors(database, Engines())
        identity = EmbeddingIdentity(plugin="p", model="m", revision="r", dimension=8)
        await store.open_space(Space(id="s", identity=identity, used_at=NOW, quantisation=sys.argv[3]))
        records = [
            VectorRecord(id=f"m{n}", owner="alice", chunk=0, revision=1, session="", type="factual", created_at=NOW,
                         expires_at=None, vector=array("f", [1, n, *[0] * 6]).tobytes()) for n in range(5)]
        await store.upsert("s", records=records)
        for _ in range(2):
            answer = await store.search("s", vector=array("f", [1, *[0] * 7]).tobytes(), scope=Scope.of_owner("alice"),
                                        filter=MemoryFilter(), now=NOW, limit=3)
        health = await store.health(deep=True)
        print([hit.id for hit in answer.hits], health.ok, health.facts["compared with"])
        print(health.facts["sqlite-vec"], health.facts["numpy"], [f.level for f in health.findings])

asyncio.run(main())
"""


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize(
    ("absent", "engine", "level"),
    [
        ("sqlite_vec", "numpy", "info"),
        ("numpy", "sqlite-vec", "info"),
        ("numpy,sqlite_vec", "python", "warning"),
    ],
)
def test_what_is_not_installed_is_done_without(tmp_path, absent, engine, level, quantisation):
    """Without sqlite-vec, without numpy and without both the answer is the same, and health says what is missing."""
    found_line, facts = child(WITHOUT, tmp_path / "store.db", absent, quantisation).splitlines()
    assert found_line == f"['m0', 'm1', 'm2'] True {engine}"
    for name in absent.split(","):
        assert f"{name.replace('_', '-')} is not installed" in facts
    assert f"['{level}']" in facts


@pytest.mark.parametrize(
    ("wrong", "said"), [("version", "is not one that this release knows"), ("path", "cannot be loaded")]
)
def test_an_extension_that_is_no_use(tmp_path, monkeypatch, wrong, said):
    """sqlite-vec of another version, or one that cannot be loaded, is not used, and health says why."""
    if wrong == "path":
        monkeypatch.setattr(engines, "extension_path", lambda: tmp_path / "nowhere")
    else:
        monkeypatch.setattr(engines, "_VERSION", "v9.")

    async def go():
        async with opened_vectors(tmp_path / "store.db", engine="sqlite-vec") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record("a")])
            assert [hit.id for hit in (await found(store, drawn(1))).hits] == ["a"]
            health = await store.health()
            assert health.ok
            assert health.facts["compared with"] == "python"
            assert said in health.facts["sqlite-vec"]
            (finding,) = health.findings
            assert finding.level == "warning"
            assert "slow" in finding.text

    run(go())


def test_nothing_heavy_is_imported_before_it_is_needed(tmp_path):
    """Neither the plugin nor an opened store imports numpy or sqlite-vec; a first question does without numpy."""
    code = WITHOUT.replace("for _ in range(2)", "for _ in range(1)").replace(
        "        print([hit.id", "        print('numpy' in sys.modules)\n        print([hit.id"
    )
    assert child(code, tmp_path / "store.db", "nothing", "none").splitlines()[0] == "False"
    loaded = child("import sys, memspine_sqlite.plugin, memspine_sqlite.store; print(*sys.modules)").split()
    assert not {"numpy", "sqlite_vec"} & set(loaded)


def test_scores_are_not_moved_by_what_is_asked_in_addition(tmp_path):
    """`also`, the limit and the engine that happens to answer change neither scores nor numbers."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record(f"m{n}") for n in range(200)])
            first = await found(store, drawn("q"), limit=5)
            second = await found(store, drawn("q"), limit=20, also=refs("m3", "m9"))
            assert second.hits[:5] == first.hits
            assert second.compared == first.compared == 200

    run(go())
