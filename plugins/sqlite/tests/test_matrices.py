from contextlib import contextmanager

import pytest

from memspine_sqlite import engines, matrix, nearest
from memspine_sqlite.connections import Settings, connect_reader, reading
from memspine_sqlite.transactions import Transaction

from .tools import ALICE, ALL, BOB, START, run
from .vectors import QUANTISATIONS, drawn, found, opened_vectors, record, refs, same, space

nearest_in_matrix = matrix.nearest
FAST = Settings(synchronous="OFF")


@contextmanager
def snapshot(store):
    """Asks what the store holds now, whatever is written meanwhile."""
    connection = connect_reader(store.database.path, FAST)
    try:
        with reading(connection):
            transaction = Transaction(connection=connection, backend="test", tokens=None)
            nearest.spaces.layout(transaction, "space")

            def ask(comparer):
                return nearest.search(
                    transaction, "space", vector=drawn("q"), scope=ALICE, filter=ALL, now=START, limit=4,
                    also=refs("stays", "replaced", "removed", "added"), comparer=comparer,
                )  # fmt: skip

            yield ask
    finally:
        connection.close()


async def change(store):
    """A memory in a session of which there was none, one replaced, one removed; then the matrix knows of all of it."""
    await store.upsert("space", records=[record("added", drawn("q"), session="new", chunk=n) for n in range(2)])
    await store.upsert("space", records=[record("replaced", drawn("q"), session="new", revision=2)])
    await store.delete(refs("removed"))
    assert (await found(store, drawn("q"), limit=0)).compared == 12


async def filled(store, quantisation="none"):
    """A store that has been asked, so that it keeps a matrix."""
    await store.open_space(space(quantisation=quantisation))
    names = ("stays", "replaced", "removed", *(f"m{n}" for n in range(9)))
    await store.upsert("space", records=[record(name, session="old") for name in names])
    await found(store, drawn("q"))


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize("others", ["sqlite-vec", "python"])
def test_an_older_snapshot_beside_a_newer_matrix(tmp_path, monkeypatch, quantisation, others):
    """A question is answered from its own snapshot, also where a later one has brought the matrix further."""
    if others == "python":
        monkeypatch.setattr(engines, "extension_path", lambda: None)

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST, engine="numpy") as store:
            await filled(store, quantisation)
            with snapshot(store) as ask:
                expected = ask(engines.Engines("python"))
                await change(store)
                same(ask(store.engines), expected)
                assert "removed" in {hit.id for hit in (*expected.hits, *expected.others)}
            assert store.engines.kept_bytes > 0
            assert [hit.id for hit in (await found(store, drawn("q"), limit=2)).hits] == ["added", "replaced"]

    run(go())


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_a_matrix_that_is_brought_up_while_it_is_read(tmp_path, monkeypatch, quantisation):
    """What a question has begun to read stays as it was while another one brings the matrix up."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST, engine="numpy") as store:
            await filled(store, quantisation)
            with snapshot(store) as ask:
                begun = []
                with monkeypatch.context() as patch:
                    patch.setattr(matrix, "nearest", lambda *asked: begun.append(asked) or nearest_in_matrix(*asked))
                    ask(store.engines)
                ((connection, view, question),) = begun
                before = nearest_in_matrix(connection, view, question)
                await change(store)
                after = nearest_in_matrix(connection, view, question)
                assert {chunk.id for chunk in after.also} == {"stays", "replaced", "removed"}
                for said, expected in ((after.best, before.best), (after.also, before.also)):
                    assert sorted(said) == sorted(expected)
                assert after.compared == before.compared

    run(go())


def test_nothing_of_a_dropped_space_is_kept(tmp_path):
    """Dropping a space frees the memory of its matrices and of no other, also where a question began before."""

    async def go():
        async with opened_vectors(tmp_path / "store.db", FAST, engine="numpy") as store:
            await store.open_space(space("other"))
            await store.upsert("other", records=[record("m", owner=owner) for owner in ("alice", "bob")])
            for scope in (ALICE, BOB):
                await found(store, drawn("q"), space_id="other", scope=scope)
            kept = store.engines.kept_bytes
            await filled(store)
            assert store.engines.kept_bytes > kept > 0
            with snapshot(store) as ask:
                expected = ask(engines.Engines("python"))
                await store.drop_space("space")
                assert store.engines.kept_bytes == kept
                same(ask(store.engines), expected)
                assert store.engines.kept_bytes == kept
            await filled(store)
            assert store.engines.kept_bytes > kept

    run(go())
