import apsw
import attrs
import pytest

from memspine.model import GLOBAL_OWNER, KeywordQuery, MemoryChanges, MemoryRef, NewMemory, Scope
from memspine_sqlite import speakers
from memspine_sqlite.connections import Settings
from memspine_sqlite.schema import STEPS, WITH_SPEAKERS

from .tools import (
    ALICE,
    ALL,
    BOB,
    START,
    add,
    at,
    files_with,
    filled_at_version_1,
    ids_of,
    opened,
    run,
    value,
    writer_of,
)

FAST = Settings(synchronous="OFF")
ASKED = ("ann", "lee", "bob", "walnut")


async def named(store, *, scope=ALICE, now=START):
    """Those of some terms that are in a speaker's name, sorted."""
    return sorted(await store.speakers(ASKED, scope=scope, now=now))


async def lines_of(store, *ids, now=START):
    """What the index tells of some memories: the places of the speaker's terms among `ASKED`, and whether they ask."""
    query = KeywordQuery(ASKED, also=tuple(MemoryRef("alice", id) for id in ids))
    found = await store.lexical(query, scope=ALICE, filter=ALL, now=now, limit=0)
    return {match.id: (match.speaker, match.asks) for match in found.others}


def test_names_follow_every_change(tmp_path):
    """A name counts as long as one living memory of the owner has it, whichever call took it from the others."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            for id, name in {"a": "Ann Lee", "b": "Ann", "c": "Bob"}.items():
                await add(store, id, metadata={"speaker": name}, session="s", expires_at=at(9) if id == "c" else None)
            await add(store, "d", "Ann and Bob", metadata={"speaker": ["Ann"]}, scope=BOB)
            assert await named(store) == ["ann", "bob", "lee"]
            assert await named(store, scope=Scope.of_session("alice", "none")) == ["ann", "bob", "lee"]
            assert (await named(store, scope=BOB), await named(store, scope=Scope.of_owner("nobody"))) == ([], [])
            assert await named(store, now=at(9)) == ["ann", "lee"]
            await store.expire(scope=ALICE, now=at(9), limit=5)
            assert await named(store) == ["ann", "lee"]
            await store.update("a", MemoryChanges(metadata={"speaker": "Walnut"}), scope=ALICE, now=at(1))
            assert await named(store) == ["ann", "walnut"]
            await store.delete_many(ALL, scope=ALICE, now=at(2), dry_run=False)
            assert await named(store) == []
            assert value(store, "SELECT count(*) FROM speakers") == 0
            await add(store, "e", metadata={"speaker": "Lee"}, scope=Scope.of_owner(GLOBAL_OWNER))
            assert (await named(store), await named(store, scope=Scope.shared("alice"))) == ([], ["lee"])
            assert (await store.health(deep=True)).ok

    run(go())


def test_a_key_that_comes_again_replaces_the_speaker(tmp_path):
    """A memory that replaces another one, alive or expired, speaks and asks for itself alone."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", "Why?", key="k", metadata={"speaker": "Ann"}, expires_at=at(5))
            assert await lines_of(store, "a") == {"a": ((0,), True)}
            await add(store, "b", "So.", key="k", metadata={"speaker": "Lee"}, expires_at=at(5), now=at(1))
            assert (await named(store), await lines_of(store, "a")) == (["lee"], {"a": ((1,), False)})
            await add(store, "c", "Where? ", key="k", metadata={"speaker": "Bob"}, now=at(6))
            assert await named(store, now=at(6)) == ["bob"]
            assert await lines_of(store, "a", now=at(6)) == {"a": ((2,), True)}
            assert (await store.health(deep=True)).ok

    run(go())


def test_a_purge_leaves_no_name(tmp_path):
    """No name stands in the file but in the metadata of its memory, and nothing of it is left after a purge."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", metadata={"speaker": "Qzcanaryxj"})
            (token,) = writer_of(store).execute("SELECT token FROM speakers").fetchone()
            assert files_with(tmp_path, "qzcanaryxj") == []
            assert files_with(tmp_path, token) != []
            receipt = await store.purge(["a"], scope=ALICE, now=at(1))
            assert {place.status for place in receipt.places} == {"erased", "kept"}
            assert files_with(tmp_path, "Qzcanaryxj", token) == []

    run(go())


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE speakers SET memories = 7 WHERE owner = 1",
        "UPDATE speakers SET token = 'other' WHERE owner = 1",
        "DELETE FROM speakers WHERE owner = 1",
    ],
)
def test_a_deep_check_counts_the_speakers(tmp_path, damage):
    """A deep check tells of an owner whose counts of speakers do not agree with the rows."""

    async def go():
        async with opened(tmp_path / "store.db", FAST) as store:
            await add(store, "a", metadata={"speaker": "Ann"})
            await add(store, "b", metadata={"speaker": "Ann"}, scope=BOB)
            assert (await store.health(deep=True)).ok
            writer_of(store).execute(damage)
            health = await store.health(deep=True)
            assert not health.ok
            assert "counts of speakers of the owner 'alice'" in health.detail
            assert "bob" not in health.detail

    run(go())


def before_the_release(path):
    """Make a store what version 2 was before its release: without speakers, and with another index of sessions."""
    connection = apsw.Connection(str(path))
    connection.execute("ALTER TABLE memories DROP COLUMN asks; ALTER TABLE memories DROP COLUMN speaker")
    connection.execute("DROP TABLE speakers; DROP INDEX memories_session")
    connection.execute("CREATE INDEX memories_session ON memories (owner, session, created_at, id, type)")
    connection.close()


@pytest.mark.parametrize("version", ["version 1", "version 2 before its release"])
def test_an_older_store_learns_who_spoke(tmp_path, monkeypatch, version):
    """Rows of an older store get speaker, asking and counts, whatever their number, and keep their order."""
    monkeypatch.setattr(speakers, "_BATCH", 2)

    async def go():
        path = tmp_path / "store.db"
        names = ["c", "a", "d", "b", "e"]
        contents = {id: f"walnut {id}{'?' if id in 'ab' else '.'}" for id in names}
        await filled_at_version_1(path, contents, session="s", metadata={"speaker": "Ann Lee"})
        if version != "version 1":
            async with opened(path, attrs.evolve(FAST, steps=STEPS[:WITH_SPEAKERS])):
                pass
            before_the_release(path)
        async with opened(path, FAST) as store:
            assert await ids_of(store) == sorted(names)
            assert await named(store) == ["ann", "lee"]
            assert await lines_of(store, *names) == {id: ((0, 1), id in "ab") for id in names}
            query = KeywordQuery(("nothing",), also=(MemoryRef("alice", "d"),), before=2, after=2)
            found = await store.lexical(query, scope=ALICE, filter=ALL, now=START, limit=5)
            assert [(near.id, near.offset) for near in found.neighbours] == [("c", -2), ("a", -1), ("b", 1), ("e", 2)]
            assert (await store.health(deep=True)).ok
            receipt = await store.purge(["a"], scope=ALICE, now=START)
            assert {place.status for place in receipt.places} <= {"erased", "kept"}
            assert files_with(tmp_path, "walnut a") == []
            await store.create_many([NewMemory(content="x")], scope=ALICE, ids=["a"], now=START)
        async with opened(path, FAST) as store:
            assert (await store.health(deep=True)).ok

    run(go())
