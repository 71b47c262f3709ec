import asyncio
import contextlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest

from memspine.contracts import Capability
from memspine.errors import BackendError, BackendUnavailable, ClosedError
from memspine.model import MemoryFilter
from memspine_sqlite.backend import open_backend
from memspine_sqlite.config import SQLiteConfig, database_path
from memspine_sqlite.database import Database
from memspine_sqlite.plugin import memspine_memory_backends

from .tools import ALICE, START, add, at, child, context_of, ids_of, opened, run


def refusal(path):
    """The error that opening a path raises."""

    async def go():
        async with opened(path):
            pytest.fail("it was opened")

    with pytest.raises(BackendUnavailable) as caught:
        run(go())
    assert str(path) in str(caught.value)
    return caught.value


def test_registering_imports_no_sqlite():
    """The plugin's module imports neither apsw nor the backend."""
    code = (
        "import sys, memspine_sqlite.plugin as p; p.memspine_memory_backends(); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('apsw', 'sqlite3', 'asyncio')])"
    )
    assert child(code).strip() == "[]"


def test_the_provider_says_what_the_backend_can():
    """The provider's address leads to the backend, and it declares exactly what the backend claims."""
    (provider,) = memspine_memory_backends()
    assert provider.open == "memspine_sqlite.backend:open_backend"

    async def go(folder):
        async with context_of(folder) as context, open_backend(provider.config_type(), context) as store:
            assert store.capabilities == provider.capabilities
            assert Capability.NATIVE_HYBRID not in store.capabilities

    with tempfile.TemporaryDirectory() as folder:
        run(go(Path(folder)))


def test_where_the_file_is(tmp_path, monkeypatch):
    """No path means the data folder, `~` is the home folder, and a relative path starts at the configuration."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    async def go():
        async with context_of(tmp_path) as context:
            return [
                database_path(SQLiteConfig(path=path), context).relative_to(tmp_path).as_posix()
                for path in (None, "~/m.db", "sub/m.db", str(tmp_path / "absolute.db"))
            ]

    assert run(go()) == ["data/memspine.db", "home/m.db", "config/sub/m.db", "absolute.db"]


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("~no-such-user-here/m.db", "no home folder is known"),
        ("loop", "leads back to itself"),
        ("loop/m.db", "leads back to itself"),
        ("round/m.db", "leads back to itself"),
    ],
)
def test_a_path_that_leads_nowhere(tmp_path, path, cause):
    """A home folder of nobody and links in a circle raise one clear error with the path and what to do."""
    (tmp_path / "config").mkdir()
    for name, target in (("loop", "loop"), ("round", "trip"), ("trip", "round")):
        (tmp_path / "config" / name).symlink_to(target)

    async def go():
        async with context_of(tmp_path) as context:
            context.name = "notes"
            async with open_backend(SQLiteConfig(path=path), context):
                pytest.fail("it was opened")

    with pytest.raises(BackendUnavailable, match=f"^notes: .*{path}: .*{cause}") as caught:
        run(go())
    assert "`path`" in caught.value.advice


def test_construction_does_nothing(tmp_path):
    """Only entering touches the file system, and leaving ends every call with ClosedError."""

    async def go():
        async with context_of(tmp_path) as context:
            manager = open_backend(SQLiteConfig(), context)
            assert list(tmp_path.iterdir()) == []
            async with manager as store:
                await add(store, "a")
            for call in (
                store.get("a", scope=ALICE, now=START),
                store.health(),
                store.purge(None, scope=ALICE, now=START),
            ):
                with pytest.raises(ClosedError):
                    await call
        with pytest.raises(ClosedError):
            await store.list(MemoryFilter(), scope=ALICE, now=START, limit=1)

    run(go())


def test_a_link_to_a_store(tmp_path):
    """A store that is reached through a link is the same store, log and backups included."""
    (tmp_path / "real").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "memspine.db").symlink_to(tmp_path / "real" / "store.db")

    async def go():
        async with context_of(tmp_path) as context:
            async with open_backend(SQLiteConfig(), context) as linked:
                await add(linked, "a")
                assert (await linked.health()).facts["path"] == str(tmp_path / "real" / "store.db")
                async with open_backend(SQLiteConfig(path=str(tmp_path / "real" / "store.db")), context) as real:
                    assert await ids_of(real) == ["a"]
            assert len(context.resources) == 1
        assert [file.name for file in (tmp_path / "data").iterdir()] == ["memspine.db"]

    run(go())


def test_giving_up_while_it_opens(tmp_path):
    """A caller that gives up while a store is being opened leaves no connection behind."""

    async def go(pause):
        opening = asyncio.create_task(Database(tmp_path / "store.db").__aenter__())
        await asyncio.sleep(pause)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            database = await opening
            await database.__aexit__(None, None, None)
        assert [file.name for file in tmp_path.glob("*-wal")] == []

    for turn in range(20):
        run(go(turn / 2000))


def test_two_backends_share_one_database(tmp_path):
    """Backends of one context and one file share the writer, and closing one leaves the other open."""

    async def go():
        async with context_of(tmp_path) as context, open_backend(SQLiteConfig(), context) as first:
            async with open_backend(SQLiteConfig(), context) as second:
                assert len(context.resources) == 1
                await add(second, "a")
            with pytest.raises(ClosedError):
                await second.get("a", scope=ALICE, now=START)
            assert await ids_of(first) == ["a"]

    run(go())


def test_files_are_private(tmp_path):
    """The file, its log and the folders that had to be made are for their user alone."""

    async def go():
        path = tmp_path / "new" / "folder" / "store.db"
        async with opened(path) as store:
            await add(store, "a")
            await store.backup(path.with_name("copy.db"))
            return {file.name: stat.S_IMODE(file.stat().st_mode) for file in [*path.parent.iterdir(), path.parent]}

    before = os.umask(0)
    try:
        modes = run(go())
    finally:
        os.umask(before)
    assert modes.pop("folder") == 0o700
    assert {"store.db", "store.db-wal", "copy.db"} <= modes.keys()
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("content", [b"x", b"just some text\n" * 100, b"SQLite format 3\0short"])
def test_a_file_that_is_no_database(tmp_path, content):
    """A file of another kind is refused and not changed."""
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert "no SQLite database" in str(refusal(path))
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("pragma", ["application_id = 77", "user_version = 3", "journal_mode = WAL"])
def test_the_database_of_another_program(tmp_path, pragma):
    """A database that memspine did not make is refused and not changed."""
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    before = path.read_bytes()
    assert "another program" in str(refusal(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("place", ["header", "log"])
def test_a_newer_store(tmp_path, place):
    """A store of a newer version is refused with the versions and what to do, and not changed."""
    path = tmp_path / "store.db"

    async def make():
        async with opened(path) as store:
            await add(store, "a")

    run(make())
    connection = apsw.Connection(str(path))
    if place == "log":
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    connection.execute("PRAGMA user_version = 99")
    if place == "header":
        connection.close()
    before = path.read_bytes()
    text = str(refusal(path))
    assert "version 99" in text
    assert "upgrade memspine-sqlite" in text
    assert path.read_bytes() == before
    connection.close()


def test_a_damaged_store_says_so(tmp_path):
    """A store whose pages were overwritten raises BackendUnavailable that names the file and advises a backup."""
    path = tmp_path / "store.db"

    async def go():
        async with opened(path) as store:
            for number in range(50):
                await add(store, f"m{number}", "walnut " * 200)
        data = bytearray(path.read_bytes())
        data[8192 * 2 :] = b"\xa5" * (len(data) - 8192 * 2)
        path.write_bytes(data)
        async with opened(path) as store:
            await ids_of(store)

    with pytest.raises(BackendUnavailable, match="damaged") as caught:
        run(go())
    assert str(path) in str(caught.value)
    assert "backup" in str(caught.value)


def test_a_folder_or_a_pipe_in_its_place(tmp_path):
    """A path that is no file is refused at once, even a pipe that nobody writes into."""
    assert "not a file" in str(refusal(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in str(refusal(tmp_path / "pipe"))


def test_a_folder_that_cannot_be_made(tmp_path):
    """When a folder on the way is a file, the error names it."""
    (tmp_path / "file").touch()

    async def go():
        async with opened(tmp_path / "file" / "store.db"):
            pass

    with pytest.raises(BackendUnavailable, match="file"):
        run(go())


def test_a_folder_named_like_an_option(tmp_path):
    """Characters that mean something in URIs and SQL are ordinary in a path."""

    async def go():
        path = tmp_path / "a?b#c%20'd" / "file:m.db?mode=ro"
        async with opened(path) as store:
            await add(store, "a")
        assert path.stat().st_size > 0
        async with opened(path) as store:
            assert await ids_of(store) == ["a"]

    run(go())


# Opens a store as a user without rights, and prints what happens; root would be let in everywhere.
UNPRIVILEGED = """
import asyncio, os, sys
from pathlib import Path
from memspine.errors import BackendError
from memspine.model import NewMemory, Scope
from memspine.times import now
import memspine.text
from memspine_sqlite.backend import SQLiteBackend
from memspine_sqlite.database import Database
memspine.text.document_terms("walnut")

async def main(path):
    async with Database(Path(path)) as database:
        await SQLiteBackend(database).create(
            NewMemory(content="c"), scope=Scope.of_owner("alice"), id="x", now=now()
        )

os.umask(0o077)
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
try:
    asyncio.run(main(sys.argv[1]))
    print("stored")
except BackendError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def public_folder():
    """A folder that a user without rights can reach, with a store that belongs to that user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "stores"
        folder.mkdir()
        if os.geteuid() == 0:
            Path(name).chmod(0o711)
            os.chown(folder, 65534, 65534)
        assert child(UNPRIVILEGED, folder / "store.db").strip() == "stored"
        yield folder
        folder.chmod(0o700)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("store.db", 0o400), ("store.db", 0o000), (".", 0o500), (".", 0o000)],
    ids=["read-only file", "unreadable file", "read-only folder", "unreadable folder"],
)
def test_without_permission(public_folder, name, mode):
    """A store that cannot be read or written raises one clear error with its path, and nothing in it changes."""
    path = public_folder / "store.db"
    before = path.read_bytes()
    (public_folder / name).chmod(mode)
    said = child(UNPRIVILEGED, path)
    (public_folder / name).chmod(0o700)
    assert said.startswith("BackendUnavailable"), said
    assert str(public_folder) in said
    assert "user that memspine runs as" in said or "user memspine runs as" in said
    assert path.read_bytes() == before
    assert child(UNPRIVILEGED, path).strip() == "stored"


OPENER = """
import asyncio, sys
from pathlib import Path
from memspine.model import NewMemory, Scope
from memspine.times import now
from memspine_sqlite.backend import SQLiteBackend
from memspine_sqlite.database import Database

async def main(path, id):
    async with Database(Path(path)) as database:
        await SQLiteBackend(database).create(NewMemory(content="c"), scope=Scope.of_owner("alice"), id=id, now=now())

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_that_create_the_store_at_once(tmp_path):
    """Several processes that find no store make one together."""
    path = tmp_path / "store.db"
    processes = [subprocess.Popen([sys.executable, "-c", OPENER, path, f"m{n}"]) for n in range(4)]
    assert [process.wait() for process in processes] == [0] * 4

    async def go():
        async with opened(path) as store:
            return sorted(await ids_of(store))

    assert run(go()) == ["m0", "m1", "m2", "m3"]


def test_an_error_before_opening_ends_the_threads(tmp_path):
    """A store that cannot be opened leaves no thread behind."""
    path = tmp_path / "notes.txt"
    path.write_text("text")
    code = (
        "import asyncio, sys, threading\nfrom pathlib import Path\nfrom memspine_sqlite.database import Database\n"
        "async def go():\n"
        "    try:\n"
        "        await Database(Path(sys.argv[1])).__aenter__()\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
        "asyncio.run(go())\n"
        "print([t.name for t in threading.enumerate()])"
    )
    assert child(code, path).split("\n")[:2] == ["BackendUnavailable", "['MainThread']"]


def test_calls_from_two_event_loops(tmp_path):
    """A store serves calls of several event loops, each in its own thread."""

    async def go():
        async with opened(tmp_path / "store.db") as store:

            def elsewhere():
                asyncio.run(add(store, "b"))

            await asyncio.gather(asyncio.to_thread(elsewhere), add(store, "a"))
            assert sorted(await ids_of(store)) == ["a", "b"]

    run(go())


def test_errors_name_the_configured_store(tmp_path):
    """An error carries the name that the configuration gives the store."""

    async def go():
        async with context_of(tmp_path) as context:
            context.name = "notes"
            async with open_backend(SQLiteConfig(), context) as store:
                with pytest.raises(BackendError, match=r"^notes: ") as caught:
                    await store.delete("missing", scope=ALICE, now=START)
                assert caught.value.backend == "notes"

    run(go())


def test_opening_twice_keeps_the_locks(tmp_path):
    """Opening and closing a file once more in a process does not let go of the locks that the process has on it."""
    path = tmp_path / "store.db"

    async def go():
        async with opened(path) as store:
            await add(store, "a")
            async with opened(path) as again:
                await again.health(deep=True)
                await again.backup(tmp_path / "copy.db")
                await again.purge(["unknown"], scope=ALICE, now=START)
                await add(again, "b")
            # The last one to close a store removes its log; the other process must see that it is not the last.
            child(OPENER, path, "c")
            assert (tmp_path / "store.db-wal").exists()
            await add(store, "d")
            assert sorted(await ids_of(store, now=at(10**9))) == ["a", "b", "c", "d"]

    run(go())
