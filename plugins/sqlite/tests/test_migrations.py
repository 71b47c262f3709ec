import subprocess
import sys

import apsw
import attrs
import pytest

from memspine.errors import BackendUnavailable
from memspine.model import SearchQuery
from memspine_sqlite import migrations, schema
from memspine_sqlite.connections import Settings
from memspine_sqlite.schema import STEPS, Step

from .tools import ALICE, START, add, files_with, ids_of, opened, run, writer_of

NEXT = STEPS[-1].version + 1


def add_column(connection):
    """The step after the newest."""
    connection.execute("ALTER TABLE owners ADD COLUMN note TEXT NOT NULL DEFAULT ''")


def fail(connection):
    """A step that goes wrong half way."""
    add_column(connection)
    connection.execute("SELECT x FROM nowhere")


NEWER = Settings(steps=(*STEPS, Step(NEXT, add_column)))


def version(path):
    """The version in the file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return found


async def filled(path, **fields):
    async with opened(path) as store:
        await add(store, "a", "walnut in the garden", **fields)


def test_versions_count_up():
    """Steps are numbered from 1 without a gap."""
    assert [step.version for step in STEPS] == list(range(1, len(STEPS) + 1))


def test_a_new_store_takes_every_step(tmp_path):
    """A store that is made anew has the newest version, and no copy of an older one."""

    async def go():
        async with opened(tmp_path / "store.db", NEWER) as store:
            await add(store, "a")
        assert [file.name for file in tmp_path.iterdir()] == ["store.db"]
        assert version(tmp_path / "store.db") == NEXT

    run(go())


def test_an_older_store_is_copied_and_brought_up(tmp_path):
    """Before a step is taken the store is copied beside itself; afterwards all of it is there, in both."""

    async def go():
        path = tmp_path / "store.db"
        await filled(path, key="k")
        async with opened(path, NEWER) as store:
            assert await ids_of(store) == ["a"]
            assert (await store.health(deep=True)).facts["tables"] == str(NEXT)
        copy = tmp_path / f"store.db.before-v{NEXT}.db"
        assert (version(path), version(copy)) == (NEXT, NEXT - 1)
        assert copy.stat().st_mode & 0o077 == 0
        async with opened(copy) as store:
            assert await ids_of(store) == ["a"]

    run(go())


def test_a_purge_reaches_the_copy(tmp_path):
    """What is purged after a migration is gone from the copy that the migration made as well."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path) as store:
            await add(store, "a", "qzcanaryxj in the garden")
        async with opened(path, NEWER) as store:
            assert files_with(tmp_path, "qzcanaryxj") != []
            receipt = await store.purge(["a"], scope=ALICE, now=START)
            assert any("before-v" in place.place and place.status == "erased" for place in receipt.places)
            assert files_with(tmp_path, "qzcanaryxj") == []

    run(go())


def test_a_step_that_fails_changes_nothing(tmp_path):
    """When a step fails, the store stays what it was, and opens with the version before."""

    async def go():
        path = tmp_path / "store.db"
        await filled(path)
        settings = Settings(steps=(*STEPS, Step(NEXT, fail)))
        with pytest.raises(Exception, match="nowhere"):
            async with opened(path, settings):
                pass
        assert version(path) == NEXT - 1
        async with opened(path) as store:
            assert await ids_of(store) == ["a"]
            assert (await store.health(deep=True)).ok
            receipt = await store.purge(["a"], scope=ALICE, now=START)
            assert any("before-v" in place.place and place.status == "erased" for place in receipt.places)
            assert files_with(tmp_path, "walnut") == []
            await add(store, "a")
        async with opened(path, NEWER) as store:
            assert await ids_of(store) == ["a"]

    run(go())


UPGRADE = """
import asyncio, sys
from pathlib import Path
from memspine.model import NewMemory, Scope
from memspine.times import now
from memspine_sqlite.backend import SQLiteBackend
from memspine_sqlite.connections import Settings
from memspine_sqlite.database import Database
from memspine_sqlite.schema import STEPS, Step

def slow(connection):
    import time
    connection.execute("ALTER TABLE owners ADD COLUMN note TEXT NOT NULL DEFAULT ''")
    time.sleep(0.3)

async def main(path, id):
    settings = Settings(steps=(*STEPS, Step(STEPS[-1].version + 1, slow)))
    async with Database(Path(path), settings) as database:
        await SQLiteBackend(database).create(NewMemory(content="c"), scope=Scope.of_owner("alice"), id=id, now=now())

asyncio.run(main(*sys.argv[1:]))
"""


def test_two_processes_that_migrate_at_once(tmp_path):
    """Of several processes that find an older store one brings it up, once, and the others go on with it."""
    path = tmp_path / "store.db"
    run(filled(path))
    processes = [subprocess.Popen([sys.executable, "-c", UPGRADE, path, f"m{n}"]) for n in range(3)]
    assert [process.wait() for process in processes] == [0] * 3

    async def go():
        async with opened(path, NEWER) as store:
            return sorted(await ids_of(store)), (await store.health(deep=True)).ok

    assert run(go()) == (["a", "m0", "m1", "m2"], True)
    assert len(list(tmp_path.glob("*.before-v*"))) == 1


def test_a_store_that_was_brought_up_meanwhile(tmp_path):
    """A process that still has the older version open refuses to read and write, and says to restart."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path) as old:
            await add(old, "a")
            async with opened(path, NEWER) as new:
                await add(new, "b")
            for call in (add(old, "c"), old.get("a", scope=ALICE, now=START)):
                with pytest.raises(BackendUnavailable, match="restart"):
                    await call
        async with opened(path, NEWER) as store:
            assert await ids_of(store) == ["a", "b"]

    run(go())


def test_an_index_of_an_older_analysis_is_rebuilt(tmp_path, monkeypatch):
    """When the text analysis has changed, the index, what rows say of it and the statistics are made anew."""

    async def go():
        path = tmp_path / "store.db"
        await filled(path)
        async with opened(path) as store:
            old = store.database.store("test").tokens.token(1, "walnut")
        monkeypatch.setattr(migrations.keywords, "memory_terms", lambda content, **_: ["other", *content.split()])
        newer = attrs.evolve(migrations.Format(tables=STEPS[-1].version), analysis=migrations.ANALYSIS_VERSION + 1)
        monkeypatch.setattr(migrations, "Format", Newer)
        async with opened(path) as store:
            tokens = store.database.store("test").tokens
            found = writer_of(store).execute("SELECT DISTINCT term FROM vocabulary").fetchall()
            assert (tokens.token(1, "other"),) in found
            assert len(found) == 5
            assert old == tokens.token(1, "walnut")
            hits = await store.search(SearchQuery(text="other", limit=5), scope=ALICE, now=START)
            assert [hit.memory.id for hit in hits] == ["a"]
            assert (await store.health(deep=True)).ok
            assert schema.meta(writer_of(store), "format") == newer.text
        monkeypatch.undo()
        with pytest.raises(BackendUnavailable, match="newer memspine indexed it"):
            async with opened(path):
                pass

    run(go())


class Newer(migrations.Format):
    """The format of a program with the next text analysis."""

    def __init__(self, *, tables, analysis=migrations.ANALYSIS_VERSION + 1):
        super().__init__(tables=tables, analysis=analysis)
