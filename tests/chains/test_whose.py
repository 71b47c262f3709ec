"""Whose a journal is, and whose a replica: no store gets what waits for another."""

import sqlite3
from functools import partial

import pytest

from memspine import MemoryManager
from memspine.chain.journals import chain_journal
from memspine.config import config_from_mapping
from memspine.conformance.clauses import clause
from memspine.errors import JournalError, NotFoundError
from memspine.journal import Journal, Whose, entries, replicas
from memspine.plugins import Plugins

BROKEN = b"no database at all " * 100


class Place:
    """A folder with a configuration of a primary in SQLite, which can be taken down, and of replicas."""

    def __init__(self, folder, *, data, journal=None, file="notes.db", name="notes", **replicas):
        self.folder, self.file = folder, folder / file
        self.folder.mkdir(exist_ok=True)
        tables = {"plugin": "sqlite", "replicate": True}
        backends = {name: {"plugin": "sqlite", "path": file}}
        backends |= {replica: {**tables, "path": path} for replica, path in replicas.items()}
        mapping = {
            "memory": {"primary": name, "fallbacks": list(replicas), "on_write_failure": "spool"},
            "backends": backends,
            "embedding": {"source": "none"},
            "vectors": {"enabled": False},
        }
        if journal is not None:
            mapping["journal"] = {"path": str(journal)}
        self.config = config_from_mapping(mapping, plugins=Plugins(), folder=folder, data_folder=data)

    @property
    def journal(self):
        return chain_journal(self.config).path

    def open(self):
        return MemoryManager(self.config, background=False)

    def down(self):
        self.file.write_bytes(BROKEN)

    def up(self):
        self.file.unlink()


async def waiting(place, id="a", content="secret of the first"):
    """Have a write wait in the journal of a place."""
    place.down()
    async with place.open() as memory:
        assert (await memory.create(content, id=id)).pending
    place.up()


async def contents(place):
    async with place.open() as memory:
        return {one.id: one.content for one in (await memory.list()).memories}


@clause("CH-81", "CH-87")
async def test_two_stores_that_name_one_journal(tmp_path):
    """Of two configurations with equal names and one journal's path, but two files of memories, the second is refused
    with both files, and what waits goes into the first alone."""
    places = [Place(tmp_path / name, data=tmp_path, journal=tmp_path / "waiting.journal") for name in ("one", "other")]
    await waiting(places[0])
    async with places[1].open() as memory:
        for call in (memory.maintain(["deliver"]), memory.journal_entries(), memory.create("mine", id="b")):
            with pytest.raises(JournalError) as caught:
                await call
            assert all(str(place.file) in str(caught.value) for place in places)
            assert "`memspine journal adopt`" in str(caught.value)
    async with places[0].open() as memory:
        assert (await memory.maintain(["deliver"])).executed == 1
    assert await contents(places[0]) == {"a": "secret of the first"}
    async with places[1].open() as memory:
        with pytest.raises(NotFoundError):
            await memory.get("a")


@clause("CH-88")
async def test_a_configuration_that_is_moved_finds_its_journal(tmp_path):
    """What waits for a store is done from wherever a configuration names it."""
    first = Place(tmp_path / "one", data=tmp_path)
    await waiting(first)
    second = Place(tmp_path / "other", data=tmp_path, file=str(first.file))
    assert second.journal == first.journal
    async with second.open() as memory:
        assert (await memory.maintain(["deliver"])).executed == 1
    assert await contents(second) == {"a": "secret of the first"}


@clause("CH-88")
def test_two_stores_have_two_journals(tmp_path):
    """Two stores of one name have each a journal in the data folder."""
    one, other = Place(tmp_path / "one", data=tmp_path), Place(tmp_path / "other", data=tmp_path)
    assert one.journal != other.journal
    assert one.journal.parent == other.journal.parent == tmp_path / "journals"


@clause("CH-87")
async def test_a_journal_is_adopted(tmp_path):
    """After a store was moved its journal is adopted: it is told whose it was and what waits, nothing is done without
    consent, then what waits goes in, and the process that still has the old place is kept out."""
    old = Place(tmp_path / "one", data=tmp_path, journal=tmp_path / "waiting.journal")
    new = Place(tmp_path / "other", data=tmp_path, journal=tmp_path / "waiting.journal")
    await waiting(old)
    async with old.open() as before, new.open() as memory:
        assert len(await before.journal_entries()) == 1
        told = await memory.adopt_journal()
        assert (str(old.file) in told.owner, str(new.file) in told.new_owner) == (True, True)
        assert (told.path, told.writes, told.deliveries) == (old.journal, 1, 0)
        with pytest.raises(JournalError, match="belongs to the chain"):
            await memory.journal_entries()
        assert await memory.adopt_journal(dry_run=False) == told
        assert (await memory.adopt_journal()).owner == ""
        for call in (before.journal_entries(), before.maintain(["deliver"])):
            with pytest.raises(JournalError, match="belongs to the chain"):
                await call
        assert (await memory.maintain(["deliver"])).executed == 1
    assert await contents(new) == {"a": "secret of the first"}


@clause("CH-87")
async def test_what_cannot_be_adopted(tmp_path):
    """A journal that is not there, is none, or is being worked off is not adopted, and stays as it is."""
    old = Place(tmp_path / "one", data=tmp_path, journal=tmp_path / "waiting.journal")
    new = Place(tmp_path / "other", data=tmp_path, journal=tmp_path / "waiting.journal")
    async with new.open() as memory:
        with pytest.raises(JournalError, match="there is no such file"):
            await memory.adopt_journal(dry_run=False)
        assert not new.journal.exists()
        await waiting(old)
        working = chain_journal(old.config)
        async with working.held("execute"):
            with pytest.raises(JournalError, match="another process is executing"):
                await memory.adopt_journal(dry_run=False)
        assert len(await working.read(lambda connection: connection.execute("SELECT * FROM entries").fetchall())) == 1
        await working.close()
        new.journal.write_bytes(BROKEN)
        with pytest.raises(JournalError, match="not a database"):
            await memory.adopt_journal(dry_run=False)
        assert new.journal.read_bytes() == BROKEN


@clause("CH-91")
async def test_status_names_what_waits_in_other_journals(tmp_path):
    """A journal in the data folder is a problem while something stands in it if its primary is the same store, and a
    note if it has the same name; one of another, an empty one and our own are not told. None is changed or made."""
    here = Place(tmp_path / "here", data=tmp_path)
    async with here.open() as memory:
        assert (await memory.status()).problems == ()
    assert not (tmp_path / "journals").exists()
    moved = Place(tmp_path / "there", data=tmp_path)
    renamed = Place(tmp_path / "here", data=tmp_path, name="memories")
    stranger = Place(tmp_path / "elsewhere", data=tmp_path, name="others")
    idle = Place(tmp_path / "idle", data=tmp_path)
    for place in (here, moved, renamed, stranger, idle):
        await waiting(place)
    async with idle.open() as memory:
        await memory.maintain(["deliver"])
    files = {file: file.read_bytes() for file in (tmp_path / "journals").iterdir()}
    async with here.open() as memory:
        status = await memory.status()
    ((problem,), (note,)) = status.problems, status.notes
    for place, line in ((renamed, problem), (moved, note)):
        assert line.startswith(
            f"journal: another journal, {place.journal}, holds 1 writes and 0 deliveries of primary "
        )
        assert str(place.file) in line
        assert "`[journal] path` and run `memspine journal adopt`" in line
    assert ("if that is this store" in note, "if that is this store" in problem) == (True, False)
    assert {file: file.read_bytes() for file in (tmp_path / "journals").iterdir()} == files


@clause("CH-91")
async def test_status_with_another_journal_that_only_tells_what_was_done(tmp_path):
    """A journal in which nothing but renamed writes stands is not told: they are done; nor does adopting count them."""
    there = Place(tmp_path / "there", data=tmp_path)
    async with there.open() as memory:
        await memory.create("one", id="a", key="k")
    there.file.rename(tmp_path / "aside.db")
    there.down()
    async with there.open() as memory:
        assert (await memory.create("two", id="b", key="k")).pending
    (tmp_path / "aside.db").rename(there.file)
    async with there.open() as memory:
        await memory.maintain(["deliver"])
        assert [entry.state for entry in await memory.journal_entries()] == ["renamed"]
        assert (await memory.adopt_journal()).writes == 0
    async with Place(tmp_path / "here", data=tmp_path).open() as memory:
        assert (await memory.status()).notes == ()


@clause("CH-91")
async def test_status_with_other_journals_that_cannot_be_read(tmp_path):
    """One that is broken or locked is told if its name says that it may be ours; folders, empty files and links that
    lead nowhere are left alone."""
    here = Place(tmp_path / "here", data=tmp_path, journal=tmp_path / "waiting.journal")
    there = Place(tmp_path / "there", data=tmp_path)
    await waiting(there)
    folder = tmp_path / "journals"
    (folder / "notes-1.db").write_bytes(BROKEN)
    (folder / "others-1.db").write_bytes(BROKEN)
    (folder / "notes-2.db").mkdir()
    (folder / "notes-3.db").write_bytes(b"")
    (folder / "notes-4.db").symlink_to("nowhere")
    locked = sqlite3.connect(there.journal, isolation_level=None)
    locked.execute("BEGIN EXCLUSIVE")
    async with here.open() as memory:
        status = await memory.status()
    locked.close()
    told = [f"journal: another journal, {file}, may hold" for file in sorted([folder / "notes-1.db", there.journal])]
    assert [line.startswith(start) for line, start in zip(status.notes, told, strict=True)] == [True, True]
    assert status.problems == ()


@clause("CH-91")
async def test_the_journal_of_the_data_folder_after_a_path_was_named(tmp_path):
    """What waits in the journal of the data folder is told when `[journal] path` names another one."""
    await waiting(Place(tmp_path / "here", data=tmp_path))
    named = Place(tmp_path / "here", data=tmp_path, journal=tmp_path / "waiting.journal")
    async with named.open() as memory:
        (line,) = (await memory.status()).problems
    assert line.endswith("; name it in `[journal] path` until they are done")


async def replica_of(place, path):
    """What the file of a replica holds."""
    return await contents(Place(place.folder, data=place.folder, file=path, name="team", journal=place.folder / "none"))


async def delivered(place):
    async with place.open() as memory:
        return await memory.maintain(["deliver"])


@clause("CH-61")
async def test_a_replica_that_gets_another_place(tmp_path):
    """A replica whose name stays while its file is another is told as a new one, and gets all that there is, with its
    history."""
    old, new = (Place(tmp_path / "here", data=tmp_path, team=path) for path in ("team.db", "other.db"))
    async with old.open() as memory:
        await memory.create("one", id="a")
        await memory.create("two", id="b")
    await delivered(old)
    async with old.open() as memory:
        await memory.update("b", content="three")
    await delivered(old)
    async with new.open() as memory:
        status = await memory.status()
        assert status.backends[1].replica.stage == "new"
        assert "team: is another store than before: it is copied from the start" in "\n".join(status.problems)
        report = await memory.maintain(["deliver"])
        assert (report.delivered, report.complete) == (3, True)
        assert len(report.troubles) == 1
        assert (await memory.maintain(["deliver"])).troubles == ()
        assert (await memory.status()).problems == ()
    assert await replica_of(new, "other.db") == {"a": "one", "b": "three"}


@clause("CH-61")
async def test_a_replica_that_was_moved_misses_no_deletion(tmp_path):
    """A replica's file that is moved gets what was changed and deleted meanwhile, and nothing is in conflict."""
    old, new = (Place(tmp_path / "here", data=tmp_path, team=path) for path in ("team.db", "other.db"))
    async with old.open() as memory:
        for id in "abc":
            await memory.create(id, id=id)
    await delivered(old)
    async with old.open() as memory:
        await memory.delete("a")
        await memory.update("b", content="new")
    (old.folder / "team.db").rename(old.folder / "other.db")
    await delivered(new)
    async with new.open() as memory:
        assert await memory.journal_entries() == ()
    assert await replica_of(new, "other.db") == {"b": "new", "c": "c"}


@clause("CH-61")
async def test_what_was_set_aside_for_another_replica(tmp_path):
    """Conflicts and pauses of the other store are gone, and what is to be erased is erased in the new one."""
    old, new = (Place(tmp_path / "here", data=tmp_path, team=path) for path in ("team.db", "other.db"))
    async with old.open() as memory:
        await memory.create("one", id="a")
        await memory.create("two", id="b")
    await delivered(old)
    alone = Place(old.folder, data=old.folder, file="team.db", name="team", journal=old.folder / "none")
    async with alone.open() as memory:
        await memory.update("a", content="theirs")
    async with old.open() as memory:
        await memory.update("a", content="ours")
    await delivered(old)
    (old.folder / "team.db").rename(old.folder / "gone.db")
    (old.folder / "team.db").write_bytes(BROKEN)
    async with old.open() as memory:
        await memory.purge(["b"])
        await memory.maintain(["deliver"])
        assert {(one.id, one.state, one.operation) for one in await memory.journal_entries()} == {
            ("a", "conflict", "put"),
            ("b", "pending", "purge"),
        }
    await delivered(new)
    async with new.open() as memory:
        assert await memory.journal_entries() == ()
    assert await replica_of(new, "other.db") == {"a": "ours"}


@clause("CH-57", "CH-61")
async def test_another_replica_in_place_of_one_that_was_left_behind(tmp_path):
    """It stays left behind, because it may be the same one, moved; what had to be erased and was given up is tried
    again."""
    one = Journal(tmp_path / "waiting.journal", whose=Whose(primary="notes", plugin="sqlite"))
    await one.write(partial(replicas.note_store, replica="team", store="a"))
    await one.write(partial(replicas.move, replica="team", stage="left behind", cursor=None))
    await one.write(partial(entries.ask_purge, replica="team", owner="me", ids=["a"], now=0))
    await one.write(partial(entries.give_up_purges, replica="team", error="it cannot"))
    await one.write(partial(replicas.note_store, replica="team", store="b"))
    position = await one.read(partial(replicas.position, replica="team"))
    assert (position.stage, position.store) == ("left behind", "b")
    assert await one.read(partial(entries.purges, replica="team")) == [("me", "a")]
    await one.close()


@clause("CH-61")
async def test_a_replica_that_comes_back_after_another(tmp_path):
    """A replica's file that had the name before another did loses what was deleted in between, and keeps what nothing
    says to be deleted."""
    old, new = (Place(tmp_path / "here", data=tmp_path, team=path) for path in ("team.db", "other.db"))
    async with old.open() as memory:
        for id in "ab":
            await memory.create(id, id=id)
    await delivered(old)
    await delivered(new)
    async with new.open() as memory:
        await memory.delete("a")
    await delivered(new)
    await delivered(old)
    async with old.open() as memory:
        status = await memory.status()
        assert (status.problems, status.backends[1].replica.behind) == ((), 0)
        assert await memory.journal_entries() == ()
    assert await replica_of(old, "team.db") == {"b": "b"}
