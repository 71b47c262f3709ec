"""The file of a journal: made, shared, refused, and what is left of it after anything."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest

from memspine.conformance.clauses import clause
from memspine.errors import JournalError
from memspine.journal import entries
from memspine.journal.schema import VERSION

from .journals import closing, enter, ids, journal, made

NOW = 1_750_000_000_000


@clause("CH-80")
async def test_a_journal_is_made_when_something_is_written(tmp_path):
    """Reading a journal that is not there finds nothing and makes nothing; writing makes it with its folder, for its
    user alone."""
    path = tmp_path / "deep" / "waiting.journal"
    one = journal(path)
    assert await ids(one) == []
    assert not path.parent.exists()
    await one.write(enter("a"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await one.close()
    assert [file.name for file in path.parent.iterdir() if file.stat().st_size] == ["waiting.journal"]


@clause("CH-80")
async def test_a_journal_that_is_removed_while_it_is_open(tmp_path):
    """What is written after the file was removed or replaced stands in the file that is there by then."""
    path = await made(tmp_path / "waiting.journal", "a")
    one = journal(path)
    assert await ids(one) == ["a"]
    path.unlink()
    assert await ids(one) == []
    await one.write(enter("b"))
    assert await ids(one) == ["b"]
    await made(tmp_path / "other", "c")
    (tmp_path / "other").replace(path)
    await one.write(enter("d"))
    await one.close()
    assert await closing(journal(path)) == ["c", "d"]


@clause("CH-83")
async def test_all_files_are_for_their_user_alone(tmp_path):
    """Whatever stands beside the journal has its rights: the file that its writes are rolled back with, and those of
    locks."""
    one = journal(tmp_path / "waiting.journal")
    async with one.held("work"):
        await one.write(enter("a"))
        assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    await one.close()


@clause("CH-83")
async def test_a_journal_that_others_could_read(tmp_path):
    """A file with wider rights is narrowed to its user when it is opened."""
    path = await made(tmp_path / "waiting.journal")
    path.chmod(0o644)
    one = journal(path)
    await one.read(lambda _: None)
    await one.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@clause("CH-83")
async def test_folders_that_are_made_for_a_journal(tmp_path):
    """Every folder that is made on the way to a new journal is for its user alone, whatever is written first."""
    for name, first in (("file", "write"), ("lock", "held")):
        one = journal(tmp_path / name / "journals" / "waiting.journal")
        if first == "write":
            await one.write(lambda _: None)
        else:
            async with one.held("work"):
                pass
        await one.close()
        assert {stat.S_IMODE(folder.stat().st_mode) for folder in (one.path.parent, tmp_path / name)} == {0o700}


def _other_database(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


def _marked(pragma, value):
    def mark(path):
        asyncio.run(made(path))
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA {pragma} = {value}")
        connection.close()

    return mark


def _cut(path):
    asyncio.run(made(path, *(f"m{n}" for n in range(50))))
    path.write_bytes(path.read_bytes()[:3000])


BAD = {
    "text": (lambda path: path.write_bytes(b"Dear diary\n" * 200), "not a database"),
    "another database": (_other_database, "a database of something else"),
    "a database with another mark": (_marked("application_id", 77), "a database of something else"),
    "a newer version": (_marked("user_version", VERSION + 1), f"has version {VERSION + 1}, not {VERSION}"),
    "cut off": (_cut, "malformed"),
    "a folder": (lambda path: path.mkdir(), "cannot be opened"),
    "behind a file": (lambda path: path.parent.write_text(""), "cannot be opened"),
}


@pytest.mark.parametrize("bad", BAD)
@clause("CH-81")
def test_a_file_that_is_no_journal_of_ours(tmp_path, bad):
    """Each is one JournalError that names the file, what is wrong with it and what to do, and the file is left as it
    was."""
    path = tmp_path / ("x/waiting.journal" if bad == "behind a file" else "waiting.journal")
    break_it, said = BAD[bad]
    break_it(path)
    before = path.read_bytes() if path.is_file() else None

    async def use():
        one = journal(path)
        # What is not there is empty to a reader.
        reads = [lambda: ids(one)] if path.exists() else []
        for call in (lambda: one.write(enter("a")), lambda: one.write(enter("b")), *reads):
            with pytest.raises(JournalError, match=said) as caught:
                await call()
            assert str(path) in str(caught.value)
            assert caught.value.advice
        await one.close()

    asyncio.run(use())
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"primary": "others"}, "of primary 'notes' (sqlite), not of primary 'others' (sqlite)"),
        ({"plugin": "http"}, "of primary 'notes' (sqlite), not of primary 'notes' (http)"),
        ({"store": "f" * 64}, "of primary 'notes' (sqlite), not of primary 'notes' (sqlite, store ffffffffffff)"),
        ({"store": "f" * 64, "place": "/a.db"}, "of primary 'notes' (sqlite), not of primary 'notes' (sqlite, /a.db)"),
    ],
    ids=["name", "plugin", "store", "place"],
)
@clause("CH-81")
async def test_a_journal_of_another_chain(tmp_path, other, said):
    """A journal whose primary has another name or plugin, or is another store, is refused with both, for reading and
    writing: what waits in it is not ours."""
    path = await made(tmp_path / "waiting.journal")
    one = journal(path, **other)
    for call in (one.write(enter("b")), ids(one)):
        with pytest.raises(JournalError, match=re.escape(f"belongs to the chain {said}; name another file")):
            await call
    await one.close()
    assert await closing(journal(path)) == ["a"]


@clause("CH-82")
async def test_a_full_disk(tmp_path):
    """On a full disk a write raises JournalError, leaves what was there, and works when there is room again."""
    path = await made(tmp_path / "waiting.journal")
    one = journal(path)
    pages = await one.read(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    await one.read(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 1}").fetchall())
    both = [("create", "me", "small", "{}"), ("create", "me", "big", "x" * 100_000)]
    with pytest.raises(JournalError, match="full; make room on the disk"):
        await one.write(partial(entries.append, writes=both, now=NOW))
    assert await ids(one) == ["a"]
    await one.write(enter("big", body="x" * 100_000))
    assert await ids(one) == ["a", "big"]
    await one.close()


CHILD = """
import asyncio, os, resource, sys
from pathlib import Path
from memspine.errors import JournalError
from memspine.journal import Journal, Whose, entries
import sqlite3, concurrent.futures.thread, random, urllib.parse

def enter(id, body=""):
    return lambda c: (entries.known(c, [1]), entries.append(c, [("create", "me", id, body)], 1))

async def main(path, what):
    journal = Journal(Path(path), whose=Whose(primary="notes", plugin="sqlite"))
    if what == "unprivileged":
        if os.geteuid() == 0:
            os.setegid(65534)
            os.seteuid(65534)
        for call in (journal.probe(), journal.write(enter("child"))):
            try:
                await call
                print("stored")
            except JournalError as error:
                print(error)
        return
    if what == "limited":
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        for n in range(500):
            try:
                await journal.write(enter(f"m{n}", "x" * 5_000))
            except JournalError as error:
                print("failed", error)
                break
            print(f"m{n}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await journal.write(enter("later"))
        print("later")
        return
    if what == "hold":
        async with journal.held("work") as is_ours:
            print(is_ours, flush=True)
            await asyncio.sleep(60)
    for n in range(100_000 if what.startswith("endless") else 40):
        await journal.write(enter(f"{what}-{n}"))
        print(f"{what}-{n}", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def child(path, what):
    return subprocess.Popen([sys.executable, "-c", CHILD, path, what], stdout=subprocess.PIPE, text=True)


def said_by(process):
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.split("\n")[:-1]


@clause("CH-82")
def test_a_file_that_cannot_grow(tmp_path):
    """When the system refuses to let the file grow, what was acknowledged stays, and writing goes on later."""
    lines = said_by(child(tmp_path / "waiting.journal", "limited"))
    failed = [line for line in lines if line.startswith("failed")]
    assert len(failed) == 1
    assert "move it away" not in failed[0]
    one = journal(tmp_path / "waiting.journal")
    found = asyncio.run(closing(one))
    assert found == [line for line in lines if not line.startswith("failed")]


@pytest.mark.parametrize(
    ("mode", "folder_mode"), [(0o400, 0o700), (0o000, 0o700), (0o600, 0o500), (None, 0o500), (0o600, 0o000)],
    ids=["read-only file", "unreadable file", "read-only folder", "no file, read-only folder", "unreadable folder"],
)  # fmt: skip
@clause("CH-81")
def test_without_rights(mode, folder_mode):
    """A journal that may not be read or written is one JournalError with its path and advice, and stays as it was; a
    probe says the same before anything is to be written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "journals"
        folder.mkdir()
        path = folder / "waiting.journal"
        if mode is not None:
            asyncio.run(made(path))
            (folder / "waiting.journal-journal").unlink()
        before = path.read_bytes() if mode is not None else None
        if os.geteuid() == 0:
            Path(name).chmod(0o711)
            for one in (folder, *folder.iterdir()):
                os.chown(one, 65534, 65534)
        if mode is not None:
            path.chmod(mode)
        folder.chmod(folder_mode)
        probed, said = said_by(child(path, "unprivileged"))
        folder.chmod(0o700)
        assert probed == said
        assert said.startswith(f"journal {path}: ")
        assert "name another file" in said
        assert (path.read_bytes() if path.exists() else None) == before


@clause("CH-84")
def test_two_processes_write_one_journal(tmp_path):
    """What several processes enter at the same time is all there, each entry with a number of its own, and each
    process's in its order."""
    path = tmp_path / "waiting.journal"
    said = [said_by(process) for process in [child(path, f"p{n}") for n in range(3)]]
    found = asyncio.run(closing(journal(path)))
    assert sorted(found) == sorted(line for lines in said for line in lines)
    assert len(found) == 120
    for lines in said:
        assert [id for id in found if id in lines] == lines


@clause("CH-84")
def test_a_dead_process_holds_nothing(tmp_path):
    """A kind of work that one process is at is refused to others, and free again when that process is killed."""
    path = tmp_path / "waiting.journal"
    process = child(path, "hold")
    assert process.stdout.readline() == "True\n"

    async def tried():
        one = journal(path)
        async with one.held("work") as is_ours, one.held("other work") as is_other_ours:
            found = (is_ours, is_other_ours)
        await one.close()
        return found

    assert asyncio.run(tried()) == (False, True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert asyncio.run(tried()) == (True, True)


@clause("CH-84")
async def test_one_process_holds_a_work_once(tmp_path):
    """Two tasks of one process are not at the same work either; it is free as soon as the first is done."""
    one, other = journal(tmp_path / "waiting.journal"), journal(tmp_path / "waiting.journal")
    async with one.held("work") as first, one.held("work") as second, other.held("work") as third:
        assert (first, second, third) == (True, False, False)
    async with other.held("work") as again:
        assert again
    await one.close()
    await other.close()


@clause("CH-84")
async def test_trying_a_work_that_is_held_takes_it_from_nobody(tmp_path):
    """However often a process tries a work that it is at, opens the journal or closes it, no other process gets in."""
    path = tmp_path / "waiting.journal"
    one, other = journal(path), journal(path)
    async with one.held("work") as is_ours, one.held("work"), other.held("work"):
        await other.write(enter("a"))
        await other.close()
        process = await asyncio.to_thread(child, path, "hold")
        said = await asyncio.to_thread(process.stdout.readline)
        process.kill()
        process.communicate()
    assert (is_ours, said) == (True, "False\n")
    await one.close()


@clause("CH-84")
async def test_what_is_kept_of_a_journal_is_what_stands_in_it(tmp_path):
    """What is asked at every turn is never older than the last write, whoever wrote, also when the file was removed or
    is locked."""
    path = tmp_path / "waiting.journal"
    one = journal(path)

    async def kept():
        return [await one.kept(entries.has_any_waiting) for _ in range(3)]

    assert await kept() == [False] * 3
    assert said_by(child(path, "p")) != []
    assert await kept() == [True] * 3
    other = journal(path)
    await other.write(lambda connection: connection.execute("DELETE FROM entries"))
    assert await kept() == [False] * 3
    locked = sqlite3.connect(path, isolation_level=None)
    for work, is_there in ((enter("a"), True), (partial(entries.erase, owner="me", ids=None), False)):
        await other.write(work)
        locked.execute("BEGIN EXCLUSIVE")
        asking = asyncio.create_task(one.kept(entries.has_any_waiting))
        await asyncio.sleep(0.1)
        locked.execute("ROLLBACK")
        assert await asking == is_there
    locked.close()
    await other.close()
    path.unlink()
    assert await kept() == [False] * 3
    await one.close()


@clause("CH-84")
async def test_what_is_written_while_it_is_asked_is_not_missed(tmp_path):
    """What another process writes between a question and the note of its answer is in the next answer."""
    path = await made(tmp_path / "waiting.journal")
    one, others = journal(path), sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def counted(connection):
        (found,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        if found == 1:
            entries.append(others, [("create", "me", "b", "{}")], NOW)
        return found

    assert [await one.kept(counted) for _ in range(3)] == [1, 2, 2]
    others.close()
    await one.close()


@clause("CH-85")
def test_kill_9_loses_nothing_acknowledged(tmp_path):
    """After kill -9 in the middle of writing, fifteen times, all that was acknowledged is there, in its order."""
    path, acknowledged = tmp_path / "waiting.journal", []
    for turn in range(15):
        process = child(path, f"endless{turn}")
        acknowledged.append(process.stdout.readline().strip())
        time.sleep(0.013 * turn)
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        acknowledged += out.split("\n")[:-1]
    found = asyncio.run(closing(journal(path)))
    assert [id for id in found if id in set(acknowledged)] == acknowledged
    assert len(found) - len(acknowledged) <= 15
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@clause("CH-31", "CH-85")
async def test_what_is_written_is_on_the_disk(tmp_path):
    """Every commit is synced, and so is the end of its rollback file: no crash of the system takes it back."""
    one = journal(await made(tmp_path / "waiting.journal"))

    def settings(connection):
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]

    assert await one.read(settings) == [2, "truncate"]
    await one.close()


@clause("CH-85")
async def test_work_that_fails_leaves_nothing(tmp_path):
    """A transaction whose work raises, or whose caller gives up, is undone or done as a whole, and the next one
    works."""
    one = journal(tmp_path / "waiting.journal")

    def broken(connection):
        entries.append(connection, [("create", "me", "half", "{}")], NOW)
        raise KeyError("half way")

    with pytest.raises(KeyError):
        await one.write(broken)
    tasks = [asyncio.create_task(one.write(enter(f"m{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await one.write(enter("last"))
    found = await ids(one)
    await one.close()
    assert "half" not in found
    assert set(found) >= {*(f"m{n}" for n in range(1, 20, 2)), "last"}
    assert len(found) == len(set(found))
