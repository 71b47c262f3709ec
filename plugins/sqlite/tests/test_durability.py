import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memspine.errors import BackendError, BackendUnavailable
from memspine.model import MemoryChanges, NewMemory, SearchQuery
from memspine_sqlite.connections import Settings

from .powercut import PowerCut
from .tools import ALICE, EVERYONE, START, add, at, chance, child, ids_of, opened, run, value, writer_of

# Creates memories one after the other and says which are stored: the owner, how many, the file.
WRITER = """
import asyncio, sys
from pathlib import Path
from memspine.model import NewMemory, Scope
from memspine.times import now
from memspine_sqlite.backend import SQLiteBackend
from memspine_sqlite.database import Database

async def main(path, name, count):
    async with Database(Path(path)) as database:
        store = SQLiteBackend(database)
        for number in range(count):
            id = f"{name}-{number}"
            new = NewMemory(content=f"walnut {id}", key=f"key {id}")
            await store.create(new, scope=Scope.of_owner("alice"), id=id, now=now())
            print(id, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def work(store, vfs, *, count):
    """Creates, updates and deletes; each is acknowledged once the store has said so."""
    for number in range(count):
        id = f"m{number}"
        await add(store, id, f"walnut {number} " + "x" * (number % 5 * 3000), key=f"key {number}")
        vfs.acknowledged.append((id, 1))
        if number % 3 == 0:
            await store.update(id, MemoryChanges(content=f"almond {number}"), scope=ALICE, now=at(1))
            vfs.acknowledged.append((id, 2))
        if number % 7 == 0:
            await store.delete(id, scope=ALICE, now=at(2))
            vfs.acknowledged.append((id, 0))


async def lost(folder, files, steps, *, count):
    """Which acknowledged states are missing after a power cut; the store has to be sound in any case.

    `count` of the steps were acknowledged. The one after them was under way, and may have been stored or not.
    """
    folder.mkdir()
    for name, data in files.items():
        (folder / Path(name).name).write_bytes(data)
    expected, possible = dict(steps[:count]), dict(steps[: count + 1])
    async with opened(folder / "store.db") as store:
        health = await store.health(deep=True)
        assert health.ok, health.detail
        found = await store.get_many(list(possible), scope=ALICE, now=at(3))
        states = {id: found[id].revision if id in found else 0 for id in possible}
        return [id for id in expected if states[id] not in {expected[id], possible[id]}]


def cuts(folder, *, synchronous, count):
    """The images of a run, each a moment at which the power may fail."""
    vfs = PowerCut(f"powercut-{synchronous}")

    async def go():
        settings = Settings(vfs=vfs.name, synchronous=synchronous)
        async with opened(folder / "store.db", settings) as store:
            writer_of(store).wal_autocheckpoint(200)
            await work(store, vfs, count=count)
            vfs.cut()

    folder.mkdir()
    run(go())
    return vfs


def test_a_power_cut_loses_nothing_acknowledged(tmp_path):
    """Whenever the power fails, every acknowledged write is there afterwards and the store is sound."""
    vfs = cuts(tmp_path / "run", synchronous="FULL", count=40)
    assert len(vfs.images) > 150
    for number, (files, count) in enumerate(vfs.images):
        assert run(lost(tmp_path / str(number), files, vfs.acknowledged, count=count)) == [], f"at moment {number}"


def test_the_power_cut_would_show_a_loss(tmp_path):
    """Without synchronous = FULL the same test does lose writes, so that it can be believed."""
    vfs = cuts(tmp_path / "run", synchronous="OFF", count=10)
    files, count = vfs.images[-2]
    assert count == len(vfs.acknowledged)
    assert run(lost(tmp_path / "after", files, vfs.acknowledged, count=count)) != []


def test_many_processes_lose_no_write(tmp_path):
    """Four processes that write at the same time store everything, without an error."""
    path = tmp_path / "store.db"
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, f"p{n}", "500"], stdout=subprocess.DEVNULL)
        for n in range(4)
    ]
    assert [process.wait() for process in processes] == [0] * 4

    async def look():
        async with opened(path) as store:
            return len(await ids_of(store, now=at(10**9))), (await store.health(deep=True)).ok

    assert run(look()) == (2000, True)


def test_a_killed_process_loses_nothing_acknowledged(tmp_path):
    """After kill -9 in the middle of writing, twenty times, every acknowledged memory is there."""
    path, acknowledged, choice = tmp_path / "store.db", [], chance(3)
    for turn in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, f"t{turn}", "1000"], stdout=subprocess.PIPE, text=True
        )
        acknowledged.append(process.stdout.readline().strip())
        time.sleep(choice.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split("\n")
        acknowledged += [line for line in lines[:-1] if line]
        process.wait()
        process.stdout.close()

    async def look():
        async with opened(path) as store:
            health = await store.health(deep=True)
            assert health.ok, health.detail
            return set(acknowledged) - set(await ids_of(store, now=at(10**9)))

    assert len(acknowledged) > 20
    assert run(look()) == set()


def test_a_full_disk_loses_nothing(tmp_path):
    """When the disk is full a write raises BackendUnavailable, stores nothing, and works again with space."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            await add(store, "before")
            writer_of(store).execute(f"PRAGMA max_page_count = {value(store, 'PRAGMA page_count') + 2}").fetchall()
            with pytest.raises(BackendUnavailable, match="the disk is full") as caught:
                await add(store, "big", "x" * 90_000, key="k")
            assert str(tmp_path) in str(caught.value)
            assert caught.value.outcome == "none"
            assert await ids_of(store) == ["before"]
            writer_of(store).execute("PRAGMA max_page_count = 1000000").fetchall()
            await add(store, "big", "x" * 90_000, key="k")
            assert sorted(await ids_of(store)) == ["before", "big"]
            assert (await store.health(deep=True)).ok

    run(go())


FULL = """
import asyncio, resource, sys
from pathlib import Path
from memspine.errors import BackendUnavailable
from memspine.model import NewMemory, Scope
from memspine.times import now
from memspine_sqlite.backend import SQLiteBackend
from memspine_sqlite.database import Database

async def main(path):
    async with Database(Path(path)) as database:
        store = SQLiteBackend(database)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
        for number in range(500):
            try:
                new = NewMemory(content=f"walnut {number} " + "x" * 20_000)
                await store.create(new, scope=Scope.of_owner("alice"), id=f"m{number}", now=now())
            except BackendUnavailable as error:
                print("failed", error)
                break
            print(f"m{number}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.create(NewMemory(content="later"), scope=Scope.of_owner("alice"), id="later", now=now())
        print("later")

asyncio.run(main(sys.argv[1]))
"""


def test_a_file_that_cannot_grow_loses_nothing(tmp_path):
    """When the operating system refuses to let a file grow, what was acknowledged stays, and writing goes on later."""
    lines = child(FULL, tmp_path / "store.db").splitlines()
    assert [line for line in lines if line.startswith("failed")]
    acknowledged = {line for line in lines if not line.startswith("failed")}

    async def look():
        async with opened(tmp_path / "store.db") as store:
            assert (await store.health(deep=True)).ok
            return set(await ids_of(store, now=at(10**9)))

    assert acknowledged <= run(look())


def test_a_cancelled_write_is_whole_or_absent(tmp_path):
    """A batch whose caller gives up is stored as a whole or not at all, and the store goes on working."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            for turn in range(30):
                new = [NewMemory(content=f"walnut {n}") for n in range(200)]
                ids = [f"t{turn}-{n}" for n in range(200)]
                call = asyncio.create_task(store.create_many(new, scope=ALICE, ids=ids, now=START))
                await asyncio.sleep(turn / 3000)
                call.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await call
                await add(store, f"after-{turn}")
                found = await store.get_many(ids, scope=ALICE, now=START)
                assert len(found) in {0, 200}
            assert (await store.health(deep=True)).ok

    run(go())


def test_readers_see_one_state(tmp_path):
    """A call that reads several things sees all of a batch or nothing of it."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            seen = set()

            async def read():
                for _ in range(60):
                    hits = await store.search(SearchQuery(text="walnut", limit=1000), scope=ALICE, now=START)
                    seen.add(len(hits))

            async def write():
                for turn in range(5):
                    new = [NewMemory(content="walnut") for _ in range(100)]
                    await store.create_many(new, scope=ALICE, ids=[f"{turn}-{n}" for n in range(100)], now=START)

            await asyncio.gather(read(), read(), write())
            assert seen <= {0, 100, 200, 300, 400, 500}

    run(go())


FORK = """
import asyncio, os, sys, warnings
from pathlib import Path
from memspine.errors import BackendError
from memspine.model import Scope
from memspine.times import now
from memspine_sqlite.backend import SQLiteBackend
from memspine_sqlite.database import Database
warnings.simplefilter("ignore")

async def main(path):
    async with Database(Path(path)) as database:
        store = SQLiteBackend(database)
        await store.get("a", scope=Scope.of_owner("alice"), now=now())
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store.get("a", scope=Scope.of_owner("alice"), now=now()).send(None)
            except BackendError as error:
                code = 0 if "fork" in str(error) else 2
            os._exit(code)
        _, status = os.waitpid(child, 0)
        await store.get("a", scope=Scope.of_owner("alice"), now=now())
        print(os.waitstatus_to_exitcode(status))

asyncio.run(main(sys.argv[1]))
"""


def test_a_forked_process_does_not_use_the_connection(tmp_path):
    """A store that was opened before a fork raises in the child, and goes on working in the parent."""
    assert child(FORK, tmp_path / "store.db").split() == ["0"]


def test_a_store_that_stays_locked_says_so(tmp_path):
    """When another process does not let go of the write lock, a write raises after busy_timeout_seconds, unchanged."""

    async def go():
        path = tmp_path / "store.db"
        quick = Settings(busy_timeout_seconds=0.2)
        async with opened(path) as holder, opened(path, quick) as store:
            writer_of(holder).execute("BEGIN IMMEDIATE")
            with pytest.raises(BackendUnavailable, match="busy_timeout_seconds"):
                await add(store, "a")
            assert await ids_of(store) == []
            writer_of(holder).execute("ROLLBACK")
            await add(store, "a")
            assert await ids_of(store, EVERYONE) == ["a"]

    run(go())


def test_a_commit_that_may_be_stored_or_not(tmp_path):
    """When the disk fails in a commit the outcome is unknown, and repeating the call with its id is safe."""
    vfs = PowerCut("broken")

    async def go():
        async with opened(tmp_path / "store.db", Settings(vfs=vfs.name)) as store:
            await add(store, "before")
            vfs.is_broken = True
            with pytest.raises(BackendUnavailable, match="repeating the call with id 'a' is safe") as caught:
                await add(store, "a", "walnut")
            assert (caught.value.outcome, caught.value.id) == ("unknown", "a")
            vfs.is_broken = False
            await add(store, "a", "walnut")
            assert sorted(await ids_of(store)) == ["a", "before"]
            assert (await store.health(deep=True)).ok

    run(go())


def test_sqlite_errors_become_ours(tmp_path):
    """A statement that SQLite refuses raises BackendError, from the error of SQLite, and stores nothing."""

    async def go():
        async with opened(tmp_path / "store.db") as store:

            def broken(transaction):
                transaction.connection.execute("INSERT INTO owners (name) VALUES ('x')")
                transaction.connection.execute("SELECT x FROM nowhere")

            with pytest.raises(BackendError, match="refused") as caught:
                await store.database.write(broken, backend="mine")
            assert caught.value.backend == "mine"
            assert caught.value.__cause__ is not None
            assert value(store, "SELECT count(*) FROM owners") == 0

    run(go())
