import asyncio
import shutil

import apsw
import pytest

from memspine.errors import BackendUnavailable, CursorError
from memspine_sqlite import backups
from memspine_sqlite.filesystem import sync_folder

from .tools import ALICE, EVERYONE, START, add, ids_of, opened, run, value


def test_a_backup_is_a_whole_store(tmp_path):
    """A backup made while others write opens as a store of its own that is sound and holds what was there before."""

    async def go():
        async with opened(tmp_path / "store.db") as store, opened(tmp_path / "store.db") as other:
            for number in range(50):
                await add(store, f"before{number}", f"walnut {number}", key=f"k{number}")

            async def write():
                for number in range(150):
                    await add(other, f"during{number}")

            writing = asyncio.create_task(write())
            for number in range(3):
                await store.backup(tmp_path / f"copy{number}.db")
            await writing
            assert len(await ids_of(store)) == 200
        for number in range(3):
            async with opened(tmp_path / f"copy{number}.db") as copy:
                found = await ids_of(copy)
                assert len([id for id in found if id.startswith("before")]) == 50
                assert (await copy.health(deep=True)).ok
                await add(copy, "later")
        assert {file.name for file in tmp_path.iterdir()} == {"store.db", "copy0.db", "copy1.db", "copy2.db"}

    run(go())


def test_a_backup_overwrites_nothing(tmp_path):
    """A target that is there is refused, stays as it was, and is not remembered."""

    async def go():
        (tmp_path / "there.db").write_text("mine")
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a")
            with pytest.raises(BackendUnavailable, match="never overwrites"):
                await store.backup(tmp_path / "there.db")
            assert value(store, "SELECT count(*) FROM backups") == 0
        assert (tmp_path / "there.db").read_text() == "mine"

    run(go())


def test_a_target_that_appears_meanwhile_stays(tmp_path, monkeypatch):
    """A file that appears under the name while the copy is being written is not overwritten either."""
    copy_pages = backups.copy_pages

    def copy_slowly(*arguments):
        copy_pages(*arguments)
        (tmp_path / "copy.db").write_text("mine")

    async def go():
        async with opened(tmp_path / "store.db") as store:
            monkeypatch.setattr(backups, "copy_pages", copy_slowly)
            with pytest.raises(BackendUnavailable):
                await store.backup(tmp_path / "copy.db")
        assert (tmp_path / "copy.db").read_text() == "mine"
        assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "store.db"]

    run(go())


def test_a_backup_that_fails_leaves_nothing(tmp_path, monkeypatch):
    """A copy that cannot be written leaves no file, is not remembered, and says which file and why."""

    def fail(*_):
        raise apsw.FullError("database or disk is full")

    async def go():
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a")
            with pytest.raises(BackendUnavailable, match=r"missing.*No such file"):
                await store.backup(tmp_path / "missing" / "copy.db")
            monkeypatch.setattr(backups, "copy_pages", fail)
            with pytest.raises(BackendUnavailable, match="the disk is full"):
                await store.backup(tmp_path / "copy.db")
            assert value(store, "SELECT count(*) FROM backups") == 0
            assert await ids_of(store) == ["a"]
        assert [file.name for file in tmp_path.iterdir()] == ["store.db"]

    run(go())


def test_a_backup_that_fails_forgets_no_earlier_one(tmp_path, monkeypatch):
    """Where a copy of the same name was written before and moved away, it stays on the list."""

    def fail(*_):
        raise apsw.FullError("database or disk is full")

    async def go():
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a")
            await store.backup(tmp_path / "copy.db")
            (tmp_path / "copy.db").rename(tmp_path / "moved.db")
            monkeypatch.setattr(backups, "copy_pages", fail)
            with pytest.raises(BackendUnavailable, match="the disk is full"):
                await store.backup(tmp_path / "copy.db")
            assert value(store, "SELECT path FROM backups WHERE partial = ''") == str(tmp_path / "copy.db")

    run(go())


def test_a_file_system_without_links(tmp_path, monkeypatch):
    """Where files cannot be linked, the copy still gets its name, and still overwrites nothing."""

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    async def go():
        monkeypatch.setattr(backups.os, "link", refuse)
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a")
            await store.backup(tmp_path / "copy.db")
            with pytest.raises(BackendUnavailable):
                await store.backup(tmp_path / "copy.db")
        async with opened(tmp_path / "copy.db") as copy:
            assert await ids_of(copy) == ["a"]

    run(go())


def test_a_backup_takes_the_place_of_the_store(tmp_path):
    """Restoring is putting the copy in the place of the store."""

    async def go():
        path = tmp_path / "store.db"
        async with opened(path) as store:
            await add(store, "a", "walnut")
            await store.backup(tmp_path / "copy.db")
            await store.delete("a", scope=ALICE, now=START)
        shutil.move(tmp_path / "copy.db", path)
        async with opened(path) as store:
            assert await ids_of(store) == ["a"]

    run(go())


def test_a_folder_can_be_synced(tmp_path):
    """Making a name durable works on a folder, and says what is wrong with a missing one."""
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "missing")


def test_a_cursor_ahead_of_an_older_copy_is_refused(tmp_path):
    """Where a store was replaced by an older copy of itself, a place in the feed that the copy has not reached is
    refused: whoever waited there would miss what is written next."""

    async def go():
        async with opened(tmp_path / "store.db") as store:
            await add(store, "a")
            await store.backup(tmp_path / "copy.db")
            for id in ("b", "c"):
                await add(store, id)
            cursor = (await store.changes(scope=EVERYONE, limit=10)).cursor
        async with opened(tmp_path / "copy.db") as copy:
            await add(copy, "d")
            with pytest.raises(CursorError, match="older copy"):
                await copy.changes(scope=EVERYONE, limit=10, cursor=cursor)

    run(go())
