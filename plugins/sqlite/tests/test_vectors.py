import asyncio
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest

from memspine.errors import BackendUnavailable, ConflictError, NotFoundError
from memspine.model import MemoryFilter
from memspine_sqlite import engines, shelves, storing
from memspine_sqlite.config import SQLiteConfig, SQLiteVectorsConfig
from memspine_sqlite.connections import Settings
from memspine_sqlite.schema import STEPS
from memspine_sqlite.store import open_store

from .tools import (
    ALICE,
    BOB,
    START,
    add,
    at,
    chance,
    child,
    context_of,
    files_with,
    filled_at_version_1,
    opened,
    run,
    value,
    writer_of,
)
from .vectors import drawn, found, ids_found, on, opened_vectors, record, refs, space

FAST = Settings(synchronous="OFF", busy_timeout_seconds=2)
CANARY = "qzcanaryxj"


# ── one file, two stores ──


def test_backend_and_store_share_a_database(tmp_path):
    """A backend and a vector store on one path have one writer between them, and each closes for itself."""
    from memspine_sqlite.backend import open_backend

    async def go():
        async with context_of(tmp_path) as context:
            async with (
                open_backend(SQLiteConfig(), context) as backend,
                open_store(SQLiteVectorsConfig(), context) as store,
            ):
                await add(backend, "a")
                await store.open_space(space())
                await store.upsert("space", records=[record("a")])
                assert await backend.get("a", scope=ALICE, now=START) is not None
                assert await ids_found(store, drawn(1)) == ["a"]
            assert len(context.resources) == 1

    run(go())


def test_a_purge_of_the_backend_takes_the_vectors_along(tmp_path):
    """Purging memories erases their vectors in the same file too, whether or not a vector store is in use."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as backend:
            store = on(backend)
            await store.open_space(space())
            await add(backend, "a")
            await store.upsert("space", records=[record("a"), record("b")])
            receipt = await backend.purge(["a"], scope=ALICE, now=at(1))
            assert ("vectors", "erased") in {(place.place, place.status) for place in receipt.places}
            assert await ids_found(store, drawn(1)) == ["b"]
            assert not any(drawn("a") in file.read_bytes() for file in tmp_path.iterdir())

    run(go())


# ── many processes ──

OTHER = """
import asyncio, json, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from memspine.contracts import VectorRecord
from memspine.model import MemoryFilter, MemoryRef, Scope
from memspine_sqlite.database import Database
from memspine_sqlite.engines import Engines
from memspine_sqlite.store import SQLiteVectors
from array import array
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

def vector(n, dimension=8):
    return array("f", [1.0 + n % 17, *[float((n * k) % 13) for k in range(1, dimension)]]).tobytes()

def record(id, n, revision=1):
    return VectorRecord(id=id, owner="alice", chunk=0, revision=revision, session="", type="factual", created_at=NOW,
                        expires_at=None, vector=vector(n))

async def work(store, arguments):
    CODE

async def main():
    async with Database(Path(sys.argv[1])) as database:
        await work(SQLiteVectors(database, Engines("numpy")), sys.argv[2:])

asyncio.run(main())
"""


def script(code):
    """A program of another process, which does `code` with a store."""
    return OTHER.replace("    CODE", "\n".join(f"    {line}" for line in code.strip().splitlines()))


def test_what_another_process_changes_is_noticed(tmp_path):
    """A store that keeps a matrix in memory finds at once what another process added, replaced and removed."""
    path = tmp_path / "store.db"
    writing = script("""
await store.upsert("space", records=[record("added", 5), record("replaced", 6, revision=2)])
await store.delete([MemoryRef("alice", "removed")])
""")

    async def go():
        async with opened_vectors(path, engine="numpy") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record("removed"), record("replaced"), record("stays")])
            for _ in range(2):
                assert set(await ids_found(store, drawn(1))) == {"removed", "replaced", "stays"}
            await asyncio.to_thread(child, writing, path)
            answer = await found(store, drawn(1))
            assert {(hit.id, hit.revision) for hit in answer.hits} == {("added", 1), ("replaced", 2), ("stays", 1)}
            assert answer.compared == 3

    run(go())


CLAIMING = script("""
while True:
    works = await store.claim("space", holder=arguments[0], now=NOW, lease_seconds=60, limit=7)
    if not works:
        break
    print(*(work.ref.id for work in works), sep="\\n", flush=True)
""")


def test_claims_of_many_processes_are_exclusive(tmp_path):
    """Of four processes that claim at the same time no two get the same memory, and together they get all."""
    path = tmp_path / "store.db"

    async def fill():
        async with opened_vectors(path) as store:
            await store.open_space(space())
            assert (
                await store.enqueue("space", revisions=dict.fromkeys(refs(*map(str, range(700))), 1), position="")
                == 700
            )

    run(fill())
    processes = [
        subprocess.Popen([sys.executable, "-c", CLAIMING, path, f"p{n}"], stdout=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    claimed = [line for process in processes for line in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(claimed) == sorted(map(str, range(700)))


EMBEDDING = script("""
turn = int(arguments[0])
now = NOW + timedelta(seconds=100 * turn)
while works := await store.claim("space", holder=f"h{turn}", now=now, lease_seconds=60, limit=10):
    await store.upsert("space", records=[record(work.ref.id, int(work.ref.id)) for work in works])
    print(*(work.ref.id for work in works), sep="\\n", flush=True)
""")


def test_a_killed_worker_loses_its_batch_at_most(tmp_path):
    """After kill -9 in the middle of embedding, what was stored is never done again, and only one batch is repeated."""
    path = tmp_path / "store.db"
    everything = [str(n) for n in range(600)]

    async def fill():
        async with opened_vectors(path) as store:
            await store.open_space(space())
            await store.enqueue("space", revisions=dict.fromkeys(refs(*everything), 1), position="p")

    async def look():
        async with opened_vectors(path) as store:
            assert (await store.health(deep=True)).ok
            count = await store.count("space", scope=ALICE, now=START)
            return count, await store.backlog("space", now=at(100 * 6 - 1))

    run(fill())
    acknowledged, choice = [], chance(5)
    for turn in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", EMBEDDING, path, str(turn)], stdout=subprocess.PIPE, text=True
        )
        first = process.stdout.readline()
        time.sleep(choice.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        acknowledged += [line for line in (first + process.stdout.read()).split("\n")[:-1] if line]
        process.wait()
        process.stdout.close()
        count, backlog = run(look())
        assert backlog.waiting == 600 - count
        assert count >= len(acknowledged)
        assert backlog.leased == 0
    child(EMBEDDING, path, 7)
    assert len(acknowledged) == len(set(acknowledged))
    count, backlog = run(look())
    assert (count, backlog.waiting, backlog.position) == (600, 0, "p")


def test_a_full_disk_stores_nothing_of_a_batch(tmp_path):
    """When the disk is full an upsert raises BackendUnavailable, stores nothing and settles nothing."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space(dimension=256))
            await store.enqueue("space", revisions=dict.fromkeys(refs("m1"), 1), position="")
            pages = value(store, "PRAGMA page_count")
            writer_of(store).execute(f"PRAGMA max_page_count = {pages + 3}").fetchall()
            records = [record(f"m{n}", drawn(n, 256)) for n in range(100)]
            with pytest.raises(BackendUnavailable, match="the disk is full"):
                await store.upsert("space", records=records)
            assert await store.count("space", scope=ALICE, now=START) == 0
            assert (await store.backlog("space", now=START)).waiting == 1
            writer_of(store).execute("PRAGMA max_page_count = 1000000").fetchall()
            await store.upsert("space", records=records)
            assert await store.count("space", scope=ALICE, now=START) == 100
            assert (await store.health(deep=True)).ok

    run(go())


# ── migration ──


def test_a_store_without_vectors_is_brought_up(tmp_path):
    """A store of version 1 keeps its memories, gets the tables for vectors, and a purge reaches its copy as well."""

    async def go():
        path = tmp_path / "store.db"
        await filled_at_version_1(path, {"a": f"{CANARY} in the garden", "b": "walnut"})
        async with opened(path) as backend:
            store = on(backend)
            assert (await store.health(deep=True)).ok
            assert await store.spaces() == ()
            await store.open_space(space())
            await store.upsert("space", records=[record("a"), record("b")])
            assert await ids_found(store, drawn("a"), limit=1) == ["a"]
            assert (tmp_path / "store.db.before-v3.db").exists()
            for purge in (backend.purge(["a"], scope=ALICE, now=at(2)), store.purge(["a"], scope=ALICE)):
                receipt = await purge
                assert {place.status for place in receipt.places} <= {"erased", "kept"}
            assert files_with(tmp_path, CANARY) == []

    run(go())


# ── sizes ──


@pytest.mark.parametrize(
    ("quantisation", "dimension", "raw", "extra"),
    [
        ("none", 384, 4 * 384, 124),
        ("none", 256, 4 * 256, 170),
        ("none", 768, 4 * 768, 140),
        ("none", 1024, 4 * 1024, 130),
        ("none", 1536, 4 * 1536, 150),
        ("none", 3072, 4 * 3072, 170),
        ("int8", 384, 384, 110),
        ("int8", 1024, 1024, 170),
        ("binary", 384, 384 // 8 + 4 * 384, 210),
        ("binary", 1024, 1024 // 8 + 4 * 1024, 210),
    ],
)
def test_what_a_vector_takes(tmp_path, quantisation, dimension, raw, extra):
    """A vector takes little more in the file than its numbers, however many, with ids as long as a UUID."""

    async def go():
        path = tmp_path / "store.db"
        async with opened_vectors(path, FAST) as store:
            await store.open_space(space(dimension=dimension, quantisation=quantisation))
            choice, vectors = chance(1), [drawn(n, dimension) for n in range(50)]
            sizes = []
            for _ in range(2):
                records = [
                    record(f"{choice.getrandbits(128):036x}", vectors[n % 50], session=f"session {n // 40}")
                    for n in range(2000)
                ]
                await store.upsert("space", records=records)
                sizes.append(value(store, "PRAGMA page_count") * value(store, "PRAGMA page_size"))
            assert (sizes[1] - sizes[0]) / 2000 < raw + extra

    run(go())


def test_what_many_owners_take(tmp_path):
    """With three memories each, thousands of owners take less than twice the size of their vectors."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space(dimension=384))
            vectors = [drawn(n, 384) for n in range(50)]
            for start in range(0, 3000, 300):
                records = [
                    record(f"{n:036x}", vectors[n % 50], owner=f"owner {n % 1000}", session="s")
                    for n in range(start, start + 300)
                ]
                await store.upsert("space", records=records)
            size = value(store, "PRAGMA page_count") * value(store, "PRAGMA page_size")
            assert size < 2 * 3000 * 4 * 384

    run(go())


# ── details of storing ──


def test_a_memory_keeps_the_chunks_of_one_revision(tmp_path):
    """A newer revision with fewer chunks leaves none of the older; chunks of the same one may come in several calls."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record("a", drawn(n), chunk=n) for n in range(3)])
            await store.upsert("space", records=[record("a", drawn(9), chunk=1), record("a", drawn(5), chunk=4)])
            chunks = dict(writer_of(store).execute("SELECT chunk, code FROM vectors"))
            assert chunks == {0: drawn(0), 1: drawn(9), 2: drawn(2), 4: drawn(5)}
            await store.upsert("space", records=[record("a", drawn(7), revision=2), record("a", drawn(8), revision=1)])
            assert dict(writer_of(store).execute("SELECT chunk, code FROM vectors")) == {0: drawn(7)}
            await store.upsert("space", records=[record("a", drawn(8), revision=1)])
            assert (await found(store, drawn(7))).hits[0].revision == 2
            assert (await store.health(deep=True)).ok

    run(go())


def test_runs_name_exactly_the_rows(tmp_path):
    """However rows come and go, the runs of a shelf name the rows that are there and no others."""

    async def go():
        choice = chance(11)
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space())
            for turn in range(60):
                owner = choice.choice(["alice", "bob"])
                ids = [f"m{choice.randrange(40)}" for _ in range(choice.randrange(1, 12))]
                if choice.random() < 0.5:
                    records = [record(id, drawn(turn), owner=owner, revision=turn + 1) for id in dict.fromkeys(ids)]
                    await store.upsert("space", records=records)
                else:
                    await store.delete(refs(*ids, owner=owner))
                connection = writer_of(store)
                for shelf, chunks in connection.execute("SELECT number, chunks FROM shelves").fetchall():
                    runs = shelves.runs(connection, shelf)
                    named = [row for first, last in runs for row in range(first, last + 1)]
                    stored = connection.execute("SELECT row FROM vectors WHERE shelf = ? ORDER BY row", (shelf,))
                    assert named == [row for (row,) in stored]
                    assert len(named) == chunks
            assert (await store.health(deep=True)).ok

    run(go())


def test_ids_that_share_a_place_stay_apart(tmp_path, monkeypatch):
    """Ids with the same checksum are told from each other wherever a memory is looked up."""
    monkeypatch.setattr(shelves, "place", lambda *_: 7)

    async def go():
        async with opened_vectors(tmp_path / "store.db", engine="python") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record("a"), record("b"), record("a", owner="bob")])
            await store.upsert("space", records=[record("b", revision=2)])
            await store.delete(refs("a"))
            answer = await found(store, drawn(1), also=refs("a", "b"), limit=0)
            assert [(hit.id, hit.revision) for hit in answer.others] == [("b", 2)]
            assert await store.count("space", scope=BOB, now=START) == 1
            assert await store.enqueue("space", revisions=dict.fromkeys(refs("a", "b"), 2), position="") == 1

    run(go())


def test_a_dropped_space_leaves_nothing(tmp_path):
    """Dropping a space frees all of its rows; the same id made anew is another, empty space."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", engine="numpy") as store:
            await store.open_space(space())
            await store.open_space(space("other", quantisation="binary", dimension=16))
            await store.upsert("other", records=[record(f"m{n}", drawn(n, 16)) for n in range(9)])
            await store.enqueue("other", revisions=dict.fromkeys(refs("x"), 1), position="p")
            await found(store, drawn(1, 16), space_id="other")
            await store.activate("space")
            with pytest.raises(ConflictError, match="activate another space first"):
                await store.drop_space("space")
            await store.drop_space("other")
            counted = (
                "SELECT (SELECT count(*) FROM vectors) + (SELECT count(*) FROM originals) + "
                "(SELECT count(*) FROM runs) + (SELECT count(*) FROM shelves) + (SELECT count(*) FROM queue)"
            )
            assert value(store, counted) == 0
            with pytest.raises(NotFoundError):
                await found(store, drawn(1, 16), space_id="other")
            await store.open_space(space("other"))
            await store.upsert("other", records=[record("a")])
            assert await ids_found(store, drawn(1), space_id="other") == ["a"]

    run(go())


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE shelves SET chunks = chunks + 1", "do not hold as many vectors as they say"),
        ("UPDATE runs SET last = last + 1", "the runs name 3 vectors"),
        ("DELETE FROM runs", "the runs name 0 vectors"),
        ("UPDATE vectors SET code = x'00'", "not of its dimension"),
    ],
)
def test_a_deep_check_finds_damaged_vectors(tmp_path, harm, said):
    """A deep check tells when shelves, runs and vectors do not agree; a shallow one does not look."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record("a"), record("b")])
            assert (await store.health(deep=True)).ok
            writer_of(store).execute(harm)
            assert (await store.health()).ok
            health = await store.health(deep=True)
            assert not health.ok
            assert said in health.detail

    run(go())


def test_times_of_any_year(tmp_path):
    """Times long ago and far ahead are kept to the millisecond."""

    async def go():
        async with opened_vectors(tmp_path / "store.db") as store:
            await store.open_space(space())
            early, late = at(-60_000_000_000), at(200_000_000_000)
            await store.upsert(
                "space", records=[record("a", created_at=early, expires_at=late), record("b", created_at=late)]
            )
            for engine in ("numpy", "python"):
                store.engines = engines.Engines(engine)
                for limits, expected in (
                    ({"created_from": late}, ["b"]),
                    ({"created_before": late}, ["a"]),
                    ({"created_from": early, "created_before": early + timedelta(milliseconds=1)}, ["a"]),
                ):
                    assert await ids_found(store, drawn(1), filter=MemoryFilter(**limits)) == expected
            assert await store.expire(now=late, limit=5) == 1

    run(go())


def test_the_tables_of_version_two():
    """The newest version has tables for vectors, and types have numbers that do not move."""
    assert STEPS[1].version == 2
    assert storing.TYPES == ("factual", "episodic", "procedural", "semantic")
