"""What the tests of the vector store share: opened stores, spaces, vectors and records."""

from __future__ import annotations

import math
from array import array
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from memspine.contracts import EmbeddingIdentity, Space, VectorRecord
from memspine.model import MemoryRef
from memspine_sqlite.connections import Settings
from memspine_sqlite.database import Database
from memspine_sqlite.engines import Engines
from memspine_sqlite.store import SQLiteVectors

from .tools import ALICE, ALL, START, chance

ENGINES = ("numpy", "sqlite-vec", "python")
QUANTISATIONS = ("none", "int8", "binary")


@asynccontextmanager
async def opened_vectors(path, settings=None, *, engine="auto", matrix_mb=256):
    """A vector store on a database of its own."""
    async with Database(Path(path), settings or Settings()) as database:
        store = SQLiteVectors(database, Engines(engine, matrix_mb=matrix_mb))
        store.database = database
        yield store
        store.close()


def on(backend, *, engine="auto", matrix_mb=256):
    """A vector store on the database of a backend."""
    store = SQLiteVectors(backend.database, Engines(engine, matrix_mb=matrix_mb))
    store.database = backend.database
    return store


def space(id="space", *, dimension=8, quantisation="none"):
    """A space."""
    identity = EmbeddingIdentity(plugin="p", model="m", revision="r", dimension=dimension)
    return Space(id=id, identity=identity, quantisation=quantisation, source={"plugin": "p"}, used_at=START)


def packed(numbers):
    """Numbers as little-endian float32."""
    return array("f", numbers).tobytes()


def drawn(seed, dimension=8):
    """A vector that looks random and is always the same."""
    choice = chance(seed)
    numbers = [choice.gauss(0, 1) for _ in range(dimension)]
    length = math.hypot(*numbers)
    return packed(number / length for number in numbers)


def record(id, vector=None, *, owner="alice", chunk=0, revision=1, session="", type="factual", **fields):
    """A chunk of a memory."""
    return VectorRecord(
        id=id,
        owner=owner,
        chunk=chunk,
        revision=revision,
        session=session,
        type=type,
        created_at=fields.get("created_at", START),
        expires_at=fields.get("expires_at"),
        vector=drawn(id) if vector is None else vector,
    )


async def found(store, vector, *, space_id="space", scope=ALICE, filter=ALL, now=START, limit=10, also=()):
    """What a search gives."""
    return await store.search(space_id, vector=vector, scope=scope, filter=filter, now=now, limit=limit, also=also)


async def ids_found(store, vector, **options):
    """The ids of what a search finds, best first."""
    return [hit.id for hit in (await found(store, vector, **options)).hits]


def same(one, other):
    """Two answers say the same."""
    for left, right in ((one.hits, other.hits), (one.others, other.others)):
        assert [attrs.evolve(hit, score=0) for hit in left] == [attrs.evolve(hit, score=0) for hit in right]
        assert [hit.score for hit in left] == pytest.approx([hit.score for hit in right], abs=1e-9)
    assert one.compared == other.compared


def refs(*ids, owner="alice"):
    """Memories of one owner by their ids."""
    return [MemoryRef(owner, id) for id in ids]
