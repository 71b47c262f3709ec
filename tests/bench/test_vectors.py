"""The vector store alone: how long the nearest take to find, and how much room vectors take."""

import asyncio
import importlib.util
import statistics
from pathlib import Path

import apsw
import numpy as np
import pytest

from memspine import times
from memspine.contracts import EmbeddingIdentity, Space, VectorRecord
from memspine.ids import IdSource
from memspine.model import MemoryFilter, Scope

from .models import unit_vectors
from .stores import BATCH, vector_store
from .timing import milliseconds, milliseconds_of

DIMENSION = 384
COUNT = 100_000
STORED = 10_000
NEAREST = 50  # what the kernel asks for when the caller wants 10
SPACE = "measured"
RAW = {"none": 4 * DIMENSION, "int8": DIMENSION, "binary": DIMENSION // 8 + 4 * DIMENSION}
BARE = "SELECT row, vec_distance_cosine(code, ?) AS distance FROM vectors ORDER BY distance LIMIT ?"


@pytest.fixture(scope="module")
def matrix():
    """Vectors in directions by lot."""
    return unit_vectors(np.random.default_rng(1), COUNT, DIMENSION)


@pytest.fixture(scope="module")
def filled(workshop, matrix):
    """A store that holds them, all of one owner."""
    path = workshop / "nearest.db"
    asyncio.run(fill(path, matrix, owners=["me"]))
    return path


async def fill(path, vectors, *, owners, quantisation="none"):
    """Store vectors, as many of each owner."""
    identity = EmbeddingIdentity(plugin="p", model="m", revision="r", dimension=DIMENSION)
    now, ids, each = times.now(), IdSource(), len(vectors) // len(owners)
    space = Space(id=SPACE, identity=identity, quantisation=quantisation, source={"plugin": "p"}, used_at=now)
    async with vector_store(path) as store:
        await store.open_space(space)
        for start in range(0, len(vectors), BATCH):
            records = [
                VectorRecord(
                    id=ids.new(now),
                    owner=owners[n // each],
                    chunk=0,
                    revision=1,
                    session="",
                    type="factual",
                    created_at=now,
                    expires_at=None,
                    vector=vectors[n].tobytes(),
                )
                for n in range(start, min(start + BATCH, len(vectors)))
            ]
            await store.upsert(SPACE, records=records)


def test_nearest_by_matrix(bench, filled, matrix):
    """Every vector of an owner who is asked about again, beside a product with the bare matrix."""

    def beside(query):
        scores = matrix @ query
        return np.argpartition(scores, -NEAREST)[-NEAREST:]

    record(bench, "leg-numpy", "numpy", filled, beside, asked=60, baseline="matrix @ query, argpartition")


def test_nearest_by_statement(bench, filled, matrix, workshop):
    """The first question about an owner, beside the bare statement over a table of nothing but vectors."""
    connection = bare_table(workshop / "nearest-bare.db", matrix)

    def beside(query):
        return connection.execute(BARE, (query.tobytes(), NEAREST)).fetchall()

    record(bench, "leg-sqlite-vec", "sqlite-vec", filled, beside, asked=20, baseline="vec_distance_cosine, LIMIT")
    connection.close()


def record(bench, row, engine, path, beside, *, asked, baseline):
    """Ask the store and its baseline by turns."""
    spent, bare = asyncio.run(compare(path, engine, beside, asked=asked))
    measured, alone = statistics.median(spent), statistics.median(bare)
    bench.record(row, measured=measured, baseline=f"{baseline} {alone:.2f} ms", ratio=measured / alone)


async def compare(path, engine, beside, *, asked):
    spent, bare = [], []
    async with vector_store(path, engine=engine) as store:
        for turn, query in enumerate(unit_vectors(np.random.default_rng(2), asked + 3, DIMENSION)):
            work = store.search(
                SPACE,
                vector=query.tobytes(),
                scope=Scope.of_owner("me"),
                filter=MemoryFilter(),
                now=times.now(),
                limit=NEAREST,
            )
            took, alone = await milliseconds(work), milliseconds_of(lambda query=query: beside(query))
            if turn >= 3:  # the first fill caches
                spent.append(took)
                bare.append(alone)
    return spent, bare


def bare_table(path, matrix):
    """The vectors as sqlite-vec has them by itself."""
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)
    connection.load_extension(str(Path(importlib.util.find_spec("sqlite_vec").origin).with_name("vec0")))
    for pragma in ("journal_mode = WAL", "cache_size = -16384"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE TABLE vectors (row INTEGER PRIMARY KEY, code BLOB NOT NULL)")
    with connection:
        connection.executemany("INSERT INTO vectors (code) VALUES (?)", ((row.tobytes(),) for row in matrix))
    return connection


@pytest.mark.parametrize("quantisation", RAW)
def test_stored_bytes(bench, workshop, matrix, *, quantisation):
    """What 10 000 vectors add to the file of the store, beside their numbers."""
    stored = added(workshop / f"stored-{quantisation}.db", matrix[:STORED], owners=["me"], quantisation=quantisation)
    measured, raw = stored / STORED, RAW[quantisation]
    bench.record(f"bytes-{quantisation}", measured=measured, baseline=f"numbers {raw} bytes", ratio=measured / raw)


def test_stored_bytes_of_many_owners(bench, workshop, matrix):
    """What three vectors of each of 10 000 owners add to the file, beside their numbers."""
    owners = [f"owner {n}" for n in range(STORED)]
    stored = added(workshop / "stored-owners.db", matrix[: 3 * STORED], owners=owners, quantisation="none")
    raw = 3 * STORED * RAW["none"]
    bench.record("bytes-owners", measured=stored / 1e6, baseline=f"numbers {raw / 1e6:.1f} MB", ratio=stored / raw)


def added(path, vectors, *, owners, quantisation):
    """By how many bytes vectors make the file of a store larger."""
    asyncio.run(fill(path, vectors[:0], owners=owners, quantisation=quantisation))
    empty = path.stat().st_size
    asyncio.run(fill(path, vectors, owners=owners, quantisation=quantisation))
    assert not Path(f"{path}-wal").exists(), "what was written is not all in the file"
    return path.stat().st_size - empty
