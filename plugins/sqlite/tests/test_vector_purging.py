import shutil

import pytest

from memspine.model import MemoryRef, Scope
from memspine_sqlite import erasing
from memspine_sqlite.connections import Settings

from .tools import ALICE, BOB, START, add, chance, files_with, opened, run
from .vectors import QUANTISATIONS, drawn, found, ids_found, on, opened_vectors, record, refs, space

FAST = Settings(synchronous="OFF", busy_timeout_seconds=2)
CANARY = "qzcanaryxj"


async def planted(store, choice, *, dimension):
    """Vectors of two owners in two spaces, replaced, deleted and expired; the vectors and ids of what is to go."""
    gone, names = [], []
    for number in range(400):
        is_gone = choice.random() < 0.2
        id = f"{CANARY}-{number}" if is_gone else f"m{number}"
        for space_id in ("space", "other"):
            for revision in range(1, choice.choice([2, 3])):
                vectors = [
                    drawn(f"{number} {space_id} {revision} {n}", dimension) for n in range(choice.choice([1, 3]))
                ]
                records = [
                    record(id, vector, chunk=n, revision=revision, session=f"{CANARY}-{number % 7}" if is_gone else "s")
                    for n, vector in enumerate(vectors)
                ]
                await store.upsert(space_id, records=records)
                if is_gone:
                    gone += vectors
        if is_gone:
            names.append(id)
            await store.enqueue("space", revisions={MemoryRef("alice", id): 9}, position="")
            if choice.random() < 0.2:
                await store.delete(refs(id))
        await store.upsert("space", records=[record(id, owner="bob", vector=drawn(f"bob {number}", dimension))])
    return gone, names


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_no_byte_of_a_vector_is_left_anywhere(tmp_path, quantisation):
    """After the receipt no file holds a purged vector, its id or its session; everything else is there."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            for id in ("space", "other"):
                await store.open_space(space(id, dimension=32, quantisation=quantisation))
            gone, names = await planted(store, chance(3), dimension=32)
            # The other owner's memories with the same ids would keep the names in the file.
            await store.purge(None, scope=BOB)
            before = await store.count("space", scope=ALICE, now=START)
            for start in range(0, len(names), 30):
                receipt = await store.purge(names[start : start + 30], scope=ALICE)
                assert {place.status for place in receipt.places} == {"erased"}
            assert files_with(tmp_path, CANARY) == []
            parts = [vector[8:40] for vector in gone]
            for file in tmp_path.iterdir():
                data = file.read_bytes()
                assert not any(part in data for part in parts)
            assert (await store.health(deep=True)).ok
            left = await store.count("space", scope=ALICE, now=START)
            assert before - len(names) <= left == 400 - len(names)
            assert (await store.purge(names, scope=ALICE)).memories == 0

    run(go())


def test_a_purged_owner_leaves_no_name(tmp_path):
    """In a file of its own nothing refers to a purged owner, so the name goes as well; in a shared one it is kept."""

    async def go():
        async with opened(tmp_path / "shared" / "store.db", FAST) as backend:
            store = on(backend)
            await store.open_space(space())
            for owner in (CANARY, "bob"):
                await store.upsert("space", records=[record("a", owner=owner, session=f"{CANARY} s")])
            whole = Scope.of_owner(CANARY)
            receipt = await store.purge(None, scope=whole)
            assert "owner's name" not in {place.place for place in receipt.places}
            assert files_with(tmp_path, CANARY) == [(CANARY, "store.db")], "the session of bob"
            assert (await store.purge(None, scope=BOB)).memories == 1
            assert files_with(tmp_path, CANARY) == []
            await add(backend, "a", scope=whole)
            receipt = await store.purge(None, scope=whole)
            assert ("owner's name", "kept") in {(place.place, place.status) for place in receipt.places}

    run(go())


def test_a_session_purges_its_own_vectors(tmp_path):
    """In the scope of a session only memories whose vectors lie in it are purged."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space())
            await store.upsert(
                "space", records=[record("a", session="s"), record("b", session="t"), record("c", session="s")]
            )
            await store.enqueue("space", revisions=dict.fromkeys(refs("a", "b"), 2), position="")
            inside = Scope.of_session("alice", "s")
            assert (await store.purge(["a", "b"], scope=inside)).memories == 1
            assert sorted(await ids_found(store, drawn(1))) == ["b", "c"]
            assert (await store.backlog("space", now=START)).waiting == 1
            assert (await store.purge(None, scope=inside)).memories == 1

    run(go())


class Read(list):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_a_purge_of_a_session_goes_through_the_ids_once(tmp_path):
    """What a session's purge takes grows with the ids and with what the session holds, not with one times the other."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST) as store:
            await store.open_space(space())
            names = Read(f"m{n}" for n in range(300))
            await store.upsert("space", records=[record(name, session="s") for name in names])
            names.times = 0
            assert (await store.purge(names, scope=Scope.of_session("alice", "s"))).memories == 300
            assert names.times == 1

    run(go())


def test_a_purge_reaches_vectors_in_backups(tmp_path):
    """A purge erases vectors in the copies that the store wrote, and finishes after a crash what it began."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path, FAST) as backend:
            store = on(backend)
            await store.open_space(space(dimension=32))
            await store.upsert("space", records=[record("a", drawn("a", 32)), record("b", drawn("b", 32))])
            await backend.backup(tmp_path / "copy.db")
            receipt = await store.purge(["a"], scope=ALICE)
            assert (f"backup {tmp_path / 'copy.db'}", "erased") in {(one.place, one.status) for one in receipt.places}
            assert not any(drawn("a", 32)[8:40] in file.read_bytes() for file in tmp_path.iterdir())
            await backend.database.write(
                lambda transaction: erasing.purge_vectors(transaction, ["b"], scope=ALICE), backend="test"
            )
            shutil.copytree(tmp_path, tmp_path / "after")
        async with opened_vectors(tmp_path / "after" / "store.db") as store:
            assert await ids_found(store, drawn(1, 32)) == []
        assert not any(drawn("b", 32)[8:40] in file.read_bytes() for file in (tmp_path / "after").glob("store*"))

    run(go())


def test_no_vector_is_purged_from_the_file_and_kept_in_memory(tmp_path):
    """A purge empties what is kept in memory for searching."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST, engine="numpy") as store:
            await store.open_space(space())
            await store.upsert("space", records=[record("a"), record("b")])
            await found(store, drawn(1))
            assert store.engines.kept_bytes > 0
            await store.purge(["a"], scope=ALICE)
            assert store.engines.kept_bytes == 0

    run(go())
